//! What the engine asks of a database. Relay and consumer are generic over it and erased once, in the runtime.

mod answer;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod chain;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod migrator;
mod ownership;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod session;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
mod turn;

pub(crate) use self::answer::{Condition, Pooling, Refused, Vacuum, Writable};
#[cfg(feature = "sqlite")]
pub(crate) use self::ownership::OwnedFile;
pub(crate) use self::ownership::{NotOwned, Ownership};
pub(crate) use self::turn::Turn;

use std::future::Future;
use std::time::Duration;

use sqlx::{Pool, Transaction};

use crate::admin::{self, Action, Found, RawCounts, Scan, Scanned};
use crate::broker::topology::Binding;
use crate::error::EnqueueError;
use crate::event::EventId;
use crate::event::draft::Content;
use crate::handler::{DatabaseKind, TxRef};
use crate::inbox::{
    FloorMove, InboxEntry, InboxRecord, NewParked, ParkedClaim, ParkedRow, ParkedStats, Reparked, Stamp,
};
use crate::outbox::{
    ArchiveState, ArchiveTable, ClaimLimits, Claimed, Deaf, Ear, LineCursor, ListenFrom, OutboxStats, Settled,
    Settlement, Standing,
};
use crate::queue::{QueueClaim, QueueKey, QueueRow, RouteClaim, Routed};

type DbResult<T> = Result<T, sqlx::Error>;

/// A database that can hold the outbox and the inbox. Static functions on a connection; each database has SQL of its own.
///
/// It is implemented for `sqlx::Postgres` (feature `postgres`) and `sqlx::Sqlite` (feature `sqlite`), and cannot be implemented outside this crate.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database that `outbox` can write to",
    label = "no outbox on this database",
    note = "switch on the feature of your database: `cargo add outbox -F postgres` or `-F sqlite`"
)]
pub trait Store: sqlx::Database + Sealed {
    /// Which database it is.
    #[doc(hidden)]
    const KIND: DatabaseKind;

    // ---- transactions -------------------------------------------------------------------------------------------------------

    /// Waits for the turn to write.
    #[doc(hidden)]
    fn turn(pool: &Pool<Self>) -> impl Future<Output = Turn> + Send;

    /// Opens a transaction that will write, on an idle connection whose session has the turn.
    #[doc(hidden)]
    fn begin(connection: &mut Self::Connection) -> impl Future<Output = DbResult<Transaction<'_, Self>>> + Send;

    /// Begins a transaction for a service's own code; it has the turn until this returns.
    #[doc(hidden)]
    fn begin_for_user(pool: &Pool<Self>) -> impl Future<Output = DbResult<Transaction<'static, Self>>> + Send;

