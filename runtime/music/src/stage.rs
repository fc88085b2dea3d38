//! The stages of a song.

use acestep_engine::progress::{Stage, Unit};

const fn stage(name: &'static str, unit: Unit) -> Stage {
    Stage { name, unit }
}

/// Sound to latents.
pub const VAE_ENCODER: Stage = stage("VAE encoder", Unit::Tile);
/// The language model's text: metadata, lyrics; the total is an upper bound.
pub const LM_TEXT: Stage = stage("plan", Unit::TokenOfText);
/// The language model's audio codes.
pub const LM_CODES: Stage = stage("codes", Unit::Token);
/// Caption and lyrics to hidden states.
pub const TEXT_ENCODER: Stage = stage("text encoder", Unit::Step);
/// Lyrics, timbre and caption to one condition.
pub const CONDITION: Stage = stage("condition", Unit::Step);
/// Audio codes to latent hints, or latents to audio codes.
pub const CODES: Stage = stage("audio codes", Unit::Step);
/// Noise to latents.
pub const DIFFUSION: Stage = stage("diffusion", Unit::Step);
/// Latents to sound.
pub const VAE: Stage = stage("VAE", Unit::Tile);
/// Finished latents to the times of the lyrics' lines.
pub const ALIGNMENT: Stage = stage("alignment", Unit::Step);
/// The language model's score of a song.
pub const SCORE: Stage = stage("score", Unit::Step);
