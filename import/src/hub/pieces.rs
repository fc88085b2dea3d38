//! The directories and repositories of each model.

use crate::known::{KNOWN_COMPANIONS, KNOWN_MODELS, KnownModel, MAIN_REPO};

/// One directory of a model, as published.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    /// Its name in the models directory.
    pub directory: &'static str,
    /// Its repository.
    pub repo: &'static str,
    /// Its directory in the repository; empty if it is the whole repository.
    pub prefix: &'static str,
    /// Size in gigabytes, approximately; the hub knows the exact size.
    pub gigabytes: f32,
}

impl Piece {
    /// Returns the name that `path`, a file of the repository, has in this directory. `None` for
    /// files that are not needed: code, pictures, weights of other frameworks, other directories.
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
        // No path separators of any system, and no characters of a URL or a drive name.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        (is_read && name.bytes().all(is_plain)).then_some(name)
    }
}

impl KnownModel {
    /// Returns the model's own directory.
    pub fn piece(&self) -> Piece {
        let Self { directory, repo, gigabytes, .. } = *self;
        let prefix = if repo == MAIN_REPO { directory } else { "" };
        Piece { directory, repo, prefix, gigabytes }
    }

    /// Returns all directories that it needs: its own, and those that models share.
    pub fn pieces(&self) -> Vec<Piece> {
        let companions = KNOWN_COMPANIONS.iter().filter(|_| KNOWN_MODELS.contains(self));
        [self.piece()].into_iter().chain(companions.map(Self::piece)).collect()
    }
}
