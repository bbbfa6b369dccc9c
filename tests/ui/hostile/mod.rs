//! One kind of surroundings per module.

pub mod arguments;
pub mod attributes;
pub mod const_paths;
pub mod krate;
pub mod lists;
pub mod macro_rules;
pub mod modules;
pub mod no_prelude;
pub mod raw;
pub mod shadowed;
