//! One test's database and broker, and what the bodies do with them.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lapin::types::AMQPValue;
use outbox::{Broker, ConsumerOptions, Draft, Enqueue, HandlerDescriptor, Migrations, Runtime, RuntimeBuilder};
use outbox_it::rabbit_wire::{table, text};
use outbox_it::{Wire, eventually, names, rabbit};
use sqlx::{Pool, Transaction};

use super::exceptions;
use super::messages::{Foreign, Parked};
use super::stores::TestStore;
use crate::scripted::Script;
use crate::world::OrderCreated;

pub const SOON: Duration = Duration::from_secs(20);
/// An exchange of no event type.
pub const NOBODYS_EXCHANGE: &str = "nobodys.events";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerKind {
    RabbitMq,
    Database,
}

impl BrokerKind {
    /// How the table of the guarantees calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RabbitMq => "RabbitMQ",
            Self::Database => "database",
        }
    }
}

/// The shared vhost, and this test's part of it.
struct Rabbit {
    url: String,
    wire: Wire,
    namespace: String,
}

pub struct Place<S: TestStore> {
    server: S::Server,
    rabbit: Option<Rabbit>,
    behaviour: &'static str,
    /// Whether the body asked what this combination can do.
    asked: AtomicBool,
    /// Consumers that may have queues at the shared broker.
    consumers: Mutex<BTreeSet<String>>,
}

impl<S: TestStore> Place<S> {
    /// A place whose database has the tables of the library and of the tests.
    pub async fn new(broker: BrokerKind, behaviour: &'static str) -> Self {
        let rabbit = async {
            if broker == BrokerKind::Database {
                return None;
            }
            let (url, wire) = rabbit::shared_vhost().await;
            Some(Rabbit { url, wire, namespace: names::unique() })
        };
        let (server, rabbit) = tokio::join!(S::create(), rabbit);
        outbox::migrate(S::pool(&server)).await.expect("migrations");
        let effects = "CREATE TABLE effects (consumer text NOT NULL, order_id text NOT NULL)";
        S::try_execute(S::pool(&server), effects).await.expect("the table of the effects");
        Self { server, rabbit, behaviour, asked: AtomicBool::new(false), consumers: Mutex::default() }
    }

    /// A second system on the same broker: a database of its own, and the same vhost where there is one.
    pub async fn neighbour(&self) -> Self {
        Self::new(self.broker(), self.behaviour).await
    }

    pub fn broker(&self) -> BrokerKind {
        if self.rabbit.is_some() { BrokerKind::RabbitMq } else { BrokerKind::Database }
    }

    /// Whether this combination does what the behaviour says. If not, the body asserts what it does instead.
    pub fn can(&self) -> bool {
        self.asked.store(true, Ordering::SeqCst);
        !exceptions::excepted(self.behaviour, S::TITLE, self.broker())
    }

    /// Checks that the body knows of its exceptions, and takes away what is at the shared broker.
    pub async fn end(&self) {
        if let Some(Rabbit { wire, namespace, .. }) = &self.rabbit {
            let consumers = self.consumers.lock().unwrap().clone();
            for queue in consumers.iter().flat_map(|c| ["", ".dead", ".unreadable"].map(|end| format!("{c}{end}"))) {
                wire.delete_queue(&format!("{namespace}.{queue}")).await;
            }
            for exchange in ["orders.events", "outbox.events", NOBODYS_EXCHANGE] {
                wire.delete_exchange(&format!("{namespace}.{exchange}")).await;
            }
        }
        let excepted = exceptions::excepted(self.behaviour, S::TITLE, self.broker());
        assert!(!excepted || self.asked.load(Ordering::SeqCst), "the body does not ask `place.can()`");
    }

    /// What an operator has on this database.
    pub fn admin(&self) -> outbox::admin::Admin<S> {
        outbox::admin::Admin::new(S::pool(&self.server).clone())
    }

    // ---- runtimes -----------------------------------------------------------------------------------------------------------

