//! How a rule is written down: once, with its text, in the `rules.rs` of its macro. Errors are made in no other way, and the package
//! `outbox-ui-tests` reads these tables: a rule whose text stands in no `.stderr` fails its test.

/// Declares rules: each is a function that makes its error at the given tokens.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*) = $text:literal;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(
            at: &dyn ::quote::ToTokens,
            $($argument: &dyn ::std::fmt::Display),*
        ) -> ::syn::Error {
            ::syn::Error::new_spanned(at, format!($text))
        }
    )*};
}

rules! {
    setting_expected() = "expected a setting, `key = value`";
    comma_expected(key) = "expected `,` before `{key}`";
    setting_unknown(owner, key, hint, known) = "{owner} has no setting `{key}`{hint}; it has {known}";
    setting_twice(key) = "`{key}` is given twice";
    value_expected(key, expected, example) = "`{key}` expects {expected}: `{example}`";
    number_range(key, low, high) = "`{key}` is a whole number from {low} to {high}";
    choice_unknown(key, value, hint, known) = "`{key}` cannot be \"{value}\"{hint}; it is one of {known}";
    crate_relative() = "`crate` expects an absolute path, which begins with `::`, `crate::` or `$crate::`: `crate = ::outbox`";
    name_empty(what) = "{what} is empty";
    name_long(what, bytes, limit) = "{what} has {bytes} bytes; at most {limit} are allowed";
    name_character(what, character, grammar) = "{what} has the character {character}; {grammar}";
    name_word(what, grammar) = "{what} begins or ends with a dot or has two dots in a row; {grammar}";
    name_reserved(what) = "{what} begins with `amq.`, which the broker keeps for itself";
}
