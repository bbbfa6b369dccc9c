//! The settings of a consumer, which `#[handler]` and `consumer!` share.

mod duration;
pub(crate) mod expand;
pub(crate) mod model;
pub(crate) mod parse;
mod rules;
pub(crate) mod times;
pub(crate) mod validate;
