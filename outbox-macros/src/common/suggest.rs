//! "did you mean ..?"

/// ` (did you mean `queue`?)`, or nothing if no known word is near.
pub(crate) fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default()
}

/// `a`, `b` and `c`, each in backticks.
pub(crate) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    let Some(last) = words.pop() else { return "nothing".to_owned() };
    if words.is_empty() { last } else { format!("{} and {last}", words.join(", ")) }
}

/// The known word with the fewest edits, if a third of its letters at most differ.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(edits, candidate)| *edits <= candidate.chars().count().div_ceil(3))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, edits) in
            [("", "", 0), ("queue", "queue", 0), ("qeueu", "queue", 2), ("nmae", "name", 1), ("", "abc", 3)]
        {
            assert_eq!(distance(a, b), edits, "{a} {b}");
        }
    }

    #[test]
    fn only_a_near_word_is_suggested() {
        let known = ["consumer", "queue", "timeout", "retry"];
        for (word, want) in [
            ("que", Some("queue")),
            ("Queue", Some("queue")),
            ("time_out", Some("timeout")),
            ("consumr", Some("consumer")),
            ("ack", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), want, "{word}");
        }
    }

    #[test]
    fn words_are_listed() {
        assert_eq!(list(["a"]), "`a`");
        assert_eq!(list(["a", "b", "c"]), "`a`, `b` and `c`");
        assert_eq!(list([]), "nothing");
    }
}
