//! Programs of this workspace as child processes, to be killed in the middle of their work.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::guard::signal;

/// A child whose output is collected; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Process {
    /// Starts a program with these variables added to the environment.
    pub fn spawn(program: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program);
        command.args(args).envs(env.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{}: {e}", program.display()));
        let lines = Arc::new(Mutex::new(Vec::new()));
        collect(child.stdout.take().unwrap(), Arc::clone(&lines));
        collect(child.stderr.take().unwrap(), Arc::clone(&lines));
        Self { child, lines }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it printed so far, both streams.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Sends a signal: `KILL`, `TERM`, `INT`, `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        signal(&self.pid().to_string(), name);
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The exit status, when it ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for the end; panics with the output when it goes on for longer than `limit`.
    pub async fn wait(&mut self, limit: Duration) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.status() {
                return status;
            }
            assert!(start.elapsed() < limit, "still running after {limit:?}: {:#?}", self.lines());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits for a line that contains `needle` and returns it.
    pub async fn wait_for_line(&self, needle: &str, limit: Duration) -> String {
        let find = async || self.lines().into_iter().find(|line| line.contains(needle)).ok_or_else(|| self.lines());
        crate::eventually_value(limit, &format!("a line with {needle:?}"), find, Result::is_ok).await.unwrap()
    }

    /// Resident memory in KiB (from /proc).
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn collect(stream: impl Read + Send + 'static, lines: Arc<Mutex<Vec<String>>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            lines.lock().unwrap().push(line);
        }
    });
}

/// Builds a binary of the workspace (profile and target folder of the running test) and returns its path.
/// A binary of the package `outbox-it` needs no build: `env!("CARGO_BIN_EXE_name")` is its path.
pub fn build(package: &str, binary: &str) -> PathBuf {
    // <target>/<profile>/deps/<this test>
    let profile_dir =
        std::env::current_exe().unwrap().parent().and_then(Path::parent).expect("a target folder").to_owned();
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev".to_owned(),
        Some(other) => other.to_owned(),
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "--package", package, "--bin", binary]);
    command.args(["--profile", &profile, "--target-dir"]).arg(profile_dir.parent().expect("a target folder"));
    assert!(command.status().unwrap().success(), "{package} does not build");
    profile_dir.join(binary)
}
