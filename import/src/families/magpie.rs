//! Magpie TTS and NanoCodec, as data: their published archives and repositories, and the tensors of their networks.

mod names;

use super::Release;
pub(crate) use names::{Spelling, codec_decoder, decoder, encoder, local_transformer};

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

/// The codecs that the models need.
pub(crate) const CODECS: [Release; 1] = [Release::whole(
    "nanocodec",
    "nvidia/nemo-nano-codec-22khz-1.89kbps-21.5fps",
    0.5,
    "speech: the codec of Magpie TTS",
)];

/// The models, the default first.
pub const MODELS: [Release; 1] = [Release {
    alias: "magpie",
    needs: &CODECS,
    ..Release::whole(
        "magpie-357m",
        "nvidia/magpie_tts_multilingual_357m",
        1.4,
        "speech: five named voices, several languages",
    )
}];
