//! Names the library of its own package.

use outbox_link_app as _;

include!("../print.rs");
