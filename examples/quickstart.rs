//! A shop in one process and one SQLite file: orders, the stock that is reserved for them, and the customers who are told.
//!
//! `cargo run --example quickstart`. Kill it in the middle and run it again: the second run finishes what the first one left.
#![allow(clippy::print_stdout)]

use outbox::{BoxError, Broker, Metadata, Runtime, event, handler};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePool};

/// The event: what happened, under a name that other services know.
#[event(name = "order.created", exchange = "orders.events", key = order_id)]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct OrderCreated {
    order_id: String,
    quantity: i64,
}

/// The producer: the order and its event are committed together, or neither is. Every tenth customer changes his mind.
async fn place_order(pool: &SqlitePool, number: i64) -> Result<(), BoxError> {
    let order = OrderCreated { order_id: format!("order-{number:03}"), quantity: 1 + number % 5 };
    let mut tx = outbox::begin(pool).await?;
    let placed = sqlx::query(include_str!("quickstart/place_order.sql"))
        .bind(&order.order_id)
        .bind(order.quantity)
        .execute(&mut *tx)
        .await?;
    // An earlier run may have placed it: then its event is written, too.
    if placed.rows_affected() == 1 {
        order.enqueue(&mut tx).await?;
    }
    if number % 10 == 0 {
        tx.rollback().await?;
    } else {
        tx.commit().await?;
    }
    Ok(())
}

/// A consumer: the reservation and the record that this event was handled are committed together.
#[handler(consumer = "inventory")]
async fn reserve_stock(order: OrderCreated, db: &mut SqliteConnection) -> sqlx::Result<()> {
    sqlx::query(include_str!("quickstart/reserve_stock.sql"))
        .bind(order.order_id)
        .bind(order.quantity)
        .execute(db)
        .await?;
    Ok(())
}

/// Another one, for the same event. Its first attempt fails: what it wrote is rolled back, and it runs again later.
#[handler(consumer = "notification", retry(immediate = 0, delays = "50ms..1s"))]
async fn notify_customer(order: OrderCreated, metadata: Metadata, db: &mut SqliteConnection) -> Result<(), BoxError> {
    sqlx::query(include_str!("quickstart/notify_customer.sql")).bind(order.order_id).execute(db).await?;
    if metadata.attempt() == 1 {
        return Err("the mail server is away".into());
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("target/quickstart");
    std::fs::create_dir_all(&directory)?;
    let options = SqliteConnectOptions::new().filename(directory.join("shop.db")).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await?;
    sqlx::raw_sql(include_str!("quickstart/tables.sql")).execute(&pool).await?;

    // Relay and consumers, as they run in a service. A service without more to do than that says `outbox::runtime::run().await`.
    let runtime = Runtime::builder().database(&pool).broker(Broker::Database).start().await?;

    for number in 1..=100 {
        place_order(&pool, number).await?;
        progress(&pool).await?;
    }
    // An event that is delivered twice takes effect once.
    sqlx::query(include_str!("quickstart/redeliver.sql")).execute(&pool).await?;
    tokio::select! {
        () = runtime.idle() => {}
        error = show_progress(&pool) => error?,
    }
    progress(&pool).await?;
    runtime.shutdown().await;

    let (orders, reservations, lost, doubled): (i64, i64, i64, i64) =
        sqlx::query_as(include_str!("quickstart/result.sql")).fetch_one(&pool).await?;
    pool.close().await;
    // Kept if the run is interrupted; removed here so that the next one begins anew.
    std::fs::remove_dir_all(&directory)?;
    println!("\norders={orders} reservations={reservations} lost={lost} doubled={doubled}");
    if lost + doubled > 0 {
        std::process::exit(1);
    }
    Ok(())
}

/// Writes one line again and again.
async fn progress(pool: &SqlitePool) -> Result<(), BoxError> {
    let (orders, reservations, notifications): (i64, i64, i64) =
        sqlx::query_as(include_str!("quickstart/progress.sql")).fetch_one(pool).await?;
    print!("\r{orders} orders placed, {reservations} reservations made, {notifications} customers told");
    std::io::Write::flush(&mut std::io::stdout())?;
    Ok(())
}

async fn show_progress(pool: &SqlitePool) -> Result<(), BoxError> {
    loop {
        progress(pool).await?;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
