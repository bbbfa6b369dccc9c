//! Runs both services, loads them, kills each while it works, and compares their tables in the end.
//!
//! The last line on stdout is the result; the exit code is 0 only if nothing was lost and nothing doubled. Progress goes to stderr.

mod args;
mod broker;
mod chain;
mod database;
mod doubles;
mod kill;
mod post;
mod progress;
mod run;
mod service;
mod siblings;
mod signals;
mod verdict;
mod world;

use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use anyhow::anyhow;
use futures_util::FutureExt as _;

use crate::args::{Args, Asked, USAGE};
use crate::progress::say;
use crate::signals::Signals;
use crate::verdict::Verdict;
use crate::world::World;

#[tokio::main]
async fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(Asked::Run(args)) => args,
        Ok(Asked::Help) => {
            result(USAGE);
            return ExitCode::SUCCESS;
        }
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    match demo(&args).await {
        Ok(verdict) => {
            let problems = verdict.problems();
            problems.iter().for_each(say);
            result(&verdict);
            if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            say(format_args!("failed: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Everything between the arguments and the verdict. What it makes, it removes, however it ends.
async fn demo(args: &Args) -> anyhow::Result<Verdict> {
    let binaries = siblings::build()?;
    // From here on a signal ends the run, not the process: there is something to clean up.
    let mut signals = Signals::listen()?;
    let world = World::new(args.broker).await?;
    let run = AssertUnwindSafe(run::run(args.orders, &world, &binaries)).catch_unwind();
    // The services belong to the future of the run and die with it.
    let verdict = tokio::select! {
        verdict = run => verdict.unwrap_or_else(|_| Err(anyhow!("the demo itself panicked"))),
        signal = signals.next() => Err(anyhow!("interrupted by {signal}")),
    };
    let fine = verdict.as_ref().is_ok_and(|verdict| verdict.problems().is_empty());
    world.close(fine, args.keep).await;
    verdict
}

#[allow(clippy::print_stdout, reason = "the result is what this program is for")]
fn result(text: impl Display) {
    println!("{text}");
}
