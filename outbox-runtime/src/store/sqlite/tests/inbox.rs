//! Dedup records, parking and re-runs.

use std::time::Duration;

use sqlx::Sqlite;

use super::{AGAIN, File, LEASE, at, binding, entry, parked, route, take};
use crate::inbox::{Disposition, FloorMove, InboxRecord, ParkedClaim, ParkedStatus, Reason, Reparked, Stamp};
use crate::queue::QueueKey;
use crate::store::Store;

fn claim(claim_id: &str, alone: bool) -> ParkedClaim {
    ParkedClaim { consumer: "c".to_owned(), claim_id: claim_id.to_owned(), limit: 5, lease: LEASE, alone }
}

/// One whole run whose handler does nothing; its stamp, if it was new.
async fn handled(file: &File, event_id: &str, from: Option<&QueueKey>) -> Option<Stamp> {
    let mut connection = file.connection().await;
    let mut tx = Sqlite::begin(&mut connection).await.unwrap();
    let stamp = Sqlite::insert_inbox(&mut tx, &entry(event_id), from).await.unwrap();
    match stamp {
        Some(stamp) => Sqlite::commit(tx, stamp).await.unwrap(),
        None => Sqlite::rollback(tx).await.unwrap(),
    }
    stamp
}

#[tokio::test]
async fn an_event_is_handled_once() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    assert_eq!(Sqlite::inbox_record(&mut connection, &entry("1")).await.unwrap(), InboxRecord::Gone);
    let stamp = handled(&file, "1", None).await.unwrap();
    assert_eq!(handled(&file, "1", None).await, None);
    let mut record = async |entry| Sqlite::inbox_record(&mut connection, &entry).await.unwrap();
    assert_eq!(record(entry("1")).await, InboxRecord::Known(Disposition::Processed));
    let mut other = entry("1");
    other.fingerprint = [8; 16];
    assert_eq!(record(other.clone()).await, InboxRecord::Reused);
    other.version = 2;
    assert_eq!(record(other).await, InboxRecord::Known(Disposition::Processed), "another version of the same event");
    let mut connection = file.connection().await;
    assert!(Sqlite::committed_by_handler(&mut connection, &entry("1"), stamp).await.unwrap());
    let next = Stamp { session: stamp.session.wrapping_add(1), ..stamp };
    assert!(!Sqlite::committed_by_handler(&mut connection, &entry("1"), next).await.unwrap());
}

#[tokio::test]
async fn a_message_leaves_its_queue_with_its_record_and_a_lost_claim_inserts_nothing() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    Sqlite::bind(&mut connection, &[binding("q", "k")]).await.unwrap();
    for id in ["1", "2"] {
        file.row(id, "k", 1, &[]).await;
    }
    Sqlite::route_due(&mut connection, &route(10, 1000)).await.unwrap();
    let rows = take(&mut connection, "q", "w", LEASE).await;
    let key = |row: usize, claim: &str| QueueKey { message_id: rows[row].message_id, claim_id: claim.to_owned() };
    assert_eq!(handled(&file, "1", Some(&key(0, "lost"))).await, None);
    assert_eq!(Sqlite::inbox_record(&mut connection, &entry("1")).await.unwrap(), InboxRecord::Gone);
    assert!(handled(&file, "1", Some(&key(0, "w"))).await.is_some());
    assert_eq!(Sqlite::queue_depth(&mut connection, "q").await.unwrap(), 1);
    // A duplicate stays in its queue: the rollback puts it back, and it is acked on its own.
    assert_eq!(handled(&file, "1", Some(&key(1, "w"))).await, None);
    assert_eq!(Sqlite::queue_depth(&mut connection, "q").await.unwrap(), 1);
}

