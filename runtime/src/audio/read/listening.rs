//! A file being decoded, packet by packet, and what its end tells.

use std::io;

use symphonia::core::{
    codecs::audio::AudioDecoder,
    errors::Error as Decoding,
    formats::{
        FormatId, FormatReader, Track,
        well_known::{
            FORMAT_ID_ADTS, FORMAT_ID_AIFF, FORMAT_ID_FLAC, FORMAT_ID_MP1, FORMAT_ID_MP2,
            FORMAT_ID_MP3, FORMAT_ID_WAVE,
        },
    },
    packet::Packet,
};

use super::{Failure, MOST_SECONDS, Problem, heard::Heard, is_aac, undecoded, unless_io};

/// A difference in length that is a habit of encoders and no loss, in parts of a second.
const SLACK: f64 = 0.1;

/// Samples of a frame of MPEG: encoders count the one that holds the tag, or do not.
const MPEG_FRAME: u64 = 1152;

/// The highest rate at which AAC may be the lower half of HE-AAC.
const HALF_RATE: u32 = 24_000;

/// Why nothing more is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ending {
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
pub(super) struct Listening<'a> {
    format: Box<dyn FormatReader + 'a>,
    decoder: Box<dyn AudioDecoder>,
    track: Track,
    pub(super) heard: Heard,
    /// The file's last bytes.
    tail: Vec<u8>,
    /// Whether those are the last packet's.
    reaches_tail: bool,
    /// Where the last packet ends, in samples, and how long the longest was.
    end: i64,
    longest: u64,
    /// Samples of its stream before the first.
    begins_late: u64,
}

impl<'a> Listening<'a> {
    pub(super) fn new(
        format: Box<dyn FormatReader + 'a>,
        decoder: Box<dyn AudioDecoder>,
        track: Track,
        tail: Vec<u8>,
    ) -> Self {
        let heard = Heard::default();
        Self {
            format,
            decoder,
            track,
            heard,
            tail,
            reaches_tail: false,
            end: 0,
            longest: 0,
            begins_late: 0,
        }
    }

