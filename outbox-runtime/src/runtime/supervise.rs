//! Background loops never end by themselves: one that panics or returns is started again, with backoff, and shows in `health()`.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::alert::Alert;
use crate::backoff::Backoff;
use crate::runtime::health::Board;
use crate::telemetry::names;

/// Runs `make()` again and again until `stop`.
pub(crate) async fn supervise<F, Fut>(name: String, board: Arc<Board>, stop: CancellationToken, mut make: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = ()>,
{
    let part = format!("loop {name}");
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
    loop {
        board.up(&part);
        let started = tokio::time::Instant::now();
        let ended = AssertUnwindSafe(make()).catch_unwind().await;
        if stop.is_cancelled() {
            return;
        }
        let why =
            ended.err().map_or_else(|| "it ended".to_owned(), |panic| format!("it panicked: {}", panic_text(&*panic)));
        board.down(&part, why.clone());
        metrics::counter!(names::LOOP_RESTARTS, "loop" => name.clone()).increment(1);
        board.alerts().raise(|| Alert::LoopRestarted { name: name.clone(), why: why.clone() });
        tracing::error!(name = %name, %why, "a background loop ended; starting it again");
        if started.elapsed() > Duration::from_secs(60) {
            backoff.reset();
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next()) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&'static str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_or_ends_is_started_again_and_shows() {
        let (board, stop, runs) = (Arc::new(Board::default()), CancellationToken::new(), Arc::new(AtomicU32::new(0)));
        let (count, ending) = (Arc::clone(&runs), stop.clone());
        let make = move || {
            let (run, ending) = (count.fetch_add(1, Ordering::SeqCst), ending.clone());
            async move {
                match run {
                    0 => panic!("the first run"),
                    1 => {}
                    _ => ending.cancelled().await,
                }
            }
        };
        let supervised = tokio::spawn(supervise("test".to_owned(), Arc::clone(&board), stop.clone(), make));
        while runs.load(Ordering::SeqCst) < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let health = board.health();
        let part = health.component("loop test").cloned();
        assert!(part.as_ref().is_some_and(|part| part.up && part.failures == 2), "{part:?}");
        assert_eq!(part.and_then(|part| part.error).as_deref(), Some("it ended"), "the last reason stays visible");
        stop.cancel();
        assert!(supervised.await.is_ok());
        assert_eq!(runs.load(Ordering::SeqCst), 3, "after the stop it is not started again");
    }
}
