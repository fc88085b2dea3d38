//! Goldens for this crate's tests: `tests/goldens` of the repository.

use std::{cell::Cell, path::PathBuf};

use acestep_model::{CheckpointError, LanguageCheckpoint, LanguageFiles, Place, Tokenizer, qwen3};
use burn::tensor::Tensor;
use burn_flex::Flex;

use crate::{
    LmSettings, Request,
    exchange::floats,
    lm::sample::{Scores, TokenMap},
};

pub(crate) fn path(relative: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens")).join(relative)
}

/// Returns frames of one channel, `[1, T, 1]`.
pub(crate) fn frames(values: &[f32]) -> Tensor<Flex, 3> {
    Tensor::<Flex, 1>::from_data(values, &Default::default()).reshape([1, values.len(), 1])
}

/// Reads one f32 tensor of a golden file, flat.
pub(crate) fn golden_f32(file: &str, name: &str) -> Vec<f32> {
    let bytes = std::fs::read(path(file)).expect("the goldens are in the repository");
    let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let view = tensors.tensor(name).expect("the golden has this tensor");
    assert_eq!(view.dtype(), safetensors::Dtype::F32, "{name}");
    floats(view.data())
}

/// Reads a golden JSON file.
pub(crate) fn golden_json(file: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(path(file)).expect("the goldens are in the repository");
    serde_json::from_str(&text).expect("JSON")
}

/// Reads the list `name` of a golden JSON file.
pub(crate) fn golden_cases(file: &str, name: &str) -> Vec<serde_json::Value> {
    golden_json(file)[name].as_array().expect("cases").clone()
}

/// Returns the scores of step `step`: a hash of seed, step and token, from -8 to 8, exact in f32.
pub(crate) fn hashed_scores(seed: u32, step: u32, vocabulary: usize) -> Scores {
    let begin = seed
        .wrapping_mul(0x9E37_79B1)
        .wrapping_add(step.wrapping_mul(0x85EB_CA77))
        .wrapping_add(0x27D4_EB2F);
    let score = |token: u32| {
        let mut x = begin.wrapping_add(token.wrapping_mul(0xC2B2_AE3D));
        x ^= x >> 15;
        x = x.wrapping_mul(0x2C1B_3C6D);
        x ^= x >> 12;
        x = x.wrapping_mul(0x297A_2D39);
        x ^= x >> 15;
        (x >> 8) as f32 / (1 << 20) as f32 - 8.0
    };
    Scores { logits: (0..vocabulary as u32).map(score).collect(), tokens: TokenMap::All }
}

/// A plain `tokenizer.json`: nothing is appended, special tokens are decoded as text.
pub(crate) struct Json(tokenizers::Tokenizer);

impl Json {
    pub(crate) fn open(path: &std::path::Path) -> Self {
        Self(tokenizers::Tokenizer::from_file(path).expect("a tokenizer"))
    }
}

impl Tokenizer for Json {
    fn encode(&self, text: &str) -> Vec<u32> {
        self.0.encode(text, false).expect("any text").get_ids().to_vec()
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.0.decode(ids, false).expect("any ids")
    }

    fn id_of(&self, content: &str) -> Option<u32> {
        self.0.token_to_id(content)
    }

    fn vocabulary(&self) -> usize {
        self.0.get_vocab(true).into_values().max().map_or(0, |largest| largest as usize + 1)
    }
}

/// Opens the tokenizer of the tiny language model: 958 tokens.
pub(crate) fn tokenizer() -> Json {
    Json::open(&path("checkpoints_a/acestep-5Hz-lm-0.6B/tokenizer.json"))
}

/// Returns the settings of the language model for an empty request.
pub(crate) fn settings(seeds: &[u64]) -> LmSettings {
    let request = Request::default();
    request.language.plan(&request.words, seeds, &mut vec![]).expect("defaults")
}

/// The tiny language model with random weights.
pub(crate) struct Language {
    tokenizer: Json,
    config: qwen3::Config,
    /// False if its weights do not fit into memory.
    fits: bool,
    /// Number of times that its weights were read.
    pub(crate) reads: Cell<usize>,
}

impl Language {
    pub(crate) fn new(fits: bool) -> Self {
        let folder = path("checkpoints_a/acestep-5Hz-lm-0.6B");
        let text = std::fs::read_to_string(folder.join("config.json")).expect("a golden");
        let config = qwen3::Config::from_json(&text).expect("a configuration");
        Self { tokenizer: tokenizer(), config, fits, reads: Cell::new(0) }
    }
}

impl LanguageFiles for Language {
    fn config(&self) -> &qwen3::Config {
        &self.config
    }

    fn tokenizer(&self) -> Result<&dyn Tokenizer, CheckpointError> {
        Ok(&self.tokenizer)
    }
}

impl LanguageCheckpoint<Flex> for Language {
    fn language_model(&self, place: &Place<Flex>) -> Result<qwen3::Causal<Flex>, CheckpointError> {
        assert!(self.fits, "can't allocate 1 byte");
        self.reads.set(self.reads.get() + 1);
        Ok(qwen3::Causal::init(&self.config, &place.device))
    }
}

/// A tokenizer whose whole vocabulary is these words; their indices are the ids.
pub(crate) struct Words(pub(crate) Vec<&'static str>);

impl Tokenizer for Words {
    fn encode(&self, mut text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        while !text.is_empty() {
            let begins = |id: &usize| text.starts_with(self.0[*id]);
            match (0..self.0.len()).filter(begins).max_by_key(|&id| self.0[id].len()) {
                Some(id) => {
                    ids.push(id as u32);
                    text = &text[self.0[id].len()..];
                }
                None => text = &text[text.chars().next().map_or(0, char::len_utf8)..],
            }
        }
        ids
    }

    fn decode(&self, ids: &[u32]) -> String {
        ids.iter().filter_map(|&id| self.0.get(id as usize)).copied().collect()
    }

    fn id_of(&self, content: &str) -> Option<u32> {
        self.0.iter().position(|word| *word == content).map(|id| id as u32)
    }

    fn vocabulary(&self) -> usize {
        self.0.len()
    }
}
