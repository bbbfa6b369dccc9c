//! Routing, and taking messages out of a queue.

use std::time::Duration;

use sqlx::Sqlite;

use super::{File, LEASE, binding, route, take};
use crate::event::Unroutable;
use crate::queue::{QueueKey, QueueRow};
use crate::store::Store;

fn key(row: &QueueRow, claim_id: &str) -> QueueKey {
    QueueKey { message_id: row.message_id, claim_id: claim_id.to_owned() }
}

#[tokio::test]
async fn a_row_goes_to_each_queue_that_wants_it_once() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    let bindings =
        [binding("all", "#"), binding("all", "order.*"), binding("orders", "order.created"), binding("other", "x")];
    assert_eq!(Sqlite::unbound(&mut connection, &bindings).await.unwrap().len(), 4);
    Sqlite::bind(&mut connection, &bindings[1..]).await.unwrap();
    Sqlite::bind(&mut connection, &bindings).await.unwrap();
    assert!(Sqlite::unbound(&mut connection, &bindings).await.unwrap().is_empty());
    let mut elsewhere = binding("elsewhere", "#");
    elsewhere.exchange = "e".to_owned();
    Sqlite::bind(&mut connection, &[elsewhere]).await.unwrap();

    file.row("2", "order.created", 2, &[]).await;
    file.sql("UPDATE outbox_messages SET payload = '{ \"a\":1.00}'").await;
    file.row("1", "order.paid", 3, &[]).await;
    file.row("3", "order.created", 1, &[]).await;
    let routed = Sqlite::route_due(&mut connection, &route(10, 1000)).await.unwrap().rows;
    let order: Vec<_> = routed.iter().map(|row| (row.event_id.as_str(), row.published)).collect();
    assert_eq!(order, [("3", true), ("2", true), ("1", true)], "in the order in which they were due");
    let queues = "SELECT group_concat(queue || event_id, ' ' ORDER BY message_id) FROM queue_messages";
    assert_eq!(file.text(queues).await, "all3 orders3 all2 orders2 all1");
    assert_eq!(
        file.number("SELECT count(*) FROM outbox_messages WHERE status = 'Published' AND published_at > 5").await,
        3
    );
    assert!(Sqlite::route_due(&mut connection, &route(10, 1000)).await.unwrap().rows.is_empty());
    assert_eq!(Sqlite::queue_depth(&mut connection, "all").await.unwrap(), 3);

    let rows = take(&mut connection, "orders", "w", LEASE).await;
    assert_eq!(rows[1].payload, b"{ \"a\":1.00}");
    assert_eq!((rows[1].exchange.as_str(), rows[1].routing_key.as_str()), ("n.e", "order.created"));
    assert_eq!(Sqlite::queue_depth(&mut connection, "orders").await.unwrap(), 2, "claimed ones count");
    assert!(Sqlite::queue_known(&mut connection, "other").await.unwrap());
    assert!(!Sqlite::queue_known(&mut connection, "none").await.unwrap());
}

#[tokio::test]
async fn what_no_queue_wants_stays_claimed_and_defects_are_not_routed() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    Sqlite::bind(&mut connection, &[binding("q", "k")]).await.unwrap();
    file.row("1", "nobody", 1, &[("unroutable", "'discard'"), ("attempt_count", "3")]).await;
    file.row("2", "k", 2, &[("headers", "'\"text\"'")]).await;
    file.row("3", "k", 3, &[("occurred_at", "253402300800000000")]).await;
    file.row("4", "k", 4, &[("enqueued_at", "-62135596800000001")]).await;
    file.row("5", "k", 5, &[("enqueued_at", "-62135596800000000")]).await;
    let rows = Sqlite::route_due(&mut connection, &route(10, 1000)).await.unwrap().rows;
    assert_eq!(rows.iter().map(|row| row.published).collect::<Vec<_>>(), [false, false, false, false, true]);
    assert_eq!(
        (rows[0].budget.unroutable, rows[0].budget.attempt_count, &rows[0].defect),
        (Unroutable::Discard, 3, &None)
    );
    let defects: Vec<_> = rows[1..4].iter().map(|row| row.defect.clone().unwrap_or_default()).collect();
    assert!(defects[0].contains("not a JSON object"), "{defects:?}");
    assert!(defects[1].contains("`occurred_at`") && defects[2].contains("`enqueued_at`"), "{defects:?}");
    assert_eq!(
        file.number("SELECT count(*) FROM outbox_messages WHERE status = 'Processing' AND locked_by = 'relay'").await,
        4
    );
    assert_eq!(Sqlite::renew(&mut connection, &["relay".to_owned()], LEASE).await.unwrap(), 4);
    assert_eq!(take(&mut connection, "q", "w", LEASE).await[0].event_id, "5");
}

#[tokio::test]
async fn a_round_is_bounded_in_rows_and_bytes() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    Sqlite::bind(&mut connection, &[binding("q", "k")]).await.unwrap();
    for id in ["1", "2", "3", "4", "5"] {
        file.row(id, "k", 1, &[]).await;
    }
    let mut count =
        async |rows, bytes| Sqlite::route_due(&mut connection, &route(rows, bytes)).await.unwrap().rows.len();
    assert_eq!((count(9, 1).await, count(2, 1000).await, count(9, 19).await, count(9, 19).await), (1, 2, 1, 1));
}

#[tokio::test]
async fn messages_are_claimed_acked_and_given_back_under_their_claim() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    Sqlite::bind(&mut connection, &[binding("q", "k"), binding("other", "k")]).await.unwrap();
    for id in ["1", "2", "3"] {
        file.row(id, "k", 1, &[]).await;
    }
    Sqlite::route_due(&mut connection, &route(10, 1000)).await.unwrap();
    let rows = take(&mut connection, "q", "w1", LEASE).await;
    assert_eq!(
        rows.iter().map(|row| (row.event_id.as_str(), row.deliveries)).collect::<Vec<_>>(),
        [("1", 1), ("2", 1), ("3", 1)]
    );
    assert!(take(&mut connection, "q", "w2", LEASE).await.is_empty());
    assert!(!Sqlite::ack_queue(&mut connection, &key(&rows[0], "w2")).await.unwrap());
    assert!(Sqlite::ack_queue(&mut connection, &key(&rows[0], "w1")).await.unwrap());
    assert!(!Sqlite::ack_queue(&mut connection, &key(&rows[0], "w1")).await.unwrap());
    let keys = [key(&rows[1], "w1"), key(&rows[2], "lost")];
    assert_eq!(Sqlite::put_back_queue(&mut connection, &keys).await.unwrap(), 1);
    assert_eq!(Sqlite::renew_queue(&mut connection, &["w1".to_owned()], Duration::ZERO).await.unwrap(), 1);
    tokio::time::sleep(Duration::from_millis(5)).await;
    let again = take(&mut connection, "q", "w3", LEASE).await;
    let counts: Vec<_> = again.iter().map(|row| (row.event_id.as_str(), row.deliveries)).collect();
    assert_eq!(counts, [("2", 1), ("3", 2)], "a graceful put-back takes its delivery back, an expired lease does not");
    assert!(!Sqlite::ack_queue(&mut connection, &key(&rows[2], "w1")).await.unwrap(), "the claim is lost");
    assert_eq!(Sqlite::queue_depth(&mut connection, "other").await.unwrap(), 3);
}
