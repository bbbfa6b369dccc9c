//! Enqueue, claim, settle and what runs at intervals.

use std::time::Duration;

use sqlx::{Connection, Sqlite};

use super::{File, LEASE, at, content, limits};
use crate::error::EnqueueError;
use crate::outbox::{Fate, Settled, Settlement};
use crate::store::Store;

fn settlement(event_id: &str, claim_id: &str, fate: Fate) -> Settlement {
    Settlement { event_id: event_id.to_owned(), claim_id: claim_id.to_owned(), fate }
}

fn settled(result: Result<Settled, sqlx::Error>) -> u64 {
    result.unwrap().settled
}

#[tokio::test]
async fn an_event_comes_out_as_it_went_in() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    let payload = "{ \"price\":199.00, \"text\":\"\\u0000 \u{e9} \\\"q\\\" \\\\ \u{1f980}\" }";
    let one = content("1", payload);
    Sqlite::insert(&mut connection, std::slice::from_ref(&one)).await.unwrap();
    Sqlite::insert(&mut connection, &[content("2", payload), content("3", "[]")]).await.unwrap();
    let rows = Sqlite::claim(&mut connection, "r", limits(10, 10_000)).await.unwrap().rows;
    assert_eq!(rows.iter().map(|row| row.event_id.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
    for row in &rows[..2] {
        assert_eq!(row.payload, payload);
        assert_eq!(row.aggregate_id, one.aggregate_id);
        assert_eq!((row.event_type.as_str(), row.routing_key.as_str()), ("order.created", "order.created"));
        assert_eq!((row.exchange.as_str(), row.event_version), (crate::DEFAULT_EXCHANGE, 1));
        assert_eq!(row.headers["tenant"], "a\\b\"");
        assert_eq!(row.headers[crate::outbox::own_header::CORRELATION], "c");
        assert_eq!(row.occurred_at, at(1_700_000_000_123_456));
        assert!((chrono::Utc::now() - row.enqueued_at).abs() < chrono::TimeDelta::seconds(10), "{}", row.enqueued_at);
        assert!(row.age < Duration::from_secs(10));
        assert_eq!((row.budget.attempt_count, row.budget.max_attempts, &row.defect), (0, 20, &None));
    }
    assert_eq!(
        file.number("SELECT payload_bytes FROM outbox_messages WHERE event_id = '2'").await,
        payload.len() as i64
    );
    assert!(Sqlite::claim(&mut connection, "r2", limits(10, 10_000)).await.unwrap().rows.is_empty());
}

#[tokio::test]
async fn a_repeated_id_leaves_nothing_of_the_call_and_the_transaction_goes_on() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    let mut tx = connection.begin().await.unwrap();
    Sqlite::insert(&mut tx, &[content("1", "{}")]).await.unwrap();
    let duplicates = |result| match result {
        Err(EnqueueError::Duplicate { ids }) => ids.iter().map(ToString::to_string).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(duplicates(Sqlite::insert(&mut tx, &[content("1", "{}")]).await), ["1"]);
    let three = [content("0", "{}"), content("1", "{}"), content("2", "{}")];
    assert_eq!(duplicates(Sqlite::insert(&mut tx, &three).await), ["1"]);
    Sqlite::insert(&mut tx, &[content("4", "{}"), content("5", "{}")]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(file.text("SELECT group_concat(event_id, '') FROM outbox_messages ORDER BY event_id").await, "145");
}

#[tokio::test]
async fn a_claim_is_bounded_in_rows_and_bytes_and_lets_one_row_through() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    for (id, due) in [("d", 1), ("c", 2), ("b", 3), ("a", 4)] {
        file.row(id, "k", due, &[]).await;
    }
    file.row("later", "k", i64::MAX, &[]).await;
    let mut ids = async |claim: &str, rows, bytes| {
        let rows = Sqlite::claim(&mut connection, claim, limits(rows, bytes)).await.unwrap().rows;
        rows.into_iter().map(|row| row.event_id).collect::<Vec<_>>()
    };
    assert_eq!(ids("1", 10, 1).await, ["d"]);
    assert_eq!(ids("2", 10, 25).await, ["c", "b"]);
    assert_eq!(ids("3", 0, 25).await, [""; 0]);
    assert_eq!(ids("4", 10, 25).await, ["a"]);
    assert_eq!(ids("5", 10, 25).await, [""; 0]);
}

#[tokio::test]
async fn outcomes_are_written_under_the_claim_only() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    for id in ["1", "2", "3", "4", "5"] {
        file.row(id, "k", 5, &[]).await;
    }
    Sqlite::claim(&mut connection, "r", limits(9, 100)).await.unwrap();
    let error = || "e".to_owned();
    let retry = |spent| Fate::Retry { after: Duration::MAX, spent, unknown: !spent, skipped: false, error: error() };
    let outcomes = [
        settlement("1", "r", Fate::Published),
        settlement("2", "r", retry(true)),
        settlement("3", "r", Fate::Failed { error: "f".to_owned(), skipped: false }),
        settlement("4", "r", Fate::PutBack),
        settlement("5", "lost", Fate::Published),
        settlement("none", "r", Fate::Published),
    ];
    assert_eq!(settled(Sqlite::settle(&mut connection, &outcomes, false).await), 4);
    assert_eq!(settled(Sqlite::settle(&mut connection, &[], false).await), 0);
    let rows =
        "SELECT group_concat(event_id || status || attempt_count || coalesce(last_error, '-') || (locked_by IS NULL)
                || (published_at IS NULL), ' ') FROM outbox_messages ORDER BY event_id";
    assert_eq!(file.text(rows).await, "1Published0-10 2Pending1e11 3Failed1f11 4Pending0-11 5Processing0-01");
    assert_eq!(Sqlite::renew(&mut connection, &["lost".to_owned()], LEASE).await.unwrap(), 0);
    assert_eq!(Sqlite::renew(&mut connection, &["x".to_owned(), "r".to_owned()], LEASE).await.unwrap(), 1);
    let stats = Sqlite::outbox_stats(&mut connection).await.unwrap();
    assert_eq!((stats.pending, stats.processing, stats.held, stats.failed, stats.expired), (2, 1, 1, 1, 0));
    assert!(stats.oldest.is_some());
    assert_eq!(Sqlite::release(&mut connection, &["r".to_owned()]).await.unwrap(), 1);
    assert_eq!(Sqlite::claim(&mut connection, "r2", limits(9, 100)).await.unwrap().rows.len(), 2);
}

