//! The verbs.

#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "flags are documented for the terminal: `cuda[:N]`"
)]
pub(crate) mod bench;
pub(crate) mod generate;
pub(crate) mod language;
pub(crate) mod plan;
pub(crate) mod text;
pub(crate) mod understand;
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "flags are documented for the terminal: `cuda[:N]`"
)]
pub(crate) mod verify;
