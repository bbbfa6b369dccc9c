//! PostgreSQL as a store: the statements live with the outbox and the inbox; transactions, conditions and the schema live here.

mod condition;
mod migrate;
mod pooler;
mod transaction;
mod vacuum;

pub(crate) use self::migrate::MIGRATIONS;

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{PgConnection, PgPool, Postgres, Transaction};

use crate::admin::{self, Action, Found, RawCounts, Scan, Scanned};
use crate::broker::topology::Binding;
use crate::error::EnqueueError;
use crate::event::EventId;
use crate::event::draft::Content;
use crate::handler::{DatabaseKind, TxRef};
use crate::inbox::postgres as inbox;
use crate::inbox::{
    FloorMove, InboxEntry, InboxRecord, NewParked, ParkedClaim, ParkedRow, ParkedStats, Reparked, Stamp,
};
use crate::outbox::postgres as outbox;
use crate::outbox::{
    ArchiveState, ArchiveTable, ClaimLimits, Claimed, Deaf, Ear, LineCursor, ListenFrom, OutboxStats, Settled,
    Settlement, Standing,
};
use crate::queue::postgres as queue;
use crate::queue::{QueueClaim, QueueKey, QueueRow, RouteClaim, Routed};
use crate::store::{Condition, NotOwned, Ownership, Pooling, Refused, Sealed, Store, Turn, Vacuum, Writable};

type DbResult<T> = Result<T, sqlx::Error>;

impl Sealed for Postgres {}

impl Store for Postgres {
    const KIND: DatabaseKind = DatabaseKind::Postgres;
    const NOTIFIES: bool = true;

    async fn turn(_pool: &PgPool) -> Turn {
        Turn::free()
    }

