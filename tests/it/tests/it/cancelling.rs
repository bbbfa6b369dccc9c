//! Cancel: what waits can be taken back, what a relay has or a broker may have cannot.

use std::time::Duration;

use outbox::{Cancel, Draft, Enqueue, EventId};
use outbox_it::{TestDatabase, eventually};

use crate::on_stores::on_each_store;
use crate::ordered_enqueue::AccountChanged;
use crate::world::OrderCreated;

fn id(id: &str) -> EventId {
    EventId::parse(id).unwrap()
}

fn later(id: &str) -> Draft {
    Draft::new(&OrderCreated::number(1), Enqueue::new().event_id(id).after(Duration::from_secs(3600)))
}

/// What it tells, as text.
fn told(cancel: Cancel) -> String {
    match cancel {
        Cancel::Cancelled => "cancelled".into(),
        Cancel::TooLate { status, may_be_published, .. } => format!("{status} {may_be_published}"),
        _ => "unknown".into(),
    }
}

on_each_store! {
    /// In the caller's transaction: it comes with its commit, and goes with its rollback.
    async fn an_event_that_waits_is_taken_back_in_the_callers_transaction(place) {
        place.commit([later("1"), later("2"), Draft::new(&AccountChanged { account: "a".into(), step: 1 }, Enqueue::new().event_id("3"))]).await;
        let mut tx = place.begin().await;
        assert_eq!(outbox::cancel(&mut tx, &id("1")).await.unwrap(), Cancel::Cancelled);
        assert_eq!(outbox::cancel(&mut tx, &id("1")).await.unwrap(), Cancel::Unknown);
        tx.rollback().await.unwrap();
        assert_eq!(place.count("outbox_messages", "true").await, 3);

        let mut tx = place.begin().await;
        assert_eq!(outbox::cancel(&mut tx, &id("1")).await.unwrap(), Cancel::Cancelled);
        assert_eq!(outbox::cancel(&mut tx, &id("3")).await.unwrap(), Cancel::Cancelled);
        // The id is free again.
        outbox::enqueue_all(&mut tx, [later("1")]).await.unwrap();
        assert_eq!(outbox::cancel_on_connection::<S>(&mut tx, &id("1")).await.unwrap(), Cancel::Cancelled);
        assert_eq!(outbox::cancel(&mut tx, &id("never")).await.unwrap(), Cancel::Unknown);
        tx.commit().await.unwrap();
        assert_eq!(place.texts("SELECT event_id FROM outbox_messages").await, ["2"]);
        assert_eq!(place.count("outbox_sequences", "last_sequence = 1").await, 1, "a number is not given twice");
    }

    /// The answer says where it is, and whether a broker may have it.
    async fn what_is_on_its_way_stays_and_the_answer_says_where_it_is(place) {
        let states = [
            ("claimed", format!("status = 'Processing', locked_by = 'r', locked_until = {}", S::NOW), "Processing true"),
            ("published", format!("status = 'Published', published_at = {}", S::NOW), "Published true"),
            ("failed", "status = 'Failed', last_error = 'no'".to_owned(), "Failed false"),
            ("failed-unknown", "status = 'Failed', unknown_count = 2".to_owned(), "Failed true"),
            ("unknown", "unknown_count = 1".to_owned(), "Pending true"),
            ("returned", "attempt_count = 3, last_error = 'NO_ROUTE'".to_owned(), "cancelled"),
        ];
        for (event, set, _) in &states {
            place.commit([later(event)]).await;
            place.execute(&format!("UPDATE outbox_messages SET {set} WHERE event_id = '{event}'")).await;
        }
        let mut tx = place.begin().await;
        for (event, _, want) in &states {
            assert_eq!(told(outbox::cancel(&mut tx, &id(event)).await.unwrap()), *want, "{event}");
        }
        tx.commit().await.unwrap();
        assert_eq!(place.count("outbox_messages", "true").await, 5);
    }
}

/// The row's lock decides: a claim that came first is seen, whichever way it ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_waits_for_a_claim_that_is_being_made() {
    let db = TestDatabase::new().await;
    outbox::migrate(db.pool()).await.unwrap();
    for (committed, want) in [(true, "Processing true"), (false, "cancelled")] {
        let mut tx = db.pool().begin().await.unwrap();
        let event = OrderCreated::number(1).enqueue(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        let mut claim = db.pool().begin().await.unwrap();
        sqlx::query("UPDATE outbox_messages SET status = 'Processing', locked_by = 'r', locked_until = now() WHERE event_id = $1")
            .bind(event.as_str())
            .execute(&mut *claim)
            .await
            .unwrap();
        let pool = db.pool().clone();
        let cancel = tokio::spawn(async move {
            let mut tx = pool.begin().await.unwrap();
            let cancel = outbox::cancel(&mut tx, &event).await.unwrap();
            tx.commit().await.unwrap();
            cancel
        });
        eventually(Duration::from_secs(10), "cancel waits", async || {
            db.sessions("wait_event_type = 'Lock'").await == 1
        })
        .await;
        if committed {
            claim.commit().await.unwrap();
        } else {
            claim.rollback().await.unwrap();
        }
        assert_eq!(told(cancel.await.unwrap()), want);
    }
}
