//! Runs jobs with networks that stay in memory between them.
//!
//! One family is in memory at a time: songs with their language model, or speech. A job of the same model
//! starts at once; another model takes its place.

mod others;
mod sinks;
mod song_preview;
mod songs;
mod speech;
mod voice;
mod warm;

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use acestep_engine::{Engine, Error, Event, Notice, Observe, Residency, SharedRef, on_engine};
use acestep_import::{AceStep, LanguageModelDir};
use acestep_model::{Backend, Place};
use acestep_music::lm::CachedModel;
use acestep_session::{SessionError, speech::SpeechOn};
use tokio::runtime::Handle;

use crate::{
    error::of,
    installed::Installed,
    job::{JobError, Kind},
    preview,
    store::{ModelFilter, StoreError},
    worker::{JobTask, Runner, Stopped, Worker},
};

/// Time that a list of models is right.
const RECENT: Duration = Duration::from_secs(5);

/// The start of a worker.
#[derive(Clone, Copy)]
pub struct WorkerStart<'a> {
    /// The model that is loaded and tried before the first job.
    pub warm: Option<&'a str>,
    /// Called when the worker takes jobs; with the reason, if its model could not be loaded and tried.
    pub ready: &'a dyn Fn(Option<&str>),
}

/// Runs the jobs of a queue on `engine` until the worker is drained.
///
/// # Errors
/// [`Error::NoDevice`]; a queue that cannot be used.
pub fn run(
    worker: &Worker<'_>,
    runtime: &Handle,
    installed: &Installed,
    engine: Engine,
    start: WorkerStart<'_>,
) -> Result<Result<(), StoreError>, Error> {
    on_engine!(engine,
    for<'a>(worker: &'a Worker<'a>, runtime: &'a Handle, installed: &'a Installed, engine: Engine,
            start: WorkerStart<'a>)
        -> Result<(), StoreError>,
    |place: B| {
        let mut runner = Networked::<B>::new(installed, engine, place);
        let warmed = start.warm.map_or(Ok(()), |model| runner.warm_up(model, worker));
        (start.ready)(warmed.err().as_deref());
        let result = worker.run(runtime, &mut runner);
        runner.forget_preview();
        result
    })
}

struct Networked<'a, B: Backend> {
    installed: &'a Installed,
    engine: Engine,
    place: Place<B>,
    /// The models that were here a moment ago.
    models: Option<(Instant, ModelFilter)>,
    song: Option<LoadedMusic<B>>,
    language: Option<LoadedLm<B>>,
    speech: Option<LoadedSpeech<B>>,
    /// The folder of the last preview of a song.
    preview: Option<PathBuf>,
}

impl<'a, B: Backend> Networked<'a, B> {
    /// A runner without networks in memory.
    fn new(installed: &'a Installed, engine: Engine, place: Place<B>) -> Self {
        Self {
            installed,
            engine,
            place,
            models: None,
            song: None,
            language: None,
            speech: None,
            preview: None,
        }
    }
}

struct LoadedMusic<B: Backend> {
    /// The model as chosen, and its adapters with their scales.
    key: (String, String),
    folder: Arc<AceStep>,
    networks: acestep_music::Networks<'static, B>,
}

impl<B: Backend> LoadedMusic<B> {
    /// True for the model of `key`, unless its files were replaced meanwhile.
    fn is(&self, key: &(String, String)) -> bool {
        self.key == *key && self.folder.is_current()
    }
}

struct LoadedLm<B: Backend> {
    folder: Arc<LanguageModelDir>,
    held: CachedModel<'static, B>,
}

struct LoadedSpeech<B: Backend> {
    name: String,
    on: Rc<dyn SpeechOn<B>>,
}

impl<B: Backend> Runner for Networked<'_, B> {
    fn kinds(&self) -> Vec<Kind> {
        Kind::ALL.to_vec()
    }

    fn resident(&self) -> Option<String> {
        let song = self.song.as_ref().map(|song| &song.key.0);
        let resident = song.or(self.speech.as_ref().map(|speech| &speech.name));
        resident.map(|name| self.installed.common_name(name))
    }

    fn has(&mut self) -> ModelFilter {
        let known = self.models.take().filter(|(time, _)| time.elapsed() < RECENT);
        let (time, has) = known.unwrap_or_else(|| (Instant::now(), self.installed.has()));
        self.models = Some((time, has.clone()));
        has
    }

    fn run(&mut self, task: JobTask<'_>) -> Result<(), Stopped> {
        let job = self.installed.with_own_name(task.job);
        let mut task = JobTask { job: &job, ..task };
        let run = AssertUnwindSafe(|| match task.job.kind {
            Kind::Generate => self.generate(&mut task),
            Kind::Speak => self.speak(&mut task),
            Kind::Understand => self.understand(&mut task),
            Kind::Compose => self.compose(&mut task),
            Kind::Encode => self.encode(&mut task),
            Kind::Decode => self.decode(&mut task),
            Kind::Voice => self.voice(&mut task),
        });
        let result = catch_unwind(run).unwrap_or_else(|panic| {
            // Networks may be half loaded.
            self.drop_all();
            resume_unwind(panic)
        });
        result.map_err(|failed| {
            let stopped = failed.into_stopped();
            if let Stopped::Failed(error) = &stopped
                && matches!(
                    error.code.as_str(),
                    "device_failed" | "bad_result" | "bad_model" | "model_not_found" | "internal"
                )
            {
                // What is in memory may be damaged, or its files are others now.
                self.drop_all();
            }
            stopped
        })
    }
}

/// The reason why a job has no complete result.
enum Failed {
    Run(Error),
    Request(JobError),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Run(error)
    }
}

