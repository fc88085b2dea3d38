//! The published directories of ACE-Step 1.5 and their repositories.

use super::Kind;
use crate::families::Release;

/// Directory of the audio autoencoder, shared by all models.
pub const VAE: &str = "vae";
/// Directory of the text encoder, shared by all models.
pub const TEXT_ENCODER: &str = "Qwen3-Embedding-0.6B";
/// Repository with the turbo model, the autoencoder, the text encoder and a language model.
const MAIN_REPO: &str = "ACE-Step/Ace-Step1.5";

/// The diffusion models, the default first.
pub const MODELS: [Release; 9] = [
    Release {
        directory: "acestep-v15-turbo",
        prefix: "acestep-v15-turbo",
        ..model("turbo", MAIN_REPO, 4.8, "8 steps, no guidance")
    },
    model("base", "ACE-Step/acestep-v15-base", 4.8, "50 steps, all tasks"),
    model("sft", "ACE-Step/acestep-v15-sft", 4.8, "50 steps, finer sound"),
    model("turbo-shift1", "ACE-Step/acestep-v15-turbo-shift1", 4.8, "turbo distilled at shift 1"),
    model("turbo-shift3", "ACE-Step/acestep-v15-turbo-shift3", 4.8, "turbo distilled at shift 3"),
    model(
        "turbo-continuous",
        "ACE-Step/acestep-v15-turbo-continuous",
        4.8,
        "turbo distilled at shifts 1 to 5",
    ),
    model("xl-turbo", "ACE-Step/acestep-v15-xl-turbo", 10.0, "the larger turbo"),
    model("xl-base", "ACE-Step/acestep-v15-xl-base", 10.0, "the larger base"),
    model("xl-sft", "ACE-Step/acestep-v15-xl-sft", 10.0, "the larger sft"),
];

/// Companions of the diffusion transformer, shared by all models.
pub const COMPANIONS: [Release; 2] = [
    companion(Kind::Vae, "vae", VAE, 0.7, "the audio autoencoder"),
    companion(Kind::TextEncoder, "text-encoder", TEXT_ENCODER, 1.2, "the text encoder"),
];

/// The language models, the default first.
pub const LANGUAGE_MODELS: [Release; 3] = [
    Release {
        directory: "acestep-5Hz-lm-1.7B",
        prefix: "acestep-5Hz-lm-1.7B",
        ..language_model("lm-1.7b", MAIN_REPO, 3.7, "language model: the default")
    },
    language_model(
        "lm-0.6b",
        "ACE-Step/acestep-5Hz-lm-0.6B",
        1.3,
        "language model: smallest and fastest",
    ),
    language_model(
        "lm-4b",
        "ACE-Step/acestep-5Hz-lm-4B",
        8.4,
        "language model: hears and copies melodies best",
    ),
];

/// The names under which a companion lies in ComfyUI's directory of models.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ComfyFile {
    /// Its possible directories.
    pub(crate) directories: &'static [&'static str],
    /// The published file.
    pub(crate) file: &'static str,
}

/// The published files of the [`COMPANIONS`], in their order.
pub(crate) const COMFY_FILES: [ComfyFile; 2] = [
    ComfyFile { directories: &["vae"], file: "ace_1.5_vae.safetensors" },
    ComfyFile { directories: &["text_encoders", "clip"], file: "qwen_0.6b_ace15.safetensors" },
];

/// A model with a repository of its own.
const fn model(
    name: &'static str,
    repo: &'static str,
    gigabytes: f32,
    about: &'static str,
) -> Release {
    Release {
        kind: Some(Kind::Dit),
        needs: &COMPANIONS,
        ..Release::whole(name, repo, gigabytes, about)
    }
}

/// A directory of the main repository.
const fn companion(
    kind: Kind,
    name: &'static str,
    directory: &'static str,
    gigabytes: f32,
    about: &'static str,
) -> Release {
    let repo = Release::whole(name, MAIN_REPO, gigabytes, about);
    Release { kind: Some(kind), directory, prefix: directory, ..repo }
}

/// A language model with a repository of its own.
const fn language_model(
    name: &'static str,
    repo: &'static str,
    gigabytes: f32,
    about: &'static str,
) -> Release {
    let kind = Some(Kind::LanguageModel);
    Release { kind, ..Release::whole(name, repo, gigabytes, about) }
}
