//! Reads released checkpoint directories into the networks of a model.
//!
//! | module | contents |
//! |---|---|
//! | `layout` | the places of a model's directories, and their sources |
//! | `kind`, `origin` | the check of a config.json; the format of a directory's files |
//! | `single` | one directory of songs: [`DitDir`], [`VaeDir`] |
//! | `text_encoder` | one directory with a tokenizer: [`TextEncoderDir`] |
//! | `checkpoint` | [`AceStep`]: three directories as one `acestep_model::Checkpoint` |
//! | `language` | [`LanguageModelDir`]: a language model as one `acestep_model::LanguageCheckpoint` |
//! | `qwen3_tts`, `magpie` | [`Qwen3Tts`], [`Magpie`]: a speech model and its codec |
//! | `dia2` | [`Dia2`]: a dialogue model; its codec from `mimi` |
//! | `weights` | [`WeightsDir`]: a directory with a configuration and weights, of any family |
//! | `built_in` | the checkpoints that are built into the program |
//! | `families` | published models, as data: [`Release`], kinds, names of tensors |
//! | `names` | the mapping between names of tensors and parameters |
//! | `apply` | loads tensors into a module, all or nothing |
//! | `quantized` | matrices in int8, in a file beside the weights |
//! | `fold` | folds weight-norm pairs into plain weights |
//! | `foreign` | other programs' files, as directories of the released layout |
//! | `safetensors`, `header`, `convert`, `blocks` | files, headers, conversion of values |
//! | `directory` | files on disk or in the program |
//! | `adapter` | LoRA and similar changes of the transformer's weights: [`Adapter`], [`Adapters`] |
//! | `hub` | models of the Hugging Face hub: pulled, found, verified, removed |
//! | `nemo` | archives of NeMo: [`NemoArchive`] |
//! | `single_file` | a model or a codec in one file |
//! | `silence`, `pickle` | the latent of silence, and the format of `torch.save` |
//! | `pointer` | Git LFS pointers in place of large files |
//! | `tokenizer`, `language_tokenizer` | text to token ids and back |
//! | `error` | every message and its remedy |
//!
//! The crate is strict and never guesses. A missing or unused tensor, another shape or type, a cut
//! file, or a directory of another kind each gives one error message.

use std::path::{Path, PathBuf};

pub use acestep_model::acestep::Network;

mod adapter;
mod adapter_key;
mod apply;
mod blocks;
mod built_in;
mod checkpoint;
mod convert;
mod dia2;
mod directory;
mod error;
mod families;
mod fold;
mod foreign;
mod header;
pub mod hub;
mod kind;
mod language;
mod language_tokenizer;
mod layout;
mod listing;
mod magpie;
mod mapped;
mod mimi;
mod names;
mod nemo;
mod origin;
mod pickle;
mod pointer;
mod quantized;
mod qwen3_tts;
mod safetensors;
mod silence;
mod single;
mod single_file;
mod text_encoder;
mod tokenizer;
mod weights;

#[cfg(test)]
mod testing;

pub use adapter::{Adapter, AdapterError, Adapters, Fitted};
pub use apply::PartSize;
pub use built_in::{
    BUILT_IN_MODELS, BuiltIn, DEMO, TINY, TINY_SPEECH, all_built_in, built_in, is_speech,
    tiny_speech,
};
pub use checkpoint::{AceStep, open_tiny};
pub use dia2::{Dia2, Dia2Choice, Dia2Network};
pub use directory::{Directory, EmbeddedFiles, Foreign, ModelFormat};
pub use error::{Error, NameList, Places, Unknown};
pub use families::{
    Release,
    acestep::{self, Kind},
    dia2::{COMPANIONS as DIALOGUE_COMPANIONS, MODELS as DIALOGUE_MODELS},
    magpie::MODELS as MAGPIE_MODELS,
    mimi::moshi::RELEASED as MIMI_CONFIG,
    qwen3_tts::MODELS as SPEECH_MODELS,
};
pub use language::{LanguageModelDir, open_tiny_language_model};
pub use language_tokenizer::LanguageTokenizer;
pub use layout::{Layout, Presence, language::LanguagePath, model::ModelPaths, model_files};
pub use magpie::{Magpie, MagpieNetwork};
pub use mapped::Bytes;
pub use nemo::NemoArchive;
pub use origin::Origin;
pub use qwen3_tts::{Qwen3Tts, Qwen3TtsNetwork};
pub use safetensors::Tensors;
pub use single::{DitDir, VaeDir};
pub use text_encoder::TextEncoderDir;
pub use tokenizer::TextTokenizer;
pub use weights::WeightsDir;

