//! Waiting for a state without guessing how long it takes.

use std::fmt::Debug;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(25);

/// Polls until `check` is true; panics with `what` and the time spent when it never is.
pub async fn eventually(timeout: Duration, what: &str, mut check: impl AsyncFnMut() -> bool) {
    eventually_value(timeout, what, async || check().await, |ok| *ok).await;
}

/// Polls until `accept` likes what `observe` returns, and returns that value; panics with the last one when it never does.
pub async fn eventually_value<T: Debug>(
    timeout: Duration,
    what: &str,
    mut observe: impl AsyncFnMut() -> T,
    accept: impl Fn(&T) -> bool,
) -> T {
    let start = Instant::now();
    loop {
        let last = tokio::time::timeout(timeout, observe()).await;
        match last {
            Ok(value) if accept(&value) => return value,
            Ok(value) if start.elapsed() >= timeout => {
                panic!("not within {timeout:?}: {what}; last seen: {value:?}")
            }
            Ok(_) => tokio::time::sleep(EVERY).await,
            Err(_) => panic!("not within {timeout:?}: {what}; the observation itself did not return"),
        }
    }
}
