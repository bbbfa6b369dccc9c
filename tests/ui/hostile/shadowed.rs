//! Types with the names of the prelude's.
#![allow(non_camel_case_types, non_upper_case_globals, missing_debug_implementations)]

/// Not a result.
pub struct Result;
/// Not an option.
pub struct Option;
/// Not a box.
pub struct Box;
/// Not a string.
pub struct String;
/// Not a vector.
pub struct Vec;
/// Not a clone-on-write.
pub struct Cow;
/// Not a duration.
pub struct Duration;
/// Not text.
pub struct str;
/// Not a number.
pub struct u32;
/// Not `Some`.
#[allow(non_snake_case)]
pub fn Some() {}
/// Not `Ok`.
#[allow(non_snake_case)]
pub fn Ok() {}
/// Not `Err`.
#[allow(non_snake_case)]
pub fn Err() {}
/// Not `None`.
pub const None: () = ();
/// Not the marker.
pub trait Send {}
/// Not the marker.
pub trait Sync {}
/// Not the marker.
pub trait Sized {}
/// Not the future.
pub trait Future {}
/// Not the conversion.
pub trait From {}
/// Not ours.
pub trait Event {}
/// Not ours.
pub struct Draft;
/// Not a macro of the standard library.
#[macro_export]
macro_rules! line {
    () => {
        compile_error!("the wrong macro")
    };
}

/// An event.
#[outbox::event(name = "shadowed", key = id)]
pub struct Shadowed {
    /// Which.
    pub id: ::core::primitive::u64,
}

impl ::serde::Serialize for Shadowed {
    fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> ::core::result::Result<S::Ok, S::Error> {
        ::serde::Serialize::serialize(&self.id, serializer)
    }
}

impl<'de> ::serde::Deserialize<'de> for Shadowed {
    fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> ::core::result::Result<Self, D::Error> {
        ::core::result::Result::Ok(Self { id: ::serde::Deserialize::deserialize(deserializer)? })
    }
}

#[outbox::handler(consumer = "hostile", timeout = "1s", retry(immediate = 0))]
async fn shadowed(_event: Shadowed, _db: &mut sqlx::PgTransaction<'_>) -> outbox::Result<()> {
    ::core::result::Result::Ok(())
}
