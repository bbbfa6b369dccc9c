//! From where an alert is raised to the callback: a bounded queue and one worker on the service's own runtime. Whoever raises one never waits.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::alert::{Alert, AlertHook};
use crate::telemetry::{Repeated, RepeatedBy, names};

/// Alerts that wait for the callback.
const WAITING: usize = 1_000;
/// How long one call may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long what still waits may take after everything else has ended.
const LAST: Duration = Duration::from_millis(2_500);

/// Where alerts are raised; without a callback nothing happens.
#[derive(Debug, Clone, Default)]
pub(crate) struct Alerts(Option<Arc<Raised>>);

#[derive(Debug)]
struct Raised {
    waiting: mpsc::Sender<Alert>,
    dropped: Mutex<Repeated>,
}

impl Alerts {
    /// Hands the alert over, or drops it if too many wait.
    pub(crate) fn raise(&self, alert: impl FnOnce() -> Alert) {
        let Some(raised) = &self.0 else { return };
        if let Err(mpsc::error::TrySendError::Full(alert)) = raised.waiting.try_send(alert()) {
            metrics::counter!(names::ALERTS_DROPPED, "alert" => alert.kind()).increment(1);
            let noted = raised.dropped.lock().unwrap_or_else(PoisonError::into_inner).note("full");
            if let Some(dropped) = noted {
                tracing::warn!(
                    dropped,
                    "the alert callback does not keep up; alerts are dropped (the metrics and the tables are the truth)"
                );
            }
        }
    }
}

/// The receiving end: what the worker needs.
#[derive(Debug)]
pub(crate) struct Worker {
    hook: AlertHook,
    waiting: tokio::sync::Mutex<mpsc::Receiver<Alert>>,
    failed: RepeatedBy,
    deadline: Duration,
}

/// A queue for this callback.
pub(crate) fn queue(hook: AlertHook) -> (Alerts, Arc<Worker>) {
    queue_of(hook, WAITING, DEADLINE)
}

fn queue_of(hook: AlertHook, waiting: usize, deadline: Duration) -> (Alerts, Arc<Worker>) {
    let (sender, receiver) = mpsc::channel(waiting);
    let worker = Worker { hook, waiting: tokio::sync::Mutex::new(receiver), failed: RepeatedBy::default(), deadline };
    (Alerts(Some(Arc::new(Raised { waiting: sender, dropped: Mutex::default() }))), Arc::new(worker))
}

impl Worker {
    /// Calls, one alert after the other, until `ending`, and then for a moment what still waits.
    pub(crate) async fn run(self: Arc<Self>, ending: CancellationToken) {
        let mut waiting = self.waiting.lock().await;
        loop {
            let alert = tokio::select! {
                biased;
                () = ending.cancelled() => break,
                alert = waiting.recv() => alert,
            };
            let Some(alert) = alert else { return };
            tokio::select! {
                () = self.tell(alert) => {}
                // A call that is under way when everything ends has as long as those that wait.
                () = async { ending.cancelled().await; tokio::time::sleep(LAST).await } => return,
            }
        }
        let end = Instant::now() + LAST;
        while let Ok(alert) = waiting.try_recv() {
            if timeout_at(end, self.tell(alert)).await.is_err() {
                tracing::warn!(
                    waiting = waiting.len(),
                    "the runtime ended before the alert callback had taken all alerts"
                );
                return;
            }
        }
    }

    /// A panic, an error or a slow callback is counted and logged, and that is all.
    async fn tell(&self, alert: Alert) {
        let kind = alert.kind();
        let called = AssertUnwindSafe(self.hook.call(alert)).catch_unwind();
        let why = match timeout(self.deadline, called).await {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(error))) => format!("it returned an error: {error}"),
            Ok(Err(panic)) => format!("it panicked: {}", crate::runtime::supervise::panic_text(&*panic)),
            Err(_) => format!("it did not return within {} s", self.deadline.as_secs_f32()),
        };
        metrics::counter!(names::ALERTS_FAILED, "alert" => kind).increment(1);
        if let Some(failures) = self.failed.note(kind, &why) {
            tracing::warn!(alert = kind, %why, failures, "the alert callback failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(n: u32) -> Alert {
        Alert::LoopRestarted { name: n.to_string(), why: String::new() }
    }

    /// Runs the worker over the alerts, and returns those that the callback finished.
    async fn told(count: u32, hook: fn(u32) -> BoxedAnswer, waiting: usize) -> Vec<u32> {
        let done = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&done);
        let hook = AlertHook::new(move |alert| {
            let Alert::LoopRestarted { name, .. } = alert else { unreachable!("only loops") };
            let n: u32 = name.parse().unwrap();
            // Outside of the future: a callback may panic before its first await.
            let answer = hook(n);
            let noted = Arc::clone(&noted);
            async move {
                answer.await?;
                noted.lock().unwrap().push(n);
                Ok::<(), String>(())
            }
        });
        let (alerts, worker) = queue_of(hook, waiting, Duration::from_secs(10));
        for n in 0..count {
            alerts.raise(|| alert(n));
        }
        let ending = CancellationToken::new();
        let running = tokio::spawn(worker.run(ending.clone()));
        tokio::time::sleep(Duration::from_secs(60)).await;
        ending.cancel();
        assert!(running.await.is_ok(), "the worker outlives its callback's faults");
        let done = done.lock().unwrap();
        done.clone()
    }

    type BoxedAnswer = crate::handler::BoxFuture<'static, Result<(), String>>;

    #[tokio::test(start_paused = true)]
    async fn a_callback_that_fails_in_any_way_is_called_for_the_next_alert() {
        let done = told(
            5,
            |n| match n {
                0 => panic!("at once"),
                1 => Box::pin(async { panic!("later") }),
                2 => Box::pin(async { Err("no".to_owned()) }),
                3 => Box::pin(std::future::pending()),
                _ => Box::pin(async { Ok(()) }),
            },
            10,
        )
        .await;
        assert_eq!(done, [4]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_fit_is_dropped_and_nobody_waits() {
        assert_eq!(told(10, |_| Box::pin(async { Ok(()) }), 3).await, [0, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_at_the_end_is_told_for_a_moment_and_no_longer() {
        let (seen, count) = (Arc::new(Mutex::new(0_u32)), Arc::new(Mutex::new(0_u32)));
        let (begun, ended) = (Arc::clone(&seen), Arc::clone(&count));
        let hook = AlertHook::new(move |_| {
            *begun.lock().unwrap() += 1;
            let ended = Arc::clone(&ended);
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                *ended.lock().unwrap() += 1;
            }
        });
        let (alerts, worker) = queue(hook);
        for n in 0..10 {
            alerts.raise(|| alert(n));
        }
        let ending = CancellationToken::new();
        ending.cancel();
        let begun = Instant::now();
        worker.run(ending).await;
        assert!(begun.elapsed() <= LAST + Duration::from_millis(10), "{:?}", begun.elapsed());
        assert_eq!((*seen.lock().unwrap(), *count.lock().unwrap()), (3, 2));
    }

    #[test]
    fn without_a_callback_no_alert_is_even_made() {
        Alerts::default().raise(|| unreachable!("nobody listens"));
    }
}
