//! The loop that keeps the runtime listening (R5): whatever ends a listener, the next one begins, and everybody looks for what was missed.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::outbox::{Deaf, Ear, ListenFrom};
use crate::runtime::health::Board;
use crate::store::Store;
use crate::telemetry::Repeated;

/// The name in `health()`.
const PART: &str = "listener";

/// What it takes to listen.
pub(super) struct Listening<DB: Store> {
    pub(super) from: ListenFrom<DB>,
    pub(super) ear: Arc<Ear>,
    pub(super) board: Arc<Board>,
    /// The pause between two looks of somebody whom nobody tells.
    pub(super) poll: Duration,
    pub(super) stop: CancellationToken,
}

pub(super) async fn run<DB: Store>(listening: Arc<Listening<DB>>) {
    let Listening { from, ear, board, poll, stop } = &*listening;
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));
    let (mut trouble, mut unheard) = (Repeated::new(), false);
    let mut opened = ear.listening();
    loop {
        let listen = DB::listen(from, ear);
        tokio::pin!(listen);
        let deaf = loop {
            tokio::select! {
                deaf = &mut listen => break deaf,
                _ = opened.changed() => if *opened.borrow_and_update() {
                    board.hint_up(PART);
                    unheard = false;
                    if let Some(failures) = trouble.clear() {
                        tracing::info!(failures, "listening for events of other processes again");
                    }
                },
                () = stop.cancelled() => {
                    ear.closed();
                    return;
                }
            }
        };
        if ear.closed() {
            backoff.reset();
        }
        board.hint_down(PART, deaf.to_string());
        match &deaf {
            Deaf::Unheard if !unheard => {
                unheard = true;
                tracing::warn!(
                    problem = %deaf,
                    cure = "set OUTBOX_LISTEN_URL=postgres://user:password@host:5432/database (or call `.listen_url(..)`) to a URL that leads to the server itself",
                    "the relay is not told of events and looks for them every {poll:?}"
                );
            }
            Deaf::Unheard | Deaf::Never => {}
            Deaf::Lost(_) | Deaf::Silent => {
                if let Some(failures) = trouble.note(&deaf.to_string()) {
                    tracing::warn!(problem = %deaf, failures, "not listening for events of other processes; they are found every {poll:?} meanwhile");
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next().max(deaf.pause())) => {}
            () = stop.cancelled() => return,
        }
    }
}
