//! A RabbitMQ node of the test's own, to stop, kill, fill and reconfigure.

use std::path::PathBuf;
use std::time::Duration;

use crate::guard::{self, Guarded};
use crate::rabbitmqctl::{self, Ctl};
use crate::{Wire, names};

const BOOT: Duration = Duration::from_secs(90);

/// An own node on free ports with its data in a temporary directory; gone when dropped, even after a panic.
#[derive(Debug)]
pub struct OwnBroker {
    guarded: Option<Guarded>,
    env: Vec<(String, String)>,
    port: u16,
    ctl: Ctl,
    dir: tempfile::TempDir,
}

impl OwnBroker {
    /// A running node with RabbitMQ's defaults.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// A running node with more lines for `rabbitmq.conf`, such as `consumer_timeout = 60000`.
    pub async fn start_with(config: &[&str]) -> Self {
        let dir = names::server_dir("broker");
        std::fs::write(dir.path().join("rabbitmq.conf"), config.join("\n") + "\n").unwrap();
        std::fs::write(dir.path().join("plugins"), "[].\n").unwrap();
        std::fs::write(dir.path().join("env.conf"), "").unwrap();
        let cookie = dir.path().join(".erlang.cookie");
        std::fs::write(&cookie, names::unique()).unwrap();
        std::fs::set_permissions(&cookie, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
        let port = guard::free_port();
        let node = format!("{}@localhost", names::unique());
        let env = rabbitmqctl::node_env(dir.path(), &node, port, guard::free_port());
        let mut broker = Self { guarded: None, ctl: Ctl::of_node(env.clone()), env, port, dir };
        broker.start_again().await;
        broker
    }

    /// Starts the node after [`kill`](Self::kill) or [`shut_down`](Self::shut_down): same port, same data.
    pub async fn start_again(&mut self) {
        assert!(self.guarded.is_none(), "the node runs already");
        let (env, log, port) = (self.env.clone(), self.log_file(), self.port);
        let start = move || {
            let mut guarded = Guarded::spawn(&rabbitmqctl::binary("rabbitmq-server"), &[], &log, |command| {
                command.envs(env);
            });
            let up = (0..BOOT.as_secs())
                .any(|_| guard::wait_for_port(port, Duration::from_secs(1)) || !guarded.is_running());
            assert!(up && guarded.is_running(), "the broker did not start:\n{}", guard::tail(&log));
            guarded
        };
        self.guarded = Some(tokio::task::spawn_blocking(start).await.unwrap());
    }

    /// SIGKILL of the node: what a power failure leaves.
    pub async fn kill(&mut self) {
        let guarded = self.guarded.take();
        tokio::task::spawn_blocking(move || drop(guarded)).await.unwrap();
    }

    /// Ends the node in order, as an operator's upgrade does.
    pub async fn shut_down(&mut self) {
        self.ctl.run(&["stop"]).await;
        let mut guarded = self.guarded.take().expect("a running node");
        tokio::task::spawn_blocking(move || guarded.wait(Duration::from_secs(30))).await.unwrap();
    }

    /// Stops the broker and leaves the VM: connections are closed, the port is refused. About half a second.
    pub async fn stop_app(&self) {
        self.ctl.run(&["stop_app"]).await;
    }

    /// Starts the broker again after [`stop_app`](Self::stop_app).
    pub async fn start_app(&self) {
        self.ctl.run(&["start_app"]).await;
    }

    /// Stop and start in one call, in little more than a second.
    pub async fn restart(&self) {
        self.ctl.eval("rabbit:stop(), rabbit:start()").await;
    }

    /// Raises or clears the memory alarm: publishing connections are blocked while it lasts.
    pub async fn set_memory_alarm(&self, on: bool) {
        let watermark: &[&str] = if on { &["absolute", "1"] } else { &["0.4"] };
        self.ctl.run(&[&["set_vm_memory_high_watermark"], watermark].concat()).await;
    }

    /// The node's control command.
    pub fn ctl(&self) -> &Ctl {
        &self.ctl
    }

    /// The AMQP URL (user and vhost are RabbitMQ's defaults).
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port)
    }

    /// A connection of the test's own to look at and fill queues.
    pub async fn wire(&self) -> Wire {
        Wire::connect(&self.url()).await
    }

    /// What the node printed while it started; its own log is in the directory `log` beside it.
    pub fn log_file(&self) -> PathBuf {
        self.dir.path().join("out.log")
    }
}
