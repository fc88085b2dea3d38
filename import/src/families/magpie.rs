//! Magpie TTS and NanoCodec, as data.

mod names;
mod releases;

pub(crate) use names::{Spelling, codec_decoder, decoder, encoder, local_transformer};
pub(crate) use releases::CODECS;
pub use releases::MODELS;

/// Architecture of a GGUF file with model, codec and dictionaries.
pub(crate) const WHOLE: &str = "magpie-tts";
/// Architecture of a GGUF file with the model alone.
pub(crate) const MODEL: &str = "magpie";
/// Architecture of a GGUF file with the codec alone.
pub(crate) const CODEC: &str = "nano-codec";

/// (Architecture, noun phrase for messages.)
pub(crate) const ARCHITECTURES: [(&str, &str); 3] = [
    (WHOLE, "a Magpie TTS model with its codec"),
    (MODEL, "a Magpie TTS model"),
    (CODEC, "the codec of Magpie TTS"),
];
