//! Checksums of files on the hub: SHA-256 of large ones, Git's SHA-1 of small ones.

use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::Path,
};

use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// The checksum of a file, in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Checksum {
    /// SHA-256 of the content.
    Sha256(String),
    /// Git's: SHA-1 of the word `blob`, the length, a zero byte and the content.
    Git(String),
}

impl Checksum {
    /// Parses the name of a file in the cache: 64 or 40 digits.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        if !name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        match name.len() {
            64 => Some(Self::Sha256(name.to_owned())),
            40 => Some(Self::Git(name.to_owned())),
            _ => None,
        }
    }

    /// Returns the digits, which are the file's name in the cache.
    pub fn name(&self) -> &str {
        let (Self::Sha256(name) | Self::Git(name)) = self;
        name
    }

    /// True if the file at `path` has this checksum. `read` receives the length of every chunk
    /// read.
    ///
    /// # Errors
    /// If the file cannot be read, or `read` stops it.
    pub fn matches(
        &self,
        path: &Path,
        read: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> io::Result<bool> {
        Ok(self.like(path, read)? == *self)
    }

    /// Returns the checksum of the file at `path`, with the same algorithm as this one.
    fn like(&self, path: &Path, read: &mut dyn FnMut(u64) -> io::Result<()>) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(match self {
            Self::Sha256(_) => Self::Sha256(hex(digest(Sha256::new(), file, read)?)),
            Self::Git(_) => {
                let start = Sha1::new().chain_update(format!("blob {}\0", file.metadata()?.len()));
                Self::Git(hex(digest(start, file, read)?))
            }
        })
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha256(name) => write!(f, "sha256:{name}"),
            Self::Git(name) => write!(f, "git:{name}"),
        }
    }
}

fn digest<D: Digest>(
    mut digest: D,
    mut file: File,
    read: &mut dyn FnMut(u64) -> io::Result<()>,
) -> io::Result<impl AsRef<[u8]> + use<D>> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(digest.finalize().to_vec());
        }
        digest.update(&buffer[..count]);
        read(count as u64)?;
    }
}

/// Returns `bytes` in hexadecimal digits.
pub(crate) fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `git hash-object` and `sha256sum`.
    #[test]
    fn checksums_are_those_of_git_and_of_sha256sum() -> io::Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), "hello world\n")?;
        let sha256 = "a948904f2f0f479b8f8197694b30184b0d2ed1c1cd2a1ec0fb85d299a192a447";
        let git = "3b18e512dba79e4c8300dd08aeb37f8e728b8dad";
        let mut bytes = 0;
        for name in [sha256, git] {
            let checksum = Checksum::from_name(name).expect("a checksum");
            assert_eq!(checksum.name(), name);
            assert!(checksum.matches(file.path(), &mut |count| {
                bytes += count;
                Ok(())
            })?);
        }
        assert_eq!(bytes, 24);
        std::fs::write(file.path(), "hello world")?;
        assert!(!Checksum::Git(git.into()).matches(file.path(), &mut |_| Ok(()))?);
        assert!([&git[1..], &"x".repeat(64), ""].map(Checksum::from_name) == [None, None, None]);
        Ok(())
    }
}
