//! Sound files: WAV, AIFF, FLAC, MP3, Ogg Vorbis, M4A (AAC-LC, ALAC) and AAC, through symphonia;
//! with the cargo feature `opus` Ogg Opus too, through libopus.
//!
//! What is wrong with a file is an error where sound would be missing, and a notice where it is
//! heard as any player would:
//!
//! | file | result |
//! |---|---|
//! | promises more than it holds (WAV, AIFF, FLAC, Ogg, M4A) | error: the copy is not whole |
//! | an MP3 that is shorter than its tag says | notice: cut MP3s keep the tag of the whole |
//! | an MP3 that goes on after the end that its tag names (two in one file) | notice: not read |
//! | a few packets that cannot be decoded, or are missing from a FLAC | notice; silence in their place |
//! | a FLAC without a length that begins late | notice: what was before is not there |
//! | more than one packet in twenty | error |
//! | a FLAC of other samples than its checksum is of | error |
//! | longer than [`MOST_SECONDS`] | notice; the rest is not read |
//! | more than two channels | notice; the first two are read, as upstream does |
//! | samples above full scale | notice: they are clipped, as upstream does |
//! | AAC of 24 kHz or less | notice: the upper half of HE-AAC is not decoded |
//! | samples that are no numbers | error |
//!
//! What encoders put before and after the sound is taken off where the file says how much that is
//! (MP3 with a LAME tag, Ogg); AAC begins with the encoder's delay, some 20 to 50 ms, which is said.

mod heard;
mod listening;
mod problem;
mod source;

use std::{fs::File, io, path::Path, sync::OnceLock};

use symphonia::core::{
    codecs::{
        audio::{
            AudioDecoder, AudioDecoderOptions,
            well_known::{CODEC_ID_AAC, CODEC_ID_OPUS},
        },
        registry::CodecRegistry,
    },
    errors::Error as Decoding,
    formats::{FormatId, Track, TrackType, probe::Hint},
    io::MediaSourceStream,
};

pub use self::problem::Problem;
use self::{
    listening::{Listening, is_mpeg},
    source::Source,
};
use super::{Audio, loudness};
use crate::{Action, Error, Notice};

/// How much of a file is read: the longest song that the networks know.
pub const MOST_SECONDS: u32 = 600;

/// Reads a sound file at its own rate: its first two channels, or its only one.
///
/// # Errors
/// [`Error::File`] if it cannot be read, [`Error::Unheard`] with the [`Problem`] if what is in it
/// cannot be heard.
pub fn read(path: &Path) -> Result<(Audio, Vec<Notice>), Error> {
    let file_error = |source| Error::File { action: Action::Read, path: path.to_owned(), source };
    let file = File::open(path).map_err(file_error)?;
    if file.metadata().map_err(file_error)?.is_dir() {
        return Err(file_error(io::ErrorKind::IsADirectory.into()));
    }
    let mut hint = Hint::new();
    if let Some(extension) = path.extension().and_then(|e| e.to_str()) {
        hint.with_extension(extension);
    }
    let name = path.display().to_string();
    let source = Source::open(file).map_err(file_error)?;
    heard(source, &hint, &name).map_err(|failure| match failure {
        Failure::Io(source) => file_error(source),
        Failure::Problem(problem) => Error::Unheard { path: path.to_owned(), problem },
    })
}

/// What can happen to a source that has no name.
#[derive(Debug)]
enum Failure {
    Io(io::Error),
    Problem(Problem),
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

fn heard(source: Source, hint: &Hint, name: &str) -> Result<(Audio, Vec<Notice>), Failure> {
    if source.is_empty() {
        return Err(Problem::Empty.into());
    }
    let tail = source.tail().to_vec();
    let stream = MediaSourceStream::new(Box::new(source), Default::default());
    let probe = symphonia::default::get_probe();
    let format = probe
        .probe(hint, stream, Default::default(), Default::default())
        .map_err(unreadable_header)?;
    let track = format.default_track(TrackType::Audio).ok_or(Problem::Empty)?.clone();
    let decoder = decoder(&track, format.format_info().format)?;

    let mut listening = Listening::new(format, decoder, track, tail);
    let ending = listening.run()?;
    let mut notices = listening.heard.check()?;
    notices.extend(listening.habits());
    notices.extend(listening.check_end(ending)?);
    let audio = listening.heard.audio;
    if audio.samples() == 0 {
        return Err(Problem::Empty.into());
    }
    let damaged = |error: Error| Problem::Damaged(error.to_string());
    for channel in &audio.channels {
        loudness::require_finite("it", channel).map_err(damaged)?;
    }
    let above = audio.channels.iter().flatten().filter(|x| x.abs() > 1.0).count();
    if above > 0 {
        notices.push(format!(
            "has {above} samples above full scale: they are clipped, as upstream does"
        ));
    }
    let note = |text: String| Notice(format!("`{name}` {text}"));
    Ok((audio, notices.into_iter().map(note).collect()))
}

fn unreadable_header(error: Decoding) -> Failure {
    match error {
        // Symphonia's words if no container knows the first bytes.
        Decoding::Unsupported(why) if why.starts_with("core (probe)") => Problem::Unknown.into(),
        // A song without an index: the index is at the end.
        Decoding::Unsupported(why) if why.contains("missing moov") => {
            Problem::CutShort { seconds: 0.0 }.into()
        }
        Decoding::IoError(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
            Problem::CutShort { seconds: 0.0 }.into()
        }
        other => unless_io(other, Problem::Header),
    }
}

fn decoder(track: &Track, format: FormatId) -> Result<Box<dyn AudioDecoder>, Failure> {
    let parameters = track.codec_params.as_ref().and_then(|c| c.audio()).ok_or(Problem::Empty)?;
    // Without a LAME tag the length of an MP3 is a guess, and trimming to it would cut music off.
    let trims = !is_mpeg(format) || track.delay.is_some();
    let options = AudioDecoderOptions::default().gapless(trims).verify(true);
    codecs().make_audio_decoder(parameters, &options).map_err(|error| {
        unless_io(error, |why| match parameters.codec {
            CODEC_ID_OPUS if cfg!(not(feature = "opus")) => Problem::NotBuiltIn,
            _ => undecoded(track, &why),
        })
    })
}

/// The sound of `track` as what it is, if that can be said.
fn undecoded(track: &Track, why: &str) -> Problem {
    Problem::Codec(match is_aac(track) {
        true => "AAC other than LC with one or two channels".into(),
        false => format!("of an unknown kind ({why})"),
    })
}

fn is_aac(track: &Track) -> bool {
    let parameters = track.codec_params.as_ref().and_then(|c| c.audio());
    parameters.is_some_and(|audio| audio.codec == CODEC_ID_AAC)
}

/// Every decoder of this build.
fn codecs() -> &'static CodecRegistry {
    static CODECS: OnceLock<CodecRegistry> = OnceLock::new();
    CODECS.get_or_init(|| {
        let mut codecs = CodecRegistry::new();
        symphonia::default::register_enabled_codecs(&mut codecs);
        #[cfg(feature = "opus")]
        codecs.register_audio_decoder::<symphonia_adapter_libopus::OpusDecoder>();
        codecs
    })
}

/// An error of the disk stays one; any other is a problem of the content.
fn unless_io(error: Decoding, problem: impl FnOnce(String) -> Problem) -> Failure {
    match error {
        // The end of the file within a header: symphonia has no other name for it.
        Decoding::IoError(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
            Failure::Io(source)
        }
        other => problem(other.to_string()).into(),
    }
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod tests;