    pub(super) fn run(&mut self) -> Result<Ending, Failure> {
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
            self.place(&packet)?;
            self.heard.packets += 1;
            match self.decoder.decode(&packet) {
                Ok(sound) => self.heard.push(&sound)?,
                Err(Decoding::DecodeError(_) | Decoding::IoError(_)) => {
                    self.heard.push_silence(&packet);
                }
                // Some features show themselves only in the middle.
                Err(error) => return Err(unless_io(error, |why| undecoded(&self.track, &why))),
            }
            if self.heard.is_long() {
                return Ok(Ending::Long);
            }
        }
    }

    /// Follows where packets lie. Those of a FLAC whose checksum is wrong are never given out: only
    /// the next one tells that they are missing.
    fn place(&mut self, packet: &Packet) -> Result<(), Problem> {
        let (begin, lasts) = (packet.pts.get(), packet.dur.get());
        self.longest = self.longest.max(lasts);
        // What was cut out of a longer stream counts from there, and does not know its length.
        let is_first = self.heard.packets == 0 && self.track.num_frames.is_none();
        if self.container() == FORMAT_ID_FLAC && begin > self.end {
            let samples = begin.abs_diff(self.end);
            match is_first {
                true => self.begins_late = samples,
                false => self.heard.push_gap(samples, self.longest)?,
            }
        }
        self.end = begin.saturating_add_unsigned(lasts);
        self.reaches_tail = packet.data.ends_with(&self.tail) || self.tail.ends_with(&packet.data);
        Ok(())
    }

    fn container(&self) -> FormatId {
        self.format.format_info().format
    }

    /// What is to be said of sound that is read as it is.
    pub(super) fn habits(&self) -> Vec<String> {
        let mut notices = vec![];
        let (channels, rate) = (self.heard.channels, self.heard.audio.sample_rate);
        if self.begins_late > 0 {
            let seconds = self.begins_late as f64 / f64::from(rate);
            notices.push(format!(
                "begins {seconds:.2} s after the start of its stream: what was before is not there"
            ));
        }
        if channels > 2 {
            notices.push(format!("has {channels} channels: the first two are read"));
        }
        if is_aac(&self.track) && self.track.delay.is_none() {
            notices.push(
                "is AAC: it begins some 20 to 50 ms late, with what its encoder put before the sound"
                    .into(),
            );
        }
        if is_aac(&self.track) && rate <= HALF_RATE {
            notices.push(format!(
                "is AAC of {rate} Hz: if it is HE-AAC, what lies above {} Hz is not decoded",
                rate / 2
            ));
        }
        notices
    }

    /// What is to be said of the file's end.
    pub(super) fn check_end(&mut self, ending: Ending) -> Result<Option<String>, Problem> {
        let container = self.container();
        let (samples, rate) = (self.heard.audio.samples() as u64, self.heard.audio.sample_rate);
        let (promised, exact) = promised(&self.track, container);
        // Without a single packet there is no rate either.
        let in_seconds = |samples: u64| samples as f64 / f64::from(rate.max(1));
        let seconds = in_seconds(samples);
        let cut = Err(Problem::CutShort { seconds });
        match ending {
            Ending::Long => {
                let whole =
                    promised.map_or(String::new(), |s| format!(" of {:.0} s", in_seconds(s)));
                return Ok(Some(format!("is long: its first {MOST_SECONDS} s{whole} are read")));
            }
            Ending::Chained => {
                return Ok(Some("holds several streams: only the first is read".into()));
            }
            // One of more than 4 GiB cannot know its own length.
            Ending::Cut if promised.is_none() && container == FORMAT_ID_WAVE => return Ok(None),
            Ending::Cut => return cut,
            Ending::Whole => (),
        }
        let lacks = promised.filter(|&promised| samples + slack(container, rate) < promised);
        if let Some(promised) = lacks {
            if exact {
                return cut;
            }
            let promised = in_seconds(promised);
            return Ok(Some(format!(
                "says that it is {promised:.2} s long, but ends after {seconds:.2} s"
            )));
        }
        if container == FORMAT_ID_FLAC && promised.is_none() && !self.reaches_tail {
            return cut;
        }
        // Of samples that are missing, and silent, the checksum is another.
        if self.heard.damaged == 0 && self.decoder.finalize().verify_ok == Some(false) {
            return Err(Problem::Damaged("its samples are not those of its checksum".into()));
        }
        Ok(self.more_after(promised).map(|more| {
            let more = in_seconds(more);
            format!("goes on for {more:.2} s after the end that its tag names: that is not read")
        }))
    }

    /// Samples of an MP3 that lie after its end, beyond what the encoder fills up with.
    fn more_after(&self, promised: Option<u64>) -> Option<u64> {
        let promised = promised.filter(|_| is_mpeg(self.container()))?;
        let padding = u64::from(self.track.padding.unwrap_or(0));
        let more = u64::try_from(self.end).ok()?.checked_sub(promised + padding)?;
        (more > MPEG_FRAME).then_some(more)
    }
}

/// How many samples of a channel a file says it has, and whether that is sure.
fn promised(track: &Track, format: FormatId) -> (Option<u64>, bool) {
    let guessed = format == FORMAT_ID_ADTS || is_mpeg(format) && track.delay.is_none();
    (track.num_frames.filter(|_| !guessed), !is_mpeg(format))
}

pub(super) fn is_mpeg(format: FormatId) -> bool {
    [FORMAT_ID_MP1, FORMAT_ID_MP2, FORMAT_ID_MP3].contains(&format)
}

/// How many samples too few are no loss.
fn slack(format: FormatId, rate: u32) -> u64 {
    match format {
        FORMAT_ID_FLAC | FORMAT_ID_WAVE | FORMAT_ID_AIFF => 0,
        mpeg if is_mpeg(mpeg) => MPEG_FRAME,
        _ => (f64::from(rate) * SLACK) as u64,
    }
}
