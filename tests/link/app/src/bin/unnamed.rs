//! Has the crate in `Cargo.toml` and does not name it.

include!("../print.rs");
