//! The callback, erased.

use std::fmt;
use std::sync::Arc;

use crate::alert::Alert;
use crate::handler::BoxFuture;

/// What an alert callback may return: nothing, or a `Result` whose error is logged and counted.
#[diagnostic::on_unimplemented(
    message = "an alert callback returns `()` or a `Result<(), E>` whose `E` can be shown",
    label = "this cannot be the answer to an alert"
)]
pub trait AlertAnswer {
    /// The error's text.
    #[doc(hidden)]
    fn answer(self) -> Result<(), String>;
}

impl AlertAnswer for () {
    fn answer(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: fmt::Display> AlertAnswer for Result<(), E> {
    fn answer(self) -> Result<(), String> {
        self.map_err(|error| error.to_string())
    }
}

type Call = dyn Fn(Alert) -> BoxFuture<'static, Result<(), String>> + Send + Sync;

/// The service's callback.
#[derive(Clone)]
pub(crate) struct AlertHook(Arc<Call>);

impl AlertHook {
    pub(crate) fn new<F, Fut>(call: F) -> Self
    where
        F: Fn(Alert) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: AlertAnswer> + Send + 'static,
    {
        Self(Arc::new(move |alert| {
            let called = call(alert);
            Box::pin(async move { called.await.answer() })
        }))
    }

    /// Calls it; what it does before its first await happens when this is polled.
    pub(super) async fn call(&self, alert: Alert) -> Result<(), String> {
        (self.0)(alert).await
    }
}

impl fmt::Debug for AlertHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AlertHook")
    }
}
