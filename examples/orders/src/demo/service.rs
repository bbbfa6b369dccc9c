//! A service as a child process that does not outlive the demo.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

/// Should the demo itself be killed, the pipe that this shell reads from closes.
const WATCHDOG: &str = r#"cat >/dev/null; kill -s KILL "$1""#;

/// Variables of the caller's shell that services do not see.
const NOT_INHERITED: [&str; 9] = [
    "AMQP_URL",
    "OUTBOX_BROKER",
    "OUTBOX_BROKER_MOVED_FROM",
    "OUTBOX_CONSUMERS",
    "OUTBOX_DECLARE",
    "OUTBOX_INSTANCE",
    "OUTBOX_MIGRATIONS",
    "OUTBOX_NAMESPACE",
    "OUTBOX_ROLE",
];

/// One of the two services: how it is started, and the process while it runs.
pub(crate) struct Service {
    pub(crate) name: &'static str,
    binary: PathBuf,
    environment: Vec<(&'static str, String)>,
    log: PathBuf,
    running: Option<Running>,
}

struct Running {
    child: Child,
    watchdog: Child,
}

impl Service {
    /// Not started yet; it logs into that folder.
    pub(crate) fn new(
        name: &'static str,
        binary: &Path,
        logs: &Path,
        environment: Vec<(&'static str, String)>,
    ) -> Self {
        let log = logs.join(format!("{name}.log"));
        Self { name, binary: binary.to_owned(), environment, log, running: None }
    }

    /// Starts it with one more variable, perhaps.
    pub(crate) fn start(&mut self, more: Option<(&str, String)>) -> anyhow::Result<()> {
        let out = File::options().create(true).append(true).open(&self.log).context("the log of a service")?;
        let mut command = Command::new(&self.binary);
        // What the caller's shell says about *its* runtime is not meant for these.
        for variable in NOT_INHERITED {
            command.env_remove(variable);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value))).envs(more);
        // A group of its own: Ctrl-C in a terminal goes to the demo alone, which decides.
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).process_group(0);
        let mut child = command.spawn().with_context(|| format!("starting {}", self.binary.display()))?;
        let mut watchdog = Command::new("sh");
        watchdog.args(["-c", WATCHDOG, "watchdog", &child.id().to_string()]).process_group(0);
        match watchdog.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(watchdog) => self.running = Some(Running { child, watchdog }),
            Err(error) => {
                let _ = child.kill();
                return Err(error).context("starting a watchdog");
            }
        }
        Ok(())
    }

    /// Fails when it has ended by itself.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        let running = self.running.as_mut().with_context(|| format!("the {} was not started", self.name))?;
        if let Some(status) = running.child.try_wait()? {
            bail!("the {} ended by itself: {status}", self.name);
        }
        Ok(())
    }

    /// SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.end();
        }
    }

    /// SIGSTOP: from now on it does nothing, and what it had begun is as good as interrupted.
    pub(crate) fn freeze(&mut self) -> anyhow::Result<()> {
        self.signal("STOP")
    }

    /// SIGCONT.
    pub(crate) fn thaw(&mut self) -> anyhow::Result<()> {
        self.signal("CONT")
    }

    /// SIGTERM, and waits for an orderly end.
    pub(crate) async fn stop(&mut self, within: Duration) -> anyhow::Result<()> {
        self.check()?;
        self.signal("TERM")?;
        let start = Instant::now();
        while let Some(running) = &mut self.running {
            if let Some(status) = running.child.try_wait()? {
                self.kill();
                ensure!(status.success(), "the {} did not stop in order: {status}", self.name);
                break;
            }
            ensure!(start.elapsed() < within, "the {} did not stop within {within:?}", self.name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// By the `kill` program: the system call is not safe code.
    fn signal(&mut self, name: &str) -> anyhow::Result<()> {
        self.check()?;
        let running = self.running.as_ref().context("it runs")?;
        let sent = Command::new("kill").args(["-s", name, &running.child.id().to_string()]).status();
        ensure!(sent.context("running kill")?.success(), "SIG{name} could not be sent to the {}", self.name);
        Ok(())
    }
}

impl Running {
    fn end(&mut self) {
        // The watchdog first: after the child is waited for, its id may belong to somebody else.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
