//! Reasons why a sound file cannot be read, each with its remedy.

/// Reason why a sound file cannot be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what most fields hold")]
pub enum Problem {
    /// The file has no known format.
    #[error("it is no sound file that this program knows")]
    Unknown,
    /// The container is known, its codec is not supported. The value is a noun.
    #[error("its sound is {0}, which this program does not decode")]
    Codec(String),
    /// Opus, which this program was built without.
    #[error("its sound is Opus, which this program was built without")]
    NotBuiltIn,
    /// The container is known by its first bytes, but its header cannot be read.
    #[error("its header cannot be read: {0}")]
    Header(String),
    /// The file has no sound.
    #[error("there is no sound in it")]
    Empty,
    /// The file ends too early.
    #[error("it ends after {seconds:.2} s, before its end")]
    CutShort {
        /// Length of the sound in the file.
        seconds: f64,
    },
    /// The sample rate changes.
    #[error("its rate changes from {from} Hz to {to} Hz after {seconds:.2} s")]
    OtherRate {
        from: u32,
        to: u32,
        /// The time of the change.
        seconds: f64,
    },
    /// The sound is silent.
    #[error("{}", silent(*.channels))]
    Silent {
        /// Channels in the file; the first two are read.
        channels: usize,
    },
    /// The sound is too short for the networks.
    #[error("it lasts {seconds:.3} s, but {least:.3} s is the least")]
    TooShort { seconds: f64, least: f64 },
    /// The sound has more samples than are decoded.
    #[error(
        "it has {channels} channel{} of {rate} samples a second: at most {seconds:.0} s of that are read",
        if *.channels == 1 { "" } else { "s" }
    )]
    TooManySamples {
        channels: usize,
        rate: u32,
        /// The length of as many samples as are decoded.
        seconds: f64,
    },
    /// The content is damaged.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

impl Problem {
    /// Returns the remedy.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unknown | Self::Codec(_) => {
                "WAV, AIFF, FLAC, MP3, Ogg Vorbis, Ogg Opus, M4A and AAC are read; `ffmpeg -i FILE \
                 sound.flac` converts most others"
            }
            Self::NotBuiltIn => {
                "build it with `--features opus`, or convert it with `ffmpeg -i FILE sound.flac`"
            }
            Self::TooManySamples { .. } => {
                "`ffmpeg -i FILE -ac 2 -ar 48000 sound.flac` makes two channels and the usual rate of it"
            }
            Self::OtherRate { .. } => "`ffmpeg -i FILE sound.flac` makes one rate of it",
            Self::Silent { channels: 3.. } => {
                "`ffmpeg -i FILE -ac 2 sound.flac` mixes all channels to two"
            }
            Self::Silent { .. } | Self::TooShort { .. } | Self::Empty => {
                "check that it is the right file"
            }
            Self::Header(_) => {
                "it may be damaged: copy or download it again; or convert it with \
                 `ffmpeg -i FILE sound.flac`"
            }
            Self::CutShort { .. } | Self::Damaged(_) => {
                "copy or download it again; `ffmpeg -i FILE sound.flac` saves what can be heard"
            }
        }
    }
}

fn silent(channels: usize) -> String {
    match channels {
        0..=2 => "it is silent".into(),
        _ => format!("of its {channels} channels the first two, which are read, are silent"),
    }
}
