//! Files of other programs, adapted to the directories of the released layout.
//!
//! | format | recognised by | module |
//! |---|---|---|
//! | GGUF of acestep.cpp | its first four bytes, `general.architecture` | `gguf` |
//! | GGUF of qwentts.cpp | the same | `gguf::qwentts` |
//! | GGUF of magpie-tts.cpp | the same | `gguf::magpie` |
//! | safetensors of ComfyUI | the header's names | `comfy` |
//! | directory of diffusers | `model_index.json` | `diffusers` |
//!
//! Each becomes a [`Directory::Foreign`]: the texts of a released directory (config.json,
//! tokenizer), its tensors with their released names, its latent of silence. The rest of the crate
//! sees no difference. Pieces that such a file lacks are searched beside it, and named in the error
//! if they are missing.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use burn::tensor::TensorData;

use crate::{
    Directory, Error, ModelFormat, Tensors,
    directory::{Foreign, Lack, Silence, Text},
    families::acestep::Kind,
    listing::files_in,
    pointer, silence,
    single_file::SingleFile,
};

mod comfy;
mod config;
mod diffusers;
mod gguf;
mod oobleck;
mod pieces;
mod sizes;
mod vocabulary;

pub(crate) use comfy::networks;
pub(crate) use diffusers::INDEX as PIPELINE;
#[cfg(test)]
pub(crate) use gguf::tensors as gguf_tensors;
pub(crate) use gguf::{
    identify as identify_gguf,
    magpie::{architecture, codec as magpie_codec, is_model as is_magpie, open as magpie},
    qwentts::{open as speech, release_of as release_of_talker, talker_called as talker},
};

impl Foreign {
    /// Creates the part at `root`, which lacks nothing and has no notices.
    fn new(root: &Path, format: ModelFormat, texts: Vec<Text>, tensors: Tensors) -> Self {
        Self {
            root: root.to_owned(),
            format,
            texts,
            tensors,
            silence: Silence::default(),
            notices: Vec::new(),
            looked_for: Vec::new(),
            tried: Vec::new(),
            lacks: None,
            missing: pieces::no_tokenizer,
            read_silence: silence_of,
        }
    }
}

/// Reads the latent of silence of `foreign`, or one that lies near, `[1, T, C]`.
fn silence_of(foreign: &Foreign, channels: usize) -> Result<TensorData, Error> {
    let mut tried = pieces::Tried::new();
    if let Some((tensors, name)) = &foreign.silence.held {
        match silence::of_tensor(&foreign.root, tensors, name, channels)? {
            Some(latent) => return Ok(latent),
            // diffusers' converter writes zeros if it finds no latent.
            None => tried.push((
                tensors.file_of(name).to_owned(),
                "it is nothing but zeros, which no silence is".into(),
            )),
        }
    }
    pieces::silence(&foreign.silence.near, channels).map_err(|(looked_for, more)| {
        tried.extend(more);
        pieces::no_silence(foreign, looked_for, tried)
    })
}

/// Returns `file` as a directory of the released layout.
pub(crate) fn single(file: SingleFile) -> Directory {
    let SingleFile { path, format, config, tensors, notices } = file;
    let texts = vec![("config.json", path.clone(), config)];
    let missing =
        |of: &Foreign| Error::MissingFile { path: of.root.clone(), alternatives: String::new() };
    let foreign = Foreign { notices, missing, ..Foreign::new(&path, format, texts, tensors) };
    Directory::Foreign(Arc::new(foreign))
}

/// Opens the model at `path` as a directory of the kind `wanted`; `places` are searched for pieces
/// that it lacks.
pub(crate) fn directory(path: &Path, wanted: Kind, places: &[PathBuf]) -> Result<Directory, Error> {
    let foreign = match recognise(path)? {
        Some(ModelFormat::Gguf) => gguf::open(path, wanted, places)?,
        Some(ModelFormat::Single) => comfy::open(path, wanted, places)?,
        Some(ModelFormat::Diffusers) => return diffusers::open(path, wanted, places),
        Some(ModelFormat::Released | ModelFormat::BuiltIn) => {
            return Ok(Directory::Disk(path.to_owned()));
        }
        Some(ModelFormat::Nemo) | None => return Err(not_a_model(path)),
    };
    Ok(Directory::Foreign(Arc::new(foreign)))
}

