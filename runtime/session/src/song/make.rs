//! Songs and their scores: the part that depends on the backend.

use std::time::{Duration, Instant};

use acestep_engine::{Engine, Error, Observe, on_engine};
use acestep_import::{AceStep, LanguageModelDir, Network};
use acestep_model::{Backend, LanguageCheckpoint, Place};
use acestep_music::{
    Conditioning, ModelInfo, Networks, PlanRun, Rendered,
    inputs::Inputs,
    lm::{
        CachedModel,
        judge::{self, JudgeInput},
        pmi::LanguageScore,
    },
    pipeline, stage,
};

use super::Resolved;

/// A song to make, and its observer.
pub type SongRun<'a> = (&'a Resolved, &'a dyn Observe);

/// Receives the conditions of the diffusion transformer, to write them.
pub type OnConditions<'a> = &'a dyn Fn(Conditioning) -> Result<(), Error>;

/// Receives a song, by its number, as soon as it has its sound or an error. An error ends the run.
pub type OnSong<'a> = &'a mut dyn FnMut(usize, Result<Rendered, Error>) -> Result<(), Error>;

/// Makes songs, stage by stage, so that each network is loaded once. All songs have the same model
/// and device; each has its own observer. Only a single song can `keep` its conditions.
///
/// # Errors
/// [`Error::NoDevice`]; the errors of `take`.
pub fn songs(
    songs: &[SongRun<'_>],
    keep: Option<OnConditions<'_>>,
    take: OnSong<'_>,
) -> Result<(), Error> {
    let Some((first, _)) = songs.first() else { return Ok(()) };
    on_engine!(first.setup.engine,
    for<'a>(first: &'a Resolved, songs: &'a [SongRun<'a>], keep: Option<OnConditions<'a>>,
            take: OnSong<'a>) -> Result<(), Error>,
    |place: B| {
        let networks = Networks::<B>::new(&*first.folder, place, first.setup.residency);
        songs_with(songs, keep, &networks, take)
    })?
}

/// As [`songs`], with the caller's networks, which are those of the songs' folder.
///
/// # Errors
/// The errors of `take`.
pub fn songs_with<B: Backend>(
    songs: &[SongRun<'_>],
    keep: Option<OnConditions<'_>>,
    networks: &Networks<'_, B>,
    take: OnSong<'_>,
) -> Result<(), Error> {
    let mut runs = Vec::new();
    for &(Resolved { plan, setup, .. }, observe) in songs {
        runs.push(PlanRun { plan, extras: setup.extras.alignment, observe });
    }
    let inputs: Vec<&Inputs> = songs.iter().map(|(song, _)| &song.setup.inputs).collect();
    let mut prepared = Inputs::prepare_all(&inputs, &runs, networks);
    if let (Some(keep), [Ok(only)]) = (keep, &prepared[..]) {
        let conditioning = networks.catch(stage::CONDITION, || only.to_conditioning());
        if let Err(error) = conditioning.and_then(keep) {
            prepared = vec![Err(error)];
        }
    }
    pipeline::generate_all(&runs, networks, prepared, take)
}

/// Result of scoring, and the time from the start of the run.
pub type Scored = (Result<Vec<LanguageScore>, Error>, Duration);

/// Scores songs with the language model of the first, which is loaded once. A failure does not stop
/// the others. `start` is the start of the run.
///
/// # Errors
/// [`Error::NoDevice`].
pub fn score_all(songs: &[SongRun<'_>], start: Instant) -> Result<Vec<Scored>, Error> {
    let first = songs.first().map(|(first, _)| *first);
    let Some((first, (folder, _))) = first.and_then(|first| Some((first, first.judge()?))) else {
        return Ok(vec![]);
    };
    on_engine!(first.setup.engine,
    for<'a>(songs: &'a [SongRun<'a>], folder: &'a LanguageModelDir, start: Instant) -> Vec<Scored>,
    |place: B| {
        let held = CachedModel::<B>::new(folder);
        let scored = |&(song, observe): &SongRun<'_>| {
            (score_with(song, &held, &place, observe), start.elapsed())
        };
        songs.iter().map(scored).collect()
    })
}

/// Scores the songs of one request with the caller's language model, the one of
/// [`Resolved::judge`].
///
/// # Errors
/// The errors of [`judge::judge`].
pub fn score_with<B: Backend>(
    song: &Resolved,
    language: &dyn LanguageCheckpoint<B>,
    place: &Place<B>,
    observe: &dyn Observe,
) -> Result<Vec<LanguageScore>, Error> {
    let Some((_, settings)) = song.judge() else { return Ok(vec![]) };
    let Resolved { plan, request, decided, setup, .. } = song;
    let decided = decided.as_ref().map(|(metadata, _)| metadata);
    let input = JudgeInput::of(plan, request, decided, setup.extras.scale);
    let mut scores = judge::judge::<B>(&input, settings, language, place, observe)?;
    // All songs may share one list of codes.
    if let [one] = &scores[..] {
        scores = vec![one.clone(); plan.batch_size()];
    }
    Ok(scores)
}

/// Returns the properties of the model in `folder` that the plan needs.
///
/// # Errors
/// [`Error::NoDevice`]; [`Error::Checkpoint`] if a tensor of a required network is missing,
/// unexpected or has another shape.
pub(super) fn model_info(folder: &AceStep, engine: Engine) -> Result<ModelInfo, Error> {
    // Check all headers first, so that no network runs before the last one is known to be complete.
    check(folder, engine, &PARTS)?;
    Ok(ModelInfo::new(folder.name(), folder.is_turbo(), folder.configs()))
}

/// Networks that make a song from a request.
const PARTS: [Network; 5] = [
    Network::TextEncoder,
    Network::Conditioner,
    Network::AudioCodec,
    Network::Dit,
    Network::VaeDecoder,
];

/// Checks with the headers that the model has `networks`.
pub(super) fn check(folder: &AceStep, engine: Engine, networks: &[Network]) -> Result<(), Error> {
    on_engine!(engine,
    for<'a>(folder: &'a AceStep, networks: &'a [Network]) -> Result<(), Error>,
    |place: B| { folder.check::<B>(&place.device, networks).map_err(Error::checkpoint) })?
}
