//! Which events of a batch may go next: of each key the first, and the next only when that one lets it pass (R6). Pure.

use std::collections::{HashMap, VecDeque};

use crate::outbox::{ClaimedRow, Fate};

/// The lines of a batch, and what became of their rows.
pub(super) struct Lines {
    lines: Vec<VecDeque<usize>>,
    /// By row: its line.
    line_of: Vec<usize>,
    fates: Vec<Option<Fate>>,
    fresh: bool,
}

impl Lines {
    /// The rows of one key are one line, in their order; without order each row is a line of its own.
    pub(super) fn new(rows: &[ClaimedRow], ordered: bool) -> Self {
        let mut lines: Vec<VecDeque<usize>> = Vec::new();
        let mut line_of = Vec::with_capacity(rows.len());
        let mut known: HashMap<(&str, &str), usize> = HashMap::new();
        for (index, row) in rows.iter().enumerate() {
            let line = if ordered {
                *known.entry((&row.aggregate_type, &row.aggregate_id)).or_insert(lines.len())
            } else {
                lines.len()
            };
            if line == lines.len() {
                lines.push(VecDeque::new());
            }
            lines[line].push_back(index);
            line_of.push(line);
        }
        Self { lines, line_of, fates: vec![None; rows.len()], fresh: true }
    }

    /// Whether nothing was published yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// The rows that go next, one of each line that is not at its end; `None` when all is decided.
    pub(super) fn next_round(&self) -> Option<Vec<usize>> {
        let round: Vec<usize> = self.lines.iter().filter_map(|line| line.front().copied()).collect();
        (!round.is_empty()).then_some(round)
    }

    /// Notes what becomes of the first row of a line. What stands still keeps the rest of its line waiting.
    pub(super) fn decide(&mut self, row: usize, fate: Fate) {
        self.fresh = false;
        let line = &mut self.lines[self.line_of[row]];
        debug_assert_eq!(line.front(), Some(&row));
        line.pop_front();
        if !fate.lets_pass() {
            for follower in line.drain(..) {
                self.fates[follower] = Some(Fate::Blocked);
            }
        }
        self.fates[row] = Some(fate);
    }

    /// The fates of all rows, in their order; what was not offered goes back.
    pub(super) fn fates(self) -> Vec<Fate> {
        self.fates.into_iter().map(|fate| fate.unwrap_or(Fate::PutBack)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::relay::batch::tests::row;

    fn failed(skipped: bool) -> Fate {
        Fate::Failed { error: "406".to_owned(), skipped }
    }

    fn retry() -> Fate {
        let (after, error) = (Duration::from_secs(1), "312".to_owned());
        Fate::Retry { after, spent: true, unknown: false, skipped: false, error }
    }

    #[test]
    fn one_event_of_a_key_at_a_time_and_none_after_one_that_stands_still() {
        let rows: Vec<_> =
            [(0, "k"), (1, "l"), (2, "k"), (3, "l"), (4, "k")].map(|(id, key)| row(id, "a", Some(key), 0, 0)).into();
        let mut lines = Lines::new(&rows, true);
        assert_eq!(lines.next_round(), Some(vec![0, 1]));
        lines.decide(0, Fate::Published);
        lines.decide(1, retry());
        assert_eq!(lines.next_round(), Some(vec![2]), "3 waits for 1");
        lines.decide(2, failed(true));
        assert_eq!(lines.next_round(), Some(vec![4]), "2 was skipped");
        let fates = lines.fates();
        assert_eq!(fates, [Fate::Published, retry(), failed(true), Fate::Blocked, Fate::PutBack]);
    }

    #[test]
    fn rows_without_order_go_together() {
        let rows: Vec<_> = (0..3).map(|id| row(id, "a", None, 0, 0)).collect();
        let mut lines = Lines::new(&rows, false);
        assert!(lines.is_fresh());
        assert_eq!(lines.next_round(), Some(vec![0, 1, 2]));
        (0..3).for_each(|index| lines.decide(index, if index == 1 { failed(false) } else { Fate::Published }));
        assert_eq!(lines.next_round(), None);
        assert_eq!(lines.fates(), [Fate::Published, failed(false), Fate::Published]);
    }
}