    /// A builder for this place: fast polling, no signals, these handlers.
    pub fn runtime<const N: usize>(&self, handlers: [&'static HandlerDescriptor; N]) -> RuntimeBuilder {
        self.consumers.lock().unwrap().extend(handlers.iter().map(|handler| handler.consumer.to_owned()));
        let builder = Runtime::builder()
            .database_url(S::url(&self.server))
            .registry(handlers)
            .migrations(Migrations::Check)
            .signals(false)
            .poll_interval(Duration::from_millis(100))
            .shutdown_timeout(Duration::from_secs(15));
        match &self.rabbit {
            Some(rabbit) => builder.broker(Broker::RabbitMq(rabbit.url.clone())).namespace(&rabbit.namespace),
            None => builder.broker(Broker::Database),
        }
    }

    pub async fn start<const N: usize>(&self, handlers: [&'static HandlerDescriptor; N]) -> Runtime {
        self.runtime(handlers).start().await.expect("start")
    }

    /// A builder with the scripted handler and these options.
    pub fn scripted(&self, script: &Script, options: ConsumerOptions) -> RuntimeBuilder {
        self.runtime([S::handlers().scripted]).state(script.clone()).consumer("matrix-scripted", options)
    }

    /// Makes the queue of the scripted consumer, as a start of it long ago would have.
    pub async fn declared(&self, script: &Script, options: ConsumerOptions) {
        let runtime = self.scripted(script, options).role(outbox::Role::Consume).start().await.expect("start");
        eventually(SOON, "everything is declared", async || runtime.health().ready).await;
        runtime.shutdown().await;
    }

    // ---- producing ----------------------------------------------------------------------------------------------------------

    pub fn pool(&self) -> &Pool<S> {
        S::pool(&self.server)
    }

    pub async fn begin(&self) -> Transaction<'static, S> {
        S::begin_on(S::pool(&self.server)).await
    }

    pub async fn commit(&self, drafts: impl IntoIterator<Item = Draft>) {
        let mut tx = self.begin().await;
        outbox::enqueue_all(&mut tx, drafts).await.expect("enqueue");
        tx.commit().await.expect("commit");
    }

    /// Enqueues the orders `from..to`.
    pub async fn enqueue(&self, from: usize, to: usize) {
        self.commit((from..to).map(|n| OrderCreated::number(n).draft())).await;
    }

    /// Enqueues one order under an id of the test's choice.
    pub async fn enqueue_as(&self, order: usize, event_id: &str) {
        self.commit([Draft::new(&OrderCreated::number(order), Enqueue::new().event_id(event_id))]).await;
    }

    /// Has the relay publish an event once more, as after a confirm that was lost.
    pub async fn publish_again(&self, event_id: &str) {
        let published = format!("event_id = '{event_id}' AND status = 'Published'");
        self.rows_become("outbox_messages", &published, 1).await;
        self.execute(&format!(
            "UPDATE outbox_messages SET status = 'Pending', published_at = NULL, next_attempt_at = {} WHERE {published}",
            S::NOW
        ))
        .await;
        self.rows_become("outbox_messages", &published, 1).await;
    }

    /// Puts a message into a consumer's queue, past the outbox.
    pub async fn deliver(&self, consumer: &str, message: Foreign<'_>) {
        let Foreign { event_id, event_type, version, body, enqueued_at } = message;
        let Some(rabbit) = &self.rabbit else {
            let at = enqueued_at.map_or_else(|| S::NOW.to_owned(), S::time);
            return self
                .execute(&format!(
                    "INSERT INTO queue_messages (queue, event_id, aggregate_id, event_type, event_version, exchange, routing_key, envelope, payload,
                                                 headers, occurred_at, enqueued_at)
                     VALUES ('{consumer}', '{event_id}', '', '{event_type}', {version}, '', '{consumer}', 'flat', '{body}', '{{}}', {at}, {at})"
                ))
                .await;
        };
        let mut headers =
            table([("outbox-event-version", AMQPValue::LongInt(version)), ("outbox-envelope", text("flat"))]);
        if let Some(at) = enqueued_at {
            headers.insert("outbox-enqueued-at".into(), text(at));
        }
        let properties = lapin::BasicProperties::default()
            .with_message_id(event_id.into())
            .with_type(event_type.into())
            .with_headers(headers)
            .with_delivery_mode(2);
        let queue = format!("{}.{consumer}", rabbit.namespace);
        eventually(SOON, "the queue is there", async || rabbit.wire.ready(&queue).await.is_some()).await;
        assert!(rabbit.wire.publish("", &queue, properties, body.as_bytes()).await);
    }

    // ---- looking ------------------------------------------------------------------------------------------------------------

