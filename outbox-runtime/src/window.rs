//! The bound on what lies between a claim and its end, in rows and bytes, and the claims that must be renewed meanwhile: the relay's rows
//! between claim and settle, a consumer's messages between claim and ack.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// What is in flight.
#[derive(Debug)]
pub(crate) struct Window {
    rows: usize,
    bytes: usize,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    rows: usize,
    bytes: usize,
    /// Batches of each claim that are not settled yet.
    claims: HashMap<Arc<str>, usize>,
}

/// A batch's share of the window; given back when dropped, whatever happened to the batch.
#[derive(Debug)]
pub(crate) struct Permit {
    window: Arc<Window>,
    claim: Arc<str>,
    rows: usize,
    bytes: usize,
}

impl Window {
    pub(crate) fn new(rows: usize, bytes: usize) -> Arc<Self> {
        Arc::new(Self { rows, bytes, state: Mutex::default(), freed: Notify::new() })
    }

    /// Waits until at least `least` rows fit, and returns the room in rows, at most `most`, and in bytes. Only one task waits.
    pub(crate) async fn room(&self, least: usize, most: usize) -> (usize, usize) {
        loop {
            let freed = self.freed.notified();
            {
                let state = self.lock();
                let (free_rows, free_bytes) =
                    (self.rows.saturating_sub(state.rows), self.bytes.saturating_sub(state.bytes));
                // A quarter of the bytes, or an empty window: one large body must not wait for ever.
                if free_rows >= least.min(self.rows) && (free_bytes >= self.bytes / 4 || state.rows == 0) {
                    return (free_rows.min(most), free_bytes);
                }
            }
            freed.await;
        }
    }

    /// Takes a share for a batch of `claim`.
    pub(crate) fn take(self: &Arc<Self>, claim: &Arc<str>, rows: usize, bytes: usize) -> Permit {
        let mut state = self.lock();
        state.rows += rows;
        state.bytes += bytes;
        *state.claims.entry(Arc::clone(claim)).or_default() += 1;
        Permit { window: Arc::clone(self), claim: Arc::clone(claim), rows, bytes }
    }

    /// Claims with unsettled batches.
    pub(crate) fn claims(&self) -> Vec<String> {
        self.lock().claims.keys().map(|claim| claim.as_ref().to_owned()).collect()
    }

    /// Rows between claim and settle.
    pub(crate) fn in_flight(&self) -> usize {
        self.lock().rows
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.window.lock();
        state.rows = state.rows.saturating_sub(self.rows);
        state.bytes = state.bytes.saturating_sub(self.bytes);
        if let Some(batches) = state.claims.get_mut(&self.claim) {
            *batches -= 1;
            if *batches == 0 {
                state.claims.remove(&self.claim);
            }
        }
        drop(state);
        self.window.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_share_comes_back_whatever_happens_to_its_batch() {
        let window = Window::new(10, 100);
        let claim: Arc<str> = Arc::from("a");
        assert_eq!(window.room(5, 5).await, (5, 100));
        let permit = window.take(&claim, 8, 50);
        assert_eq!(window.claims(), ["a"]);
        let waiting = tokio::time::timeout(std::time::Duration::from_millis(20), window.room(5, 5)).await;
        assert!(waiting.is_err(), "2 of 10 rows are free");
        drop(permit);
        assert_eq!(window.room(5, 5).await, (5, 100));
        assert!(window.claims().is_empty());
    }

    #[tokio::test]
    async fn one_body_larger_than_the_window_still_passes() {
        let window = Window::new(10, 100);
        let claim: Arc<str> = Arc::from("a");
        let permit = window.take(&claim, 1, 1000);
        assert!(tokio::time::timeout(std::time::Duration::from_millis(20), window.room(1, 1)).await.is_err());
        drop(permit);
        assert_eq!(window.room(1, 1).await, (1, 100));
    }
}
