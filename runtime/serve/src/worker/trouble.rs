//! Trouble with files: a full disk, a lost connection.

use std::{io, sync::atomic::Ordering, time::Instant};

use super::{Worker, keeper::Watch};
use crate::{
    job::JobError,
    store::{End, Lease},
};

/// Times that a job goes back into the queue because its files cannot be stored or fetched.
const TROUBLES: u32 = 3;
/// Free space that a worker needs to go on after the disk was full.
pub(super) const ROOM: usize = 16 << 20;

/// Trouble with files, over several attempts.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// The job that met it last.
    job: Option<uuid::Uuid>,
    /// Times that it did.
    times: u32,
    /// True if the disk was full.
    pub(super) is_full: bool,
}

/// Word for errors of a full disk.
pub(crate) const DISK_FULL: &str = "disk_full";
/// Notice of a job that waits for a full disk.
pub(crate) const WAITS_FOR_ROOM: &str = "the disk of the server is full: the job waits for room";

/// True for the error of a full disk.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Error of results that cannot be written or read.
pub fn of_files(error: &io::Error) -> JobError {
    about("the results", error)
}

/// Error of a file of a client that cannot be stored.
pub(crate) fn of_upload(error: &io::Error) -> JobError {
    about("the file", error)
}

fn about(what: &str, error: &io::Error) -> JobError {
    let code = if is_full(error) { DISK_FULL } else { "internal" };
    JobError::new(code, format!("{what} cannot be stored: {}", reason(error)))
}

/// Returns the reason of an error without the place of a temporary file, which its crate adds: places of
/// the server are no business of a client.
pub(crate) fn reason(error: &io::Error) -> String {
    let mut text = error.to_string();
    if let Some(at) = text.find(" at path \"") {
        text.truncate(at);
    }
    text
}

impl Worker<'_> {
    /// Takes no job while the disk is full: each one would end up back in the queue.
    pub(super) fn wait_for_room(&self, trouble: &mut Trouble) {
        while trouble.is_full && !self.is_draining.load(Ordering::Relaxed) {
            let begin = Instant::now();
            while begin.elapsed() < self.times.full && !self.is_draining.load(Ordering::Relaxed) {
                std::thread::sleep(self.times.look.min(self.times.full));
            }
            match self.objects.has_room(ROOM) {
                Ok(()) => trouble.is_full = false,
                Err(error) => tracing::warn!(%error, "the disk is full: the worker waits"),
            }
        }
        (self.waits)(false);
    }

    /// The end of an attempt whose files could not be stored or fetched. A full disk and a lost
    /// connection pass, so the job waits again; one that meets them each time fails.
    pub(super) fn troubled(
        &self,
        lease: &Lease,
        error: JobError,
        watch: &Watch,
        trouble: &mut Trouble,
    ) -> End {
        // What was written would keep the disk full.
        if let Err(error) = std::fs::remove_dir_all(self.objects.attempt_folder(lease)) {
            tracing::warn!(%error, "files of an attempt stay");
        }
        trouble.is_full = error.code == DISK_FULL;
        trouble.times = if trouble.job == Some(lease.id) { trouble.times + 1 } else { 1 };
        trouble.job = Some(lease.id);
        if trouble.times >= TROUBLES {
            return End::Failed(error, Vec::new());
        }
        if trouble.is_full {
            (self.waits)(true);
            watch.news().notices.push(WAITS_FOR_ROOM.to_owned());
        }
        tracing::warn!(code = error.code, reason = error.message, "the job waits again");
        std::thread::sleep(self.times.look);
        End::Released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_temporary_file_tells_no_place() {
        let error = tempfile::NamedTempFile::new_in("/no/such/folder").expect_err("no folder");
        assert!(error.to_string().contains("/no/such/folder"), "else nothing is tested: {error}");
        let (result, upload) = (of_files(&error), of_upload(&error));
        assert!(result.message.starts_with("the results cannot be stored: "), "{result:?}");
        assert!(upload.message.starts_with("the file cannot be stored: "), "{upload:?}");
        for JobError { code, message, .. } in [result, upload] {
            assert_eq!(code, "internal");
            assert!(!message.contains("/no"), "{message}");
            assert!(message.len() > "the results cannot be stored: ".len(), "{message}");
        }
    }
}
