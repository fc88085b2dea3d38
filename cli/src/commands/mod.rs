//! The verbs.

pub(crate) mod bench;
pub(crate) mod generate;
pub(crate) mod verify;
