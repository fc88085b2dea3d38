//! The built-in tiny checkpoint: every network, about a million random weights in all.
//!
//! It proves the pipeline on a machine without any download; what it sings is noise. The files are
//! those of the goldens, described in the README of `tests/goldens`, in the released layout.

use crate::{Directory, Error, Folder};

/// What `--model` calls it.
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

/// Opens the built-in tiny checkpoint.
///
/// # Errors
/// None but for a mistake of ours: its files are part of the program.
pub fn open_tiny() -> Result<Folder, Error> {
    Folder::from_directories(TINY.to_owned(), DIT, VAE, TEXT_ENCODER)
}