#[tokio::test]
async fn a_parked_message_runs_again_once() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    assert!(Sqlite::park(&mut connection, &parked("1", AGAIN)).await.unwrap());
    assert!(!Sqlite::park(&mut connection, &parked("1", AGAIN)).await.unwrap(), "it has a record");
    let stats = Sqlite::parked_stats(&mut connection).await.unwrap();
    assert_eq!((stats.retrying, stats.dead), (1, 0));
    assert_eq!(
        Sqlite::inbox_record(&mut connection, &entry("1")).await.unwrap(),
        InboxRecord::Known(Disposition::Retrying)
    );
    assert!(!Sqlite::alone_due(&mut connection, "c").await.unwrap());
    let row = Sqlite::claim_parked(&mut connection, &claim("p", false)).await.unwrap().remove(0);
    assert_eq!((row.event_id.as_deref(), row.attempts, row.isolated), (Some("1"), 2, false));
    assert_eq!((row.body.as_slice(), row.properties.as_str()), ([0, 255, 1].as_slice(), "{}"));
    assert!(Sqlite::claim_parked(&mut connection, &claim("p2", false)).await.unwrap().is_empty());

    let mut tx = Sqlite::begin(&mut connection).await.unwrap();
    assert_eq!(Sqlite::begin_rerun(&mut tx, row.parked_id, "p2").await.unwrap(), None);
    Sqlite::rollback(tx).await.unwrap();
    let mut tx = Sqlite::begin(&mut connection).await.unwrap();
    let stamp = Sqlite::begin_rerun(&mut tx, row.parked_id, "p").await.unwrap().unwrap();
    Sqlite::rollback(tx).await.unwrap();
    assert_eq!(Sqlite::parked_stats(&mut connection).await.unwrap().retrying, 1, "rolled back");
    assert!(!Sqlite::committed_by_handler(&mut connection, &entry("1"), stamp).await.unwrap());
    let mut tx = Sqlite::begin(&mut connection).await.unwrap();
    let stamp = Sqlite::begin_rerun(&mut tx, row.parked_id, "p").await.unwrap().unwrap();
    Sqlite::commit(tx, stamp).await.unwrap();
    assert_eq!(
        Sqlite::inbox_record(&mut connection, &entry("1")).await.unwrap(),
        InboxRecord::Known(Disposition::Processed)
    );
    assert_eq!(Sqlite::parked_stats(&mut connection).await.unwrap().retrying, 0);
}

#[tokio::test]
async fn a_failed_rerun_waits_ends_or_is_put_back_under_its_claim() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    assert!(Sqlite::park(&mut connection, &parked("1", AGAIN)).await.unwrap());
    let row = Sqlite::claim_parked(&mut connection, &claim("p", false)).await.unwrap().remove(0);
    let back = Reparked::PutBack { after: Duration::ZERO };
    assert!(!Sqlite::repark(&mut connection, row.parked_id, "lost", &back).await.unwrap());
    assert!(Sqlite::repark(&mut connection, row.parked_id, "p", &back).await.unwrap());
    tokio::time::sleep(Duration::from_millis(5)).await;
    let row = Sqlite::claim_parked(&mut connection, &claim("p2", false)).await.unwrap().remove(0);
    assert_eq!(row.attempts, 2, "the attempt was taken back");
    let again = Reparked::Again { after: LEASE, error: "e".to_owned() };
    assert!(Sqlite::repark(&mut connection, row.parked_id, "p2", &again).await.unwrap());
    assert!(Sqlite::claim_parked(&mut connection, &claim("p3", false)).await.unwrap().is_empty());
    file.sql("UPDATE parked_messages SET next_attempt_at = 1").await;
    // Its lease runs out: from then on it runs alone.
    Sqlite::claim_parked(&mut connection, &claim("p4", false)).await.unwrap().remove(0);
    file.sql("UPDATE parked_messages SET locked_until = 1").await;
    assert!(Sqlite::claim_parked(&mut connection, &claim("p5", false)).await.unwrap().is_empty());
    let row = Sqlite::claim_parked(&mut connection, &claim("p5", true)).await.unwrap().remove(0);
    assert_eq!((row.attempts, row.isolated), (4, true));
    let dead = Reparked::Dead { reason: Reason::AttemptsSpent, error: "e".to_owned() };
    assert!(!Sqlite::repark(&mut connection, row.parked_id, "p4", &dead).await.unwrap());
    assert!(Sqlite::repark(&mut connection, row.parked_id, "p5", &dead).await.unwrap());
    assert_eq!(
        Sqlite::inbox_record(&mut connection, &entry("1")).await.unwrap(),
        InboxRecord::Known(Disposition::Dead)
    );
    assert_eq!(file.text("SELECT status || reason FROM parked_messages").await, "Deadattempts spent");
}

#[tokio::test]
async fn parking_inside_a_transaction_is_part_of_it() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    let mut tx = Sqlite::begin(&mut connection).await.unwrap();
    assert!(Sqlite::park(&mut tx, &parked("1", AGAIN)).await.unwrap());
    Sqlite::rollback(tx).await.unwrap();
    assert_eq!(
        file.number("SELECT (SELECT count(*) FROM parked_messages) + (SELECT count(*) FROM inbox_messages)").await,
        0
    );
    let mut tx = Sqlite::begin(&mut connection).await.unwrap();
    assert!(Sqlite::park(&mut tx, &parked("1", AGAIN)).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(
        file.number("SELECT (SELECT count(*) FROM parked_messages) + (SELECT count(*) FROM inbox_messages)").await,
        2
    );
    // What fails half-way leaves nothing.
    let mut broken = parked("2", AGAIN);
    broken.properties = "no JSON".to_owned();
    assert!(Sqlite::park(&mut connection, &broken).await.is_err());
    assert_eq!(Sqlite::inbox_record(&mut connection, &entry("2")).await.unwrap(), InboxRecord::Gone);
}

