//! R5: whoever writes while every relay sleeps notifies, in the statement that writes; nobody else does.

use std::time::Duration;

use outbox::Draft;
use outbox_it::TestDatabase;
use sqlx::postgres::PgListener;

use crate::ordered_enqueue::AccountChanged;
use crate::world::OrderCreated;

const WAYS: usize = 5;

/// Every statement that writes events.
async fn write(db: &TestDatabase, way: usize) {
    let order = || OrderCreated::number(way).draft();
    let ordered = || AccountChanged { account: "a".into(), step: way }.draft();
    let drafts: Vec<Draft> = match way {
        0 => vec![order()],
        1 => vec![order(), order()],
        2 => vec![ordered()],
        3 => vec![ordered(), order(), ordered()],
        _ => return db.execute("SELECT outbox_enqueue('order.created', '{}')").await,
    };
    let mut tx = db.pool().begin().await.unwrap();
    outbox::enqueue_all(&mut tx, drafts).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_while_every_relay_sleeps_does_a_writer_notify() {
    let db = TestDatabase::new().await;
    outbox::migrate(db.pool()).await.unwrap();
    let channel: String = sqlx::query_scalar("SELECT channel FROM outbox_wakeup").fetch_one(db.pool()).await.unwrap();
    let mut listener = PgListener::connect(&db.url()).await.unwrap();
    listener.listen(&channel).await.unwrap();

    // A relay is awake, or was never there, or its announcement is over.
    for asleep_until in ["'-infinity'", "now() - interval '1 millisecond'"] {
        db.execute(&format!("UPDATE outbox_wakeup SET asleep_until = {asleep_until}")).await;
        for way in 0..WAYS {
            write(&db, way).await;
        }
    }
    db.execute(&format!("SELECT pg_notify('{channel}', 'mark')")).await;
    assert_eq!(listener.recv().await.unwrap().payload(), "mark", "nobody else notified");

    db.execute("UPDATE outbox_wakeup SET asleep_until = now() + interval '1 minute'").await;
    for way in 0..WAYS {
        write(&db, way).await;
        let heard = tokio::time::timeout(Duration::from_secs(5), listener.recv()).await;
        assert_eq!(heard.unwrap_or_else(|_| panic!("way {way} is silent")).unwrap().payload(), "");
    }
    let mut tx = db.pool().begin().await.unwrap();
    OrderCreated::number(1).enqueue(&mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    db.execute(&format!("SELECT pg_notify('{channel}', 'mark')")).await;
    assert_eq!(listener.recv().await.unwrap().payload(), "mark", "one for each commit, and none for a rollback");
}