    pub async fn execute(&self, sql: &str) {
        self.try_execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    pub async fn try_execute(&self, sql: &str) -> sqlx::Result<()> {
        S::try_execute(S::pool(&self.server), sql).await
    }

    /// The rows of a query whose columns are text.
    pub async fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        S::rows(S::pool(&self.server), sql).await
    }

    /// The only column of a query.
    pub async fn texts(&self, sql: &str) -> Vec<String> {
        self.rows(sql).await.into_iter().flatten().collect()
    }

    pub async fn number(&self, sql: &str) -> usize {
        let text = self.texts(&format!("SELECT CAST(n AS text) FROM (SELECT ({sql}) AS n) AS number")).await;
        text[0].parse().expect("a number")
    }

    /// The rows of a table for which a condition holds.
    pub async fn count(&self, table: &str, condition: &str) -> usize {
        self.number(&format!("SELECT count(*) FROM {table} WHERE {condition}")).await
    }

    pub async fn rows_become(&self, table: &str, condition: &str, want: usize) {
        let what = format!("{want} rows of {table} with {condition}");
        eventually(SOON, &what, async || self.count(table, condition).await == want).await;
    }

    /// Waits until `orders` different orders have an effect, and checks that none has two.
    pub async fn settled(&self, orders: usize) {
        let different = "SELECT count(DISTINCT order_id) FROM effects";
        eventually(SOON, &format!("{orders} orders have an effect"), async || self.number(different).await >= orders)
            .await;
        self.no_doubles().await;
        assert_eq!(self.number(different).await, orders, "orders with an effect");
    }

    pub async fn no_doubles(&self) {
        let doubled =
            "SELECT count(*) FROM (SELECT 1 FROM effects GROUP BY consumer, order_id HAVING count(*) > 1) AS d";
        assert_eq!(self.number(doubled).await, 0, "orders with two effects");
    }

    pub async fn effects_of(&self, order: usize) -> usize {
        self.count("effects", &format!("order_id = '{}'", OrderCreated::number(order).order_id)).await
    }

    /// The state of an event in the inbox; empty if it is not there.
    pub async fn inbox_state(&self, event_id: &str) -> String {
        let states = self.texts(&format!("SELECT state FROM inbox_messages WHERE event_id = '{event_id}'")).await;
        states.into_iter().next().unwrap_or_default()
    }

    pub async fn becomes(&self, event_id: &str, state: &str) {
        eventually(SOON, &format!("{event_id} is {state}"), async || self.inbox_state(event_id).await == state).await;
    }

    /// All parked messages in the order of their arrival.
    pub async fn parked(&self) -> Vec<Parked> {
        let sql = format!(
            "SELECT COALESCE(event_id, ''), status, reason, COALESCE(error, ''), CAST(attempts AS text),
                    CASE WHEN isolated THEN 'yes' ELSE 'no' END, {} FROM parked_messages ORDER BY parked_id",
            S::BODY_HEX
        );
        let rows = self.rows(&sql).await.into_iter().map(|row| <[String; 7]>::try_from(row).expect("seven columns"));
        rows.map(|[event_id, status, reason, error, attempts, isolated, body_hex]| Parked {
            event_id,
            status,
            reason,
            error,
            attempts,
            isolated: isolated == "yes",
            body_hex,
        })
        .collect()
    }

    /// The messages in a consumer's queue that nobody has.
    pub async fn waiting(&self, consumer: &str) -> usize {
        match &self.rabbit {
            None => self.count("queue_messages", &format!("queue = '{consumer}' AND locked_by IS NULL")).await,
            Some(rabbit) => {
                let ready = rabbit.wire.ready(&format!("{}.{consumer}", rabbit.namespace)).await;
                ready.expect("a queue") as usize
            }
        }
    }

    /// Has the broker give up on everything in a queue that nobody consumes: each message was delivered as often as it may be.
    pub async fn exhaust(&self, consumer: &str) {
        let Some(rabbit) = &self.rabbit else {
            return self
                .execute(&format!("UPDATE queue_messages SET deliveries = 20 WHERE queue = '{consumer}'"))
                .await;
        };
        let queue = format!("{}.{consumer}", rabbit.namespace);
        crate::dead_letter_queue::exhaust(&rabbit.wire, &queue, 1).await;
    }
}

/// Waits until a runtime has nothing to do.
pub async fn idle(runtime: &Runtime) {
    tokio::time::timeout(SOON, runtime.idle()).await.expect("idle");
}
