//! The procedural macros of `outbox`. Use them through the facade crate, which re-exports them.
//!
//! Each macro is a folder with one file per step: parse (tokens to model), validate (checks, no code), expand (code, no errors). The rules
//! and their texts stand in each `rules.rs`.

#[macro_use]
mod common;
mod consumer;
mod event;
mod handler;
mod handlers;
mod link;
#[allow(dead_code, unreachable_pub, reason = "a copy of the runtime's file, kept equal by a test in `outbox-ui-tests`")]
mod name;
mod settings;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Makes a struct or an enum an event.
///
/// ```ignore
/// #[outbox::event(name = "order.created", exchange = "orders.events", key = order_id)]
/// #[derive(Debug, serde::Serialize, serde::Deserialize)]
/// pub struct OrderCreated {
///     pub order_id: String,
///     pub quantity: i32,
/// }
///
/// let id = order_created.enqueue(&mut tx).await?;
/// ```
///
/// It implements `outbox::Event`, registers the event at link time, and adds the methods `draft()`, `enqueue(&mut tx)` and
/// `enqueue_with(&mut tx, options)`. The type has no generic parameters and derives `serde::Serialize` and `serde::Deserialize`.
///
/// | setting | meaning | without it |
/// | --- | --- | --- |
/// | `name = "order.created"` | the name on the wire and the routing key; a string or the path of a constant | required |
/// | `version = 2` | the version of the event's own fields, from 1 | 1 |
/// | `exchange = "orders.events"` | where it is published; a string or the path of a constant | `outbox.events` |
/// | `key = order_id` | the field whose text is the aggregate's id; its type implements `Display`; in an enum, of every variant | the event is an aggregate of its own |
/// | `aggregate = "order"` | the kind of thing it happened to; a string or the path of a constant | the name up to its last dot |
/// | `envelope = "flat"` | the form of the body: `flat`, `versioned`, `bare` or `cloudevents` | `flat` |
/// | `unroutable = "hold"` | while no queue wants it: `hold` it, `fail` when its attempts are spent, or `discard` it | `hold` |
/// | `ordered` | events of one key reach the consumers in the order of their commits; needs `key` | no order |
/// | `on_failed = "skip"` | whether later events of the key wait for one that failed (`block`), or go on without it (`skip`); needs `ordered` | `block` |
/// | `max_attempts = 20` | how often it may be refused, or returned with `unroutable = "fail"`, before it is `Failed` | 20 |
/// | `max_age = "2h"` | how long after the enqueue it may fail before its budget is spent, however many attempts are left (`ms`, `s`, `m`, `h`) | any age |
/// | `backoff = "1s..60s"` | the pause after a failed attempt: the first one, and the longest that doubling leads to | `"1s..60s"` |
/// | `crate = ::path` | where `outbox` is, if a crate re-exports it; an absolute path | `::outbox` |
///
/// An event with `unroutable = "hold"` that no queue wants is never `Failed`, whatever its age and its attempts; with `on_failed = "skip"` the
/// later events of its key go on without it after `max_age`.
///
/// # The flat envelope
///
/// It puts `eventId`, `eventType`, `occurredAt` and `eventVersion` beside the type's own fields, so the type must be written as a JSON object
/// and have no field of such a name. That is true of a struct with named fields and of an enum with `#[serde(tag = "..")]`; for other
/// types, use `envelope = "versioned"`. What cannot be seen in the source (a `Serialize` written by hand, `#[serde(into = "..")]`) is
/// checked whenever an event is encoded.
///
/// # With serde's attributes
///
/// `rename`, `rename_all`, `flatten`, `deny_unknown_fields`, `tag` and the others are honoured, also within a `cfg_attr`.
#[proc_macro_attribute]
pub fn event(settings: TokenStream, item: TokenStream) -> TokenStream {
    event::attribute(settings.into(), item.into()).into()
}

/// The second step of `#[event]`.
#[doc(hidden)]
#[proc_macro_derive(Event, attributes(__outbox_event))]
pub fn derive_event(input: TokenStream) -> TokenStream {
    event::derive(input.into()).into()
}

