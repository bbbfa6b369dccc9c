//! Compile-time tests of the macros: `fail/` holds one mistake per file, `tests/hostile.rs` what must compile.
