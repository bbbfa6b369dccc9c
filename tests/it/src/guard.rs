//! A server as a child process that cannot outlive the test, however the test ends.
//!
//! The child runs under a small shell that reads a pipe from us. When the pipe closes (we drop it, or we were killed)
//! the shell kills its whole process group.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SHELL: &str = r#""$@" </dev/null & server=$!
(wait_dead() { while kill -0 $server 2>/dev/null; do sleep 0.2; done; }; wait_dead; kill -s KILL 0) &
cat >/dev/null; kill -s KILL 0"#;

/// A guarded child: its process group dies with this value.
#[derive(Debug)]
pub struct Guarded {
    shell: Child,
}

impl Guarded {
    /// Starts `command` under the guard with its output in `log`. The command's environment, user and directory are kept.
    pub fn spawn(program: &Path, args: &[String], log: &Path, set_up: impl FnOnce(&mut Command)) -> Self {
        let out = File::options().create(true).append(true).open(log).expect("the server's log file");
        let mut command = Command::new("sh");
        command.arg("-c").arg(SHELL).arg("guard").arg(program).args(args);
        command.stdin(Stdio::piped()).stdout(out.try_clone().unwrap()).stderr(out).process_group(0);
        set_up(&mut command);
        Self { shell: command.spawn().unwrap_or_else(|e| panic!("{} does not start: {e}", program.display())) }
    }

    /// Whether the server (and so its guard) still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.shell.try_wait(), Ok(None))
    }

    /// SIGKILL to the whole group, and waits until it is gone.
    pub fn kill(&mut self) {
        signal(&format!("-{}", self.shell.id()), "KILL");
        let _ = self.shell.wait();
    }

    /// Waits for the server to end by itself; false when it has not within `limit`.
    pub fn wait(&mut self, limit: Duration) -> bool {
        let start = Instant::now();
        while self.is_running() {
            if start.elapsed() > limit {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if self.is_running() {
            self.kill();
        }
    }
}

/// Sends a signal by the `kill` program (this workspace forbids unsafe code); `pid` may be `-group`.
pub fn signal(pid: &str, name: &str) {
    let _ = Command::new("kill").args(["-s", name, "--", pid]).stderr(Stdio::null()).status();
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port()
}

/// Waits until something listens on the local port.
pub fn wait_for_port(port: u16, limit: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < limit {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

/// The end of a log file, for panics.
pub fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
