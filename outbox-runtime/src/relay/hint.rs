//! From where a scan begins (S4). An index keeps the entries of rows that were claimed for as long as some transaction could still see them as
//! due, and a scan from the beginning walks past all of them, time and again. What was met lately says where they end.
//!
//! It is only a hint: an event that was written early in a long transaction, or by hand, may lie before it, and is met by the scan from the
//! beginning that comes once a second.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

/// Transactions shorter than this are met by every scan.
const LAG: TimeDelta = TimeDelta::seconds(1);
/// How often a scan begins at the beginning.
const FROM_THE_BEGINNING: Duration = Duration::from_secs(1);

/// What earlier scans met.
#[derive(Debug, Default)]
pub(super) struct Hint {
    met: Option<DateTime<Utc>>,
    began: Option<Instant>,
}

impl Hint {
    /// Where the next scan begins; `None`: at the beginning.
    pub(super) fn since(&mut self) -> Option<DateTime<Utc>> {
        if self.began.is_none_or(|began| began.elapsed() >= FROM_THE_BEGINNING) {
            self.began = Some(Instant::now());
            return None;
        }
        self.met.and_then(|met| met.checked_sub_signed(LAG))
    }

    /// The latest time at which a row was due that a scan met; by the database's clock.
    pub(super) fn met(&mut self, latest: Option<DateTime<Utc>>) {
        self.met = self.met.max(latest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_scan_begins_a_little_before_what_was_met_and_once_a_second_at_the_beginning() {
        let mut hint = Hint::default();
        let at = |seconds| DateTime::from_timestamp(seconds, 0);
        assert_eq!((hint.since(), hint.since()), (None, None), "nothing was met");
        hint.met(at(1_000));
        hint.met(None);
        hint.met(at(900));
        assert_eq!(hint.since(), at(999));
        tokio::time::advance(FROM_THE_BEGINNING).await;
        assert_eq!((hint.since(), hint.since()), (None, at(999)));
    }
}
