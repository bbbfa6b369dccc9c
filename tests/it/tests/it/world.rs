//! What most tests share: a database with an `effects` table that has no unique key (a double effect is visible), a vhost, the event
//! `order.created`, and handlers that write effects.

use std::time::Duration;

use outbox::{Broker, HandlerDescriptor, RuntimeBuilder, handler};
use outbox_it::{TestDatabase, TestVhost, Wire, eventually};
use sqlx::PgConnection;

/// The event of most tests.
#[outbox::event(name = "order.created", exchange = "orders.events", key = order_id)]
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: String,
    pub quantity: i32,
}

impl OrderCreated {
    pub fn number(n: usize) -> Self {
        Self { order_id: format!("order-{n:06}"), quantity: 1 }
    }
}

/// Writes one effect.
#[handler(consumer = "inventory", concurrency = 8, retry(immediate = 1, delays = "100ms..1s", max_attempts = 4))]
pub async fn reserve_stock(order: OrderCreated, db: &mut PgConnection) -> sqlx::Result<()> {
    effect(db, "inventory", &order.order_id).await
}

/// Inserts an effect.
pub async fn effect(db: &mut PgConnection, consumer: &str, order_id: &str) -> sqlx::Result<()> {
    sqlx::query("INSERT INTO effects (consumer, order_id) VALUES ($1, $2)")
        .bind(consumer)
        .bind(order_id)
        .execute(db)
        .await?;
    Ok(())
}

/// A database and a vhost of one test.
pub struct World {
    pub db: TestDatabase,
    pub vhost: TestVhost,
}

impl World {
    pub async fn new() -> Self {
        let (db, vhost) = tokio::join!(TestDatabase::new(), TestVhost::new());
        prepare(&db).await;
        Self { db, vhost }
    }

    /// A builder for this world: fast polling, no signals, nothing that is linked.
    pub fn runtime<const N: usize>(&self, handlers: [&'static HandlerDescriptor; N]) -> RuntimeBuilder {
        builder(self.db.url(), self.vhost.url(), handlers)
    }

    pub async fn wire(&self) -> Wire {
        self.vhost.wire().await
    }

    pub async fn enqueue(&self, from: usize, to: usize) {
        enqueue(&self.db, from, to).await;
    }

    /// Waits until `orders` different orders have an effect, and checks that none has two.
    pub async fn settled(&self, orders: usize, within: Duration) {
        settled(&self.db, orders, within).await;
    }
}

/// Creates the tables of the library and of the tests.
pub async fn prepare(db: &TestDatabase) {
    outbox::migrate(db.pool()).await.expect("migrations");
    db.execute("CREATE TABLE effects (consumer text NOT NULL, order_id text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())")
        .await;
}

/// A builder with what every test wants.
pub fn builder<const N: usize>(
    database: impl Into<String>,
    broker: &str,
    handlers: [&'static HandlerDescriptor; N],
) -> RuntimeBuilder {
    outbox::Runtime::builder()
        .database_url(database)
        .broker(Broker::RabbitMq(broker.to_owned()))
        .registry(handlers)
        .signals(false)
        .poll_interval(Duration::from_millis(100))
        .shutdown_timeout(Duration::from_secs(15))
}

/// Enqueues the orders `from..to`, a hundred in a transaction.
pub async fn enqueue(db: &TestDatabase, from: usize, to: usize) {
    let numbers: Vec<usize> = (from..to).collect();
    for chunk in numbers.chunks(100) {
        let mut tx = db.pool().begin().await.expect("begin");
        outbox::enqueue_all(&mut tx, chunk.iter().map(|n| OrderCreated::number(*n).draft())).await.expect("enqueue");
        tx.commit().await.expect("commit");
    }
}

/// See [`World::settled`].
pub async fn settled(db: &TestDatabase, orders: usize, within: Duration) {
    let want = i64::try_from(orders).unwrap();
    let mut last = -1;
    eventually(within, &format!("{orders} orders with an effect"), async || {
        last = db.number("SELECT count(DISTINCT order_id) FROM effects").await;
        last >= want
    })
    .await;
    no_doubles(db).await;
    assert_eq!(db.number("SELECT count(DISTINCT order_id) FROM effects").await, want, "orders with an effect");
}

/// Checks that no order has two effects in one consumer.
pub async fn no_doubles(db: &TestDatabase) {
    let doubled = db
        .number("SELECT count(*) FROM (SELECT FROM effects GROUP BY consumer, order_id HAVING count(*) > 1) AS d")
        .await;
    assert_eq!(doubled, 0, "orders with two effects");
}

/// The name of the event, for messages and rows written by hand.
pub const ORDER_CREATED: &str = <OrderCreated as outbox::Event>::DESCRIPTOR.name;
