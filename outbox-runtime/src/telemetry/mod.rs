//! What an operator sees.

pub mod names;
