//! W3C trace context: stored with the row, sent as a header, parent of the handler's span.
//!
//! The runtime itself depends on no tracing backend. A service that has one installs a [`Propagator`]; without one, the context
//! that arrived with an event is handed on to the events that its handler writes.

use std::fmt;
use std::future::Future;
use std::sync::OnceLock;

tokio::task_local! {
    static CURRENT: Option<TraceContext>;
}

static PROPAGATOR: OnceLock<Box<dyn Propagator>> = OnceLock::new();

/// A `traceparent` (and `tracestate`) of the W3C.
///
/// ```
/// # extern crate outbox_runtime as outbox;
/// use outbox::trace::TraceContext;
///
/// let context = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
/// assert_eq!(context.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert!(TraceContext::parse("garbage").is_none());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceContext {
    traceparent: Box<str>,
    tracestate: Option<Box<str>>,
}

impl TraceContext {
    /// Reads a `traceparent`; `None` if it is not one.
    pub fn parse(traceparent: &str) -> Option<Self> {
        let mut parts = traceparent.split('-');
        let hex = |part: Option<&str>, len: usize| {
            part.is_some_and(|p| p.len() == len && p.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)))
        };
        let zero = |from: usize, len: usize| traceparent[from..from + len].bytes().all(|b| b == b'0');
        let ok = hex(parts.next(), 2) && hex(parts.next(), 32) && hex(parts.next(), 16) && hex(parts.next(), 2);
        // Version 00 has exactly four parts; later versions may append some.
        let tail_ok = ok && (parts.next().is_none() || !traceparent.starts_with("00")) && traceparent.len() <= 255;
        if !tail_ok || traceparent.starts_with("ff") || zero(3, 32) || zero(36, 16) {
            return None;
        }
        Some(Self { traceparent: traceparent.into(), tracestate: None })
    }

    /// The same context with a `tracestate`; one over 512 bytes or with control characters is left out, as the W3C allows.
    #[must_use]
    pub fn with_state(mut self, tracestate: &str) -> Self {
        let fits = !tracestate.is_empty() && tracestate.len() <= 512 && !tracestate.chars().any(char::is_control);
        self.tracestate = fits.then(|| tracestate.into());
        self
    }

    /// The whole `traceparent`.
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// The `tracestate`, if there is one.
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// The 32 hexadecimal digits of the trace id.
    pub fn trace_id(&self) -> &str {
        &self.traceparent[3..35]
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.traceparent)
    }
}

/// The bridge to a tracing backend, installed once with [`install`].
pub trait Propagator: Send + Sync + 'static {
    /// The context of the caller's current span: stored with an event at enqueue.
    fn current(&self) -> Option<TraceContext>;
    /// Makes `context` the parent of `span`: called for each handler's span.
    fn set_parent(&self, span: &tracing::Span, context: &TraceContext);
}

/// Installs the bridge to a tracing backend. Only the first call has an effect; it returns whether it was this one.
pub fn install(propagator: impl Propagator) -> bool {
    PROPAGATOR.set(Box::new(propagator)).is_ok()
}

/// Runs `future` with `context` as the one that [`enqueue`](crate::event::Draft) stores when no [`Propagator`] has one: for a web
/// service that passes on the `traceparent` of a request.
pub async fn scope<F: Future>(context: Option<TraceContext>, future: F) -> F::Output {
    CURRENT.scope(context, future).await
}

/// The context that an event enqueued here would be stored with.
pub fn current() -> Option<TraceContext> {
    PROPAGATOR
        .get()
        .and_then(|propagator| propagator.current())
        .or_else(|| CURRENT.try_with(Clone::clone).ok().flatten())
}

pub(crate) fn set_parent(span: &tracing::Span, context: &TraceContext) {
    if let Some(propagator) = PROPAGATOR.get() {
        propagator.set_parent(span, context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_traceparent_is_a_traceparent() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let table = [
            (good.to_owned(), true),
            (format!("{good}-x"), false),
            (good.replacen("00", "01", 1) + "-later", true),
            (good.to_uppercase(), false),
            (good.replacen("00", "ff", 1), false),
            ("00-00000000000000000000000000000000-00f067aa0ba902b7-01".into(), false),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01".into(), false),
            (String::new(), false),
            ("é".repeat(30), false),
        ];
        for (text, ok) in table {
            assert_eq!(TraceContext::parse(&text).is_some(), ok, "{text}");
        }
    }
}
