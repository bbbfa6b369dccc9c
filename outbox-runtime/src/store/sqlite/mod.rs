//! SQLite as a store: the statements live with the outbox and the inbox; transactions, conditions and the schema live here.
//!
//! One writer at a time: whoever writes has the turn. What needs more than one statement runs in one transaction, or in the open one.

mod begin;
mod condition;
mod file;
mod migrate;
mod own;
mod recover;
pub(crate) mod run;
pub(crate) mod sql;
#[cfg(test)]
mod tests;
mod transaction;
mod turn;

pub(crate) use self::migrate::MIGRATIONS;

use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Sqlite, SqliteConnection, SqlitePool, Transaction};

use crate::admin::{self, Action, Found, RawCounts, Scan, Scanned};
use crate::broker::topology::Binding;
use crate::error::EnqueueError;
use crate::event::EventId;
use crate::event::draft::Content;
use crate::handler::{DatabaseKind, TxRef};
use crate::inbox::sqlite as inbox;
use crate::inbox::{
    FloorMove, InboxEntry, InboxRecord, NewParked, ParkedClaim, ParkedRow, ParkedStats, Reparked, Stamp,
};
use crate::outbox::sqlite as outbox;
use crate::outbox::{
    ArchiveState, ArchiveTable, ClaimLimits, Claimed, Deaf, Ear, LineCursor, ListenFrom, OutboxStats, Settled,
    Settlement, Standing,
};
use crate::queue::sqlite as queue;
use crate::queue::{QueueClaim, QueueKey, QueueRow, RouteClaim, Routed};
use crate::store::{Condition, NotOwned, Ownership, Pooling, Refused, Sealed, Store, Turn, Vacuum, Writable};

type DbResult<T> = Result<T, sqlx::Error>;

impl Sealed for Sqlite {}

impl Store for Sqlite {
    const KIND: DatabaseKind = DatabaseKind::Sqlite;
    /// One process works with the file: the hints inside it are enough, and a process that only enqueues is polled.
    const NOTIFIES: bool = false;

    async fn turn(pool: &SqlitePool) -> Turn {
        turn::turn(pool).await
    }

