//! Who may work with a database that only one process may work with.

/// The right to work with a database that only one process may work with; shared by the runtimes of that process. Given up when dropped.
#[derive(Debug, Clone, Default)]
pub struct Ownership {
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "the other databases have any number of owners"))]
    lock: Option<std::sync::Arc<OwnedFile>>,
}

/// A lock on a file, which goes with the process.
#[derive(Debug)]
pub(crate) struct OwnedFile {
    /// Held, not read.
    _file: std::fs::File,
    /// Whether what an earlier process had claimed was put back.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "the other databases have leases"))]
    recovered: tokio::sync::Mutex<bool>,
}

#[cfg(feature = "sqlite")]
impl OwnedFile {
    pub(crate) fn new(file: std::fs::File) -> Self {
        Self { _file: file, recovered: tokio::sync::Mutex::new(false) }
    }
}

#[cfg(feature = "sqlite")]
impl Ownership {
    /// Of a database that only the holder of this lock may work with.
    pub(crate) const fn of(lock: std::sync::Arc<OwnedFile>) -> Self {
        Self { lock: Some(lock) }
    }

    /// Held while the first owner recovers: a second runtime of this process must not begin before. Whether it was done.
    pub(crate) async fn recovered(&self) -> Option<tokio::sync::MutexGuard<'_, bool>> {
        match &self.lock {
            Some(lock) => Some(lock.recovered.lock().await),
            None => None,
        }
    }
}

/// Why this process may not work with the database.
#[derive(Debug)]
pub enum NotOwned {
    /// Another process does; what is known of it.
    Taken(String),
    /// The lock file cannot be used.
    LockFile(std::io::Error),
}
