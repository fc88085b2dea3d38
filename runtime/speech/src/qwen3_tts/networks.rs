//! The networks of a speech model, each loaded when it is needed.

use acestep_model::speech::{
    mimi,
    qwen3_tts::{Checkpoint, Files, SpeakerEncoder, Talker, codec},
};

use super::stage;
use crate::networks::family_networks;

family_networks! {
    /// Talker and code predictor.
    TALKER = "the talker", TALKER, All => talker: Talker<B>;
    /// A recording to the vector of its voice.
    SPEAKER_ENCODER = "the speaker encoder", SPEAKER_ENCODER, Floats
        => speaker_encoder: SpeakerEncoder<B>;
    /// Codes to samples.
    CODEC_DECODER = "the codec decoder", CODEC_DECODER, Floats => codec_decoder: codec::Decoder<B>;
    /// A recording to codes.
    CODEC_ENCODER = "the codec encoder", CODEC_ENCODER, Floats => codec_encoder: mimi::Encoder<B>;
}