impl From<JobError> for Failed {
    fn from(error: JobError) -> Self {
        Self::Request(error)
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Self::Request(crate::worker::of_files(&error))
    }
}

impl Failed {
    fn into_stopped(self) -> Stopped {
        match self {
            Self::Run(Error::Cancelled) => Stopped::Cancelled,
            Self::Run(error) if is_too_large(&error) => Stopped::TooLarge(of(&error)),
            Self::Run(error) => Stopped::Failed(of(&error)),
            Self::Request(error) => Stopped::Failed(error),
        }
    }
}

/// True for the error of a check of the memory, before a run.
fn is_too_large(error: &Error) -> bool {
    let of_speech = |error: &SessionError| matches!(error, SessionError::SpeechTooLarge(_));
    matches!(error, Error::OutOfMemory { .. } | Error::TensorTooLarge { .. })
        || error.family().is_some_and(of_speech)
}

/// Sends notices to the client.
fn notify(observe: &dyn Observe, notices: impl IntoIterator<Item = Notice>) {
    notices.into_iter().for_each(|notice| observe.event(Event::Noticed(notice)));
}

impl<B: Backend> Networked<'_, B> {
    fn drop_all(&mut self) {
        self.song = None;
        self.language = None;
        self.speech = None;
    }

    /// Removes the preview of the last song: it is as large as the song, which is complete.
    fn forget_preview(&mut self) {
        if let Some(folder) = self.preview.take()
            && let Err(error) = preview::remove(&folder)
        {
            tracing::warn!(%error, "the preview of a song stays");
        }
    }

    /// Begins the preview of a job's song.
    fn begin_preview(&mut self, folder: &Path) {
        self.forget_preview();
        self.preview = Some(folder.to_owned());
    }

    /// Repeats a check of the memory that failed, after the networks in memory were dropped.
    fn with_room(
        &mut self,
        mut check: impl FnMut(Engine) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match check(self.engine) {
            Err(Error::OutOfMemory { .. }) => {
                self.drop_all();
                check(self.engine)
            }
            result => result,
        }
    }

    /// Puts a model of songs into memory; networks are loaded when they are needed.
    fn hold_song(&mut self, key: (String, String), folder: &Arc<AceStep>) {
        // The job's own folder stays, even if it is replaced meanwhile.
        let is_it = |song: &LoadedMusic<B>| Arc::ptr_eq(&song.folder, folder) || song.is(&key);
        if self.song.as_ref().is_some_and(is_it) {
            return;
        }
        self.song = None;
        self.speech = None;
        let checkpoint = SharedRef::Shared(folder.clone() as Arc<dyn acestep_model::Checkpoint<B>>);
        let place = self.place.clone();
        let networks = acestep_music::Networks::of(checkpoint, place, Residency::Kept);
        self.song = Some(LoadedMusic { key, folder: folder.clone(), networks });
    }

    fn hold_language(&mut self, folder: Arc<LanguageModelDir>) -> &CachedModel<'static, B> {
        let is_other = |LoadedLm { folder: own, .. }: &LoadedLm<B>| {
            let is_replaced =
                || own.directory().root() != folder.directory().root() || !own.is_current();
            !Arc::ptr_eq(own, &folder) && is_replaced()
        };
        if self.language.as_ref().is_some_and(is_other) {
            self.language = None;
        }
        let new = || {
            let files = folder.clone() as Arc<dyn acestep_model::LanguageCheckpoint<B>>;
            LoadedLm { folder, held: CachedModel::of(SharedRef::Shared(files)) }
        };
        &self.language.get_or_insert_with(new).held
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use acestep_engine::Device;
    use acestep_import::{Layout, open_language_model};
    use burn::tensor::DType;

    use super::*;

    #[test]
    fn a_language_model_whose_files_were_replaced_is_loaded_anew() {
        const GOLDEN: &str = "../../tests/goldens/checkpoints_a/acestep-5Hz-lm-0.6B";
        let folder = tempfile::tempdir().expect("a folder");
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
        for file in fs::read_dir(golden).expect("the goldens are here").flatten() {
            fs::copy(file.path(), folder.path().join(file.file_name())).expect("a copy");
        }
        let installed = Installed::new(Layout::new([]), None, None, None);
        let (model, installed) = (folder.path(), &installed);
        let engine = Engine { device: Device::Cpu, dtype: DType::F32 };
        let held = on_engine!(engine,
        for<'a>(model: &'a Path, installed: &'a Installed, engine: Engine) -> [bool; 4],
        |place: B| {
            let mut runner = Networked::<B>::new(installed, engine, place);
            let open = || {
                let opened = open_language_model(model.to_str(), installed.layout());
                Arc::new(opened.expect("a language model"))
            };
            let mut holds = |folder: &Arc<LanguageModelDir>, own: &Arc<LanguageModelDir>| {
                runner.hold_language(folder.clone());
                runner.language.as_ref().is_some_and(|held| Arc::ptr_eq(&held.folder, own))
            };
            let first = open();
            let before = [holds(&first, &first), holds(&open(), &first)];
            // The clock of the file system may be coarse.
            std::thread::sleep(Duration::from_millis(20));
            let (weights, new) = (model.join("model.safetensors"), model.join("new"));
            fs::copy(&weights, &new).and_then(|_| fs::rename(&new, &weights)).expect("replaced");
            let second = open();
            // A job that began before goes on with its own files.
            [before[0], before[1], holds(&first, &first), holds(&second, &second)]
        });
        assert_eq!(held.expect("a CPU"), [true; 4]);
    }
}
