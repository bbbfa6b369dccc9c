//! Lists of handlers and of crates.

use outbox::HandlerDescriptor;

outbox::link!(serde, sqlx,);

/// A constant list.
pub const LIST: [&HandlerDescriptor; 2] =
    outbox::handlers![crate::hostile::raw::r#match, super::arguments::with_lifetime,];

#[test]
fn a_list_may_be_empty() {
    assert!(outbox::handlers![].is_empty());
    assert_eq!(LIST.map(|handler| handler.name), ["match", "with_lifetime"]);
}
