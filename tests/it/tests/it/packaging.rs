//! What a published crate contains.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn files_of(package: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "-p", package])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The runtime's package contains every migration of its directory, and the table in the code has them in the same order.
#[test]
fn the_package_contains_every_migration_and_the_code_runs_them_all() {
    let directory = root().join("outbox-runtime/migrations/postgres");
    let mut on_disk: Vec<String> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    on_disk.sort();
    let in_code: Vec<String> =
        outbox::migrations::sql().iter().map(|script| format!("{:04}_{}.sql", script.version, script.name)).collect();
    assert_eq!(on_disk, in_code);
    for script in outbox::migrations::sql() {
        let file = directory.join(format!("{:04}_{}.sql", script.version, script.name));
        assert_eq!(std::fs::read_to_string(file).unwrap(), script.sql);
    }
    let packaged = files_of("outbox-runtime");
    for file in on_disk {
        assert!(
            packaged.contains(&format!("migrations/postgres/{file}")),
            "{file} is not in the package: {packaged:?}"
        );
    }
    assert!(packaged.iter().any(|file| file == "LICENSE-MIT") && packaged.iter().any(|file| file == "LICENSE-APACHE"));
    for package in ["outbox", "outbox-macros"] {
        let files = files_of(package);
        assert!(files.iter().any(|file| file == "src/lib.rs"), "{files:?}");
        assert!(!files.iter().any(|file| file.starts_with("tests/")), "{files:?}");
    }
}
