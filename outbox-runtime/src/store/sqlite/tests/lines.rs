//! Order within a key: what goes, what waits, and what lets it go on (R6).

use std::time::Duration;

use sqlx::Sqlite;

use super::{File, binding, limits, route};
use crate::outbox::{Fate, Settlement};
use crate::store::Store;

async fn ordered(file: &File, event_id: &str, key: &str, sequence: i64, due: i64) {
    let (key, sequence) = (format!("'{key}'"), sequence.to_string());
    file.row(event_id, "k", due, &[("sequence", &sequence)]).await;
    file.sql(&format!("UPDATE outbox_messages SET aggregate_id = {key} WHERE event_id = '{event_id}'")).await;
}

async fn claim(file: &File, claim_id: &str) -> (Vec<String>, u64) {
    let claimed = Sqlite::claim(&mut *file.connection().await, claim_id, limits(10, 10_000)).await.unwrap();
    (claimed.rows.into_iter().map(|row| row.event_id).collect(), claimed.deferred)
}

async fn settle(file: &File, claim_id: &str, fates: &[(&str, Fate)], delete: bool) -> (u64, u64) {
    let settlements: Vec<_> = fates
        .iter()
        .map(|(id, fate)| Settlement { event_id: (*id).to_owned(), claim_id: claim_id.to_owned(), fate: fate.clone() })
        .collect();
    let settled = Sqlite::settle(&mut *file.connection().await, &settlements, delete).await.unwrap();
    (settled.settled, settled.pulled)
}

async fn waiting(file: &File) -> String {
    file.text("SELECT coalesce(group_concat(event_id, '' ORDER BY event_id), '') FROM outbox_messages WHERE next_attempt_at = 9223372036854775807")
        .await
}

fn retry(skipped: bool) -> Fate {
    Fate::Retry { after: Duration::from_secs(60), spent: true, unknown: false, skipped, error: "312".to_owned() }
}

#[tokio::test]
async fn a_key_goes_on_when_the_event_before_is_published_and_not_earlier() {
    let file = File::new().await;
    for (id, sequence, due) in [("a", 1, 9), ("b", 2, 1), ("c", 3, 2)] {
        ordered(&file, id, "x", sequence, due).await;
    }
    ordered(&file, "d", "y", 1, 3).await;
    assert_eq!(
        claim(&file, "1").await,
        (["d", "a", "b", "c"].map(str::to_owned).to_vec(), 0),
        "in the order of its line"
    );
    ordered(&file, "e", "x", 4, 1).await;
    assert_eq!(claim(&file, "2").await, (vec![], 1), "c is with the relay");
    assert_eq!(waiting(&file).await, "e");
    assert_eq!(claim(&file, "3").await, (vec![], 0), "what waits is met once");

    let fates = [("a", Fate::Published), ("b", retry(false)), ("c", Fate::Blocked), ("d", Fate::Published)];
    assert_eq!(settle(&file, "1", &fates, false).await, (4, 0));
    assert_eq!(waiting(&file).await, "ce");
    file.sql("UPDATE outbox_messages SET next_attempt_at = 5 WHERE event_id = 'b'").await;
    assert_eq!(claim(&file, "4").await.0, ["b", "c", "e"], "those that wait go along");
    let fates = [("b", Fate::Published), ("c", Fate::Published), ("e", retry(false))];
    assert_eq!(settle(&file, "4", &fates, true).await, (3, 0));
    assert_eq!(
        file.number("SELECT count(*) FROM outbox_messages WHERE aggregate_id = 'x'").await,
        2,
        "b and c are deleted"
    );
}

#[tokio::test]
async fn one_that_is_skipped_lets_the_next_one_go() {
    let file = File::new().await;
    for (id, sequence) in [("a", 1), ("b", 2), ("c", 3)] {
        ordered(&file, id, "x", sequence, 1).await;
    }
    let limits = limits(1, 10_000);
    let one = async |claim_id| {
        let claimed = Sqlite::claim(&mut *file.connection().await, claim_id, limits).await.unwrap();
        claimed.rows.into_iter().map(|row| row.event_id).collect::<Vec<_>>()
    };
    assert_eq!(one("1").await, ["a"]);
    assert_eq!(claim(&file, "2").await, (vec![], 2));
    assert_eq!(
        settle(&file, "1", &[("a", Fate::Failed { error: "406".to_owned(), skipped: true })], false).await,
        (1, 1)
    );
    assert_eq!(one("3").await, ["b"]);
    assert_eq!(settle(&file, "3", &[("b", retry(true))], false).await, (1, 1));
    assert_eq!(one("4").await, ["c"]);
    // Run again by an operator, it goes whenever it likes.
    file.sql("UPDATE outbox_messages SET status = 'Pending', next_attempt_at = 1 WHERE event_id = 'a'").await;
    assert_eq!(one("5").await, ["a"]);
}

#[tokio::test]
async fn what_waits_for_nothing_is_found_key_by_key() {
    let file = File::new().await;
    for key in ["u", "v", "w", "x", "y"] {
        ordered(&file, &format!("{key}1"), key, 1, 1).await;
        ordered(&file, &format!("{key}2"), key, 2, i64::MAX).await;
    }
    file.sql("DELETE FROM outbox_messages WHERE event_id IN ('v1', 'x1', 'y1')").await;
    let mut connection = file.connection().await;
    let mut cursor = None;
    let mut released = Vec::new();
    for _ in 0..4 {
        let (count, next) = Sqlite::release_waiting(&mut connection, cursor.as_ref(), 2).await.unwrap();
        released.push((count, next.is_some()));
        cursor = next;
    }
    assert_eq!(released, [(1, true), (1, true), (1, false), (0, true)], "u v, w x, y, and again from the beginning");
    assert_eq!(waiting(&file).await, "u2w2");
}

#[tokio::test]
async fn rows_are_routed_in_order_up_to_the_one_that_no_queue_wants() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    Sqlite::bind(&mut connection, &[binding("q", "k")]).await.unwrap();
    for (id, sequence) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
        ordered(&file, id, "x", sequence, 9 - sequence).await;
    }
    file.sql("UPDATE outbox_messages SET routing_key = 'nobody' WHERE event_id = 'c'").await;
    let routed = Sqlite::route_due(&mut connection, &route(10, 1000)).await.unwrap();
    let rows: Vec<_> = routed.rows.iter().map(|row| (row.event_id.as_str(), row.published)).collect();
    assert_eq!((rows, routed.deferred), (vec![("a", true), ("b", true), ("c", false)], 1));
    assert_eq!(waiting(&file).await, "d");
    let queued = "SELECT group_concat(event_id, '' ORDER BY message_id) FROM queue_messages";
    assert_eq!(file.text(queued).await, "ab");
    assert_eq!(settle(&file, "relay", &[("c", Fate::Published)], false).await, (1, 1), "a policy may discard it");
    assert_eq!(Sqlite::route_due(&mut connection, &route(10, 1000)).await.unwrap().rows.len(), 1);
    assert_eq!(file.text(queued).await, "abd");
}
