//! How the service ends: no new requests, the running ones finish, and whoever does not hear is cut off.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use outbox::Runtime;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal as listen};
use tokio::sync::oneshot;

/// How long running requests may go on after the signal to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// Serves until a signal arrives or the runtime stops, and then until the running requests are answered.
pub(crate) async fn serve(listener: TcpListener, app: Router, runtime: Arc<Runtime>) -> anyhow::Result<()> {
    let (stopping, stopped) = oneshot::channel();
    let stop = async move {
        tokio::select! {
            signal = signal() => tracing::info!(signal, "stopping: no new requests"),
            () = runtime.stopping() => tracing::info!("the runtime stops, and the service with it"),
        }
        let _ = stopping.send(());
    };
    let overdue = async {
        // An error means that `stop` was dropped: then the server has ended, and this never decides.
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        served = axum::serve(listener, app).with_graceful_shutdown(stop).into_future() => served.context("serving"),
        () = overdue => {
            tracing::warn!(after = ?DRAIN, "requests are still running and are cut off");
            Ok(())
        }
    }
}

/// Waits for the next SIGTERM or SIGINT.
pub(crate) async fn signal() -> &'static str {
    let (Ok(mut term), Ok(mut int)) = (listen(SignalKind::terminate()), listen(SignalKind::interrupt())) else {
        // Without handlers the system's defaults apply: a signal ends the process.
        tracing::error!("no signal handlers: the service will not drain when it is stopped");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => "SIGTERM",
        _ = int.recv() => "SIGINT",
    }
}
