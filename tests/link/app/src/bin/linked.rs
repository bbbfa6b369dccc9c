//! Names the crate by the macro.

outbox::link!(outbox_link_handlers);

include!("../print.rs");
