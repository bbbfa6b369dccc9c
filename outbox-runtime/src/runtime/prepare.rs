//! What must be true of the database before anything runs: reachable, up to date, and used with the same kind of broker as before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::Pool;
use tokio_util::sync::CancellationToken;

use crate::alert::Alert;
use crate::backoff::Backoff;
use crate::error::StartProblem;
use crate::outbox::{ArchiveState, ArchiveTable};
use crate::runtime::engine::STATEMENT;
use crate::runtime::health::Board;
use crate::runtime::{Migrations, explain};
use crate::store::session::{Session, within};
use crate::store::{NotOwned, Ownership, Pooling, Store};
use crate::telemetry::Repeated;

/// How long the first look at the database may take before the runtime starts without it.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// What must be true of the database before anything runs.
pub(super) struct Prepare<DB: Store> {
    pub(super) pool: Pool<DB>,
    pub(super) migrations: Migrations,
    pub(super) broker_kind: Option<&'static str>,
    /// The broker that may have been left for this one.
    pub(super) moved_from: Option<&'static str>,
    /// Whether it works with what others may have claimed: then, where only one process may, it must be the one.
    pub(super) owns: bool,
    /// Where published rows are moved to by this runtime.
    pub(super) archive: Option<ArchiveTable>,
    /// To be told whether sessions are the runtime's own.
    pub(super) own_sessions: Arc<AtomicBool>,
    pub(super) shown: String,
}

pub(super) enum Unprepared {
    /// Trying again may help.
    NotYet(StartProblem),
    /// It will not.
    Never(StartProblem),
}

const SETTING: &str = "DATABASE_URL";

impl<DB: Store> Prepare<DB> {
    /// One try. The ownership must be kept for as long as anything runs.
    pub(super) async fn once(&self) -> Result<Ownership, Unprepared> {
        // `begin` inside the migration must not be cancelled half-way: the session closes its connection then.
        match tokio::time::timeout(FIRST_LOOK.max(STATEMENT), self.look()).await {
            Ok(result) => result,
            Err(_) => Err(Unprepared::NotYet(StartProblem::new(
                SETTING,
                format!("{}: no answer within {} s", self.shown, STATEMENT.as_secs()),
                "is the server running and reachable, and does another instance hold the migration lock?",
            ))),
        }
    }

    async fn look(&self) -> Result<Ownership, Unprepared> {
        // The pool would try again for all of its acquire_timeout and then say no more than that; a connection of its own tells why at once.
        let options = self.pool.connect_options();
        let tried = <DB::Connection as sqlx::Connection>::connect_with(&options);
        let mut probe = within(FIRST_LOOK, tried).await.map_err(|error| self.unusable(&error))?;
        self.see_through_poolers(&mut probe, &options).await?;
        let _ = within(FIRST_LOOK, sqlx::Connection::close(probe)).await;
        // Before the first change: a second process of another version must not touch the tables.
        let ownership = if self.owns { self.own().await? } else { Ownership::default() };
        let mut session = Session::writer(&self.pool).await.map_err(|error| self.unusable(&error))?;
        let connection = session.connection().map_err(|error| self.unusable(&error))?;
        match self.migrations {
            Migrations::Run => DB::migrate(&mut *connection).await.map_err(|error| self.unmigrated(error))?,
            Migrations::Check => {
                let missing = DB::missing_migrations(&mut *connection).await.map_err(|error| self.unusable(&error))?;
                if !missing.is_empty() {
                    return Err(Unprepared::NotYet(StartProblem::new(
                        SETTING,
                        format!("{}: the tables are not up to date, missing: {}", self.shown, missing.join(", ")),
                        "run `outbox::migrate(&pool)`, or the SQL of `outbox::migrations::sql()`, or start with `Migrations::Run`",
                    )));
                }
            }
            Migrations::Off => {}
        }
        if let Some(table) = &self.archive {
            self.archive_is_there(&mut *connection, table).await?;
        }
        if let Some(kind) = self.broker_kind {
            if let Some(left) = self.moved_from {
                DB::replace_setting(&mut *connection, "broker", left, kind)
                    .await
                    .map_err(|error| self.unusable(&error))?;
            }
            let known = DB::remember(&mut *connection, "broker", kind).await.map_err(|error| self.unusable(&error))?;
            if known != kind {
                return Err(Unprepared::Never(StartProblem::new(
                    "broker",
                    format!(
                        "this database worked with the broker `{known}` before, and this runtime is configured for `{kind}`"
                    ),
                    if known == "database" {
                        "configure `database`, or, if the change is meant, set OUTBOX_BROKER_MOVED_FROM=database or call `.moved_from(Broker::Database)`: what waits in the database's queues is then still handled".to_owned()
                    } else {
                        format!(
                            "configure `{known}`, or, if the change is meant and its queues are empty: UPDATE outbox_settings SET value = '{kind}' WHERE key = 'broker'"
                        )
                    },
                )));
            }
        }
        DB::recover(connection, &ownership).await.map_err(|error| self.unusable(&error))?;
        session.release();
        Ok(ownership)
    }

