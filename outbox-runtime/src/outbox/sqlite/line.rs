//! Which due rows may go, and which of them wait for an earlier one of their key (S4, R6). Pure: nobody else writes while a transaction of ours
//! is open, so that what was read is still true when it is acted upon.

use std::collections::{BTreeMap, HashMap, HashSet};

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::store::sqlite::sql::{array, bound, now, text};

/// `next_attempt_at` of an event that waits for the one before it.
pub(crate) const WAITS: i64 = i64::MAX;
/// At most so many rows of one key go with one claim.
const LONGEST: usize = 64;

pub(crate) const TAKE: &str = concat!(
    "
SELECT o.rowid AS number, o.next_attempt_at, o.payload_bytes, o.aggregate_type, o.aggregate_id,
       CASE WHEN NOT o.skipped THEN o.sequence END AS sequence,
       o.skipped AND o.sequence IS NOT NULL AND EXISTS (
           SELECT 1 FROM outbox_messages AS m INDEXED BY outbox_messages_line
           WHERE m.aggregate_type = o.aggregate_type AND m.aggregate_id = o.aggregate_id AND m.sequence < o.sequence
             AND m.sequence IS NOT NULL AND m.status <> 'Published' AND NOT m.skipped) AS behind
FROM outbox_messages AS o
WHERE o.status = 'Pending' AND o.next_attempt_at <= ",
    now!(),
    " ORDER BY o.next_attempt_at, o.event_id LIMIT ?1"
);

/// The first rows of the line of each key.
pub(crate) const FIRST: &str = concat!(
    "
SELECT o.rowid AS number, o.next_attempt_at, o.payload_bytes, o.aggregate_type, o.aggregate_id, o.sequence,
       o.status = 'Pending' AND (o.next_attempt_at <= ",
    now!(),
    " OR o.next_attempt_at = 9223372036854775807) AS open
FROM json_each(?1) AS j CROSS JOIN outbox_messages AS o
WHERE o.rowid IN (SELECT rowid FROM outbox_messages INDEXED BY outbox_messages_line
                  WHERE aggregate_type = j.value ->> 0 AND aggregate_id = j.value ->> 1
                    AND sequence IS NOT NULL AND status <> 'Published' AND NOT skipped ORDER BY sequence LIMIT ?2)
ORDER BY o.aggregate_type, o.aggregate_id, o.sequence"
);

/// A row that is due, or stands in the line of one that is.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) number: i64,
    pub(crate) turn: i64,
    pub(crate) bytes: i64,
    /// Its key, and its number there; `None` without order.
    pub(crate) place: Option<(Key, i64)>,
    /// Whether it may go as soon as those before it do.
    pub(crate) open: bool,
}

pub(crate) type Key = (String, String);

/// What is done with the due rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The rows that go, in this order.
    pub(crate) go: Vec<i64>,
    /// The rows that wait for one before them.
    pub(crate) wait: Vec<i64>,
    /// Rows for which no other waits, but which wait themselves: they look again in a while.
    pub(crate) look_again: Vec<i64>,
}

/// Decides. `lines` holds the first rows of the line of each key in `due`, in order.
pub(crate) fn plan(due: &[Candidate], lines: &[Candidate], rows: usize, bytes: i64) -> Plan {
    let mut candidates: Vec<Candidate> = due.iter().filter(|row| row.place.is_none()).cloned().collect();
    let mut by_key: BTreeMap<&Key, Vec<&Candidate>> = BTreeMap::new();
    for row in lines {
        if let Some((key, _)) = &row.place {
            by_key.entry(key).or_default().push(row);
        }
    }
    let mut prefix = HashSet::new();
    for line in by_key.into_values() {
        // A row's turn is not before that of the one in front of it: cut anywhere, the rows that go are the first ones of their line.
        let mut turn = i64::MIN;
        for row in line.into_iter().take_while(|row| row.open) {
            if row.turn != WAITS {
                turn = turn.max(row.turn);
            }
            prefix.insert(row.number);
            candidates.push(Candidate { turn, ..row.clone() });
        }
    }
    candidates.sort_by(|one, other| (one.turn, &one.place, one.number).cmp(&(other.turn, &other.place, other.number)));
    let mut total = 0_i64;
    let mut plan = Plan::default();
    for row in candidates.iter().take(rows) {
        total = total.saturating_add(row.bytes);
        // One row always goes.
        if total > bytes && !plan.go.is_empty() {
            break;
        }
        plan.go.push(row.number);
    }
    plan.wait =
        due.iter().filter(|row| row.place.is_some() && !prefix.contains(&row.number)).map(|row| row.number).collect();
    plan
}

