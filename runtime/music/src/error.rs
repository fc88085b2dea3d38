//! Errors that only songs have.

use std::path::PathBuf;

use acestep_engine::error::FamilyError;

/// An error of a song's request, files or model; inside [`acestep_engine::Error::Family`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what most fields hold")]
pub enum SongError {
    /// Neither caption nor lyrics.
    #[error("there is nothing to sing or play: caption and lyrics are both empty")]
    NothingAsked,
    /// A language code that the model was not trained on.
    #[error("`vocal_language: {code}` is not a language the model knows")]
    UnknownLanguage { code: String, near: Vec<&'static str> },
    /// An item of a list of audio codes that is not a code.
    #[error("audio code {index} is `{item}`, but a code is a whole number such as 17")]
    BadCode {
        /// Its position, from 1.
        index: usize,
        /// The item, shortened.
        item: String,
    },
    /// A conditioning file that does not have the expected format.
    #[error("`{path}` cannot be used as conditioning: {why}")]
    Conditioning { path: PathBuf, why: String },
    /// A file without valid latents.
    #[error("`{path}` cannot be used as latents: {why}")]
    Latents { path: PathBuf, why: String },
    /// A snapshot of a language model's state that is invalid, or of another model.
    #[error("`{path}` cannot be used as what the language model has read: {why}")]
    Snapshot { path: PathBuf, why: String },
    /// A sound shorter than one frame of latents.
    #[error("{seconds:.3} s of sound are too short to listen to: one frame is {least:.3} s")]
    TooShort { seconds: f64, least: f64 },
    /// A silent source or reference.
    #[error("it is silent")]
    SilentSource,
    /// A song that is longer than the networks support.
    #[error("the song would be {seconds:.1} s long, but {most} s is the most")]
    TooLong { seconds: f64, most: f64 },
    /// A task that needs a source song, without one.
    #[error("`{field}: {value}` needs a song to start from")]
    NoSource { field: &'static str, value: &'static str },
    /// A task for one track that names no track.
    #[error("`task_type: {task}` needs the name of a track")]
    NoTrack { task: &'static str, tracks: &'static [&'static str] },
    /// A task that the model was not trained for.
    #[error("{model} cannot do `{task}`: only base and sft models were trained for it")]
    WrongModel { task: &'static str, model: String },
    /// A source or reference song that the model cannot use.
    #[error("`{path}` cannot be used as the {role}")]
    Unusable {
        path: String,
        role: &'static str,
        #[source]
        source: Box<acestep_engine::Error>,
    },
    /// A variant of noise that has no seed.
    #[error("`retake_variance` turns the noise of the seed, but the noise is from a file")]
    RetakeOfFile,
    /// An edit of noise that has no seed.
    #[error("`flow_edit_morph` draws its noise anew for each step, from a seed")]
    EditOfFile,
    /// A condition for a shorter song.
    #[error("`{path}` holds {frames} latent frames, but {seconds} s need {wanted}")]
    ShortConditioning { path: PathBuf, frames: usize, seconds: f64, wanted: usize },
    /// Noise for another song.
    #[error(
        "the noise of `{path}` is {shape:?}, but this song needs {wanted:?} (songs, latent frames, \
         channels)"
    )]
    NoiseShape { path: PathBuf, shape: [usize; 3], wanted: [usize; 3] },
    /// The attention heads that follow the lyrics are not known for this model.
    #[error("where the lyrics are sung in a song of this model cannot be found")]
    NoAlignment(#[source] acestep_model::ConfigError),
}

impl FamilyError for SongError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NothingAsked => "say what it should sound like, e.g. \"calm piano, rain\"".into(),
            Self::UnknownLanguage { near, .. } if near.is_empty() => {
                "use a code such as en, zh, ja or fr, or `unknown`".into()
            }
            Self::UnknownLanguage { near, .. } => format!("did you mean {}?", near.join(", ")),
            Self::TooShort { least, .. } => format!("it takes at least {least:.2} s"),
            Self::SilentSource => "check that it is the right file".into(),
            Self::TooLong { .. } => "cut the source, or add less before and after it".into(),
            Self::NoSource { .. } => "pass `src_audio: FILE`".into(),
            Self::NoTrack { tracks, .. } => {
                format!("pass `track_name` with one of {}", tracks.join(", "))
            }
            Self::WrongModel { .. } => {
                "pass `model: base` or `model: sft`; turbo knows text2music, cover, cover-nofsq and \
                 repaint"
                    .into()
            }
            Self::Conditioning { .. } => "write it with `dump_conditioning: DIR`".into(),
            Self::Latents { .. } => {
                "take a file that this program wrote, or a .vae, .nac8 or .nac4 file of acestep.cpp"
                    .into()
            }
            Self::NoAlignment(_) => {
                "leave `lrc`, `output_lrc`, `output_vtt` and `score` out, or choose a model whose \
                 config.json has the key, such as `model: turbo`"
                    .into()
            }
            Self::Unusable { source, .. } => return source.hint(),
            Self::RetakeOfFile => "leave one of them out".into(),
            Self::EditOfFile => "leave `noise` and `conditioning` out".into(),
            Self::ShortConditioning { .. } => "leave `duration` out".into(),
            Self::NoiseShape { .. } => {
                "choose `duration` and `batch_size` to fit it; songs below 128 frames (5.12 s) are \
                 sampled with 128"
                    .into()
            }
            Self::Snapshot { .. } => "let the language model read the prompt again".into(),
            Self::BadCode { .. } => return None,
        };
        Some(hint)
    }

    fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::BadCode { .. }
                | Self::UnknownLanguage { .. }
                | Self::NothingAsked
                | Self::NoSource { .. }
                | Self::NoTrack { .. }
                | Self::WrongModel { .. }
                | Self::RetakeOfFile
                | Self::EditOfFile
        )
    }
}
