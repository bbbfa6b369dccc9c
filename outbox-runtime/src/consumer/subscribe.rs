//! The subscription of one consumer: receives, dispatches each delivery to its own task, and is made anew after any loss.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::broker::rabbitmq::connection::Link;
use crate::broker::rabbitmq::consume::{Subscription, subscribe, take};
use crate::consumer::Consumer;
use crate::consumer::deliver::{Delivered, deliver};
use crate::store::Store;
use crate::telemetry::{Repeated, names};

/// How long deliveries are held while the database is out of reach; then they go back to the broker, once, until it returns.
const HOLD: Duration = Duration::from_secs(30);

/// Why a subscription ended.
enum Ended {
    Stopping,
    DatabaseLost,
    Broken(String),
}

/// Keeps one consumer subscribed. Runs on the engine's thread.
pub(super) async fn run<DB: Store>(consumer: Arc<Consumer<DB>>, link: Arc<Link>) {
    let part = format!("consumer {}", consumer.plan.name);
    let mut state = link.state();
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
    let mut trouble = Repeated::new();
    consumer.board.down(&part, "not subscribed yet");
    loop {
        let ready = async {
            let _ = state.wait_for(|state| state.generation().is_some()).await;
            consumer.gate.open().await;
        };
        tokio::select! {
            () = ready => {}
            () = consumer.stopping.cancelled() => return,
        }
        let reason = match subscribe(&link, &consumer.queue, &consumer.tag(), consumer.plan.prefetch).await {
            Ok(mut subscription) => {
                consumer.board.up(&part);
                metrics::gauge!(names::SUBSCRIBED, "consumer" => consumer.plan.name.clone()).set(1.0);
                tracing::info!(consumer = %consumer.plan.name, queue = %consumer.queue, "subscribed");
                trouble.clear();
                backoff.reset();
                let given_up = CancellationToken::new();
                let ended = receive(&consumer, &mut subscription, &given_up).await;
                metrics::gauge!(names::SUBSCRIBED, "consumer" => consumer.plan.name.clone()).set(0.0);
                match ended {
                    Ended::Stopping => {
                        subscription.cancel().await;
                        consumer.drained().await;
                        subscription.close().await;
                        return;
                    }
                    Ended::DatabaseLost => {
                        given_up.cancel();
                        subscription.close().await;
                        "the database is out of reach; deliveries went back to the broker".to_owned()
                    }
                    Ended::Broken(reason) => {
                        // Whoever waits for the database waits for nothing: the broker delivers again.
                        given_up.cancel();
                        reason
                    }
                }
            }
            Err(error) => {
                // Deleted since the connection was made: it is declared then, and not before the next loss.
                if error.reply().is_some_and(|(code, _)| code == 404)
                    && let Err(error) = link.declare_again().await
                {
                    tracing::debug!(consumer = %consumer.plan.name, %error, "the topology could not be declared again");
                }
                error.to_string()
            }
        };
        metrics::counter!(names::RESUBSCRIBED, "consumer" => consumer.plan.name.clone()).increment(1);
        consumer.board.down(&part, reason.clone());
        if let Some(count) = trouble.note(&reason) {
            tracing::warn!(consumer = %consumer.plan.name, %reason, failures = count, "not subscribed; trying again for ever");
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next()) => {}
            () = consumer.stopping.cancelled() => return,
        }
    }
}

async fn receive<DB: Store>(
    consumer: &Arc<Consumer<DB>>,
    subscription: &mut Subscription,
    given_up: &CancellationToken,
) -> Ended {
    let mut check = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            biased;
            () = consumer.stopping.cancelled() => return Ended::Stopping,
            _ = check.tick() => {
                if consumer.gate.watch().borrow().is_some_and(|since| since.elapsed() > HOLD) {
                    return Ended::DatabaseLost;
                }
                if !subscription.channel.status().connected() {
                    return Ended::Broken("the channel is closed".to_owned());
                }
            }
            delivery = subscription.stream.next() => match delivery {
                Some(Ok(delivery)) => {
                    metrics::counter!(names::RECEIVED, "consumer" => consumer.plan.name.clone()).increment(1);
                    if let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) {
                        metrics::gauge!(names::LAST_DELIVERY, "consumer" => consumer.plan.name.clone()).set(now.as_secs_f64());
                    }
                    match permit(consumer).await {
                        Ok(permit) => dispatch(consumer, delivery, permit, given_up.clone()),
                        Err(ended) => return ended,
                    }
                }
                Some(Err(error)) => return Ended::Broken(error.to_string()),
                // The queue was deleted, or its leader moved: subscribe again.
                None => return Ended::Broken("the broker cancelled the subscription".to_owned()),
            },
        }
    }
}

/// Waits for a free place; the stop and a lost database end the wait.
async fn permit<DB: Store>(consumer: &Arc<Consumer<DB>>) -> Result<OwnedSemaphorePermit, Ended> {
    let mut gate = consumer.gate.watch();
    let lost = async {
        loop {
            let since = gate.wait_for(Option::is_some).await.ok().and_then(|since| *since);
            let deadline = since.map_or_else(tokio::time::Instant::now, |since| since + HOLD);
            tokio::time::sleep_until(deadline).await;
            if gate.borrow().is_some() {
                return;
            }
        }
    };
    tokio::select! {
        permit = Arc::clone(&consumer.permits).acquire_owned() => permit.map_err(|_| Ended::Stopping),
        () = consumer.stopping.cancelled() => Err(Ended::Stopping),
        () = lost => Err(Ended::DatabaseLost),
    }
}

fn dispatch<DB: Store>(
    consumer: &Arc<Consumer<DB>>,
    delivery: lapin::message::Delivery,
    permit: OwnedSemaphorePermit,
    given_up: CancellationToken,
) {
    let (raw, ack) = take(delivery);
    let task = Arc::clone(consumer);
    let work = async move {
        let in_flight = metrics::gauge!(names::IN_FLIGHT, "consumer" => task.plan.name.clone());
        in_flight.increment(1.0);
        let delivered = deliver(&task, raw, None, &given_up).await;
        if delivered != Delivered::Undecided && !ack.ack().await {
            metrics::counter!(names::ACK_LOST, "consumer" => task.plan.name.clone()).increment(1);
        }
        in_flight.decrement(1.0);
        drop(permit);
    };
    // On the service's own runtime: a handler that blocks its thread blocks no heartbeat and no relay.
    consumer.tasks.spawn_on(work, &consumer.handle);
}
