//! The broker's control command. One call boots an Erlang VM (half a second to two), so several steps go into one `eval`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// How to reach one broker's `rabbitmqctl`.
#[derive(Debug, Clone)]
pub struct Ctl {
    command: Vec<String>,
    env: Vec<(String, String)>,
}

impl Ctl {
    /// The control command of the broker under test: `OUTBOX_TEST_RABBITMQCTL` (split at blanks, so that
    /// `docker exec name rabbitmqctl` works), else `rabbitmqctl`.
    pub fn shared() -> Self {
        let line = std::env::var("OUTBOX_TEST_RABBITMQCTL").unwrap_or_else(|_| "rabbitmqctl".into());
        Self { command: line.split_whitespace().map(String::from).collect(), env: Vec::new() }
    }

    /// The control command of a node that the test started, with that node's environment.
    pub fn of_node(env: Vec<(String, String)>) -> Self {
        Self { command: vec![binary("rabbitmqctl").display().to_string()], env }
    }

    /// Runs a command and returns what it printed, or what it complained of.
    pub fn try_run(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).args(args).envs(self.env.iter().cloned()).stdin(std::process::Stdio::null());
        let out = command.output().map_err(|e| format!("{}: {e}", self.command[0]))?;
        let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        let complaint = String::from_utf8_lossy(&out.stderr);
        if out.status.success() { Ok(text) } else { Err(format!("rabbitmqctl {args:?}: {text}\n{complaint}")) }
    }

    /// Runs a command off the async threads; panics when it fails.
    pub async fn run(&self, args: &[&str]) -> String {
        let (this, args): (Self, Vec<String>) = (self.clone(), args.iter().map(|a| (*a).to_owned()).collect());
        let run = move || this.try_run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        tokio::task::spawn_blocking(run).await.unwrap().unwrap_or_else(|e| {
            panic!(
                "{e}\nThe tests need the control command of the broker under test: run ./test, \
                 or set OUTBOX_TEST_RABBITMQCTL (see ./test --help)"
            )
        })
    }

    /// Evaluates Erlang expressions (separated by `,`) inside the node.
    pub async fn eval(&self, expressions: &str) -> String {
        self.run(&["eval", &format!("begin {expressions} end.")]).await
    }

    /// A listing as JSON rows, such as `list_queues` with `name messages`.
    pub async fn list(&self, args: &[&str]) -> Vec<serde_json::Value> {
        let text = self.run(&[args, &["--formatter", "json", "--silent"]].concat()).await;
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("rabbitmqctl {args:?} is not JSON: {e}\n{text}"))
    }
}

/// Where a RabbitMQ program is; Debian's wrappers on the path only work for the system's own node, so they come last.
pub fn binary(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = ["/usr/lib/rabbitmq/bin", "/opt/homebrew/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let found = dirs.into_iter().chain(std::env::split_paths(&path)).map(|dir| dir.join(name)).find(|p| p.exists());
    found.unwrap_or_else(|| panic!("{name} is not installed: tests that break a broker start their own node"))
}

/// The environment that makes the RabbitMQ programs talk about one node with everything of it below `dir`.
pub fn node_env(dir: &Path, node: &str, port: u16, dist_port: u16) -> Vec<(String, String)> {
    let at = |name: &str| dir.join(name).display().to_string();
    [
        ("HOME", dir.display().to_string()),
        ("RABBITMQ_NODENAME", node.to_owned()),
        ("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1".to_owned()),
        ("RABBITMQ_NODE_PORT", port.to_string()),
        ("RABBITMQ_DIST_PORT", dist_port.to_string()),
        ("RABBITMQ_MNESIA_BASE", at("mnesia")),
        ("RABBITMQ_LOG_BASE", at("log")),
        ("RABBITMQ_CONF_ENV_FILE", at("env.conf")),
        ("RABBITMQ_CONFIG_FILE", at("rabbitmq.conf")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", at("plugins")),
        // Without a shell of its own around the VM, and without reading our terminal.
        ("RUNNING_UNDER_SYSTEMD", "1".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}
