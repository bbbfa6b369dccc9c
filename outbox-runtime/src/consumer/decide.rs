//! What a failed run means for its message (C4): pure, so that the rule is a table.

use std::time::Duration;

use crate::backoff;
use crate::consumer::plan::RetryPolicy;
use crate::inbox::Reason;

/// How a run failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The handler returned an error that another run may cure.
    Error,
    /// The handler said that no run will cure it.
    Dead,
    /// It panicked.
    Panic,
    /// It took too long.
    Timeout,
    /// It swallowed a SQL error, or idled too long in the transaction.
    Aborted,
    /// It ended the transaction by itself: a further run would repeat what is done already.
    Ended,
    /// Its connection was lost again and again while the database was fine.
    ConnectionLost,
    /// An event that it returned could not be written.
    Emit,
    /// The body does not fit.
    Undecodable,
    /// It refused the message.
    Rejected,
    /// It asked for another run after this time.
    RetryAfter(Duration),
}

impl FailureKind {
    /// The label of the metric.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Dead => "dead",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::Aborted => "aborted transaction",
            Self::Ended => "ended transaction",
            Self::ConnectionLost => "connection lost",
            Self::Emit => "emit",
            Self::Undecodable => "undecodable",
            Self::Rejected => "rejected",
            Self::RetryAfter(_) => "retry after",
        }
    }
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Run again in this delivery.
    RunNow,
    /// Park and run again after this time.
    Park(Duration),
    /// Park for a person.
    Dead(Reason),
}

/// Decides after run number `attempt` (from 1). Immediate runs happen only in the delivery itself, never in a re-run of a parked message.
pub(crate) fn decide(kind: FailureKind, attempt: u32, rerun: bool, retry: RetryPolicy) -> Decision {
    match kind {
        FailureKind::Undecodable => return Decision::Dead(Reason::Undecodable),
        FailureKind::Ended => return Decision::Dead(Reason::EndedTransaction),
        FailureKind::Rejected | FailureKind::Dead => return Decision::Dead(Reason::Rejected),
        _ => {}
    }
    if attempt >= retry.max_attempts {
        return Decision::Dead(Reason::AttemptsSpent);
    }
    if let FailureKind::RetryAfter(delay) = kind {
        return Decision::Park(delay);
    }
    if !rerun && attempt <= retry.immediate {
        return Decision::RunNow;
    }
    let parked_before = attempt.saturating_sub(retry.immediate + 1);
    Decision::Park(backoff::jitter(backoff::delay(retry.first, retry.longest, parked_before)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: RetryPolicy =
        RetryPolicy { immediate: 2, first: Duration::from_secs(1), longest: Duration::from_secs(600), max_attempts: 5 };

    #[derive(Debug, PartialEq)]
    enum Kind {
        Now,
        /// Within these seconds.
        Park(f64, f64),
        Dead(Reason),
    }

    #[test]
    fn a_failure_runs_again_is_parked_or_dead() {
        let ask = Duration::from_secs(77);
        let table = [
            (FailureKind::Error, 1, false, Kind::Now),
            (FailureKind::Timeout, 2, false, Kind::Now),
            (FailureKind::Panic, 3, false, Kind::Park(0.5, 1.0)),
            (FailureKind::Error, 4, true, Kind::Park(1.0, 2.0)),
            (FailureKind::Error, 1, true, Kind::Park(0.5, 1.0)),
            (FailureKind::Error, 5, true, Kind::Dead(Reason::AttemptsSpent)),
            (FailureKind::Error, 9, true, Kind::Dead(Reason::AttemptsSpent)),
            (FailureKind::RetryAfter(ask), 1, false, Kind::Park(77.0, 77.0)),
            (FailureKind::RetryAfter(ask), 5, false, Kind::Dead(Reason::AttemptsSpent)),
            (FailureKind::Undecodable, 1, false, Kind::Dead(Reason::Undecodable)),
            (FailureKind::Rejected, 1, false, Kind::Dead(Reason::Rejected)),
            (FailureKind::Dead, 1, false, Kind::Dead(Reason::Rejected)),
            (FailureKind::Aborted, 1, false, Kind::Now),
            (FailureKind::Ended, 1, false, Kind::Dead(Reason::EndedTransaction)),
        ];
        for (kind, attempt, rerun, want) in table {
            let got = match (decide(kind, attempt, rerun, RETRY), &want) {
                (Decision::RunNow, _) => Kind::Now,
                (Decision::Dead(reason), _) => Kind::Dead(reason),
                (Decision::Park(after), Kind::Park(low, high)) if (*low..=*high).contains(&after.as_secs_f64()) => {
                    Kind::Park(*low, *high)
                }
                (Decision::Park(after), _) => Kind::Park(after.as_secs_f64(), after.as_secs_f64()),
            };
            assert_eq!(got, want, "{kind:?} {attempt} {rerun}");
        }
    }
}
