//! A PostgreSQL server of the test's own, to restart, kill and configure.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::guard::{self, Guarded};
use crate::unprivileged::{own, unprivileged};
use crate::{TestDatabase, names};

/// A server on a free port with its data in a temporary directory; gone when dropped, even after a panic.
#[derive(Debug)]
pub struct OwnPostgres {
    guarded: Option<Guarded>,
    settings: Vec<(String, String)>,
    language: Option<String>,
    port: u16,
    dir: tempfile::TempDir,
}

impl OwnPostgres {
    /// A running server with these settings on top of PostgreSQL's defaults, such as
    /// `("shared_preload_libraries", "pg_stat_statements")`.
    pub async fn start(settings: &[(&str, &str)]) -> Self {
        Self::start_in(settings, None).await
    }

    /// The same with messages in another language, such as `de` (where PostgreSQL was built with its translations).
    pub async fn start_in(settings: &[(&str, &str)], language: Option<&str>) -> Self {
        let dir = names::server_dir("pg");
        own(dir.path());
        let init = command(dir.path(), &binary("initdb"), |c| {
            c.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"]);
            c.arg(dir.path().join("data")).stdin(Stdio::null());
        });
        let done = tokio::task::spawn_blocking(move || {
            let mut init = init;
            init.output()
        })
        .await
        .unwrap()
        .unwrap();
        assert!(done.status.success(), "initdb: {}", String::from_utf8_lossy(&done.stderr));
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let language = language.map(String::from);
        let mut server = Self { guarded: None, settings, language, port: guard::free_port(), dir };
        server.start_again().await;
        server
    }

    /// Starts the server after [`kill`](Self::kill) or [`stop`](Self::stop): same port, same data.
    pub async fn start_again(&mut self) {
        assert!(self.guarded.is_none(), "the server runs already");
        let mut args = vec!["-D".to_owned(), self.data().display().to_string(), "-p".to_owned(), self.port.to_string()];
        let fixed = [("listen_addresses", "127.0.0.1"), ("unix_socket_directories", ""), ("max_connections", "100")];
        let fixed = fixed.map(|(name, value)| (name.to_owned(), value.to_owned()));
        for (name, value) in fixed.iter().chain(&self.settings) {
            args.extend(["-c".to_owned(), format!("{name}={value}")]);
        }
        if self.language.is_some() {
            // Any locale but plain C, so that LANGUAGE is looked at: no other need be installed.
            args.extend(["-c".to_owned(), "lc_messages=C.UTF-8".to_owned()]);
        }
        let (dir, log, language) = (self.dir.path().to_owned(), self.log_file(), self.language.clone());
        let start = move || {
            Guarded::spawn(&binary("postgres"), &args, &log, |shell| {
                unprivileged(shell, &dir);
                if let Some(language) = language {
                    shell.env("LANGUAGE", language);
                }
            })
        };
        self.guarded = Some(tokio::task::spawn_blocking(start).await.unwrap());
        self.wait_until_ready().await;
    }

    /// Stops the server in order ("fast": sessions are ended) and waits until it is gone.
    pub async fn stop(&mut self) {
        self.pg_ctl_stop("fast").await;
    }

    /// Stop and start; sessions see `57P01`.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.start_again().await;
    }

    /// Ends the server at once without a checkpoint: it recovers from its log at the next start.
    pub async fn kill(&mut self) {
        self.pg_ctl_stop("immediate").await;
    }

    /// The URL of the server's database `postgres`.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// A new database on this server.
    pub async fn database(&self) -> TestDatabase {
        TestDatabase::on(&self.url()).await
    }

    /// What the server logs (the setting `log_min_messages` and its like apply).
    pub fn log_file(&self) -> PathBuf {
        self.dir.path().join("postgres.log")
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    async fn pg_ctl_stop(&mut self, mode: &str) {
        let mut guarded = self.guarded.take().expect("a running server");
        let data = self.data();
        let stop = command(self.dir.path(), &binary("pg_ctl"), |c| {
            c.args(["stop", "--silent", "-t", "20", "-m", mode, "-D"]).arg(data);
        });
        tokio::task::spawn_blocking(move || {
            let mut stop = stop;
            let _ = stop.status();
            guarded.wait(Duration::from_secs(10));
        })
        .await
        .unwrap();
    }

    async fn wait_until_ready(&mut self) {
        let (url, log) = (self.url(), self.log_file());
        for _ in 0..600 {
            let running = self.guarded.as_mut().is_some_and(Guarded::is_running);
            assert!(running, "PostgreSQL did not start:\n{}", guard::tail(&log));
            let attempt = <sqlx::PgConnection as sqlx::Connection>::connect(&url);
            if let Ok(Ok(connection)) = tokio::time::timeout(Duration::from_secs(2), attempt).await {
                let _ = sqlx::Connection::close(connection).await;
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("PostgreSQL is not ready:\n{}", guard::tail(&log));
    }
}

/// Where a PostgreSQL program is: on the path, else the newest of Debian's versioned directories.
pub fn binary(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(found) = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|p| p.exists()) {
        return found;
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = versions.map(|dir| dir.join("bin").join(name)).filter(|p| p.exists()).collect();
    found.sort();
    found.pop().unwrap_or_else(|| panic!("{name} is not installed: tests that break a database start their own server"))
}

fn command(dir: &Path, program: &Path, set_up: impl FnOnce(&mut Command)) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    unprivileged(&mut command, dir);
    set_up(&mut command);
    command
}
