//! The demo's vocabulary: byte-level BPE in Qwen's format, trained on the texts of pieces.
//!
//! Qwen's vocabulary has 151,643 entries, which would need more weights than the whole demo.
//!
//! Source: Sennrich et al. 2016, arXiv:1508.07909; Hugging Face tokenizers.

use acestep_music::prompt::{COVER, REPAINT, TEXT_TO_MUSIC};
use acestep_train::Error;
use serde_json::{Value, json};
use tokenizers::{
    Tokenizer,
    models::{TrainerWrapper, bpe::BpeTrainer},
    pre_tokenizers::byte_level::ByteLevel,
};

use crate::{
    composer::{Piece, Wish},
    labels::Labels,
};

/// Entries without special tokens; 256 of them are single bytes.
pub const WORDS: usize = 1024;

/// Number of pieces whose texts are training data.
const PIECES: u64 = 4000;

/// Special tokens, in the order of their ids, before the codes.
const SPECIAL: [&str; 5] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"];

/// Qwen's regular expression that splits text before pairs are merged, except that up to three
/// digits stay together. A small network learns one token sooner than the meaning of three.
const CUTS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Trains two `tokenizer.json`: for the text encoder, and for a language model with `codes` codes.
///
/// # Errors
/// [`Error::Vocabulary`] with the library's message.
pub fn learn(seed: u64, codes: u32) -> Result<[Value; 2], Error> {
    let bad =
        |error: Box<dyn std::error::Error + Send + Sync>| Error::Vocabulary(error.to_string());
    let mut tokenizer: Tokenizer =
        serde_json::from_value(skeleton()).map_err(|error| Error::Vocabulary(error.to_string()))?;
    let mut alphabet: Vec<char> = ByteLevel::alphabet().into_iter().collect();
    alphabet.sort_unstable();
    let trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(WORDS)
        .min_frequency(2)
        .initial_alphabet(alphabet.into_iter().collect())
        .build();
    let texts = (0..PIECES).flat_map(|piece| {
        let labels = Labels::of(&Piece::compose(seed.wrapping_add(piece), &Wish::default()));
        let instruction = [TEXT_TO_MUSIC, COVER, REPAINT][piece as usize % 3];
        let [ask, answer] = labels.generation(&labels.caption);
        [labels.caption_prompt(instruction, &labels.metas()), labels.lyric_prompt(), ask, answer]
    });
    // Every tempo becomes a token, however rare.
    let tempi = (0..200).flat_map(|_| (60..=180).map(|bpm: u32| bpm.to_string()));
    tokenizer.train(&mut TrainerWrapper::from(trainer), texts.chain(tempi)).map_err(bad)?;
    let text = tokenizer.to_string(false).map_err(bad)?;
    let learned: Value =
        serde_json::from_str(&text).map_err(|error| Error::Vocabulary(error.to_string()))?;

    let words = learned["model"]["vocab"].as_object().map_or(0, serde_json::Map::len);
    let with = |codes: u32, post: Value| {
        let special =
            SPECIAL.iter().map(|&content| (content.to_owned(), content.starts_with("<|")));
        let code = |index: u32| (format!("<|audio_code_{index}|>"), false);
        let added: Vec<Value> = special
            .chain((0..codes).map(code))
            .enumerate()
            .map(|(index, (content, special))| {
                json!({
                    "id": words + index, "content": content, "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": special,
                })
            })
            .collect();
        let mut file = learned.clone();
        file["added_tokens"] = Value::Array(added);
        file["post_processor"] = post;
        file
    };
    let bytes = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false,
    });
    let end = json!({"SpecialToken": {"id": SPECIAL[0], "type_id": 0}});
    let appended = json!({
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, end],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, end, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            SPECIAL[0]: {"id": SPECIAL[0], "ids": [words], "tokens": [SPECIAL[0]]},
        },
    });
    let of_text = json!({"type": "Sequence", "processors": [bytes, appended]});
    Ok([with(0, of_text), with(codes, bytes)])
}

/// Returns Qwen's pipeline with an empty vocabulary.
fn skeleton() -> Value {
    let bytes = |use_regex: bool| {
        json!({
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false,
            "use_regex": use_regex,
        })
    };
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": CUTS}, "behavior": "Isolated", "invert": false},
            bytes(false),
        ]},
        "post_processor": null,
        "decoder": {
            "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true,
        },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": false, "vocab": {}, "merges": [],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_few_tokens_that_give_them_back() {
        let files = learn(1, 10).expect("a vocabulary");
        assert_eq!(files, learn(1, 10).expect("a vocabulary"), "the same every time");
        let [text, language] =
            files.map(|file| serde_json::from_value::<Tokenizer>(file).expect("a tokenizer"));
        let labels = Labels::of(&Piece::compose(77_777, &Wish::default()));
        let prompt = labels.caption_prompt(TEXT_TO_MUSIC, &labels.metas());
        let ids = text.encode(prompt.as_str(), true).expect("tokens").get_ids().to_vec();
        assert!(ids.len() < 110, "{} tokens", ids.len());
        assert_eq!(ids.last(), Some(&(WORDS as u32)));
        assert_eq!(text.decode(&ids[..ids.len() - 1], false).expect("a text"), prompt);
        // Text that never occurs in a caption is still encoded, byte by byte.
        let ids = language.encode("Ж 北<|audio_code_9|>", true).expect("tokens").get_ids().to_vec();
        assert_eq!(ids.last(), Some(&(WORDS as u32 + 5 + 9)));
        assert_eq!(language.decode(&ids, false).expect("a text"), "Ж 北<|audio_code_9|>");
        assert_eq!(language.get_vocab_size(true), WORDS + 15);
    }
}
