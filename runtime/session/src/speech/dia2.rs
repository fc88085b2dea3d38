//! Scripts of two speakers to speech.

use std::path::{Path, PathBuf};

use acestep_engine::{
    Action, Audio, Engine, Error, Notice, Observe, audio::read, files, on_engine, texts,
};
use acestep_import::{Dia2, Dia2Network};
use acestep_model::{Backend, speech::dia2::Files as _};
use acestep_speech::{
    Options, Word,
    dia2::{
        Dia2Error, Dialogue, KeptSnapshot, MOST_PREFIX, Networks, Plan, Recording, Request,
        Resampling, SAMPLE_RATE, Snapshot, Speakers, Streams, check_request, memory as needs,
        streams, words_of_json,
    },
};

use super::{reason::Reason, resident::Arriving};
use crate::memory;

mod prepare;
mod resident;
mod run;

pub(super) use prepare::{find, first, name_here};
pub(super) use resident::Resident;
use run::{Text, run};

/// Returns the reason of an error of this family.
pub(super) fn reason(error: &Error) -> Option<Reason> {
    Some(match error.family::<Dia2Error>()? {
        Dia2Error::BreakTime { .. } => ("bad_value", Some("text".to_owned())),
        Dia2Error::Words { field, .. } => ("bad_value", Some((*field).to_owned())),
        Dia2Error::TooLong { .. } => ("prompt_too_long", Some("speaker_1".to_owned())),
        Dia2Error::Scores { .. } => ("bad_result", None),
        _ => return None,
    })
}

/// The shortest recording that is read, in seconds: a frame.
pub const LEAST_SECONDS: f64 = 0.08;

/// A recording of a speaker that is not encoded yet.
#[derive(Debug, Clone)]
pub struct Speaker {
    /// The sound.
    pub sound: Audio,
    /// Its words.
    pub words: Vec<Word>,
}

/// The source of the words of a recording.
#[derive(Debug, Clone)]
enum Words {
    /// The file beside the sound, with the ending `.json`.
    Beside,
    /// A file.
    File(PathBuf),
    /// The words themselves.
    List(Vec<Word>),
}

impl Words {
    /// Reads the words of the recording in the file `sound`; errors name their `field`.
    fn read(self, sound: &Path, field: &'static str) -> Result<Vec<Word>, Error> {
        let path = match self {
            Self::List(words) => return Ok(words),
            Self::File(path) => path,
            Self::Beside => sound.with_extension("json"),
        };
        if !path.exists() {
            let why = format!("there is no file `{}`", path.display());
            return Err(Dia2Error::Words { field, why }.into());
        }
        let bytes = files::read(&path).map_err(|source| {
            let (action, path) = (Action::Read, path.clone());
            Error::File { action, path, source }
        })?;
        let text = texts::decode(&bytes)
            .map_err(|why| Dia2Error::Words { field, why: why.to_string() })?;
        Ok(words_of_json(&text, field)?)
    }
}

impl Speaker {
    /// Reads a sound file, and the file of its words; errors about these name their `field`.
    ///
    /// # Errors
    /// The errors of [`read::recording`] and of [`words_of_json`]; [`Error::File`].
    pub fn read(
        sound: &Path,
        words: &Path,
        field: &'static str,
        observe: &dyn Observe,
        notices: &mut Vec<Notice>,
    ) -> Result<Self, Error> {
        Self::of(sound, (Words::File(words.to_owned()), field), observe, notices)
    }

