//! Sound files: WAV (RF64, BW64), AIFF, FLAC, MP3, Ogg Vorbis, M4A (AAC-LC, ALAC) and AAC, decoded
//! by symphonia. The cargo feature `opus` adds Ogg Opus.
//!
//! A fault of a file is an error if sound would be missing. It is a notice if the sound is the same
//! as in any player:
//!
//! | file | result |
//! |---|---|
//! | ends within a packet (FLAC, Ogg), or before its index (M4A) | error: the copy is not whole |
//! | ends with a whole packet, earlier than its header states (WAV, AIFF, FLAC, MP3) | notice |
//! | continues after the length in its header (WAV, AIFF, FLAC, MP3) | notice; all of it is read |
//! | a FLAC that begins in the middle of its stream | notice: the sound before is missing |
//! | an Ogg without an end mark | notice |
//! | damaged tags, pictures, comments, indices; a length of 0 | nothing: they are not read |
//! | a few packets that cannot be decoded, or are missing from a FLAC | notice; silence in their place |
//! | more than one packet in twenty | error |
//! | a FLAC whose samples do not match its checksum | notice: every packet has its own checksum |
//! | an MP3 that changes between mono and stereo | notice; read as stereo |
//! | a recording of speech that changes to more channels | notice; read with all of them |
//! | a file that changes its rate | error |
//! | longer than [`MOST_SECONDS`] | notice; the rest is not read |
//! | more samples than [`MOST_SAMPLES`] until there | error |
//! | more than two channels of a song | notice; the first two are read, as upstream does |
//! | two or more channels of a recording of speech | notice; all are read |
//! | one channel of a song; another rate than the network's | notice: it is doubled; resampled |
//! | samples of a song above full scale | notice: they are clipped, as upstream does |
//! | samples of a recording above full scale | notice: they stay |
//! | HE-AAC, ADPCM and other codecs | error that names them |
//! | samples that are NaN or infinite | error |
//!
//! The padding that encoders add before and after the sound is removed if the file states its
//! length (MP3 with a LAME tag, Ogg). AAC keeps the encoder's delay of 20 to 50 ms, with a notice.

mod decoded;
mod decoding;
mod file_decoder;
#[cfg(feature = "opus")]
mod opus;
mod repair;
mod sbr;
mod song;
mod source;

use std::{io, path::Path};

use symphonia::core::{
    errors::Error as Decoding,
    formats::{TrackType, probe::Hint},
    io::MediaSourceStream,
};

pub use self::song::{SILENT, recording, song};
use self::{
    decoded::Decoded,
    decoding::Decoder,
    file_decoder::FileDecoder,
    source::{Bytes, Source},
};
use super::{Audio, loudness};
pub use crate::error::Problem;
use crate::{Action, Error, Notice, Observe, error::counted, files};

/// The longest part of a file that is read: the longest song that the networks support.
pub const MOST_SECONDS: u32 = 600;

/// The most samples of all channels that are decoded: those of [`MOST_SECONDS`] in stereo at 192 kHz, or
/// in eight channels at 48 kHz. A small file may claim a rate or channels that fill any memory.
pub const MOST_SAMPLES: usize = MOST_SECONDS as usize * 192_000 * 2;

/// The use of a sound, which decides about its channels and samples above full scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// A song: two channels, which are clipped later.
    Song,
    /// Speech: all channels, whose mean is taken later, as they are.
    Recording,
}

/// The use and the most samples of a song.
const SONG: (Use, usize) = (Use::Song, MOST_SAMPLES);

impl Use {
    /// The most channels that are kept.
    fn most_channels(self) -> usize {
        match self {
            Self::Song => 2,
            Self::Recording => usize::MAX,
        }
    }
}

/// Reads a sound file at its own rate: its first two channels, or its only one.
///
/// # Errors
/// [`Error::File`] if it cannot be read, [`Error::Unheard`] with the [`Problem`] if its content
/// cannot be decoded; [`Error::Cancelled`].
pub fn read(path: &Path, observe: &dyn Observe) -> Result<(Audio, Vec<Notice>), Error> {
    let (audio, notices, _) = read_within(path, SONG, observe)?;
    Ok((audio, notices))
}

