//! Looking into the outbox, and acting on single events: for a command line, a dashboard, or a test of yours.
//!
//! Everything here is safe beside running relays, in any number. An action takes a row only if no relay has it, under the row's lock, in a
//! transaction that is flushed to the disk before the call returns; a row that a relay has at the moment is reported as [`RowOutcome::Busy`].
//!
//! ```no_run
//! # extern crate outbox_runtime as outbox;
//! # #[cfg(feature = "postgres")]
//! # async fn look(pool: sqlx::PgPool) -> Result<(), outbox::admin::AdminError> {
//! use outbox::admin::{Admin, Filter, Page, Selection, EventStatus};
//!
//! let admin = Admin::new(pool);
//! println!("{} held, {} Failed", admin.counts().await?.held, admin.counts().await?.status(EventStatus::Failed));
//! let failed = Filter::new().status(EventStatus::Failed).event_type("order.created");
//! for event in admin.list(&failed, Page::of(50)).await?.events {
//!     println!("{} {:?}", event.event_id, event.last_error);
//! }
//! let report = admin.retry_now(Selection::of(failed)).await?;
//! println!("{} of {} are due now", report.done(), report.rows.len());
//! # Ok(()) }
//! ```

mod act;
mod action;
mod counts;
mod cursor;
mod error;
mod event;
mod filter;
mod list;
mod problem;
mod report;
mod selection;
mod show;

pub use self::counts::{Count, Counts, TypeCount};
pub use self::cursor::Cursor;
pub use self::error::AdminError;
pub use self::event::Event;
pub use self::filter::Filter;
pub use self::list::{Listed, Page};
pub use self::problem::FilterProblem;
pub use self::report::{Report, ReportRow, RowOutcome};
pub use self::selection::Selection;
pub use self::show::Show;
pub use crate::outbox::EventStatus;

#[doc(hidden)]
pub use self::action::Action;
#[doc(hidden)]
pub use self::counts::RawCounts;
#[doc(hidden)]
pub use self::filter::Scan;
pub(crate) use self::filter::{Path, time as admin_time};
pub(crate) use self::list::Placed;
#[doc(hidden)]
pub use self::list::Scanned;
#[doc(hidden)]
pub use self::report::Found;

use std::fmt;
use std::time::Duration;

use sqlx::Pool;

use crate::store::Store;
use crate::store::session::{Session, within};

/// How long one statement may take.
const STATEMENT: Duration = Duration::from_secs(30);

/// The outbox of one database.
///
/// It borrows connections of the pool for single statements and keeps nothing. Cloning it is cheap.
pub struct Admin<DB: Store> {
    pool: Pool<DB>,
}

impl<DB: Store> Admin<DB> {
    /// Works on the tables that this pool's `search_path` finds. Nothing is asked of the database yet.
    pub fn new(pool: Pool<DB>) -> Self {
        Self { pool }
    }

    /// A statement that reads, on a session that is closed hard if this is dropped half-way.
    async fn read<T>(
        &self,
        doing: &'static str,
        statement: impl AsyncFnOnce(&mut DB::Connection) -> Result<T, sqlx::Error>,
    ) -> Result<T, AdminError> {
        let result = async {
            let mut session = Session::reader(&self.pool).await?;
            let result = within(STATEMENT, statement(session.connection()?)).await;
            session.finish(result)
        };
        result.await.map_err(|error| AdminError::database::<DB>(doing, error))
    }
}

impl<DB: Store> Clone for Admin<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone() }
    }
}

impl<DB: Store> fmt::Debug for Admin<DB> {
    /// Without the pool: its options have a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("database", &DB::KIND).finish_non_exhaustive()
    }
}
