//! Events in pages.

use crate::admin::{Admin, AdminError, Cursor, Event, EventStatus, Filter, FilterProblem, Scan};
use crate::store::Store;

/// Events of one page.
const MOST: usize = 1_000;
/// Rows of an index that one statement reads, and statements of one call: what a filter does not let through is read too.
const READ: usize = 10_000;
const STATEMENTS: usize = 10;

/// Which part of a list.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a page does nothing until it is given to `Admin::list`"]
pub struct Page {
    rows: usize,
    after: Option<Cursor>,
    newest_first: bool,
}

impl Page {
    /// The first events, at most so many (1 to 1,000).
    pub fn of(rows: usize) -> Self {
        Self { rows, after: None, newest_first: false }
    }

    /// Goes on after what was listed before, with the same filter.
    pub fn after(mut self, cursor: Cursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// Within a status the newest first.
    pub fn newest_first(mut self) -> Self {
        self.newest_first = true;
        self
    }
}

/// A page of events.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Listed {
    /// The events. Fewer than asked for, even none, does not mean that there are no more: see `next`.
    pub events: Vec<Event>,
    /// Where to go on; `None` at the end.
    pub next: Option<Cursor>,
}

/// What one look at an index found.
#[derive(Debug, Clone)]
pub struct Scanned {
    /// Events that fit, and their keys.
    pub(crate) events: Vec<(Event, i64)>,
    /// The key and the id of the last row that was looked at.
    pub(crate) last: Option<(i64, String)>,
    /// Whether there was nothing behind it.
    pub(crate) exhausted: bool,
}

/// A row of the answer, decoded.
pub(crate) struct Placed {
    pub(crate) event: Event,
    pub(crate) key: i64,
    pub(crate) fits: bool,
    /// How many rows were read.
    pub(crate) read: i64,
}

impl Scanned {
    /// From the rows that fit and the last one that was read, in their order: at most one more than was asked for.
    pub(crate) fn of(placed: Vec<Placed>, scan: &Scan) -> Self {
        let (mut events, mut last, mut exhausted) = (Vec::new(), None, true);
        for row in placed {
            if events.len() == scan.rows {
                exhausted = false;
                break;
            }
            exhausted = usize::try_from(row.read).is_ok_and(|read| read < scan.read);
            last = Some((row.key, row.event.event_id.clone()));
            if row.fits {
                events.push((row.event, row.key));
            }
        }
        Self { events, last, exhausted }
    }
}

impl<DB: Store> Admin<DB> {
    /// Lists events, by status: Failed, Processing, Pending, Published. Within a status they go by the time that matters for it: when they were written,
    /// when the lease ends, when they are due, when they were published.
    ///
    /// It pages by keys, never by counting, and reads only through indexes. A filter on what has no index (names, keys, error texts) reads at most
    /// 100,000 rows in one call and then says where to go on.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] with all that is wrong with filter and page; [`AdminError::Tables`], [`AdminError::Database`].
    ///
    /// # Cancel safety
    /// It can be dropped at any time.
    pub async fn list(&self, filter: &Filter, page: Page) -> Result<Listed, AdminError> {
        let mut scans = filter.scans(&EventStatus::ALL);
        let mut problems = filter.problems();
        if page.rows == 0 || page.rows > MOST {
            problems.push(FilterProblem::Size { what: "events of a page", asked: page.rows, limit: MOST });
        }
        if let Some(cursor) = &page.after {
            problems.extend(go_on(&mut scans, cursor).err());
        }
        AdminError::invalid(problems)?;
        let mut listed = Listed { events: Vec::new(), next: None };
        let mut statements = 0;
        let mut scans = scans.into_iter().peekable();
        while let Some(mut scan) = scans.next() {
            scan.newest_first = page.newest_first;
            loop {
                (scan.rows, scan.read) = (page.rows - listed.events.len(), READ);
                let found = self.scan(&scan).await?;
                statements += 1;
                listed.events.extend(found.events.into_iter().map(|(event, _)| event));
                let Some(last) = found.last else { break };
                let full = listed.events.len() == page.rows;
                let more = !found.exhausted || scans.peek().is_some();
                if (full || statements >= STATEMENTS) && more {
                    listed.next =
                        Some(Cursor { path: scan.path, key: last.0, event_id: last.1.clone(), until: i64::MAX });
                }
                if full || listed.next.is_some() {
                    return Ok(listed);
                }
                if found.exhausted {
                    break;
                }
                scan.after = Some(last);
            }
        }
        Ok(listed)
    }

    pub(super) async fn scan(&self, scan: &Scan) -> Result<Scanned, AdminError> {
        self.read("listing events", async |connection| DB::admin_scan(connection, scan).await).await
    }
}

/// Leaves off what the cursor has passed.
pub(super) fn go_on(scans: &mut Vec<Scan>, cursor: &Cursor) -> Result<(), FilterProblem> {
    let at = scans.iter().position(|scan| scan.path == cursor.path).ok_or(FilterProblem::Cursor)?;
    scans.drain(..at);
    if let Some(scan) = scans.first_mut() {
        scan.goes_on_after(cursor);
    }
    Ok(())
}
