//! A pgbouncer of the test's own before a PostgreSQL server.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use url::Url;

use crate::guard::{self, Guarded};
use crate::names;
use crate::unprivileged::{own, unprivileged};

/// A pooler on a free port; gone when dropped, even after a panic.
#[derive(Debug)]
pub struct OwnPgbouncer {
    guarded: Guarded,
    port: u16,
    dir: tempfile::TempDir,
}

impl OwnPgbouncer {
    /// A running pgbouncer before the server of that URL with these lines of its ini, such as `pool_mode = transaction`.
    pub async fn before(server: &str, settings: &[&str]) -> Self {
        let server = Url::parse(server).expect("the server's URL");
        let dir = names::server_dir("pgbouncer");
        let port = guard::free_port();
        let (host, server_port) = (server.host_str().unwrap_or("127.0.0.1"), server.port().unwrap_or(5432));
        let ini = format!(
            "[databases]\n* = host={host} port={server_port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = users.txt\nmax_client_conn = 200\n{}\n",
            settings.join("\n")
        );
        let user = format!("\"{}\" \"{}\"\n", server.username(), server.password().unwrap_or_default());
        std::fs::write(dir.path().join("pgbouncer.ini"), ini).unwrap();
        std::fs::write(dir.path().join("users.txt"), user).unwrap();
        own(dir.path());
        let (place, log) = (dir.path().to_owned(), dir.path().join("pgbouncer.log"));
        let start = move || {
            let mut guarded = Guarded::spawn(&binary(), &["pgbouncer.ini".to_owned()], &log, |shell| {
                unprivileged(shell, &place);
            });
            let up = guard::wait_for_port(port, Duration::from_secs(20));
            assert!(up && guarded.is_running(), "pgbouncer did not start:\n{}", guard::tail(&log));
            guarded
        };
        let guarded = tokio::task::spawn_blocking(start).await.unwrap();
        Self { guarded, port, dir }
    }

    /// The URL of a database, by way of the pooler.
    pub fn url(&self, direct: &str) -> String {
        let mut url = Url::parse(direct).expect("the database's URL");
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(self.port)).unwrap();
        url.into()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.guarded.is_running()
    }

    /// What it logs.
    pub fn log_file(&self) -> PathBuf {
        self.dir.path().join("pgbouncer.log")
    }

    /// Its version, such as (1, 18).
    pub fn version() -> (u32, u32) {
        let out = Command::new(binary()).arg("--version").output().expect("pgbouncer tells its version");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok());
        numbers.next().zip(numbers.next()).unwrap_or_else(|| panic!("no version of pgbouncer in {text:?}"))
    }
}

/// Where pgbouncer is: `OUTBOX_TEST_PGBOUNCER`, else on the path, else where Debian has the programs of servers.
fn binary() -> PathBuf {
    if let Some(given) = std::env::var_os("OUTBOX_TEST_PGBOUNCER").filter(|path| !path.is_empty()) {
        return given.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs =
        std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"].map(PathBuf::from));
    let found = dirs.map(|dir| dir.join("pgbouncer")).find(|program| program.exists());
    found.unwrap_or_else(|| {
        panic!("pgbouncer is not installed: run ./test, which installs it where it can, or set OUTBOX_TEST_PGBOUNCER to its path")
    })
}
