//! Errors between a directory of files and a network, with their remedies.
//!
//! Every message names the file and, if there is one, the tensor; [`Error::hint`] is the remedy.

use std::{fmt, io, path::PathBuf};

use acestep_model::ConfigError;

use crate::families::Release;
pub use adapter::AdapterError;

mod adapter;

/// A list of names for a message: the first eight, then the number of the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameList(pub Vec<String>);

impl fmt::Display for NameList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        for (i, name) in self.0.iter().take(SHOWN).enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}`{name}`")?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Searched directories, one per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places(pub Vec<PathBuf>);

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "\n  looked nowhere: there is no models directory");
        }
        self.0.iter().try_for_each(|path| write!(f, "\n  looked for {}", path.display()))
    }
}

/// Formats files with the problem of each, one per line.
fn listed(files: &[(PathBuf, String)]) -> String {
    let line = |(path, reason): &(PathBuf, String)| {
        format!("\n  found `{}`, but it does not fit: {reason}", path.display())
    };
    files.iter().map(line).collect()
}

/// Formats files, one per line.
fn paths(files: &[PathBuf]) -> String {
    files.iter().map(|path| format!("\n  found `{}`", path.display())).collect()
}

/// An unknown name, and the known names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// The name as given.
    pub name: String,
    /// The known names.
    pub names: Vec<&'static str>,
}

