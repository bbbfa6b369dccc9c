//! C12: what a handler sends tells what it comes from, and exists only if its transaction does.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outbox::{BoxError, Emit, Enqueue, Message, Metadata, State, handler, handlers, trace};
use outbox_it::eventually;
use sqlx::PgConnection;

use crate::world::{OrderCreated, World, effect};

const SOON: Duration = Duration::from_secs(20);
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[outbox::event(name = "stock.reserved", key = order_id)]
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct StockReserved {
    pub order_id: String,
    pub by: String,
}

#[handler(consumer = "returns", retry(immediate = 1, delays = "50ms..50ms", max_attempts = 3))]
async fn returns(order: OrderCreated, db: &mut PgConnection) -> Result<Option<StockReserved>, BoxError> {
    effect(db, "returns", &order.order_id).await?;
    Ok(Some(StockReserved { order_id: order.order_id, by: "returns".into() }))
}

#[handler(consumer = "emits", retry(immediate = 1, delays = "50ms..50ms", max_attempts = 3))]
async fn emits(order: OrderCreated, meta: Metadata, emit: &mut Emit, db: &mut PgConnection) -> Result<(), BoxError> {
    effect(db, "emits", &order.order_id).await?;
    emit.event(&StockReserved { order_id: order.order_id.clone(), by: "emits".into() })?;
    match (order.order_id.as_str(), meta.attempt()) {
        ("order-000002", 1 | 2) => Err("not yet".into()),
        ("order-000003", _) => Err("never".into()),
        _ => Ok(()),
    }
}

#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<Message<StockReserved>>>>);

#[handler(consumer = "receives")]
async fn receives(message: Message<StockReserved>, received: State<Received>) -> outbox::Result<()> {
    received.0.lock().unwrap().push(message);
    Ok(())
}

/// C12, promise 1: correlation, causation and trace are handed on by a returned event and by an emitted one; runs that failed have sent nothing.
#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_handler_carry_their_cause_and_exist_only_with_its_transaction() {
    let world = World::new().await;
    let received = Received::default();
    let runtime = world.runtime(handlers![returns, emits, receives]).state(received.clone()).start().await.unwrap();
    let context = trace::TraceContext::parse(TRACEPARENT).map(|context| context.with_state("vendor=1"));
    let enqueue = async {
        let mut tx = world.db.pool().begin().await.unwrap();
        let options = Enqueue::new().event_id("cause").correlation_id("checkout-17");
        OrderCreated::number(1).enqueue_with(&mut tx, options).await.unwrap();
        OrderCreated::number(2).enqueue_with(&mut tx, Enqueue::new().event_id("second-cause")).await.unwrap();
        OrderCreated::number(3).enqueue_with(&mut tx, Enqueue::new().event_id("never")).await.unwrap();
        tx.commit().await.unwrap();
    };
    trace::scope(context, enqueue).await;
    // 1 and 2 from both, 3 from `returns` only.
    eventually(SOON, "five events arrive", async || received.0.lock().unwrap().len() == 5).await;
    eventually(SOON, "the hopeless one is dead", async || {
        world.db.count("parked_messages", "status = 'Dead'").await == 1
    })
    .await;
    tokio::time::timeout(SOON, runtime.idle()).await.expect("idle");
    assert_eq!(
        world.db.count("outbox_messages", "event_type = 'stock.reserved'").await,
        5,
        "runs that failed sent nothing"
    );
    let got = received.0.lock().unwrap().clone();
    for by in ["returns", "emits"] {
        let one = got.iter().find(|m| m.event.by == by && m.event.order_id == "order-000001").expect(by);
        assert_eq!(one.metadata.correlation_id(), Some("checkout-17"), "{by}");
        assert_eq!(one.metadata.causation_id(), Some("cause"), "{by}");
        let trace = one.metadata.trace().expect(by);
        assert_eq!(
            (trace.trace_id(), trace.tracestate()),
            ("4bf92f3577b34da6a3ce929d0e0e4736", Some("vendor=1")),
            "{by}"
        );
        let two = got.iter().find(|m| m.event.by == by && m.event.order_id == "order-000002").expect(by);
        assert_eq!(two.metadata.causation_id(), Some("second-cause"), "{by}");
        // Without a correlation id the first event is where the process begins.
        assert!(
            two.metadata.correlation_id().is_none_or(|id| id == "second-cause"),
            "{by}: {:?}",
            two.metadata.correlation_id()
        );
    }
    assert!(!got.iter().any(|m| m.event.by == "emits" && m.event.order_id == "order-000003"));
    runtime.shutdown().await;
}
