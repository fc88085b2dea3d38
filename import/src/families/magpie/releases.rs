//! The published archives of Magpie TTS and their repositories.

use crate::families::Release;

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
