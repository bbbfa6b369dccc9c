//! Acting on events: chunk after chunk, each in a transaction of its own that is on the disk before the next one begins.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::admin::list::go_on;
use crate::admin::selection::What;
use crate::admin::{
    Action, Admin, AdminError, Cursor, Filter, FilterProblem, Found, Path, Report, ReportRow, RowOutcome, STATEMENT,
    Selection,
};
use crate::backoff::jitter;
use crate::store::session::{Session, within};
use crate::store::{Condition, Store};

/// Rows of one transaction.
const CHUNK: usize = 500;
/// Rows of an index that one look reads.
const READ: usize = 10_000;
/// How often a chunk is tried that got into somebody's way.
const TRIES: u32 = 10;
/// The longest reason, in bytes: what a row keeps of an error.
const REASON_BYTES: usize = 900;

impl<DB: Store> Admin<DB> {
    /// Makes Failed and waiting events due now, with all their attempts before them. A Failed one becomes Pending. One that was skipped stays skipped: it
    /// is published out of its order. An ordered one that stands behind another goes on waiting for it.
    ///
    /// An event whose `max_age` has passed gets one attempt.
    ///
    /// # Errors
    /// [`AdminError::Invalid`]; [`AdminError::Tables`]; [`AdminError::Database`] if nothing was changed, else [`AdminError::Interrupted`].
    ///
    /// # Cancel safety
    /// Dropped half-way, the chunk under way is done or not, and those before it are done. Doing it again is safe.
    pub async fn retry_now(&self, selection: impl Into<Selection>) -> Result<Report, AdminError> {
        self.act(Action::RetryNow, selection.into(), Vec::new()).await
    }

    /// Makes waiting events Failed: they are not tried any more, and stay in the table. If such an event has `on_failed = "skip"`, later events of
    /// its key go on; else they wait, and [`skip`](Self::skip) or [`discard`](Self::discard) lets them go on.
    ///
    /// # Errors
    /// As [`retry_now`](Self::retry_now).
    ///
    /// # Cancel safety
    /// As [`retry_now`](Self::retry_now).
    pub async fn fail(&self, selection: impl Into<Selection>, reason: &str) -> Result<Report, AdminError> {
        let error = format!("failed by an operator: {reason}");
        self.act(Action::Fail { error }, selection.into(), reason_problem(reason)).await
    }

    /// Takes events that are not published out of the outbox for good: **their rows are deleted, and nobody will ever get them**. Later events of
    /// their keys go on.
    ///
    /// What is left is the report, and a line in the log for each of them with its id, its name, its key and the reason. If you may need the
    /// body later, take it first ([`show`](Self::show)), or use [`fail`](Self::fail) and [`skip`](Self::skip), which keep the row.
    ///
    /// # Errors
    /// As [`retry_now`](Self::retry_now).
    ///
    /// # Cancel safety
    /// As [`retry_now`](Self::retry_now); of the chunk under way there may be no line in the log.
    pub async fn discard(&self, selection: impl Into<Selection>, reason: &str) -> Result<Report, AdminError> {
        let acted = self.act(Action::Discard, selection.into(), reason_problem(reason)).await;
        let (report, unsure) = match &acted {
            Ok(report) => (Some(report), &[][..]),
            Err(AdminError::Interrupted { report, unsure, .. }) => (Some(&**report), &unsure[..]),
            Err(_) => (None, &[][..]),
        };
        for row in report.iter().flat_map(|report| &report.rows).filter(|row| row.outcome == RowOutcome::Done) {
            let (kind, key) = row.aggregate.as_ref().map_or(("", ""), |(kind, key)| (kind, key));
            tracing::warn!(event_id = %row.event_id, event = row.event_type, aggregate_type = kind, aggregate_id = key, reason, "an operator discarded an event: it is not published");
        }
        for event_id in unsure {
            tracing::warn!(%event_id, reason, "an operator discarded an event, or not: the database did not answer");
        }
        acted
    }

