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
//! | a few packets that cannot be decoded | notice; silence stands in for them |
//! | more than one packet in twenty | error |
//! | longer than [`MOST_SECONDS`] | notice; the rest is not read |
//! | more than two channels | notice; the first two are read, as upstream does |
//! | samples that are no numbers | error |
//!
//! What encoders put before and after the sound is taken off where the file says how much that is
//! (MP3 with a LAME tag, Ogg); an M4A begins with the encoder's delay, some 20 to 50 ms.

use std::{fs::File, io, path::Path, sync::OnceLock};

use symphonia::core::{
    audio::GenericAudioBufferRef,
    codecs::{
        audio::{AudioDecoder, AudioDecoderOptions, well_known::CODEC_ID_OPUS},
        registry::CodecRegistry,
    },
    errors::Error as Decoding,
    formats::{
        FormatId, FormatReader, Track, TrackType,
        probe::Hint,
        well_known::{FORMAT_ID_ADTS, FORMAT_ID_MP1, FORMAT_ID_MP2, FORMAT_ID_MP3, FORMAT_ID_WAVE},
    },
    io::{MediaSource, MediaSourceStream},
    packet::Packet,
};

use super::{Audio, loudness};
use crate::{Action, Error, Notice};

/// How much of a file is read: the longest song that the networks know.
pub const MOST_SECONDS: u32 = 600;

/// Rates between a bad telephone and the best converters; anything else is a damaged header.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=768_000;

/// A difference in length that is a habit of encoders and no loss, in parts of a second.
const SLACK: f64 = 0.1;

/// Of so many packets one may be damaged.
const DAMAGE: usize = 20;

/// Why a file cannot be heard.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Nothing that this program knows.
    #[error("it is no sound file that this program knows")]
    Unknown,
    /// A known container with something unknown in it.
    #[error("its sound is {0}, which this program does not decode")]
    Codec(String),
    /// Opus, which this program was built without.
    #[error("its sound is Opus, which this program was built without")]
    NotBuiltIn,
    /// A container that is known by its first bytes, and no more.
    #[error("its header cannot be read: {0}")]
    Header(String),
    /// There is nothing in it.
    #[error("there is no sound in it")]
    Empty,
    /// It ends before it should.
    #[error("it ends after {seconds:.2} s, before its end")]
    CutShort {
        /// What was there.
        seconds: f64,
    },
    /// It cannot be what was written.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

