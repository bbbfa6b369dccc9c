//! Values that the service gives to its handlers.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::error::HandlerError;
use crate::handler::{Delivery, FromDelivery, Requirements};

/// A value from `Runtime::builder().state(value)`, shared by all handlers.
///
/// ```
/// # extern crate outbox_runtime as outbox;
/// use outbox::State;
///
/// struct Mailer { from: String }
/// let state = State::new(Mailer { from: "shop@example.com".into() });
/// assert_eq!(state.from, "shop@example.com");
/// ```
pub struct State<T>(Arc<T>);

impl<T> State<T> {
    /// For a unit test of a handler.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// The shared value.
    pub fn into_inner(self) -> Arc<T> {
        self.0
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for State<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State<{}>", std::any::type_name::<T>())
    }
}

impl<T: Send + Sync + 'static> FromDelivery for State<T> {
    fn from_delivery(delivery: &Delivery<'_>) -> Result<Self, HandlerError> {
        delivery.state::<T>().map(Self).ok_or_else(|| {
            HandlerError::extract(format!(
                "no state of type `{}`: add `.state(value)` to the runtime's builder",
                std::any::type_name::<T>()
            ))
        })
    }

    fn requires(requirements: &mut Requirements) {
        requirements.state::<T>();
    }
}

/// All states of a runtime, by type.
#[derive(Clone, Default)]
pub struct StateMap(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl StateMap {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>()).cloned().and_then(|value| value.downcast().ok())
    }

    pub(crate) fn contains(&self, id: TypeId) -> bool {
        self.0.contains_key(&id)
    }
}

impl fmt::Debug for StateMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateMap({} values)", self.0.len())
    }
}
