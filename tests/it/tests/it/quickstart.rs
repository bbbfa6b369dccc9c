//! The first program that a newcomer runs, run as he runs it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use outbox_it::Process;

const LAST_LINE: &str = "orders=90 reservations=90 lost=0 doubled=0";

/// `cargo build --example quickstart`, as the README's command does it: with the root package's own features and nothing else.
fn build() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let profile = std::env::current_exe().unwrap().ancestors().nth(2).expect("a target folder").to_owned();
    let target = profile.parent().expect("a target folder").to_owned();
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(["build", "--quiet", "--package", "outbox", "--example", "quickstart"]);
    assert!(command.arg("--target-dir").arg(&target).status().unwrap().success(), "the quickstart does not build");
    target.join("debug/examples/quickstart")
}

async fn run_to_its_end(program: &Path) {
    let mut process = Process::spawn(program, &[], &[]);
    let status = process.wait(Duration::from_secs(60)).await;
    let lines = process.lines();
    assert!(status.success(), "{status}: {lines:#?}");
    assert!(lines.iter().any(|line| line == LAST_LINE), "{lines:#?}");
}

/// Twice in a row, and after SIGKILL at any moment: the next run finishes what the killed ones left.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_the_quickstart_ends_well_whatever_was_killed_before() {
    let program = build();
    run_to_its_end(&program).await;
    run_to_its_end(&program).await;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/quickstart/shop.db");
    assert!(!file.exists(), "a run that ended well leaves nothing behind");
    let mut left_something = 0;
    for round in 0..3 {
        for moment in [30, 80, 150, 260, 400] {
            let mut process = Process::spawn(&program, &[], &[]);
            tokio::time::sleep(Duration::from_millis(moment + round * 17)).await;
            process.kill();
            left_something += u32::from(file.exists());
        }
        run_to_its_end(&program).await;
    }
    assert!(left_something >= 5, "{left_something} of 15 kills hit a run in the middle");
}
