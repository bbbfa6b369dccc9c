//! The broker "database" on PostgreSQL: what is its own, beside the behaviours of the matrix.

use std::time::Duration;

use outbox::{Broker, HandlerDescriptor, Role, RuntimeBuilder, handlers};
use outbox_it::{OwnPostgres, TestDatabase, eventually};

use crate::world::{enqueue, no_doubles, prepare, settled};

/// A builder with the database as the broker.
pub fn builder<const N: usize>(db: &TestDatabase, handlers: [&'static HandlerDescriptor; N]) -> RuntimeBuilder {
    crate::world::builder(db.url(), "", handlers).broker(Broker::Database)
}

/// Promises 1 to 3 without RabbitMQ, with several instances on one table.
#[tokio::test(flavor = "multi_thread")]
async fn three_instances_share_the_queue_and_each_event_has_one_effect() {
    let db = TestDatabase::new().await;
    prepare(&db).await;
    let mut runtimes = Vec::new();
    for _ in 0..3 {
        runtimes.push(builder(&db, handlers![crate::world::reserve_stock]).start().await.expect("start"));
    }
    enqueue(&db, 0, 1000).await;
    settled(&db, 1000, Duration::from_secs(30)).await;
    tokio::time::timeout(Duration::from_secs(20), runtimes[0].idle()).await.expect("idle");
    no_doubles(&db).await;
    assert_eq!(db.count("outbox_messages", "status = 'Published'").await, 1000);
    assert_eq!(db.count("inbox_messages", "state = 'Processed'").await, 1000);
    assert_eq!(db.count("queue_messages", "true").await, 0, "what is handled has left its queue");
    for runtime in runtimes {
        runtime.shutdown().await;
    }
}
