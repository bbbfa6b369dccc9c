//! What an operator asks, and does.

mod act;
mod counts;
mod flush;
mod scan;
mod show;
mod summary;

pub(crate) use self::act::{act, pull};
pub(crate) use self::counts::{counts, now};
pub(crate) use self::flush::{flush_as_before, flush_from_here};
pub(crate) use self::scan::scan;
pub(crate) use self::show::show;

#[cfg(test)]
pub(crate) mod statements {
    pub(crate) use super::act::{DELETE, FAIL, HEADS, PULL, REPLAY, RETRY, SEEN, SKIP};
    pub(crate) use super::counts::{BY_TYPE, FIGURES};
    pub(crate) use super::scan::statement;
    pub(crate) use super::show::SHOW;
}
