//! The recordings of the goldens.

use acestep_engine::{Audio, Unobserved};
use acestep_model::Backend;
use acestep_speech::{
    Word,
    dia2::{Networks, Recording, Resampling, SAMPLE_RATE},
    pcm16,
};
use anyhow::Result;

use crate::golden::set::Set;

/// The recordings of `files`, with their words. The reference read them as 16-bit files.
pub(super) fn recordings<B: Backend>(
    set: &Set,
    files: &[&str],
    networks: &Networks<'_, B>,
) -> Result<Vec<Recording>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let stored = set.tensors("prefix.safetensors")?;
    let words = set.json("logic/words_to_entries.json")?;
    let of = |file: &&str| -> Result<Recording> {
        let wave = match *file {
            "pre1.wav" => "wave1",
            _ => "wave2",
        };
        let samples = pcm16(&stored.floats(wave)?);
        let samples = samples.into_iter().map(|sample| f32::from(sample) / 32_768.0).collect();
        let sound = Audio { channels: vec![samples], sample_rate: SAMPLE_RATE };
        let words: Vec<Word> = serde_json::from_value(words["plan"]["words"][file].clone())?;
        let filtered = Resampling::Filtered;
        Ok(Recording::new(&sound, words, filtered, networks, &Unobserved)?)
    };
    files.iter().map(of).collect()
}