/// An error while a checkpoint is found, read or turned into a network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what most fields hold")]
pub enum Error {
    /// The operating system refused.
    #[error("cannot read `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// A model, or a network that it needs, is not on this machine.
    #[error("{what} is not on this machine{looked_for}")]
    Absent {
        /// The requested item, as a noun phrase.
        what: String,
        looked_for: Places,
        remedy: String,
        /// The model, if it is a published one.
        known: Option<&'static Release>,
        /// The name, if it is unknown.
        unknown: Option<Box<Unknown>>,
    },
    /// A model of songs in place of one of speech, or the reverse.
    #[error("`{name}` makes {makes}, not {wanted}")]
    OtherKind { name: String, makes: &'static str, wanted: &'static str },
    /// A directory lacks a file.
    #[error("`{}` is missing{}", path.display(), alternatives)]
    MissingFile {
        path: PathBuf,
        /// Alternative files, as text that follows "is missing"; may be empty.
        alternatives: String,
    },
    /// A file in place of a directory.
    #[error("`{}` is not a directory", path.display())]
    NotADirectory { path: PathBuf },
    /// The directory holds something other than the requested network.
    #[error("`{}` holds {found}, not {wanted}", path.display())]
    WrongDirectory {
        path: PathBuf,
        wanted: &'static str,
        /// The kind according to `config.json`.
        found: String,
    },
    /// Another program's file, of an unsupported kind or form.
    #[error("`{}` cannot be read: {reason}", path.display())]
    Foreign { path: PathBuf, reason: String, remedy: String },
    /// Another program's file lacks a part that a release has.
    #[error("`{}` holds no {piece}, and none that fits was found{}{looked_for}",
        path.display(), listed(tried))]
    MissingPiece {
        path: PathBuf,
        /// The missing part, as a noun.
        piece: &'static str,
        looked_for: Places,
        /// The files found, and the reason why each does not fit.
        tried: Vec<(PathBuf, String)>,
        remedy: String,
    },
    /// Several files could be a network that a model needs.
    #[error("{what} can be any of several files{}", paths(found))]
    Ambiguous {
        /// The searched item, as a noun phrase.
        what: String,
        found: Vec<PathBuf>,
        remedy: String,
    },
    /// The file is shorter than its header says.
    #[error("`{}` is cut: it has {found} bytes and its header speaks of {needed}", path.display())]
    Cut { path: PathBuf, needed: u64, found: u64 },
    /// The file has changed since it was opened.
    #[error("`{}` {how} while it was in use", path.display())]
    Changed {
        path: PathBuf,
        /// The change, as a predicate.
        how: String,
    },
    /// A file of quantised matrices that are those of other weights.
    #[error("`{}` does not belong to `{}`", path.display(), weights.display())]
    OtherQuantized { path: PathBuf, weights: PathBuf },
    /// A file of quantised weights that is damaged.
    #[error(transparent)]
    BadQuantized(Box<Self>),
    /// A file could not be written.
    #[error("cannot write `{}`", path.display())]
    NotWritten { path: PathBuf, source: io::Error },
    /// A model inside the program, which has no folder.
    #[error("`{name}` is part of the program: no file can lie beside its weights")]
    NoPlace { name: String },
    /// The file goes on after its last tensor.
    #[error("`{}` is too long: it has {found} bytes and its header speaks of {needed}", path.display())]
    TooLong { path: PathBuf, needed: u64, found: u64 },
    /// The header claims an impossible size.
    #[error("`{}` claims a header of {claimed} bytes, the limit is {limit}", path.display())]
    HugeHeader { path: PathBuf, claimed: u64, limit: u64 },
    /// The header is malformed.
    #[error("the header of `{}` is broken: {reason}", path.display())]
    BadHeader { path: PathBuf, reason: String },
    /// A tensor has a type that weights cannot have.
    #[error("tensor `{tensor}` of `{}` is {found}, weights are F32, F16 or BF16", path.display())]
    WrongDtype { path: PathBuf, tensor: String, found: String },
    /// A tensor has values that f16 cannot hold.
    #[error("tensor `{tensor}` of `{}` has values beyond 65504, the largest number of f16", path.display())]
    BeyondF16 { path: PathBuf, tensor: String },
    /// The network has parameters that the file does not have.
    #[error("`{}` has no tensor {names}, which the {part} needs", path.display())]
    MissingTensors {
        /// The safetensors file or index.
        path: PathBuf,
        part: &'static str,
        /// Names as they would be in the file.
        names: NameList,
    },
    /// The file has tensors that no network uses.
    #[error("`{}` has {count} {} that the {part} does not use: {names}", path.display(),
        if *count == 1 { "tensor" } else { "tensors" })]
    UnusedTensors {
        /// The safetensors file or index.
        path: PathBuf,
        part: &'static str,
        count: usize,
        /// Names as they are in the file.
        names: NameList,
    },
    /// Two tensors of the file belong to the same parameter.
    #[error("`{first}` and `{second}` of `{}` are the same parameter", path.display())]
    SameParameter {
        /// The safetensors file or index.
        path: PathBuf,
        first: String,
        second: String,
    },
    /// A tensor has another shape than the description of the network implies.
    #[error("tensor `{tensor}` of `{}` is {found:?}, but by {by} it is {expected:?}", path.display())]
    WrongShape {
        path: PathBuf,
        tensor: String,
        /// The description that gives the expected shape.
        by: &'static str,
        expected: Vec<usize>,
        found: Vec<usize>,
    },
    /// The index names a missing file.
    #[error("`{}` names the shard `{shard}`, which is missing", index.display())]
    MissingShard { index: PathBuf, shard: String },
    /// The index lists a tensor that its shard does not have.
    #[error("`{}` says that tensor `{tensor}` is in `{shard}`, but it is not", index.display())]
    NotInShard { index: PathBuf, shard: String, tensor: String },
    /// Two shards hold a tensor of the same name.
    #[error("tensor `{tensor}` is both in `{}` and in `{}`", first.display(), second.display())]
    InTwoShards { tensor: String, first: PathBuf, second: PathBuf },
    /// The shard index is malformed.
    #[error("`{}` is not a shard index: {reason}", path.display())]
    BadIndex { path: PathBuf, reason: String },
    /// `config.json` does not describe a network that this program knows.
    #[error("`{}` is not a configuration that can be used", path.display())]
    BadConfig { path: PathBuf, source: ConfigError },
    /// A text file is not JSON, or not UTF-8.
    #[error("`{}` is not JSON: {reason}", path.display())]
    NotJson { path: PathBuf, reason: String },
    /// Two networks do not fit together.
    #[error("`{}` has {first_key} {first_value}, but `{}` has {second_key} {second_value}",
        first.display(), second.display())]
    ConfigsDisagree {
        first: PathBuf,
        first_key: &'static str,
        first_value: usize,
        second: PathBuf,
        second_key: &'static str,
        second_value: usize,
    },
    /// The model has no such network.
    #[error("`{}` has no {network}", path.display())]
    NoNetwork {
        /// The model.
        path: PathBuf,
        /// The network, as a noun.
        network: &'static str,
    },
    /// The latent of silence cannot be read.
    #[error("`{}` is not a latent of silence: {reason}", path.display())]
    BadSilence { path: PathBuf, reason: String },
    /// The tokenizer cannot be read, or belongs to another network.
    #[error("`{}` is not the tokenizer of the {part}: {reason}", path.display())]
    BadTokenizer { path: PathBuf, part: &'static str, reason: String },
    /// One half of a weight-norm pair is missing.
    #[error("`{}` has tensor `{found}` but not `{missing}`", path.display())]
    HalfWeightNorm { path: PathBuf, found: String, missing: String },
    /// Folding a weight-norm pair gave a value that is not finite.
    #[error("folding `{tensor}` of `{}` gives values that are not finite", path.display())]
    NotFinite {
        path: PathBuf,
        /// The direction tensor, `*.weight_v`.
        tensor: String,
    },
    /// An adapter cannot be used.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
}

