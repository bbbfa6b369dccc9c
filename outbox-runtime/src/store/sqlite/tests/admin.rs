//! The statements of an operator, and the archive, on a real file.

use std::time::Duration;

use super::{File, limits};
use crate::admin::{Admin, AdminError, EventStatus, Filter, FilterProblem, Page, RowOutcome, Selection};
use crate::outbox::{ArchiveState, ArchiveTable, Fate, Settlement};
use crate::store::Store;
use sqlx::Sqlite;

const FOREVER: i64 = i64::MAX;

/// An ordered row of the key `a`.
async fn ordered(file: &File, id: &str, sequence: i64, due: i64, more: &[(&str, &str)]) {
    let sequence = sequence.to_string();
    let mut columns = vec![("sequence", sequence.as_str())];
    columns.extend(more);
    file.row(id, "t", due, &columns).await;
}

async fn states(file: &File) -> String {
    file.text(
        "SELECT group_concat(event_id || ' ' || status || CASE WHEN skipped THEN ' skipped' ELSE '' END
                             || CASE next_attempt_at WHEN 9223372036854775807 THEN ' blocked' ELSE '' END, ', ')
         FROM (SELECT * FROM outbox_messages ORDER BY event_id)",
    )
    .await
}

#[tokio::test]
async fn each_action_is_for_its_rows_and_lets_the_next_one_of_the_key_go_on() {
    let file = File::new().await;
    let admin = Admin::new(file.pool.clone());
    ordered(&file, "1", 1, 5, &[("status", "'Failed'"), ("last_error", "'e'"), ("attempt_count", "20")]).await;
    for (id, sequence) in [("2", 2), ("3", 3), ("4", 4)] {
        ordered(&file, id, sequence, FOREVER, &[]).await;
    }
    file.row("5", "t", 5, &[("status", "'Published'"), ("published_at", "5")]).await;
    file.row("6", "t", 5, &[("status", "'Processing'"), ("locked_by", "'r'"), ("locked_until", "9000000000000000")])
        .await;
    file.row("7", "t", 5, &[("status", "'Processing'"), ("locked_by", "'gone'"), ("locked_until", "9")]).await;

    let shown = admin.show("3").await.unwrap().unwrap();
    assert_eq!((shown.waits_for.as_deref(), shown.blocked, shown.payload.as_deref()), (Some("1"), true, None));
    assert_eq!(admin.show("3").payload(true).await.unwrap().unwrap().payload.as_deref(), Some("{}"));
    assert_eq!(admin.show("none").await.unwrap(), None);

    let outcomes = |report: crate::admin::Report| report.rows.into_iter().map(|row| row.outcome).collect::<Vec<_>>();
    let skipped = outcomes(admin.skip(Selection::ids(["1", "5", "6", "7", "x"])).await.unwrap());
    assert_eq!(skipped[0], RowOutcome::Done);
    assert_eq!(skipped[1], RowOutcome::WrongStatus { status: EventStatus::Published });
    assert!(
        matches!(&skipped[2], RowOutcome::Busy { locked_by: Some(by), until: Some(_) } if by == "r"),
        "{skipped:?}"
    );
    assert_eq!(skipped[3..], [RowOutcome::NotOrdered, RowOutcome::NotFound]);
    let rest = "5 Published, 6 Processing, 7 Processing";
    assert_eq!(
        states(&file).await,
        format!("1 Failed skipped, 2 Pending, 3 Pending blocked, 4 Pending blocked, {rest}")
    );

    // A Failed one that was skipped stays skipped.
    assert_eq!(outcomes(admin.retry_now("1").await.unwrap()), [RowOutcome::Done]);
    assert_eq!(file.number("SELECT attempt_count FROM outbox_messages WHERE event_id = '1'").await, 0);
    assert_eq!(
        states(&file).await,
        format!("1 Pending skipped, 2 Pending, 3 Pending blocked, 4 Pending blocked, {rest}")
    );

    // The key is blocked by its Failed head, until that is gone: two at once let the third go on.
    assert_eq!(admin.fail("2", "wrong customer").await.unwrap().done(), 1);
    assert_eq!(
        file.text("SELECT last_error FROM outbox_messages WHERE event_id = '2'").await,
        "failed by an operator: wrong customer"
    );
    assert_eq!(
        states(&file).await,
        format!("1 Pending skipped, 2 Failed, 3 Pending blocked, 4 Pending blocked, {rest}")
    );
    assert_eq!(admin.discard(Selection::ids(["3", "2", "1"]), "test").await.unwrap().done(), 3);
    assert_eq!(states(&file).await, format!("4 Pending, {rest}"));

    // With `skip` the event itself lets the others pass.
    file.sql("UPDATE outbox_messages SET on_failed = 'skip' WHERE event_id = '4'").await;
    ordered(&file, "41", 5, FOREVER, &[]).await;
    assert_eq!(admin.fail("4", "r").await.unwrap().done(), 1);
    assert_eq!(states(&file).await, format!("4 Failed skipped, 41 Pending, {rest}"));

    // Nobody has a row whose lease has run out; that nobody knows what became of it is counted.
    assert_eq!(admin.fail("7", "r").await.unwrap().done(), 1);
    assert_eq!(file.number("SELECT unknown_count FROM outbox_messages WHERE event_id = '7'").await, 1);
    assert_eq!(admin.replay(Selection::ids(["5", "4"])).await.unwrap().done(), 1);
    assert_eq!(states(&file).await, "4 Failed skipped, 41 Pending, 5 Pending, 6 Processing, 7 Failed");
}

