//! Which events.

use std::time::SystemTime;

use chrono::{DateTime, Utc};

use crate::admin::{Cursor, EventStatus, FilterProblem};

/// The longest text that is looked for.
const TEXT_BYTES: usize = 255;
/// The longest error text that is looked for.
const ERROR_BYTES: usize = 1_000;
/// Event types in one filter.
const TYPES: usize = 100;

/// Which events: those that fit everything that is said here. A new one fits all.
///
/// ```
/// # extern crate outbox_runtime as outbox;
/// use outbox::admin::{Filter, EventStatus};
///
/// let held = Filter::new().status(EventStatus::Pending).error_contains("NO_ROUTE");
/// # let _ = held;
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use = "a filter does nothing until it is given to `Admin`"]
pub struct Filter {
    pub(super) statuses: Vec<EventStatus>,
    types: Vec<String>,
    aggregate: Option<(String, String)>,
    error: Option<String>,
    enqueued: Range,
    published: Range,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Range {
    from: Option<SystemTime>,
    to: Option<SystemTime>,
}

impl Filter {
    /// Fits every event.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only events of this status. Said again: of any of these.
    pub fn status(mut self, status: EventStatus) -> Self {
        if !self.statuses.contains(&status) {
            self.statuses.push(status);
        }
        self
    }

    /// Only events of this name. Said again: of any of these.
    pub fn event_type(mut self, name: impl Into<String>) -> Self {
        self.types.push(name.into());
        self
    }

    /// Only events of this aggregate: of one key.
    pub fn aggregate(mut self, aggregate_type: impl Into<String>, aggregate_id: impl Into<String>) -> Self {
        self.aggregate = Some((aggregate_type.into(), aggregate_id.into()));
        self
    }

    /// Only events that are not published and whose last error has this text in it, to the letter.
    pub fn error_contains(mut self, text: impl Into<String>) -> Self {
        self.error = Some(text.into());
        self
    }

    /// Only events that were written (delayed ones: are due) at this time or later.
    pub fn enqueued_from(mut self, time: impl Into<SystemTime>) -> Self {
        self.enqueued.from = Some(time.into());
        self
    }

    /// Only events that were written (delayed ones: are due) before this time.
    pub fn enqueued_before(mut self, time: impl Into<SystemTime>) -> Self {
        self.enqueued.to = Some(time.into());
        self
    }

    /// Only events that were published at this time or later.
    pub fn published_from(mut self, time: impl Into<SystemTime>) -> Self {
        self.published.from = Some(time.into());
        self
    }

    /// Only events that were published before this time.
    pub fn published_before(mut self, time: impl Into<SystemTime>) -> Self {
        self.published.to = Some(time.into());
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// All that is wrong with it.
    pub(super) fn problems(&self) -> Vec<FilterProblem> {
        let mut problems = Vec::new();
        let mut text = |what: &'static str, value: &str, limit: usize, may_be_empty: bool| {
            if value.is_empty() && !may_be_empty || value.len() > limit || value.contains('\0') {
                problems.push(FilterProblem::Text { what, value: value.chars().take(64).collect(), limit });
            }
        };
        self.types.iter().take(TYPES).for_each(|name| text("event type", name, TEXT_BYTES, false));
        if let Some((kind, id)) = &self.aggregate {
            text("aggregate type", kind, TEXT_BYTES, true);
            text("aggregate id", id, TEXT_BYTES, true);
        }
        if let Some(error) = &self.error {
            text("error text", error, ERROR_BYTES, false);
        }
        if self.types.len() > TYPES {
            problems.push(FilterProblem::Size { what: "event types", asked: self.types.len(), limit: TYPES });
        }
        for (what, range) in [("enqueuing", self.enqueued), ("publishing", self.published)] {
            if [range.from, range.to].into_iter().flatten().any(|time| micros(time).is_none()) {
                problems.push(FilterProblem::Time { what });
            }
            if let (Some(from), Some(to)) = (range.from, range.to)
                && from >= to
            {
                problems.push(FilterProblem::EmptyRange { what });
            }
        }
        let of_published = self.statuses.contains(&EventStatus::Published) || self.published != Range::default();
        if self.error.is_some() && of_published {
            problems.push(FilterProblem::ErrorOfPublished);
        }
        if self.published != Range::default() {
            let others = self.statuses.iter().filter(|status| **status != EventStatus::Published);
            problems.extend(others.map(|status| FilterProblem::PublishedRange { status: *status }));
        }
        problems
    }

    /// The scans that find its events, of those statuses that `among` has; in their order.
    pub(crate) fn scans(&self, among: &[EventStatus]) -> Vec<Scan> {
        let wanted = |status: EventStatus| {
            among.contains(&status)
                && (self.statuses.is_empty() || self.statuses.contains(&status))
                && (self.published == Range::default() || status == EventStatus::Published)
                && (self.error.is_none() || status != EventStatus::Published)
        };
        let scan = |path: Path, statuses: Vec<EventStatus>| Scan {
            path,
            statuses,
            types: self.types.clone(),
            aggregate: self.aggregate.clone(),
            error: self.error.clone(),
            enqueued: (self.enqueued.from.and_then(micros), self.enqueued.to.and_then(micros)),
            published: (self.published.from.and_then(micros), self.published.to.and_then(micros)),
            after: None,
            newest_first: false,
            rows: 0,
            read: 0,
        };
        if self.error.is_some() {
            // All rows with an error that are not published have an index of their own.
            let statuses: Vec<EventStatus> = EventStatus::ALL.into_iter().filter(|status| wanted(*status)).collect();
            return if statuses.is_empty() { Vec::new() } else { vec![scan(Path::Held, statuses)] };
        }
        EventStatus::ALL
            .into_iter()
            .filter(|status| wanted(*status))
            .map(|status| scan(Path::of(status), vec![status]))
            .collect()
    }
}

/// 0001-01-01 and 10000-01-01.
const YEARS: std::ops::Range<i64> = -62_135_596_800_000_000..253_402_300_800_000_000;

/// Microseconds since 1970.
fn micros(time: SystemTime) -> Option<i64> {
    // `From` would panic on times that chrono cannot hold.
    let micros = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_micros()).ok()?,
        Err(before) => i64::try_from(before.duration().as_micros()).ok()?.checked_neg()?,
    };
    YEARS.contains(&micros).then_some(micros)
}

