//! Announces that the relay sleeps, so that whoever enqueues says so, and withdraws it as soon as anybody did (R5, decision 0009).
//!
//! In a loop of its own: the scans wait neither for these statements nor for what may hold them up.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::backoff::Backoff;
use crate::relay::Relay;
use crate::store::Store;
use crate::store::session::{Session, within};
use crate::telemetry::Repeated;

/// How long an announcement lasts. It is renewed three times in that time, and expires if nobody does.
const LASTS: Duration = Duration::from_secs(30);
/// How long one statement may take: it waits for no row.
const STATEMENT: Duration = Duration::from_secs(2);
/// Notifications that come as a crowd are answered once.
const CROWD: Duration = Duration::from_millis(20);

/// What the scanning loop wants to be told, and when it was.
#[derive(Debug)]
pub(crate) struct Announcer {
    asleep: watch::Sender<bool>,
    announced: watch::Sender<u64>,
}

impl Default for Announcer {
    fn default() -> Self {
        Self { asleep: watch::Sender::new(false), announced: watch::Sender::new(0) }
    }
}

impl Announcer {
    /// The scanning loop found nothing for a while.
    pub(super) fn asleep(&self) {
        self.asleep.send_replace(true);
    }

    /// The scanning loop looks often again.
    pub(super) fn awake(&self) {
        self.asleep.send_replace(false);
    }

    /// Hints that an announcement was committed: what was enqueued before it did not notify, and must be looked for.
    pub(super) fn announced(&self) -> watch::Receiver<u64> {
        self.announced.subscribe()
    }
}

pub(super) async fn run<DB: Store>(relay: Arc<Relay<DB>>) {
    let mut wanted = relay.announcer.asleep.subscribe();
    let (mut heard, mut listening) = (relay.ear.enqueued(), relay.ear.listening());
    let (mut backoff, mut trouble) =
        (Backoff::new(Duration::from_millis(200), Duration::from_secs(30)), Repeated::new());
    let mut asleep = *wanted.borrow_and_update();
    // What this relay told last. At first nothing: an earlier one may have left its announcement behind.
    let mut told = None;
    loop {
        let hears = *listening.borrow_and_update();
        let next = match tell(&relay, asleep, hears, told).await {
            Ok(()) => {
                let _ = trouble.clear();
                backoff.reset();
                if asleep && hears && told != Some(true) {
                    relay.announcer.announced.send_modify(|count| *count = count.wrapping_add(1));
                }
                told = if asleep && !hears { None } else { Some(asleep) };
                if !asleep {
                    tokio::time::sleep(CROWD).await;
                }
                (asleep && hears).then_some(LASTS / 3)
            }
            Err(error) => {
                if let Some(count) = trouble.note(&error.to_string()) {
                    tracing::debug!(%error, failures = count, "whether the relay sleeps could not be told; it is found by polling");
                }
                told = None;
                Some(backoff.next())
            }
        };
        tokio::select! {
            () = relay.stop.cancelled() => return,
            // Even if the scanning loop waits for its broker meanwhile: one notification is enough.
            _ = heard.changed() => (asleep, told) = (false, None),
            _ = wanted.changed() => asleep = *wanted.borrow_and_update(),
            _ = listening.changed() => {}
            () = pause(next) => {}
        }
    }
}

async fn pause(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

async fn tell<DB: Store>(relay: &Relay<DB>, asleep: bool, hears: bool, told: Option<bool>) -> Result<(), sqlx::Error> {
    // Who would not hear does not ask to be told; and awake is told once.
    if asleep && !hears || told == Some(false) && !asleep {
        return Ok(());
    }
    let mut session = Session::writer(&relay.pool).await?;
    let connection = session.connection()?;
    let result = if asleep {
        within(STATEMENT, DB::announce_sleep(connection, LASTS)).await
    } else {
        within(STATEMENT, DB::withdraw_sleep(connection)).await
    };
    session.finish(result)
}
