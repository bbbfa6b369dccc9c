//! The grammar of every name that ends up in AMQP or in a table, as `const fn`s: the macros call them for literals, generated
//! code calls them for const paths at compile time, and the runtime calls them for what comes from configuration.

use std::fmt;

/// AMQP's limit for a short string, in bytes: names, routing keys, header keys, ids.
pub const SHORT_STRING_BYTES: usize = 255;
/// The longest event name, in bytes.
pub const EVENT_NAME_BYTES: usize = 128;
/// The longest consumer name, in bytes.
pub const CONSUMER_NAME_BYTES: usize = 128;
/// The longest event id, in bytes.
pub const EVENT_ID_BYTES: usize = 64;
/// The longest suffix that is appended to a queue's name (`.unreadable`).
pub const QUEUE_SUFFIX_BYTES: usize = ".unreadable".len();

/// What is wrong with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameProblem {
    /// It has no characters.
    Empty,
    /// It is longer than `limit` bytes (bytes, not characters).
    TooLong {
        /// The limit in bytes, our suffixes already taken off.
        limit: usize,
    },
    /// It has a character that the grammar does not allow.
    Character,
    /// It begins or ends with a dot, or has two dots in a row.
    EmptyWord,
    /// It begins with `amq.`, which the broker keeps for itself.
    Reserved,
}

impl fmt::Display for NameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("is empty"),
            Self::TooLong { limit } => write!(f, "is longer than {limit} bytes"),
            Self::Character => f.write_str("has a character that is not allowed"),
            Self::EmptyWord => f.write_str("has an empty word between its dots"),
            Self::Reserved => f.write_str("begins with `amq.`, which is reserved for the broker"),
        }
    }
}

impl NameProblem {
    /// The problem of `name`, with its length if that is the problem.
    pub fn of(self, name: &str) -> String {
        match self {
            Self::TooLong { limit } => format!("has {} bytes, the limit is {limit}", name.len()),
            other => other.to_string(),
        }
    }
}

/// An event's name: words of ASCII letters, digits, `-` and `_`, joined by single dots, at most 128 bytes.
pub const fn event_name(name: &str) -> Result<(), NameProblem> {
    words(name, EVENT_NAME_BYTES)
}

/// A consumer's name: the grammar of an event's name.
pub const fn consumer_name(name: &str) -> Result<(), NameProblem> {
    words(name, CONSUMER_NAME_BYTES)
}

/// An exchange's name: at most 255 bytes without control characters, not `amq.*`.
pub const fn exchange_name(name: &str) -> Result<(), NameProblem> {
    entity(name, SHORT_STRING_BYTES)
}

/// A queue's name: at most 244 bytes (255 less our longest suffix) without control characters, not `amq.*`.
pub const fn queue_name(name: &str) -> Result<(), NameProblem> {
    entity(name, SHORT_STRING_BYTES - QUEUE_SUFFIX_BYTES)
}

/// An event's id: 1 to 64 bytes without control characters.
pub const fn event_id(id: &str) -> Result<(), NameProblem> {
    printable(id, EVENT_ID_BYTES)
}

/// A short string of AMQP: 1 to 255 bytes without control characters.
pub const fn short_string(text: &str) -> Result<(), NameProblem> {
    printable(text, SHORT_STRING_BYTES)
}

const fn printable(text: &str, limit: usize) -> Result<(), NameProblem> {
    let bytes = text.as_bytes();
    if bytes.is_empty() {
        return Err(NameProblem::Empty);
    }
    if bytes.len() > limit {
        return Err(NameProblem::TooLong { limit });
    }
    let mut i = 0;
    while i < bytes.len() {
        // A control character is one byte in UTF-8, below 0x20 or 0x7f; 0xc2 0x80..=0x9f are the C1 controls.
        let c1 = bytes[i] == 0xc2 && i + 1 < bytes.len() && bytes[i + 1] < 0xa0;
        if bytes[i] < 0x20 || bytes[i] == 0x7f || c1 {
            return Err(NameProblem::Character);
        }
        i += 1;
    }
    Ok(())
}

const fn entity(name: &str, limit: usize) -> Result<(), NameProblem> {
    if let Err(problem) = printable(name, limit) {
        return Err(problem);
    }
    let b = name.as_bytes();
    if b.len() >= 4 && b[0] == b'a' && b[1] == b'm' && b[2] == b'q' && b[3] == b'.' {
        return Err(NameProblem::Reserved);
    }
    Ok(())
}

const fn words(name: &str, limit: usize) -> Result<(), NameProblem> {
    if let Err(problem) = entity(name, limit) {
        return Err(problem);
    }
    let bytes = name.as_bytes();
    let mut word = 0;
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'.' if word == 0 => return Err(NameProblem::EmptyWord),
            b'.' => word = 0,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => word += 1,
            _ => return Err(NameProblem::Character),
        }
        i += 1;
    }
    if word == 0 { Err(NameProblem::EmptyWord) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_grammar() {
        let long = "x".repeat(129);
        let table: [(&str, Result<(), NameProblem>); 12] = [
            ("order.created", Ok(())),
            ("Order_1-a", Ok(())),
            ("", Err(NameProblem::Empty)),
            (&long, Err(NameProblem::TooLong { limit: 128 })),
            ("order..created", Err(NameProblem::EmptyWord)),
            (".order", Err(NameProblem::EmptyWord)),
            ("order.", Err(NameProblem::EmptyWord)),
            ("order.*", Err(NameProblem::Character)),
            ("order.#", Err(NameProblem::Character)),
            ("order created", Err(NameProblem::Character)),
            ("or\0der", Err(NameProblem::Character)),
            ("amq.topic", Err(NameProblem::Reserved)),
        ];
        for (name, want) in table {
            assert_eq!(event_name(name), want, "{name:?}");
        }
    }

    #[test]
    fn limits_count_bytes_not_characters() {
        // F10: 86 times a three-byte character is 258 bytes.
        assert_eq!(short_string(&"€".repeat(86)), Err(NameProblem::TooLong { limit: 255 }));
        assert_eq!(short_string(&"€".repeat(85)), Ok(()));
        assert_eq!(queue_name(&"q".repeat(245)), Err(NameProblem::TooLong { limit: 244 }));
        assert_eq!(queue_name(&"q".repeat(244)), Ok(()));
        assert_eq!(event_id(&"é".repeat(33)), Err(NameProblem::TooLong { limit: 64 }));
        assert_eq!(event_id("\u{85}"), Err(NameProblem::Character));
    }
}
