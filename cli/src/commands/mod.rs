//! The verbs.

#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "flags are documented for the terminal: `cuda[:N]`"
)]
pub(crate) mod bench;
pub(crate) mod generate;
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "flags are documented for the terminal: `cuda[:N]`"
)]
pub(crate) mod verify;