    /// Lets later events of the key go on without these ordered events. The events themselves stay what they are: one that waits is still tried, and may
    /// be published out of its order.
    ///
    /// # Errors
    /// As [`retry_now`](Self::retry_now).
    ///
    /// # Cancel safety
    /// As [`retry_now`](Self::retry_now).
    pub async fn skip(&self, selection: impl Into<Selection>) -> Result<Report, AdminError> {
        self.act(Action::Skip, selection.into(), Vec::new()).await
    }

    /// Publishes events again, under the same ids, oldest first; ordered ones in their order, and later events of their keys wait for them. A
    /// consumer that has handled an event acknowledges it unrun; one that has not, or that is new, handles it. Consumers park what is older than their dedup
    /// window.
    ///
    /// What is published while the call runs is not replayed by it, nor by those that go on from its cursor. Only what is still in the outbox can be
    /// replayed: see [`Retention`](crate::Retention).
    ///
    /// # Errors
    /// As [`retry_now`](Self::retry_now).
    ///
    /// # Cancel safety
    /// As [`retry_now`](Self::retry_now).
    pub async fn replay(&self, selection: impl Into<Selection>) -> Result<Report, AdminError> {
        self.act(Action::Replay, selection.into(), Vec::new()).await
    }

    async fn act(
        &self,
        action: Action,
        selection: Selection,
        mut problems: Vec<FilterProblem>,
    ) -> Result<Report, AdminError> {
        problems.extend(selection.problems(&action));
        if let (What::Filter(filter), Some(cursor)) = (&selection.what, &selection.after) {
            problems.extend(go_on(&mut filter.scans(action.statuses()), cursor).err());
        }
        AdminError::invalid(problems)?;
        let mut report = Report::default();
        let acted = match &selection.what {
            What::Ids(ids) => self.act_on_ids(&action, ids, &mut report).await,
            What::Filter(filter) => self.act_on_filter(&action, filter, &selection, &mut report).await,
        };
        let done = report.done();
        if done > 0 {
            tracing::info!(action = action.name(), events = done, "an operator acted on events of the outbox");
            // Those of other processes were told by the statement itself, where there can be any.
            crate::outbox::wake::ENQUEUED.signal();
        }
        match acted {
            Ok(()) => Ok(report),
            Err(Stopped { unsure, error }) => {
                let (AdminError::Tables(source) | AdminError::Database { source, .. }) = error else {
                    return Err(error);
                };
                if report.rows.is_empty() && unsure.is_empty() {
                    return Err(AdminError::database::<DB>("acting on events", source));
                }
                Err(AdminError::Interrupted { report: Box::new(report), unsure, source })
            }
        }
    }

    async fn act_on_ids(&self, action: &Action, ids: &[String], report: &mut Report) -> Result<(), Stopped> {
        for chunk in ids.chunks(CHUNK) {
            self.chunk(action, chunk, report).await?;
        }
        Ok(())
    }

    async fn act_on_filter(
        &self,
        action: &Action,
        filter: &Filter,
        selection: &Selection,
        report: &mut Report,
    ) -> Result<(), Stopped> {
        let mut scans = filter.scans(action.statuses());
        let until = match &selection.after {
            Some(cursor) => {
                // Its problems were told.
                let _ = go_on(&mut scans, cursor);
                cursor.until
            }
            None => self.read("asking for the time", async |connection| DB::admin_now(connection).await).await?,
        };
        // A row that comes by twice, since it was changed meanwhile, is taken once.
        let mut seen = HashSet::new();
        for mut scan in scans {
            if scan.path == Path::Published {
                scan.published.1 = Some(scan.published.1.map_or(until, |to| to.min(until)));
            }
            loop {
                let left = selection.limit - report.rows.len();
                if left == 0 {
                    let (key, event_id) = scan.after.unwrap_or((i64::MIN, String::new()));
                    report.next = Some(Cursor { path: scan.path, key, event_id, until });
                    return Ok(());
                }
                (scan.rows, scan.read) = (left.min(CHUNK), READ);
                let found = self.scan(&scan).await?;
                let mut ids: Vec<String> = found.events.into_iter().map(|(event, _)| event.event_id).collect();
                ids.retain(|id| seen.insert(id.clone()));
                ids.sort_unstable();
                if !ids.is_empty() {
                    self.chunk(action, &ids, report).await?;
                }
                scan.after = found.last.or(scan.after);
                if found.exhausted {
                    break;
                }
            }
        }
        Ok(())
    }