/// A time of a table, in microseconds, where it has a form.
pub(crate) fn time(micros: i64) -> Option<DateTime<Utc>> {
    YEARS.contains(&micros).then(|| DateTime::from_timestamp_micros(micros)).flatten()
}

/// An index that rows are read from: nothing else is ever scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// Not published, and with an error; by `enqueued_at`. Every Failed row has one.
    Held,
    /// With a relay; by `locked_until`.
    Leased,
    /// Pending; by `next_attempt_at`.
    Due,
    /// Published; by `published_at`.
    Published,
}

impl Path {
    const fn of(status: EventStatus) -> Self {
        match status {
            EventStatus::Failed => Self::Held,
            EventStatus::Processing => Self::Leased,
            EventStatus::Pending => Self::Due,
            EventStatus::Published => Self::Published,
        }
    }

    /// The time that the index goes by.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Held => "enqueued_at",
            Self::Leased => "locked_until",
            Self::Due => "next_attempt_at",
            Self::Published => "published_at",
        }
    }

    /// The index's own condition, to the letter.
    pub(crate) const fn condition(self) -> &'static str {
        match self {
            Self::Held => "status <> 'Published' AND last_error IS NOT NULL",
            Self::Leased => "status = 'Processing'",
            Self::Due => "status = 'Pending'",
            Self::Published => "status = 'Published'",
        }
    }

    pub(super) const fn letter(self) -> &'static str {
        match self {
            Self::Held => "h",
            Self::Leased => "l",
            Self::Due => "d",
            Self::Published => "p",
        }
    }

    pub(super) fn from_letter(letter: &str) -> Option<Self> {
        [Self::Held, Self::Leased, Self::Due, Self::Published].into_iter().find(|path| path.letter() == letter)
    }
}

/// One look at one index: at most `read` of its rows are read, and at most `rows` of those that fit are returned.
#[derive(Debug, Clone)]
pub struct Scan {
    pub(crate) path: Path,
    pub(crate) statuses: Vec<EventStatus>,
    pub(crate) types: Vec<String>,
    pub(crate) aggregate: Option<(String, String)>,
    pub(crate) error: Option<String>,
    /// From, and before: microseconds since 1970.
    pub(crate) enqueued: (Option<i64>, Option<i64>),
    pub(crate) published: (Option<i64>, Option<i64>),
    /// The key and the id of the last row that was seen.
    pub(crate) after: Option<(i64, String)>,
    pub(crate) newest_first: bool,
    pub(crate) rows: usize,
    pub(crate) read: usize,
}

impl Scan {
    /// The range of the key that the filter's times allow.
    pub(crate) fn key_range(&self) -> (Option<i64>, Option<i64>) {
        match self.path {
            Path::Held => self.enqueued,
            Path::Published => self.published,
            Path::Leased | Path::Due => (None, None),
        }
    }

    pub(super) fn goes_on_after(&mut self, cursor: &Cursor) {
        self.after = Some((cursor.key, cursor.event_id.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let epoch = SystemTime::UNIX_EPOCH;
        let far = epoch + Duration::from_secs(1 << 40);
        let wrong = Filter::new()
            .event_type("")
            .aggregate("a\0", "x".repeat(256))
            .error_contains("")
            .enqueued_from(epoch + Duration::from_secs(1))
            .enqueued_before(epoch)
            .published_from(far)
            .status(EventStatus::Published)
            .status(EventStatus::Failed);
        let problems = wrong.problems();
        assert_eq!(problems.len(), 8, "{problems:#?}");
        assert_eq!(Filter::new().problems(), []);
        assert_eq!(Filter::new().aggregate("", "").enqueued_from(epoch).problems(), []);
    }

    #[test]
    fn a_filter_reads_only_the_indexes_that_it_needs() {
        let paths = |filter: Filter| filter.scans(&EventStatus::ALL).iter().map(|scan| scan.path).collect::<Vec<_>>();
        assert_eq!(paths(Filter::new()), [Path::Held, Path::Leased, Path::Due, Path::Published]);
        assert_eq!(paths(Filter::new().status(EventStatus::Pending)), [Path::Due]);
        assert_eq!(paths(Filter::new().status(EventStatus::Pending).error_contains("x")), [Path::Held]);
        assert_eq!(paths(Filter::new().error_contains("x")), [Path::Held]);
        assert_eq!(paths(Filter::new().published_from(SystemTime::UNIX_EPOCH)), [Path::Published]);
        assert_eq!(Filter::new().scans(&[EventStatus::Failed]).len(), 1);
        assert!(Filter::new().status(EventStatus::Pending).scans(&[EventStatus::Failed]).is_empty());
    }
}
