//! Names of outputs that cannot be used.

use std::path::PathBuf;

use acestep_engine::error::FamilyError;

/// A name of an output that cannot be used; inside [`acestep_engine::Error::Family`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields hold")]
pub enum OutputError {
    /// An output that is also an input.
    #[error("`{}` would be written over itself", .0.display())]
    OverItself(PathBuf),
    /// An output beside an input that has no folder.
    #[error("`{}` is standard input or a pipe, and no file can lie beside it", .0.display())]
    Beside(PathBuf),
    /// A saved request of an input that cannot be read again.
    #[error("`{}` is standard input or a pipe, which a request cannot name", .0.display())]
    Gone(PathBuf),
    /// A song with the extension of another kind of file.
    #[error("`{}` is no name of a song", .path.display())]
    NoSong { path: PathBuf, instead: PathBuf },
    /// A picture without the extension of a PNG.
    #[error("`{field}: {}` is no name of a PNG file", .path.display())]
    NoPicture { field: &'static str, path: PathBuf },
    /// A format whose extension is not the name's.
    #[error("`{field}: {format}` contradicts the name `{}`", .path.display())]
    Contradicts { field: &'static str, format: String, extension: &'static str, path: PathBuf },
    /// An extension of a format that is not written.
    #[error("this program does not write `{}`", .path.display())]
    NotWritten { path: PathBuf, remedy: String },
    /// Latents without a known extension.
    #[error("`{field}: {}` does not say its format", .path.display())]
    NoFormat { field: &'static str, path: PathBuf },
    /// Speech without a known extension.
    #[error("`{}` has no ending of a sound format that is written", .0.display())]
    NoSound(PathBuf),
    /// Times of words without a known extension.
    #[error("`{}` has no ending of a file of times", .0.display())]
    NoTimes(PathBuf),
    /// A seed in the name of a song that has none.
    #[error("`output: {0}` has a seed, but the noise is from a file")]
    NoSeed(String),
    /// An unknown placeholder.
    #[error("`output: {template}` has an unknown `{{{name}}}`")]
    Placeholder { template: String, name: String },
}

impl OutputError {
    /// True if the message names a field, and not only files of the user, whose names may be those of fields.
    pub fn names_field(&self) -> bool {
        match self {
            Self::OverItself(_)
            | Self::Beside(_)
            | Self::Gone(_)
            | Self::NoSong { .. }
            | Self::NotWritten { .. }
            | Self::NoSound(_)
            | Self::NoTimes(_) => false,
            Self::NoPicture { .. }
            | Self::Contradicts { .. }
            | Self::NoFormat { .. }
            | Self::NoSeed(_)
            | Self::Placeholder { .. } => true,
        }
    }
}

impl FamilyError for OutputError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::OverItself(_) => "name another file".into(),
            Self::Beside(_) => "name the file that is written with `output`".into(),
            Self::Gone(_) => "save it to a file first, or leave `save_request` out".into(),
            Self::NoSong { instead, .. } => format!("name it `{}`", instead.display()),
            Self::NoPicture { path, .. } => {
                format!("name it `{}`", path.with_extension("png").display())
            }
            Self::Contradicts { field, extension, .. } => {
                format!("name it .{extension}, or leave `{field}` out")
            }
            Self::NotWritten { remedy, .. } => remedy.clone(),
            Self::NoFormat { .. } => "let it end in .safetensors, .vae, .nac8 or .nac4".into(),
            Self::NoSound(_) => "name it .wav or .flac".into(),
            Self::NoTimes(_) => "name it .json, .srt or .vtt".into(),
            Self::NoSeed(_) => "leave {seed} out, or put {index} in its place".into(),
            Self::Placeholder { .. } => "{seed} and {index} are filled in".into(),
        })
    }

    fn is_usage(&self) -> bool {
        true
    }
}
