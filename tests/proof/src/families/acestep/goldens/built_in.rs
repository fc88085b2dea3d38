//! The small set inside the program, made with the built-in tiny checkpoint.

use anyhow::Result;

use crate::golden::set::Set;

/// The (name, content) pairs of the set's files.
macro_rules! files {
    ($($file:literal),+ $(,)?) => {
        [$((
            $file,
            include_bytes!(concat!("../../../../../goldens/a/", $file)) as &[u8],
        )),+]
    };
}

/// The built-in set: one file for every component that `generate` runs, and prompts as token ids.
pub(crate) fn set() -> Result<Set> {
    let files = files![
        "manifest.json",
        "audio_tokenizer.safetensors",
        "cond_encoder.safetensors",
        "dit_forward.safetensors",
        "dit_time.safetensors",
        "lm.safetensors",
        "lm_e2e.json",
        "sampling_turbo.safetensors",
        "silence.safetensors",
        "text_encoder.safetensors",
        "vae_decode.safetensors",
        "logic/dit_prompts.json",
    ];
    Set::new(files.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).into())
}