/// Opens the model called `choice`: one [inside the program](built_in), or the result of
/// [`Layout::resolve`].
///
/// # Errors
/// Errors of [`Layout::resolve`] and [`AceStep::open`].
pub fn open(choice: &str, layout: &Layout) -> Result<AceStep, Error> {
    match built_in(choice) {
        Some(model) => model.open(),
        None => AceStep::open(&layout.resolve(choice)?),
    }
}

/// Opens the diffusion model called `choice` without its companions, as [`open`].
///
/// # Errors
/// As [`open`].
pub fn open_diffusion(choice: &str, layout: &Layout) -> Result<DitDir, Error> {
    DitDir::open(match built_in(choice) {
        Some(model) => model.directories[0].clone(),
        None => directory(&layout.resolve_diffusion(choice)?.1, Kind::Dit, layout)?,
    })
}

/// Returns the name of the model at `path`: the directory's name, or the file's without ending and
/// type.
pub fn name_of(path: &Path) -> String {
    layout::files::stem(path)
}

/// Opens the directory or file at `path`, which must be of the kind `wanted`: a released directory,
/// or another program's file or directory. Missing parts are searched in `layout`.
///
/// # Errors
/// If something is cut, contradictory, of another kind or unsupported; the message names the file.
pub fn directory(path: &Path, wanted: Kind, layout: &Layout) -> Result<Directory, Error> {
    foreign::directory(path, wanted, layout.dirs())
}

/// Opens the language model called `choice`: one [inside the program](built_in), or the result of
/// [`Layout::resolve_language_model`].
///
/// # Errors
/// Errors of [`Layout::resolve_language_model`] and [`LanguageModelDir::open`].
pub fn open_language_model(
    choice: Option<&str>,
    layout: &Layout,
) -> Result<LanguageModelDir, Error> {
    match choice.and_then(built_in) {
        Some(model) => model.open_language_model(),
        None => {
            let LanguagePath { path, .. } = layout.resolve_language_model(choice)?;
            LanguageModelDir::open(directory(&path, Kind::LanguageModel, layout)?)
        }
    }
}

/// Finds the released `model` as its family opens it: its place, and the format of its files.
///
/// # Errors
/// If a file is missing, cut, contradictory or of another kind.
pub fn place_of(model: &Release, layout: &Layout) -> Result<(PathBuf, Origin), Error> {
    let name = Some(model.name);
    let (path, origin) = if acestep::LANGUAGE_MODELS.contains(model) {
        let folder = open_language_model(name, layout)?;
        (folder.directory().root().to_owned(), folder.origin())
    } else if SPEECH_MODELS.contains(model) {
        let folder = Qwen3Tts::find(name, layout)?;
        (folder.path().to_owned(), folder.origin())
    } else if MAGPIE_MODELS.contains(model) {
        let folder = Magpie::find(name, None, layout)?;
        (folder.path().to_owned(), folder.origin())
    } else if DIALOGUE_MODELS.contains(model) {
        let folder = Dia2::find(name, &Dia2Choice::default(), layout)?;
        (folder.path().to_owned(), folder.origin())
    } else {
        let folder = open(model.name, layout)?;
        (folder.path().to_owned(), folder.origin())
    };
    Ok((path, origin))
}
