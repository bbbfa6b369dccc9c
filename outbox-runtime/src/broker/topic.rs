//! Which routing keys a binding key fits, as RabbitMQ's topic exchanges have it. Pure.
//!
//! A key is words joined by dots. In a binding key the word `*` stands for one word and `#` for any number of words, also none; beside
//! other letters (`a*`) they stand for themselves. A word may be empty (`a..b` has three), and the empty key has no word at all: `#` fits
//! it, `*` does not.

/// What is left of a key: `None` has no word, `Some("")` one empty word.
type Words<'a> = Option<&'a str>;

/// Whether a message with this routing key goes to a queue with this binding.
pub(crate) fn matches(binding_key: &str, routing_key: &str) -> bool {
    let (mut wanted, mut words) = (all_words(binding_key), all_words(routing_key));
    // Behind the last `#`: what is wanted there, and the words from the first that the `#` has not taken.
    let mut last_hash: Option<(Words<'_>, Words<'_>)> = None;
    loop {
        match (wanted.map(first_word), words.map(first_word)) {
            (None, None) => return true,
            (Some(("#", behind)), _) => {
                last_hash = Some((behind, words));
                wanted = behind;
                continue;
            }
            (Some((pattern, behind)), Some((word, rest))) if pattern == "*" || pattern == word => {
                (wanted, words) = (behind, rest);
                continue;
            }
            _ => {}
        }
        // The last `#` takes one word more. No earlier one needs to: whatever it could take, the last one can take. So the steps are at
        // most the product of the lengths, however many `#` there are.
        let Some((behind, Some(from))) = last_hash else { return false };
        let (_, rest) = first_word(from);
        last_hash = Some((behind, rest));
        (wanted, words) = (behind, rest);
    }
}

fn all_words(key: &str) -> Words<'_> {
    (!key.is_empty()).then_some(key)
}

fn first_word(words: &str) -> (&str, Words<'_>) {
    words.split_once('.').map_or((words, None), |(word, rest)| (word, Some(rest)))
}

#[cfg(test)]
mod tests {
    use super::matches;

    /// The whole truth, compared with a broker, is the test `topics` of `tests/it`.
    #[test]
    fn a_binding_key_fits_what_amqp_says() {
        for (binding_key, fitting, others) in [
            ("", &[""][..], &[".", "a", "#"][..]),
            ("a.b", &["a.b"], &["", "a", "a.b.c", "A.b", "a.b."]),
            ("*", &["a", "*", "#"], &["", ".", "a.b"]),
            ("*.*", &[".", "a.", ".b", "a.b"], &["", "a", ".."]),
            ("#", &["", ".", "a", "a.b.c"], &[]),
            ("#.#", &["", ".", "a", "a.b.c"], &[]),
            ("*.#", &[".", "a", "a.b"], &[""]),
            ("#.*", &[".", "a", "a.b"], &[""]),
            ("#.a", &["a", ".a", "a.a", "b.c.a"], &["", "a.", "ba"]),
            ("a.#", &["a", "a.", "a.b.c"], &["", ".a", "ab"]),
            ("a..b", &["a..b"], &["a.b", "a.x.b"]),
            ("a.*.b", &["a..b", "a.x.b"], &["a.b", "a.x.y.b"]),
            ("a.#.b.#.c", &["a.b.c", "a.x.b.b.y.c", "a.c.b.c.c"], &["a.c.b", "a.b.c.d", "a.c"]),
            ("#.a.b", &["a.b", "a.a.b", "a.b.a.b"], &["a.b.a", "b"]),
            ("a*", &["a*"], &["a", "ab", "a.b"]),
            ("a#.*b", &["a#.*b"], &["a.b", "a#.b"]),
        ] {
            for routing_key in fitting {
                assert!(matches(binding_key, routing_key), "{binding_key:?} fits {routing_key:?}");
            }
            for routing_key in others {
                assert!(!matches(binding_key, routing_key), "{binding_key:?} does not fit {routing_key:?}");
            }
        }
    }

    /// Trying all ways to share the words among the `#` would not end.
    #[test]
    fn many_wildcards_against_many_words_end_at_once() {
        let words = ["a"; 128].join(".");
        for (binding_key, fits) in [
            (["#"; 128].join("."), true),
            (["#.a"; 63].join("."), true),
            (["#.a"; 63].join(".") + ".b", false),
            (["#.*"; 63].join(".") + ".#", true),
            (["#.*"; 63].join(".") + ".b", false),
        ] {
            assert_eq!(matches(&binding_key, &words), fits, "{binding_key}");
        }
    }
}
