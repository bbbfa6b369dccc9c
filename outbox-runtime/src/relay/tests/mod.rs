//! Random histories against a small model (promises 1, 2 and 5): whatever happens in whatever order, no row is lost, none is Published without
//! proof, each key keeps its order, and every row is claimed by some statement in the end.
//!
//! The statements, the verdicts and the lines are the real ones, on real databases. The broker is a list: what a test of real servers cannot do
//! thousands of times, it answers as the case says. `tests/it` has the same behaviours with RabbitMQ.

#![allow(clippy::unwrap_used, clippy::panic, reason = "it is a test")]

mod events;
mod history;
mod model;
mod postgres;
mod promises;
mod sqlite;
mod table;

use proptest::test_runner::{Config, TestError, TestRunner};

use self::history::{History, histories};
use self::model::Model;
use self::table::Table;

/// A relay that does it wrong: the model must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// A lost connection counts as a confirm.
    BelievesWhatNobodyKnows,
    /// All events of a key are published at once.
    KeepsNoLine,
    /// Lines whose first event was deleted are never looked at.
    NeverSweeps,
}

/// Runs that many histories (`OUTBOX_MODEL_CASES` says otherwise); a failing one is made as short as possible before it is shown.
fn check<DB: Table>(world: &DB::World, runtime: &tokio::runtime::Runtime, cases: u32) {
    let cases = std::env::var("OUTBOX_MODEL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(cases);
    match run::<DB>(world, runtime, cases, None) {
        Ok(()) => {}
        Err(TestError::Fail(reason, history)) => panic!("{reason}\n{history:#?}"),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

fn run<DB: Table>(
    world: &DB::World,
    runtime: &tokio::runtime::Runtime,
    cases: u32,
    mistake: Option<Mistake>,
) -> Result<(), TestError<History>> {
    let max_shrink_iters = if mistake.is_some() { 0 } else { 400 };
    let config = Config { cases, max_shrink_iters, failure_persistence: None, ..Config::default() };
    let case = |history: History| runtime.block_on(Model::<DB>::run(world, &history, mistake));
    TestRunner::new(config).run(&histories(), case)
}
