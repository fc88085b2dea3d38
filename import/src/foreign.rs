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

use crate::{Directory, Error, Part, Tensors, error::Places, kind::Kind, pointer, silence};

mod comfy;
mod config;
mod diffusers;
mod gguf;
mod oobleck;
mod pieces;
mod sizes;
mod vocabulary;

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

/// A text of a released directory: its name there, where this one is from, its content.
type Text = (&'static str, PathBuf, String);

/// One network's share of another program's file or directory.
#[derive(Debug)]
pub struct Foreign {
    /// The file or directory.
    root: PathBuf,
    format: Format,
    /// The texts of a released directory.
    texts: Vec<Text>,
    tensors: Tensors,
    silence: Silence,
    /// What is worth saying when it is used: lower case, no full stop.
    notices: Vec<String>,
    /// Where a missing tokenizer was looked for.
    looked_for: Vec<PathBuf>,
    /// The tokenizers that were found and do not fit.
    tried: pieces::Tried,
    /// A network that such a directory may do without, and does.
    lacks: Option<Lack>,
}

/// A network that is not there.
#[derive(Debug, Clone)]
struct Lack {
    part: Part,
    looked_for: Vec<PathBuf>,
    remedy: String,
}

/// The latent of silence, for a network that needs one.
#[derive(Debug, Default)]
struct Silence {
    /// A tensor, `[T, C]` or `[1, T, C]`.
    held: Option<(Tensors, &'static str)>,
    /// Where it is looked for if it is not held.
    near: Vec<PathBuf>,
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

    /// The error for a text that is neither here nor beside: the tokenizer, as a configuration is
    /// always made.
    pub(crate) fn missing(&self) -> Error {
        pieces::no_tokenizer(&self.root, &self.looked_for, &self.tried)
    }

    /// The error for `part`, if it is a network that is not here and may be.
    pub(crate) fn lack_of(&self, part: Part) -> Option<Error> {
        let Lack { looked_for, remedy, .. } = self.lacks.as_ref().filter(|of| of.part == part)?;
        Some(Error::MissingPiece {
            path: self.root.clone(),
            piece: part.name(),
            looked_for: Places(looked_for.clone()),
            tried: Vec::new(),
            remedy: remedy.clone(),
        })
    }

    /// The latent of silence, `[1, T, C]`.
    ///
    /// # Errors
    /// [`Error::MissingPiece`], [`Error::BadSilence`].
    pub(crate) fn silence(&self, channels: usize) -> Result<TensorData, Error> {
        let mut tried = pieces::Tried::new();
        if let Some((tensors, name)) = &self.silence.held {
            match silence::of_tensor(&self.root, tensors, name, channels)? {
                Some(latent) => return Ok(latent),
                // What diffusers fills in where its converter found none.
                None => tried.push((
                    tensors.file_of(name).to_owned(),
                    "it is nothing but zeros, which no silence is".into(),
                )),
            }
        }
        pieces::silence(&self.silence.near, channels).map_err(|(looked_for, more)| {
            tried.extend(more);
            pieces::no_silence(self, looked_for, tried)
        })
    }
}

/// What lies at `path`, as a directory of the kind `wanted`; `places` are where pieces may lie that
/// it does not hold.
///
/// # Errors
/// Whatever is cut, contradictory, of another kind or not read; the message names the file.
pub(crate) fn directory(path: &Path, wanted: Kind, places: &[PathBuf]) -> Result<Directory, Error> {
    let foreign = match recognise(path)? {
        Some(Format::Gguf) => gguf::open(path, wanted, places)?,
        Some(Format::Single) => comfy::open(path, wanted, places)?,
        Some(Format::Diffusers) => match diffusers::open(path, wanted, places)? {
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

/// Whether there is a GGUF file at `path`.
fn is_gguf(path: &Path) -> bool {
    matches!(recognise(path), Ok(Some(Format::Gguf)))
}

/// The name that the GGUF file at `path` gives itself.
pub(crate) fn name_inside(path: &Path) -> Option<String> {
    is_gguf(path).then(|| gguf::name(path))?
}

/// Tells if the GGUF file at `path` is an adapter of llama.cpp, and which network of this model it is;
/// `None` if it cannot be read.
pub(crate) fn gguf_says(path: &Path) -> Option<(bool, Option<Kind>)> {
    gguf::says(path)
}

/// The networks of this model in a safetensors file whose tensors `has` knows by name.
pub(crate) fn networks(has: &dyn Fn(&str) -> bool) -> Vec<Kind> {
    comfy::networks(has)
}

/// The file that a pipeline of diffusers is known by.
pub(crate) const PIPELINE: &str = diffusers::INDEX;

/// Whether the file or directory at `path` holds the network `wanted` beside that of a diffusion
/// model: a checkpoint of several networks.
pub(crate) fn holds(path: &Path, wanted: Kind) -> bool {
    match recognise(path) {
        Ok(Some(Format::Diffusers)) => true,
        Ok(Some(Format::Single)) => comfy::holds(path, wanted),
        _ => false,
    }
}

/// Whether the file at `path` is another network of this model than `wanted`, by its header.
pub(crate) fn is_another(path: &Path, wanted: Kind) -> bool {
    matches!(expect(path, wanted), Err(Error::WrongDirectory { .. }))
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

/// Refuses what lies at `path` if its first bytes or names say that it is not of the kind `wanted`,
/// before anything is looked for that it would need. A released directory is read later.
///
/// # Errors
/// What it is, and what to do with it.
pub(crate) fn expect(path: &Path, wanted: Kind) -> Result<(), Error> {
    match recognise(path)? {
        None => Err(not_a_model(path)),
        Some(Format::Gguf) => gguf::expect(path, wanted),
        Some(Format::Single) => comfy::expect(path, wanted),
        Some(Format::Released) if path.join(ADAPTER).is_file() && !path.join(CONFIG).is_file() => {
            Err(an_adapter(path))
        }
        Some(Format::Diffusers | Format::Released | Format::BuiltIn) => Ok(()),
    }
}

/// PEFT's settings.
const ADAPTER: &str = "adapter_config.json";
const CONFIG: &str = "config.json";

/// The error for an adapter in the place of a model.
fn an_adapter(path: &Path) -> Error {
    Error::Foreign {
        path: path.to_owned(),
        reason: "it is an adapter (LoRA or of its kin), which changes a model and is none".into(),
        remedy: format!("pass it as `--adapter {}`, and a model as --model", path.display()),
    }
}

/// The error for a file of another kind.
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
