//! Files of jobs: results, and what clients sent.
//!
//! ```text
//! results/<job>/<attempt>/<name>     files/<id>
//! ```
//!
//! An attempt has its own folder, so a worker that lost its lease never touches its successor's files.
//! Names on disk come from ids and from the program, never from a client.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    job::{Content, Output},
    store::Lease,
};

/// The folder of files.
#[derive(Debug, Clone)]
pub struct Objects {
    root: PathBuf,
}

impl Objects {
    /// Uses the folder `root`, and creates what is missing.
    ///
    /// # Errors
    /// If a folder cannot be created.
    pub fn open(root: &Path) -> io::Result<Self> {
        for folder in ["results", "files"] {
            fs::create_dir_all(root.join(folder))?;
        }
        Ok(Self { root: root.to_owned() })
    }

    /// Returns the folder of an attempt, and creates it.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn attempt(&self, lease: &Lease) -> io::Result<PathBuf> {
        let folder = self.attempt_folder(lease);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// The place of the folder of an attempt.
    pub fn attempt_folder(&self, lease: &Lease) -> PathBuf {
        self.root.join(Self::key(lease, ""))
    }

    fn key(lease: &Lease, name: &str) -> String {
        format!("results/{}/{}/{name}", lease.id, lease.attempt)
    }

    /// Describes the result `name`, which lies in the folder of the attempt.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn output(
        &self,
        lease: &Lease,
        track: u32,
        content: Content,
        name: &str,
    ) -> io::Result<Output> {
        let key = Self::key(lease, name);
        let mut file = fs::File::open(self.root.join(&key))?;
        let mut sum = Sha256::new();
        let bytes = io::copy(&mut file, &mut sum)?;
        let sha256 = hex(&sum.finalize());
        Ok(Output {
            track,
            content,
            name: name.to_owned(),
            media_type: media_type(name).to_owned(),
            bytes,
            sha256,
            seed: None,
            seconds: None,
            key,
        })
    }

    /// The place of a result on disk.
    pub fn path(&self, output: &Output) -> PathBuf {
        self.root.join(&output.key)
    }

    /// Removes all results of a job. A job without results is no error.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn remove(&self, job: Uuid) -> io::Result<()> {
        missing_is_fine(fs::remove_dir_all(self.root.join(format!("results/{job}"))))
    }

    /// Removes the folders of attempts that were not the last one.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn remove_earlier(&self, lease: &Lease) -> io::Result<()> {
        for earlier in 1..lease.attempt {
            let folder = format!("results/{}/{earlier}", lease.id);
            missing_is_fine(fs::remove_dir_all(self.root.join(folder)))?;
        }
        Ok(())
    }

    /// The place of a file that a client sent.
    pub fn file(&self, id: Uuid) -> PathBuf {
        self.root.join(format!("files/{id}"))
    }

    /// Removes a file that a client sent.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove_file(&self, id: Uuid) -> io::Result<()> {
        missing_is_fine(fs::remove_file(self.file(id)))
    }

    /// The folder of files that clients sent, for files that are not complete yet.
    pub fn incoming(&self) -> PathBuf {
        self.root.join("files")
    }
}

fn missing_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Writes bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A string takes everything.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the media type of a result by its name.
pub fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("wav") => "audio/wav",
        Some("mp3") => "audio/mpeg",
        Some("flac") => "audio/flac",
        Some("opus") => "audio/ogg",
        Some("json") => "application/json",
        Some("lrc" | "txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
