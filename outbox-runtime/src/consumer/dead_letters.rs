//! The broker's delivery limit is the last net (C7): what fell into it is moved to `parked_messages`, to be run alone if it never came to an
//! end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::alert::Alert;
use crate::backoff::Backoff;
use crate::broker::rabbitmq::connection::Link;
use crate::broker::rabbitmq::consume::{AckHandle, Subscription, subscribe, take};
use crate::broker::rabbitmq::declare::depth;
use crate::broker::topology::{dead_queue, unreadable_queue};
use crate::consumer::Consumer;
use crate::consumer::deliver::Delivered;
use crate::consumer::park::{dead_letter, park};
use crate::raw::RawMessage;
use crate::store::Store;
use crate::telemetry::{Repeated, names};

const PREFETCH: u16 = 8;
/// How often the queue that nobody consumes is looked at.
const LOOK: Duration = Duration::from_secs(30);

/// Drains the dead-letter queue of one consumer. Runs on the engine's thread.
pub(super) async fn run<DB: Store>(consumer: Arc<Consumer<DB>>, link: Arc<Link>) {
    let queue = dead_queue(&consumer.queue);
    let mut state = link.state();
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
    let mut trouble = Repeated::new();
    loop {
        let ready = async {
            let _ = state.wait_for(|state| state.generation().is_some()).await;
            consumer.gate.open().await;
        };
        tokio::select! {
            () = ready => {}
            () = consumer.stopping.cancelled() => return,
        }
        let reason = match subscribe(&link, &queue, &format!("{}.dead", consumer.tag()), PREFETCH).await {
            Ok(mut subscription) => {
                backoff.reset();
                trouble.clear();
                let given_up = CancellationToken::new();
                let reason = drain(&consumer, &link, &mut subscription, &given_up).await;
                given_up.cancel();
                subscription.close().await;
                if consumer.stopping.is_cancelled() {
                    return;
                }
                reason
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
        if let Some(count) = trouble.note(&reason) {
            tracing::warn!(consumer = %consumer.plan.name, %queue, %reason, failures = count, "the dead-letter queue is not drained; trying again for ever");
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next()) => {}
            () = consumer.stopping.cancelled() => return,
        }
    }
}

async fn drain<DB: Store>(
    consumer: &Arc<Consumer<DB>>,
    link: &Link,
    subscription: &mut Subscription,
    given_up: &CancellationToken,
) -> String {
    let mut look = tokio::time::interval(LOOK);
    let mut told = 0;
    loop {
        tokio::select! {
            biased;
            () = consumer.stopping.cancelled() => return String::new(),
            _ = look.tick() => unreadable(consumer, link, &mut told).await,
            delivery = subscription.stream.next() => match delivery {
                Some(Ok(delivery)) => {
                    let (raw, ack) = take(delivery);
                    let (task, given_up) = (Arc::clone(consumer), given_up.clone());
                    let work = async move { move_one(&task, raw, ack, &given_up).await };
                    consumer.tasks.spawn_on(work, &consumer.handle);
                }
                Some(Err(error)) => return error.to_string(),
                None => return "the broker cancelled the subscription".to_owned(),
            },
        }
    }
}

async fn move_one<DB: Store>(consumer: &Consumer<DB>, raw: RawMessage, ack: AckHandle, given_up: &CancellationToken) {
    let parked = dead_letter(consumer, &raw);
    if park(consumer, parked, None, given_up).await != Delivered::Undecided && !ack.ack().await {
        metrics::counter!(names::ACK_LOST, "consumer" => consumer.plan.name.clone()).increment(1);
    }
}

async fn unreadable<DB: Store>(consumer: &Consumer<DB>, link: &Link, told: &mut u32) {
    let queue = unreadable_queue(&consumer.queue);
    let Ok((_, connection)) = link.connection() else { return };
    if let Ok(messages) = depth(&connection, &queue).await {
        metrics::gauge!(names::UNREADABLE, "consumer" => consumer.plan.name.clone()).set(messages);
        if messages > *told {
            consumer.board.alerts().raise(|| Alert::Unreadable {
                consumer: consumer.plan.name.clone(),
                queue: queue.clone(),
                messages,
            });
        }
        *told = messages;
        if messages > 0 {
            tracing::error!(consumer = %consumer.plan.name, %queue, messages, "messages that could not even be parked wait for an operator");
        }
    }
}
