//! Names of what a test creates on a shared server: recognisable, unique, and dated, so that a later run
//! can sweep away what a killed run left behind without touching a run that is still going.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What every name begins with.
pub const PREFIX: &str = "outbox_it_";

/// Leftovers older than this are nobody's.
pub const STALE_AFTER: Duration = Duration::from_secs(3600);

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Seconds since the epoch.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A name nobody else has: prefix, second, process, counter; legal as database, vhost, user and node name.
pub fn unique() -> String {
    format!("{PREFIX}{}_{}_{}", now(), std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A directory for a server of the test's own. Removes those that killed runs left behind.
pub fn server_dir(kind: &str) -> tempfile::TempDir {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_stale) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    tempfile::Builder::new().prefix(&format!("{PREFIX}{}_{kind}_", now())).tempdir().expect("a temporary directory")
}

/// Whether a name was made by [`unique`] or [`server_dir`] long enough ago to be a leftover.
pub fn is_stale(name: &str) -> bool {
    let created = name.strip_prefix(PREFIX).and_then(|rest| rest.split('_').next()).and_then(|secs| secs.parse().ok());
    created.is_some_and(|created: u64| created + STALE_AFTER.as_secs() < now())
}
