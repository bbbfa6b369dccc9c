//! Every metric: its name, kind, unit, labels and meaning. The library records them through the `metrics` facade; the service chooses the
//! exporter.

/// Counter, events. Written to the outbox in some transaction (which may still roll back). Label `event`.
pub const ENQUEUED: &str = "outbox_enqueued_total";
/// Counter, events. Claimed by a relay of this process.
pub const CLAIMED: &str = "outbox_claimed_total";
/// Counter, events. Times one was met by a scan while an earlier event of its key was not published yet, and put aside (R6).
pub const DEFERRED: &str = "outbox_deferred_total";
/// Counter, events. Waited for an earlier event of their key that is gone, and were made due by the sweep.
pub const RELEASED: &str = "outbox_released_total";
/// Counter, events. Confirmed and not returned, or unroutable and discarded; counted before it is marked Published. Label `event`.
pub const PUBLISHED: &str = "outbox_published_total";
/// Counter, events. Returned by the broker since no queue wanted them, or not taken since their exchange is missing or forbidden. Label `event`.
pub const UNROUTABLE: &str = "outbox_unroutable_total";
/// Counter, events. Not taken by their destination, or put off unsent while it takes nothing; nothing is spent. Label `exchange`.
pub const NACKED: &str = "outbox_nacked_total";
/// Counter, events. Published with an unknown result; they are published again under the same id.
pub const UNKNOWN: &str = "outbox_unknown_total";
/// Counter, events. Refused by the broker or by AMQP itself; an attempt is spent. Label `event`.
pub const REFUSED: &str = "outbox_refused_total";
/// Counter, events. Their budget is spent: an operator must act. Label `event`.
pub const FAILED: &str = "outbox_failed_total";
/// Counter, events. Settled by somebody else, since this relay's lease had run out.
pub const LEASE_LOST: &str = "outbox_lease_lost_total";
/// Counter, events. Put back after the lease of their relay had run out.
pub const LEASE_EXPIRED: &str = "outbox_lease_expired_total";
/// Counter, events. Put back: the rest of a long line, or at a shutdown what was not begun or not settled.
pub const PUT_BACK: &str = "outbox_put_back_total";
/// Counter, events. Published rows deleted by retention.
pub const PURGED: &str = "outbox_purged_total";
/// Counter, events. Published rows moved to the archive by retention.
pub const ARCHIVED: &str = "outbox_archived_total";
/// Counter, alerts. Not given to the alert callback, since its queue was full. Label `alert`.
pub const ALERTS_DROPPED: &str = "outbox_alerts_dropped_total";
/// Counter, alerts. The alert callback panicked, returned an error or took too long. Label `alert`.
pub const ALERTS_FAILED: &str = "outbox_alerts_failed_total";
/// Histogram, seconds. From the publish of a batch to its last confirm.
pub const CONFIRM_SECONDS: &str = "outbox_confirm_seconds";
/// Histogram, seconds. From the enqueue of an event (a delayed one: from the time that it is due) to its confirm. Label `event`.
pub const PUBLISH_LATENCY_SECONDS: &str = "outbox_publish_latency_seconds";
/// Gauge, events. Waiting in the outbox; counts stop at 100,000.
pub const PENDING: &str = "outbox_pending";
/// Gauge, events. With a relay.
pub const PROCESSING: &str = "outbox_processing";
/// Gauge, events. Waiting after an error.
pub const HELD: &str = "outbox_held";
/// Gauge, events, up to 10,000. Put aside until an earlier event of their key is published.
pub const BLOCKED: &str = "outbox_blocked";
/// Gauge, events, up to 10,000. Due later: delayed, tried again after a pause, or looking again shortly whether those before them are gone.
pub const LATER: &str = "outbox_later";
/// Gauge, events. Budget spent.
pub const FAILED_NOW: &str = "outbox_failed";
/// Gauge, events. With a lease that has run out and that nobody has put back yet.
pub const EXPIRED_NOW: &str = "outbox_expired_leases";
/// Gauge, seconds. The age of the oldest unpublished event, 0 if there is none. The one to alert on.
pub const OLDEST_UNPUBLISHED_SECONDS: &str = "outbox_oldest_unpublished_seconds";
/// Gauge, seconds. PostgreSQL: the age of the oldest transaction that keeps vacuum from clearing out dead rows; each claim reads past them. Sessions
/// of other roles are counted only if the runtime's role is in `pg_read_all_stats`.
pub const OLDEST_SNAPSHOT_SECONDS: &str = "outbox_oldest_snapshot_seconds";
/// Gauge, rows. PostgreSQL: dead rows of `outbox_messages`, as the server counts them.
pub const DEAD_ROWS: &str = "outbox_dead_rows";

