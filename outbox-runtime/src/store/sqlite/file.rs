//! The one name of a database file, whatever path leads to it.

use std::path::{Path, PathBuf};

use sqlx::SqlitePool;

/// The file of a pool, without links and relative parts, so that two paths to one file are the same.
pub(super) fn file(pool: &SqlitePool) -> PathBuf {
    canonical(pool.connect_options().get_filename())
}

fn canonical(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    // It may not exist yet; its directory does.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (parent.canonicalize(), path.file_name()) {
        (Ok(parent), Some(name)) => parent.join(name),
        _ => path.to_path_buf(),
    }
}