/// Reads a file for a use, with at most so many samples of all channels. Also returns the number of
/// channels in the file.
fn read_within(
    path: &Path,
    within: (Use, usize),
    observe: &dyn Observe,
) -> Result<(Audio, Vec<Notice>, usize), Error> {
    let file_error = |source| Error::File { action: Action::Read, path: path.to_owned(), source };
    let file = files::open(path).map_err(file_error)?;
    if file.metadata().map_err(file_error)?.is_dir() {
        return Err(file_error(io::ErrorKind::IsADirectory.into()));
    }
    let mut hint = Hint::new();
    if let Some(extension) = path.extension().and_then(|e| e.to_str()) {
        hint.with_extension(extension);
    }
    let name = path.display().to_string();
    let bytes = Bytes::open(file).map_err(file_error)?;
    decode(bytes, &hint, &name, within, observe).map_err(|failure| match failure {
        Failure::Io(source) => file_error(source),
        Failure::Problem(problem) => Error::Unheard { path: path.to_owned(), problem },
        Failure::Cancelled => Error::Cancelled,
    })
}

/// An error of a source without a name.
#[derive(Debug)]
enum Failure {
    Io(io::Error),
    Problem(Problem),
    Cancelled,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

fn decode(
    mut bytes: Bytes,
    hint: &Hint,
    name: &str,
    (used, most): (Use, usize),
    observe: &dyn Observe,
) -> Result<(Audio, Vec<Notice>, usize), Failure> {
    if bytes.length() == 0 {
        return Err(Problem::Empty.into());
    }
    let repaired = repair::repair(&mut bytes)?;
    let source = Source::new(bytes, repaired.parts)?;
    let tail = source.tail().to_vec();
    let stream = MediaSourceStream::new(Box::new(source), Default::default());
    let probe = symphonia::default::get_probe();
    let format = probe
        .probe(hint, stream, Default::default(), Default::default())
        .map_err(unreadable_header)?;
    let track = format.default_track(TrackType::Audio).ok_or(Problem::Empty)?.clone();
    let decoder = Decoder::of(&track, format.format_info().format)?;

    let decoded = Decoded::new(used.most_channels(), most);
    let mut file_decoder = FileDecoder::new(format, decoder, track, repaired.known, tail, decoded);
    let ending = file_decoder.run(observe)?;
    let mut notices = repaired.notices;
    notices.extend(file_decoder.decoded.check()?);
    notices.extend(file_decoder.properties());
    notices.extend(file_decoder.check_end(ending)?);
    let (audio, channels) = (file_decoder.decoded.audio, file_decoder.decoded.channels);
    if audio.samples() == 0 {
        return Err(Problem::Empty.into());
    }
    let damaged = |error: Error| Problem::Damaged(error.to_string());
    for channel in &audio.channels {
        loudness::require_finite("it", channel).map_err(damaged)?;
    }
    let above = audio.channels.iter().flatten().filter(|x| x.abs() > 1.0).count();
    if above > 0 {
        let then = match (used, above) {
            (Use::Song, 1) => ": it is clipped, as upstream does",
            (Use::Song, _) => ": they are clipped, as upstream does",
            (Use::Recording, _) => "",
        };
        notices.push(format!("has {} above full scale{then}", counted(above, "sample")));
    }
    let note = |text: String| Notice(format!("`{name}` {text}"));
    Ok((audio, notices.into_iter().map(note).collect(), channels))
}

fn unreadable_header(error: Decoding) -> Failure {
    match error {
        // Symphonia's message if no container matches the first bytes.
        Decoding::Unsupported(why) if why.starts_with("core (probe)") => Problem::Unknown.into(),
        // An MP4 without an index: the index is at the end, so the file is cut.
        Decoding::Unsupported(why) if why.contains("missing moov") => {
            Problem::CutShort { seconds: 0.0 }.into()
        }
        Decoding::IoError(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
            Problem::CutShort { seconds: 0.0 }.into()
        }
        other => unless_io(other, Problem::Header),
    }
}

/// Keeps an error of the disk; turns any other error into a problem of the content.
fn unless_io(error: Decoding, problem: impl FnOnce(String) -> Problem) -> Failure {
    match error {
        // The file ends within a header; symphonia reports that as an I/O error.
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