    /// One transaction. Nothing is done twice: what got in somebody's way was rolled back.
    async fn chunk(&self, action: &Action, ids: &[String], report: &mut Report) -> Result<(), Stopped> {
        let mut tries = 0;
        let found = loop {
            tries += 1;
            match self.chunk_once(action, ids).await {
                Ok(found) => break found,
                Err((error, Sent::No)) if tries < TRIES && DB::condition(&error) == Some(Condition::Conflict) => {
                    tokio::time::sleep(jitter(Duration::from_millis(100))).await;
                }
                Err((source, sent)) => {
                    let unsure = if sent == Sent::Commit { ids.to_vec() } else { Vec::new() };
                    return Err(Stopped { unsure, error: AdminError::Database { doing: "acting on events", source } });
                }
            }
        };
        let mut found: HashMap<String, Found> =
            found.into_iter().map(|found| (found.event_id.clone(), found)).collect();
        report.rows.extend(ids.iter().map(|id| match found.remove(id) {
            Some(found) => found.row(action),
            None => ReportRow {
                event_id: id.clone(),
                outcome: RowOutcome::NotFound,
                event_type: None,
                aggregate: None,
                was: None,
            },
        }));
        Ok(())
    }

    async fn chunk_once(&self, action: &Action, ids: &[String]) -> Result<Vec<Found>, (sqlx::Error, Sent)> {
        let not_sent = |error| (error, Sent::No);
        let mut session = Session::writer(&self.pool).await.map_err(not_sent)?;
        let connection = session.connection().map_err(not_sent)?;
        let flushing = within(STATEMENT, DB::flush_from_here(&mut *connection)).await.map_err(not_sent)?;
        let mut tx = within(STATEMENT, DB::begin(&mut *connection)).await.map_err(not_sent)?;
        let found = within(STATEMENT, DB::admin_act(&mut tx, action, ids)).await.map_err(not_sent)?;
        if action.lets_pass() {
            let mut keys: Vec<(String, String)> = found
                .iter()
                .filter(|found| found.done && found.ordered)
                .map(|found| (found.aggregate_type.clone(), found.aggregate_id.clone()))
                .collect();
            keys.sort_unstable();
            keys.dedup();
            if !keys.is_empty() {
                within(STATEMENT, DB::admin_pull(&mut tx, &keys)).await.map_err(not_sent)?;
            }
        }
        within(STATEMENT, tx.commit()).await.map_err(|error| (error, Sent::Commit))?;
        // It is durable: a connection that cannot be set back is closed, and that is all.
        if let Ok(()) = within(STATEMENT, DB::flush_as_before(connection, flushing)).await {
            session.release();
        }
        Ok(found)
    }
}

/// What the database was told before it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// No commit: whatever was done is rolled back.
    No,
    /// A commit: nobody knows.
    Commit,
}

/// Why an action ended before its end.
struct Stopped {
    unsure: Vec<String>,
    error: AdminError,
}

impl From<AdminError> for Stopped {
    fn from(error: AdminError) -> Self {
        Self { unsure: Vec::new(), error }
    }
}

fn reason_problem(reason: &str) -> Vec<FilterProblem> {
    if reason.trim().is_empty() || reason.len() > REASON_BYTES || reason.contains('\0') {
        let value = reason.chars().take(64).collect();
        return vec![FilterProblem::Text { what: "reason", value, limit: REASON_BYTES }];
    }
    Vec::new()
}
