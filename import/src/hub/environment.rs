//! Places and access of the Hugging Face hub, found as its other programs find them.

use std::{ffi::OsString, path::PathBuf};

use super::Access;

/// Variables of the environment, and the user's home directory.
pub struct Environment<'a> {
    /// Returns the value of a variable that is set.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
}

impl Environment<'_> {
    /// Returns the hub's cache: HF_HUB_CACHE, else `hub` in HF_HOME, else `huggingface` in the
    /// user's cache directory. `None` if the user has no home.
    pub fn cache(&self) -> Option<PathBuf> {
        let cache = self.path("HF_HUB_CACHE").or_else(|| Some(self.hf_home()?.join("hub")))?;
        std::path::absolute(cache).ok()
    }

    fn hf_home(&self) -> Option<PathBuf> {
        self.path("HF_HOME").or_else(|| {
            // Like the Python library, do not use the native cache directories of macOS and Windows.
            let caches = self.path("XDG_CACHE_HOME");
            let caches = caches.or_else(|| Some(self.home.as_ref()?.join(".cache")))?;
            Some(caches.join("huggingface"))
        })
    }

    /// Returns a path; `~` is the home directory.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let path = PathBuf::from((self.variable)(name)?);
        match (path.strip_prefix("~"), &self.home) {
            (Ok(below), Some(home)) => Some(home.join(below)),
            _ => Some(path),
        }
    }

    /// Returns the server and the token: HF_ENDPOINT, and HF_TOKEN or the file of `hf auth login`.
    pub fn access(&self) -> Access {
        let text = |name| Some((self.variable)(name)?.to_str()?.trim().to_owned());
        let token = || {
            let file =
                self.path("HF_TOKEN_PATH").or_else(|| Some(self.hf_home()?.join("token")))?;
            let token = std::fs::read_to_string(file).ok()?.trim().to_owned();
            (!token.is_empty()).then_some(token)
        };
        Access { endpoint: text("HF_ENDPOINT"), token: text("HF_TOKEN").or_else(token) }
    }
}