#[tokio::test]
async fn what_an_operator_took_is_lost_for_the_relay_that_had_it() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    file.row("1", "t", 5, &[]).await;
    Sqlite::claim(&mut connection, "r", limits(9, 100)).await.unwrap();
    let admin = Admin::new(file.pool.clone());
    assert_eq!(admin.discard("1", "r").await.unwrap().done(), 0, "the relay has it");
    file.sql("UPDATE outbox_messages SET locked_until = 1").await;
    assert_eq!(admin.fail("1", "r").await.unwrap().done(), 1);
    let late = Settlement { event_id: "1".to_owned(), claim_id: "r".to_owned(), fate: Fate::Published };
    assert_eq!(Sqlite::settle(&mut connection, &[late], false).await.unwrap().settled, 0);
    assert_eq!(states(&file).await, "1 Failed");
}

#[tokio::test]
async fn a_list_pages_by_keys_through_all_statuses() {
    let file = File::new().await;
    let admin = Admin::new(file.pool.clone());
    file.sql(
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1000)
         INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, exchange, routing_key, payload, payload_bytes, enqueued_at,
                                      next_attempt_at, last_error, status, published_at, locked_by, locked_until)
         SELECT 'e' || x, 'a', 'a', CASE WHEN x % 10 = 0 THEN 'ten' ELSE 'other' END, 'e', 'k', '{}', 2, x / 7, CASE WHEN x % 3 = 0 THEN 9223372036854775807 ELSE x / 5 END,
                CASE WHEN x <= 200 THEN 'NO_ROUTE ' || x END, CASE WHEN x <= 100 THEN 'Failed' WHEN x <= 700 THEN 'Pending' WHEN x <= 710 THEN 'Processing' ELSE 'Published' END,
                CASE WHEN x > 710 THEN x / 9 END, CASE WHEN x BETWEEN 701 AND 710 THEN 'r' END, CASE WHEN x BETWEEN 701 AND 710 THEN x END FROM n",
    )
    .await;
    for (filter, want) in [
        (Filter::new(), 1000),
        (Filter::new().event_type("ten"), 100),
        (Filter::new().status(EventStatus::Failed), 100),
        (Filter::new().status(EventStatus::Pending).event_type("ten"), 60),
        (Filter::new().error_contains("NO_ROUTE 1"), 111),
        (Filter::new().error_contains("NO_ROUTE 1").status(EventStatus::Pending), 99),
        (Filter::new().aggregate("a", "b"), 0),
        (Filter::new().enqueued_before(std::time::UNIX_EPOCH + Duration::from_micros(10)), 69),
        (Filter::new().published_from(std::time::UNIX_EPOCH + Duration::from_micros(100)), 101),
    ] {
        for newest_first in [false, true] {
            let (mut ids, mut after, mut pages) = (Vec::new(), None, 0);
            loop {
                let mut page = Page::of(37);
                page = if newest_first { page.newest_first() } else { page };
                page = match after.take() {
                    Some(cursor) => page.after(cursor),
                    None => page,
                };
                let listed = admin.list(&filter, page).await.unwrap();
                pages += 1;
                assert!(listed.events.len() <= 37);
                ids.extend(listed.events.into_iter().map(|event| event.event_id));
                match listed.next {
                    Some(next) => after = Some(next.to_string().parse().unwrap()),
                    None => break,
                }
            }
            assert_eq!(ids.len(), want, "{filter:?}");
            assert!(pages <= want / 37 + 1, "{pages} pages for {want}: {filter:?}");
            ids.sort();
            ids.dedup();
            assert_eq!(ids.len(), want, "each once: {filter:?}");
        }
    }
    let counts = admin.counts().await.unwrap();
    assert_eq!(counts.status(EventStatus::Failed).events, 100);
    assert_eq!(
        (counts.held.events, counts.expired.events, counts.status(EventStatus::Published).events),
        (100, 10, 290)
    );
    assert_eq!((counts.due.events, counts.blocked.events, counts.delayed.events), (400, 200, 0));
    let few = admin.counts_up_to(50).await.unwrap();
    assert_eq!(few.due.to_string(), "50+");
    assert!(few.status(EventStatus::Failed).at_least && few.held.at_least && !few.expired.at_least);
}

