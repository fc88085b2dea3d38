//! The stages of a dialogue.

use acestep_engine::progress::{Stage, Unit};

/// Backbone and depformer: frames of codes; the total is an upper bound.
pub const SPEECH: Stage = Stage { name: "dialogue", unit: Unit::Frame };
/// Recordings of the speakers through the backbone.
pub const VOICE: Stage = Stage { name: "voice", unit: Unit::Frame };
/// Codes to samples.
pub const CODEC_DECODER: Stage = Stage { name: "codec decoder", unit: Unit::Frame };
/// A recording to codes.
pub const CODEC_ENCODER: Stage = Stage { name: "codec encoder", unit: Unit::Step };
