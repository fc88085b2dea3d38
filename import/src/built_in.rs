//! The built-in models.
//!
//! `demo` (with the feature of that name) is a small ACE-Step, trained on music composed by this
//! project; see the book's chapter on training. `tiny` has about 1.25 million random weights and
//! makes noise: it tests the pipeline. `tiny-speech` is the same for speech. Their files are those of
//! the goldens; the README of `tests/goldens` describes them. All are in the released layout; `demo` is
//! packed.

use crate::{Directory, Release};

#[cfg(feature = "demo")]
mod demo;

/// Embeds a directory of the repository: its name for messages, then its files.
macro_rules! embedded {
    ($model:literal, $place:literal / $directory:literal: $($file:literal),+ $(,)?) => {
        Directory::Embedded(
            concat!("built-in/", $model, "/", $directory),
            || &[$((
                $file,
                include_bytes!(concat!(
                    env!("CARGO_MANIFEST_DIR"), "/", $place, "/", $directory, "/", $file
                )),
            )),+],
        )
    };
}

/// Name of the trained model for the fields `model` and `lm_model`.
pub const DEMO: &str = "demo";

/// Name of the random model for the fields `model` and `lm_model`.
pub const TINY: &str = "tiny";

/// Name of the random speech model for the field `model`.
pub const TINY_SPEECH: &str = "tiny-speech";

/// Returns name, bytes and description of the random speech model.
pub fn tiny_speech() -> (&'static str, u64, &'static str) {
    let bytes = tiny_speech_directories().iter().map(bytes_of).sum();
    (TINY_SPEECH, bytes, "speech: random weights: noise, to prove that the program works")
}

/// The directories of the random speech model: the model and its codec.
pub(crate) fn tiny_speech_directories() -> [Directory; 2] {
    [
        embedded!("tiny-speech",
            "../tests/goldens/checkpoints_qwen3_tts" / "Qwen3-TTS-12Hz-0.6B-CustomVoice":
            "config.json", "generation_config.json", "model.safetensors", "vocab.json",
            "merges.txt", "tokenizer_config.json"),
        embedded!("tiny-speech",
            "../tests/goldens/checkpoints_qwen3_tts" / "Qwen3-TTS-Tokenizer-12Hz":
            "config.json", "model.safetensors"),
    ]
}

/// A built-in model.
#[derive(Debug, Clone)]
pub struct BuiltIn {
    /// Name.
    pub name: &'static str,
    /// Short description.
    pub about: &'static str,
    /// Directories of the diffusion model, the autoencoder and the text encoder.
    pub directories: [Directory; 3],
    /// Directory of the language model.
    pub language_model: Directory,
}

const TINY_MODEL: BuiltIn = BuiltIn {
    name: TINY,
    about: "random weights: noise, to prove that the program works",
    directories: [
        embedded!("tiny", "../tests/goldens/checkpoints_a" / "acestep-v15-turbo":
            "config.json", "model.safetensors", "silence_latent.pt"),
        embedded!("tiny", "../tests/goldens/checkpoints_a" / "vae":
            "config.json", "diffusion_pytorch_model.safetensors"),
        embedded!("tiny", "../tests/goldens/checkpoints_a" / "Qwen3-Embedding-0.6B":
            "config.json", "model.safetensors", "tokenizer.json"),
    ],
    language_model: embedded!("tiny", "../tests/goldens/checkpoints_a" / "acestep-5Hz-lm-0.6B":
        "config.json", "model.safetensors", "tokenizer.json"),
};

#[cfg(feature = "demo")]
const DEMO_MODEL: BuiltIn = BuiltIn {
    name: DEMO,
    about: "learned from music composed by this project; knows no voice",
    directories: [
        Directory::Embedded("built-in/demo/acestep-v15-demo", || demo::files("acestep-v15-demo")),
        Directory::Embedded("built-in/demo/vae", || demo::files("vae")),
        Directory::Embedded("built-in/demo/Qwen3-Embedding-0.6B", || {
            demo::files("Qwen3-Embedding-0.6B")
        }),
    ],
    language_model: Directory::Embedded("built-in/demo/acestep-5Hz-lm-0.6B", || {
        demo::files("acestep-5Hz-lm-0.6B")
    }),
};

/// All models of this build; the default comes first. A static, because a constant would be copied
/// into each crate that uses it.
pub static BUILT_IN_MODELS: &[BuiltIn] = &[
    #[cfg(feature = "demo")]
    DEMO_MODEL,
    TINY_MODEL,
];

/// Returns name, bytes and description of every built-in model, of songs and of speech.
pub fn all_built_in() -> impl Iterator<Item = (&'static str, u64, &'static str)> {
    let songs = BUILT_IN_MODELS.iter().map(|model| (model.name, model.bytes(), model.about));
    songs.chain([tiny_speech()])
}

/// True for the name of a released or built-in model of speech.
pub fn is_speech(name: &str) -> bool {
    name == TINY_SPEECH || Release::speech().any(|model| model.is_called(name))
}

/// Returns the built-in model of songs `name`.
pub fn built_in(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN_MODELS.iter().find(|model| model.name == name)
}

impl BuiltIn {
    /// Returns the bytes of all its files.
    pub fn bytes(&self) -> u64 {
        self.directories.iter().chain([&self.language_model]).map(bytes_of).sum()
    }
}

fn bytes_of(directory: &Directory) -> u64 {
    match directory {
        Directory::Embedded(_, files) => files().iter().map(|(_, bytes)| bytes.len() as u64).sum(),
        Directory::Disk(_) | Directory::Foreign(_) => 0,
    }
}

/// Returns the random model.
pub(crate) fn tiny() -> &'static BuiltIn {
    built_in(TINY).expect("part of every build")
}

/// Returns the name of the model whose directory is called `root` in messages.
pub(crate) fn owner(root: &str) -> &str {
    root.split('/').nth(1).unwrap_or(root)
}
