//! What was checked at start, and what the relay and the broker need of it. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sqlx::{Connection, Pool};

use crate::broker::topology::{ConsumerQueue, Topology};
use crate::consumer::plan::ConsumerPlan;
use crate::event::EventDescriptor;
use crate::outbox::ArchiveTable;
use crate::relay::{Expiry, RelayConfig};
use crate::runtime::RuntimeBuilder;
use crate::runtime::engine::STATEMENT;
use crate::runtime::retention::{Retention, RetentionPlan};
use crate::store::Store;

/// Everything that was checked.
pub(super) struct Setup<DB: Store> {
    pub(super) builder: RuntimeBuilder,
    pub(super) instance: String,
    pub(super) events: Vec<&'static EventDescriptor>,
    pub(super) plans: Vec<ConsumerPlan>,
    /// The service's pool, or ours in its place.
    pub(super) pool: Pool<DB>,
    pub(super) own_pool: bool,
    pub(super) relay_pool: Pool<DB>,
    /// Where to listen, if not where the pool connects.
    pub(super) listen: Option<<DB::Connection as Connection>::Options>,
    /// To be told whether sessions of the relay's pool are nobody else's.
    pub(super) own_sessions: Arc<AtomicBool>,
    /// How many handlers may run at the same time, over all consumers; `None`: all.
    pub(super) room: Option<u32>,
    /// `user@host:port/database`.
    pub(super) shown: String,
    #[cfg(feature = "rabbitmq")]
    pub(super) uri: Option<lapin::uri::AMQPUri>,
    pub(super) broker_kind: Option<&'static str>,
}

pub(super) fn relay_config(builder: &RuntimeBuilder, instance: &str) -> RelayConfig {
    RelayConfig {
        instance: instance.to_owned(),
        namespace: builder.namespace.clone(),
        declare: builder.declare,
        batch: builder.batch,
        window_rows: builder.batch * 4,
        window_bytes: builder.window_bytes,
        channels: 2,
        lease: builder.lease,
        confirm: builder.confirm_timeout,
        poll: builder.poll_interval,
        retention: expiry(&builder.retention),
        delete_published: builder.retention.deletes_at_once(),
        statement: statement_deadline(builder),
    }
}

/// `Delete` too: what the settle statement did not delete itself goes with the next round.
fn expiry(retention: &Retention) -> Expiry {
    match &retention.plan {
        RetentionPlan::Keep(after) => Expiry { after: *after, archive: None },
        RetentionPlan::Delete => Expiry { after: std::time::Duration::ZERO, archive: None },
        RetentionPlan::Archive { after, .. } => Expiry { after: *after, archive: archive(retention) },
    }
}

/// The archive, if rows are moved to one. Its name was checked before.
pub(super) fn archive(retention: &Retention) -> Option<ArchiveTable> {
    match &retention.plan {
        RetentionPlan::Archive { table, .. } => ArchiveTable::parse(table).ok(),
        RetentionPlan::Keep(_) | RetentionPlan::Delete => None,
    }
}

/// How long a statement of the relay may take.
pub(super) fn statement_deadline(builder: &RuntimeBuilder) -> Duration {
    STATEMENT.min(builder.lease / 2)
}

pub(super) fn topology<DB: Store>(setup: &Setup<DB>) -> Topology {
    let exchanges: BTreeSet<&str> = setup.events.iter().map(|event| event.exchange).collect();
    let consumers: Vec<ConsumerQueue> = setup
        .plans
        .iter()
        .map(|plan| ConsumerQueue {
            queue: plan.queue.clone(),
            events: plan
                .handlers
                .values()
                .map(|handler| (handler.descriptor.event.exchange.to_owned(), handler.descriptor.event.name.to_owned()))
                .collect(),
        })
        .collect();
    Topology::new(setup.builder.namespace.as_deref(), exchanges, &consumers)
}
