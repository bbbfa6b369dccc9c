//! One run of one handler: what the engine hands to the erased function.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use tokio_util::sync::CancellationToken;

use crate::error::HandlerError;
use crate::event::{Envelope, Metadata};
use crate::handler::{Emit, Handled, StateMap};

/// A boxed future that can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the erased function returns.
pub type HandlerResult = Result<Handled, HandlerError>;

/// The transaction of one run.
#[non_exhaustive]
pub enum TxRef<'t, 'c> {
    /// A transaction on PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(&'t mut sqlx::Transaction<'c, sqlx::Postgres>),
    /// A transaction on SQLite.
    #[cfg(feature = "sqlite")]
    Sqlite(&'t mut sqlx::Transaction<'c, sqlx::Sqlite>),
    /// No transaction: keeps the lifetimes in use in builds without a database.
    #[doc(hidden)]
    None(PhantomData<(&'t (), &'c ())>),
}

/// A message as an extractor sees it.
pub struct Delivery<'a> {
    pub(crate) metadata: &'a Metadata,
    pub(crate) body: &'a [u8],
    pub(crate) form: Envelope,
    pub(crate) states: &'a StateMap,
    pub(crate) cancelled: &'a CancellationToken,
}

impl Delivery<'_> {
    /// Everything beside the body.
    pub fn metadata(&self) -> &Metadata {
        self.metadata
    }

    /// The body, as it came.
    pub fn body(&self) -> &[u8] {
        self.body
    }

    /// The form of the body.
    pub fn form(&self) -> Envelope {
        self.form
    }

    /// A value that was given to the runtime by `.state(..)`.
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<std::sync::Arc<T>> {
        self.states.get::<T>()
    }
}

impl fmt::Debug for Delivery<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("metadata", &self.metadata)
            .field("body_bytes", &self.body.len())
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}

/// One run of one handler.
pub struct Call<'t, 'c> {
    pub(crate) delivery: Delivery<'t>,
    pub(crate) tx: TxRef<'t, 'c>,
    pub(crate) emit: Emit,
}

/// A call taken apart, so that arguments can borrow different parts at the same time.
pub struct Parts<'a, 't, 'c> {
    /// For owned arguments.
    pub delivery: &'a Delivery<'t>,
    pub(crate) tx: Option<&'a mut TxRef<'t, 'c>>,
    pub(crate) emit: Option<&'a mut Emit>,
}

impl<'t, 'c> Call<'t, 'c> {
    /// Takes the call apart.
    pub fn parts(&mut self) -> Parts<'_, 't, 'c> {
        Parts { delivery: &self.delivery, tx: Some(&mut self.tx), emit: Some(&mut self.emit) }
    }
}

impl fmt::Debug for Call<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("delivery", &self.delivery).finish_non_exhaustive()
    }
}

impl fmt::Debug for Parts<'_, '_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("delivery", &self.delivery).finish_non_exhaustive()
    }
}

impl fmt::Debug for TxRef<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TxRef")
    }
}
