//! Servers that refuse to run as root: the owner of their directory runs them then.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes a command run in the directory, and as its owner when we are root.
pub fn unprivileged(command: &mut Command, dir: &Path) {
    let owner = std::fs::metadata(dir).expect("the server's directory");
    if is_root() {
        command.uid(owner.uid()).gid(owner.gid());
    }
    command.current_dir(dir);
}

/// Gives the directory to an unprivileged user when we are root.
pub fn own(dir: &Path) {
    if is_root() {
        let (uid, gid) = ["postgres", "nobody"].iter().find_map(|user| ids(user)).expect("a user to run a server as");
        chown(dir, Some(uid), Some(gid)).expect("the server's directory changes its owner");
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").map_or_else(|_| ids_of(&["-u"]) == Some(0), |me| me.uid() == 0)
}

fn ids(user: &str) -> Option<(u32, u32)> {
    Some((ids_of(&["-u", user])?, ids_of(&["-g", user])?))
}

fn ids_of(args: &[&str]) -> Option<u32> {
    let out = Command::new("id").args(args).stderr(Stdio::null()).output().ok()?;
    String::from_utf8(out.stdout).ok()?.trim().parse().ok()
}
