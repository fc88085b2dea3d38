//! Qwen3-TTS (12 Hz): text and a voice to 24 kHz speech.
//!
//! ```text
//! prompt rows -> talker -> code 0 of a frame -> code predictor -> codes 1 to 15
//!                  ^                                                  |
//!                  +---- sum of the 16 code embeddings + next text ---+
//! frames -> codec decoder -> sound
//! ```
//!
//! Source: `qwen-tts` 0.1.1, `modeling_qwen3_tts.py` and `modeling_qwen3_tts_tokenizer_v2.py`; Qwen3-TTS
//! technical report, arXiv:2601.15621.

mod checkpoint;
mod code_predictor;
pub mod codec;
mod config;
mod generation;
mod speaker_encoder;
mod stack;
mod talker;

pub use checkpoint::{Checkpoint, Files};
pub use code_predictor::CodePredictor;
pub use config::{
    CodePredictorConfig, Config, LayersConfig, ModelType, SPECIAL_IDS, SpeakerEncoderConfig,
    TalkerConfig,
};
pub use generation::GenerationConfig;
pub use speaker_encoder::SpeakerEncoder;
pub use talker::Talker;
