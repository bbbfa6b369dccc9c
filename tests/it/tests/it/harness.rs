//! The harness does to servers and networks what the other tests believe it does.

use std::time::{Duration, Instant};

use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions};
use outbox_it::rabbit_wire::text;
use outbox_it::{Logs, Mode, OwnBroker, OwnPostgres, Process, Proxy, TestDatabase, TestVhost, Way, Wire, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SOON: Duration = Duration::from_secs(10);

fn durable(id: &str) -> BasicProperties {
    BasicProperties::default().with_message_id(id.into()).with_delivery_mode(2)
}

#[tokio::test]
async fn a_database_is_ones_own_and_goes_away() {
    let (one, two) = (TestDatabase::new().await, TestDatabase::new().await);
    one.execute("CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2)").await;
    assert_eq!(one.count("t", "n > 1").await, 1);
    assert_eq!(two.count("pg_class", "relname = 't'").await, 0);

    let mut open = one.pool_of(1).begin().await.unwrap();
    sqlx::query("SELECT 1").execute(&mut *open).await.unwrap();
    eventually(SOON, "the open transaction is seen", async || one.idle_in_transaction(Duration::ZERO).await == 1).await;
    assert!(one.terminate_sessions().await >= 1);
    assert!(sqlx::query("SELECT 1").execute(&mut *open).await.is_err());

    let name = one.name().to_owned();
    drop(one);
    assert_eq!(two.count("pg_database", &format!("datname = '{name}'")).await, 0);
}

#[tokio::test]
async fn a_vhost_is_ones_own_and_goes_away() {
    let mut vhost = TestVhost::new().await;
    let wire = vhost.wire().await;
    wire.topic_exchange("e").await;
    wire.quorum_queue("q").await;
    wire.bind("q", "e", "k.#").await;
    let headers = outbox_it::rabbit_wire::table([("h", text("v"))]);
    assert!(wire.publish("e", "k.1", durable("a").with_headers(headers), b"\xff\x00").await);
    assert!(!wire.publish("e", "nobody", durable("b"), b"").await);
    assert_eq!(wire.ready("q").await, Some(1));
    assert_eq!(wire.ready("none").await, None);
    let (got, rest) = (wire.get("q").await.unwrap(), wire.get("q").await);
    assert_eq!(got.data, b"\xff\x00");
    assert_eq!(got.properties.message_id().as_ref().unwrap().as_str(), "a");
    assert!(rest.is_none());
    wire.unbind("q", "e", "k.#").await;
    assert!(!wire.publish("e", "k.1", durable("c"), b"").await);

    let limited = Wire::connect(&vhost.limited_user("", "", ".*").await).await;
    assert_eq!(limited.ready("q").await, Some(0), "a limited user may look");
    let channel = limited.channel().await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let refused =
        channel.basic_publish("e".into(), "k".into(), BasicPublishOptions::default(), b"", durable("d")).await;
    let refused = match refused {
        Ok(confirm) => tokio::time::timeout(SOON, confirm).await.expect("an answer").is_err(),
        Err(_) => true,
    };
    assert!(refused, "and not publish");

    assert_eq!(vhost.queues(&["name", "messages"]).await[0]["name"], "q");
    let channel = wire.channel().await;
    channel.basic_qos(5, BasicQosOptions::default()).await.unwrap();
    let consumer =
        channel.basic_consume("q".into(), "tag".into(), Default::default(), Default::default()).await.unwrap();
    assert_eq!(vhost.consumers().await[0]["prefetch_count"], 5);
    assert_eq!(wire.consumers("q").await, Some(1));
    drop(consumer);

    vhost.close_all_connections().await;
    eventually(SOON, "the connection is closed", async || !wire.connection().status().connected()).await;

    let url = vhost.url().to_owned();
    drop(vhost);
    assert!(lapin::Connection::connect(&url, Default::default()).await.is_err());
}

#[tokio::test]
async fn heavy_an_own_broker_restarts_dies_and_keeps_its_durable_queue() {
    let mut broker = OwnBroker::start_with(&["consumer_timeout = 60000"]).await;
    let wire = broker.wire().await;
    wire.quorum_queue("q").await;
    for id in ["a", "b", "c"] {
        assert!(wire.publish("", "q", durable(id), b"x").await);
    }
    let timeout = broker.ctl().eval("{ok, T} = application:get_env(rabbit, consumer_timeout), T").await;
    assert_eq!(timeout, "60000");

    broker.restart().await;
    eventually(SOON, "the old connection is closed", async || !wire.connection().status().connected()).await;
    let wire = broker.wire().await;
    eventually(SOON, "the queue is back", async || wire.ready("q").await == Some(3)).await;

    broker.kill().await;
    assert!(lapin::Connection::connect(&broker.url(), Default::default()).await.is_err());
    broker.start_again().await;
    let wire = broker.wire().await;
    eventually(SOON, "the queue is back", async || wire.ready("q").await == Some(3)).await;
    assert_eq!(wire.drain("q").await.len(), 3);

    broker.shut_down().await;
    broker.start_again().await;
    assert_eq!(broker.wire().await.ready("q").await, Some(0));
}

#[tokio::test]
async fn heavy_a_memory_alarm_blocks_publishing_until_it_is_cleared() {
    let broker = OwnBroker::start().await;
    let wire = broker.wire().await;
    wire.quorum_queue("q").await;
    broker.set_memory_alarm(true).await;
    let channel = wire.channel().await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let confirm =
        channel.basic_publish("".into(), "q".into(), BasicPublishOptions::default(), b"x", durable("a")).await;
    let mut confirm = Box::pin(confirm.unwrap());
    assert!(tokio::time::timeout(Duration::from_secs(2), &mut confirm).await.is_err(), "blocked");
    broker.set_memory_alarm(false).await;
    assert!(tokio::time::timeout(SOON, confirm).await.expect("unblocked").unwrap().is_ack());
}

#[tokio::test]
async fn heavy_an_own_postgres_restarts_dies_and_recovers() {
    let settings = [("shared_preload_libraries", "pg_stat_statements"), ("statement_timeout", "7s")];
    let mut server = OwnPostgres::start_in(&settings, Some("de")).await;
    let db = server.database().await;
    db.execute("CREATE EXTENSION pg_stat_statements; CREATE TABLE t (n int)").await;
    db.execute("INSERT INTO t VALUES (1)").await;
    assert_eq!(db.number("SELECT calls FROM pg_stat_statements WHERE query LIKE 'INSERT INTO t%'").await, 1);
    assert_eq!(db.count("pg_settings", "name = 'statement_timeout' AND setting = '7000'").await, 1);

    let mut open = db.pool().begin().await.unwrap();
    sqlx::query("INSERT INTO t VALUES (2)").execute(&mut *open).await.unwrap();
    server.kill().await;
    assert!(open.commit().await.is_err());
    server.start_again().await;
    assert_eq!(db.count("t", "true").await, 1, "the uncommitted row is gone");

    server.restart().await;
    eventually(SOON, "the pool recovers", async || sqlx::query("SELECT 1").execute(db.pool()).await.is_ok()).await;
    let error = sqlx::query("SELECT 1/0").execute(db.pool()).await.unwrap_err();
    // "Division durch Null" where PostgreSQL's translations are installed: code must look at the SQLSTATE alone.
    assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("22012"));
}

