//! The files of one directory: received, checked and linked.

use std::{fs, path::Path, thread, time::Duration};

use super::{
    Hub, HubError, Pin, PullEvent, Remote, RemoteFile,
    disk::{length, name, on},
    pins::PinnedFile,
    transfer::Failure,
};
use crate::Release;

/// The branch that is pulled by default.
pub(super) const MAIN: &str = "main";
/// Maximum number of attempts at one file without progress.
const ATTEMPTS: u32 = 5;
/// The first pause between two attempts; each pause is twice as long as the last.
const PAUSE: Duration = Duration::from_millis(500);
/// Received bytes after which the attempts are counted again from the start.
const PROGRESS: u64 = 1 << 20;

/// The files of one directory at one commit.
#[derive(Debug)]
pub struct Download {
    /// The directory.
    pub release: &'static Release,
    /// The commit.
    pub revision: String,
    /// The files that are needed.
    pub files: Vec<RemoteFile>,
    /// True if this is the newest commit of the main branch.
    pub(super) is_main: bool,
}

/// Returns the sum, without overflow if the hub sends absurd sizes.
pub(super) fn total(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

impl Download {
    /// Returns the bytes of its files.
    pub fn size(&self) -> u64 {
        total(self.files.iter().map(|file| file.size))
    }

    /// Returns the bytes that are not in the cache yet.
    pub fn missing(&self, hub: &Hub) -> u64 {
        let repo = self.release.repo;
        let named = |file: &RemoteFile| hub.snapshot(repo, &self.revision).join(&file.path);
        let here = |file: &RemoteFile| match length(&hub.blob(repo, &file.checksum)) {
            Some(here) if here == file.size => here,
            // Fetched by a program that does not use links.
            None if length(&named(file)) == Some(file.size) => file.size,
            _ => length(&hub.part(repo, &file.checksum)).unwrap_or(0).min(file.size),
        };
        total(self.files.iter().map(|file| file.size - here(file)))
    }

    /// Makes sure that `file` is here and complete.
    pub(super) fn file(
        &self,
        file: &RemoteFile,
        hub: &Hub,
        remote: &Remote,
        watch: &mut dyn FnMut(PullEvent<'_>),
    ) -> Result<(), HubError> {
        let repo = self.release.repo;
        let (blob, part) = (hub.blob(repo, &file.checksum), hub.part(repo, &file.checksum));
        let link = hub.snapshot(repo, &self.revision).join(&file.path);
        // Programs that do not use links store the file itself under its name.
        let is_file = |path: &Path| path.symlink_metadata().is_ok_and(|of| of.is_file());
        if !blob.exists() && is_file(&link) && is_whole(file, &link, watch)? {
            on(&blob, blob.parent().map_or(Ok(()), fs::create_dir_all))?;
            on(&link, fs::rename(&link, &blob))?;
            // A model that works has to work also if this run fails.
            on(&link, name(&link, &blob))?;
        }
        if blob.is_file() {
            if is_whole(file, &blob, watch)? {
                watch(PullEvent::Whole { file, fetched: false });
                return Ok(());
            }
            watch(PullEvent::WasDamaged(file));
            on(&blob, fs::remove_file(&blob))?;
        }
        if length(&part).is_some_and(|here| here > file.size) {
            on(&part, fs::remove_file(&part))?;
        }
        self.receive(file, hub, remote, watch)?;
        if !is_whole(file, &part, watch)? {
            on(&part, fs::remove_file(&part))?;
            return Err(HubError::Damaged {
                repo: repo.to_owned(),
                file: file.path.clone(),
                expected: file.checksum.to_string(),
            });
        }
        on(&blob, fs::rename(&part, &blob))?;
        watch(PullEvent::Whole { file, fetched: true });
        Ok(())
    }

    /// Links every file into its commit and records the newest commit, as other programs expect it.
    pub(super) fn name(&self, hub: &Hub) -> Result<(), HubError> {
        let repo = self.release.repo;
        for file in &self.files {
            let link = hub.snapshot(repo, &self.revision).join(&file.path);
            let blob = hub.blob(repo, &file.checksum);
            on(&link, name(&link, &blob))?;
        }
        let refs = hub.repository(repo).join("refs");
        let main = refs.join(MAIN);
        let is_said = fs::read_to_string(&main).is_ok_and(|main| main.trim() == self.revision);
        if self.is_main && !is_said {
            on(&main, fs::create_dir_all(&refs).and_then(|()| fs::write(&main, &self.revision)))?;
        }
        Ok(())
    }

    /// Fetches `file`, with repeated attempts.
    fn receive(
        &self,
        file: &RemoteFile,
        hub: &Hub,
        remote: &Remote,
        watch: &mut dyn FnMut(PullEvent<'_>),
    ) -> Result<(), HubError> {
        let repo = self.release.repo;
        let part = hub.part(repo, &file.checksum);
        let (mut attempt, mut pause) = (1, PAUSE);
        loop {
            let here = length(&part).unwrap_or(0);
            watch(PullEvent::Begun { file, here });
            let mut received = |bytes| watch(PullEvent::Received(bytes));
            let fetched = remote.fetch(repo, &self.revision, file, &part, &mut received);
            let Err(failure) = fetched else { return Ok(()) };
            let why = match failure {
                Failure::Final(error) => return Err(error),
                Failure::Disk(source) => return Err(HubError::Disk { path: part, source }),
                Failure::Passing(why) => why,
            };
            if length(&part).unwrap_or(0) >= here + PROGRESS {
                (attempt, pause) = (0, PAUSE);
            }
            if attempt >= ATTEMPTS {
                let file = file.path.clone();
                return Err(HubError::Broken { file, attempts: attempt, source: why });
            }
            watch(PullEvent::Again { file, why: why.to_string() });
            thread::sleep(pause);
            (attempt, pause) = (attempt + 1, pause * 2);
        }
    }

    pub(super) fn pin(&self, hub: &Hub) -> Pin {
        let file = |file: &RemoteFile| {
            let name = self.release.name_of(&file.path)?.to_owned();
            let checksum = file.checksum.clone();
            // The actual length: a list may contain a wrong one.
            let size = length(&hub.blob(self.release.repo, &checksum)).unwrap_or(file.size);
            Some((name, PinnedFile { size, checksum }))
        };
        Pin {
            repo: self.release.repo.to_owned(),
            revision: self.revision.clone(),
            files: self.files.iter().filter_map(file).collect(),
        }
    }
}

/// True if the file at `path` matches its published checksum. The length is not compared, because a
/// list may contain a wrong one.
fn is_whole(
    file: &RemoteFile,
    path: &Path,
    watch: &mut dyn FnMut(PullEvent<'_>),
) -> Result<bool, HubError> {
    watch(PullEvent::Checking(file));
    let matches = file.checksum.matches(path, &mut |bytes| {
        watch(PullEvent::Compared(bytes));
        Ok(())
    });
    on(path, matches)
}
