//! What a handler is to the engine: a descriptor with one erased function, and the traits that its arguments and its result fulfil.

mod argument;
mod call;
mod classify;
mod descriptor;
mod emit;
mod extract;
mod message;
mod outcome;
mod state;

pub use self::argument::CallArgument;
pub use self::call::{BoxFuture, Call, Delivery, HandlerResult, Parts, TxRef};
pub use self::classify::{ClassifyFallback, ErrorProbe, HandlerFailure};
pub use self::descriptor::{
    ConsumerDescriptor, ConsumerSettings, DatabaseKind, HandlerDescriptor, RetrySettings, one_database,
};
pub use self::emit::Emit;
pub use self::extract::{Cancelled, FromDelivery, IdempotencyKey, Requirements};
pub use self::message::{EventArgument, Message};
pub use self::outcome::{Handled, HandlerReturn, IntoEvents, IntoOutcome, Outcome};
pub use self::state::{State, StateMap};
