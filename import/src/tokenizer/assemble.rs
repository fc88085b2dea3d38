//! Assembles a tokenizer from `vocab.json` and `merges.txt`.
//!
//! These files hold only the base vocabulary. The added tokens follow it in order, and for the
//! language model the audio codes follow them.
//!
//! Source: `tokenizer.json` of Qwen3-Embedding-0.6B and of acestep-5Hz-lm-1.7B.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Value, json};
use tokenizers::{
    AddedToken, DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper,
    Tokenizer,
    models::bpe::{BPE, Merges, Vocab},
};

use super::{END_OF_TEXT, Owner};
use crate::{
    Directory, Error,
    tokenizer::{AUDIO_CODES, audio_code},
};

/// Qwen's pattern to split text before merging; digits are split one by one.
const SPLIT: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The pattern that upstream's `fix_mistral_regex` puts in place of Qwen's: marks belong to words, and a
/// capital letter inside a word begins another.
pub(super) const SPLIT_FIXED: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Qwen3's added tokens in the order of their ids, the first directly after the base vocabulary
/// (151643 in the released one): the special tokens, then the others.
const ADDED: [(&str, bool); 2] = [
    (
        "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|>
        <|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|>
        <|image_pad|> <|video_pad|>",
        true,
    ),
    (
        "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|>
        <|repo_name|> <|file_sep|> <tool_response> </tool_response> <think> </think>",
        false,
    ),
];

/// Number of tokens that are one byte.
const BYTES: usize = 256;

/// Number of added tokens.
pub(crate) const ADDED_TOKENS: usize = 26;

/// Returns the tokenizer of `owner` for `vocab.json` and `merges.txt`.
///
/// The vocabulary does not go through a tokenizer.json: its 300 000 texts would be most of the time.
pub(super) fn tokenizer(directory: &Directory, owner: Owner) -> Result<Tokenizer, Error> {
    let bad = |file: &str, reason: String| owner.error(directory.path(file), reason);
    // Each of the two files keeps one core busy.
    let (vocab, merges) = rayon::join(
        || {
            let text = directory.text("vocab.json")?;
            read_vocab(&text).map_err(|reason| bad("vocab.json", reason))
        },
        || {
            let text = directory.text("merges.txt")?;
            read_merges(&text).map_err(|reason| bad("merges.txt", reason))
        },
    );
    let (vocab, merges) = (vocab?, merges?);

    // Each merge makes one token of two, and the first tokens are the bytes.
    if vocab.len() != BYTES + merges.len() {
        let (own, ids) = (merges.len(), vocab.len());
        let reason =
            format!("it has {own} merges, but the {ids} ids of vocab.json do not fit them");
        return Err(bad("merges.txt", reason));
    }
    let first = vocab.len();
    let codes = match owner {
        Owner::TextEncoder | Owner::Talker { .. } | Owner::Dialogue => 0,
        Owner::LanguageModel { rows } => rows.saturating_sub(first + ADDED_TOKENS).min(AUDIO_CODES),
    };
    let codes = (0..codes).map(|code| (Cow::from(audio_code(code)), false));
    let fixed: Vec<(Cow<'_, str>, bool)> = match owner {
        Owner::Talker { .. } | Owner::Dialogue => listed(directory, first, owner)?,
        _ => {
            let tokens = |(all, is_special): (&'static str, bool)| {
                all.split_whitespace().map(move |token| (Cow::from(token), is_special))
            };
            ADDED.into_iter().flat_map(tokens).collect()
        }
    };
    let added = fixed
        .into_iter()
        .chain(codes)
        .map(|(content, special)| AddedToken::from(content, special).normalized(false));
    let added: Vec<AddedToken> = added.collect();
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let end = |type_id: u8| json!({"SpecialToken": {"id": END_OF_TEXT, "type_id": type_id}});
    let sequence = |id: &str, type_id: u8| json!({"Sequence": {"id": id, "type_id": type_id}});
    let post_processor = match owner {
        Owner::TextEncoder => json!({"type": "Sequence", "processors": [
            byte_level,
            {
                "type": "TemplateProcessing",
                "single": [sequence("A", 0), end(0)],
                "pair": [sequence("A", 0), end(0), sequence("B", 1), end(1)],
                "special_tokens": {
                    (END_OF_TEXT): {"id": END_OF_TEXT, "ids": [first], "tokens": [END_OF_TEXT]},
                },
            },
        ]}),
        Owner::LanguageModel { .. } | Owner::Talker { .. } | Owner::Dialogue => byte_level.clone(),
    };
    let pre_tokenizer = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": false},
        byte_level,
    ]});
    let model = BPE::builder().vocab_and_merges(vocab, merges).build();
    let model = model.map_err(|error| bad("vocab.json", error.to_string()))?;
    let mut tokenizer = Tokenizer::new(model);
    let part = |error: serde_json::Error| bad("vocab.json", error.to_string());
    tokenizer
        .with_normalizer(Some(of_json::<NormalizerWrapper>(json!({"type": "NFC"})).map_err(part)?))
        .with_pre_tokenizer(Some(of_json::<PreTokenizerWrapper>(pre_tokenizer).map_err(part)?))
        .with_post_processor(Some(of_json::<PostProcessorWrapper>(post_processor).map_err(part)?))
        .with_decoder(Some(of_json::<DecoderWrapper>(byte_level).map_err(part)?));
    // Their ids follow those of the vocabulary, in this order.
    tokenizer.add_tokens(&added);
    Ok(tokenizer)
}

