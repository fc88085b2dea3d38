//! Scripts of two speakers to speech.

use std::path::{Path, PathBuf};

use acestep_engine::{Audio, Engine, Error, Notice, Observe, audio::read, files, texts::decode};
use acestep_import::{Dia2, Dia2Network, PartSize};
use acestep_model::{Backend, speech::dia2::Files as _};
use acestep_speech::{
    Word,
    dia2::{
        Dia2Error, MOST_PREFIX, Networks, Recording, Request, Resampling, SAMPLE_RATE, Streams,
        memory as needs, words_of_json,
    },
};

use super::reason::Reason;
use crate::{memory, texts::unread};

mod prepare;
mod resident;
mod run;

pub(super) use prepare::{find, first, name_here};
pub(super) use resident::Resident;

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
const LEAST_SECONDS: f64 = 0.08;

/// A recording of a speaker that is not encoded yet.
#[derive(Debug, Clone)]
struct Speaker {
    /// The sound.
    sound: Audio,
    /// Its words.
    words: Vec<Word>,
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
        let bytes = files::read(&path).map_err(unread(&path))?;
        let text =
            decode(&bytes).map_err(|why| Dia2Error::Words { field, why: why.to_string() })?;
        Ok(words_of_json(&text, field)?)
    }
}

impl Speaker {
    /// Reads a sound file, and its words; errors about these name their `field`.
    ///
    /// # Errors
    /// The errors of [`read::recording`] and of [`words_of_json`]; [`Error::File`].
    fn read(
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

/// Returns the seconds of the longest recording; 0 if there is none.
fn longest(speakers: &[Speaker]) -> f64 {
    speakers.iter().map(|speaker| speaker.sound.seconds()).fold(0.0, f64::max)
}

/// Refuses a model that does not fit into memory, with the encoder of a recording of `recorded` seconds,
/// unless these are 0.
fn check_memory(model: &Dia2, engine: Engine, recorded: f64) -> Result<(), Error> {
    let size = |network| model.size(network).map_err(Error::checkpoint);
    let (backbone, depformer) = (size(Dia2Network::Backbone)?, size(Dia2Network::Depformer)?);
    let pair = PartSize {
        parameters: backbone.parameters + depformer.parameters,
        file_bytes: backbone.file_bytes + depformer.file_bytes,
    };
    let decoder = size(Dia2Network::CodecDecoder)?.parameters;
    let mut needs = vec![
        needs::networks(model.config(), memory::with_tables(pair, engine), 2, engine.widths()),
        needs::codec_decoder(model.codec_config(), decoder),
    ];
    if recorded > 0.0 {
        let encoder = size(Dia2Network::CodecEncoder)?.parameters;
        needs.push(needs::codec_encoder(model.codec_config(), encoder, recorded));
    }
    memory::check_speech(&needs, engine)
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

fn encoded<B: Backend>(
    speakers: &[Speaker],
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Vec<Recording>, Error> {
    let of = |Speaker { sound, words }: &Speaker| {
        Recording::new(sound, words.clone(), Resampling::default(), networks, observe)
    };
    speakers.iter().map(of).collect()
}
