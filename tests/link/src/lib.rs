//! Proves registration by the linker; see `tests/link.rs`.
