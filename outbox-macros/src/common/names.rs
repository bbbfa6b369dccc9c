//! What is wrong with a name that stands in the source, said so that the next attempt succeeds.

use quote::ToTokens;

use crate::common::errors::Errors;
use crate::common::rules;
use crate::common::spanned::Sp;
use crate::common::text::Text;
use crate::name::{self, NameProblem};

type Grammar = fn(&str) -> Result<(), NameProblem>;

const WORDS: &str =
    "it is made of words of ASCII letters, digits, `-` and `_`, joined by dots, such as `order.created`";
const ENTITY: &str = "it may have any but control characters";

pub(crate) fn event(name: Option<&Sp<Text>>, errors: &mut Errors) {
    check(name, "the event's name", name::event_name, WORDS, errors);
}

pub(crate) fn aggregate(name: Option<&Sp<Text>>, errors: &mut Errors) {
    check(name, "the aggregate's name", name::event_name, WORDS, errors);
}

pub(crate) fn consumer(name: Option<&Sp<Text>>, errors: &mut Errors) {
    check(name, "the consumer's name", name::consumer_name, WORDS, errors);
}

pub(crate) fn exchange(name: Option<&Sp<Text>>, errors: &mut Errors) {
    check(name, "the exchange's name", name::exchange_name, ENTITY, errors);
}

pub(crate) fn queue(name: Option<&Sp<Text>>, errors: &mut Errors) {
    check(name, "the queue's name", name::queue_name, ENTITY, errors);
}

/// A const path is checked by generated code.
fn check(text: Option<&Sp<Text>>, what: &str, accepts: Grammar, grammar: &str, errors: &mut Errors) {
    let Some(text) = text else { return };
    let Text::Literal(literal) = &**text else { return };
    let name = literal.value();
    if let Err(problem) = accepts(&name) {
        errors.push(explain(problem, &name, what, accepts, grammar, literal));
    }
}

fn explain(
    problem: NameProblem,
    name: &str,
    what: &str,
    accepts: Grammar,
    grammar: &str,
    at: &dyn ToTokens,
) -> syn::Error {
    match problem {
        NameProblem::Empty => rules::name_empty(at, &what),
        NameProblem::TooLong { limit } => rules::name_long(at, &what, &name.len(), &limit),
        NameProblem::EmptyWord => rules::name_word(at, &what, &grammar),
        NameProblem::Reserved => rules::name_reserved(at, &what),
        NameProblem::Character => rules::name_character(at, &what, &offending(name, accepts), &grammar),
    }
}

/// The first character that the grammar refuses, in quotes and escaped if it cannot be seen.
fn offending(name: &str, accepts: Grammar) -> String {
    let refused = |c: &char| *c != '.' && accepts(c.encode_utf8(&mut [0; 4])) == Err(NameProblem::Character);
    name.chars().find(refused).map_or_else(String::new, |c| format!("{c:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offending_character_is_shown() {
        for (name, want) in [("order created", "' '"), ("order.*", "'*'"), ("or\0der", "'\\0'"), ("größe", "'ö'")] {
            assert_eq!(offending(name, name::event_name), want);
        }
        assert_eq!(offending("a b\nc", name::queue_name), "'\\n'");
    }
}
