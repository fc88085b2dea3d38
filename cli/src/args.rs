//! Flags of the commands, and those that all of them share.
//!
//! `command_line::flags` adds what follows from a flag's name, type and group: upstream's spelling,
//! negative numbers, completion of files, and which flags the short help leaves out.

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "flags are documented for the terminal: `[default: 0.1]`"
)]

pub(crate) use global::{Global, Typed, Watch};

pub(crate) mod adapter;
pub(crate) mod after;
pub(crate) mod codec;
pub(crate) mod compute;
pub(crate) mod config;
pub(crate) mod device;
pub(crate) mod doctor;
pub(crate) mod editing;
pub(crate) mod files;
pub(crate) mod generate;
mod global;
pub(crate) mod language;
pub(crate) mod model;
pub(crate) mod plan;
pub(crate) mod sampler;
pub(crate) mod sampling;
pub(crate) mod serve;
pub(crate) mod sound;
pub(crate) mod speak;
pub(crate) mod thinking;
pub(crate) mod train;
pub(crate) mod values;
pub(crate) mod voice;