    fn of(
        sound: &Path,
        (words, field): (Words, &'static str),
        observe: &dyn Observe,
        notices: &mut Vec<Notice>,
    ) -> Result<Self, Error> {
        let (audio, more) = read::recording(sound, LEAST_SECONDS, SAMPLE_RATE, observe)?;
        notices.extend(more);
        Ok(Self { sound: audio, words: words.read(sound, field)? })
    }
}

/// The voices of a dialogue.
#[derive(Debug, Clone, Copy)]
pub enum DialogueVoices<'a> {
    /// Recordings of speaker 1 and, if there are two, of speaker 2; none for voices of the model.
    Recorded(&'a [Speaker]),
    /// Recordings, from the state after which the script begins, whatever it is.
    Restored(&'a [Speaker]),
    /// A snapshot that was kept.
    Kept(&'a KeptSnapshot),
}

/// A script to speak.
#[derive(Debug, Clone, Copy)]
pub struct DialogueTask<'a> {
    /// The script, with its settings.
    pub request: &'a Request,
    /// The voices.
    pub voices: DialogueVoices<'a>,
    /// The resampling of recordings.
    pub resampling: Resampling,
    /// Settings that change when sound comes.
    pub options: Options,
}

/// Checks a request, and refuses a model that does not fit into memory.
///
/// # Errors
/// The errors of [`check_request`]; [`crate::SessionError::SpeechTooLarge`]; [`Error::Checkpoint`].
pub fn check(task: DialogueTask<'_>, model: &Dia2, engine: Engine) -> Result<(), Error> {
    check_request(task.request)?;
    check_memory(model, engine, recorded(task, &streams(model)?))
}

/// Returns the seconds of the longest recording as [`speak_with`] encodes it; 0 if it encodes none.
fn recorded(DialogueTask { request, voices, .. }: DialogueTask<'_>, streams: &Streams) -> f64 {
    let (speakers, is_cut) = match voices {
        DialogueVoices::Recorded(speakers) => (speakers, request.max_prefix_duration.is_some()),
        DialogueVoices::Restored(speakers) => (speakers, true),
        DialogueVoices::Kept(_) => return 0.0,
    };
    match is_cut {
        true => longest(speakers).min(most_seconds(most_prefix(request, streams), streams)),
        false => longest(speakers),
    }
}

/// Returns the seconds of the longest recording; 0 if there is none.
fn longest(speakers: &[Speaker]) -> f64 {
    speakers.iter().map(|speaker| speaker.sound.seconds()).fold(0.0, f64::max)
}

/// Refuses a model that does not fit into memory, with the encoder of a recording of `recorded` seconds,
/// unless these are 0.
fn check_memory(model: &Dia2, engine: Engine, recorded: f64) -> Result<(), Error> {
    let size = |network| model.size(network).map(|size| size.parameters).map_err(Error::checkpoint);
    let pair = size(Dia2Network::Backbone)? + size(Dia2Network::Depformer)?;
    let decoder = size(Dia2Network::CodecDecoder)?;
    let mut needs = vec![
        needs::networks(model.config(), pair, 2, engine.widths()),
        needs::codec_decoder(model.codec_config(), decoder),
    ];
    if recorded > 0.0 {
        let encoder = size(Dia2Network::CodecEncoder)?;
        needs.push(needs::codec_encoder(model.codec_config(), encoder, recorded));
    }
    memory::check_speech(&needs, engine)
}

/// Speaks; `sink` receives the samples of each chunk as soon as it is decoded. `more` is text that
/// arrives meanwhile. Returns the notices of the plan, and the result.
///
/// # Errors
/// The errors of [`acestep_speech::dia2::Speaking`], of the recordings, of `more` and of `sink`; [`Error::NoDevice`].
pub fn speak(
    task: DialogueTask<'_>,
    more: Option<&mut dyn Arriving>,
    model: &Dia2,
    engine: Engine,
    observe: &dyn Observe,
    sink: &mut dyn FnMut(&[f32]) -> Result<(), Error>,
) -> Result<(Vec<Notice>, Dialogue), Error> {
    // With a lifetime that all values of the run share.
    let more = more.map(|more| more as &mut dyn Arriving);
    on_engine!(engine,
    for<'a>(task: DialogueTask<'a>, more: Option<&'a mut dyn Arriving>, model: &'a Dia2,
            observe: &'a dyn Observe, sink: &'a mut dyn FnMut(&[f32]) -> Result<(), Error>)
        -> Result<(Vec<Notice>, Dialogue), Error>,
    |place: B| {
        model.check::<B>(&place.device).map_err(Error::checkpoint)?;
        speak_with(task, more, model, &Networks::<B>::new(model, place), observe, sink)
    })?
}

/// As [`speak`], with the caller's networks, which are those of `model` and were checked.
///
/// # Errors
/// The errors of [`acestep_speech::dia2::Speaking`], of the recordings, of `more` and of `sink`.
pub fn speak_with<B: Backend>(
    task: DialogueTask<'_>,
    more: Option<&mut dyn Arriving>,
    model: &Dia2,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
    sink: &mut dyn FnMut(&[f32]) -> Result<(), Error>,
) -> Result<(Vec<Notice>, Dialogue), Error> {
    let DialogueTask { request, voices, resampling, options } = task;
    let text = Text { first: &request.script, more };
    let of = |speakers: &[Speaker]| encoded(speakers, resampling, networks, observe);
    let (plan, snapshot) = match voices {
        DialogueVoices::Recorded(speakers) => {
            let recordings = match request.max_prefix_duration {
                Some(_) => {
                    let streams = streams(model)?;
                    of(&cut(speakers, most_prefix(request, &streams), &streams))?
                }
                None => of(speakers)?,
            };
            (Plan::new(request, Speakers::Recorded(&recordings), 0, model)?, None)
        }
        DialogueVoices::Restored(speakers) => {
            let plan = Plan::new(request, Speakers::Kept, 0, model)?;
            let (rows, most) = (plan.guidance.rows(), most_prefix(request, &plan.streams));
            let recordings = of(&cut(speakers, most, &plan.streams))?;
            (plan, Some(Snapshot::within(most, &recordings, rows, networks, observe)?))
        }
        DialogueVoices::Kept(kept) => {
            let plan = Plan::new(request, Speakers::Kept, 0, model)?;
            let snapshot = kept.snapshot(plan.guidance.rows(), networks, observe)?;
            (plan, Some(snapshot))
        }
    };
    let mut heard = |samples: &[f32], _: bool| sink(samples);
    run(plan, snapshot.as_ref(), networks, (options, text), observe, &mut heard)
}

/// Returns the most frames of recordings that are cut: those before a snapshot, or of a request that says where.
fn most_prefix(request: &Request, streams: &Streams) -> usize {
    request.most_prefix(streams).unwrap_or(MOST_PREFIX).min(streams.most_steps)
}

/// Returns the seconds of a recording of `most` frames and one more.
fn most_seconds(most: usize, streams: &Streams) -> f64 {
    (most + 1) as f64 / streams.frame_rate
}

/// Cuts recordings a frame after the most that are used: a longer one would be encoded in vain.
fn cut(speakers: &[Speaker], most: usize, streams: &Streams) -> Vec<Speaker> {
    let seconds = most_seconds(most, streams);
    let of = |Speaker { sound, words }: &Speaker| {
        let samples = (seconds * f64::from(sound.sample_rate)).ceil() as usize;
        let cut = |channel: &Vec<f32>| channel.iter().take(samples).copied().collect();
        let channels = sound.channels.iter().map(cut).collect();
        let sound = Audio { channels, sample_rate: sound.sample_rate };
        Speaker { sound, words: words.clone() }
    };
    speakers.iter().map(of).collect()
}

/// Keeps the voices of recordings.
///
/// # Errors
/// The errors of the recordings, and of loading; [`Error::NoDevice`].
pub fn keep(
    speakers: &[Speaker],
    resampling: Resampling,
    model: &Dia2,
    engine: Engine,
    observe: &dyn Observe,
) -> Result<KeptSnapshot, Error> {
    on_engine!(engine,
    for<'a>(speakers: &'a [Speaker], resampling: Resampling, model: &'a Dia2,
            observe: &'a dyn Observe)
        -> Result<KeptSnapshot, Error>,
    |place: B| {
        model.check::<B>(&place.device).map_err(Error::checkpoint)?;
        keep_with(speakers, resampling, &Networks::<B>::new(model, place), observe)
    })?
}

/// As [`keep`], with the caller's networks, which were checked.
///
/// # Errors
/// The errors of the recordings, and of loading.
pub fn keep_with<B: Backend>(
    speakers: &[Speaker],
    resampling: Resampling,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<KeptSnapshot, Error> {
    let speakers = cut(speakers, MOST_PREFIX, &streams(networks.checkpoint())?);
    KeptSnapshot::new(encoded(&speakers, resampling, networks, observe)?, networks, observe)
}

fn encoded<B: Backend>(
    speakers: &[Speaker],
    resampling: Resampling,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Vec<Recording>, Error> {
    let of = |Speaker { sound, words }: &Speaker| {
        Recording::new(sound, words.clone(), resampling, networks, observe)
    };
    speakers.iter().map(of).collect()
}
