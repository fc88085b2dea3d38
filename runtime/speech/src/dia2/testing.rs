//! Goldens for the tests of this module.

use std::{path::PathBuf, sync::LazyLock};

use acestep_model::Tokenizer;
use serde::de::DeserializeOwned;
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

/// Reads a value of a golden.
#[track_caller]
pub(super) fn of<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("a value of this type")
}

pub(super) fn entries(value: &Value) -> Vec<Entry> {
    of(value)
}

/// Reads a transcript.
pub(super) fn transcript(value: &Value) -> Vec<WordStart> {
    let words: Vec<(String, usize)> = of(value);
    words.into_iter().map(|(text, step)| WordStart { text, step }).collect()
}

/// A reader of scripts for the goldens' checkpoints.
pub(super) fn reader() -> Reader<'static> {
    static TOKENIZER: LazyLock<Json> = LazyLock::new(|| {
        let path = goldens().join("checkpoints_dia2/Dia2-tiny-alt/tokenizer.json");
        Json(tokenizers::Tokenizer::from_file(path).expect("a tokenizer"))
    });
    Reader { tokenizer: &*TOKENIZER, ids: IDS, frame_rate: 12.5 }
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