    async fn begin(connection: &mut PgConnection) -> DbResult<Transaction<'_, Postgres>> {
        transaction::begin(connection).await
    }

    async fn begin_for_user(pool: &PgPool) -> DbResult<Transaction<'static, Postgres>> {
        pool.begin().await
    }

    async fn commit(tx: Transaction<'_, Postgres>, stamp: Stamp) -> Result<(), Refused> {
        transaction::commit(tx, stamp).await
    }

    async fn rollback(tx: Transaction<'_, Postgres>) -> DbResult<()> {
        tx.rollback().await
    }

    async fn prove(connection: &mut PgConnection, run: Stamp) -> Result<(), Refused> {
        transaction::prove(connection, run).await
    }

    fn tx_ref<'t, 'c>(tx: &'t mut Transaction<'c, Postgres>) -> TxRef<'t, 'c> {
        TxRef::Postgres(tx)
    }

    fn condition(error: &(dyn std::error::Error + 'static)) -> Option<Condition> {
        condition::condition(error)
    }

    fn cure(code: Option<&str>) -> &'static str {
        condition::cure(code)
    }

    fn hopeless(_code: Option<&str>) -> bool {
        // Somebody may create the database, or give the right, while the service waits.
        false
    }

    async fn probe(connection: &mut PgConnection) -> DbResult<Writable> {
        condition::probe(connection).await
    }

    async fn pooling(fresh: &mut PgConnection, options: &PgConnectOptions) -> DbResult<Pooling> {
        pooler::pooling(fresh, options).await
    }

    async fn vacuum(connection: &mut PgConnection) -> DbResult<Option<Vacuum>> {
        vacuum::vacuum(connection).await.map(Some)
    }

    async fn migrate(connection: &mut PgConnection) -> Result<(), sqlx::migrate::MigrateError> {
        migrate::migrate(connection).await
    }

    async fn missing_migrations(connection: &mut PgConnection) -> DbResult<Vec<String>> {
        migrate::missing(connection).await
    }

    async fn remember(connection: &mut PgConnection, key: &'static str, value: &str) -> DbResult<String> {
        migrate::remember(connection, key, value).await
    }

    async fn replace_setting(connection: &mut PgConnection, key: &'static str, from: &str, to: &str) -> DbResult<()> {
        migrate::replace_setting(connection, key, from, to).await
    }

    async fn own(_pool: &PgPool) -> Result<Ownership, NotOwned> {
        Ok(Ownership::default())
    }

    async fn recover(_connection: &mut PgConnection, _ownership: &Ownership) -> DbResult<()> {
        Ok(())
    }

    async fn insert(connection: &mut PgConnection, contents: &[Content]) -> Result<(), EnqueueError> {
        outbox::insert(connection, contents).await
    }

    async fn cancel(connection: &mut PgConnection, event_id: &EventId) -> DbResult<bool> {
        outbox::cancel(connection, event_id).await
    }

    async fn standing(connection: &mut PgConnection, event_id: &EventId) -> DbResult<Option<Standing>> {
        outbox::standing(connection, event_id).await
    }

    async fn claim(connection: &mut PgConnection, claim_id: &str, limits: ClaimLimits) -> DbResult<Claimed> {
        outbox::claim(connection, claim_id, limits).await
    }

    async fn renew(connection: &mut PgConnection, claim_ids: &[String], lease: Duration) -> DbResult<u64> {
        outbox::renew(connection, claim_ids, lease).await
    }

    async fn settle(
        connection: &mut PgConnection,
        settlements: &[Settlement],
        delete_published: bool,
    ) -> DbResult<Settled> {
        outbox::settle(connection, settlements, delete_published).await
    }

    async fn release_waiting(
        connection: &mut PgConnection,
        after: Option<&LineCursor>,
        limit: i64,
    ) -> DbResult<(u64, Option<LineCursor>)> {
        outbox::release_waiting(connection, after, limit).await
    }

    async fn release(connection: &mut PgConnection, claim_ids: &[String]) -> DbResult<u64> {
        outbox::release(connection, claim_ids).await
    }

    async fn put_back_expired(connection: &mut PgConnection, limit: i64) -> DbResult<u64> {
        outbox::put_back_expired(connection, limit).await
    }

    async fn purge_published(connection: &mut PgConnection, keep: Duration, limit: i64) -> DbResult<u64> {
        outbox::purge_published(connection, keep, limit).await
    }

    async fn archive_published(
        connection: &mut PgConnection,
        table: &ArchiveTable,
        after: Duration,
        limit: i64,
    ) -> DbResult<u64> {
        outbox::archive_published(connection, table, after, limit).await
    }

    async fn prepare_archive(
        connection: &mut PgConnection,
        table: &ArchiveTable,
        create: bool,
    ) -> DbResult<ArchiveState> {
        outbox::prepare_archive(connection, table, create).await
    }

    async fn outbox_stats(connection: &mut PgConnection) -> DbResult<OutboxStats> {
        outbox::outbox_stats(connection).await
    }

    async fn announce_sleep(connection: &mut PgConnection, for_time: Duration) -> DbResult<()> {
        outbox::announce_sleep(connection, for_time).await
    }

    async fn withdraw_sleep(connection: &mut PgConnection) -> DbResult<()> {
        outbox::withdraw_sleep(connection).await
    }

    async fn say_routed(connection: &mut PgConnection, by: &str) -> DbResult<()> {
        outbox::say_routed(connection, by).await
    }

    async fn listen(from: &ListenFrom<Postgres>, ear: &Ear) -> Deaf {
        outbox::listen(from, ear).await
    }

    fn lacks_tables(error: &sqlx::Error) -> bool {
        condition::lacks_tables(error)
    }

    async fn admin_counts(connection: &mut PgConnection, bound: i64) -> DbResult<RawCounts> {
        outbox::admin::counts(connection, bound).await
    }

    async fn admin_scan(connection: &mut PgConnection, scan: &Scan) -> DbResult<Scanned> {
        outbox::admin::scan(connection, scan).await
    }

    async fn admin_show(
        connection: &mut PgConnection,
        event_id: &str,
        payload: bool,
    ) -> DbResult<Option<admin::Event>> {
        outbox::admin::show(connection, event_id, payload).await
    }

    async fn admin_now(connection: &mut PgConnection) -> DbResult<i64> {
        outbox::admin::now(connection).await
    }

    async fn admin_act(connection: &mut PgConnection, action: &Action, ids: &[String]) -> DbResult<Vec<Found>> {
        outbox::admin::act(connection, action, ids).await
    }

    async fn admin_pull(connection: &mut PgConnection, keys: &[(String, String)]) -> DbResult<u64> {
        outbox::admin::pull(connection, keys).await
    }

    async fn flush_from_here(_connection: &mut PgConnection) -> DbResult<Option<i64>> {
        // Each statement asks for the flush itself.
        Ok(None)
    }

    async fn flush_as_before(_connection: &mut PgConnection, _before: Option<i64>) -> DbResult<()> {
        Ok(())
    }

    async fn insert_inbox(
        connection: &mut PgConnection,
        entry: &InboxEntry,
        from: Option<&QueueKey>,
    ) -> DbResult<Option<Stamp>> {
        inbox::insert_inbox(connection, entry, from).await
    }

    async fn committed_by_handler(connection: &mut PgConnection, entry: &InboxEntry, stamp: Stamp) -> DbResult<bool> {
        inbox::committed_by_handler(connection, entry, stamp).await
    }

    async fn end_session(connection: &mut PgConnection, stamp: Stamp) -> DbResult<()> {
        transaction::end_session(connection, stamp).await
    }

    async fn inbox_record(connection: &mut PgConnection, entry: &InboxEntry) -> DbResult<InboxRecord> {
        inbox::inbox_record(connection, entry).await
    }

    async fn park(connection: &mut PgConnection, parked: &NewParked) -> DbResult<bool> {
        inbox::park(connection, parked).await
    }

    async fn claim_parked(connection: &mut PgConnection, claim: &ParkedClaim) -> DbResult<Vec<ParkedRow>> {
        inbox::claim_parked(connection, claim).await
    }

    async fn alone_due(connection: &mut PgConnection, consumer: &str) -> DbResult<bool> {
        inbox::alone_due(connection, consumer).await
    }

    async fn begin_rerun(connection: &mut PgConnection, parked_id: i64, claim_id: &str) -> DbResult<Option<Stamp>> {
        inbox::begin_rerun(connection, parked_id, claim_id).await
    }

    async fn repark(
        connection: &mut PgConnection,
        parked_id: i64,
        claim_id: &str,
        reparked: &Reparked,
    ) -> DbResult<bool> {
        inbox::repark(connection, parked_id, claim_id, reparked).await
    }

    async fn parked_stats(connection: &mut PgConnection) -> DbResult<ParkedStats> {
        inbox::parked_stats(connection).await
    }

    async fn move_floor(connection: &mut PgConnection, consumer: &str, floor: &FloorMove, limit: i64) -> DbResult<u64> {
        inbox::move_floor(connection, consumer, floor, limit).await
    }

    async fn hold_floor(connection: &mut PgConnection, consumer: &str, for_time: Duration) -> DbResult<()> {
        inbox::hold_floor(connection, consumer, for_time).await
    }

    async fn bind(connection: &mut PgConnection, bindings: &[Binding]) -> DbResult<()> {
        queue::bind(connection, bindings).await
    }

    async fn unbound(connection: &mut PgConnection, bindings: &[Binding]) -> DbResult<Vec<Binding>> {
        queue::unbound(connection, bindings).await
    }

    async fn queue_known(connection: &mut PgConnection, name: &str) -> DbResult<bool> {
        queue::queue_known(connection, name).await
    }

    async fn route_due(connection: &mut PgConnection, claim: &RouteClaim) -> DbResult<Routed> {
        queue::route_due(connection, claim).await
    }

    async fn claim_queue(connection: &mut PgConnection, claim: &QueueClaim) -> DbResult<Vec<QueueRow>> {
        queue::claim_queue(connection, claim).await
    }

    async fn renew_queue(connection: &mut PgConnection, claim_ids: &[String], lease: Duration) -> DbResult<u64> {
        queue::renew_queue(connection, claim_ids, lease).await
    }

    async fn ack_queue(connection: &mut PgConnection, key: &QueueKey) -> DbResult<bool> {
        queue::ack_queue(connection, key).await
    }

    async fn put_back_queue(connection: &mut PgConnection, keys: &[QueueKey]) -> DbResult<u64> {
        queue::put_back_queue(connection, keys).await
    }

    async fn queue_depth(connection: &mut PgConnection, name: &str) -> DbResult<u64> {
        queue::queue_depth(connection, name).await
    }
}
