//! R5: an event of another process wakes a relay that sleeps, long before it would look by itself.
//!
//! The relays here look every 30 s. After an announcement they scan 2, 6, 14, .. ms later: what is committed `DEEP` after it is found by
//! polling 1.7 s later at the earliest.

use std::time::{Duration, Instant};

use outbox::{Broker, Role, RuntimeBuilder, handlers};
use outbox_it::{Process, TestDatabase, TestVhost, eventually};
use sqlx::postgres::PgListener;
use sqlx::{Connection as _, PgConnection};

use crate::meter::Meter;
use crate::producing::{commit, tap};
use crate::world::{OrderCreated, World, prepare};

pub const FLOOR: Duration = Duration::from_secs(30);
/// Between the scans 2.0 s and 4.1 s after an announcement.
pub const DEEP: Duration = Duration::from_millis(2_300);
/// Nobody who polls finds it within this.
pub const AT_ONCE: Duration = Duration::from_millis(1_000);
pub const SOON: Duration = Duration::from_secs(20);

/// One event as a process without our hints writes it: with the clause of enqueue's own statement.
pub const FOREIGN: &str = r#"INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, exchange, routing_key, payload, payload_bytes)
    SELECT id, 'order', id, 'order.created', 'orders.events', 'order.created',
           json_build_object('eventId', id, 'eventType', 'order.created', 'occurredAt', '2026-01-01T00:00:00Z', 'order_id', id, 'quantity', 1), 130
    FROM (SELECT 'foreign-' || $1::text AS id) AS new
    RETURNING (SELECT count(pg_notify(channel, '')) FROM outbox_wakeup WHERE asleep_until > clock_timestamp())"#;

/// A relay in this process, for events of others.
pub fn sleeper(world: &World) -> RuntimeBuilder {
    world.runtime([]).role(Role::Relay).poll_interval(FLOOR)
}

/// A queue, so that events are routable.
pub async fn routable(vhost: &TestVhost) {
    tap(&vhost.wire().await, "copies", "orders.events", "#").await;
}

pub async fn insert(connection: &mut PgConnection, id: &str) {
    let statement = sqlx::query(FOREIGN).bind(id).execute(connection);
    statement.await.unwrap();
}

/// Writes an event on a connection of its own, and returns when it was committed.
pub async fn foreign(db: &TestDatabase, id: &str) -> Instant {
    let mut connection = PgConnection::connect_with(&db.options()).await.unwrap();
    insert(&mut connection, id).await;
    let committed = Instant::now();
    connection.close().await.unwrap();
    committed
}

pub async fn announced(db: &TestDatabase) -> bool {
    db.count("outbox_wakeup", "asleep_until > clock_timestamp()").await == 1
}

/// Waits until a relay announces that it sleeps.
pub async fn asleep(db: &TestDatabase) {
    eventually(SOON, "the relay announces that it sleeps", async || announced(db).await).await;
}

/// Waits until a relay sleeps so long that only a notification finds an event at once.
pub async fn fast_asleep(db: &TestDatabase) {
    asleep(db).await;
    tokio::time::sleep(DEEP).await;
    assert!(announced(db).await, "nobody woke it meanwhile");
}

/// Waits until an event is published, and returns how long after its commit that was.
pub async fn published(db: &TestDatabase, id: &str, committed: Instant) -> Duration {
    let condition = format!("event_id = '{id}' AND status = 'Published'");
    eventually(FLOOR + SOON, &condition, async || db.count("outbox_messages", &condition).await == 1).await;
    committed.elapsed()
}

/// A listener of the test's own.
pub struct Notifications(PgListener);

impl Notifications {
    pub async fn of(db: &TestDatabase) -> Self {
        let channel: String =
            sqlx::query_scalar("SELECT channel FROM outbox_wakeup").fetch_one(db.pool()).await.unwrap();
        let mut listener = PgListener::connect_with(&db.pool_of(1)).await.unwrap();
        listener.listen(&channel).await.unwrap();
        Self(listener)
    }

    /// How many came that wake relays, until none comes for half a second.
    pub async fn count(&mut self) -> usize {
        let mut count = 0;
        while let Ok(got) = tokio::time::timeout(Duration::from_millis(500), self.0.recv()).await {
            count += usize::from(got.unwrap().payload().is_empty());
        }
        count
    }
}

/// A relay in a process of its own, by its environment.
pub fn relay_process(db: &TestDatabase, broker: (&str, &str)) -> Process {
    let url = db.url();
    let floor = FLOOR.as_millis().to_string();
    let env = [("DATABASE_URL", url.as_str()), broker, ("RELAY_POLL_MS", &floor), ("RUST_LOG", "info")];
    Process::spawn(env!("CARGO_BIN_EXE_relay").as_ref(), &[], &env)
}

/// The whole way: `enqueue` here, the relay in another process. Killed, its announcement expires, and nobody notifies for nobody.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_an_event_of_another_process_wakes_a_sleeping_relay() {
    let world = World::new().await;
    routable(&world.vhost).await;
    let mut relay = relay_process(&world.db, ("AMQP_URL", world.vhost.url()));
    relay.wait_for_line("relay started", SOON).await;
    let mut took = Vec::new();
    for round in 0..5 {
        fast_asleep(&world.db).await;
        let ids = commit(&world.db, [OrderCreated::number(round).draft()]).await;
        took.push(published(&world.db, &ids[0], Instant::now()).await);
        assert!(!announced(&world.db).await, "an event flows: no notifications now");
    }
    took.sort();
    println!("published after {took:?}");
    assert!(took[4] < AT_ONCE, "{took:?}");
    // The test looks every 20 ms or so.
    assert!(took[2] < Duration::from_millis(200), "{took:?}");

    asleep(&world.db).await;
    relay.kill();
    let left = world
        .db
        .number("SELECT (extract(epoch FROM asleep_until - clock_timestamp()) * 1000)::bigint FROM outbox_wakeup")
        .await;
    assert!((1..=30_000).contains(&left), "{left} ms");
    eventually(Duration::from_secs(35), "it expires", async || !announced(&world.db).await).await;
    let mut notifications = Notifications::of(&world.db).await;
    commit(&world.db, (0..20).map(|n| OrderCreated::number(100 + n).draft())).await;
    assert_eq!(notifications.count().await, 0, "nobody sleeps, nobody is told");
}

