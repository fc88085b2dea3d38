//! From released checkpoint directories to the parts of a model.
//!
//! | module | what |
//! |---|---|
//! | `layout` | where a model's directories are, and how to get them |
//! | `kind`, `origin` | what a directory holds, by its config.json; whose files they are |
//! | `single` | one directory alone: [`DitFolder`], [`VaeFolder`] |
//! | `text_encoder` | the same with a tokenizer: [`TextEncoderFolder`] |
//! | `checkpoint` | [`Folder`]: three directories as one `acestep_model::Checkpoint` |
//! | `language` | [`LanguageFolder`]: a language model as one `acestep_model::LanguageCheckpoint` |
//! | `built_in` | the checkpoints that are built into the program |
//! | `names` | which tensors belong to which network |
//! | `apply` | tensors into a module, all or nothing |
//! | `fold` | weight-norm pairs into plain weights |
//! | `foreign` | other programs' files, as directories of the released layout |
//! | `safetensors`, `header`, `convert`, `blocks` | files, headers, numbers |
//! | `directory` | files on disk or in the program |
//! | `adapter` | LoRA and its kin on the weights of the transformer: [`Adapter`], [`Adapters`] |
//! | `hub` | models of the Hugging Face hub: pulled, found, verified, taken away |
//! | `silence`, `pickle` | the latent of silence, as torch saves a tensor |
//! | `pointer` | what stands for a file in a clone without its large files |
//! | `tokenizer`, `language_tokenizer` | text to token ids, and back |
//! | `error` | every message and its remedy |
//!
//! Strictness is the rule: a tensor that is missing, left over, of another shape or type, a cut
//! file, a directory of another kind each end with one message; nothing is guessed.

use std::path::Path;

mod adapter;
mod adapter_key;
mod apply;
mod blocks;
mod built_in;
mod checkpoint;
mod convert;
mod directory;
mod error;
mod fold;
mod foreign;
mod header;
pub mod hub;
mod kind;
mod known;
mod language;
mod language_tokenizer;
mod layout;
mod listing;
mod mapped;
mod names;
mod origin;
mod pickle;
mod pointer;
mod safetensors;
mod silence;
mod single;
mod text_encoder;
mod tokenizer;

#[cfg(test)]
mod testing;

pub use adapter::{Adapter, AdapterError, Adapters, Fitted};
pub use apply::PartSize;
pub use built_in::{BUILT_IN_MODELS, BuiltIn, DEMO, TINY, built_in};
pub use checkpoint::{Folder, open_tiny};
pub use directory::{Directory, Format, StandIn};
pub use error::{Error, Names, Places, Unknown};
pub use kind::Kind;
pub use known::{
    KNOWN_COMPANIONS, KNOWN_LANGUAGE_MODELS, KNOWN_MODELS, KnownModel, TEXT_ENCODER, VAE,
};
pub use language::{LanguageFolder, open_tiny_language_model};
pub use language_tokenizer::LanguageTokenizer;
pub use layout::{Layout, ModelPaths, language::LanguagePath};
pub use mapped::Bytes;
pub use names::Part;
pub use origin::Origin;
pub use safetensors::Tensors;
pub use single::{DitFolder, Single, VaeFolder};
pub use text_encoder::TextEncoderFolder;
pub use tokenizer::TextTokenizer;

/// Opens the model that `choice` names: one [inside the program](built_in), or whatever
/// [`Layout::resolve`] finds.
///
/// # Errors
/// Those of [`Layout::resolve`] and [`Folder::open`].
pub fn open(choice: &str, layout: &Layout) -> Result<Folder, Error> {
    match built_in(choice) {
        Some(model) => model.open(),
        None => Folder::open(&layout.resolve(choice)?),
    }
}

/// What the model at `path` is called: its directory's name, or its file's without ending and type.
pub fn name_of(path: &Path) -> String {
    layout::files::stem(path)
}

/// What lies at `path`, which has to be of the kind `wanted`: a released directory, or what another
/// program's file or directory holds of one. Its missing pieces are looked for in `layout`.
///
/// # Errors
/// Whatever is cut, contradictory, of another kind or not read; the message names the file.
pub fn directory(path: &Path, wanted: Kind, layout: &Layout) -> Result<Directory, Error> {
    foreign::directory(path, wanted, layout.dirs())
}

/// Opens the language model that `choice` names: one [inside the program](built_in), or whatever
/// [`Layout::resolve_language_model`] finds.
///
/// # Errors
/// Those of [`Layout::resolve_language_model`] and [`LanguageFolder::open`].
pub fn open_language_model(choice: Option<&str>, layout: &Layout) -> Result<LanguageFolder, Error> {
    match choice.and_then(built_in) {
        Some(model) => model.open_language_model(),
        None => {
            let LanguagePath { path, .. } = layout.resolve_language_model(choice)?;
            LanguageFolder::open(directory(&path, Kind::LanguageModel, layout)?)
        }
    }
}
