//! "Did you mean ..?", for names that a person typed.

/// The known word with the fewest edits, if at most a third of its letters differ; of a short one, one letter.
pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (edits(word.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|(edits, candidate)| *edits <= (candidate.len() / 3).max(1))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and replacements that turn `a` into `b`.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_word_is_suggested() {
        let known = ["ROLE", "RETENTION", "LISTEN_URL"];
        for (word, want) in [
            ("RETENSION", Some("RETENTION")),
            ("ROLES", Some("ROLE")),
            ("LISTENURL", Some("LISTEN_URL")),
            ("POLL", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known.into_iter()), want, "{word}");
        }
        assert_eq!([edits(b"", b"abc"), edits(b"abc", b""), edits(b"abc", b"axcd"), edits(b"", b"")], [3, 3, 2, 0]);
    }
}
