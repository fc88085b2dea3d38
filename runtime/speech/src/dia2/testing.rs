//! Goldens for the tests of this module.

use std::path::PathBuf;

use acestep_model::Tokenizer;
use serde_json::Value;

use super::{
    ids::Ids,
    machine::WordStart,
    script::{Entry, Reader},
};

/// The ids of the goldens' checkpoints.
pub(super) const IDS: Ids = Ids {
    bos: 1,
    zero: 7,
    pad: 3,
    new_word: 2,
    speakers: [448, 449],
    audio_bos: 64,
    audio_pad: 65,
};

fn goldens() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens"))
}

/// Reads a file of `logic/`.
pub(super) fn json(file: &str) -> Value {
    let path = goldens().join("dia2/logic").join(file);
    let text = std::fs::read_to_string(path).expect("the goldens are in the repository");
    serde_json::from_str(&text).expect("JSON")
}

pub(super) fn entries(value: &Value) -> Vec<Entry> {
    let number = |value: &Value| value.as_u64().expect("a number");
    let entry = |entry: &Value| Entry {
        tokens: entry["tokens"]
            .as_array()
            .expect("ids")
            .iter()
            .map(|id| number(id) as u32)
            .collect(),
        text: entry["text"].as_str().expect("a text").to_owned(),
        padding: number(&entry["padding"]) as usize,
    };
    value.as_array().expect("entries").iter().map(entry).collect()
}

/// Reads a word of a transcript.
pub(super) fn spoken(value: &Value) -> WordStart {
    let text = value[0].as_str().expect("a word").to_owned();
    WordStart { text, step: value[1].as_u64().expect("a step") as usize }
}

/// The tokenizer of the goldens' checkpoints.
pub(super) fn tokenizer() -> impl Tokenizer {
    let path = goldens().join("checkpoints_dia2/Dia2-tiny-alt/tokenizer.json");
    Json(tokenizers::Tokenizer::from_file(path).expect("a tokenizer"))
}

/// A reader of scripts for the goldens' checkpoints.
pub(super) fn reader(tokenizer: &dyn Tokenizer) -> Reader<'_> {
    Reader { tokenizer, ids: IDS, frame_rate: 12.5 }
}

struct Json(tokenizers::Tokenizer);

impl Tokenizer for Json {
    fn encode(&self, text: &str) -> Vec<u32> {
        self.0.encode(text, false).expect("any text").get_ids().to_vec()
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.0.decode(ids, false).expect("ids of the vocabulary")
    }

    fn id_of(&self, content: &str) -> Option<u32> {
        self.0.token_to_id(content)
    }

    fn vocabulary(&self) -> usize {
        self.0.get_vocab_size(true)
    }
}
