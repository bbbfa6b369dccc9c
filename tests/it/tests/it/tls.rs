//! `amqps://` and PostgreSQL over TLS, with an authority of the test's own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use outbox::{Broker, handlers};
use outbox_it::guard::free_port;
use outbox_it::{OwnBroker, OwnPostgres, eventually};

use crate::world::{builder, enqueue, prepare, settled};

fn openssl(dir: &Path, arguments: &str) {
    let output = Command::new("openssl").args(arguments.split_whitespace()).current_dir(dir).output().expect("openssl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// `ca.pem`, and `server.pem`/`server.key` for 127.0.0.1, readable by the servers' user.
fn certificates() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    std::fs::write(path.join("san"), "subjectAltName=IP:127.0.0.1,DNS:localhost").unwrap();
    openssl(path, "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=outbox-test-ca -keyout ca.key -out ca.pem");
    openssl(path, "req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr");
    openssl(
        path,
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out server.pem",
    );
    dir
}

/// PostgreSQL takes a key only from its own user, and only if nobody else can read it.
fn give_to_postgres(dir: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(dir, 0o755);
    std::fs::copy(dir.join("server.key"), dir.join("postgres.key")).unwrap();
    mode(&dir.join("postgres.key"), 0o600);
    // Without root the server runs as this very user.
    let _ = Command::new("chown").arg("postgres").arg(dir.join("postgres.key")).output();
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_events_go_through_both_servers_over_tls() {
    let certificates = certificates();
    let file = |name: &str| certificates.path().join(name).display().to_string();
    give_to_postgres(certificates.path());
    let postgres = OwnPostgres::start(&[
        ("ssl", "on"),
        ("ssl_cert_file", &file("server.pem")),
        ("ssl_key_file", &file("postgres.key")),
    ])
    .await;
    let port = free_port();
    let _broker = OwnBroker::start_with(&[
        &format!("listeners.ssl.default = {port}"),
        &format!("ssl_options.cacertfile = {}", file("ca.pem")),
        &format!("ssl_options.certfile = {}", file("server.pem")),
        &format!("ssl_options.keyfile = {}", file("server.key")),
        "ssl_options.verify = verify_none",
    ])
    .await;
    let db = postgres.database().await;
    prepare(&db).await;
    let mut url = url::Url::parse(&db.url()).unwrap();
    url.query_pairs_mut().append_pair("sslmode", "verify-full").append_pair("sslrootcert", &file("ca.pem"));
    let amqps = format!("amqps://guest:guest@127.0.0.1:{port}/%2f");
    let runtime = builder(url.as_str(), &amqps, handlers![crate::world::reserve_stock])
        .broker_ca(std::fs::read_to_string(certificates.path().join("ca.pem")).unwrap())
        .fail_fast(true)
        .start()
        .await
        .unwrap();
    enqueue(&db, 0, 50).await;
    settled(&db, 50, Duration::from_secs(30)).await;
    eventually(Duration::from_secs(5), "ready", async || runtime.health().ready).await;
    let encrypted = db.number("SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND application_name LIKE 'outbox%'").await;
    assert!(encrypted > 0, "the runtime's sessions are encrypted");
    runtime.shutdown().await;

    // An authority that nobody trusts is told, not accepted.
    let stranger = builder(url.as_str(), &amqps, handlers![crate::world::reserve_stock])
        .broker(Broker::RabbitMq(amqps.clone()))
        .fail_fast(true)
        .start()
        .await;
    let text = format!("{:?}", stranger.expect_err("it must not trust this certificate"));
    assert!(text.contains("AMQP_URL") && text.to_lowercase().contains("certificate"), "{text}");
}
