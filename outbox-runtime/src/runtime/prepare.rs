//! What must be true of the database before anything runs: reachable, up to date, and used with the same kind of broker as before.

use std::time::Duration;

use sqlx::Pool;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::error::StartProblem;
use crate::runtime::engine::STATEMENT;
use crate::runtime::health::Board;
use crate::runtime::{Migrations, explain};
use crate::store::Store;
use crate::store::session::{Session, within};
use crate::telemetry::Repeated;

/// How long the first look at the database may take before the runtime starts without it.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// What must be true of the database before anything runs.
pub(super) struct Prepare<DB: Store> {
    pub(super) pool: Pool<DB>,
    pub(super) migrations: Migrations,
    pub(super) broker_kind: Option<&'static str>,
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
    pub(super) async fn once(&self) -> Result<(), Unprepared> {
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

    async fn look(&self) -> Result<(), Unprepared> {
        let not_yet = |error: &sqlx::Error| Unprepared::NotYet(explain::database(SETTING, &self.shown, error));
        // The pool would try again for all of its acquire_timeout and then say no more than that; a connection of its own tells why at once.
        let options = self.pool.connect_options();
        let tried = <DB::Connection as sqlx::Connection>::connect_with(&options);
        let probe = within(FIRST_LOOK, tried).await.map_err(|error| not_yet(&error))?;
        let _ = within(FIRST_LOOK, sqlx::Connection::close(probe)).await;
        let mut session = Session::acquire(&self.pool).await.map_err(|error| not_yet(&error))?;
        let connection = session.connection().map_err(|error| not_yet(&error))?;
        match self.migrations {
            Migrations::Run => DB::migrate(&mut *connection).await.map_err(|error| self.unmigrated(error))?,
            Migrations::Check => {
                let missing = DB::missing_migrations(&mut *connection).await.map_err(|error| not_yet(&error))?;
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
        if let Some(kind) = self.broker_kind {
            let known = DB::remember(&mut *connection, "broker", kind).await.map_err(|error| not_yet(&error))?;
            if known != kind {
                return Err(Unprepared::Never(StartProblem::new(
                    "broker",
                    format!(
                        "this database worked with the broker `{known}` before, and this runtime is configured for `{kind}`"
                    ),
                    format!(
                        "configure `{known}`, or, if the change is meant: UPDATE outbox_settings SET value = '{kind}' WHERE key = 'broker'"
                    ),
                )));
            }
        }
        session.release();
        Ok(())
    }

    fn unmigrated(&self, error: sqlx::migrate::MigrateError) -> Unprepared {
        use sqlx::migrate::MigrateError;
        match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
                Unprepared::NotYet(explain::database(SETTING, &self.shown, &error))
            }
            other => Unprepared::Never(StartProblem::new(
                SETTING,
                format!("{}: the tables cannot be brought up to date: {other}", self.shown),
                "was a migration edited by hand? compare `_outbox_migrations` with `outbox::migrations::sql()`",
            )),
        }
    }

    /// Tries until it works; `false` if the runtime stops first, or if it never will.
    pub(super) async fn until_it_works(&self, board: &Board, stopping: &CancellationToken) -> bool {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        let mut trouble = Repeated::new();
        loop {
            let problem = tokio::select! {
                looked = self.once() => match looked {
                    Ok(()) => {
                        board.up("database");
                        tracing::info!(database = %self.shown, "the database is there");
                        return true;
                    }
                    Err(Unprepared::NotYet(problem)) => problem,
                    Err(Unprepared::Never(problem)) => {
                        tracing::error!(setting = %problem.subject, problem = %problem.problem, cure = %problem.cure, "the runtime cannot work with this database");
                        board.down("database", problem.problem);
                        return false;
                    }
                },
                () = stopping.cancelled() => return false,
            };
            board.down("database", problem.problem.clone());
            if let Some(count) = trouble.note(&problem.problem) {
                tracing::warn!(setting = %problem.subject, problem = %problem.problem, cure = %problem.cure, failures = count, "the database cannot be used yet; trying again for ever");
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.next()) => {}
                () = stopping.cancelled() => return false,
            }
        }
    }
}