/// Reads the texts of tokens and their ids, which have no gaps.
fn read_vocab(text: &str) -> Result<Vocab, String> {
    let vocab: Vocab = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut ids: Vec<u32> = vocab.values().copied().collect();
    ids.sort_unstable();
    match ids.iter().zip(0..).all(|(id, expected)| *id == expected) {
        true => Ok(vocab),
        false => Err("its ids are not 0, 1, 2, ... without gaps".into()),
    }
}

/// Reads pairs of texts that become one token, in order.
fn read_merges(text: &str) -> Result<Merges, String> {
    let lines = text.lines().filter(|line| !line.starts_with("#version") && !line.is_empty());
    let pair = |line: &str| match line.split_once(' ') {
        Some((left, right)) => Ok((left.to_owned(), right.to_owned())),
        None => Err(format!("`{line}` is not a pair")),
    };
    lines.map(pair).collect()
}

fn of_json<T: serde::de::DeserializeOwned>(part: Value) -> serde_json::Result<T> {
    serde_json::from_value(part)
}

/// Returns the added tokens that `tokenizer_config.json` lists, in the order of their ids, which must
/// begin with `first` and have no gaps.
fn listed(
    directory: &Directory,
    first: usize,
    owner: Owner,
) -> Result<Vec<(Cow<'static, str>, bool)>, Error> {
    #[derive(serde::Deserialize)]
    struct Config {
        added_tokens_decoder: BTreeMap<String, Token>,
    }
    #[derive(serde::Deserialize)]
    struct Token {
        content: String,
        special: bool,
    }
    let file = "tokenizer_config.json";
    let bad = |reason: String| owner.error(directory.path(file), reason);
    let config: Config =
        serde_json::from_str(&directory.text(file)?).map_err(|error| bad(error.to_string()))?;
    let mut tokens = BTreeMap::new();
    for (id, token) in config.added_tokens_decoder {
        let number = id.parse::<usize>();
        tokens.insert(number.map_err(|_| bad(format!("`{id}` is not the id of a token")))?, token);
    }
    if tokens.keys().zip(first..).any(|(id, expected)| *id != expected) {
        return Err(bad(format!("the ids of its added tokens are not {first} and the next ones")));
    }
    Ok(tokens.into_values().map(|token| (token.content.into(), token.special)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_added_tokens_has_the_stated_length() {
        let tokens = ADDED.iter().flat_map(|(all, _)| all.split_whitespace());
        assert_eq!(tokens.count(), ADDED_TOKENS);
    }
}
