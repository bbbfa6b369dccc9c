//! The text of the field that `key` names.

use std::any::Any;
use std::borrow::Cow;
use std::fmt::Display;

/// A field that can be an event's key. Every type with a text form is one; text itself is not copied.
#[diagnostic::on_unimplemented(
    message = "a field of type `{Self}` cannot be the key of an event",
    label = "`{Self}` has no text form",
    note = "implement `std::fmt::Display` for `{Self}`, or name another field"
)]
pub trait KeyField {
    /// The field's text.
    fn key_text(&self) -> Cow<'_, str>;
}

#[diagnostic::do_not_recommend]
impl<T: Display + 'static> KeyField for T {
    fn key_text(&self) -> Cow<'_, str> {
        let any: &dyn Any = self;
        match (any.downcast_ref::<String>(), any.downcast_ref::<&'static str>()) {
            (Some(text), _) => Cow::Borrowed(text),
            (_, Some(text)) => Cow::Borrowed(text),
            _ => Cow::Owned(self.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_borrowed_and_the_rest_is_displayed() {
        assert!(matches!("o-1".to_owned().key_text(), Cow::Borrowed("o-1")));
        assert!(matches!("o-1".key_text(), Cow::Borrowed("o-1")));
        assert!(matches!(17_u64.key_text(), Cow::Owned(text) if text == "17"));
    }
}
