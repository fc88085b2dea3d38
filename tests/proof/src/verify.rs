//! `verify`: compares stored results of the reference with results of this machine.
//!
//! Every stored output is one case. A case runs through the code that `generate` uses, or it is
//! reported as skipped with the reason; it never passes without being computed. A case that panics
//! has failed, and the others go on. Each case is reported as soon as it is finished.
//!
//! Pure logic cannot differ between machines. The tests beside its code compare it.

mod child;
mod files;

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    process::Command,
};

use acestep_engine::Device;
use anyhow::{Context, Result};
use serde::Serialize;

pub use crate::golden::case::Case;
use crate::{
    Error, Host,
    families::GoldenSource,
    golden::{
        message::{Done, Message},
        set::{self, Set},
    },
};
use files::Verify;

/// The files to compare with; by default the built-in set.
#[derive(Debug, Clone, Copy, Default)]
pub struct Given<'a> {
    /// The directory of the goldens.
    pub goldens: Option<&'a Path>,
    /// The directory of their checkpoints; by default `checkpoints_NAME` beside the goldens `NAME`.
    pub models: Option<&'a Path>,
    /// The directory of the released tokenizers.
    pub tokenizer: Option<&'a Path>,
}

/// Returns the command of a child process that calls [`work`] with these files.
pub type WorkerCommand<'a> = dyn Fn(Given<'_>) -> Result<Command> + 'a;

/// The outcome of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    device: String,
    /// Number of cases that equal the reference within their tolerance.
    pub passed: usize,
    /// Number of cases that do not.
    pub failed: usize,
    skipped: usize,
    cases: Vec<Case>,
}

impl Report {
    /// Counts `cases`.
    pub fn new(device: String, cases: Vec<Case>) -> Self {
        let count = |pass: Option<bool>| cases.iter().filter(|case| case.pass == pass).count();
        let (passed, failed, skipped) = (count(Some(true)), count(Some(false)), count(None));
        Self { device, passed, failed, skipped, cases }
    }

    /// Returns the counts as a line.
    pub fn line(&self) -> String {
        let Self { device, passed, failed, skipped, .. } = self;
        format!("{device}: {passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Computes every case. On a GPU it uses child processes, because a failure may end a process.
/// `tell` receives each case when it is finished.
///
/// # Errors
/// If the goldens or the checkpoints cannot be read, or the device is absent.
pub fn run(
    given: Given<'_>,
    device: Device,
    worker: &WorkerCommand<'_>,
    host: &dyn Host,
    tell: &dyn Fn(&Case) -> io::Result<()>,
) -> Result<Vec<Case>> {
    let tell = |message: &Message| match message {
        Message::Case(case) => tell(case),
        _ => Ok(()),
    };
    let source = given.read()?;
    if !device.is_gpu() {
        return Verify { source: &source, host, tell: &tell, known: &Done::default() }
            .run_on(device);
    }
    child::run(|| worker(given), host, &tell)
}

/// Computes in a child process the cases that are missing in the list of `finished` ones, and
/// reports each on standard output.
///
/// # Errors
/// If there is no such list, or standard output is closed.
pub fn work(given: Given<'_>, device: Device, host: &dyn Host, finished: impl Read) -> Result<()> {
    // If the parent is killed because this process hangs in the driver, it must end too. Without
    // this service of the system it only ends later.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let known: Done = serde_json::from_reader(finished)
        .context("standard input has no list of finished cases")?;
    let tell = |message: &Message| {
        // A message has names, numbers and texts, so conversion to JSON cannot fail.
        host.output(&serde_json::to_string(message).unwrap_or_default())
    };
    let done = given.read().and_then(|source| {
        Verify { source: &source, host, tell: &tell, known: &known }.run_on(device)
    });
    let last = match done {
        Ok(_) => Message::End,
        // The parent process knows that the run was stopped.
        Err(_) if host.is_cancelled() => return Ok(()),
        // If the device is unusable, another process computes the rest.
        Err(error) if error.chain().any(is_device_gone) => return Ok(()),
        Err(error) => Message::Error { message: format!("{error:#}"), hint: host.hint(&error) },
    };
    Ok(tell(&last).map_err(Error::Output)?)
}

fn is_device_gone(cause: &(dyn std::error::Error + 'static)) -> bool {
    matches!(cause.downcast_ref(), Some(Error::DeviceGone))
}

/// The sets of goldens in a directory: its subfolders that are sets, or the directory itself.
pub(crate) fn sets(goldens: &Path) -> Vec<PathBuf> {
    let listing = std::fs::read_dir(goldens).into_iter().flatten();
    let mut sets: Vec<_> = listing.filter_map(|entry| Some(entry.ok()?.path())).collect();
    sets.retain(|path| set::is_set(path));
    sets.sort();
    if sets.is_empty() || set::is_set(goldens) { vec![goldens.to_owned()] } else { sets }
}

/// Checks that a set of goldens can be read.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn readable(goldens: &Path) -> Result<()> {
    Set::read(goldens).map(drop)
}

impl Given<'_> {
    fn read(self) -> Result<GoldenSource> {
        GoldenSource::with_tokenizers(self.tokenizer, || match self.goldens {
            Some(goldens) => {
                GoldenSource::read(goldens, models_dir(goldens, self.models)?.as_deref())
            }
            None => GoldenSource::built_in(),
        })
    }
}

/// The checkpoints' directory: the one that is passed, or the one beside the goldens.
fn models_dir(goldens: &Path, passed: Option<&Path>) -> Result<Option<PathBuf>> {
    if let Some(models) = passed {
        return Ok(Some(models.to_owned()));
    }
    let name = goldens
        .canonicalize()
        .map_err(|source| Error::NoGoldens { path: goldens.to_owned(), source })?;
    let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let beside = goldens.join("..").join(format!("checkpoints_{name}"));
    Ok(beside.is_dir().then_some(beside))
}