    async fn begin(connection: &mut SqliteConnection) -> DbResult<Transaction<'_, Sqlite>> {
        transaction::begin(connection).await
    }

    async fn begin_for_user(pool: &SqlitePool) -> DbResult<Transaction<'static, Sqlite>> {
        begin::begin_for_user(pool).await
    }

    async fn commit(tx: Transaction<'_, Sqlite>, stamp: Stamp) -> Result<(), Refused> {
        transaction::commit(tx, stamp).await
    }

    async fn rollback(tx: Transaction<'_, Sqlite>) -> DbResult<()> {
        transaction::rollback(tx).await
    }

    async fn prove(connection: &mut SqliteConnection, run: Stamp) -> Result<(), Refused> {
        transaction::prove(connection, run).await
    }

    fn tx_ref<'t, 'c>(tx: &'t mut Transaction<'c, Sqlite>) -> TxRef<'t, 'c> {
        TxRef::Sqlite(tx)
    }

    fn condition(error: &(dyn std::error::Error + 'static)) -> Option<Condition> {
        condition::condition(error)
    }

    fn cure(code: Option<&str>) -> &'static str {
        condition::cure(code)
    }

    fn hopeless(code: Option<&str>) -> bool {
        condition::hopeless(code)
    }

    async fn probe(connection: &mut SqliteConnection) -> DbResult<Writable> {
        condition::probe(connection).await
    }

    async fn pooling(_fresh: &mut SqliteConnection, _options: &SqliteConnectOptions) -> DbResult<Pooling> {
        Ok(Pooling::Sessions)
    }

    async fn vacuum(_connection: &mut SqliteConnection) -> DbResult<Option<Vacuum>> {
        // A row is gone when it is deleted; an old reader holds back the checkpoint, and no scan reads what it keeps.
        Ok(None)
    }

    async fn migrate(connection: &mut SqliteConnection) -> Result<(), sqlx::migrate::MigrateError> {
        migrate::migrate(connection).await
    }

    async fn missing_migrations(connection: &mut SqliteConnection) -> DbResult<Vec<String>> {
        migrate::missing(connection).await
    }

    async fn remember(connection: &mut SqliteConnection, key: &'static str, value: &str) -> DbResult<String> {
        migrate::remember(connection, key, value).await
    }

    async fn replace_setting(
        connection: &mut SqliteConnection,
        key: &'static str,
        from: &str,
        to: &str,
    ) -> DbResult<()> {
        migrate::replace_setting(connection, key, from, to).await
    }

    async fn own(pool: &SqlitePool) -> Result<Ownership, NotOwned> {
        own::own(pool).await
    }

    async fn recover(connection: &mut SqliteConnection, ownership: &Ownership) -> DbResult<()> {
        own::recover_once(connection, ownership).await
    }

    async fn insert(connection: &mut SqliteConnection, contents: &[Content]) -> Result<(), EnqueueError> {
        outbox::insert(connection, contents).await
    }

    async fn cancel(connection: &mut SqliteConnection, event_id: &EventId) -> DbResult<bool> {
        outbox::cancel(connection, event_id).await
    }

    async fn standing(connection: &mut SqliteConnection, event_id: &EventId) -> DbResult<Option<Standing>> {
        outbox::standing(connection, event_id).await
    }

    async fn claim(connection: &mut SqliteConnection, claim_id: &str, limits: ClaimLimits) -> DbResult<Claimed> {
        outbox::claim(connection, claim_id, limits).await
    }

    async fn renew(connection: &mut SqliteConnection, claim_ids: &[String], lease: Duration) -> DbResult<u64> {
        outbox::renew(connection, claim_ids, lease).await
    }

    async fn settle(
        connection: &mut SqliteConnection,
        settlements: &[Settlement],
        delete_published: bool,
    ) -> DbResult<Settled> {
        outbox::settle(connection, settlements, delete_published).await
    }

    async fn release_waiting(
        connection: &mut SqliteConnection,
        after: Option<&LineCursor>,
        limit: i64,
    ) -> DbResult<(u64, Option<LineCursor>)> {
        outbox::release_waiting(connection, after, limit).await
    }

    async fn release(connection: &mut SqliteConnection, claim_ids: &[String]) -> DbResult<u64> {
        outbox::release(connection, claim_ids).await
    }

    async fn put_back_expired(connection: &mut SqliteConnection, limit: i64) -> DbResult<u64> {
        outbox::put_back_expired(connection, limit).await
    }

    async fn purge_published(connection: &mut SqliteConnection, keep: Duration, limit: i64) -> DbResult<u64> {
        outbox::purge_published(connection, keep, limit).await
    }

    async fn archive_published(
        connection: &mut SqliteConnection,
        table: &ArchiveTable,
        after: Duration,
        limit: i64,
    ) -> DbResult<u64> {
        outbox::archive_published(connection, table, after, limit).await
    }

    async fn prepare_archive(
        connection: &mut SqliteConnection,
        table: &ArchiveTable,
        create: bool,
    ) -> DbResult<ArchiveState> {
        outbox::prepare_archive(connection, table, create).await
    }

    async fn outbox_stats(connection: &mut SqliteConnection) -> DbResult<OutboxStats> {
        outbox::outbox_stats(connection).await
    }

    async fn announce_sleep(_connection: &mut SqliteConnection, _for_time: Duration) -> DbResult<()> {
        Ok(())
    }

    async fn withdraw_sleep(_connection: &mut SqliteConnection) -> DbResult<()> {
        Ok(())
    }

    async fn say_routed(_connection: &mut SqliteConnection, _by: &str) -> DbResult<()> {
        Ok(())
    }

    async fn listen(_from: &ListenFrom<Sqlite>, _ear: &Ear) -> Deaf {
        Deaf::Never
    }

    fn lacks_tables(error: &sqlx::Error) -> bool {
        condition::lacks_tables(error)
    }

    async fn admin_counts(connection: &mut SqliteConnection, bound: i64) -> DbResult<RawCounts> {
        outbox::admin::counts(connection, bound).await
    }

    async fn admin_scan(connection: &mut SqliteConnection, scan: &Scan) -> DbResult<Scanned> {
        outbox::admin::scan(connection, scan).await
    }

    async fn admin_show(
        connection: &mut SqliteConnection,
        event_id: &str,
        payload: bool,
    ) -> DbResult<Option<admin::Event>> {
        outbox::admin::show(connection, event_id, payload).await
    }

    async fn admin_now(connection: &mut SqliteConnection) -> DbResult<i64> {
        outbox::admin::now(connection).await
    }

    async fn admin_act(connection: &mut SqliteConnection, action: &Action, ids: &[String]) -> DbResult<Vec<Found>> {
        outbox::admin::act(connection, action, ids).await
    }

    async fn admin_pull(connection: &mut SqliteConnection, keys: &[(String, String)]) -> DbResult<u64> {
        outbox::admin::pull(connection, keys).await
    }

    async fn flush_from_here(connection: &mut SqliteConnection) -> DbResult<Option<i64>> {
        outbox::admin::flush_from_here(connection).await
    }

    async fn flush_as_before(connection: &mut SqliteConnection, before: Option<i64>) -> DbResult<()> {
        outbox::admin::flush_as_before(connection, before).await
    }

    async fn insert_inbox(
        connection: &mut SqliteConnection,
        entry: &InboxEntry,
        from: Option<&QueueKey>,
    ) -> DbResult<Option<Stamp>> {
        inbox::insert_inbox(connection, entry, from).await
    }

    async fn committed_by_handler(
        connection: &mut SqliteConnection,
        entry: &InboxEntry,
        stamp: Stamp,
    ) -> DbResult<bool> {
        inbox::committed_by_handler(connection, entry, stamp).await
    }

    async fn end_session(_connection: &mut SqliteConnection, stamp: Stamp) -> DbResult<()> {
        run::interrupt(stamp.session);
        Ok(())
    }

    async fn inbox_record(connection: &mut SqliteConnection, entry: &InboxEntry) -> DbResult<InboxRecord> {
        inbox::inbox_record(connection, entry).await
    }

    async fn park(connection: &mut SqliteConnection, parked: &NewParked) -> DbResult<bool> {
        inbox::park(connection, parked).await
    }

    async fn claim_parked(connection: &mut SqliteConnection, claim: &ParkedClaim) -> DbResult<Vec<ParkedRow>> {
        inbox::claim_parked(connection, claim).await
    }

    async fn alone_due(connection: &mut SqliteConnection, consumer: &str) -> DbResult<bool> {
        inbox::alone_due(connection, consumer).await
    }

    async fn begin_rerun(connection: &mut SqliteConnection, parked_id: i64, claim_id: &str) -> DbResult<Option<Stamp>> {
        inbox::begin_rerun(connection, parked_id, claim_id).await
    }

    async fn repark(
        connection: &mut SqliteConnection,
        parked_id: i64,
        claim_id: &str,
        reparked: &Reparked,
    ) -> DbResult<bool> {
        inbox::repark(connection, parked_id, claim_id, reparked).await
    }

    async fn parked_stats(connection: &mut SqliteConnection) -> DbResult<ParkedStats> {
        inbox::parked_stats(connection).await
    }

    async fn move_floor(
        connection: &mut SqliteConnection,
        consumer: &str,
        floor: &FloorMove,
        limit: i64,
    ) -> DbResult<u64> {
        inbox::move_floor(connection, consumer, floor, limit).await
    }

    async fn hold_floor(connection: &mut SqliteConnection, consumer: &str, for_time: Duration) -> DbResult<()> {
        inbox::hold_floor(connection, consumer, for_time).await
    }

    async fn bind(connection: &mut SqliteConnection, bindings: &[Binding]) -> DbResult<()> {
        queue::bind(connection, bindings).await
    }

    async fn unbound(connection: &mut SqliteConnection, bindings: &[Binding]) -> DbResult<Vec<Binding>> {
        queue::unbound(connection, bindings).await
    }

    async fn queue_known(connection: &mut SqliteConnection, name: &str) -> DbResult<bool> {
        queue::queue_known(connection, name).await
    }

    async fn route_due(connection: &mut SqliteConnection, claim: &RouteClaim) -> DbResult<Routed> {
        queue::route_due(connection, claim).await
    }

    async fn claim_queue(connection: &mut SqliteConnection, claim: &QueueClaim) -> DbResult<Vec<QueueRow>> {
        queue::claim_queue(connection, claim).await
    }

    async fn renew_queue(connection: &mut SqliteConnection, claim_ids: &[String], lease: Duration) -> DbResult<u64> {
        queue::renew_queue(connection, claim_ids, lease).await
    }

    async fn ack_queue(connection: &mut SqliteConnection, key: &QueueKey) -> DbResult<bool> {
        queue::ack_queue(connection, key).await
    }

    async fn put_back_queue(connection: &mut SqliteConnection, keys: &[QueueKey]) -> DbResult<u64> {
        queue::put_back_queue(connection, keys).await
    }

    async fn queue_depth(connection: &mut SqliteConnection, name: &str) -> DbResult<u64> {
        queue::queue_depth(connection, name).await
    }
}
