//! Qwen3-TTS, as data: its published directories and repositories, and the tensors of its networks.

pub(crate) mod gguf;
mod names;

pub(crate) use names::{codec_decoder, codec_encoder, speaker_encoder, talker, unused_of_codec};

use super::Release;

/// The models, the default first.
pub const MODELS: [Release; 5] = [
    model(
        "qwen3-tts-0.6b-custom",
        "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice",
        2.5,
        "speech: nine named speakers",
    ),
    model(
        "qwen3-tts-0.6b-base",
        "Qwen/Qwen3-TTS-12Hz-0.6B-Base",
        2.5,
        "speech: the voice of a recording",
    ),
    model(
        "qwen3-tts-1.7b-custom",
        "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice",
        4.5,
        "speech: nine named speakers, with instructions",
    ),
    model(
        "qwen3-tts-1.7b-base",
        "Qwen/Qwen3-TTS-12Hz-1.7B-Base",
        4.5,
        "speech: the voice of a recording, larger",
    ),
    model(
        "qwen3-tts-1.7b-design",
        "Qwen/Qwen3-TTS-12Hz-1.7B-VoiceDesign",
        4.5,
        "speech: a voice described in words",
    ),
];

const fn model(
    name: &'static str,
    repo: &'static str,
    gigabytes: f32,
    about: &'static str,
) -> Release {
    Release { folders: &["speech_tokenizer"], ..Release::whole(name, repo, gigabytes, about) }
}