    /// Commits the transaction of that run, and returns an error unless everything in it is durable (C1).
    #[doc(hidden)]
    fn commit(tx: Transaction<'_, Self>, stamp: Stamp) -> impl Future<Output = Result<(), Refused>> + Send;

    /// Rolls a run's transaction back and leaves the connection as it was before [`begin`](Self::begin).
    #[doc(hidden)]
    fn rollback(tx: Transaction<'_, Self>) -> impl Future<Output = DbResult<()>> + Send;

    /// Fails unless the connection is still in the transaction that wrote this stamp, and it is not aborted (C1).
    #[doc(hidden)]
    fn prove(connection: &mut Self::Connection, run: Stamp) -> impl Future<Output = Result<(), Refused>> + Send;

    /// The transaction as handlers see it.
    #[doc(hidden)]
    fn tx_ref<'t, 'c>(tx: &'t mut Transaction<'c, Self>) -> TxRef<'t, 'c>;

    /// What an error of the driver says about the database.
    #[doc(hidden)]
    fn condition(error: &(dyn std::error::Error + 'static)) -> Option<Condition>;

    /// What a person can do about an error with this code when a runtime starts.
    #[doc(hidden)]
    fn cure(code: Option<&str>) -> &'static str;

    /// Whether an error with this code stays however often it is tried again.
    #[doc(hidden)]
    fn hopeless(code: Option<&str>) -> bool;

    /// Whether the database answers and accepts writes; the error says why not.
    #[doc(hidden)]
    fn probe(connection: &mut Self::Connection) -> impl Future<Output = DbResult<Writable>> + Send;

    /// Whether sessions of the server are shared behind our back. `fresh` is a new connection with these options.
    #[doc(hidden)]
    fn pooling(
        fresh: &mut Self::Connection,
        options: &<Self::Connection as sqlx::Connection>::Options,
    ) -> impl Future<Output = DbResult<Pooling>> + Send;

    /// What holds back the clearing out of dead rows, where a database has such a thing.
    #[doc(hidden)]
    fn vacuum(connection: &mut Self::Connection) -> impl Future<Output = DbResult<Option<Vacuum>>> + Send;

    // ---- schema -------------------------------------------------------------------------------------------------------------

    /// Brings the tables up to date, in one transaction, whoever else tries it at the same time.
    #[doc(hidden)]
    fn migrate(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), sqlx::migrate::MigrateError>> + Send;

    /// The names of migrations that this build has and the database has not.
    #[doc(hidden)]
    fn missing_migrations(connection: &mut Self::Connection) -> impl Future<Output = DbResult<Vec<String>>> + Send;

    /// Remembers `value` under `key` unless something is there, and returns what is there.
    #[doc(hidden)]
    fn remember(
        connection: &mut Self::Connection,
        key: &'static str,
        value: &str,
    ) -> impl Future<Output = DbResult<String>> + Send;

    /// Replaces the value `from` under `key`, and only that one.
    #[doc(hidden)]
    fn replace_setting(
        connection: &mut Self::Connection,
        key: &'static str,
        from: &str,
        to: &str,
    ) -> impl Future<Output = DbResult<()>> + Send;

    /// Makes this process the one that works with the database, where only one may.
    #[doc(hidden)]
    fn own(pool: &Pool<Self>) -> impl Future<Output = Result<Ownership, NotOwned>> + Send;

    /// Puts back what an earlier process had claimed, where nobody else can have claimed anything. Once for each ownership.
    #[doc(hidden)]
    fn recover(connection: &mut Self::Connection, ownership: &Ownership) -> impl Future<Output = DbResult<()>> + Send;

    // ---- outbox -------------------------------------------------------------------------------------------------------------

    /// Writes events, all or none.
    #[doc(hidden)]
    fn insert(
        connection: &mut Self::Connection,
        contents: &[Content],
    ) -> impl Future<Output = Result<(), EnqueueError>> + Send;

    /// Deletes an event that waits and that no broker can have; whether there was one. One statement.
    #[doc(hidden)]
    fn cancel(connection: &mut Self::Connection, event_id: &EventId) -> impl Future<Output = DbResult<bool>> + Send;

    /// Where an event is, if it is there.
    #[doc(hidden)]
    fn standing(
        connection: &mut Self::Connection,
        event_id: &EventId,
    ) -> impl Future<Output = DbResult<Option<Standing>>> + Send;

    /// Claims due rows (S4), those of a key in their order and without a gap (R6).
    #[doc(hidden)]
    fn claim(
        connection: &mut Self::Connection,
        claim_id: &str,
        limits: ClaimLimits,
    ) -> impl Future<Output = DbResult<Claimed>> + Send;

    /// Extends the leases of claims that still live (R2); returns how many rows it extended.
    #[doc(hidden)]
    fn renew(
        connection: &mut Self::Connection,
        claim_ids: &[String],
        lease: Duration,
    ) -> impl Future<Output = DbResult<u64>> + Send;

    /// Writes the outcomes of many batches, and makes due what waited for them. Rows that are Published are deleted if asked. One statement.
    #[doc(hidden)]
    fn settle(
        connection: &mut Self::Connection,
        settlements: &[Settlement],
        delete_published: bool,
    ) -> impl Future<Output = DbResult<Settled>> + Send;

    /// Puts back every row of these claims, at shutdown.
    #[doc(hidden)]
    fn release(connection: &mut Self::Connection, claim_ids: &[String]) -> impl Future<Output = DbResult<u64>> + Send;

    /// Puts back rows whose lease has run out, at most `limit`.
    #[doc(hidden)]
    fn put_back_expired(connection: &mut Self::Connection, limit: i64) -> impl Future<Output = DbResult<u64>> + Send;

    /// Makes due the first row of each key that waits for nothing, for the next `limit` keys; returns how many, and where to go on.
    #[doc(hidden)]
    fn release_waiting(
        connection: &mut Self::Connection,
        after: Option<&LineCursor>,
        limit: i64,
    ) -> impl Future<Output = DbResult<(u64, Option<LineCursor>)>> + Send;

    /// Deletes rows published longer ago than `keep`, at most `limit` (S5).
    #[doc(hidden)]
    fn purge_published(
        connection: &mut Self::Connection,
        keep: Duration,
        limit: i64,
    ) -> impl Future<Output = DbResult<u64>> + Send;

    /// Moves rows published longer ago than `after` to the archive, at most `limit`, in one durable transaction (S5).
    #[doc(hidden)]
    fn archive_published(
        connection: &mut Self::Connection,
        table: &ArchiveTable,
        after: Duration,
        limit: i64,
    ) -> impl Future<Output = DbResult<u64>> + Send;

    /// Creates the archive if `create` and there is none, and looks whether rows can be moved there.
    #[doc(hidden)]
    fn prepare_archive(
        connection: &mut Self::Connection,
        table: &ArchiveTable,
        create: bool,
    ) -> impl Future<Output = DbResult<ArchiveState>> + Send;

    /// Figures for metrics and `health()`; counts stop at a bound, so that they stay cheap.
    #[doc(hidden)]
    fn outbox_stats(connection: &mut Self::Connection) -> impl Future<Output = DbResult<OutboxStats>> + Send;

    // ---- wake-up (R5) -------------------------------------------------------------------------------------------------------

    /// Whether an enqueue wakes sleeping relays of other processes.
    #[doc(hidden)]
    const NOTIFIES: bool;

    /// Announces that relays sleep, for that time. It is not flushed, and waits for nobody.
    #[doc(hidden)]
    fn announce_sleep(
        connection: &mut Self::Connection,
        for_time: Duration,
    ) -> impl Future<Output = DbResult<()>> + Send;

    /// Withdraws the announcement, whoever made it. It is not flushed, and waits for nobody.
    #[doc(hidden)]
    fn withdraw_sleep(connection: &mut Self::Connection) -> impl Future<Output = DbResult<()>> + Send;

    /// Says that messages were put into queues; `by`: the ear of those who know already.
    #[doc(hidden)]
    fn say_routed(connection: &mut Self::Connection, by: &str) -> impl Future<Output = DbResult<()>> + Send;

    /// Listens until it cannot any more.
    #[doc(hidden)]
    fn listen(from: &ListenFrom<Self>, ear: &Ear) -> impl Future<Output = Deaf> + Send;

    // ---- admin --------------------------------------------------------------------------------------------------------------

    /// Whether the error says that the tables are not there, or lack columns.
    #[doc(hidden)]
    fn lacks_tables(error: &sqlx::Error) -> bool;

    /// Figures for an operator, each up to a bound.
    #[doc(hidden)]
    fn admin_counts(connection: &mut Self::Connection, bound: i64) -> impl Future<Output = DbResult<RawCounts>> + Send;

    /// Looks at one index for events.
    #[doc(hidden)]
    fn admin_scan(connection: &mut Self::Connection, scan: &Scan) -> impl Future<Output = DbResult<Scanned>> + Send;

    /// Everything about one event, with its body if `payload`.
    #[doc(hidden)]
    fn admin_show(
        connection: &mut Self::Connection,
        event_id: &str,
        payload: bool,
    ) -> impl Future<Output = DbResult<Option<admin::Event>>> + Send;

    /// The database's clock, in microseconds since 1970.
    #[doc(hidden)]
    fn admin_now(connection: &mut Self::Connection) -> impl Future<Output = DbResult<i64>> + Send;

    /// Changes those of these rows that nobody has, in the open transaction, and tells of all that there are.
    #[doc(hidden)]
    fn admin_act(
        connection: &mut Self::Connection,
        action: &Action,
        ids: &[String],
    ) -> impl Future<Output = DbResult<Vec<Found>>> + Send;

    /// Makes the first event of each of these keys due that was found waiting; returns how many.
    #[doc(hidden)]
    fn admin_pull(
        connection: &mut Self::Connection,
        keys: &[(String, String)],
    ) -> impl Future<Output = DbResult<u64>> + Send;

    /// Makes commits on this connection wait for the disk; returns what has to be set back.
    #[doc(hidden)]
    fn flush_from_here(connection: &mut Self::Connection) -> impl Future<Output = DbResult<Option<i64>>> + Send;

    /// Sets that back.
    #[doc(hidden)]
    fn flush_as_before(
        connection: &mut Self::Connection,
        before: Option<i64>,
    ) -> impl Future<Output = DbResult<()>> + Send;

    // ---- inbox --------------------------------------------------------------------------------------------------------------

    /// Inserts the dedup record, first in the handler's transaction, unless there is one. With a message of a database queue the same
    /// statement takes the message out of it, and inserts nothing if the claim is lost. One statement.
    #[doc(hidden)]
    fn insert_inbox(
        connection: &mut Self::Connection,
        entry: &InboxEntry,
        from: Option<&QueueKey>,
    ) -> impl Future<Output = DbResult<Option<Stamp>>> + Send;

    /// Whether the dedup record of a run that has not committed is durable: then the handler has committed by itself.
    #[doc(hidden)]
    fn committed_by_handler(
        connection: &mut Self::Connection,
        entry: &InboxEntry,
        stamp: Stamp,
    ) -> impl Future<Output = DbResult<bool>> + Send;

    /// Ends the session of a run that was dropped, if it is still in that run's transaction.
    #[doc(hidden)]
    fn end_session(connection: &mut Self::Connection, stamp: Stamp) -> impl Future<Output = DbResult<()>> + Send;

    /// Why [`insert_inbox`](Self::insert_inbox) inserted nothing.
    #[doc(hidden)]
    fn inbox_record(
        connection: &mut Self::Connection,
        entry: &InboxEntry,
    ) -> impl Future<Output = DbResult<InboxRecord>> + Send;

    /// Parks a message with its inbox row, unless the event has one (C2). One durable statement; returns whether it parked.
    #[doc(hidden)]
    fn park(connection: &mut Self::Connection, parked: &NewParked) -> impl Future<Output = DbResult<bool>> + Send;

    /// Claims due parked messages of one consumer; increments their attempts (C3).
    #[doc(hidden)]
    fn claim_parked(
        connection: &mut Self::Connection,
        claim: &ParkedClaim,
    ) -> impl Future<Output = DbResult<Vec<ParkedRow>>> + Send;

    /// Whether a parked message is due that must run alone.
    #[doc(hidden)]
    fn alone_due(connection: &mut Self::Connection, consumer: &str) -> impl Future<Output = DbResult<bool>> + Send;

    /// First in a re-run's transaction: takes the parked row and marks the inbox row Processed; `None` means abandon (C2).
    #[doc(hidden)]
    fn begin_rerun(
        connection: &mut Self::Connection,
        parked_id: i64,
        claim_id: &str,
    ) -> impl Future<Output = DbResult<Option<Stamp>>> + Send;

    /// Ends a failed re-run: another time, dead, or untouched. Returns whether the claim was still ours.
    #[doc(hidden)]
    fn repark(
        connection: &mut Self::Connection,
        parked_id: i64,
        claim_id: &str,
        reparked: &Reparked,
    ) -> impl Future<Output = DbResult<bool>> + Send;

    /// Figures of parked messages.
    #[doc(hidden)]
    fn parked_stats(connection: &mut Self::Connection) -> impl Future<Output = DbResult<ParkedStats>> + Send;

    /// Advances a consumer's floor and deletes what lies under it, at most `limit` rows (S7).
    #[doc(hidden)]
    fn move_floor(
        connection: &mut Self::Connection,
        consumer: &str,
        floor: &FloorMove,
        limit: i64,
    ) -> impl Future<Output = DbResult<u64>> + Send;

    // ---- broker "database" --------------------------------------------------------------------------------------------------

    /// Binds queues. Bindings that are there stay.
    #[doc(hidden)]
    fn bind(connection: &mut Self::Connection, bindings: &[Binding]) -> impl Future<Output = DbResult<()>> + Send;

    /// Those of these bindings that are not there.
    #[doc(hidden)]
    fn unbound(
        connection: &mut Self::Connection,
        bindings: &[Binding],
    ) -> impl Future<Output = DbResult<Vec<Binding>>> + Send;

    /// Whether anything was ever bound to the queue, or lies in it.
    #[doc(hidden)]
    fn queue_known(connection: &mut Self::Connection, queue: &str) -> impl Future<Output = DbResult<bool>> + Send;

    /// Takes due rows of the outbox, those of a key in their order, puts them into the queues that are bound, and marks them Published (or
    /// deletes them, if asked), in one transaction. Rows that no queue wants, or that cannot be sent, stay claimed, to be settled by the caller.
    #[doc(hidden)]
    fn route_due(
        connection: &mut Self::Connection,
        claim: &RouteClaim,
    ) -> impl Future<Output = DbResult<Routed>> + Send;

    /// Claims messages of a queue; increments their deliveries (C3). One statement.
    #[doc(hidden)]
    fn claim_queue(
        connection: &mut Self::Connection,
        claim: &QueueClaim,
    ) -> impl Future<Output = DbResult<Vec<QueueRow>>> + Send;

    /// Extends the leases of claims that still live; returns how many messages it extended.
    #[doc(hidden)]
    fn renew_queue(
        connection: &mut Self::Connection,
        claim_ids: &[String],
        lease: Duration,
    ) -> impl Future<Output = DbResult<u64>> + Send;

    /// Takes a message out of its queue; whether the claim was still ours.
    #[doc(hidden)]
    fn ack_queue(connection: &mut Self::Connection, key: &QueueKey) -> impl Future<Output = DbResult<bool>> + Send;

    /// Gives messages back unhandled, their delivery taken back.
    #[doc(hidden)]
    fn put_back_queue(
        connection: &mut Self::Connection,
        keys: &[QueueKey],
    ) -> impl Future<Output = DbResult<u64>> + Send;

    /// How many messages are in a queue, claimed ones too; counts stop at a bound.
    #[doc(hidden)]
    fn queue_depth(connection: &mut Self::Connection, queue: &str) -> impl Future<Output = DbResult<u64>> + Send;

    // ---- retention of the inbox ---------------------------------------------------------------------------------------------

    /// Keeps a consumer's floor where it is for a while: an instance works on an old backlog.
    #[doc(hidden)]
    fn hold_floor(
        connection: &mut Self::Connection,
        consumer: &str,
        for_time: Duration,
    ) -> impl Future<Output = DbResult<()>> + Send;
}

/// Keeps [`Store`] closed.
#[doc(hidden)]
pub trait Sealed {}