/// The hint of this process wakes as well, and withdraws the announcement.
#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_of_its_own_process_wakes_a_relay() {
    let meter = Meter::install();
    let world = World::new().await;
    routable(&world.vhost).await;
    let relay = sleeper(&world).start().await.unwrap();
    fast_asleep(&world.db).await;
    let before = meter.counter("outbox_wakeups_total", "source=in_process");
    let ids = commit(&world.db, [OrderCreated::number(0).draft()]).await;
    let took = published(&world.db, &ids[0], Instant::now()).await;
    assert!(took < AT_ONCE, "{took:?}");
    assert_eq!(meter.counter("outbox_wakeups_total", "source=in_process") - before, 1);
    eventually(AT_ONCE, "withdrawn", async || !announced(&world.db).await).await;
    relay.shutdown().await;
}

/// The listener is shown, and nobody waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn health_shows_the_listener_and_does_not_need_it() {
    let meter = Meter::install();
    let (world, other) = (World::new().await, TestDatabase::new().await);
    routable(&world.vhost).await;
    let relay = sleeper(&world).start().await.unwrap();
    asleep(&world.db).await;
    let health = relay.health();
    let listener = health.component("listener").unwrap();
    assert!(health.ready && listener.up && !listener.needed, "{health}");
    assert_eq!(meter.gauge("outbox_listening", ""), Some(1.0));
    relay.shutdown().await;

    // What is said on this database is never heard on the other: as through a pooler that hands connections out by transaction.
    let logs = outbox_it::Logs::capture();
    let deaf = sleeper(&world).poll_interval(Duration::from_millis(500)).listen_url(other.url()).start().await.unwrap();
    eventually(SOON, "it is found out", async || {
        deaf.health().component("listener").is_some_and(|part| !part.up && part.error.is_some())
    })
    .await;
    assert!(deaf.health().ready, "{}", deaf.health());
    assert_eq!(meter.gauge("outbox_listening", ""), Some(0.0));
    logs.assert_present(&["WARN", "OUTBOX_LISTEN_URL", "every 500ms"]);
    // The other announcement may stand no longer: whoever starts withdraws it.
    eventually(SOON, "no announcement", async || !announced(&world.db).await).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!announced(&world.db).await, "who hears nothing does not ask to be told");
    let took = published(&world.db, "foreign-polled", foreign(&world.db, "polled").await).await;
    assert!(took < Duration::from_secs(3), "found by polling: {took:?}");
    deaf.shutdown().await;
}

/// A consumer in this process of messages that a relay in another one puts into its queue of the database.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_routed_message_wakes_a_consumer_of_another_process() {
    let db = TestDatabase::new().await;
    prepare(&db).await;
    let consumer = outbox::Runtime::builder()
        .database_url(db.url())
        .broker(Broker::Database)
        .registry(handlers![crate::world::reserve_stock])
        .role(Role::Consume)
        .signals(false)
        .poll_interval(FLOOR)
        .start()
        .await
        .unwrap();
    let relay = relay_process(&db, ("OUTBOX_BROKER", "database"));
    relay.wait_for_line("relay started", SOON).await;
    eventually(SOON, "it listens", async || consumer.health().component("listener").is_some_and(|part| part.up)).await;
    let mut took = Vec::new();
    for round in 0..4 {
        fast_asleep(&db).await;
        let committed = foreign(&db, &format!("{round}")).await;
        let effect = format!("order_id = 'foreign-{round}'");
        eventually(FLOOR + SOON, &effect, async || db.count("effects", &effect).await == 1).await;
        took.push(committed.elapsed());
    }
    println!("effects after {took:?}");
    // The consumer polls more and more rarely from the first round on: the second is 7 s after its last scan, and later ones more.
    assert!(took.iter().all(|took| *took < AT_ONCE), "{took:?}");
    consumer.shutdown().await;
    drop(relay);
}

/// A listener's URL that cannot be used is a start error, without its password.
#[tokio::test]
async fn a_wrong_listen_url_is_a_start_error() {
    let world = World::new().await;
    for (url, said) in [
        ("postgres://user:secret@host:notaport/x", "OUTBOX_LISTEN_URL: is not a"),
        ("mysql://user:secret@host/x", "`mysql:`"),
        ("sqlite://x.db", "OUTBOX_LISTEN_URL: is not a"),
    ] {
        let error = sleeper(&world).listen_url(url).start().await.unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains("secret"), "{url}: {error}");
        assert!(!format!("{:?}", sleeper(&world).listen_url(url)).contains("secret"));
    }
    let dir = tempfile::tempdir().unwrap();
    let file = format!("sqlite://{}?mode=rwc", dir.path().join("x.db").display());
    let builder = outbox::Runtime::builder().database_url(file).broker(Broker::Database).registry([]).role(Role::Relay);
    let error = builder.listen_url("postgres://localhost/x").start().await.unwrap_err().to_string();
    assert!(error.contains("OUTBOX_LISTEN_URL") && error.contains("unset it"), "{error}");
}
