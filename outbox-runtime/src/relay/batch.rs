//! The rows of a claim in batches: what has failed before never goes together with what has not (R3); of a key its first row
//! decides. Pure.

use std::collections::BTreeMap;

use crate::outbox::ClaimedRow;

/// Rows that are published on one channel.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) rows: Vec<ClaimedRow>,
    /// Whether the rows of a key go one after the other (R6), or all together.
    pub(super) ordered: bool,
    /// Whether nobody else may be on the connection meanwhile: the rows were there when more than one broke.
    pub(super) suspect: bool,
}

/// What a row's history says of its company.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Past {
    Fresh,
    /// It was returned or refused.
    Failed,
    /// So many times nobody knew what became of it.
    Unknown(i32),
    /// Its destination gives no answer, or one that breaks the connection: whoever travels with it waits as long.
    Doubted,
}

fn past(row: &ClaimedRow) -> Past {
    match (row.budget.unknown_count, row.budget.attempt_count) {
        (1.., _) => Past::Unknown(row.budget.unknown_count),
        (_, 1..) => Past::Failed,
        _ => Past::Fresh,
    }
}

/// Unordered rows by exchange (one that is missing closes the channel of its own events only), ordered ones by key, whatever their exchanges: a
/// key has one line. Rows whose result was unknown are offered again in halves, down to single ones: one that breaks each connection it is sent
/// on ends up alone.
pub(super) fn parts(claimed: Vec<ClaimedRow>, batch: usize, doubted: impl Fn(&ClaimedRow) -> bool) -> Vec<Part> {
    let past = |row: &ClaimedRow| if doubted(row) { Past::Doubted } else { past(row) };
    let mut by_exchange: BTreeMap<(String, Past), Vec<Vec<ClaimedRow>>> = BTreeMap::new();
    let mut by_key: BTreeMap<(String, String), Vec<ClaimedRow>> = BTreeMap::new();
    for row in claimed {
        match row.sequence {
            None => by_exchange.entry((row.exchange.clone(), past(&row))).or_default().push(vec![row]),
            Some(_) => {
                by_key.entry((row.aggregate_type.clone(), row.aggregate_id.clone())).or_default().push(row);
            }
        }
    }
    let mut lines: BTreeMap<Past, Vec<Vec<ClaimedRow>>> = BTreeMap::new();
    for rows in by_key.into_values() {
        lines.entry(rows.first().map_or(Past::Fresh, &past)).or_default().push(rows);
    }
    let unordered = by_exchange.into_iter().map(|((_, past), rows)| (past, rows, false));
    let ordered = lines.into_iter().map(|(past, rows)| (past, rows, true));
    unordered.chain(ordered).flat_map(|(past, rows, ordered)| chunks(rows, past, ordered, batch)).collect()
}

fn chunks(lines: Vec<Vec<ClaimedRow>>, past: Past, ordered: bool, batch: usize) -> Vec<Part> {
    let (most, suspect) = match past {
        Past::Unknown(count) => {
            let halvings = u32::try_from(count).unwrap_or(0);
            (batch.checked_shr(halvings).unwrap_or(0).max(1), count > 1)
        }
        _ => (usize::MAX, false),
    };
    let mut parts = Vec::new();
    let mut lines = lines.into_iter().peekable();
    while lines.peek().is_some() {
        let rows = lines.by_ref().take(most).flatten().collect();
        parts.push(Part { rows, ordered, suspect });
    }
    parts
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use chrono::Utc;

    use super::*;
    use crate::event::{HeaderMap, OnFailed, Unroutable};
    use crate::outbox::Budget;

    pub(in crate::relay) fn row(
        id: usize,
        exchange: &str,
        key: Option<&str>,
        attempts: i32,
        unknown: i32,
    ) -> ClaimedRow {
        ClaimedRow {
            event_id: id.to_string(),
            aggregate_type: "order".to_owned(),
            aggregate_id: key.unwrap_or("none").to_owned(),
            sequence: key.map(|_| i64::try_from(id).unwrap()),
            event_type: "order.created".to_owned(),
            event_version: 1,
            exchange: exchange.to_owned(),
            routing_key: "order.created".to_owned(),
            envelope: "flat".to_owned(),
            payload: "{}".to_owned(),
            headers: HeaderMap::new(),
            occurred_at: Utc::now(),
            enqueued_at: Utc::now(),
            age: Duration::ZERO,
            budget: Budget {
                unroutable: Unroutable::Hold,
                attempt_count: attempts,
                max_attempts: 20,
                max_age: None,
                on_failed: OnFailed::Block,
                backoff: (Duration::from_secs(1), Duration::from_secs(60)),
                unknown_count: unknown,
            },
            defect: None,
        }
    }

    fn shown(parts: &[Part]) -> Vec<String> {
        parts
            .iter()
            .map(|part| {
                let ids: Vec<&str> = part.rows.iter().map(|row| row.event_id.as_str()).collect();
                let marks = format!("{}{}", if part.ordered { "o" } else { "" }, if part.suspect { "s" } else { "" });
                format!("{marks}:{}", ids.join(","))
            })
            .collect()
    }

    #[test]
    fn what_failed_before_travels_alone_and_a_key_stays_together() {
        let claimed = vec![
            row(1, "a", None, 0, 0),
            row(2, "b", None, 0, 0),
            row(3, "a", None, 2, 0),
            row(4, "a", Some("k"), 0, 0),
            row(5, "b", Some("k"), 0, 0),
            row(6, "a", Some("l"), 0, 0),
            row(7, "a", Some("m"), 3, 0),
            row(8, "b", Some("m"), 0, 0),
            row(9, "a", None, 0, 0),
        ];
        assert_eq!(shown(&parts(claimed.clone(), 500, |_| false)), [":1,9", ":3", ":2", "o:4,5,6", "o:7,8"]);
        let silent = |row: &ClaimedRow| ["9", "6"].contains(&row.event_id.as_str());
        assert_eq!(shown(&parts(claimed, 500, silent)), [":1", ":3", ":9", ":2", "o:4,5", "o:7,8", "o:6"]);
    }

    #[test]
    fn what_nobody_knows_of_is_halved_down_to_single_rows() {
        let claimed = |unknown| (0..8).map(|id| row(id, "a", None, 0, unknown)).collect::<Vec<_>>();
        let sizes =
            |unknown| parts(claimed(unknown), 8, |_| false).iter().map(|part| part.rows.len()).collect::<Vec<_>>();
        assert_eq!(sizes(0), [8]);
        assert_eq!(sizes(1), [4, 4]);
        assert_eq!(sizes(2), [2, 2, 2, 2]);
        assert_eq!(sizes(3), [1; 8]);
        assert_eq!(sizes(i32::MAX), [1; 8]);
        let suspect = |unknown| parts(claimed(unknown), 8, |_| false).iter().all(|part| part.suspect);
        assert!(!suspect(1) && suspect(2));
    }
}
