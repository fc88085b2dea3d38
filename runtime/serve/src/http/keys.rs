//! The form of clients' keys, and files of them.

use std::{
    io,
    path::{Path, PathBuf},
};

use acestep_engine::{files, texts::decode};

use super::ApiKey;

/// Shortest key that is taken, in letters.
const LEAST: usize = 8;

/// Reason why a key or a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file that cannot be read.
    #[error("cannot read `{}`", .path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A line of a file without a name.
    #[error("`{}` has a line that is not NAME=KEY", .0.display())]
    Line(PathBuf),
    /// A file without keys.
    #[error("`{}` has no key", .0.display())]
    Empty(PathBuf),
    /// A key that is short, or cannot be sent; with the name of its client, if it is of a file.
    #[error("the key{} is too short, or has letters that no header takes", of(.0.as_deref()))]
    Form(Option<String>),
}

impl KeyError {
    /// Returns the remedy.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unread { .. } => "name a file with a line NAME=KEY for each client",
            Self::Line(_) => "write one client a line, such as ann=5f0c2e..",
            Self::Empty(_) => "write one client a line",
            Self::Form(_) => {
                "a key has at least 8 letters of ASCII without blanks, commas and semicolons: \
                 openssl rand -hex 24"
            }
        }
    }
}

fn of(client: Option<&str>) -> String {
    client.map_or_else(String::new, |name| format!(" of `{name}`"))
}

/// True for letters that a header and the page's cookie take.
pub(super) fn is_plain(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';' && byte != b',')
}

impl ApiKey {
    /// Returns the key of the client `name`.
    ///
    /// # Errors
    /// [`KeyError::Form`].
    pub fn checked(name: &str, key: &str) -> Result<Self, KeyError> {
        match key.len() >= LEAST && is_plain(key) {
            true => Ok(Self::new(name, key)),
            false => Err(KeyError::Form(None)),
        }
    }

    /// Reads a file with a line NAME=KEY for each client; empty lines and `# comments` are skipped.
    ///
    /// # Errors
    /// A file that cannot be read, has another line or no key; a key of another form.
    pub fn read_all(path: &Path) -> Result<Vec<Self>, KeyError> {
        let unread = |source| KeyError::Unread { path: path.to_owned(), source };
        let bytes = files::read(path).map_err(unread)?;
        let text = decode(&bytes).map_err(|error| unread(io::Error::other(error)))?;
        let mut keys = Vec::new();
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let parts = line.split_once('=');
            let (name, key) = parts.ok_or_else(|| KeyError::Line(path.to_owned()))?;
            let key = Self::checked(name.trim(), key.trim());
            keys.push(key.map_err(|_| KeyError::Form(Some(name.trim().to_owned())))?);
        }
        match keys.is_empty() {
            true => Err(KeyError::Empty(path.to_owned())),
            false => Ok(keys),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_key_for_each_client_or_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("a file");
            ApiKey::read_all(&path)
        };
        // As Windows' Notepad writes it.
        let text = "\u{feff}# clients\r\nann = 0123456789\r\n\r\nben=abcdefgh\r\n";
        assert_eq!(read(text).expect("keys").len(), 2);
        assert!(matches!(read("ann=0123456789\nben\n"), Err(KeyError::Line(_))));
        assert!(matches!(read("# nobody\n"), Err(KeyError::Empty(_))));
        for key in
            ["short", "with blank", "comma,comma", "semicolon;", "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}"]
        {
            let error = read(&format!("ann={key}")).expect_err("no key");
            assert!(
                matches!(&error, KeyError::Form(Some(name)) if name == "ann"),
                "{key}: {error}"
            );
        }
        let error = ApiKey::read_all(folder.path()).expect_err("a folder");
        assert!(matches!(error, KeyError::Unread { .. }), "{error}");
    }
}
