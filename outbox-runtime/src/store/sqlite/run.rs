//! The runs of handlers in this process: what their connections must not do, and what they did first (C1, C5).
//!
//! SQLite lets any statement end the transaction. While a run lasts, a hook on its connection turns every COMMIT into a ROLLBACK, the
//! implicit one of a statement outside of a transaction too: whatever a handler does, nothing of it becomes durable beside the dedup record.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use sqlx::SqliteConnection;

/// How often a statement of a run asks whether the run is still wanted, in instructions of SQLite's virtual machine.
const INTERRUPTIBLE: i32 = 10_000;

/// What ended a run's transaction, if something did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstEnd {
    /// Nothing.
    None,
    /// Somebody tried to commit it, which was refused.
    Commit,
    /// It was rolled back: by SQLite after an error, or by a statement.
    Rollback,
}

#[derive(Debug, Default)]
struct Run {
    first_end: AtomicU8,
    dropped: AtomicBool,
    /// The engine ends the transaction now. The hooks stay on its connection until the next run replaces them: taking them off would be one
    /// more way to the connection's thread and back, for each message.
    over: AtomicBool,
}

impl Run {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn note(&self, end: FirstEnd) {
        if self.is_over() {
            return;
        }
        // What follows the first end follows from it: only the first is kept.
        let _ = self.first_end.compare_exchange(0, end as u8, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Numbers of runs begin anywhere: a record that an earlier process left has another one, as good as surely.
static NEXT: LazyLock<AtomicI32> = LazyLock::new(|| AtomicI32::new(fastrand::i32(..)));

/// Runs by number. A run lives as long as the hooks on its connection.
static RUNS: Mutex<Vec<(i32, Weak<Run>)>> = Mutex::new(Vec::new());

fn runs() -> MutexGuard<'static, Vec<(i32, Weak<Run>)>> {
    RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find(number: i32) -> Option<Arc<Run>> {
    runs().iter().find(|(other, _)| *other == number).and_then(|(_, run)| run.upgrade())
}

/// A number for a run, to be written into its dedup record.
pub(crate) fn number() -> i32 {
    NEXT.fetch_add(1, Ordering::SeqCst)
}

/// From here on only the engine ends the transaction on this connection. The service's own hooks on it, if there are any, are replaced.
pub(crate) async fn watch(connection: &mut SqliteConnection, number: i32) -> Result<(), sqlx::Error> {
    let run = Arc::new(Run::default());
    {
        let mut runs = runs();
        runs.retain(|(_, run)| run.strong_count() > 0);
        runs.push((number, Arc::downgrade(&run)));
    }
    let mut handle = connection.lock_handle().await?;
    let (commits, rolls_back) = (Arc::clone(&run), Arc::clone(&run));
    handle.set_commit_hook(move || {
        commits.note(FirstEnd::Commit);
        commits.is_over()
    });
    handle.set_rollback_hook(move || rolls_back.note(FirstEnd::Rollback));
    handle.set_progress_handler(INTERRUPTIBLE, move || run.is_over() || !run.dropped.load(Ordering::SeqCst));
    Ok(())
}

/// The engine ends the transaction of this run now; what comes later on its connection is none of the run's business.
pub(super) fn over(number: i32) {
    if let Some(run) = find(number) {
        run.over.store(true, Ordering::SeqCst);
    }
}

/// The engine ends the transaction now, whatever run it is of.
pub(super) async fn unwatch(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let mut handle = connection.lock_handle().await?;
    handle.remove_commit_hook();
    handle.remove_rollback_hook();
    handle.remove_progress_handler();
    Ok(())
}

/// What happened first to a run that is still watched.
pub(super) fn first_end(number: i32) -> FirstEnd {
    match find(number).map(|run| run.first_end.load(Ordering::SeqCst)) {
        Some(end) if end == FirstEnd::Commit as u8 => FirstEnd::Commit,
        Some(end) if end == FirstEnd::Rollback as u8 => FirstEnd::Rollback,
        _ => FirstEnd::None,
    }
}

/// Stops the statement of a run that was dropped: its connection closes only when the statement ends, and has the lock until then.
pub(super) fn interrupt(number: i32) {
    if let Some(run) = find(number) {
        run.dropped.store(true, Ordering::SeqCst);
    }
}
