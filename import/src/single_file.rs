//! A model or a codec in one file, of any format, as a directory of the released layout.

use std::path::PathBuf;

use crate::{ModelFormat, Tensors, families::magpie::Spelling, nemo::Texts};

/// A configuration as JSON, and tensors.
#[derive(Debug)]
pub(crate) struct SingleFile {
    pub(crate) path: PathBuf,
    pub(crate) format: ModelFormat,
    pub(crate) config: String,
    pub(crate) tensors: Tensors,
    pub(crate) notices: Vec<String>,
}

/// The content of the file of a model.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) model: SingleFile,
    pub(crate) texts: Texts,
    /// Rows of each voice, if the file says so.
    pub(crate) lengths: Option<Vec<usize>>,
    /// The codec, if it is in the same file.
    pub(crate) codec: Option<Codec>,
}

/// A codec and the spelling of its tensors.
#[derive(Debug)]
pub(crate) struct Codec {
    pub(crate) file: SingleFile,
    pub(crate) spelling: Spelling,
}
