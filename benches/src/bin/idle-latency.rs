//! How long an event takes that comes out of silence: one every 2.5 s, committed by a connection that shares no hint with the relay, while the
//! relay sleeps. From the return of the COMMIT to the message at a RabbitMQ consumer (a classic queue, so that the broker adds little), and to
//! the effect of a handler (a quorum queue, the handler's transaction, and a test that looks for its row every 0.2 ms).
//!
//! `idle-latency [EVENTS]`: 20. Exits with 1 if the median to the message is 5 ms or more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a program for people")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use lapin::options::BasicConsumeOptions;
use lapin::types::FieldTable;
use outbox::{Broker, Runtime, handler, handlers};
use outbox_bench::{Tells, median};
use outbox_it::rabbit_wire::{table, text};
use outbox_it::{TestDatabase, TestVhost, eventually};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

const PATIENCE: Duration = Duration::from_secs(20);

#[outbox::event(name = "order.created", exchange = "orders.events", key = order_id)]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct OrderCreated {
    order_id: String,
}

#[handler(consumer = "effects")]
async fn effect(order: OrderCreated, db: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query("INSERT INTO effects (id) VALUES ($1)").bind(order.order_id).execute(db).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let events: usize = std::env::args().nth(1).map_or(20, |text| text.parse().expect("EVENTS is a number"));
    let (db, vhost) = (TestDatabase::new().await, TestVhost::new().await);
    outbox::migrate(db.pool()).await.expect("migrations");
    db.execute("CREATE TABLE effects (id text NOT NULL)").await;
    let wire = vhost.wire().await;
    wire.topic_exchange("orders.events").await;
    wire.queue_with("tap", table([("x-queue-type", text("classic"))])).await;
    wire.bind("tap", "orders.events", "#").await;
    let channel = wire.channel().await;
    let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
    let mut tap =
        channel.basic_consume("tap".into(), "tap".into(), options, FieldTable::default()).await.expect("a tap");

    let runtime = Runtime::builder()
        .database_url(db.url())
        .broker(Broker::RabbitMq(vhost.url().to_owned()))
        .registry(handlers![effect])
        .signals(false)
        .start()
        .await
        .expect("start");
    eventually(PATIENCE, "ready", async || runtime.health().ready).await;
    let mut writer = PgConnection::connect_with(&db.options()).await.expect("a connection");
    let mut reader = PgConnection::connect_with(&db.options()).await.expect("a connection");
    let insert = Tells::IfAsleep.insert();
    let (mut to_message, mut to_effect, mut notified) = (Vec::new(), Vec::new(), 0);
    // The first one is not counted: statements are prepared, connections opened.
    for n in 0..=events {
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        let id = format!("idle-{n}");
        let mut tx = writer.begin().await.expect("begin");
        let told: i64 =
            sqlx::query_scalar(AssertSqlSafe(insert.as_str())).bind(&id).fetch_one(&mut *tx).await.expect("insert");
        tx.commit().await.expect("commit");
        let committed = Instant::now();
        let message = async {
            loop {
                let delivery = tap.next().await.expect("a consumer").expect("a message");
                // A copy of an earlier event is not this one.
                if delivery.properties.message_id().as_ref().is_some_and(|found| found.as_str() == id) {
                    break;
                }
            }
            committed.elapsed()
        };
        let seen = async {
            while !row_is_there(&mut reader, &id).await {
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
            committed.elapsed()
        };
        let both = async { tokio::join!(message, seen) };
        let (message, seen) = tokio::time::timeout(PATIENCE, both).await.expect("it arrives");
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        if n > 0 {
            println!(
                "event {n}: asleep={} message after {:.2} ms, effect after {:.2} ms",
                told == 1,
                millis(message),
                millis(seen)
            );
            to_message.push(millis(message));
            to_effect.push(millis(seen));
            notified += told;
        }
    }
    runtime.shutdown().await;
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let middle = median(to_message.clone());
    println!(
        "idle-latency events={events} found_the_relay_asleep={notified} message_median_ms={middle:.2} message_max_ms={:.2} effect_median_ms={:.2} effect_max_ms={:.2}",
        most(&to_message),
        median(to_effect.clone()),
        most(&to_effect)
    );
    if middle < 5.0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn row_is_there(connection: &mut PgConnection, id: &str) -> bool {
    let found: Option<i32> = sqlx::query_scalar("SELECT 1 FROM effects WHERE id = $1")
        .bind(id)
        .fetch_optional(connection)
        .await
        .expect("a look");
    found.is_some()
}