#[tokio::test]
async fn a_message_without_a_record_of_its_own_is_parked_beside_the_others() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    let mut stranger = parked("1", ParkedStatus::Dead);
    (stranger.inbox, stranger.event_id) = (None, None);
    assert!(Sqlite::park(&mut connection, &stranger).await.unwrap());
    assert!(Sqlite::park(&mut connection, &stranger).await.unwrap());
    assert_eq!(Sqlite::parked_stats(&mut connection).await.unwrap().dead, 2);
    assert_eq!(file.number("SELECT count(*) FROM inbox_messages").await, 0);
}

/// As after a handler that took the hooks off and committed: its own record becomes Dead, nobody else's does.
#[tokio::test]
async fn the_record_of_an_ended_run_becomes_dead_by_its_number() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    let stamp = handled(&file, "1", None).await.unwrap();
    let mut ended = parked("1", ParkedStatus::Dead);
    ended.ended = Some(Stamp { session: stamp.session.wrapping_add(1), ..stamp });
    assert!(!Sqlite::park(&mut connection, &ended).await.unwrap());
    assert_eq!(
        Sqlite::inbox_record(&mut connection, &entry("1")).await.unwrap(),
        InboxRecord::Known(Disposition::Processed)
    );
    ended.ended = Some(stamp);
    assert!(Sqlite::park(&mut connection, &ended).await.unwrap());
    assert_eq!(
        Sqlite::inbox_record(&mut connection, &entry("1")).await.unwrap(),
        InboxRecord::Known(Disposition::Dead)
    );
}

#[tokio::test]
async fn a_floor_advances_and_what_lies_under_it_is_deleted_after_the_grace() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    handled(&file, "old", None).await.unwrap();
    assert!(Sqlite::park(&mut connection, &parked("parked", AGAIN)).await.unwrap());
    let hour = Duration::from_secs(3600);
    let mut floor = FloorMove { keep: hour, grace: hour, advance: false };
    assert_eq!(Sqlite::move_floor(&mut connection, "c", &floor, 9).await.unwrap(), 0);
    assert_eq!(file.number("SELECT count(*) FROM inbox_floors").await, 0, "it may not advance");
    floor.advance = true;
    assert_eq!(Sqlite::move_floor(&mut connection, "c", &floor, 9).await.unwrap(), 0);
    assert_eq!(Sqlite::move_floor(&mut connection, "c", &floor, 9).await.unwrap(), 0, "the grace has begun");
    assert_eq!(handled(&file, "new to us", None).await, None, "older than the floor");
    assert_eq!(Sqlite::inbox_record(&mut connection, &entry("new to us")).await.unwrap(), InboxRecord::TooOld);
    let mut isolated = parked("dead letter", AGAIN);
    isolated.isolated = true;
    assert!(!Sqlite::park(&mut connection, &isolated).await.unwrap(), "nobody can know");
    let mut foreign = entry("foreign");
    foreign.enqueued_at = None;
    let mut tx = Sqlite::begin(&mut connection).await.unwrap();
    assert!(
        Sqlite::insert_inbox(&mut tx, &foreign, None).await.unwrap().is_some(),
        "without a time it is never too old"
    );
    Sqlite::rollback(tx).await.unwrap();

    file.sql("UPDATE inbox_floors SET announced_at = 1").await;
    assert_eq!(Sqlite::move_floor(&mut connection, "c", &floor, 9).await.unwrap(), 1);
    assert_eq!(file.text("SELECT group_concat(event_id) FROM inbox_messages").await, "parked");
    // Held: it stays where it is.
    file.sql("UPDATE inbox_floors SET floor = 5").await;
    Sqlite::hold_floor(&mut connection, "c", hour).await.unwrap();
    Sqlite::hold_floor(&mut connection, "c", Duration::ZERO).await.unwrap();
    Sqlite::move_floor(&mut connection, "c", &floor, 9).await.unwrap();
    assert_eq!(file.number("SELECT floor FROM inbox_floors").await, 5);
    file.sql("UPDATE inbox_floors SET held_until = 1").await;
    Sqlite::move_floor(&mut connection, "c", &floor, 9).await.unwrap();
    assert!(at(file.number("SELECT floor FROM inbox_floors").await) > at(1_700_000_000_000_000));
    Sqlite::hold_floor(&mut connection, "another", hour).await.unwrap();
    assert_eq!(file.number("SELECT floor FROM inbox_floors WHERE consumer = 'another'").await, -62_135_596_800_000_000);
}
