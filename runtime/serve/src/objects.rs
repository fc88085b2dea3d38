//! Files of jobs: results, and what clients sent.
//!
//! ```text
//! results/<job>/<attempt>/<name>     files/<id>     reserve
//! ```
//!
//! An attempt has its own folder, so a worker that lost its lease never touches its successor's files.
//! Names on disk come from ids and from the program, never from a client.
//!
//! With a queue of many machines the files lie elsewhere, and this folder has copies: an attempt writes
//! here and is sent when it ends, and a file is fetched before it is read. All functions block.

mod cache;
mod files;
mod live;
mod remote;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use self::cache::Copies;
pub use self::{
    live::{Live, LiveSamples, LocalAttempts, WAIT},
    remote::RemoteFiles,
};
use crate::{
    job::{Output, RunOutput},
    store::Lease,
};

/// A file whose room removals take when the disk is full: the queue needs some to forget anything.
const RESERVE: &str = "reserve";
/// Its size.
const RESERVED: usize = 256 << 10;

/// The folder of files.
#[derive(Clone)]
pub struct Objects {
    root: PathBuf,
    remote: Option<Arc<dyn RemoteFiles>>,
    live: Option<Arc<dyn Live>>,
    copies: Copies,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").field("root", &self.root).finish_non_exhaustive()
    }
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
        let (remote, live) = (None, None);
        Ok(Self { root: root.to_owned(), remote, live, copies: Copies::default() })
    }

    /// Keeps files elsewhere, with copies in this folder.
    #[must_use]
    pub fn with_remote(self, remote: Arc<dyn RemoteFiles>) -> Self {
        Self { remote: Some(remote), ..self }
    }

    /// Reaches attempts of other machines while they run.
    #[must_use]
    pub fn with_live(self, live: Arc<dyn Live>) -> Self {
        Self { live: Some(live), ..self }
    }

    /// The way to attempts of other machines, if there are any.
    pub fn live(&self) -> Option<&Arc<dyn Live>> {
        self.live.as_ref()
    }

    /// The folder on this machine.
    pub fn folder(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of an attempt, and creates it.
    pub(crate) fn attempt(&self, lease: &Lease) -> io::Result<PathBuf> {
        let folder = self.attempt_folder(lease);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    pub(crate) fn attempt_folder(&self, lease: &Lease) -> PathBuf {
        self.root.join(Self::key(lease, ""))
    }

    fn key(lease: &Lease, name: &str) -> String {
        format!("{}/{name}", attempt_of(lease.id, lease.attempt))
    }

    /// Describes a result, which lies in the folder of the attempt, when it is safe on disk.
    pub(crate) fn output(&self, lease: &Lease, made: &RunOutput) -> io::Result<Output> {
        let RunOutput { track, content, name, seed, seconds } = made.clone();
        let key = Self::key(lease, &name);
        // Opened for writing too: some systems sync no file that is only read.
        let mut file = fs::File::options().read(true).write(true).open(self.root.join(&key))?;
        let mut sum = Sha256::new();
        let bytes = io::copy(&mut file, &mut sum)?;
        file.sync_all()?;
        let (media_type, sha256) = (media_type(&name).to_owned(), hex(&sum.finalize()));
        Ok(Output { track, content, name, media_type, bytes, sha256, seed, seconds, key })
    }

    /// Makes the names of results safe on disk, and sends the results of an attempt to where all machines
    /// reach them.
    pub(crate) fn publish(&self, lease: &Lease, outputs: &[Output]) -> io::Result<()> {
        if outputs.is_empty() {
            return Ok(());
        }
        let attempt = self.attempt_folder(lease);
        // The folder of the attempt, of the job, and of all results.
        for folder in attempt.ancestors().take(3) {
            sync_folder(folder)?;
        }
        let Some(remote) = &self.remote else { return Ok(()) };
        let names: Vec<String> = outputs.iter().map(|output| output.name.clone()).collect();
        let folder = attempt_of(lease.id, lease.attempt);
        remote.put_folder(&folder, &names, &self.root.join(&folder))?;
        self.copies.added(&self.root);
        Ok(())
    }

    /// Returns the place of a result on disk, after it was fetched.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn fetch(&self, output: &Output) -> io::Result<PathBuf> {
        self.copy(&output.key)?;
        Ok(self.path(output))
    }

    /// Fetches the files of clients that a request names.
    pub(crate) fn prepare(&self, request: &Value) -> io::Result<()> {
        if self.remote.is_none() {
            return Ok(());
        }
        let mut ids = Vec::new();
        list_ids(request, &mut ids);
        for id in ids {
            match self.copy(&format!("files/{id}")) {
                // Not every id is one of a file; the runner says so if it misses one.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Fetches a file that is not here yet.
    fn copy(&self, key: &str) -> io::Result<()> {
        let place = self.root.join(key);
        let Some(remote) = self.remote.as_ref().filter(|_| !place.exists()) else {
            return Ok(());
        };
        let folder = place.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder)?;
        // A reader never sees half of a file.
        let whole = tempfile::NamedTempFile::new_in(folder)?;
        remote.get(key, whole.path())?;
        whole.persist(&place).map_err(|error| error.error)?;
        self.copies.added(&self.root);
        Ok(())
    }

    /// The place of a result on disk. With files elsewhere: after [`Objects::fetch`].
    pub(crate) fn path(&self, output: &Output) -> PathBuf {
        self.root.join(&output.key)
    }

    /// Removes all results of a job that began `attempts` times. A job without results is no error.
    pub(crate) fn remove(&self, job: Uuid, attempts: u32) -> io::Result<()> {
        if let Some(remote) = &self.remote {
            for attempt in 1..=attempts {
                remote.remove_folder(&attempt_of(job, attempt))?;
            }
        }
        missing_is_fine(fs::remove_dir_all(self.results_of(job)))
    }

    /// Removes the folders of attempts that were not the last one.
    pub(crate) fn remove_earlier(&self, lease: &Lease) -> io::Result<()> {
        for earlier in 1..lease.attempt {
            let folder = attempt_of(lease.id, earlier);
            if let Some(remote) = &self.remote {
                remote.remove_folder(&folder)?;
            }
            missing_is_fine(fs::remove_dir_all(self.root.join(folder)))?;
        }
        Ok(())
    }

    /// Returns the jobs that have a folder of results on this machine.
    pub(crate) fn jobs_with_results(&self) -> io::Result<Vec<Uuid>> {
        let names = fs::read_dir(self.root.join("results"))?;
        let names: Vec<_> = names.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
        Ok(names.iter().filter_map(|name| Uuid::parse_str(&name.to_string_lossy()).ok()).collect())
    }

    /// The place of the results of a job on this machine.
    pub(crate) fn results_of(&self, job: Uuid) -> PathBuf {
        self.root.join(format!("results/{job}"))
    }

    /// Checks that `bytes` can be written.
    pub(crate) fn has_room(&self, bytes: usize) -> io::Result<()> {
        // A quota or a reserve of the administrator shows only when something is written.
        let mut file = tempfile::tempfile_in(self.incoming())?;
        io::Write::write_all(&mut file, &vec![0; bytes])?;
        file.sync_all()
    }

    /// Keeps room for removals. With a queue of many machines nothing of it lies here.
    pub(crate) fn keep_reserve(&self) -> io::Result<()> {
        let path = self.root.join(RESERVE);
        if is_reserve(&path) || self.remote.is_some() {
            return Ok(());
        }
        // A part of it would take the last room of others. Another's file of this name stays.
        let mut file = tempfile::NamedTempFile::new_in(self.incoming())?;
        io::Write::write_all(&mut file, &vec![1; RESERVED])?;
        file.persist_noclobber(path)?;
        Ok(())
    }

    /// Frees the room of [`Objects::keep_reserve`].
    pub(crate) fn use_reserve(&self) -> io::Result<()> {
        let path = self.root.join(RESERVE);
        if is_reserve(&path) { missing_is_fine(fs::remove_file(path)) } else { Ok(()) }
    }
}

/// True for the file of [`Objects::keep_reserve`], and not for a link or a pipe of its name.
fn is_reserve(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|of| of.is_file() && of.len() == RESERVED as u64)
}

/// Makes the names in a folder safe on disk: after a power cut a file may else have no name.
fn sync_folder(folder: &Path) -> io::Result<()> {
    // Windows syncs no folders.
    if cfg!(windows) { Ok(()) } else { fs::File::open(folder)?.sync_all() }
}

fn attempt_of(job: Uuid, attempt: u32) -> String {
    format!("results/{job}/{attempt}")
}

/// Adds the ids within a request, however deep.
pub(crate) fn list_ids(value: &Value, ids: &mut Vec<Uuid>) {
    match value {
        Value::String(text) => ids.extend(Uuid::parse_str(text).ok()),
        Value::Array(values) => values.iter().for_each(|value| list_ids(value, ids)),
        Value::Object(object) => object.values().for_each(|value| list_ids(value, ids)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
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
        Some("png") => "image/png",
        Some("srt") => "application/x-subrip",
        Some("vtt") => "text/vtt; charset=utf-8",
        Some("lrc" | "txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place that has every file.
    struct All;

    impl RemoteFiles for All {
        fn put(&self, _: &str, _: &Path) -> io::Result<()> {
            Ok(())
        }

        fn put_folder(&self, _: &str, _: &[String], _: &Path) -> io::Result<()> {
            Ok(())
        }

        fn get(&self, key: &str, to: &Path) -> io::Result<()> {
            fs::write(to, key)
        }

        fn remove(&self, _: &str) -> io::Result<()> {
            Ok(())
        }

        fn remove_folder(&self, _: &str) -> io::Result<()> {
            Ok(())
        }

        fn older_than(&self, _: &str, _: std::time::Duration) -> io::Result<Vec<String>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn files_are_fetched_wherever_a_request_names_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let objects = Objects::open(folder.path()).expect("a folder").with_remote(Arc::new(All));
        let ids = [0; 3].map(|_| Uuid::now_v7());
        let request = serde_json::json!({
            "src_audio": ids[0], "reference_audio": [ids[1]], "source": { "deep": [ids[2]] },
        });
        objects.prepare(&request).expect("fetched");
        for id in ids {
            assert!(objects.file(id).exists());
        }
    }
}
