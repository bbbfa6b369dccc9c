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
    _lock: std::fs::File,
    /// The database and its lock, each with what told it from any other file when it was opened.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "the other databases are no files"))]
    files: Vec<(std::path::PathBuf, Option<(u64, u64)>)>,
    /// Whether what an earlier process had claimed was put back.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "the other databases have leases"))]
    recovered: tokio::sync::Mutex<bool>,
}

#[cfg(feature = "sqlite")]
impl OwnedFile {
    pub(crate) fn new(lock: std::fs::File, files: Vec<std::path::PathBuf>) -> Self {
        let files = files.into_iter().map(|path| (path.clone(), identity(&path))).collect();
        Self { _lock: lock, files, recovered: tokio::sync::Mutex::new(false) }
    }
}

/// Which file a path leads to; `None` if to none.
#[cfg(all(feature = "sqlite", unix))]
fn identity(path: &std::path::Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(all(feature = "sqlite", not(unix)))]
fn identity(path: &std::path::Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|_| (0, 0))
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

impl Ownership {
    /// Whether there is anything that somebody could take away.
    pub(crate) const fn is_of_files(&self) -> bool {
        self.lock.is_some()
    }

    /// Why it is worth nothing any more: a file was deleted or replaced, and what this process writes goes nowhere.
    pub(crate) fn lost(&self) -> Option<String> {
        #[cfg(feature = "sqlite")]
        if let Some(lock) = &self.lock {
            let gone = lock.files.iter().find(|(path, was)| identity(path) != *was);
            return gone.map(|(path, _)| {
                format!(
                    "the file {} was deleted or replaced under the running service; what it writes now goes nowhere",
                    path.display()
                )
            });
        }
        None
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
