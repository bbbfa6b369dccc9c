//! Names the crate, and nothing of it.

use outbox_link_handlers as _;

include!("../print.rs");
