//! The set of events, handlers and consumers that a runtime works with.

pub(crate) mod link;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) mod resolve;
pub(crate) mod settings;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) mod table;

use std::collections::BTreeMap;

use crate::error::StartProblem;
use crate::event::EventDescriptor;
use crate::handler::{ConsumerDescriptor, HandlerDescriptor};
use crate::registry::link::Registration;

/// Everything that was registered, sorted: link order means nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry {
    pub(crate) events: Vec<&'static EventDescriptor>,
    pub(crate) handlers: Vec<&'static HandlerDescriptor>,
    pub(crate) consumers: Vec<&'static ConsumerDescriptor>,
    /// Whether it was given by hand: then nothing that is linked counts.
    pub(crate) explicit: bool,
}

impl Registry {
    /// What the linker collected.
    pub(crate) fn linked() -> Self {
        let mut registry = Self::default();
        for registration in link::linked() {
            match registration {
                Registration::Event(event) => registry.events.push(event),
                Registration::Handler(handler) => registry.handlers.push(handler),
                Registration::Consumer(consumer) => registry.consumers.push(consumer),
            }
        }
        registry.sorted()
    }

    /// What the caller listed.
    pub(crate) fn explicit(handlers: Vec<&'static HandlerDescriptor>) -> Self {
        let events = handlers.iter().map(|handler| handler.event).collect();
        Self { events, handlers, consumers: Vec::new(), explicit: true }.sorted()
    }

    fn sorted(mut self) -> Self {
        self.events.sort_by_key(|event| (event.name, event.version, event.file, event.line));
        self.events.dedup_by_key(|event| (event.name, event.version, event.file, event.line));
        self.handlers.sort_by_key(|h| (h.consumer, h.event.name, h.module, h.name, h.file, h.line));
        self.consumers.sort_by_key(|consumer| (consumer.name, consumer.file, consumer.line));
        self
    }

    /// The problem of a runtime that should consume and has no handler.
    pub(crate) fn nothing(&self) -> Option<StartProblem> {
        let cure = if self.explicit {
            "list them: `.registry(handlers![path::to::handler])`, or leave `.registry(..)` off to use what is linked"
        } else {
            "a crate that no source path names is not linked: write `use my_handlers as _;` or `outbox::link!(my_handlers);` in the binary; \
             a service that only publishes says `.role(Role::Relay)` or `.role(Role::PublishOnly)`"
        };
        let problem = || StartProblem::new("handlers", "no handler is linked into this binary", cure);
        self.handlers.is_empty().then(problem)
    }

    /// Handlers by consumer, in order.
    pub(crate) fn by_consumer(&self) -> BTreeMap<&'static str, Vec<&'static HandlerDescriptor>> {
        let mut consumers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for handler in &self.handlers {
            consumers.entry(handler.consumer).or_default().push(*handler);
        }
        consumers
    }
}