    /// Before the pools open a connection: a pooler that loses prepared statements would fail one statement or the other, now and then, for ever.
    async fn see_through_poolers(
        &self,
        fresh: &mut DB::Connection,
        options: &<DB::Connection as sqlx::Connection>::Options,
    ) -> Result<(), Unprepared> {
        match DB::pooling(fresh, options).await.map_err(|error| self.unusable(&error))? {
            Pooling::Sessions => {
                self.own_sessions.store(true, Ordering::Release);
                Ok(())
            }
            Pooling::Transactions => {
                tracing::info!(database = %self.shown, "the database is behind a transaction pooler; prepared statements survive it, and wake-ups by LISTEN are not relied on");
                Ok(())
            }
            Pooling::Unusable(why) => Err(self.pooled(&why)),
        }
    }

    async fn archive_is_there(&self, connection: &mut DB::Connection, table: &ArchiveTable) -> Result<(), Unprepared> {
        let not_yet = |problem: String, cure: &str| {
            Unprepared::NotYet(StartProblem::new("retention", format!("{}: {problem}", self.shown), cure))
        };
        let creates = self.migrations == Migrations::Run;
        let state = DB::prepare_archive(connection, table, creates).await.map_err(|error| {
            not_yet(
                format!("rows cannot be moved to the archive {table}: {error}"),
                "give the user of the runtime INSERT on the table (and CREATE on its schema, if the runtime is to make it), and its columns the types of those of outbox_messages",
            )
        })?;
        match state {
            ArchiveState::Ready => Ok(()),
            ArchiveState::MissingTable => Err(not_yet(
                format!("there is no table {table} to move published rows to"),
                "create it (docs/operations.md, Retention, has the statement), or start once with `Migrations::Run`",
            )),
            ArchiveState::MissingColumns(columns) => Err(not_yet(
                format!("the archive {table} lacks the columns {}", columns.join(", ")),
                "add them with the types of those of outbox_messages (docs/operations.md, Retention), or name another table",
            )),
        }
    }

    fn pooled(&self, why: &str) -> Unprepared {
        Unprepared::Never(StartProblem::new(
            SETTING,
            format!("{}: a pooler gives its sessions to another client after each transaction, and {why}", self.shown),
            DB::cure(Some("26000")),
        ))
    }

    async fn own(&self) -> Result<Ownership, Unprepared> {
        DB::own(&self.pool).await.map_err(|error| match error {
            NotOwned::Taken(who) => Unprepared::Never(StartProblem::new(
                SETTING,
                format!("{}: {who}", self.shown),
                "one process works with a SQLite file: stop the other one, or give this one a file of its own, or move to PostgreSQL; a process that only enqueues uses `Role::PublishOnly`",
            )),
            NotOwned::LockFile(error) => Unprepared::Never(StartProblem::new(
                SETTING,
                format!("{}: its lock file beside it cannot be used: {error}", self.shown),
                "give the user of this process the right to create files in that directory",
            )),
        })
    }

    fn unusable(&self, error: &sqlx::Error) -> Unprepared {
        let problem = explain::database::<DB>(SETTING, &self.shown, error);
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        // A statement that is there already, or not any more: a pooler under load that was not found out by its sessions.
        if error.to_string().contains("statement pooling mode") {
            return Unprepared::Never(StartProblem::new(
                SETTING,
                problem.problem,
                "events are written in transactions: let the pooler give a session (pool_mode = session) or a transaction, or use a URL that goes to the server itself",
            ));
        }
        if let Some("42P05" | "26000") = code.as_deref() {
            return self.pooled(&format!("prepared statements do not survive it: {error}"));
        }
        if DB::hopeless(code.as_deref()) { Unprepared::Never(problem) } else { Unprepared::NotYet(problem) }
    }

    fn unmigrated(&self, error: sqlx::migrate::MigrateError) -> Unprepared {
        use sqlx::migrate::MigrateError;
        match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => self.unusable(&error),
            MigrateError::VersionMissing(version) => Unprepared::Never(StartProblem::new(
                SETTING,
                format!(
                    "{}: it was written by a newer version of outbox (migration {version}), which this one does not know",
                    self.shown
                ),
                "start that version, or restore a backup from before; nothing was changed",
            )),
            other => Unprepared::Never(StartProblem::new(
                SETTING,
                format!("{}: the tables cannot be brought up to date: {other}", self.shown),
                "was a migration edited by hand? compare `_outbox_migrations` with `outbox::migrations::sql()`",
            )),
        }
    }

    /// Tries until it works; `None` if the runtime stops first, or if it never will.
    pub(super) async fn until_it_works(&self, board: &Board, stopping: &CancellationToken) -> Option<Ownership> {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        let mut trouble = Repeated::new();
        loop {
            let problem = tokio::select! {
                looked = self.once() => match looked {
                    Ok(ownership) => {
                        board.up("database");
                        tracing::info!(database = %self.shown, "the database is there");
                        return Some(ownership);
                    }
                    Err(Unprepared::NotYet(problem)) => problem,
                    Err(Unprepared::Never(problem)) => {
                        tracing::error!(setting = %problem.subject, problem = %problem.problem, cure = %problem.cure, "the runtime cannot work with this database");
                        board.alerts().raise(|| Alert::DatabaseUnusable {
                            problem: problem.problem.clone(),
                            cure: problem.cure,
                        });
                        board.down("database", problem.problem);
                        return None;
                    }
                },
                () = stopping.cancelled() => return None,
            };
            board.down("database", problem.problem.clone());
            if let Some(count) = trouble.note(&problem.problem) {
                tracing::warn!(setting = %problem.subject, problem = %problem.problem, cure = %problem.cure, failures = count, "the database cannot be used yet; trying again for ever");
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.next()) => {}
                () = stopping.cancelled() => return None,
            }
        }
    }
}
