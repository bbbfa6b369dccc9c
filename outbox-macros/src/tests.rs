//! No input makes a macro panic: a panic has no place and no cure.

use std::str::FromStr;

use proc_macro2::TokenStream;

const SETTINGS: [&str; 25] = [
    "",
    ",",
    ",,,",
    "=",
    "= =",
    "name",
    "name =",
    "name = ,",
    "name(",
    "name()",
    "name = (\"x\")",
    "name = \"\u{0}\"",
    "name = \"\u{1F980}\"",
    "name = r#\"order.created\"#, key = r#type",
    "name = b\"x\", version = 1.5, crate = 7",
    "name = -1, version = -\"x\", key = 1, retry(retry())",
    "crate = <T as X>::Y, name = a::<b, c>::d",
    "crate, crate = $crate, crate = crate",
    "consumer = \"a\", timeout = \"\", retry(delays = \"..\")",
    "consumer = \"a\", timeout = \"s\", retry(delays = \"1s..2s..3s\", immediate = 4294967296)",
    "queue = \"\", prefetch = 99999999999999999999, concurrency = 0x10",
    "name = \"a\", ordered, key = a, on_failed = \"skip\", backoff = \"1s..2s\", max_age = \"1h\", max_attempts = 1",
    "ordered = true, ordered x, on_failed = 1, backoff = \"9999h..1ms\", max_age = \"..\"",
    "ordered(), max_attempts = 4294967296, backoff(1), max_age",
    "@ # ! { } [ ] 'a lifetime 'x'",
];

const ITEMS: [&str; 22] = [
    "",
    ";",
    "fn f() {}",
    "async fn f(_: &mut (&mut X)) -> !  {}",
    "async fn f(self: Box<Self>, (a, b): (A, B), [x]: [&str; 1]) -> impl X { }",
    "pub(in a::b) async unsafe extern \"C\" fn r#fn<'a, T, const N: usize>(x: &'a dyn for<'b> Fn(&'b T)) where T: X {}",
    "async fn f(x: X, ...) {}",
    "async fn f();",
    "struct S;",
    "struct S(A, B);",
    "pub struct r#S { r#type: A, }",
    "struct S<'a, T: X = Y, const N: usize> where T: Z { a: &'a T }",
    "enum E {}",
    "enum E { A, B(C), D { r#e: F } = 3 }",
    "union U { a: u8 }",
    "#[serde(rename = 1, rename_all, tag(x), flatten = \"a\", rename(serialize), rename_all(other = \"y\"))] struct S { #[serde] a: A }",
    "#[serde = \"x\"] #[serde(] struct S { #[serde(rename(serialize = \"\", x))] a: A }",
    "#[serde(rename_all = \"camelCase\")] struct S { _: A, __: B, é: C }",
    "trait T { async fn f(); }",
    "impl X { }",
    "mod m { struct S; }",
    "macro_rules! m { () => {} }",
];

#[test]
fn odd_input_is_an_error_and_not_a_panic() {
    let parsed = |text: &&str| TokenStream::from_str(text).ok();
    let settings: Vec<TokenStream> = SETTINGS.iter().filter_map(parsed).collect();
    let items: Vec<TokenStream> = ITEMS.iter().filter_map(parsed).collect();
    assert!(settings.len() >= 20 && items.len() >= 20);
    for settings in &settings {
        for tokens in [crate::consumer::consumer(settings.clone()), crate::handlers::handlers(settings.clone())] {
            assert!(!tokens.is_empty());
        }
        crate::link::link(settings.clone());
        for item in &items {
            crate::handler::handler(settings.clone(), item.clone());
            crate::event::attribute(settings.clone(), item.clone());
            crate::event::derive(quote::quote!(#[__outbox_event(#settings)] #item));
        }
    }
}
