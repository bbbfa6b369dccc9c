//! The Rust in `docs` compiles: each block is a doc test of this package, which has all features and is not published.

#[doc = include_str!("../../../docs/guarantees.md")]
struct Guarantees;

#[doc = include_str!("../../../docs/handlers.md")]
struct Handlers;

#[doc = include_str!("../../../docs/operations.md")]
struct Operations;

#[doc = include_str!("../../../docs/producing.md")]
struct Producing;
