//! The built-in tiny checkpoints: every network of a model, about a million random weights in all,
//! and a language model of a quarter of a million.
//!
//! It proves the pipeline on a machine without any download; what it sings is noise. The files are
//! those of the goldens, described in the README of `tests/goldens`, in the released layout.

use crate::{Directory, Error, Folder, LanguageFolder};

/// What `--model` and `--lm-model` call them.
pub const TINY: &str = "tiny";

/// (File name, content) of one directory of the tiny checkpoint.
macro_rules! files {
    ($directory:literal: $($file:literal),+ $(,)?) => {
        &[$((
            $file,
            include_bytes!(concat!("../../tests/goldens/checkpoints_a/", $directory, "/", $file)),
        )),+]
    };
}

const DIT: Directory = Directory::Embedded(
    "built-in/acestep-v15-turbo",
    files!("acestep-v15-turbo": "config.json", "model.safetensors", "silence_latent.pt"),
);
const VAE: Directory = Directory::Embedded(
    "built-in/vae",
    files!("vae": "config.json", "diffusion_pytorch_model.safetensors"),
);
const TEXT_ENCODER: Directory = Directory::Embedded(
    "built-in/Qwen3-Embedding-0.6B",
    files!("Qwen3-Embedding-0.6B": "config.json", "model.safetensors", "tokenizer.json"),
);

/// The built-in directories: diffusion model, autoencoder, text encoder.
pub const BUILT_IN: [Directory; 3] = [DIT, VAE, TEXT_ENCODER];

/// The built-in directory of a language model.
pub const BUILT_IN_LANGUAGE_MODEL: Directory = Directory::Embedded(
    "built-in/acestep-5Hz-lm-0.6B",
    files!("acestep-5Hz-lm-0.6B": "config.json", "model.safetensors", "tokenizer.json"),
);

/// Opens the built-in tiny checkpoint.
///
/// # Errors
/// None but for a mistake of ours: its files are part of the program.
pub fn open_tiny() -> Result<Folder, Error> {
    Folder::from_directories(TINY.to_owned(), DIT, VAE, TEXT_ENCODER)
}

/// Opens the built-in tiny language model, which has 512 audio codes.
///
/// # Errors
/// None but for a mistake of ours: its files are part of the program.
pub fn open_tiny_language_model() -> Result<LanguageFolder, Error> {
    LanguageFolder::open(BUILT_IN_LANGUAGE_MODEL)
}
