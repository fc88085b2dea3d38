//! Trouble with files: a full disk, a lost connection.

use std::{sync::atomic::Ordering, time::Instant};

use super::Worker;
use crate::{
    job::JobError,
    store::{End, Lease},
};

/// Times that a job goes back into the queue because its files cannot be stored or fetched.
const TROUBLES: u32 = 3;
/// Free space that a worker needs to go on after the disk was full.
const ROOM: usize = 16 << 20;

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
pub(super) const DISK_FULL: &str = "disk_full";

/// Error of files that the server itself writes.
pub fn of_files(error: &std::io::Error) -> JobError {
    let code = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => DISK_FULL,
        _ => "internal",
    };
    JobError::new(code, format!("the results cannot be stored: {error}"))
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
    }

    /// The end of an attempt whose files could not be stored or fetched. A full disk and a lost
    /// connection pass, so the job waits again; one that meets them each time fails.
    pub(super) fn troubled(&self, lease: &Lease, error: JobError, trouble: &mut Trouble) -> End {
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
        tracing::warn!(code = error.code, message = error.message, "the job waits again");
        std::thread::sleep(self.times.look);
        End::Released
    }
}
