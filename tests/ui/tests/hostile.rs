//! What must compile: surroundings that break code which is not generated with care. Both editions run it.

#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unused_qualifications, unreachable_pub, elided_lifetimes_in_paths)]
#![deny(clippy::all, clippy::pedantic)]
#![allow(clippy::unused_async, reason = "a handler is asynchronous even if it has nothing to wait for")]

#[path = "../hostile/mod.rs"]
pub mod hostile;

use outbox::__private::{Registration, linked};

/// All of them, and each once.
#[test]
fn everything_is_registered() {
    let (mut events, mut handlers, mut consumers) = (Vec::new(), Vec::new(), Vec::new());
    for registration in linked() {
        match registration {
            Registration::Event(event) => events.push(event.name),
            Registration::Handler(handler) => handlers.push((handler.name, handler.event.name)),
            Registration::Consumer(consumer) => consumers.push(consumer.name),
        }
    }
    events.sort_unstable();
    handlers.sort_unstable();
    consumers.sort_unstable();
    assert_eq!(
        events,
        [
            "a.moved",
            "alone",
            "attributes",
            "const.path",
            "dollar.crate",
            "generated.by.macro",
            "in.fn",
            "in.inventory",
            "no.prelude",
            "raw",
            "shadowed"
        ]
    );
    assert_eq!(
        handlers,
        [
            ("arguments", "a.moved"),
            ("attributes", "attributes"),
            ("by_const_path", "const.path"),
            ("by_macro", "generated.by.macro"),
            ("call", "a.moved"),
            ("classified", "a.moved"),
            ("dollar_crate", "dollar.crate"),
            ("in_fn", "in.fn"),
            ("match", "raw"),
            ("no_prelude", "no.prelude"),
            ("reserve", "in.inventory"),
            ("shadowed", "shadowed"),
            ("with_lifetime", "a.moved"),
        ]
    );
    assert_eq!(consumers, ["const.consumer", "hostile"]);
}
