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

/// Whether a name was made by [`unique`] long enough ago to be a leftover.
pub fn is_stale(name: &str) -> bool {
    let created = name.strip_prefix(PREFIX).and_then(|rest| rest.split('_').next()).and_then(|secs| secs.parse().ok());
    created.is_some_and(|created: u64| created + STALE_AFTER.as_secs() < now())
}