#[tokio::test]
async fn a_proxy_passes_delays_swallows_stalls_resets_and_refuses() {
    let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = echo.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = echo.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    let proxy = Proxy::to(&upstream).await;
    let short = Duration::from_millis(300);

    let mut one = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ping(&mut one, SOON).await.unwrap(), 1);
    proxy.set(Mode::Delay(Duration::from_millis(100)));
    let start = Instant::now();
    ping(&mut one, SOON).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(200));

    proxy.set(Mode::Stall(Way::ToClient));
    assert!(ping(&mut one, short).await.is_none(), "stalled");
    proxy.set(Mode::Pass);
    assert_eq!(one.read(&mut [0]).await.unwrap(), 1, "and complete afterwards");

    proxy.set(Mode::BlackHole(Way::Both));
    assert!(ping(&mut one, short).await.is_none(), "swallowed without an end");
    let mut unanswered = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(ping(&mut unanswered, short).await.is_none());
    proxy.set(Mode::Pass);
    assert!(ping(&mut one, short).await.is_none(), "what lost bytes stays dead");

    let mut two = TcpStream::connect(proxy.address()).await.unwrap();
    ping(&mut two, SOON).await.unwrap();
    proxy.reset_all();
    let error = two.read(&mut [0]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    eventually(SOON, "all are closed", async || proxy.open() == 0).await;

    proxy.set(Mode::Refuse);
    eventually(SOON, "refused", async || TcpStream::connect(proxy.address()).await.is_err()).await;
    proxy.set(Mode::Pass);
    eventually(SOON, "open again", async || TcpStream::connect(proxy.address()).await.is_ok()).await;
    // A connection is open before the proxy has taken it.
    eventually(SOON, "four connections were counted", async || proxy.accepted() >= 4).await;
}

async fn ping(stream: &mut TcpStream, limit: Duration) -> Option<usize> {
    stream.write_all(b"x").await.ok()?;
    tokio::time::timeout(limit, stream.read(&mut [0])).await.ok()?.ok()
}

#[tokio::test]
async fn servers_are_reached_by_way_of_a_proxy() {
    let (vhost, db) = (TestVhost::new().await, TestDatabase::new().await);
    let (to_broker, amqp) = Proxy::for_url(vhost.url()).await;
    let wire = Wire::connect(&amqp).await;
    wire.quorum_queue("q").await;
    to_broker.reset_all();
    eventually(SOON, "the reset is seen", async || !wire.connection().status().connected()).await;

    let (to_postgres, url) = Proxy::for_url(&db.url()).await;
    let mut session = <sqlx::PgConnection as sqlx::Connection>::connect(&url).await.unwrap();
    sqlx::query("SELECT 1").execute(&mut session).await.unwrap();
    to_postgres.reset_all();
    assert!(sqlx::query("SELECT 1").execute(&mut session).await.is_err());
}

#[tokio::test]
async fn logs_are_captured_line_by_line() {
    let logs = Logs::capture();
    tracing::warn!(id = "only-here-7f3a", "something happened");
    logs.assert_present(&["WARN", "only-here-7f3a"]);
    logs.assert_absent("never-logged-7f3a");
}

#[tokio::test]
async fn a_child_is_stopped_continued_and_killed() {
    let mut child = Process::spawn("sh".as_ref(), &["-c", "echo $GREETING; sleep 60"], &[("GREETING", "hello")]);
    child.wait_for_line("hello", SOON).await;
    child.signal("STOP");
    child.signal("CONT");
    assert!(child.resident_kib() > 0);
    child.signal("TERM");
    assert!(!child.wait(SOON).await.success());
}

#[tokio::test]
#[should_panic(expected = "last seen: 7")]
async fn waiting_in_vain_tells_the_last_value() {
    outbox_it::eventually_value(Duration::from_millis(60), "eight", async || 7, |n| *n == 8).await;
}

#[test]
fn only_old_leftovers_are_stale() {
    use outbox_it::names::{PREFIX, is_stale, unique};
    assert!(!is_stale(&unique()));
    assert!(is_stale(&format!("{PREFIX}1000_1_0")));
    assert!(!is_stale("outbox_it_notes") && !is_stale("orders"));
}
