//! One mistake per file, and what is said of it.

/// Set `TRYBUILD=overwrite` to write the `.stderr` files, then read them as a newcomer would.
#[test]
fn each_mistake_is_told() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("fail/*/*.rs");
}
