//! What a verdict means for a row: pure, so that the rules R3 and R4 are a table.

use std::time::Duration;

use crate::backoff;
use crate::event::{OnFailed, Unroutable};
use crate::outbox::{Budget, Fate};

/// When an event with an unknown result is offered again: at first soon, since the connection is being made anew; later more and more seldom.
const UNKNOWN_FIRST: Duration = Duration::from_millis(500);
const UNKNOWN_LONGEST: Duration = Duration::from_secs(30);
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
    Nacked {
        /// When it is asked again.
        after: Duration,
        /// What it said.
        error: String,
    },
    /// This very event cannot be sent.
    Refused(String),
    /// Nobody knows.
    Unknown(String),
}

/// The fate of a row that was written `age` ago.
pub(crate) fn fate(word: &Word, budget: &Budget, age: Duration) -> Fate {
    let failures = |count: i32| u32::try_from(count).unwrap_or(0);
    let too_old = budget.max_age.is_some_and(|longest| age >= longest);
    let skips = budget.on_failed == OnFailed::Skip;
    let (first, longest) = budget.backoff;
    // Held for longer than its age allows, it no longer keeps the later events of its key waiting, if that is its policy (R6).
    let again = |error: &str| Fate::Retry {
        after: backoff::jitter(backoff::delay(first, longest, failures(budget.attempt_count))),
        spent: true,
        unknown: false,
        skipped: too_old && skips,
        error: bounded(error),
    };
    let spend = |error: &str| {
        if too_old || budget.attempt_count.saturating_add(1) >= budget.max_attempts {
            Fate::Failed { error: bounded(error), skipped: skips }
        } else {
            again(error)
        }
    };
    let unspent = |after: Duration, unknown: bool, error: &str| Fate::Retry {
        after,
        spent: false,
        unknown,
        skipped: false,
        error: bounded(error),
    };
    match (word, budget.unroutable) {
        (Word::Published, _) => Fate::Published,
        (Word::Unroutable(_), Unroutable::Discard) => Fate::Published,
        (Word::Unroutable(error) | Word::NoExchange(error), Unroutable::Hold) => again(error),
        (Word::Unroutable(error) | Word::NoExchange(error), Unroutable::Fail) => spend(error),
        // "No subscriber is fine" says nothing of a permission that was taken away.
        (Word::NoExchange(error), Unroutable::Discard) => again(error),
        (Word::Refused(error), _) => spend(error),
        (Word::Nacked { after, error }, _) => unspent(*after, false, error),
        (Word::Unknown(error), _) => {
            let after = backoff::delay(UNKNOWN_FIRST, UNKNOWN_LONGEST, failures(budget.unknown_count));
            unspent(backoff::jitter(after), true, error)
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

    const YOUNG: Duration = Duration::from_secs(1);
    const OLD: Duration = Duration::from_secs(7200);

    fn budget(unroutable: Unroutable, attempt_count: i32) -> Budget {
        Budget {
            unroutable,
            attempt_count,
            max_attempts: 3,
            max_age: Some(Duration::from_secs(3600)),
            on_failed: OnFailed::Block,
            backoff: (Duration::from_secs(1), Duration::from_secs(60)),
            unknown_count: 0,
        }
    }

    #[derive(Debug, PartialEq)]
    enum Kind {
        Published,
        Again { spent: bool, unknown: bool },
        Failed,
    }

    fn kind(fate: &Fate) -> Kind {
        match fate {
            Fate::Published => Kind::Published,
            Fate::Retry { spent, unknown, .. } => Kind::Again { spent: *spent, unknown: *unknown },
            Fate::Failed { .. } => Kind::Failed,
            Fate::PutBack | Fate::Blocked => unreachable!("no verdict puts a row back"),
        }
    }

    /// R3, R4, R6: what each verdict means, for a young event and for one that is older than its `max_age`.
    #[test]
    fn a_verdict_spends_only_what_is_the_events_own() {
        let no_route = Word::Unroutable("312 NO_ROUTE".into());
        let forbidden = Word::NoExchange("403 ACCESS_REFUSED".into());
        let refused = Word::Refused("406".into());
        let nacked = Word::Nacked { after: Duration::from_secs(1), error: "nack".into() };
        let unknown = Word::Unknown("reset".into());
        let (hold, fail, discard) = (Unroutable::Hold, Unroutable::Fail, Unroutable::Discard);
        let spent = || Kind::Again { spent: true, unknown: false };
        let kept = || Kind::Again { spent: false, unknown: false };
        let nobody_knows = || Kind::Again { spent: false, unknown: true };
        let table = [
            (&Word::Published, hold, 9, Kind::Published, Kind::Published),
            (&no_route, hold, 0, spent(), spent()),
            (&no_route, hold, 1_000, spent(), spent()),
            (&no_route, fail, 0, spent(), Kind::Failed),
            (&no_route, fail, 2, Kind::Failed, Kind::Failed),
            (&no_route, discard, 0, Kind::Published, Kind::Published),
            (&forbidden, hold, 1_000, spent(), spent()),
            (&forbidden, fail, 2, Kind::Failed, Kind::Failed),
            (&forbidden, discard, 1_000, spent(), spent()),
            (&refused, hold, 1, spent(), Kind::Failed),
            (&refused, hold, 2, Kind::Failed, Kind::Failed),
            (&nacked, fail, 1_000, kept(), kept()),
            (&unknown, fail, 1_000, nobody_knows(), nobody_knows()),
        ];
        for (word, unroutable, attempts, young, old) in table {
            let budget = budget(unroutable, attempts);
            assert_eq!(kind(&fate(word, &budget, YOUNG)), young, "{word:?} {unroutable:?} {attempts} young");
            assert_eq!(kind(&fate(word, &budget, OLD)), old, "{word:?} {unroutable:?} {attempts} old");
            let endless = Budget { max_age: None, ..budget };
            assert_eq!(kind(&fate(word, &endless, OLD)), young, "{word:?} {unroutable:?} {attempts} without a bound");
        }
    }

    /// R6: what stands still keeps the later events of its key waiting, unless its policy says otherwise and its budget is spent.
    #[test]
    fn a_key_waits_unless_the_policy_says_skip_and_the_budget_is_spent() {
        let no_route = Word::Unroutable("312 NO_ROUTE".into());
        let refused = Word::Refused("406".into());
        let unknown = Word::Unknown("reset".into());
        let table = [
            (&Word::Published, Unroutable::Hold, 0, YOUNG, OnFailed::Block, true),
            (&no_route, Unroutable::Hold, 0, YOUNG, OnFailed::Skip, false),
            (&no_route, Unroutable::Hold, 0, OLD, OnFailed::Skip, true),
            (&no_route, Unroutable::Hold, 0, OLD, OnFailed::Block, false),
            (&refused, Unroutable::Hold, 2, YOUNG, OnFailed::Skip, true),
            (&refused, Unroutable::Hold, 2, YOUNG, OnFailed::Block, false),
            (&refused, Unroutable::Hold, 1, YOUNG, OnFailed::Skip, false),
            // Nobody knows of it: it may still be on its way, and what passes it would be out of order.
            (&unknown, Unroutable::Hold, 9, OLD, OnFailed::Skip, false),
        ];
        for (word, unroutable, attempts, age, on_failed, passes) in table {
            let budget = Budget { on_failed, ..budget(unroutable, attempts) };
            let fate = fate(word, &budget, age);
            assert_eq!(fate.lets_pass(), passes, "{word:?} {unroutable:?} {attempts} {age:?} {on_failed:?}");
        }
        assert!(!Fate::Blocked.lets_pass() && !Fate::PutBack.lets_pass());
    }

    #[test]
    fn pauses_grow_by_the_policy_of_the_row() {
        let pause = |word: &Word, budget: &Budget| match fate(word, budget, YOUNG) {
            Fate::Retry { after, .. } => after.as_secs_f64(),
            other => panic!("{other:?}"),
        };
        let held = Word::Unroutable("312".into());
        let slow =
            Budget { backoff: (Duration::from_secs(10), Duration::from_secs(25)), ..budget(Unroutable::Hold, 0) };
        for (attempts, longest) in [(0, 10.0), (1, 20.0), (2, 25.0), (i32::MAX, 25.0)] {
            let pause = pause(&held, &Budget { attempt_count: attempts, ..slow });
            assert!((longest / 2.0..=longest).contains(&pause), "{attempts}: {pause}");
        }
        for (unknown_count, longest) in [(0, 0.5), (1, 1.0), (9, 30.0), (i32::MAX, 30.0)] {
            let pause = pause(&Word::Unknown("reset".into()), &Budget { unknown_count, ..slow });
            assert!((longest / 2.0..=longest).contains(&pause), "{unknown_count}: {pause}");
        }
    }

    #[test]
    fn an_error_text_is_bounded_and_has_no_nul() {
        let failed = fate(&Word::Refused("é\0".repeat(900)), &budget(Unroutable::Hold, 2), YOUNG);
        let fits = |error: &str| error.len() <= ERROR_BYTES && !error.contains('\0');
        assert!(matches!(failed, Fate::Failed { error, .. } if fits(&error)));
    }
}
