//! Released models and their repositories.

/// Directory of the audio autoencoder, shared by all models.
pub const VAE: &str = "vae";
/// Directory of the text encoder, shared by all models.
pub const TEXT_ENCODER: &str = "Qwen3-Embedding-0.6B";
/// Repository with the turbo model, the autoencoder and the text encoder.
pub(crate) const MAIN_REPO: &str = "ACE-Step/Ace-Step1.5";

/// A released model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnownModel {
    /// Name for `--model` or `--lm-model`.
    pub name: &'static str,
    /// Its directory in the models directory.
    pub directory: &'static str,
    /// Its repository on Hugging Face (and ModelScope).
    pub repo: &'static str,
    /// Gigabytes of its directory; a diffusion transformer needs about 1.9 more.
    pub gigabytes: f32,
    /// One line for help texts.
    pub about: &'static str,
}

/// The released models, the default first.
pub const KNOWN_MODELS: [KnownModel; 9] = [
    known("turbo", "acestep-v15-turbo", MAIN_REPO, 4.8, "8 steps, no guidance"),
    known("base", "acestep-v15-base", "ACE-Step/acestep-v15-base", 4.8, "50 steps, all tasks"),
    known("sft", "acestep-v15-sft", "ACE-Step/acestep-v15-sft", 4.8, "50 steps, finer sound"),
    known(
        "turbo-shift1",
        "acestep-v15-turbo-shift1",
        "ACE-Step/acestep-v15-turbo-shift1",
        4.8,
        "turbo distilled at shift 1",
    ),
    known(
        "turbo-shift3",
        "acestep-v15-turbo-shift3",
        "ACE-Step/acestep-v15-turbo-shift3",
        4.8,
        "turbo distilled at shift 3",
    ),
    known(
        "turbo-continuous",
        "acestep-v15-turbo-continuous",
        "ACE-Step/acestep-v15-turbo-continuous",
        4.8,
        "turbo distilled at shifts 1 to 5",
    ),
    known(
        "xl-turbo",
        "acestep-v15-xl-turbo",
        "ACE-Step/acestep-v15-xl-turbo",
        10.0,
        "the larger turbo",
    ),
    known(
        "xl-base",
        "acestep-v15-xl-base",
        "ACE-Step/acestep-v15-xl-base",
        10.0,
        "the larger base",
    ),
    known("xl-sft", "acestep-v15-xl-sft", "ACE-Step/acestep-v15-xl-sft", 10.0, "the larger sft"),
];

/// Companions of the diffusion transformer, shared by all models.
pub const KNOWN_COMPANIONS: [KnownModel; 2] = [
    known("vae", VAE, MAIN_REPO, 0.7, "the audio autoencoder"),
    known("text-encoder", TEXT_ENCODER, MAIN_REPO, 1.2, "the text encoder"),
];

/// The released language models, the default first.
pub const KNOWN_LANGUAGE_MODELS: [KnownModel; 3] = [
    known("lm-1.7b", "acestep-5Hz-lm-1.7B", MAIN_REPO, 3.7, "language model: the default"),
    known(
        "lm-0.6b",
        "acestep-5Hz-lm-0.6B",
        "ACE-Step/acestep-5Hz-lm-0.6B",
        1.3,
        "language model: smallest and fastest",
    ),
    known(
        "lm-4b",
        "acestep-5Hz-lm-4B",
        "ACE-Step/acestep-5Hz-lm-4B",
        8.4,
        "language model: hears and copies melodies best",
    ),
];

const fn known(
    name: &'static str,
    directory: &'static str,
    repo: &'static str,
    gigabytes: f32,
    about: &'static str,
) -> KnownModel {
    KnownModel { name, directory, repo, gigabytes, about }
}
