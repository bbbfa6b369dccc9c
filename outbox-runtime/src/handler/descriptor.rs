//! A handler and a consumer as the macros describe them. Everything is a constant: registration costs nothing at run time.

use std::fmt;
use std::time::Duration;

use crate::event::EventDescriptor;
use crate::handler::{BoxFuture, Call, HandlerResult, Requirements};

/// A `#[handler]` function.
#[derive(Clone, Copy)]
pub struct HandlerDescriptor {
    /// The consumer that it belongs to.
    pub consumer: &'static str,
    /// The function's name.
    pub name: &'static str,
    /// `module_path!()` of the function.
    pub module: &'static str,
    /// `file!()` of the function.
    pub file: &'static str,
    /// `line!()` of the function.
    pub line: u32,
    /// The event that it handles.
    pub event: &'static EventDescriptor,
    /// What its attribute says.
    pub settings: ConsumerSettings,
    /// The database whose connection it takes, if it takes one.
    pub database: Option<DatabaseKind>,
    /// Collects what its arguments need.
    pub requires: fn(&mut Requirements),
    /// Runs it.
    pub call: for<'a, 't, 'c> fn(&'a mut Call<'t, 'c>) -> BoxFuture<'a, HandlerResult>,
}

impl HandlerDescriptor {
    /// `file:line`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

impl fmt::Debug for HandlerDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerDescriptor")
            .field("consumer", &self.consumer)
            .field("event", &self.event.name)
            .field("handler", &format_args!("{}::{}", self.module, self.name))
            .field("place", &format_args!("{}:{}", self.file, self.line))
            .finish_non_exhaustive()
    }
}

/// A `consumer!` item.
#[derive(Debug, Clone, Copy)]
pub struct ConsumerDescriptor {
    /// The consumer's name.
    pub name: &'static str,
    /// What the item says.
    pub settings: ConsumerSettings,
    /// `file!()` of the item.
    pub file: &'static str,
    /// `line!()` of the item.
    pub line: u32,
}

/// Settings as they stand in an attribute: `None` is "not said here".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConsumerSettings {
    /// The queue's name, without the runtime's namespace; the consumer's name by default.
    pub queue: Option<&'static str>,
    /// How many deliveries are handled at the same time.
    pub concurrency: Option<u16>,
    /// How many deliveries the broker may send ahead.
    pub prefetch: Option<u16>,
    /// How long one run of a handler may take.
    pub timeout: Option<Duration>,
    /// What happens after a failed run.
    pub retry: RetrySettings,
}

impl ConsumerSettings {
    /// Nothing said.
    pub const NONE: Self =
        Self { queue: None, concurrency: None, prefetch: None, timeout: None, retry: RetrySettings::NONE };
}

/// `retry(immediate = 2, delays = "1s..10m", max_attempts = 8)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetrySettings {
    /// Runs that follow a failed one at once, in the same delivery.
    pub immediate: Option<u32>,
    /// The first and the longest delay between later runs; it doubles.
    pub delays: Option<(Duration, Duration)>,
    /// All runs together, the first one included.
    pub max_attempts: Option<u32>,
}

impl RetrySettings {
    /// Nothing said.
    pub const NONE: Self = Self { immediate: None, delays: None, max_attempts: None };
}

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DatabaseKind {
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
}

impl fmt::Display for DatabaseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres => f.write_str("PostgreSQL"),
            Self::Sqlite => f.write_str("SQLite"),
        }
    }
}

/// The one database among a handler's arguments. Evaluated at compile time.
#[doc(hidden)]
#[allow(clippy::panic, reason = "a panic in a constant is a compile error")]
pub const fn one_database(arguments: &[Option<DatabaseKind>]) -> Option<DatabaseKind> {
    let mut found = None;
    let mut i = 0;
    while i < arguments.len() {
        if arguments[i].is_some() {
            if found.is_some() {
                panic!("a handler takes the connection or the transaction once: both are the same one");
            }
            found = arguments[i];
        }
        i += 1;
    }
    found
}
