//! One process works with a file: a lock beside it says which one. The lock goes with the process, however it ends, so that the next one may put
//! back at once what it left claimed: no lease has to run out.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use sqlx::{SqliteConnection, SqlitePool};
use tokio::time::Instant;

use super::file::file;
use super::recover::recover;
use crate::store::{NotOwned, OwnedFile, Ownership};

/// The locks that runtimes of this process share, by file.
static OWNED: LazyLock<tokio::sync::Mutex<HashMap<PathBuf, Weak<OwnedFile>>>> = LazyLock::new(Default::default);
/// How long a process that is just ending is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) async fn own(pool: &SqlitePool) -> Result<Ownership, NotOwned> {
    let database = file(pool);
    let path = lock_path(&database);
    let mut owned = OWNED.lock().await;
    if let Some(lock) = owned.get(&path).and_then(Weak::upgrade) {
        return Ok(Ownership::of(lock));
    }
    let lock = Arc::new(OwnedFile::new(locked(&path).await?, vec![database, path.clone()]));
    owned.retain(|_, lock| lock.strong_count() > 0);
    owned.insert(path, Arc::downgrade(&lock));
    Ok(Ownership::of(lock))
}

pub(super) async fn recover_once(connection: &mut SqliteConnection, ownership: &Ownership) -> Result<(), sqlx::Error> {
    let Some(mut recovered) = ownership.recovered().await else { return Ok(()) };
    if !*recovered {
        let rows = recover(connection).await?;
        if rows > 0 {
            tracing::info!(rows, "put back what an earlier process had claimed");
        }
        *recovered = true;
    }
    Ok(())
}

/// `shop.db` -> `shop.db-outbox-lock`, beside SQLite's own `shop.db-wal` and `shop.db-shm`.
fn lock_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-outbox-lock");
    PathBuf::from(path)
}

async fn locked(path: &Path) -> Result<File, NotOwned> {
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(NotOwned::LockFile)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(TryLockError::WouldBlock) => return Err(NotOwned::Taken(owner(&mut lock))),
            Err(TryLockError::Error(error)) => return Err(NotOwned::LockFile(error)),
        }
    }
    // For whoever meets the lock; without it the message is shorter.
    let _ = lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| write!(lock, "{}", std::process::id()));
    Ok(lock)
}

fn owner(lock: &mut File) -> String {
    let mut text = String::new();
    let read = lock.take(20).read_to_string(&mut text);
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(pid)) => format!("process {pid} works with this file"),
        _ => "another process works with this file".to_owned(),
    }
}