/// Returns the format at `path`; `None` for a file of another kind.
pub(crate) fn recognise(path: &Path) -> Result<Option<ModelFormat>, Error> {
    let unreadable = |source| Error::Io { path: path.to_owned(), source };
    if !path.is_file() {
        let is_pipeline = path.join(diffusers::INDEX).is_file();
        return Ok(Some(if is_pipeline { ModelFormat::Diffusers } else { ModelFormat::Released }));
    }
    let mut first = Vec::new();
    File::open(path).and_then(|file| file.take(9).read_to_end(&mut first)).map_err(unreadable)?;
    Ok(match first[..] {
        [b'G', b'G', b'U', b'F', ..] => Some(ModelFormat::Gguf),
        // The length of a safetensors header, then its JSON.
        [_, _, _, _, _, _, 0, 0, b'{'] => Some(ModelFormat::Single),
        _ => None,
    })
}

/// Returns a description of the GGUF files in the directory `place`, after "holds".
pub(crate) fn ggufs_in(place: &Path) -> Option<String> {
    let files = files_in(place, "gguf");
    let known = files.iter().find_map(|path| {
        let noun = gguf::noun(path)?;
        Some(format!("GGUF files (`{}` is {noun})", path.file_name()?.display()))
    });
    known.or_else(|| (!files.is_empty()).then(|| "GGUF files of other programs".to_owned()))
}

/// True if there is a GGUF file at `path`.
fn is_gguf(path: &Path) -> bool {
    matches!(recognise(path), Ok(Some(ModelFormat::Gguf)))
}

/// False if the file at `path` is damaged or no GGUF file; true if its types or version are unknown.
pub(crate) fn is_whole_gguf(path: &Path) -> bool {
    is_gguf(path) && gguf::is_whole(path)
}

/// Returns the name stored in the GGUF file at `path`.
pub(crate) fn name_inside(path: &Path) -> Option<String> {
    is_gguf(path).then(|| gguf::name(path))?
}

/// True if the checkpoint at `path` holds the network `wanted` in addition to the diffusion model.
pub(crate) fn holds(path: &Path, wanted: Kind) -> bool {
    match recognise(path) {
        Ok(Some(ModelFormat::Diffusers)) => true,
        Ok(Some(ModelFormat::Single)) => comfy::holds(path, wanted),
        _ => false,
    }
}

/// True if the file at `path` is, by its header, another network of this model than `wanted`.
pub(crate) fn is_another(path: &Path, wanted: Kind) -> bool {
    matches!(expect(path, wanted), Err(Error::WrongDirectory { .. }))
}

/// True if the file at `path` is of the kind `wanted`, by its header.
pub(crate) fn is_a(path: &Path, wanted: Kind) -> bool {
    match recognise(path) {
        Ok(Some(ModelFormat::Gguf)) => gguf::is_a(path, wanted),
        Ok(Some(ModelFormat::Single)) => comfy::holds(path, wanted),
        _ => false,
    }
}

/// Refuses the model at `path` if its first bytes or names show that it is not of the kind
/// `wanted`, before its pieces are searched. A released directory is read later.
pub(crate) fn expect(path: &Path, wanted: Kind) -> Result<(), Error> {
    match recognise(path)? {
        Some(ModelFormat::Nemo) | None => Err(not_a_model(path)),
        Some(ModelFormat::Gguf) => gguf::expect(path, wanted),
        Some(ModelFormat::Single) => comfy::expect(path, wanted),
        Some(ModelFormat::Released)
            if path.join(ADAPTER).is_file() && !path.join(CONFIG).is_file() =>
        {
            Err(an_adapter(path))
        }
        Some(ModelFormat::Diffusers | ModelFormat::Released | ModelFormat::BuiltIn) => Ok(()),
    }
}

/// PEFT's settings.
const ADAPTER: &str = "adapter_config.json";
const CONFIG: &str = "config.json";

/// Returns the error for an adapter instead of a model.
fn an_adapter(path: &Path) -> Error {
    Error::Foreign {
        path: path.to_owned(),
        reason: "it is an adapter (LoRA or of its kin), which changes a model and is none".into(),
        remedy: format!("pass it as `adapter: {}`, and a model as `model`", path.display()),
    }
}

/// Returns the error for a file of another kind.
fn not_a_model(path: &Path) -> Error {
    let mut first = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut first));
    if let Err(source) = read {
        return Error::Io { path: path.to_owned(), source };
    }
    if let Err(error) = pointer::refuse(path, &first) {
        return error;
    }
    let is_pickle =
        path.extension().is_some_and(|e| e == "pt" || e == "pth" || e == "ckpt" || e == "bin");
    let remedy = match is_pickle {
        true => "PyTorch's own files are not read: take the safetensors of the same model",
        false => {
            "give a directory of the released layout or of diffusers, a GGUF file or a safetensors \
             file"
        }
    };
    let reason = "it is neither GGUF nor safetensors".to_owned();
    Error::Foreign { path: path.to_owned(), reason, remedy: remedy.into() }
}
