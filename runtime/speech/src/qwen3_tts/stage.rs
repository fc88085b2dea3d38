//! The stages of speech.

use acestep_engine::progress::{Stage, Unit};

/// Talker and code predictor: frames of codes; the total is an upper bound.
pub const TALKER: Stage = Stage { name: "speech", unit: Unit::Frame };
/// Codes to samples.
pub const CODEC_DECODER: Stage = Stage { name: "codec decoder", unit: Unit::Frame };
/// A recording to codes.
pub const CODEC_ENCODER: Stage = Stage { name: "codec encoder", unit: Unit::Step };
/// A recording to the vector of its voice.
pub const SPEAKER_ENCODER: Stage = Stage { name: "speaker encoder", unit: Unit::Step };
