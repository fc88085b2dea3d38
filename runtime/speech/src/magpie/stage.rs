//! The stages of a run.

use acestep_engine::progress::{Stage, Unit};

/// Decoder and local transformer: frames of codes; the total is an upper bound.
pub const DECODER: Stage = Stage { name: "speech", unit: Unit::Frame };
/// Codes to samples.
pub const CODEC_DECODER: Stage = Stage { name: "codec decoder", unit: Unit::Frame };