#[tokio::test]
async fn an_action_on_a_filter_is_bounded_and_goes_on() {
    let file = File::new().await;
    let admin = Admin::new(file.pool.clone());
    file.sql(
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1300)
         INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, event_type, exchange, routing_key, payload, payload_bytes, status, published_at)
         SELECT x, 'a', 'a', 'e', 'e', 'k', '{}', 2, 'Published', x FROM n",
    )
    .await;
    let published = Filter::new().status(EventStatus::Published);
    let first = admin.replay(Selection::of(published.clone()).limit(700)).await.unwrap();
    assert_eq!((first.done(), first.rows.len()), (700, 700));
    // What is published again meanwhile is not replayed again by what goes on.
    file.sql("UPDATE outbox_messages SET status = 'Published', published_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER) + 1 WHERE status = 'Pending'").await;
    let rest = admin.replay(Selection::of(published).after(first.next.unwrap())).await.unwrap();
    assert_eq!((rest.done(), rest.next), (600, None));
}

#[tokio::test]
async fn what_does_not_fit_is_told_at_once_and_nothing_is_done() {
    let file = File::empty().await;
    let admin = Admin::new(file.pool.clone());
    let told = |error: AdminError| match error {
        AdminError::Invalid { problems } => problems,
        other => panic!("{other}"),
    };
    let all = told(admin.discard(Selection::of(Filter::new()).limit(0), " ").await.unwrap_err());
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all.contains(&FilterProblem::Everything { action: "discard" }));
    let published = Filter::new().status(EventStatus::Published);
    assert_eq!(
        told(admin.retry_now(published.clone()).await.unwrap_err()),
        [FilterProblem::EventStatus { action: "retry_now", status: EventStatus::Published }]
    );
    assert_eq!(told(admin.list(&published, Page::of(0).after("h.1.1.x".parse().unwrap())).await.unwrap_err()).len(), 2);
    assert_eq!(told(admin.skip(Selection::ids(["", "a\0"])).await.unwrap_err()).len(), 2);
    assert_eq!(told(admin.show("x".repeat(65)).await.unwrap_err()).len(), 1);
    // No tables: the cure is in the error.
    for error in [
        admin.counts().await.map(drop).unwrap_err(),
        admin.list(&published, Page::of(9)).await.map(drop).unwrap_err(),
        admin.show("1").await.map(drop).unwrap_err(),
        admin.retry_now("1").await.map(drop).unwrap_err(),
        admin.replay(published).await.map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, AdminError::Tables(_)) && error.to_string().contains("outbox::migrate"), "{error:?}");
    }
}

#[tokio::test]
async fn a_pool_that_does_not_wait_for_the_disk_does_for_an_action() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    sqlx::raw_sql("PRAGMA synchronous = OFF").execute(&mut *connection).await.unwrap();
    let before = Sqlite::flush_from_here(&mut connection).await.unwrap();
    let level = "PRAGMA synchronous";
    assert_eq!(sqlx::query_scalar::<_, i64>(level).fetch_one(&mut *connection).await.unwrap(), 2);
    Sqlite::flush_as_before(&mut connection, before).await.unwrap();
    assert_eq!(sqlx::query_scalar::<_, i64>(level).fetch_one(&mut *connection).await.unwrap(), 0);
}

#[tokio::test]
async fn published_rows_move_to_the_archive_in_chunks() {
    let file = File::new().await;
    let mut connection = file.connection().await;
    let table = ArchiveTable::parse("Old_Events").unwrap();
    assert_eq!(Sqlite::prepare_archive(&mut connection, &table, false).await.unwrap(), ArchiveState::MissingTable);
    for _ in 0..2 {
        assert_eq!(Sqlite::prepare_archive(&mut connection, &table, true).await.unwrap(), ArchiveState::Ready);
    }
    for n in 1..=5 {
        file.row(&n.to_string(), "t", 5, &[("status", "'Published'"), ("published_at", "5"), ("unknown_count", "3")])
            .await;
    }
    file.row("young", "t", 5, &[("status", "'Published'"), ("published_at", "9000000000000000")]).await;
    file.row("waits", "t", 5, &[]).await;
    let hour = Duration::from_secs(3600);
    let mut moved = Vec::new();
    for _ in 0..4 {
        moved.push(Sqlite::archive_published(&mut connection, &table, hour, 2).await.unwrap());
    }
    assert_eq!(moved, [2, 2, 1, 0]);
    assert_eq!(file.text("SELECT group_concat(event_id) FROM outbox_messages").await, "waits,young");
    assert_eq!(
        file.text("SELECT group_concat(event_id || payload || unknown_count) FROM Old_Events").await,
        "1{}3,2{}3,3{}3,4{}3,5{}3"
    );
    file.sql("CREATE TABLE half (event_id, payload)").await;
    let half = ArchiveTable::parse("half").unwrap();
    let ArchiveState::MissingColumns(missing) = Sqlite::prepare_archive(&mut connection, &half, true).await.unwrap()
    else {
        panic!("it lacks columns")
    };
    assert!(missing.len() == 16 && missing.contains(&"archived_at".to_owned()), "{missing:?}");
    // What cannot be written there stays here.
    file.sql("DROP TABLE Old_Events; UPDATE outbox_messages SET published_at = 5 WHERE event_id = 'young'").await;
    assert!(Sqlite::archive_published(&mut connection, &table, hour, 2).await.is_err());
    assert_eq!(file.number("SELECT count(*) FROM outbox_messages").await, 2);
}