#[tokio::test]
async fn expired_leases_and_old_rows_are_cleared_in_bounded_steps() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    for id in ["1", "2", "3"] {
        file.row(id, "k", 5, &[]).await;
    }
    Sqlite::claim(&mut connection, "r", limits(9, 100)).await.unwrap();
    assert_eq!(Sqlite::put_back_expired(&mut connection, 9).await.unwrap(), 0);
    file.sql("UPDATE outbox_messages SET locked_until = 1 WHERE event_id <> '3'").await;
    assert_eq!(Sqlite::outbox_stats(&mut connection).await.unwrap().expired, 2);
    assert_eq!(Sqlite::put_back_expired(&mut connection, 1).await.unwrap(), 1);
    assert_eq!(Sqlite::put_back_expired(&mut connection, 9).await.unwrap(), 1);
    // A lost claim settles nothing, even if another one has the row.
    Sqlite::claim(&mut connection, "r2", limits(9, 100)).await.unwrap();
    let late = [settlement("1", "r", Fate::Published), settlement("3", "r", Fate::Published)];
    assert_eq!(settled(Sqlite::settle(&mut connection, &late, false).await), 1);

    let keep = Duration::from_secs(3600);
    file.sql("UPDATE outbox_messages SET status = 'Published', published_at = 1, locked_by = NULL, locked_until = NULL WHERE event_id <> '3'")
        .await;
    assert_eq!(Sqlite::purge_published(&mut connection, keep, 1).await.unwrap(), 1);
    assert_eq!(Sqlite::purge_published(&mut connection, keep, 9).await.unwrap(), 1);
    assert_eq!(Sqlite::purge_published(&mut connection, keep, 9).await.unwrap(), 0);
    assert_eq!(file.text("SELECT group_concat(event_id) FROM outbox_messages").await, "3");
}

#[tokio::test]
async fn rows_written_by_hand_have_a_defect_and_stop_nobody() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    file.row("1", "k", 1, &[("occurred_at", "9223372036854775807")]).await;
    file.row("2", "k", 2, &[("enqueued_at", "-9223372036854775808")]).await;
    file.row("3", "k", 3, &[("headers", "'[1]'")]).await;
    file.row("4", "k", 4, &[]).await;
    file.sql("UPDATE outbox_messages SET aggregate_id = CAST(x'ff41' AS TEXT) WHERE event_id = '4'").await;
    file.row("5", "k", 5, &[]).await;
    let rows = Sqlite::claim(&mut connection, "r", limits(9, 100)).await.unwrap().rows;
    let defects: Vec<_> = rows.iter().map(|row| row.defect.clone().unwrap_or_default()).collect();
    assert!(defects[0].contains("`occurred_at`") && defects[1].contains("`enqueued_at`"), "{defects:?}");
    assert!(defects[2].contains("headers") && defects[3].contains("UTF-8"), "{defects:?}");
    assert_eq!(defects[4], "");
    assert!(Sqlite::outbox_stats(&mut connection).await.unwrap().oldest.is_some());
}
