//! One thing that is wrong with an event, an id or a header.

use std::fmt;

use crate::event::name::NameProblem;

/// What was wrong, with what, and what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    text: String,
}

impl Problem {
    pub(crate) fn name(what: &str, value: &str, problem: NameProblem) -> Self {
        Self { text: format!("the {what} {} {}", shown(value), problem.of(value)) }
    }

    pub(crate) fn header(key: &str, why: &str) -> Self {
        Self { text: format!("the header {} {why}", shown(key)) }
    }

    pub(crate) fn too_large(what: &str, bytes: usize, limit: usize) -> Self {
        Self { text: format!("{what} would have {bytes} bytes, the limit is {limit}") }
    }

    pub(crate) fn time(what: &str) -> Self {
        Self { text: format!("{what} is outside the years 1 to 9999") }
    }

    pub(crate) fn rule(text: &'static str) -> Self {
        Self { text: text.to_owned() }
    }

    pub(crate) fn encode(why: String) -> Self {
        Self { text: format!("it cannot be encoded: {why}") }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Problem {}

/// A name for a message: escaped, and cut after 64 characters.
pub(crate) fn shown(value: &str) -> String {
    let mut short: String = value.chars().take(64).collect();
    if short.len() < value.len() {
        short.push('…');
    }
    format!("{short:?}")
}
