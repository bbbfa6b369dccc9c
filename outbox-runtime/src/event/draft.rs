//! An event made ready to be written: encoded, checked, with its id.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, SubsecRound, Utc};

use crate::error::{EnqueueError, Problem};
use crate::event::trace::{self, TraceContext};
use crate::event::{Enqueue, Event, EventDescriptor, EventId, HeaderMap, check_headers, envelope, name};

/// The longest body, in bytes: what RabbitMQ 4 accepts by default.
pub(crate) const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// An event of any type, ready for [`enqueue_all`](crate::enqueue_all). What is wrong with it is reported there, so that drafts can be
/// collected without a `?` for each.
///
/// ```ignore
/// let ids = outbox::enqueue_all(&mut tx, [order_created.draft(), stock_reserved.draft()]).await?;
/// ```
#[derive(Debug)]
#[must_use = "a draft is written by `enqueue_all`"]
pub struct Draft {
    pub(crate) content: Result<Content, EnqueueError>,
}

/// The columns of an outbox row that the producer decides.
#[derive(Debug)]
pub struct Content {
    pub(crate) event_id: EventId,
    pub(crate) descriptor: EventDescriptor,
    pub(crate) aggregate_id: String,
    pub(crate) occurred_at: DateTime<Utc>,
    pub(crate) payload: String,
    pub(crate) headers: HeaderMap,
    pub(crate) correlation_id: Option<String>,
    pub(crate) causation_id: Option<String>,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) due: Due,
}

/// When it may be published, by the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    At(DateTime<Utc>),
    After(Duration),
}

impl Draft {
    /// Encodes an event.
    pub fn new<E: Event>(event: &E, options: Enqueue) -> Self {
        Self { content: content(event, options) }
    }

    /// The id that the event will have; `None` if the draft cannot be written.
    pub fn event_id(&self) -> Option<&EventId> {
        self.content.as_ref().ok().map(|content| &content.event_id)
    }

    /// Adds what the event whose handler is running passes on, where the draft does not say otherwise.
    pub(crate) fn caused_by(&mut self, cause: &crate::Metadata) {
        if let Ok(content) = &mut self.content {
            content.causation_id.get_or_insert_with(|| cause.event_id.as_str().to_owned());
            content.correlation_id.get_or_insert_with(|| {
                cause.correlation_id.clone().unwrap_or_else(|| cause.event_id.as_str().to_owned())
            });
            if content.trace.is_none() {
                content.trace.clone_from(&cause.trace);
            }
        }
    }
}

fn content<E: Event>(event: &E, options: Enqueue) -> Result<Content, EnqueueError> {
    let descriptor = *E::DESCRIPTOR;
    let invalid = |problems| Err(EnqueueError::invalid(&descriptor, problems));
    let mut problems = Vec::new();
    let mut short = |what, text: Option<String>| {
        if let Some(text) = &text
            && let Err(problem) = name::short_string(text)
        {
            problems.push(Problem::name(what, text, problem));
        }
        text
    };
    let correlation_id = short("correlation id", options.correlation_id);
    let causation_id = short("causation id", options.causation_id);
    let event_id = options.event_id.map_or_else(|| Ok(EventId::new()), EventId::parse);
    let aggregate_id = match (event.key(), &event_id) {
        (Some(key), _) => match name::short_string(&key) {
            Ok(()) => Ok(Cow::into_owned(key)),
            Err(problem) => Err(Problem::name("key", &key, problem)),
        },
        // An event without a key is an aggregate of its own.
        (None, Ok(id)) => Ok(id.as_str().to_owned()),
        (None, Err(_)) => Ok(String::new()),
    };
    check_headers(&options.headers, &mut problems);
    let due = due(&descriptor, options.at, options.after, &mut problems);
    // PostgreSQL keeps microseconds: the body must say the same time as the row.
    let occurred_at = options.occurred_at.unwrap_or_else(SystemTime::now);
    let occurred_at = envelope::to_utc("`occurred_at`", occurred_at).map(|time| time.trunc_subsecs(6));
    match (event_id, aggregate_id, occurred_at) {
        (Ok(event_id), Ok(aggregate_id), Ok(occurred_at)) if problems.is_empty() => {
            let payload = match envelope::encode(event, &descriptor, &event_id, occurred_at) {
                Ok(payload) if payload.len() <= MAX_BODY_BYTES => payload,
                Ok(payload) => return invalid(vec![Problem::too_large("the body", payload.len(), MAX_BODY_BYTES)]),
                Err(problem) => return invalid(vec![problem]),
            };
            Ok(Content {
                event_id,
                descriptor,
                aggregate_id,
                occurred_at,
                payload,
                headers: options.headers,
                correlation_id,
                causation_id,
                trace: trace::current(),
                due,
            })
        }
        (event_id, aggregate_id, occurred_at) => {
            problems.extend(event_id.err());
            problems.extend(aggregate_id.err());
            problems.extend(occurred_at.err());
            invalid(problems)
        }
    }
}

/// When it may be published. What is wrong with it goes to `problems`, and then the result does not matter.
fn due(event: &EventDescriptor, at: Option<SystemTime>, after: Option<Duration>, problems: &mut Vec<Problem>) -> Due {
    if event.ordered && (at.is_some() || after.is_some()) {
        problems.push(Problem::rule(
            "it is `ordered` and cannot be delayed, since the later events of its key would have to wait for it: leave out `at` and `after`, or delay another event type, without `ordered`",
        ));
    }
    if at.is_some() && after.is_some() {
        problems.push(Problem::rule("`at` and `after` are both given: say one of them"));
    }
    let mut due = Due::Now;
    if let Some(at) = at {
        match envelope::to_utc("`at`", at) {
            Ok(at) => due = Due::At(at),
            Err(problem) => problems.push(problem),
        }
    }
    if let Some(after) = after {
        due = Due::After(after);
        // Our clock is near enough to the database's for a question of millennia.
        let what = "the time that `after` leads to";
        let checked = SystemTime::now().checked_add(after).ok_or_else(|| Problem::time(what));
        problems.extend(checked.and_then(|time| envelope::to_utc(what, time)).err());
    }
    due
}
