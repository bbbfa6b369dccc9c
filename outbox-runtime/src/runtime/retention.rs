//! What becomes of published rows (S5).

use std::time::Duration;

use crate::error::shown;
use crate::outbox::ArchiveTable;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// What becomes of published rows. Rows that are not published are never touched.
///
/// ```
/// # extern crate outbox_runtime as outbox;
/// use std::time::Duration;
/// use outbox::{Retention, Runtime};
///
/// let builder = Runtime::builder().retention(Retention::keep(Duration::from_secs(2 * 24 * 3600)));
/// let builder = builder.retention(Retention::archive("audit.events").after(Duration::from_secs(3600)));
/// # let _ = builder;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    pub(crate) plan: RetentionPlan,
}

/// What [`Retention`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RetentionPlan {
    /// Deleted after this time.
    Keep(Duration),
    /// Deleted at once.
    Delete,
    /// Moved to this table after this time. The name is as it was given: it is checked at start, with everything else.
    Archive { table: String, after: Duration },
}

impl Retention {
    /// They are kept for this time, then deleted. The default, with 7 days.
    pub const fn keep(time: Duration) -> Self {
        Self { plan: RetentionPlan::Keep(time) }
    }

    /// They are deleted as soon as they are published. An event cannot be replayed then.
    pub const fn delete() -> Self {
        Self { plan: RetentionPlan::Delete }
    }

    /// They are moved to that table (`table` or `schema.table`), by default after 7 days. With [`Migrations::Run`](crate::Migrations::Run) it is
    /// created unless it is there; you may have made it yourself, partitioned for example.
    pub fn archive(table: impl Into<String>) -> Archive {
        Archive { table: table.into(), after: DAY * 7 }
    }
}

impl Retention {
    /// How long published rows stay.
    pub(crate) fn after(&self) -> Duration {
        match &self.plan {
            RetentionPlan::Keep(after) | RetentionPlan::Archive { after, .. } => *after,
            RetentionPlan::Delete => Duration::ZERO,
        }
    }

    /// Whether the statement that marks a row Published deletes it instead.
    pub(crate) fn deletes_at_once(&self) -> bool {
        self.plan == RetentionPlan::Delete
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self::keep(DAY * 7)
    }
}

/// A [`Retention`] that moves published rows to a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "it does nothing until it is given to `RuntimeBuilder::retention`"]
pub struct Archive {
    table: String,
    after: Duration,
}

impl Archive {
    /// How long rows stay in the outbox first, where they can be replayed. Default: 7 days.
    pub fn after(mut self, time: Duration) -> Self {
        self.after = time;
        self
    }
}

impl From<Archive> for Retention {
    fn from(archive: Archive) -> Self {
        Self { plan: RetentionPlan::Archive { table: archive.table, after: archive.after } }
    }
}

/// What `OUTBOX_RETENTION` has to look like.
pub(crate) const FORM: &str = "set it to keep:7d, delete, archive:table or archive:table:7d (units: s, m, h, d)";

/// Reads `keep:7d`, `delete`, `archive:table` or `archive:table:7d`.
pub(crate) fn parse(text: &str) -> Result<Retention, String> {
    let mut parts = text.split(':');
    let wrong = || Err(format!("is {}", shown(text)));
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("keep"), Some(time), None, None) => Ok(Retention::keep(duration(time)?)),
        (Some("delete"), None, None, None) => Ok(Retention::delete()),
        (Some("archive"), Some(table), time, None) => {
            ArchiveTable::parse(table)?;
            let archive = Retention::archive(table);
            Ok(match time {
                Some(time) => archive.after(duration(time)?).into(),
                None => archive.into(),
            })
        }
        _ => wrong(),
    }
}

/// Reads `7d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("has the time {}, which is not a whole number with a unit", shown(text));
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return Err(wrong()),
    };
    let number = number.parse::<u32>().map_err(|_| wrong())?;
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_has_four_forms() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        assert_eq!(parse("keep:36h"), Ok(Retention::keep(hours(36))));
        assert_eq!(parse("keep:0s"), Ok(Retention::keep(Duration::ZERO)));
        assert_eq!(parse("delete"), Ok(Retention::delete()));
        assert_eq!(parse("archive:a.events"), Ok(Retention::archive("a.events").after(DAY * 7).into()));
        assert_eq!(parse("archive:events:90m"), Ok(Retention::archive("events").after(hours(1) * 3 / 2).into()));
        for wrong in [
            "",
            "keep",
            "keep:",
            "keep:7",
            "keep:d",
            "keep:7w",
            "keep:-1d",
            "keep:7d:1",
            "delete:1d",
            "archive",
            "archive:",
            "archive:a b",
            "archive:outbox_messages",
            "archive:t:x",
            "archive:t:1d:2",
            "Keep:7d",
            "keep:99999999999d",
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
