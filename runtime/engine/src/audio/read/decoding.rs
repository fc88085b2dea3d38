//! The decoder of a track, which is replaced if the sound changes its format.
//!
//! An MP3 may begin in mono and continue in stereo; then a new decoder continues. A single frame of
//! another format is treated as damage.

use std::sync::OnceLock;

use symphonia::core::{
    codecs::{
        audio::{
            AudioCodecParameters, AudioDecoder, AudioDecoderOptions,
            well_known::{CODEC_ID_AAC, CODEC_ID_OPUS},
        },
        registry::CodecRegistry,
    },
    errors::Error as Decoding,
    formats::{FormatId, Track},
    packet::Packet,
};

use super::{
    Failure, Problem, decoded::Decoded, file_decoder::is_mpeg, repair::mpeg::Frame, sbr, unless_io,
};

/// Consecutive frames of another format that are accepted as a change, not as damage.
const SURE: usize = 3;

pub(super) struct Decoder {
    inner: Box<dyn AudioDecoder>,
    track: Track,
    options: AudioDecoderOptions,
    /// The rate and the channels of MPEG audio.
    form: Option<(u32, u8)>,
    /// Frames of another format that are not decoded yet.
    held: Vec<Packet>,
    is_mpeg: bool,
    is_aac: bool,
    upper: sbr::Frames,
}

impl Decoder {
    pub(super) fn of(track: &Track, format: FormatId) -> Result<Self, Failure> {
        let is_mpeg = is_mpeg(format);
        let is_aac = is_aac(track);
        if is_aac && sbr::is_declared(config(track)) {
            return Err(sbr::problem().into());
        }
        // Without a LAME tag an MP3's length is a guess, and trimming to it would cut off music.
        let trims = !is_mpeg || track.delay.is_some();
        let options = AudioDecoderOptions::default().gapless(trims).verify(true);
        let inner = make(track, options)?;
        Ok(Self {
            inner,
            track: track.clone(),
            options,
            form: None,
            held: vec![],
            is_mpeg,
            is_aac,
            upper: sbr::Frames::default(),
        })
    }

    /// Decodes `packet` and appends it to `decoded`, or keeps it until its format is certain.
    pub(super) fn take(&mut self, packet: Packet, decoded: &mut Decoded) -> Result<(), Failure> {
        if self.is_aac {
            self.upper.examine(&packet.data);
        }
        let form = Self::form_of(&packet).filter(|_| self.is_mpeg);
        let own = *self.form.get_or_insert(form.unwrap_or_default());
        match form {
            Some(form) if form != own => {
                if self.held.last().is_some_and(|last| Self::form_of(last) != Some(form)) {
                    self.give_up(decoded);
                }
                self.held.push(packet);
                if self.held.len() < SURE {
                    return Ok(());
                }
                self.form = Some(form);
                self.inner = make(&self.track, self.options)?;
                std::mem::take(&mut self.held).iter().try_for_each(|of| self.decode(of, decoded))
            }
            _ => {
                self.give_up(decoded);
                self.decode(&packet, decoded)
            }
        }
    }

    fn form_of(packet: &Packet) -> Option<(u32, u8)> {
        Frame::of(&packet.data).map(|frame| (frame.rate, frame.channels))
    }

    /// Replaces the kept frames by silence: they were damage.
    pub(super) fn give_up(&mut self, decoded: &mut Decoded) {
        self.held.drain(..).for_each(|packet| decoded.push_silence(&packet));
    }

    fn decode(&mut self, packet: &Packet, decoded: &mut Decoded) -> Result<(), Failure> {
        match self.inner.decode(packet) {
            Ok(sound) => decoded.push(&sound)?,
            Err(Decoding::DecodeError(_) | Decoding::IoError(_)) => decoded.push_silence(packet),
            // Some unsupported features appear only in the middle of a file.
            Err(error) => return Err(unless_io(error, |why| undecoded(&self.track, &why))),
        }
        Ok(())
    }

    /// True if the samples match the file's checksum, or if it has none.
    pub(super) fn is_verified(&mut self) -> bool {
        self.inner.finalize().verify_ok != Some(false)
    }

    /// True if the track is HE-AAC, whose upper frequencies are not decoded.
    pub(super) fn lacks_upper_half(&self) -> bool {
        self.is_aac && self.upper.is_present()
    }
}

fn make(track: &Track, options: AudioDecoderOptions) -> Result<Box<dyn AudioDecoder>, Failure> {
    let parameters = parameters(track).ok_or(Problem::Empty)?;
    codecs().make_audio_decoder(parameters, &options).map_err(|error| {
        unless_io(error, |why| match parameters.codec {
            CODEC_ID_OPUS if cfg!(not(feature = "opus")) => Problem::NotBuiltIn,
            _ => undecoded(track, &why),
        })
    })
}

/// The problem of a track that cannot be decoded, with the codec's name if it is known.
fn undecoded(track: &Track, why: &str) -> Problem {
    match parameters(track).map(|audio| audio.codec) {
        Some(CODEC_ID_AAC) => Problem::Codec("AAC other than LC with one or two channels".into()),
        Some(CODEC_ID_OPUS) if why.contains("channels") => {
            Problem::Codec("Opus of more than two channels".into())
        }
        _ => Problem::Codec(format!("of an unknown kind ({why})")),
    }
}

/// The container's description of the codec.
fn config(track: &Track) -> &[u8] {
    parameters(track).and_then(|audio| audio.extra_data.as_deref()).unwrap_or_default()
}

pub(super) fn is_aac(track: &Track) -> bool {
    parameters(track).is_some_and(|audio| audio.codec == CODEC_ID_AAC)
}

fn parameters(track: &Track) -> Option<&AudioCodecParameters> {
    track.codec_params.as_ref()?.audio()
}

/// All decoders of this build.
fn codecs() -> &'static CodecRegistry {
    static CODECS: OnceLock<CodecRegistry> = OnceLock::new();
    CODECS.get_or_init(|| {
        let mut codecs = CodecRegistry::new();
        symphonia::default::register_enabled_codecs(&mut codecs);
        #[cfg(feature = "opus")]
        codecs.register_audio_decoder::<super::opus::Opus>();
        codecs
    })
}
