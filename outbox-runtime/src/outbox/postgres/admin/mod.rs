//! What an operator asks, and does.

mod act;
mod counts;
mod scan;
mod show;
mod summary;

pub(crate) use self::act::{act, pull};
pub(crate) use self::counts::{counts, now};
pub(crate) use self::scan::scan;
pub(crate) use self::show::show;
