//! Other programs' files, as the directories of the released layout that they stand for.
//!
//! | what | recognised by | file |
//! |---|---|---|
//! | GGUF of acestep.cpp | its first four bytes, `general.architecture` | `gguf` |
//! | safetensors of ComfyUI | the header's names | `comfy` |
//! | directory of diffusers | `model_index.json` | `diffusers` |
//!
//! Each becomes a [`Directory::Foreign`]: the texts that a released directory has as files
//! (config.json, tokenizer), its tensors under their released names, its latent of silence. Nothing
//! behind it knows the difference. What such a file does not hold is looked for beside it, and named
//! where it is not there.

use std::{
    fmt,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use burn::tensor::TensorData;

use crate::{Directory, Error, Tensors, error::Places, kind::Kind, silence};

mod comfy;
mod diffusers;
mod gguf;
mod oobleck;
mod sizes;

/// Whose layout a model's files have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The released directories.
    Released,
    /// A part of the program.
    BuiltIn,
    /// A GGUF file as acestep.cpp makes and reads them.
    Gguf,
    /// A single safetensors file, as ComfyUI reads them.
    Single,
    /// A directory of diffusers.
    Diffusers,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Released => "released layout",
            Self::BuiltIn => "built in",
            Self::Gguf => "GGUF",
            Self::Single => "single file",
            Self::Diffusers => "diffusers",
        })
    }
}

/// One network's share of another program's file or directory.
#[derive(Debug)]
pub struct Foreign {
    /// The file or directory.
    root: PathBuf,
    format: Format,
    /// The texts of a released directory: name there, where this one is from, content.
    texts: Vec<(&'static str, PathBuf, String)>,
    tensors: Tensors,
    silence: Silence,
    /// What is worth saying when it is used: lower case, no full stop.
    notices: Vec<String>,
    /// Where missing texts were looked for.
    looked_for: Vec<PathBuf>,
}

/// Where the latent of silence is.
#[derive(Debug)]
enum Silence {
    /// A tensor, `[T, C]` or `[1, T, C]`.
    Tensor(Tensors, &'static str),
    /// Nowhere yet: in the first of these directories that has its file.
    Beside(Vec<PathBuf>),
    /// Not this network's business.
    None,
}

impl Foreign {
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    pub(crate) fn notices(&self) -> &[String] {
        &self.notices
    }

    pub(crate) fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    /// Where the text that a released directory calls `file` is from.
    pub(crate) fn origin(&self, file: &str) -> &Path {
        self.texts.iter().find(|(name, ..)| *name == file).map_or(&self.root, |(_, path, _)| path)
    }

    /// The text that a released directory calls `file`.
    pub(crate) fn text(&self, file: &str) -> Option<&str> {
        let (.., text) = self.texts.iter().find(|(name, ..)| *name == file)?;
        Some(text)
    }

    /// The error for a text that is neither here nor beside.
    pub(crate) fn missing(&self, file: &str) -> Error {
        let is_tokenizer = file != "config.json";
        let (piece, remedy) = match is_tokenizer {
            true => (
                "tokenizer",
                "put tokenizer.json (or vocab.json and merges.txt) of Qwen3-Embedding-0.6B, or of \
                 the language model for that, into one of these",
            ),
            false => ("configuration", "put the config.json of the release beside it"),
        };
        let looked_for = Places(self.looked_for.clone());
        let remedy = remedy.to_owned();
        Error::MissingPiece { path: self.root.clone(), piece, looked_for, remedy }
    }

