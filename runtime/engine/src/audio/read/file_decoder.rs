//! Decodes a file packet by packet and checks its end.

use std::io;

use symphonia::core::{
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

use super::{
    Failure, MOST_SECONDS, Problem,
    decoded::Decoded,
    decoding::{Decoder, is_aac},
    repair::{Known, longer_than_stated, shorter_than_stated},
    sbr, unless_io,
};
use crate::Observe;

/// A difference in length, in seconds, that encoders cause and that is not a loss.
const SLACK: f64 = 0.1;

/// Samples of an MPEG frame. Encoders may or may not count the frame that holds the tag.
const MPEG_FRAME: u64 = 1152;

/// The reason why decoding has stopped.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ending {
    /// The container has ended.
    Whole,
    /// The file has ended before the container.
    Cut,
    /// [`MOST_SECONDS`] are decoded.
    Long,
    /// Another stream with a header of its own begins.
    Chained,
}

/// A file that is being decoded.
pub(super) struct FileDecoder<'a> {
    format: Box<dyn FormatReader + 'a>,
    decoder: Decoder,
    track: Track,
    /// The statements of the file's own headers.
    known: Known,
    pub(super) decoded: Decoded,
    /// The file's last bytes.
    tail: Vec<u8>,
    /// True if the last packet contains these bytes.
    reaches_tail: bool,
    /// The end of the last packet and the duration of the longest one, in samples.
    end: i64,
    longest: u64,
}

impl<'a> FileDecoder<'a> {
    pub(super) fn new(
        format: Box<dyn FormatReader + 'a>,
        decoder: Decoder,
        track: Track,
        known: Known,
        tail: Vec<u8>,
        decoded: Decoded,
    ) -> Self {
        Self {
            format,
            decoder,
            track,
            known,
            decoded,
            tail,
            reaches_tail: false,
            end: i64::try_from(known.begins).unwrap_or(i64::MAX),
            longest: 0,
        }
    }

    pub(super) fn run(&mut self, observe: &dyn Observe) -> Result<Ending, Failure> {
        let ending = self.run_to_end(observe)?;
        self.decoder.give_up(&mut self.decoded);
        if self.decoder.lacks_upper_half() {
            return Err(sbr::problem().into());
        }
        self.decoded.skip(self.known.skip);
        self.decoded.amplify(self.known.gain);
        Ok(ending)
    }

