//! Speech: language models over audio codes, and the codecs between codes and sound.
//!
//! | module | networks |
//! |---|---|
//! | [`dia2`] | Dia2: backbone and depformer of dialogue |
//! | [`qwen3_tts`] | Qwen3-TTS: talker, code predictor, speaker encoder, codec decoder |
//! | [`mimi`] | Mimi: the codec whose encoder other families use too |
//! | [`magpie`] | Magpie TTS: encoder, decoder, local transformer |
//! | [`nanocodec`] | NanoCodec: the decoder of the codec of Magpie TTS |
//!
//! # Letters in shapes
//!
//! | letter | meaning | rate |
//! |---|---|---|
//! | `S` | audio samples | 24 000 Hz |
//! | `F` | frames of audio codes, 1920 samples each | 12.5 Hz |
//! | `G` | codes of a frame, one per codebook | |

pub mod dia2;
mod inherited;
pub mod magpie;
pub mod mimi;
pub mod nanocodec;
pub mod qwen3_tts;
