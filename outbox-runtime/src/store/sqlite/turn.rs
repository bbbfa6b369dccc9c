//! The turn to write. SQLite has one writer, and whoever waits for it inside SQLite polls, so that under load somebody may wait until its
//! patience ends (`SQLITE_BUSY`). The writers of this process queue up here instead, in order.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use sqlx::SqlitePool;

use super::file::file;
use crate::store::Turn;

type Queue = tokio::sync::Mutex<()>;

/// By file: all runtimes and pools of this process that work with it.
static QUEUES: LazyLock<Mutex<HashMap<PathBuf, Weak<Queue>>>> = LazyLock::new(Mutex::default);

/// Waits for the turn; first come, first served.
pub(super) async fn turn(pool: &SqlitePool) -> Turn {
    Turn::only(queue(file(pool)).lock_owned().await)
}

fn queue(file: PathBuf) -> Arc<Queue> {
    let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(queue) = queues.get(&file).and_then(Weak::upgrade) {
        return queue;
    }
    // Files that nobody writes to any more are forgotten.
    queues.retain(|_, queue| queue.strong_count() > 0);
    let queue = Arc::new(Queue::default());
    queues.insert(file, Arc::downgrade(&queue));
    queue
}
