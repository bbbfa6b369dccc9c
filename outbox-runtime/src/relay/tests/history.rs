//! What may happen, in any order.

use proptest::collection::vec;
use proptest::prelude::*;

use super::events::Kind;

/// One case.
#[derive(Debug, Clone)]
pub(super) struct History {
    /// Whether published rows are deleted at once.
    pub(super) delete_published: bool,
    pub(super) steps: Vec<Step>,
}

/// One step.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A transaction with events of these kinds and keys, ended so.
    Enqueue { events: Vec<(Kind, u8)>, end: End },
    /// A relay that has nothing claims.
    Claim { relay: usize, rows: usize, bytes: usize },
    /// A relay publishes the next event of each of its lines; the broker gives these answers in turn.
    Publish { relay: usize, answers: Vec<Answer> },
    /// A relay settles what it has; what it has not offered goes back.
    Settle { relay: usize },
    /// A relay dies with what it has.
    Crash { relay: usize },
    /// The relay of the database's own queues takes a turn; without a binding no queue wants anything.
    Route { rows: usize, bound: bool },
    /// Every lease runs out.
    Expire,
    /// So many rows of expired leases are put back.
    PutBack { limit: i64 },
    /// Whatever waits for a time is due.
    TimePasses,
    /// The sweep of the lines looks at so many keys.
    Sweep { keys: i64 },
    /// Published rows are deleted.
    Purge,
    /// The transaction of a user cancels an event.
    Cancel { nth: usize, end: End },
    /// Somebody deletes an unpublished row by hand.
    Delete { nth: usize },
    /// An operator acts on an event.
    Operate { operation: Operation, nth: usize },
}

/// What an operator may do to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    RetryNow,
    Fail,
    Discard,
    Skip,
    Replay,
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Commit,
    Rollback,
}

/// What the broker does with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Confirm,
    Nack,
    Return,
    NoExchange,
    Refuse,
    /// It has the message, and the confirm is lost.
    LoseConfirm,
    /// The message is lost with the connection.
    LoseMessage,
}

pub(super) fn histories() -> impl Strategy<Value = History> {
    (any::<bool>(), vec(step(), 4..48)).prop_map(|(delete_published, steps)| History { delete_published, steps })
}

fn step() -> impl Strategy<Value = Step> {
    let end = || prop_oneof![4 => Just(End::Commit), 1 => Just(End::Rollback)];
    let event = || (proptest::sample::select(&Kind::ALL[..]), 0_u8..2);
    let relay = || 0_usize..2;
    prop_oneof![
        8 => (vec(event(), 1..5), end()).prop_map(|(events, end)| Step::Enqueue { events, end }),
        8 => (relay(), 1_usize..9, prop_oneof![Just(1_usize), Just(200), Just(100_000)])
            .prop_map(|(relay, rows, bytes)| Step::Claim { relay, rows, bytes }),
        10 => (relay(), vec(answer(), 1..6)).prop_map(|(relay, answers)| Step::Publish { relay, answers }),
        7 => relay().prop_map(|relay| Step::Settle { relay }),
        2 => relay().prop_map(|relay| Step::Crash { relay }),
        4 => (1_usize..9, proptest::bool::weighted(0.7)).prop_map(|(rows, bound)| Step::Route { rows, bound }),
        2 => Just(Step::Expire),
        3 => (1_i64..5).prop_map(|limit| Step::PutBack { limit }),
        4 => Just(Step::TimePasses),
        2 => (1_i64..4).prop_map(|keys| Step::Sweep { keys }),
        1 => Just(Step::Purge),
        2 => (0_usize..40, end()).prop_map(|(nth, end)| Step::Cancel { nth, end }),
        2 => (0_usize..40).prop_map(|nth| Step::Delete { nth }),
        4 => (operation(), 0_usize..40).prop_map(|(operation, nth)| Step::Operate { operation, nth }),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::{Discard, Fail, Replay, RetryNow, Skip};
    proptest::sample::select(&[RetryNow, Fail, Discard, Skip, Replay][..])
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        6 => Just(Answer::Confirm),
        1 => Just(Answer::Nack),
        1 => Just(Answer::Return),
        1 => Just(Answer::NoExchange),
        1 => Just(Answer::Refuse),
        1 => Just(Answer::LoseConfirm),
        1 => Just(Answer::LoseMessage),
    ]
}