impl Error {
    /// Returns the remedy, if one is known: a sentence without a full stop. It names settings as
    /// `` `key` `` or `` `key: value` ``.
    pub fn hint(&self) -> Option<String> {
        let again = "the download is probably incomplete or damaged: fetch the file again";
        let text = match self {
            Self::Absent { remedy, .. }
            | Self::Foreign { remedy, .. }
            | Self::MissingPiece { remedy, .. }
            | Self::Ambiguous { remedy, .. } => remedy,
            Self::OtherKind { .. } => "name a model of the other kind",
            Self::Io { .. } => "check that the path is right and that you may read it",
            Self::MissingFile { .. } | Self::MissingShard { .. } => {
                "the download is probably incomplete: fetch the missing file into that directory"
            }
            Self::Cut { .. }
            | Self::TooLong { .. }
            | Self::BadHeader { .. }
            | Self::NotInShard { .. }
            | Self::InTwoShards { .. }
            | Self::BadIndex { .. }
            | Self::NotJson { .. }
            | Self::HalfWeightNorm { .. }
            | Self::NotFinite { .. } => again,
            Self::Changed { .. } => {
                "wait until it is whole and run this again; to replace a file while it is used, write the new one beside it and rename it over the old one, as downloaders do"
            }
            Self::OtherQuantized { .. } => {
                "the weights were replaced, or another version of the program wrote the file: remove it, or quantise the model again"
            }
            Self::BadQuantized(_) => "remove the file, or quantise the model again",
            Self::NotWritten { .. } => {
                "check that the disk has room and that you may write there; nothing was changed"
            }
            Self::NoPlace { .. } => "quantise a released model",
            Self::HugeHeader { .. } => {
                "it is not a safetensors file, despite its name: fetch the right one"
            }
            Self::BadSilence { .. } => {
                "fetch silence_latent.pt of the release again, or write your own `[1, C, T]` with `torch.save(latent.float().contiguous().clone(), \"silence_latent.pt\")`"
            }
            Self::NotADirectory { .. } => {
                "give the directory that holds config.json, not a file in it"
            }
            Self::WrongDirectory { .. } => {
                "a model directory is one like `acestep-v15-turbo/`, with `vae/` and `Qwen3-Embedding-0.6B/` beside it; a language model's is one like `acestep-5Hz-lm-1.7B/`; a directory of models is passed as `models_dir`"
            }
            Self::BeyondF16 { .. } => "pass `dtype: f32`",
            Self::WrongDtype { .. } => {
                "take the released BF16 file; of quantised ones GGUF files are read"
            }
            Self::MissingTensors { .. }
            | Self::UnusedTensors { .. }
            | Self::SameParameter { .. }
            | Self::WrongShape { .. } => {
                "the weights, and config.json where there is one, must come from the same release: fetch them again"
            }
            Self::BadConfig { .. } => {
                "use the config.json that was released with the weights, unchanged"
            }
            Self::ConfigsDisagree { .. } => {
                "the directories are of different models: use all directories of one release"
            }
            Self::NoNetwork { .. } => {
                "take a model that has it: only base models of Qwen3-TTS read the voice of a recording"
            }
            Self::Adapter(error) => error.hint(),
            Self::BadTokenizer { .. } => {
                "fetch tokenizer.json (or vocab.json and merges.txt) of that network again: the text encoder's is from Qwen3-Embedding-0.6B, a language model's from its own repository"
            }
        };
        Some(text.to_owned())
    }
}
