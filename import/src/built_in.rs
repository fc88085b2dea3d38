//! The models that the program carries.
//!
//! `demo` (behind the feature of that name) is a small ACE-Step that learned from music composed by this
//! project, as the book's chapter on training tells. `tiny` has random weights, about a million and
//! a quarter, and sings noise: it proves the pipeline. Its files are those of the goldens, described in
//! the README of `tests/goldens`. Both are in the released layout.

use crate::{Directory, Error, Folder, LanguageFolder};

/// What `--model` and `--lm-model` call the model that learned.
pub const DEMO: &str = "demo";

/// What `--model` and `--lm-model` call the random one.
pub const TINY: &str = "tiny";

/// A model inside the program.
#[derive(Debug, Clone)]
pub struct BuiltIn {
    /// What it is called.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Diffusion model, autoencoder, text encoder.
    pub directories: [Directory; 3],
    /// Its language model.
    pub language_model: Directory,
}

/// A directory inside the program, from one in the repository: its name for messages, then files.
macro_rules! embedded {
    ($model:literal, $place:literal / $directory:literal: $($file:literal),+ $(,)?) => {
        Directory::Embedded(
            concat!("built-in/", $model, "/", $directory),
            &[$((
                $file,
                include_bytes!(concat!(
                    env!("CARGO_MANIFEST_DIR"), "/", $place, "/", $directory, "/", $file
                )),
            )),+],
        )
    };
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
        embedded!("demo", "demo" / "acestep-v15-demo":
            "config.json", "model.safetensors", "silence_latent.safetensors"),
        embedded!("demo", "demo" / "vae": "config.json", "diffusion_pytorch_model.safetensors"),
        embedded!("demo", "demo" / "Qwen3-Embedding-0.6B":
            "config.json", "model.safetensors", "tokenizer.json"),
    ],
    language_model: embedded!("demo", "demo" / "acestep-5Hz-lm-0.6B":
        "config.json", "model.safetensors", "tokenizer.json"),
};

/// All models in this build, that to begin with first. A static, for a constant would be in the program once
/// for each crate that names it.
pub static BUILT_IN_MODELS: &[BuiltIn] = &[
    #[cfg(feature = "demo")]
    DEMO_MODEL,
    TINY_MODEL,
];

/// The model inside the program that is called so.
pub fn built_in(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN_MODELS.iter().find(|model| model.name == name)
}

impl BuiltIn {
    /// Bytes of all its files.
    pub fn bytes(&self) -> u64 {
        let of = |directory: &Directory| match directory {
            Directory::Embedded(_, files) => {
                files.iter().map(|(_, bytes)| bytes.len() as u64).sum()
            }
            Directory::Disk(_) | Directory::Foreign(_) => 0,
        };
        self.directories.iter().chain([&self.language_model]).map(of).sum()
    }

    /// Opens it.
    ///
    /// # Errors
    /// None but for a mistake of ours: its files are part of the program.
    pub fn open(&self) -> Result<Folder, Error> {
        let [dit, vae, text_encoder] = self.directories.clone();
        Folder::from_directories(self.name.to_owned(), dit, vae, text_encoder)
    }

    /// Opens its language model.
    ///
    /// # Errors
    /// None but for a mistake of ours: its files are part of the program.
    pub fn open_language_model(&self) -> Result<LanguageFolder, Error> {
        LanguageFolder::open(self.language_model.clone())
    }
}

fn tiny() -> &'static BuiltIn {
    built_in(TINY).expect("part of every build")
}

/// Opens the random model.
///
/// # Errors
/// As [`BuiltIn::open`].
pub fn open_tiny() -> Result<Folder, Error> {
    tiny().open()
}

/// Opens the random language model, which has 512 audio codes.
///
/// # Errors
/// As [`BuiltIn::open_language_model`].
pub fn open_tiny_language_model() -> Result<LanguageFolder, Error> {
    tiny().open_language_model()
}

/// Which of them the directory that messages call `root` belongs to.
pub(crate) fn owner(root: &str) -> &str {
    root.split('/').nth(1).unwrap_or(root)
}
