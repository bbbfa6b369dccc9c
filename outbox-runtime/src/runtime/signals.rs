//! SIGTERM and SIGINT.

/// Waits for the first signal to stop.
pub(super) async fn stop() -> &'static str {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
            return tokio::select! {
                _ = term.recv() => "SIGTERM",
                _ = int.recv() => "SIGINT",
            };
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        // No signal can arrive: wait for `shutdown()`.
        std::future::pending::<()>().await;
    }
    "ctrl-c"
}
