//! One log line per change of a trouble, and then at most one a minute with a count (R3).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(60);

/// Decides which occurrence of a trouble is worth a line.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    last: Option<(String, Instant)>,
    count: u64,
}

impl Repeated {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Notes one occurrence; `Some(occurrences so far)` if it should be logged.
    pub(crate) fn note(&mut self, trouble: &str) -> Option<u64> {
        self.count += 1;
        let fresh = match &self.last {
            Some((known, at)) => known != trouble && at.elapsed() > Duration::from_secs(1) || at.elapsed() >= INTERVAL,
            None => true,
        };
        if fresh {
            self.last = Some((trouble.to_owned(), Instant::now()));
            return Some(self.count);
        }
        None
    }

    /// The trouble is over; `Some(occurrences)` if there was one.
    pub(crate) fn clear(&mut self) -> Option<u64> {
        self.last.take().map(|_| std::mem::take(&mut self.count))
    }
}

/// The same by key: one line per kind of thing, not per thing.
#[derive(Debug, Default)]
pub(crate) struct RepeatedBy(Mutex<HashMap<String, Repeated>>);

impl RepeatedBy {
    /// Notes one occurrence; `Some(occurrences so far)` if it should be logged.
    pub(crate) fn note(&self, key: &str, trouble: &str) -> Option<u64> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(key.to_owned()).or_default().note(trouble)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_trouble_is_logged_once_a_minute() {
        let mut repeated = Repeated::new();
        assert_eq!(repeated.note("down"), Some(1));
        assert_eq!(repeated.note("down"), None);
        assert_eq!(repeated.note("down"), None);
        assert_eq!(repeated.clear(), Some(3));
        assert_eq!(repeated.clear(), None);
        assert_eq!(repeated.note("down"), Some(1));
    }
}
