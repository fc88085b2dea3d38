//! The text encoder's tokenizer: Qwen's byte-level BPE, which appends one `<|endoftext|>`.
//!
//! Read from `tokenizer.json`; where that is absent, put together from `vocab.json` and
//! `merges.txt`, which hold the base vocabulary only: the added tokens follow it in order.
//!
//! Source: Qwen3-Embedding-0.6B `tokenizer.json`; Hugging Face tokenizers.

use serde_json::{Value, json};
use tokenizers::Tokenizer;

use crate::{Directory, Error};

const END_OF_TEXT: &str = "<|endoftext|>";

/// How Qwen splits text before merging; digits one by one.
const SPLIT: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Qwen3's added tokens in the order of their ids, the first right after the base vocabulary
/// (151643 in the released one), and whether each is special.
const ADDED: [(&str, bool); 26] = [
    (END_OF_TEXT, true),
    ("<|im_start|>", true),
    ("<|im_end|>", true),
    ("<|object_ref_start|>", true),
    ("<|object_ref_end|>", true),
    ("<|box_start|>", true),
    ("<|box_end|>", true),
    ("<|quad_start|>", true),
    ("<|quad_end|>", true),
    ("<|vision_start|>", true),
    ("<|vision_end|>", true),
    ("<|vision_pad|>", true),
    ("<|image_pad|>", true),
    ("<|video_pad|>", true),
    ("<tool_call>", false),
    ("</tool_call>", false),
    ("<|fim_prefix|>", false),
    ("<|fim_middle|>", false),
    ("<|fim_suffix|>", false),
    ("<|fim_pad|>", false),
    ("<|repo_name|>", false),
    ("<|file_sep|>", false),
    ("<tool_response>", false),
    ("</tool_response>", false),
    ("<think>", false),
    ("</think>", false),
];

/// The tokenizer of the text encoder.
#[derive(Debug)]
pub struct TextTokenizer {
    inner: Tokenizer,
    end_of_text: u32,
}

impl TextTokenizer {
    /// Reads the tokenizer that lies in `directory`.
    ///
    /// # Errors
    /// [`Error::MissingFile`]; [`Error::BadTokenizer`] if it cannot be read or does not append
    /// exactly one `<|endoftext|>`.
    pub fn open(directory: &Directory) -> Result<Self, Error> {
        let (file, json) = if directory.has("tokenizer.json") {
            ("tokenizer.json", directory.text("tokenizer.json")?)
        } else if directory.has("vocab.json") && directory.has("merges.txt") {
            ("vocab.json", assemble(directory)?.to_string())
        } else {
            let alternatives = ", and so are `vocab.json` and `merges.txt`".to_owned();
            return Err(Error::MissingFile {
                path: directory.path("tokenizer.json"),
                alternatives,
            });
        };
        let bad = |reason: String| Error::BadTokenizer { path: directory.path(file), reason };
        let mut inner = Tokenizer::from_bytes(json).map_err(|error| bad(error.to_string()))?;
        // The file may ask for cutting and padding of its own; lengths are the caller's business.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|error| bad(error.to_string()))?;

        let end_of_text = inner
            .token_to_id(END_OF_TEXT)
            .ok_or_else(|| bad(format!("it has no token `{END_OF_TEXT}`")))?;
        let this = Self { inner, end_of_text };
        let empty = this.encode("").map_err(bad)?;
        if empty != [end_of_text] {
            return Err(bad(format!(
                "it turns the empty text into {empty:?} instead of [{end_of_text}] (`{END_OF_TEXT}`)"
            )));
        }
        Ok(this)
    }

    /// The token ids of `text`, `<|endoftext|>` last; cut to `max_tokens`, keeping that one.
    ///
    /// # Panics
    /// If `max_tokens` is 0: there is no place for `<|endoftext|>`.
    ///
    /// # Errors
    /// What the tokenizer says, as text.
    pub fn token_ids(&self, text: &str, max_tokens: usize) -> Result<Vec<u32>, String> {
        assert!(max_tokens > 0, "a limit of 0 tokens leaves no place for `{END_OF_TEXT}`");
        let mut ids = self.encode(text)?;
        if ids.len() > max_tokens {
            ids.truncate(max_tokens - 1);
            ids.push(self.end_of_text);
        }
        Ok(ids)
    }

    /// The id of `<|endoftext|>`, which also pads.
    pub fn end_of_text(&self) -> u32 {
        self.end_of_text
    }

    /// How many ids there are, that is one more than the largest.
    pub fn vocabulary(&self) -> usize {
        self.inner.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1)
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        let encoding = self.inner.encode_fast(text, true).map_err(|error| error.to_string())?;
        Ok(encoding.get_ids().to_vec())
    }
}

/// The tokenizer.json that `vocab.json` and `merges.txt` stand for.
fn assemble(directory: &Directory) -> Result<Value, Error> {
    let bad =
        |file: &str, reason: String| Error::BadTokenizer { path: directory.path(file), reason };
    let vocab: serde_json::Map<String, Value> =
        serde_json::from_str(&directory.text("vocab.json")?)
            .map_err(|error| bad("vocab.json", error.to_string()))?;
    let mut ids: Vec<_> = vocab.values().map(Value::as_u64).collect();
    ids.sort_unstable();
    if ids.iter().zip(0..).any(|(id, expected)| *id != Some(expected)) {
        return Err(bad("vocab.json", "its ids are not 0, 1, 2, ... without gaps".into()));
    }
    let merges = directory.text("merges.txt")?;
    let merges = merges.lines().filter(|line| !line.starts_with("#version") && !line.is_empty());
    let merges = merges
        .map(|line| line.split_once(' ').ok_or_else(|| format!("`{line}` is not a pair")))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|reason| bad("merges.txt", reason))?;

    let first = vocab.len();
    let added = ADDED.iter().zip(first..).map(|(&(content, special), id)| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": special})
    });
    let added: Vec<Value> = added.collect();
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let end = |type_id: u8| json!({"SpecialToken": {"id": END_OF_TEXT, "type_id": type_id}});
    let sequence = |id: &str, type_id: u8| json!({"Sequence": {"id": id, "type_id": type_id}});
    Ok(json!({
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": false},
            byte_level,
        ]},
        "post_processor": {"type": "Sequence", "processors": [
            byte_level,
            {
                "type": "TemplateProcessing",
                "single": [sequence("A", 0), end(0)],
                "pair": [sequence("A", 0), end(0), sequence("B", 1), end(1)],
                "special_tokens": {
                    (END_OF_TEXT): {"id": END_OF_TEXT, "ids": [first], "tokens": [END_OF_TEXT]},
                },
            },
        ]},
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": false,
            "vocab": vocab,
            "merges": merges,
        },
    }))
}

#[cfg(test)]
mod tests;
