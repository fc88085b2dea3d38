//! Flags of the commands, and those that all of them share.

use std::ffi::OsString;

use clap::FromArgMatches as _;

pub(crate) use global::Typed;

pub(crate) use global::Global;

pub(crate) mod adapter;
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "flags are documented for the terminal: `[default: 0.1]`"
)]
pub(crate) mod after;
pub(crate) mod codec;
pub(crate) mod config;
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "flags are documented for the terminal: `cuda[:N]`"
)]
pub(crate) mod device;
pub(crate) mod doctor;
pub(crate) mod editing;
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "flags are documented for the terminal: `[Verse]`"
)]
pub(crate) mod generate;
mod global;
pub(crate) mod language;
pub(crate) mod model;
pub(crate) mod plan;
pub(crate) mod sampler;
pub(crate) mod sound;
pub(crate) mod thinking;
pub(crate) mod train;

/// Parses `words` as the flags of `generate`.
///
/// # Errors
/// If they are not valid flags.
pub(crate) fn generate_args(words: Vec<OsString>) -> Result<generate::Args, clap::Error> {
    let command = clap::Command::new("generate").bin_name("acestep generate").no_binary_name(true);
    let matches =
        <generate::Args as clap::Args>::augment_args(command).try_get_matches_from(words)?;
    generate::Args::from_arg_matches(&matches)
}
