//! Everything about one event.

use std::future::IntoFuture;

use crate::admin::{Admin, AdminError, Event, FilterProblem};
use crate::handler::BoxFuture;
use crate::store::Store;

/// A look at one event: await it. See [`Admin::show`].
#[derive(Debug)]
#[must_use = "nothing is looked at until it is awaited"]
pub struct Show<'a, DB: Store> {
    admin: &'a Admin<DB>,
    event_id: String,
    payload: bool,
}

impl<DB: Store> Admin<DB> {
    /// Shows one event, with its headers and with what it waits for; `None` if it is not in the outbox (any more).
    ///
    /// ```no_run
    /// # extern crate outbox_runtime as outbox;
    /// # use outbox::{Store, admin::{Admin, AdminError}};
    /// # async fn show<DB: Store>(admin: Admin<DB>) -> Result<(), AdminError> {
    /// let event = admin.show("01JAB3..").payload(true).await?;
    /// # let _ = event;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`AdminError::Invalid`], [`AdminError::Tables`], [`AdminError::Database`].
    ///
    /// # Cancel safety
    /// It can be dropped at any time.
    pub fn show(&self, event_id: impl Into<String>) -> Show<'_, DB> {
        Show { admin: self, event_id: event_id.into(), payload: false }
    }
}

impl<DB: Store> Show<'_, DB> {
    /// Whether the body is read as well. It may be business data: nothing but the returned value shows it.
    pub fn payload(mut self, payload: bool) -> Self {
        self.payload = payload;
        self
    }
}

impl<'a, DB: Store> IntoFuture for Show<'a, DB> {
    type Output = Result<Option<Event>, AdminError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            AdminError::invalid(id_problem(&self.event_id).into_iter().collect())?;
            let (id, payload) = (self.event_id.as_str(), self.payload);
            self.admin
                .read("looking at an event", async |connection| DB::admin_show(connection, id, payload).await)
                .await
        })
    }
}

/// The longest id that a row may have.
const ID_BYTES: usize = 64;

/// What is wrong with an id.
pub(super) fn id_problem(id: &str) -> Option<FilterProblem> {
    (id.is_empty() || id.len() > ID_BYTES || id.contains('\0')).then(|| FilterProblem::Text {
        what: "event id",
        value: id.chars().take(64).collect(),
        limit: ID_BYTES,
    })
}