/// Makes a free async function the handler of an event.
///
/// ```ignore
/// #[outbox::handler(consumer = "inventory", timeout = "30s", retry(immediate = 2, delays = "1s..10m", max_attempts = 8))]
/// async fn reserve_stock(order: OrderCreated, db: &mut sqlx::PgConnection) -> sqlx::Result<()> {
///     sqlx::query("INSERT INTO reservations VALUES ($1, $2)").bind(order.order_id).bind(order.quantity).execute(db).await?;
///     Ok(())
/// }
/// ```
///
/// The function stays as it is and can be called in a unit test. Beside it stands a hidden static, its descriptor, which is registered at
/// link time and which `handlers![reserve_stock]` names.
///
/// # Arguments
///
/// The first is the event, by value, or `outbox::Message<E>` for the event and its metadata. Then, in any order:
///
/// - `&mut sqlx::PgConnection` or `&mut sqlx::PgTransaction<'_>`: the transaction that also holds the record of this delivery;
/// - `&mut outbox::Emit`: collects events that are written in this transaction;
/// - by value `Metadata`, `State<T>`, `IdempotencyKey`, `Cancelled`, or anything that implements `FromDelivery`.
///
/// # Result
///
/// `Result<R, E>`. `R` is `()`, an event, `Option`, `Vec` or a tuple of events, or an `Outcome`. `E` is anything that converts into
/// `Box<dyn Error + Send + Sync>`; one that implements `Classify` says whether a retry makes sense.
///
/// # Settings
///
/// | setting | meaning |
/// | --- | --- |
/// | `consumer = "inventory"` | the consumer it belongs to; a string or the path of a constant; required |
/// | `queue = "inventory.orders"` | the consumer's queue; a string or the path of a constant; the consumer's name by default |
/// | `concurrency = 8` | how many deliveries are handled at the same time |
/// | `prefetch = 32` | how many deliveries the broker may send ahead; at least `concurrency` |
/// | `timeout = "30s"` | how long one run may take (`ms`, `s`, `m`, `h`) |
/// | `retry(immediate = 2, delays = "1s..10m", max_attempts = 8)` | runs that follow at once; the first and the longest delay between later ones; all runs together |
/// | `crate = ::path` | where `outbox` is, if a crate re-exports it; an absolute path |
///
/// All but `consumer` and `crate` belong to the consumer: they may stand on one of its handlers, or in [`consumer!`].
#[proc_macro_attribute]
pub fn handler(settings: TokenStream, item: TokenStream) -> TokenStream {
    handler::handler(settings.into(), item.into()).into()
}

/// Says once what is true of a consumer, whatever its handlers are.
///
/// ```ignore
/// outbox::consumer! {
///     name = "inventory",
///     queue = "inventory.orders",
///     concurrency = 8,
///     prefetch = 32,
///     timeout = "30s",
///     retry(immediate = 2, delays = "1s..10m", max_attempts = 8),
/// }
/// ```
///
/// The settings are those of [`macro@handler`], with `name` for the consumer.
#[proc_macro]
pub fn consumer(input: TokenStream) -> TokenStream {
    consumer::consumer(input.into()).into()
}

/// A list of handlers, for a runtime that is to have these and no others.
///
/// ```ignore
/// let runtime = outbox::Runtime::builder().registry(outbox::handlers![orders::reserve_stock, orders::release_stock]);
/// ```
///
/// Each is the path of a function with [`macro@handler`], by the module that it stands in: its hidden descriptor is taken from there.
/// The list is an array of `&'static outbox::HandlerDescriptor`, and may be empty.
#[proc_macro]
pub fn handlers(input: TokenStream) -> TokenStream {
    handlers::handlers(input.into()).into()
}

/// Links crates whose handlers are wanted and of which nothing else is named.
///
/// ```ignore
/// outbox::link!(orders, billing);
/// ```
///
/// A crate that stands in `Cargo.toml` alone is not linked, and its handlers are not there. This is `use orders as _; use billing as _;`.
#[proc_macro]
pub fn link(input: TokenStream) -> TokenStream {
    link::link(input.into()).into()
}
