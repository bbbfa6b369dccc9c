//! Registration by the linker: the one file that knows `inventory` or `linkme`.
//!
//! `register!` is defined here, twice, under a `cfg` of this crate: a `cfg` inside the expansion would be evaluated in the user's crate.

use crate::event::EventDescriptor;
use crate::handler::{ConsumerDescriptor, HandlerDescriptor};

/// One item that a macro registered.
#[derive(Debug, Clone, Copy)]
pub enum Registration {
    /// An `#[event]`.
    Event(&'static EventDescriptor),
    /// A `#[handler]`.
    Handler(&'static HandlerDescriptor),
    /// A `consumer!`.
    Consumer(&'static ConsumerDescriptor),
}

#[cfg(not(feature = "linkme"))]
inventory::collect!(Registration);

#[cfg(not(feature = "linkme"))]
/// Everything that is linked into this process, in no order.
pub fn linked() -> Vec<Registration> {
    inventory::iter::<Registration>.into_iter().copied().collect()
}

/// Registers one item at link time.
#[cfg(not(feature = "linkme"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __register {
    ($kind:ident, $descriptor:expr) => {
        $crate::__private::inventory::submit! { $crate::__private::Registration::$kind($descriptor) }
    };
}

#[cfg(feature = "linkme")]
#[doc(hidden)]
#[linkme::distributed_slice]
pub static REGISTRATIONS: [Registration];

#[cfg(feature = "linkme")]
/// Everything that is linked into this process, in no order.
pub fn linked() -> Vec<Registration> {
    REGISTRATIONS.iter().copied().collect()
}

/// Registers one item at link time.
#[cfg(feature = "linkme")]
#[doc(hidden)]
#[macro_export]
macro_rules! __register {
    ($kind:ident, $descriptor:expr) => {
        const _: () = {
            #[$crate::__private::linkme::distributed_slice($crate::__private::REGISTRATIONS)]
            #[linkme(crate = $crate::__private::linkme)]
            static REGISTRATION: $crate::__private::Registration = $crate::__private::Registration::$kind($descriptor);
        };
    };
}
