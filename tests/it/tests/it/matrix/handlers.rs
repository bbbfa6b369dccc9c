//! The handlers of the matrix: written once, compiled for the connection of each store.

use std::sync::{Arc, Mutex};

use outbox::{HandlerDescriptor, Metadata};
use serde_json::value::RawValue;

/// What a handler makes of an order.
#[outbox::event(name = "order.forwarded", exchange = "orders.events", key = order_id)]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Forwarded {
    pub order_id: String,
}

/// An amount that is kept as it was written.
#[outbox::event(name = "price.set", version = 3, exchange = "orders.events", key = article)]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct PriceSet {
    pub article: String,
    pub amount: Box<RawValue>,
}

/// The first event of an account. Whoever wants no more than what comes after it is not bound for it.
#[outbox::event(name = "ledger.opened", exchange = "orders.events", key = account, ordered, backoff = "100ms..400ms")]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Opened {
    pub account: String,
}

/// A later event of an account.
#[outbox::event(name = "ledger.moved", exchange = "orders.events", key = account, ordered, backoff = "100ms..400ms")]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Moved {
    pub account: String,
    pub step: usize,
}

/// What reached the consumer of accounts, in the order of its queue. Step 0 is the opening.
#[derive(Clone, Default)]
pub struct Ledger(pub Arc<Mutex<Vec<(String, usize)>>>);

impl Ledger {
    pub fn of(&self, account: &str) -> Vec<usize> {
        self.0.lock().unwrap().iter().filter(|(of, _)| of == account).map(|(_, step)| *step).collect()
    }

    fn write(&self, account: String, step: usize) {
        self.0.lock().unwrap().push((account, step));
    }
}

/// What `tells` was called with.
#[derive(Clone, Default)]
pub struct Told(pub Arc<Mutex<Vec<(Metadata, String)>>>);

/// The handlers on one store's connections.
#[derive(Clone, Copy)]
pub struct Handlers {
    /// One effect for an order.
    pub stock: &'static HandlerDescriptor,
    /// The same in another consumer.
    pub mail: &'static HandlerDescriptor,
    /// What the script of the test says.
    pub scripted: &'static HandlerDescriptor,
    /// Writes an effect and returns an event. Order 2 fails once after that, order 3 always.
    pub forwards: &'static HandlerDescriptor,
    /// Writes what it got, and from which event that came.
    pub receives: &'static HandlerDescriptor,
    /// Tells the test what it got.
    pub tells: &'static HandlerDescriptor,
    /// One effect for an urgent order.
    pub urgent: &'static HandlerDescriptor,
    /// Write the ledger, one event at a time.
    pub opened: &'static HandlerDescriptor,
    pub moved: &'static HandlerDescriptor,
}

macro_rules! handlers_on {
    ($module:ident, $connection:ident) => {
        pub mod $module {
            use outbox::{BoxError, Emit, IdempotencyKey, Message, Outcome, State, handler, handlers};
            use sqlx::{AssertSqlSafe, $connection as Connection};

            use super::{Forwarded, Handlers, Ledger, Moved, Opened, PriceSet, Told};
            use crate::producing::Urgent;
            use crate::scripted::{Act, Script, finish};
            use crate::world::OrderCreated;

            async fn effect(db: &mut Connection, consumer: &str, order_id: &str) -> sqlx::Result<()> {
                let insert = sqlx::query("INSERT INTO effects (consumer, order_id) VALUES ($1, $2)");
                insert.bind(consumer).bind(order_id).execute(db).await?;
                Ok(())
            }

            #[handler(consumer = "matrix-stock", concurrency = 4)]
            async fn stock(order: OrderCreated, db: &mut Connection) -> sqlx::Result<()> {
                effect(db, "matrix-stock", &order.order_id).await
            }

            #[handler(consumer = "matrix-mail", concurrency = 4)]
            async fn mail(order: OrderCreated, db: &mut Connection) -> sqlx::Result<()> {
                effect(db, "matrix-mail", &order.order_id).await
            }

            #[handler(consumer = "matrix-urgent")]
            async fn urgent(order: Urgent, db: &mut Connection) -> sqlx::Result<()> {
                effect(db, "matrix-urgent", &order.order_id).await
            }

            #[handler(consumer = "matrix-ledger", concurrency = 1, prefetch = 1)]
            async fn opened(event: Opened, ledger: State<Ledger>, db: &mut Connection) -> sqlx::Result<()> {
                effect(db, "matrix-ledger", &event.account).await?;
                ledger.write(event.account, 0);
                Ok(())
            }

            #[handler(consumer = "matrix-ledger", concurrency = 1, prefetch = 1)]
            async fn moved(event: Moved, ledger: State<Ledger>, db: &mut Connection) -> sqlx::Result<()> {
                effect(db, "matrix-ledger", &format!("{} {}", event.account, event.step)).await?;
                ledger.write(event.account, event.step);
                Ok(())
            }

            #[handler(consumer = "matrix-forwards", retry(immediate = 1, delays = "50ms..50ms", max_attempts = 2))]
            async fn forwards(
                message: Message<OrderCreated>,
                emit: &mut Emit,
                db: &mut Connection,
            ) -> Result<Vec<Forwarded>, BoxError> {
                let order_id = message.event.order_id;
                effect(db, "matrix-forwards", &order_id).await?;
                emit.event(&Forwarded { order_id: format!("emitted {order_id}") })?;
                match (&order_id[11..], message.metadata.attempt()) {
                    ("2", 1) => Err("not yet".into()),
                    ("3", _) => Err("never".into()),
                    _ => Ok(vec![Forwarded { order_id: format!("returned {order_id}") }]),
                }
            }

            #[handler(consumer = "matrix-receives")]
            async fn receives(message: Message<Forwarded>, db: &mut Connection) -> sqlx::Result<()> {
                let (metadata, order_id) = (message.metadata, message.event.order_id);
                let from = (metadata.causation_id().unwrap_or("?"), metadata.correlation_id().unwrap_or("?"));
                effect(db, "matrix-receives", &format!("{order_id} from {} in {}", from.0, from.1)).await
            }

            #[handler(consumer = "matrix-tells")]
            async fn tells(message: Message<PriceSet>, told: State<Told>, db: &mut Connection) -> sqlx::Result<()> {
                effect(db, "matrix-tells", &message.event.article).await?;
                told.0.lock().unwrap().push((message.metadata, message.event.amount.get().to_owned()));
                Ok(())
            }

            #[handler(consumer = "matrix-scripted")]
            async fn scripted(
                message: Message<OrderCreated>,
                key: IdempotencyKey,
                script: State<Script>,
                db: &mut Connection,
            ) -> Result<Outcome, BoxError> {
                let mut act = script.begin(&message, &key);
                effect(db, "matrix-scripted", &message.event.order_id).await?;
                loop {
                    act = match act {
                        Act::Sql(sql, next) => {
                            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *db).await?;
                            *next
                        }
                        Act::Swallow(sql, next) => {
                            let _ = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *db).await;
                            *next
                        }
                        Act::Sleep(time, next) => {
                            tokio::time::sleep(time).await;
                            *next
                        }
                        last => return finish(last),
                    };
                }
            }

            pub fn all() -> Handlers {
                let [stock, mail, scripted, forwards, receives, tells, urgent, opened, moved] =
                    handlers![stock, mail, scripted, forwards, receives, tells, urgent, opened, moved];
                Handlers { stock, mail, scripted, forwards, receives, tells, urgent, opened, moved }
            }
        }
    };
}

handlers_on!(on_postgres, PgConnection);
handlers_on!(on_sqlite, SqliteConnection);
