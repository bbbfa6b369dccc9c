//! The end-to-end tests: one binary, one module per behaviour, against real servers (`./test` finds or starts them).
//!
//! A test that uses much of the machine (an own server) has a name that begins with `heavy_`: they run one at a time.
//! One that measures time or memory begins with `alone_`: nothing runs beside it. See `.config/nextest.toml`.
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody depends on a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod cancelled_callers;
mod causality;
mod chain;
mod dead_letter_queue;
mod deaf_consumer;
mod dedup_window;
mod failure_policy;
mod garbage;
mod handler_transaction;
mod harness;
mod hostile_sessions;
mod interrupted_run;
mod killer;
mod lost_database;
mod memory_alarm;
mod meter;
mod migrating;
mod parked_retry;
mod retention_at_once;
mod scripted;
mod world;
