//! What an operator sees.

pub mod names;
mod repeated;

pub(crate) use self::repeated::{Repeated, RepeatedBy};
