//! The end-to-end tests: one binary, one module per behaviour, against real servers (`./test` finds or starts them).
//!
//! A test that uses much of the machine (an own server) has a name that begins with `heavy_`: they run one at a time.
//! One that measures time or memory begins with `alone_`: nothing runs beside it. See `.config/nextest.toml`.
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody depends on a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod admin;
mod body_sizes;
mod broker_restarts;
mod cancelled_callers;
mod causality;
mod claim_statement;
mod crashes;
mod database_broker;
mod dead_letter_queue;
mod deaf_consumer;
mod dedup_window;
mod ended_transaction;
mod enqueue;
mod failure_policy;
mod full_queue;
mod garbage;
mod handler_transaction;
mod harness;
mod headers;
mod hostile_sessions;
mod interrupted_run;
mod killer;
mod late_consumer;
mod leases;
mod life;
mod long_names;
mod lost_database;
mod many_relays;
mod matrix;
mod memory_alarm;
mod meter;
mod migrating;
mod missing_exchange;
mod moving;
mod packaging;
mod parked_retry;
mod poison;
mod producing;
mod programs;
mod quickstart;
mod retention;
mod retention_at_once;
mod scripted;
mod signals;
mod sqlite_files;
mod sqlite_place;
mod sqlite_writers;
mod start;
mod statements;
mod steady_memory;
mod telemetry;
mod tls;
mod topics;
mod topology;
mod unroutable;
mod wire_format;
mod world;
