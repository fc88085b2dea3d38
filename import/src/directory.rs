//! A directory of checkpoint files: on disk, built into the program, or backed by another program's
//! file.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use burn::tensor::TensorData;

use crate::{
    Error, Network,
    error::Places,
    mapped::{Bytes, Mapped},
    pointer,
    safetensors::Tensors,
};

mod tensors;

/// Format of a model's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelFormat {
    /// The released directories.
    Released,
    /// Built into the program.
    BuiltIn,
    /// GGUF files in the form of acestep.cpp, qwentts.cpp or magpie-tts.cpp.
    Gguf,
    /// A single safetensors file in ComfyUI's form.
    Single,
    /// A directory of diffusers.
    Diffusers,
    /// An archive of NeMo.
    Nemo,
}

impl fmt::Display for ModelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Released => "released layout",
            Self::BuiltIn => "built in",
            Self::Gguf => "GGUF",
            Self::Single => "single file",
            Self::Diffusers => "diffusers",
            Self::Nemo => "NeMo archive",
        })
    }
}

/// A text file of a released directory: its name there, its actual path, its content.
pub(crate) type Text = (&'static str, PathBuf, String);

/// The part of another program's file or directory that belongs to one network, and stands in for a
/// released directory.
#[derive(Debug)]
pub struct Foreign {
    /// The file or directory.
    pub(crate) root: PathBuf,
    pub(crate) format: ModelFormat,
    pub(crate) texts: Vec<Text>,
    /// Its tensors, under the names that the tables of its family have for its format.
    pub(crate) tensors: Tensors,
    pub(crate) silence: Silence,
    /// Notices for its use: lower case, no full stop.
    pub(crate) notices: Vec<String>,
    /// Searched places of a missing tokenizer.
    pub(crate) looked_for: Vec<PathBuf>,
    /// Tokenizers that were found but do not fit, each with the reason.
    pub(crate) tried: Vec<(PathBuf, String)>,
    /// An optional network that it lacks.
    pub(crate) lacks: Option<Lack>,
    /// Makes the error for a missing text file. It is the tokenizer, because a configuration is
    /// always generated. This is a function because it needs modules above this one.
    pub(crate) missing: fn(&Self) -> Error,
    /// Reads the latent of silence with that many channels, `[1, T, C]`. This is a function because it
    /// needs modules above this one.
    pub(crate) read_silence: fn(&Self, usize) -> Result<TensorData, Error>,
}

/// A missing network.
#[derive(Debug)]
pub(crate) struct Lack {
    pub(crate) network: Network,
    pub(crate) looked_for: Vec<PathBuf>,
    pub(crate) remedy: String,
}

/// The latent of silence, for a network that needs one.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// A tensor, `[T, C]` or `[1, T, C]`.
    pub(crate) held: Option<(Tensors, &'static str)>,
    /// Places to search if it is not held.
    pub(crate) near: Vec<PathBuf>,
}

impl Foreign {
    /// Returns the text file that a released directory calls `file`.
    fn file(&self, file: &str) -> Option<&Text> {
        self.texts.iter().find(|(name, ..)| *name == file)
    }

    /// Returns the error for `network`, a noun, if it is an optional network that is missing.
    pub(crate) fn lack_of(&self, network: &str) -> Option<Error> {
        let Lack { network, looked_for, remedy } =
            self.lacks.as_ref().filter(|of| of.network.name() == network)?;
        Some(Error::MissingPiece {
            path: self.root.clone(),
            piece: network.name(),
            looked_for: Places(looked_for.clone()),
            tried: Vec::new(),
            remedy: remedy.clone(),
        })
    }
}

/// Names and contents of files inside the program.
pub type EmbeddedFiles = &'static [(&'static str, &'static [u8])];

/// Source of files.
#[derive(Debug, Clone)]
pub enum Directory {
    /// A directory of the file system.
    Disk(PathBuf),
    /// Files inside the program: a name for messages, then a function that returns them. Packed files
    /// are unpacked by the first call.
    Embedded(&'static str, fn() -> EmbeddedFiles),
    /// Contents of another program's file, under the names of the released layout.
    Foreign(Arc<Foreign>),
}

impl Directory {
    /// Returns the path of `file` in this directory, for messages.
    pub fn path(&self, file: &str) -> PathBuf {
        match self {
            Self::Disk(_) | Self::Embedded(..) => self.root().join(file),
            Self::Foreign(foreign) => {
                foreign.file(file).map_or(&foreign.root, |(_, path, _)| path).clone()
            }
        }
    }

    /// Returns the path of the directory itself, for messages.
    pub fn root(&self) -> &Path {
        match self {
            Self::Disk(path) => path,
            Self::Embedded(name, _) => Path::new(name),
            Self::Foreign(foreign) => &foreign.root,
        }
    }

    /// Returns the format of its layout.
    pub fn format(&self) -> ModelFormat {
        match self {
            Self::Disk(_) => ModelFormat::Released,
            Self::Embedded(..) => ModelFormat::BuiltIn,
            Self::Foreign(foreign) => foreign.format,
        }
    }

    /// Returns notices to print when it is used: lower case, no full stop.
    pub fn notices(&self) -> &[String] {
        match self {
            Self::Disk(_) | Self::Embedded(..) => &[],
            Self::Foreign(foreign) => &foreign.notices,
        }
    }

    /// True if the directory has `file`.
    pub fn has(&self, file: &str) -> bool {
        match self {
            Self::Disk(path) => path.join(file).is_file(),
            Self::Embedded(_, files) => files().iter().any(|(name, _)| *name == file),
            Self::Foreign(foreign) => foreign.file(file).is_some(),
        }
    }

    /// Maps the content of `file` into memory.
    ///
    /// # Errors
    /// [`Error::MissingFile`], [`Error::Io`].
    pub fn open(&self, file: &str) -> Result<Bytes, Error> {
        let missing = || Error::MissingFile { path: self.path(file), alternatives: String::new() };
        match self {
            Self::Disk(_) if !self.has(file) => Err(missing()),
            Self::Disk(_) => Self::open_file(&self.path(file)),
            Self::Embedded(_, files) => {
                let (_, content) =
                    files().iter().find(|(name, _)| *name == file).ok_or_else(missing)?;
                Ok(Bytes::Static(content))
            }
            Self::Foreign(foreign) => Err((foreign.missing)(foreign)),
        }
    }

    /// Maps the content of the file at `path` into memory.
    pub(crate) fn open_file(path: &Path) -> Result<Bytes, Error> {
        let mapped = Mapped::open(path);
        mapped.map(Bytes::Mapped).map_err(|source| Error::Io { path: path.to_owned(), source })
    }

    /// Reads the content of a text file.
    ///
    /// # Errors
    /// As [`Directory::open`]; [`Error::NotJson`] if it is not UTF-8 (all these text files are JSON
    /// or lists of merges).
    pub fn text(&self, file: &str) -> Result<String, Error> {
        let path = self.path(file);
        let content = match self {
            Self::Disk(_) if self.has(file) => {
                fs::read(&path).map_err(|source| Error::Io { path: path.clone(), source })?
            }
            Self::Foreign(foreign) => {
                let text = foreign.file(file).ok_or_else(|| (foreign.missing)(foreign))?;
                return Ok(text.2.clone());
            }
            _ => self.open(file)?.all().to_vec(),
        };
        pointer::refuse(&path, &content)?;
        let text = String::from_utf8(content);
        // Some editors write a byte order mark first.
        text.map(|text| text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
            .map_err(|error| Error::NotJson { path, reason: format!("not UTF-8: {error}") })
    }

    /// Checks that the directory exists; an embedded one always does.
    ///
    /// # Errors
    /// [`Error::NotADirectory`] for a file, [`Error::Io`] if nothing is there.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Disk(path) if path.is_dir() => Ok(()),
            Self::Disk(path) if path.exists() => Err(Error::NotADirectory { path: path.clone() }),
            Self::Disk(path) => {
                let source = io::Error::from(io::ErrorKind::NotFound);
                Err(Error::Io { path: path.clone(), source })
            }
            Self::Embedded(..) | Self::Foreign(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with a byte order mark, as some editors on Windows write it, is accepted.
    #[test]
    fn a_mark_before_a_text_is_no_part_of_it() -> Result<(), Error> {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("config.json"), "\u{feff}{}").expect("a file");
        assert_eq!(Directory::Disk(folder.path().to_owned()).text("config.json")?, "{}");
        Ok(())
    }
}
