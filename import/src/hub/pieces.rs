//! Which directories of which repositories a model is made of.

use crate::known::{KNOWN_COMPANIONS, KNOWN_MODELS, KnownModel, MAIN_REPO};

/// One directory of a model, as it is published.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    /// Its name among the models.
    pub directory: &'static str,
    /// Its repository.
    pub repo: &'static str,
    /// Where it lies in the repository: a directory's name, or nothing for all of it.
    pub prefix: &'static str,
    /// Gigabytes, about: the hub says it exactly.
    pub gigabytes: f32,
}

impl Piece {
    /// The name of `path`, a file of the repository, in this directory; `None` for one that is not
    /// read: code, pictures, weights of other frameworks, files of other directories.
    pub(crate) fn name_of<'a>(&self, path: &'a str) -> Option<&'a str> {
        let name = match self.prefix {
            "" => path,
            prefix => path.strip_prefix(prefix)?.strip_prefix('/')?,
        };
        let (stem, ending) = name.rsplit_once('.')?;
        let is_read = match ending {
            "json" | "safetensors" | "jinja" => true,
            "txt" => stem == "merges",
            "pt" => stem == "silence_latent",
            _ => false,
        };
        // Neither separators of any system, nor what an address or a name of a drive is made of.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        (is_read && name.bytes().all(is_plain)).then_some(name)
    }
}

impl KnownModel {
    /// The model's own directory.
    pub fn piece(&self) -> Piece {
        let Self { directory, repo, gigabytes, .. } = *self;
        let prefix = if repo == MAIN_REPO { directory } else { "" };
        Piece { directory, repo, prefix, gigabytes }
    }

    /// Everything that it needs to work: its own directory, and those that models share.
    pub fn pieces(&self) -> Vec<Piece> {
        let companions = KNOWN_COMPANIONS.iter().filter(|_| KNOWN_MODELS.contains(self));
        [self.piece()].into_iter().chain(companions.map(Self::piece)).collect()
    }
}
