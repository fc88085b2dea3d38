//! Stored results of a reference, and their comparison with computed ones.
//!
//! | module | contents |
//! |---|---|
//! | [`set`] | the files of a set of goldens |
//! | [`case`], [`ledger`] | one comparison; all of a run, and what a failure does to it |
//! | [`sheet`], [`page`] | the comparisons of a file of tensors, of a file of text |
//! | [`tolerance`] | the allowed difference |
//! | [`message`] | messages between processes |

pub(crate) mod case;
pub(crate) mod ledger;
pub(crate) mod message;
pub(crate) mod page;
pub(crate) mod set;
pub(crate) mod sheet;
pub(crate) mod tolerance;

/// The checkpoints lack a network that a file needs: its cases are skipped.
#[derive(Debug, thiserror::Error)]
#[error("no {0} among the checkpoints")]
pub(crate) struct Lacks(pub(crate) &'static str);

/// Two results of this program that must be equal differ: their cases fail.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Differs(pub(crate) String);
