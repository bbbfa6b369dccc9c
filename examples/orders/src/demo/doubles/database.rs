//! The broker "database" itself never makes a second copy: an event is marked as Published in the statement that puts it into its queues. Others do: a
//! person who sets a row back, a backup that is played in again.

use std::time::Duration;

use anyhow::ensure;

use crate::broker::Queues;
use crate::database::Database;
use crate::post::order_id;
use crate::progress::say;

/// How long to wait between two looks at the outbox: an event is in its queue for longer.
const PAUSE: Duration = Duration::from_millis(5);

/// The same message again, as the relay makes it from the row, for those orders whose event is published; and whether the first copy was still there.
const COPY: &str = "
INSERT INTO queue_messages AS copy (queue, event_id, aggregate_id, event_type, event_version, exchange, routing_key, envelope, payload, headers,
                                    occurred_at, enqueued_at)
SELECT 'inventory', event_id, aggregate_id, event_type, event_version, exchange, routing_key, envelope, payload, headers, occurred_at, enqueued_at
FROM outbox_messages WHERE event_type = 'order.created' AND status = 'Published' AND aggregate_id = ANY($1)
RETURNING aggregate_id, EXISTS (SELECT FROM queue_messages AS first WHERE first.queue = copy.queue AND first.event_id = copy.event_id)";

/// The relay publishes it again.
const SET_BACK: &str = "
UPDATE outbox_messages SET status = 'Pending', published_at = NULL, next_attempt_at = now()
WHERE event_type = 'order.created' AND status = 'Published' AND aggregate_id = ANY($1)";

/// Copies rows of the outbox into the queue.
pub(crate) struct Doubles {
    database: Database,
}

/// Orders whose events are set back in the outbox when everything is over.
pub(crate) struct Late {
    database: Database,
    orders: Vec<String>,
}

impl Doubles {
    pub(super) fn new(queues: &Queues) -> Self {
        Self { database: queues.database.clone() }
    }

    /// How many copies were made, and the others.
    pub(super) async fn early(self, orders: usize) -> anyhow::Result<(usize, Late)> {
        let mut wanted: Vec<String> = (0..orders).step_by(20).map(order_id).collect();
        let (all, mut beside) = (wanted.len(), 0);
        while !wanted.is_empty() {
            let copied: Vec<(String, bool)> =
                sqlx::query_as(COPY).bind(&wanted).fetch_all(self.database.pool()).await?;
            for (order, first_is_there) in copied {
                wanted.retain(|wanted| *wanted != order);
                beside += usize::from(first_is_there);
            }
            tokio::time::sleep(PAUSE).await;
        }
        say(format_args!("{beside} of {all} early second copies came into the queue while the first one was there"));
        let orders = (10..orders).step_by(20).map(order_id).collect();
        Ok((all, Late { database: self.database, orders }))
    }
}

impl Late {
    pub(super) async fn publish(self) -> anyhow::Result<usize> {
        let done = sqlx::query(SET_BACK).bind(&self.orders).execute(self.database.pool()).await?;
        let (set_back, wanted) = (done.rows_affected(), self.orders.len());
        ensure!(usize::try_from(set_back)? == wanted, "{set_back} rows of {wanted} could be set back in the outbox");
        Ok(wanted)
    }
}