    fn run_to_end(&mut self, observe: &dyn Observe) -> Result<Ending, Failure> {
        loop {
            if observe.cancelled() {
                return Err(Failure::Cancelled);
            }
            let packet = match self.format.next_packet() {
                Ok(Some(packet)) => packet,
                Ok(None) => return Ok(Ending::Whole),
                Err(Decoding::ResetRequired) => return Ok(Ending::Chained),
                Err(Decoding::IoError(e)) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(Ending::Cut);
                }
                // An MP4 whose sound ends earlier than its index says.
                Err(Decoding::DecodeError(why)) if why.contains("no atom pending read") => {
                    return Ok(Ending::Cut);
                }
                Err(error) => return Err(unless_io(error, Problem::Damaged)),
            };
            if packet.track_id != self.track.id {
                continue;
            }
            self.place(&packet)?;
            self.decoded.packets += 1;
            self.decoder.take(packet, &mut self.decoded)?;
            self.decoded.check_size()?;
            if self.decoded.is_long() {
                return Ok(Ending::Long);
            }
        }
    }

    /// Follows the positions of packets. Symphonia drops FLAC packets with a wrong checksum; only
    /// the position of the next packet shows that they are missing.
    fn place(&mut self, packet: &Packet) -> Result<(), Problem> {
        let (begin, lasts) = (packet.pts.get(), packet.dur.get());
        self.longest = self.longest.max(lasts);
        if self.container() == FORMAT_ID_FLAC && begin > self.end {
            self.decoded.push_gap(begin.abs_diff(self.end), self.longest)?;
        }
        self.end = begin.saturating_add_unsigned(lasts);
        self.reaches_tail = packet.data.ends_with(&self.tail) || self.tail.ends_with(&packet.data);
        Ok(())
    }

    fn container(&self) -> FormatId {
        self.format.format_info().format
    }

    /// Notices about properties of sound that is read as it is.
    pub(super) fn properties(&self) -> Vec<String> {
        let mut notices = vec![];
        let (channels, rate) = (self.decoded.channels, self.decoded.audio.sample_rate);
        notices.extend(self.decoded.changes());
        if self.known.begins > 0 {
            let seconds = self.known.begins as f64 / f64::from(rate);
            notices.push(format!(
                "begins {seconds:.2} s after the start of its stream: what was before is not there"
            ));
        }
        if channels > 2 {
            let read = match self.decoded.audio.channels.len() {
                2 => "the first two are read",
                _ => "their mean is read",
            };
            notices.push(format!("has {channels} channels: {read}"));
        }
        if is_aac(&self.track) && self.track.delay.is_none() {
            notices.push(
                "is AAC: it begins some 20 to 50 ms late, with what its encoder put before the sound"
                    .into(),
            );
        }
        notices
    }

    /// Checks the file's end.
    pub(super) fn check_end(&mut self, ending: Ending) -> Result<Option<String>, Problem> {
        let container = self.container();
        let (samples, rate) = (self.decoded.audio.samples() as u64, self.decoded.audio.sample_rate);
        let (stated, exact) = stated(&self.track, container);
        let stated = self.known.stated.or(stated.filter(|_| !self.known.is_open));
        // Without any packet the rate is 0.
        let in_seconds = |samples: u64| samples as f64 / f64::from(rate.max(1));
        let cut = Err(Problem::CutShort { seconds: in_seconds(samples) });
        match ending {
            Ending::Long => {
                let whole = stated.map_or(String::new(), |s| format!(" of {:.0} s", in_seconds(s)));
                return Ok(Some(format!("is long: its first {MOST_SECONDS} s{whole} are read")));
            }
            Ending::Chained => {
                return Ok(Some("holds several streams: only the first is read".into()));
            }
            // A WAV of more than 4 GiB cannot state its own length.
            Ending::Cut if stated.is_none() && container == FORMAT_ID_WAVE => return Ok(None),
            Ending::Cut => return cut,
            Ending::Whole => (),
        }
        let is_flac = container == FORMAT_ID_FLAC;
        let ends = samples + self.known.begins + self.known.skip;
        if let Some(stated) = stated.filter(|&of| ends + slack(container, rate) < of) {
            // An incomplete copy ends within a packet; a file cut by a program ends with one.
            let is_whole = is_flac && self.reaches_tail;
            if exact && !is_whole {
                return cut;
            }
            return Ok(Some(shorter_than_stated(in_seconds(stated), in_seconds(ends))));
        }
        if is_flac && stated.is_none() && !self.reaches_tail {
            return cut;
        }
        if let Some(stated) = self.known.stated.filter(|&of| ends > of) {
            return Ok(Some(longer_than_stated(in_seconds(stated), in_seconds(ends))));
        }
        // Missing or silent samples change the checksum.
        let is_whole = self.decoded.damaged == 0 && self.known.begins == 0;
        let notice = "has other samples than its checksum is of, but each of its packets is whole";
        Ok((is_whole && !self.decoder.is_verified()).then(|| notice.into()))
    }
}

/// The number of samples per channel that a file states, and true if it is exact.
fn stated(track: &Track, format: FormatId) -> (Option<u64>, bool) {
    let guessed = format == FORMAT_ID_ADTS || is_mpeg(format) && track.delay.is_none();
    (track.num_frames.filter(|_| !guessed), !is_mpeg(format))
}

pub(super) fn is_mpeg(format: FormatId) -> bool {
    [FORMAT_ID_MP1, FORMAT_ID_MP2, FORMAT_ID_MP3].contains(&format)
}

/// The number of missing samples that is not a loss.
fn slack(format: FormatId, rate: u32) -> u64 {
    match format {
        FORMAT_ID_FLAC | FORMAT_ID_WAVE | FORMAT_ID_AIFF => 0,
        mpeg if is_mpeg(mpeg) => MPEG_FRAME,
        _ => (f64::from(rate) * SLACK) as u64,
    }
}