/// Gauge, 0 or 1. The runtime hears notifications of the database; without them it looks at every poll interval.
pub const LISTENING: &str = "outbox_listening";
/// Counter, wake-ups. A relay that slept was woken. Label `source`: `notification` (or its listener came back), `in_process`, or `poll` (nobody told it).
pub const WAKEUPS: &str = "outbox_wakeups_total";

/// Counter, deliveries. Received from the broker. Label `consumer`.
pub const RECEIVED: &str = "outbox_received_total";
/// Counter, events. Effects committed. Labels `consumer`, `event`.
pub const HANDLED: &str = "outbox_handled_total";
/// Counter, deliveries. Already decided on, acked unrun. Label `consumer`.
pub const DUPLICATES: &str = "outbox_duplicates_total";
/// Counter, runs. Failed: an error, a panic or a timeout. Labels `consumer`, `event`, `cause`.
pub const HANDLER_FAILURES: &str = "outbox_handler_failures_total";
/// Counter, runs. Repeated after a serialization failure or deadlock; nobody's failure. Label `consumer`.
pub const CONFLICTS: &str = "outbox_conflicts_total";
/// Counter, messages. Parked for another run. Labels `consumer`, `reason`.
pub const PARKED: &str = "outbox_parked_total";
/// Counter, messages. Parked as Dead: an operator must act. Labels `consumer`, `reason`.
pub const DEAD: &str = "outbox_dead_total";
/// Counter, runs. Re-runs abandoned since another instance had the message. Label `consumer`.
pub const ABANDONED: &str = "outbox_abandoned_total";
/// Counter, acks. Not accepted: the connection was lost in between; the broker delivers again. Label `consumer`.
pub const ACK_LOST: &str = "outbox_ack_lost_total";
/// Counter, subscriptions. Made anew after a loss. Label `consumer`.
pub const RESUBSCRIBED: &str = "outbox_resubscribed_total";
/// Counter, events. Inbox rows deleted by retention. Label `consumer`.
pub const INBOX_PURGED: &str = "outbox_inbox_purged_total";
/// Histogram, seconds. One run of a handler. Labels `consumer`, `event`.
pub const HANDLER_SECONDS: &str = "outbox_handler_seconds";
/// Histogram, seconds. From the enqueue of an event (a delayed one: from the time that it is due) to the commit of its effects, by the two databases' clocks. Labels `consumer`, `event`.
pub const EFFECT_LATENCY_SECONDS: &str = "outbox_effect_latency_seconds";
/// Gauge, deliveries. In a handler now. Label `consumer`.
pub const IN_FLIGHT: &str = "outbox_in_flight";
/// Gauge, messages. Parked for another run.
pub const RETRYING_NOW: &str = "outbox_parked_retrying";
/// Gauge, messages. Parked as Dead.
pub const DEAD_NOW: &str = "outbox_parked_dead";
/// Gauge, 0 or 1. The consumer has a subscription. Label `consumer`.
pub const SUBSCRIBED: &str = "outbox_subscribed";
/// Gauge, unix seconds. The last delivery. Label `consumer`.
pub const LAST_DELIVERY: &str = "outbox_last_delivery_timestamp_seconds";
/// Gauge, messages. In a consumer's `.unreadable` queue: nobody but an operator can take them. Label `consumer`.
pub const UNREADABLE: &str = "outbox_unreadable_messages";

/// Gauge, 0 or 1. The broker connection is up. Label `role`.
pub const BROKER_CONNECTED: &str = "outbox_broker_connected";
/// Gauge, 0 or 1. The broker blocks the connection (memory or disk alarm). Label `role`.
pub const BROKER_BLOCKED: &str = "outbox_broker_blocked";
/// Gauge, 0 or 1. The database answers and takes writes. Label `role`.
pub const DATABASE_AVAILABLE: &str = "outbox_database_available";
/// Gauge, loops. Supervised loops alive. Compare with `outbox_loops_expected`.
pub const LOOPS_ALIVE: &str = "outbox_loops_alive";
/// Gauge, loops. Supervised loops that should be alive.
pub const LOOPS_EXPECTED: &str = "outbox_loops_expected";
/// Counter, restarts. A supervised loop ended and was started again. Label `loop`.
pub const LOOP_RESTARTS: &str = "outbox_loop_restarts_total";
