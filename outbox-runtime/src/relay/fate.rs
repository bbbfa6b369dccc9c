//! What a verdict means for a row: pure, so that the rules R3 and R4 are a table.

use std::time::Duration;

use crate::backoff;
use crate::event::Unroutable;
use crate::outbox::Fate;

/// The backoff of a returned or refused event.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// When an event with an unknown result is offered again: the connection is being made anew.
const UNKNOWN: Duration = Duration::from_millis(500);
/// The longest error text that is kept, in bytes.
const ERROR_BYTES: usize = 1000;

/// What is known of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// Confirmed and not returned.
    Published,
    /// It came back: no queue wants it.
    Unroutable(String),
    /// Its exchange does not exist or may not be written to: whether a queue wants it is not known.
    NoExchange(String),
    /// The destination took nothing; it backs off for so long.
    Nacked(Duration),
    /// This very event cannot be sent.
    Refused(String),
    /// Nobody knows.
    Unknown(String),
}

/// A row's policies and history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) unroutable: Unroutable,
    pub(crate) attempt_count: i32,
    pub(crate) max_attempts: i32,
}

/// The fate of a row.
pub(crate) fn fate(word: &Word, budget: Budget) -> Fate {
    let failures = u32::try_from(budget.attempt_count).unwrap_or(0);
    let again = |error: &str| Fate::Retry {
        after: backoff::jitter(backoff::delay(FIRST, LONGEST, failures)),
        spent: true,
        error: bounded(error),
    };
    let spend = |error: &str| {
        if budget.attempt_count.saturating_add(1) >= budget.max_attempts {
            Fate::Failed { error: bounded(error) }
        } else {
            again(error)
        }
    };
    match (word, budget.unroutable) {
        (Word::Published, _) => Fate::Published,
        (Word::Unroutable(_), Unroutable::Discard) => Fate::Published,
        (Word::Unroutable(error) | Word::NoExchange(error), Unroutable::Hold) => again(error),
        (Word::Unroutable(error) | Word::NoExchange(error), Unroutable::Fail) => spend(error),
        // "No subscriber is fine" says nothing of a permission that was taken away.
        (Word::NoExchange(error), Unroutable::Discard) => again(error),
        (Word::Refused(error), _) => spend(error),
        (Word::Nacked(after), _) => {
            Fate::Retry { after: *after, spent: false, error: "the broker could not take it (basic.nack)".to_owned() }
        }
        (Word::Unknown(error), _) => {
            Fate::Retry { after: backoff::jitter(UNKNOWN), spent: false, error: bounded(error) }
        }
    }
}

fn bounded(error: &str) -> String {
    let clean: String = error.chars().map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect();
    let mut end = clean.len().min(ERROR_BYTES);
    while !clean.is_char_boundary(end) {
        end -= 1;
    }
    clean[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(unroutable: Unroutable, attempt_count: i32) -> Budget {
        Budget { unroutable, attempt_count, max_attempts: 3 }
    }

    #[derive(Debug, PartialEq)]
    enum Kind {
        Published,
        Again { spent: bool },
        Failed,
    }

    fn kind(fate: &Fate) -> Kind {
        match fate {
            Fate::Published => Kind::Published,
            Fate::Retry { spent, .. } => Kind::Again { spent: *spent },
            Fate::Failed { .. } => Kind::Failed,
            Fate::PutBack => unreachable!("no verdict puts a row back"),
        }
    }

    /// R3, R4.
    #[test]
    fn a_verdict_spends_only_what_is_the_events_own() {
        let no_route = Word::Unroutable("312 NO_ROUTE".into());
        let forbidden = Word::NoExchange("403 ACCESS_REFUSED".into());
        let refused = Word::Refused("406".into());
        let nacked = Word::Nacked(Duration::from_secs(1));
        let unknown = Word::Unknown("reset".into());
        let (hold, fail, discard) = (Unroutable::Hold, Unroutable::Fail, Unroutable::Discard);
        let table = [
            (&Word::Published, hold, 9, Kind::Published),
            (&no_route, hold, 0, Kind::Again { spent: true }),
            (&no_route, hold, 1_000, Kind::Again { spent: true }),
            (&no_route, fail, 0, Kind::Again { spent: true }),
            (&no_route, fail, 2, Kind::Failed),
            (&no_route, discard, 0, Kind::Published),
            (&forbidden, hold, 1_000, Kind::Again { spent: true }),
            (&forbidden, fail, 2, Kind::Failed),
            (&forbidden, discard, 1_000, Kind::Again { spent: true }),
            (&refused, hold, 1, Kind::Again { spent: true }),
            (&refused, hold, 2, Kind::Failed),
            (&nacked, fail, 1_000, Kind::Again { spent: false }),
            (&unknown, fail, 1_000, Kind::Again { spent: false }),
        ];
        for (word, unroutable, attempts, want) in table {
            assert_eq!(kind(&fate(word, budget(unroutable, attempts))), want, "{word:?} {unroutable:?} {attempts}");
        }
    }

    #[test]
    fn an_error_text_is_bounded_and_has_no_nul() {
        let failed = fate(&Word::Refused("é\0".repeat(900)), budget(Unroutable::Hold, 2));
        let fits = |error: &str| error.len() <= ERROR_BYTES && !error.contains('\0');
        assert!(matches!(failed, Fate::Failed { error } if fits(&error)));
    }
}
