//! Where a list or an action goes on.

use std::fmt;
use std::str::FromStr;

use crate::admin::FilterProblem;
use crate::admin::filter::Path;

/// A place in a list: what comes after it has not been seen. It stays true whatever happens to the rows. As text it fits into a URL after the usual
/// escaping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Which of the scans.
    pub(crate) path: Path,
    /// The scan's own column, in microseconds since 1970.
    pub(crate) key: i64,
    /// What tells rows with the same time apart.
    pub(crate) event_id: String,
    /// What was published after this is none of the action's business.
    pub(crate) until: i64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.path.letter(), self.key, self.until, self.event_id)
    }
}

impl FromStr for Cursor {
    type Err = FilterProblem;

    fn from_str(text: &str) -> Result<Self, FilterProblem> {
        let mut parts = text.splitn(4, '.');
        let read = (|| {
            let path = Path::from_letter(parts.next()?)?;
            let key = parts.next()?.parse().ok()?;
            let until = parts.next()?.parse().ok()?;
            let event_id = parts.next()?.to_owned();
            (event_id.len() <= 1024 && !event_id.contains('\0')).then_some(Self { path, key, event_id, until })
        })();
        read.ok_or(FilterProblem::Cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_from_its_text() {
        for (path, key, id) in
            [(Path::Held, -1, "a.b.c"), (Path::Due, i64::MAX, ""), (Path::Published, 0, "\u{1f980} x")]
        {
            let cursor = Cursor { path, key, event_id: id.to_owned(), until: 7 };
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for wrong in ["", "h", "h.1", "h.1.2", "x.1.2.a", "h.a.2.a", "h.1.99999999999999999999.a", "h.1.2.a\0"] {
            assert_eq!(wrong.parse::<Cursor>(), Err(FilterProblem::Cursor), "{wrong:?}");
        }
    }
}