impl Problem {
    /// How to mend it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unknown | Self::Codec(_) => {
                "WAV, AIFF, FLAC, MP3, Ogg Vorbis and M4A are read; `ffmpeg -i FILE song.flac` \
                 converts most others"
            }
            Self::NotBuiltIn => {
                "build it with `--features opus`, or convert it with `ffmpeg -i FILE song.flac`"
            }
            Self::Empty => "check that it is the right file",
            Self::Header(_) => {
                "it may be damaged: copy or download it again; or convert it with \
                 `ffmpeg -i FILE song.flac`"
            }
            Self::CutShort { .. } | Self::Damaged(_) => {
                "copy or download it again; `ffmpeg -i FILE song.flac` saves what can be heard"
            }
        }
    }
}

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
    heard(Box::new(file), &hint, &name).map_err(|failure| match failure {
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

fn heard(
    source: Box<dyn MediaSource>,
    hint: &Hint,
    name: &str,
) -> Result<(Audio, Vec<Notice>), Failure> {
    if source.byte_len() == Some(0) {
        return Err(Problem::Empty.into());
    }
    let stream = MediaSourceStream::new(source, Default::default());
    let probe = symphonia::default::get_probe();
    let format = probe
        .probe(hint, stream, Default::default(), Default::default())
        .map_err(unreadable_header)?;
    let track = format.default_track(TrackType::Audio).ok_or(Problem::Empty)?.clone();
    let decoder = decoder(&track, format.format_info().format)?;

    let mut listening = Listening { format, decoder, track, heard: Heard::default() };
    let ending = listening.run()?;
    let Listening { format, track, heard, .. } = listening;
    let mut notices = heard.check()?;
    let note = |text: String| Notice(format!("`{name}` {text}"));
    let (promised, exact) = promised(&track, format.format_info().format);
    // Without a single packet there is no rate either.
    let in_seconds = |samples: u64| samples as f64 / f64::from(heard.audio.sample_rate.max(1));
    let seconds = in_seconds(heard.audio.samples() as u64);
    let promised_seconds = promised.map(in_seconds);
    if heard.channels > 2 {
        notices.push(format!("has {} channels: the first two are read", heard.channels));
    }
    let lacks = promised_seconds.filter(|&promised| seconds + SLACK < promised);
    match ending {
        Ending::Long => {
            let whole = promised_seconds.map_or(String::new(), |s| format!(" of {s:.0} s"));
            notices.push(format!("is long: its first {MOST_SECONDS} s{whole} are read"));
        }
        Ending::Chained => notices.push("holds several streams: only the first is read".into()),
        // A WAV that was written to a pipe does not know its own length.
        Ending::Cut if !(promised.is_none() && is(&*format, FORMAT_ID_WAVE)) => {
            return Err(Problem::CutShort { seconds }.into());
        }
        Ending::Cut | Ending::Whole => match lacks {
            Some(promised) if !exact => notices.push(format!(
                "says that it is {promised:.2} s long, but ends after {seconds:.2} s"
            )),
            Some(_) => return Err(Problem::CutShort { seconds }.into()),
            None => (),
        },
    }
    if heard.audio.samples() == 0 {
        return Err(Problem::Empty.into());
    }
    let damaged = |error: Error| Problem::Damaged(error.to_string());
    for channel in &heard.audio.channels {
        loudness::require_finite("it", channel).map_err(damaged)?;
    }
    Ok((heard.audio, notices.into_iter().map(note).collect()))
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
    let options = AudioDecoderOptions::default().gapless(trims);
    codecs().make_audio_decoder(parameters, &options).map_err(|error| {
        let is_absent = parameters.codec == CODEC_ID_OPUS && cfg!(not(feature = "opus"));
        unless_io(error, |why| if is_absent { Problem::NotBuiltIn } else { Problem::Codec(why) })
    })
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

/// How many samples of a channel a file says it has, and whether that is sure.
fn promised(track: &Track, format: FormatId) -> (Option<u64>, bool) {
    let guessed = format == FORMAT_ID_ADTS || is_mpeg(format) && track.delay.is_none();
    (track.num_frames.filter(|_| !guessed), !is_mpeg(format))
}

fn is_mpeg(format: FormatId) -> bool {
    [FORMAT_ID_MP1, FORMAT_ID_MP2, FORMAT_ID_MP3].contains(&format)
}

fn is(reader: &dyn FormatReader, format: FormatId) -> bool {
    reader.format_info().format == format
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

/// Why nothing more is read.
#[derive(Debug, Clone, Copy)]
enum Ending {
    /// The container says so.
    Whole,
    /// The file ends where the container does not.
    Cut,
    /// [`MOST_SECONDS`].
    Long,
    /// Another stream with a header of its own begins.
    Chained,
}

/// A file being decoded.
struct Listening<'a> {
    format: Box<dyn FormatReader + 'a>,
    decoder: Box<dyn AudioDecoder>,
    track: Track,
    heard: Heard,
}

impl Listening<'_> {
    fn run(&mut self) -> Result<Ending, Failure> {
        loop {
            let packet = match self.format.next_packet() {
                Ok(Some(packet)) => packet,
                Ok(None) => return Ok(Ending::Whole),
                Err(Decoding::ResetRequired) => return Ok(Ending::Chained),
                Err(Decoding::IoError(e)) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(Ending::Cut);
                }
                Err(error) => return Err(unless_io(error, Problem::Damaged)),
            };
            if packet.track_id != self.track.id {
                continue;
            }
            self.heard.packets += 1;
            match self.decoder.decode(&packet) {
                Ok(sound) => self.heard.push(&sound)?,
                Err(Decoding::DecodeError(_) | Decoding::IoError(_)) => {
                    self.heard.push_silence(&packet);
                }
                // Some features show themselves only in the middle.
                Err(error) => return Err(unless_io(error, Problem::Codec)),
            }
            if self.heard.is_long() {
                return Ok(Ending::Long);
            }
        }
    }
}

/// What has been decoded.
#[derive(Debug)]
struct Heard {
    audio: Audio,
    /// Channels that there are, of which two at most are kept.
    channels: usize,
    /// One packet's channels.
    scratch: Vec<Vec<f32>>,
    packets: usize,
    damaged: usize,
    /// Samples of damaged packets before the first whole one.
    silence_before: usize,
}

impl Default for Heard {
    fn default() -> Self {
        let audio = Audio { channels: Vec::new(), sample_rate: 0 };
        Self { audio, channels: 0, scratch: Vec::new(), packets: 0, damaged: 0, silence_before: 0 }
    }
}

impl Heard {
    fn push(&mut self, sound: &GenericAudioBufferRef<'_>) -> Result<(), Problem> {
        let (rate, planes) = (sound.spec().rate(), sound.num_planes().min(2));
        if self.audio.channels.is_empty() {
            if !RATES.contains(&rate) {
                return Err(Problem::Damaged(format!(
                    "{rate} samples a second are outside {} to {}",
                    RATES.start(),
                    RATES.end()
                )));
            }
            let before = vec![0.0; self.silence_before];
            self.audio = Audio { channels: vec![before; planes], sample_rate: rate };
            self.channels = sound.num_planes();
        }
        if (rate, planes) != (self.audio.sample_rate, self.audio.channels.len()) {
            let why = "its rate or its channels change in the middle";
            return Err(Problem::Damaged(why.into()));
        }
        sound.copy_to_vecs_planar(&mut self.scratch);
        for (channel, new) in self.audio.channels.iter_mut().zip(&self.scratch) {
            channel.extend_from_slice(new);
        }
        Ok(())
    }

    /// Silence in place of a packet, so that what follows stays where it was.
    fn push_silence(&mut self, packet: &Packet) {
        self.damaged += 1;
        // More than any packet lasts; what is damaged may claim anything.
        let samples = packet.dur.get().min(1 << 16) as usize;
        if self.audio.channels.is_empty() {
            self.silence_before += samples;
        }
        for channel in &mut self.audio.channels {
            channel.resize(channel.len() + samples, 0.0);
        }
    }

    fn most_samples(&self) -> usize {
        MOST_SECONDS as usize * self.audio.sample_rate as usize
    }

    /// Cuts what is too long.
    fn is_long(&mut self) -> bool {
        let most = self.most_samples();
        let is_long = self.audio.samples() > most;
        if is_long {
            self.audio.crop(most);
        }
        is_long
    }

    /// What is to be said about damaged packets.
    fn check(&self) -> Result<Vec<String>, Problem> {
        let Self { packets, damaged, .. } = *self;
        if damaged * DAMAGE > packets {
            let why = format!("{damaged} of its {packets} packets cannot be decoded");
            return Err(Problem::Damaged(why));
        }
        Ok(match damaged {
            0 => vec![],
            _ => vec![format!(
                "has {damaged} packets of {packets} that cannot be decoded: they are silent"
            )],
        })
    }
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