/// Reads what is due and decides; to be called in the transaction that acts upon it.
pub(crate) async fn take(connection: &mut SqliteConnection, rows: usize, bytes: usize) -> Result<Plan, sqlx::Error> {
    let found = sqlx::query(TAKE).bind(bound(rows)).fetch_all(&mut *connection).await?;
    let (mut due, mut look_again) = (Vec::with_capacity(found.len()), Vec::new());
    for row in &found {
        let candidate = candidate(row, true)?;
        if row.try_get("behind")? {
            look_again.push(candidate.number);
        } else {
            due.push(candidate);
        }
    }
    let mut keys: Vec<&Key> = due.iter().filter_map(|row| row.place.as_ref().map(|(key, _)| key)).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut lines = Vec::new();
    if !keys.is_empty() {
        let each = (rows / keys.len()).clamp(1, LONGEST);
        let found = sqlx::query(FIRST).bind(array(&keys)?).bind(bound(each)).fetch_all(connection).await?;
        for row in &found {
            lines.push(candidate(row, row.try_get("open")?)?);
        }
    }
    Ok(Plan { look_again, ..plan(&due, &lines, rows, bound(bytes)) })
}

fn candidate(row: &SqliteRow, open: bool) -> Result<Candidate, sqlx::Error> {
    let sequence: Option<i64> = row.try_get("sequence")?;
    let place = match sequence {
        Some(sequence) => Some(((text(row, "aggregate_type")?, text(row, "aggregate_id")?), sequence)),
        None => None,
    };
    Ok(Candidate {
        number: row.try_get("number")?,
        turn: row.try_get("next_attempt_at")?,
        bytes: row.try_get("payload_bytes")?,
        place,
        open,
    })
}

/// Numbers of rows by their place, to bring what a statement returns into order.
pub(crate) fn places(go: &[i64]) -> HashMap<i64, usize> {
    go.iter().enumerate().map(|(place, number)| (*number, place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(number: i64, turn: i64) -> Candidate {
        Candidate { number, turn, bytes: 10, place: None, open: true }
    }

    fn of(key: &str, number: i64, turn: i64, open: bool) -> Candidate {
        let place = Some((("order".to_owned(), key.to_owned()), number));
        Candidate { number, turn, bytes: 10, place, open }
    }

    #[test]
    fn the_rows_of_a_key_go_in_their_order_and_without_a_gap() {
        let due = [free(1, 5), of("k", 11, 1, true), of("k", 12, 7, true), of("l", 21, 2, true), of("m", 32, 3, true)];
        let lines = [
            of("k", 11, 1, true),
            of("k", 12, 7, true),
            of("k", 13, WAITS, true),
            of("l", 20, 0, false),
            of("l", 21, 2, true),
            of("m", 31, WAITS, true),
            of("m", 32, 3, true),
        ];
        let plan = plan(&due, &lines, 100, 1_000);
        // 31 waited for nothing any more; its turn is that of the row that was met.
        assert_eq!(plan.go, [31, 11, 32, 1, 12, 13]);
        assert_eq!(plan.wait, [21], "20 is with the relay, or has failed");
    }

    #[test]
    fn a_bound_cuts_no_line_in_its_middle() {
        let due = [of("k", 11, 9, true), of("k", 12, 1, true), free(1, 5)];
        let lines = [of("k", 11, 9, true), of("k", 12, 1, true)];
        assert_eq!(plan(&due, &lines, 1, 1_000).go, [1]);
        assert_eq!(plan(&due, &lines, 2, 1_000).go, [1, 11]);
        assert_eq!(plan(&due, &lines, 9, 25).go, [1, 11]);
        assert_eq!(plan(&due, &lines, 9, 5).go, [1], "one row always goes");
        assert!(plan(&due, &lines, 1, 1_000).wait.is_empty(), "12 may go, only not now");
    }
}
