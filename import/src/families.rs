//! Published model families, as data: directories, repositories, names of tensors and of files.
//!
//! A family is one module of tables. The readers of formats, the hub and the search for directories
//! know only the types here and in [`crate::names`], so that another family does not change them.

pub mod acestep;
pub(crate) mod dia2;
pub(crate) mod magpie;
pub(crate) mod mimi;
pub(crate) mod qwen3_tts;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use acestep::Kind;
use serde_json::Value;

/// A published directory: a model, or a network that several models share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Release {
    /// Name for the fields `model` and `lm_model`, and for downloads.
    pub name: &'static str,
    /// Another name; empty if there is none.
    pub alias: &'static str,
    /// The network that it is searched as among other programs' files; `None` for a speech model.
    pub kind: Option<Kind>,
    /// Its directory in the models directory.
    pub directory: &'static str,
    /// Its repository on Hugging Face (and ModelScope).
    pub repo: &'static str,
    /// Its directory in the repository; empty if it is the whole repository.
    pub prefix: &'static str,
    /// Folders inside its directory that it needs too.
    pub folders: &'static [&'static str],
    /// Gigabytes of its directory, approximately; the hub knows the exact size.
    pub gigabytes: f32,
    /// One line for help texts.
    pub about: &'static str,
    /// The directories that it needs beside its own.
    pub needs: &'static [Self],
}

impl Release {
    /// A whole repository, `owner/directory`, that is read only from its own directory.
    pub(crate) const fn whole(
        name: &'static str,
        repo: &'static str,
        gigabytes: f32,
        about: &'static str,
    ) -> Self {
        let mut slash = 0;
        while repo.as_bytes()[slash] != b'/' {
            slash += 1;
        }
        let directory = repo.split_at(slash + 1).1;
        Self {
            name,
            alias: "",
            kind: None,
            directory,
            repo,
            prefix: "",
            folders: &[],
            gigabytes,
            about,
            needs: &[],
        }
    }

    /// Returns every model with a name: songs, their language models and companions, speech.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        use acestep::{COMPANIONS, LANGUAGE_MODELS, MODELS};
        let songs = MODELS.iter().chain(&LANGUAGE_MODELS).chain(&COMPANIONS);
        let speech = qwen3_tts::MODELS.iter().chain(&dia2::MODELS).chain(&dia2::COMPANIONS);
        songs.chain(speech).chain(&magpie::MODELS).chain(&magpie::CODECS)
    }

    /// Returns the speech models of every family, the default first.
    pub fn speech() -> impl Iterator<Item = &'static Self> {
        qwen3_tts::MODELS.iter().chain(&dia2::MODELS).chain(&magpie::MODELS)
    }

    /// Returns the model that is called `name`, as in [`Self::is_called`], or by its repository.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().find(|model| {
            let others = [model.name.strip_prefix("lm-"), Some(model.repo)];
            let mut others = others.into_iter().flatten();
            model.is_called(name) || others.any(|own| own.eq_ignore_ascii_case(name))
        })
    }

    /// Returns it and all that it needs.
    pub fn with_needs(&'static self) -> impl Iterator<Item = &'static Self> {
        [self].into_iter().chain(self.needs)
    }

    /// True if it is called `name`: its short name, its other name or its directory.
    pub fn is_called(&self, name: &str) -> bool {
        let names = [self.name, self.alias, self.directory].into_iter();
        names.filter(|own| !own.is_empty()).any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Returns the name that `path`, a file of the repository, has in this directory. `None` for
    /// files that are not needed: code, pictures, weights of other frameworks, other directories.
    pub(crate) fn name_of<'a>(&self, path: &'a str) -> Option<&'a str> {
        let name = match self.prefix {
            "" => path,
            prefix => path.strip_prefix(prefix)?.strip_prefix('/')?,
        };
        let file = match name.split_once('/') {
            Some((folder, file)) => self.folders.contains(&folder).then_some(file)?,
            None => name,
        };
        let (stem, ending) = file.rsplit_once('.')?;
        let is_read = match ending {
            "json" | "safetensors" | "jinja" | "nemo" => true,
            "txt" => stem == "merges",
            "pt" => stem == "silence_latent",
            _ => false,
        };
        // No path separators of any system, and no characters of a URL or a drive name.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        (is_read && file.bytes().all(is_plain)).then_some(name)
    }
}

/// Returns `place`, the directory of a model, and the folders in it where a release has files.
pub(crate) fn with_folders(place: &Path) -> Vec<PathBuf> {
    let names: BTreeSet<_> = Release::all().flat_map(|release| release.folders).collect();
    let inner = names.into_iter().map(|name| place.join(name)).filter(|path| path.is_dir());
    [place.to_owned()].into_iter().chain(inner).collect()
}

/// Returns the kind of a network of songs that a `config.json` declares, or a description of what it
/// declares instead.
pub(crate) fn declared(config: &Value) -> Result<Kind, String> {
    if dia2::is_one(config) { Err("a Dia2 model".into()) } else { acestep::declared(config) }
}

/// Returns a noun phrase for the network in a GGUF file of this `architecture`, of any family.
pub(crate) fn of_architecture(architecture: &str) -> Option<&'static str> {
    let songs = acestep::ARCHITECTURES.map(|(own, kind)| (own, kind.name()));
    let speech = qwen3_tts::gguf::ARCHITECTURES.into_iter().chain(magpie::ARCHITECTURES);
    let all = songs.into_iter().chain(speech);
    all.into_iter().find(|(own, _)| *own == architecture).map(|(_, noun)| noun)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the folders that a release needs, and no path out of its directory.
    #[test]
    fn files_in_folders_are_read_only_if_the_release_names_the_folder() {
        let [speech, ..] = &qwen3_tts::MODELS;
        for (path, name) in [
            ("config.json", Some("config.json")),
            ("merges.txt", Some("merges.txt")),
            ("speech_tokenizer/model.safetensors", Some("speech_tokenizer/model.safetensors")),
            ("other/model.safetensors", None),
            ("speech_tokenizer/../config.json", None),
            ("speech_tokenizer/deep/config.json", None),
            ("../config.json", None),
            ("model.bin", None),
        ] {
            assert_eq!(speech.name_of(path), name, "{path}");
        }
    }
}