    /// The latent of silence, `[1, T, C]`.
    ///
    /// # Errors
    /// [`Error::MissingPiece`], [`Error::BadSilence`].
    pub(crate) fn silence(&self, channels: usize) -> Result<TensorData, Error> {
        match &self.silence {
            Silence::Tensor(tensors, name) => {
                let bad = |reason: String| Error::BadSilence { path: self.root.clone(), reason };
                let shape = tensors.shape(name)?;
                let frames = match *shape {
                    [frames, c] | [1, frames, c] if c == channels => frames,
                    _ => return Err(bad(format!("it is {shape:?} instead of [T, {channels}]"))),
                };
                let values: Vec<f32> = tensors.values(name)?;
                if values.iter().any(|value| !value.is_finite()) {
                    return Err(bad("it has values that are not finite".into()));
                }
                // What diffusers fills in where its converter found none.
                if values.iter().all(|&value| value == 0.0) {
                    return Err(bad("it is nothing but zeros, which no silence is".into()));
                }
                Ok(TensorData::new(values, [1, frames, channels]))
            }
            Silence::Beside(places) => {
                let at = places.iter().map(|place| Directory::Disk(place.clone()));
                match at.into_iter().find(silence::is_in) {
                    Some(directory) => silence::read(&directory, channels),
                    None => Err(self.no_silence(places)),
                }
            }
            Silence::None => Err(self.no_silence(&[])),
        }
    }

    fn no_silence(&self, places: &[PathBuf]) -> Error {
        Error::MissingPiece {
            path: self.root.clone(),
            piece: "latent of silence",
            looked_for: Places(places.iter().map(|dir| dir.join(silence::PT)).collect()),
            remedy: "put the silence_latent.pt of the model's release beside it: `hf download \
                     ACE-Step/Ace-Step1.5 acestep-v15-turbo/silence_latent.pt`"
                .into(),
        }
    }
}

/// What lies at `path`, as a directory of the kind `wanted`; `places` are where pieces may lie that
/// it does not hold.
///
/// # Errors
/// Whatever is cut, contradictory, of another kind or not read; the message names the file.
pub(crate) fn directory(path: &Path, wanted: Kind, places: &[PathBuf]) -> Result<Directory, Error> {
    let foreign = match recognise(path)? {
        Some(Format::Gguf) => gguf::open(path, wanted)?,
        Some(Format::Single) => comfy::open(path, wanted, places)?,
        Some(Format::Diffusers) => match diffusers::open(path, wanted)? {
            diffusers::Opened::AsReleased(path) => return Ok(Directory::Disk(path)),
            diffusers::Opened::Foreign(foreign) => *foreign,
        },
        Some(Format::Released | Format::BuiltIn) => return Ok(Directory::Disk(path.to_owned())),
        None => return Err(not_a_model(path)),
    };
    Ok(Directory::Foreign(Arc::new(foreign)))
}

/// Whose layout lies at `path`; `None` for a file of another kind.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn recognise(path: &Path) -> Result<Option<Format>, Error> {
    let unreadable = |source| Error::Io { path: path.to_owned(), source };
    if !path.is_file() {
        let is_pipeline = path.join(diffusers::INDEX).is_file();
        return Ok(Some(if is_pipeline { Format::Diffusers } else { Format::Released }));
    }
    let mut first = Vec::new();
    File::open(path).and_then(|file| file.take(9).read_to_end(&mut first)).map_err(unreadable)?;
    Ok(match first[..] {
        [b'G', b'G', b'U', b'F', ..] => Some(Format::Gguf),
        // The length of a safetensors header, then its JSON.
        [_, _, _, _, _, _, 0, 0, b'{'] => Some(Format::Single),
        _ => None,
    })
}

/// Whether the file or directory at `path` holds the network `wanted` beside that of a diffusion
/// model: a checkpoint of several networks.
pub(crate) fn holds(path: &Path, wanted: Kind) -> bool {
    match recognise(path) {
        Ok(Some(Format::Diffusers)) => true,
        Ok(Some(Format::Single)) => comfy::holds(path, wanted),
        _ => false,
    }
}

/// Whether the file at `path` is of the kind `wanted`, by its header.
pub(crate) fn is_a(path: &Path, wanted: Kind) -> bool {
    match recognise(path) {
        Ok(Some(Format::Gguf)) => gguf::is_a(path, wanted),
        Ok(Some(Format::Single)) => comfy::holds(path, wanted),
        _ => false,
    }
}

/// The tensors of the GGUF file at `path`, whatever they are of.
#[cfg(test)]
pub(crate) fn gguf_tensors(path: &Path) -> Result<Tensors, Error> {
    gguf::tensors(path)
}

/// The error for a file of another kind.
pub(crate) fn not_a_model(path: &Path) -> Error {
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
