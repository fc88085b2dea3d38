//! The verbs.

pub(crate) mod adapter;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod codec;
pub(crate) mod doctor;
pub(crate) mod engine;
pub(crate) mod generate;
pub(crate) mod language;
pub(crate) mod memory;
pub(crate) mod plan;
pub(crate) mod plot;
pub(crate) mod target;
pub(crate) mod text;
pub(crate) mod understand;
pub(crate) mod verify;
pub(crate) mod warmup;
