//! Trouble with files: a full disk, a lost connection.

use std::{collections::HashMap, io, sync::atomic::Ordering, time::Instant};

use uuid::Uuid;

use super::{Worker, keeper::Watch};
use crate::{
    job::JobError,
    store::{End, Lease},
};

/// Attempts of a worker at a job whose files cannot be stored or fetched; after each but the last one the job
/// goes back into the queue, where other workers find it.
const TROUBLES: u32 = 3;
/// The most jobs that are remembered. One that was forgotten may go back more often.
const MOST: usize = 4096;
/// Free space that a worker needs to go on after the disk was full.
pub(super) const ROOM: usize = 16 << 20;

/// Trouble with files, over several attempts.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// The attempts of each job that met it.
    attempts: HashMap<Uuid, u32>,
    pub(super) is_full: bool,
}

impl Trouble {
    /// The end of an attempt that met `error`.
    fn end(&mut self, id: Uuid, error: JobError) -> End {
        self.is_full = error.code == DISK_FULL;
        if self.attempts.len() >= MOST {
            self.attempts.clear();
        }
        let attempts = self.attempts.entry(id).or_default();
        *attempts += 1;
        if *attempts < TROUBLES {
            return End::Released;
        }
        self.attempts.remove(&id);
        let hint = "the disk of the worker was full each time: make room there, then run it again";
        End::Failed(if self.is_full { error.hint(hint) } else { error }, Vec::new())
    }
}

/// Word for errors of a full disk.
pub(crate) const DISK_FULL: &str = "disk_full";
/// Notice of a job that met a full disk.
pub(crate) const WAITS_FOR_ROOM: &str =
    "the disk of the worker is full: the job waits for room, or for another worker";

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

/// Returns the reason of an error without the place of a temporary file, which its crate adds: clients must
/// not see places of the server.
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
                std::thread::sleep(self.times.poll.min(self.times.full));
            }
            match self.objects.has_room(ROOM) {
                Ok(()) => trouble.is_full = false,
                Err(error) => tracing::warn!(%error, "the disk is full: the worker waits"),
            }
        }
        (self.on_disk_full)(false);
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
        let JobError { code, message, .. } = error.clone();
        let end = trouble.end(lease.id, error);
        if trouble.is_full {
            (self.on_disk_full)(true);
        }
        if let End::Released = end {
            if trouble.is_full {
                watch.news().notices.push(WAITS_FOR_ROOM.to_owned());
            }
            tracing::warn!(code, reason = message, "the job waits again");
            std::thread::sleep(self.times.poll);
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_take_turns_fail_each_after_three_attempts_and_say_how_to_go_on() {
        let (mut trouble, jobs) = (Trouble::default(), [Uuid::now_v7(), Uuid::now_v7()]);
        for attempt in 1..=4 {
            for id in jobs {
                let end = trouble.end(id, JobError::new(DISK_FULL, "no room"));
                let End::Failed(error, _) = end else {
                    assert_ne!(attempt, 3);
                    continue;
                };
                assert_eq!(attempt, 3, "then it was sent again");
                assert!(error.hint.expect("a hint").contains("make room"));
            }
        }
        assert!(trouble.is_full);
    }

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
