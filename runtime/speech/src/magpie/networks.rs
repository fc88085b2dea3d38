//! The networks of a model, each loaded when it is needed.

use acestep_model::{
    kernel::Precision,
    speech::{
        magpie::{Checkpoint, Decoder, Encoder, Files, LocalTransformer},
        nanocodec,
    },
};

use super::stage;
use crate::networks::family_networks;

family_networks! {
    /// Text to memory.
    ENCODER = "the text encoder", DECODER, All => encoder: Encoder<B>;
    /// Memory and codes to the next codes.
    DECODER = "the decoder", DECODER, All => decoder: Decoder<B>;
    /// The codes of a stack, one after the other.
    LOCAL_TRANSFORMER = "the local transformer", DECODER, All
        => local_transformer: LocalTransformer<B>;
    /// Codes to samples.
    CODEC_DECODER = "the codec decoder", CODEC_DECODER, F32
        => codec_decoder: nanocodec::Decoder<B>, beside DECODER;
}
