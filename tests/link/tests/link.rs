//! Registration by the linker, from crates that a binary depends on: found if any path names the crate, and not there otherwise, in a
//! debug build and in one that is optimized as a whole, with `inventory` and with `linkme`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Of the crate `outbox-link-handlers`.
const HANDLERS: &str = "consumer link\nevent link.tested\nhandler outbox_link_handlers::deep::deeper::handle\n";
/// Of the library beside the binaries.
const OWN: &str = "event link.own\nhandler outbox_link_app::handle\n";
/// What a binary prints that has nothing.
const NOTHING: &str = "\n";
/// What the start error says then: the problem, and two cures.
const NOTHING_LINKED: [&str; 3] =
    ["no handler is linked into this binary", "`use my_handlers as _;`", "`outbox::link!(my_handlers);`"];

/// One folder for all builds, within the workspace's: the test stands in `target/debug/deps`.
fn target() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    test.ancestors().nth(3).unwrap_or(Path::new("target")).join("link")
}

fn build(profile: &str, features: &[&str]) {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "outbox-link-app", "--bins", "--profile", profile, "--target-dir"])
        .arg(target())
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(status.is_ok_and(|status| status.success()), "the binaries do not build: {profile} {features:?}");
}

#[track_caller]
fn assert_printed(folder: &str, binary: &str, want: &str) {
    let output = Command::new(target().join(folder).join(binary)).output();
    let [printed, error] = output.map_or_else(
        |error| [String::new(), error.to_string()],
        |output| [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    );
    assert_eq!(printed, want, "{binary} in {folder}: {error}");
    assert!(error.contains("this build has neither"), "{binary} in {folder} tried to start: {error}");
    for text in NOTHING_LINKED {
        assert_eq!(error.contains(text), want == NOTHING, "{text} in the start error of {binary} in {folder}: {error}");
    }
}

/// The builds share a folder, so they run one after the other in one test.
#[test]
fn a_crate_is_linked_if_it_is_named() {
    for features in [&[][..], &["--features", "linkme"]] {
        for (profile, folder) in [("dev", "debug"), ("link", "link")] {
            build(profile, features);
            assert_printed(folder, "used", HANDLERS);
            assert_printed(folder, "linked", HANDLERS);
            assert_printed(folder, "own_library", OWN);
            assert_printed(folder, "unnamed", NOTHING);
        }
    }
}
