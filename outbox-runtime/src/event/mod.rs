//! What an event is: a Rust type with a name, a version, a place to go to and a form on the wire.

mod descriptor;
pub(crate) mod draft;
mod enqueue;
pub mod envelope;
mod headers;
mod id;
mod key;
mod metadata;
pub mod name;
pub mod trace;

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::descriptor::{Envelope, EventDescriptor, OnFailed, Unroutable};
pub use self::draft::Draft;
pub use self::enqueue::Enqueue;
pub use self::headers::HeaderMap;
pub use self::id::EventId;
pub use self::key::KeyField;
pub use self::metadata::Metadata;

pub(crate) use self::headers::{HEADERS_BYTES, amqp_bytes, check as check_headers};

/// A type that can be written to the outbox and handled by a consumer. `#[event]` implements it.
///
/// ```ignore
/// #[outbox::event(name = "order.created", exchange = "orders.events", key = order_id)]
/// #[derive(Debug, serde::Serialize, serde::Deserialize)]
/// pub struct OrderCreated { pub order_id: String, pub quantity: i32 }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event",
    label = "not an event",
    note = "annotate the struct: `#[outbox::event(name = \"order.created\")]` beside `#[derive(serde::Serialize, serde::Deserialize)]`"
)]
pub trait Event: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Name, version, destination, form: all that is known at compile time.
    const DESCRIPTOR: &'static EventDescriptor;

    /// The value of the field that `key` names, as text: the id of the aggregate that this event belongs to.
    fn key(&self) -> Option<Cow<'_, str>>;
}
