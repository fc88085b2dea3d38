//! The text of a file with everything: vocabularies and dictionaries.
//!
//! The tokens of all tokenizers stand in one list, in the order of their ids. A dictionary is what the
//! reference made of its file, with the first pronunciation of each word. So the vocabulary does not
//! follow from the dictionary here, as it does in an archive.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use super::{Parsed, put};
use crate::foreign::gguf::{Value, values::Values};

/// The class of the tokenizers of bytes. Their tokens are not texts: one is the end of a line.
const BYTES: &str = "AutoTokenizer";

/// The class of the tokenizer of Mandarin, without its module.
const MANDARIN: &str = "ChinesePhonemesTokenizer";

/// The name under which the tokens of a tokenizer are found.
fn vocabulary(tokenizer: &str) -> String {
    format!("{tokenizer}.tokens")
}

/// Returns the class of a tokenizer with its module.
fn class<'a>(values: &'a Values<'_>, tokenizer: &str) -> Parsed<&'a str> {
    values.text(&format!("tokenizer.{tokenizer}.target"))
}

/// Returns the tokens of each tokenizer but those of bytes, one a line, by [`vocabulary`].
pub(super) fn vocabularies(values: &Values<'_>) -> Parsed<BTreeMap<String, Vec<u8>>> {
    let names = values.texts("tokenizer.names")?;
    let (sizes, offsets) =
        (values.numbers("tokenizer.sizes")?, values.numbers("tokenizer.offsets")?);
    let tokens = values.texts("tokenizer.tokens")?;
    let rows = size(values, "text.vocab_size")?;
    let total = sizes.iter().fold(0_u64, |sum, &size| sum.saturating_add(size));
    let fits = sizes.len() == names.len() && offsets.len() == names.len();
    if !fits || total.checked_add(2) != Some(rows) || tokens.len() as u64 != total {
        let each: Vec<_> =
            names.iter().zip(sizes).map(|(name, size)| format!("{name} {size}")).collect();
        return Err(format!(
            "its text table has {rows} rows, but the tokenizers have {total} ids and two more, and \
             its list has {} tokens: {}",
            tokens.len(),
            each.join(", ")
        ));
    }
    let mut vocabularies = BTreeMap::new();
    let mut first = 0;
    for ((name, size), offset) in names.iter().zip(sizes).zip(offsets) {
        if *offset != first {
            return Err(format!("the ids of `{name}` begin at {offset}, not at {first}"));
        }
        // Sizes sum to the length of the list.
        let own = &tokens[first as usize..(first + size) as usize];
        first += size;
        if class(values, name)? == BYTES {
            continue;
        }
        if let Some(token) = own.iter().find(|token| token.contains('\n')) {
            return Err(format!("`{name}` has the token {token:?}, which is two lines"));
        }
        vocabularies.insert(vocabulary(name), own.join("\n").into_bytes());
    }
    Ok(vocabularies)
}

/// Returns a number that is not negative.
pub(super) fn size(values: &Values<'_>, key: &str) -> Parsed<u64> {
    values.number(key)?.as_u64().ok_or_else(|| format!("`{key}` is negative"))
}

/// Returns the tokenizers as in a released configuration, with the sizes that the file names.
pub(super) fn tokenizers(values: &Values<'_>) -> Parsed<Map<String, Json>> {
    let names = values.texts("tokenizer.names")?;
    let mut tokenizers = Map::new();
    for name in names {
        let get = |key: &str| json_of(values.get(&format!("tokenizer.{name}.{key}"))?);
        let mut block = Map::new();
        let class = class(values, name)?;
        put(&mut block, "_target_", class);
        if class != BYTES {
            put(&mut block, "vocabulary", format!("nemo:{}", vocabulary(name)));
        }
        let own = "punct apostrophe pad_with_space locale locale_specific_punct charset_version \
                   pretrained_model";
        let own = own.split_whitespace();
        block.extend(own.filter_map(|key| Some((key.to_owned(), get(key)?))));
        let mut g2p = Map::new();
        let own = "use_chars use_stresses locale grapheme_case grapheme_prefix tone_prefix \
                   phoneme_prefix phoneme_case ascii_letter_prefix ascii_letter_case";
        let own = own.split_whitespace();
        g2p.extend(own.filter_map(|key| Some((key.to_owned(), get(&format!("g2p.{key}"))?))));
        if class.ends_with(MANDARIN) {
            // Not in the file. The release has it.
            put(&mut g2p, "word_segmenter", "jieba");
        }
        if let Some(class) = get("g2p.class") {
            put(&mut g2p, "_target_", class);
        }
        let entries = |kind: &str| values.get(&format!("tokenizer.g2p.{name}.{kind}")).is_some();
        if entries("entries") {
            put(&mut g2p, "parsed_phoneme_dict", format!("nemo:g2p.{name}.dict"));
        }
        if entries("heteronym_entries") {
            put(&mut g2p, "heteronyms", format!("nemo:g2p.{name}.heteronyms"));
        }
        if !g2p.is_empty() {
            put(&mut block, "g2p", g2p);
        }
        put(&mut tokenizers, name, block);
    }
    Ok(tokenizers)
}

fn json_of(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Unsigned(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Bool(flag) => (*flag).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Texts(_) | Value::Numbers(_) | Value::Other => return None,
    })
}

/// Returns the tokenizer of each language.
pub(super) fn languages(values: &Values<'_>) -> Parsed<Map<String, Json>> {
    let (keys, tokenizers) = (
        values.texts("tokenizer.language_map.keys")?,
        values.texts("tokenizer.language_map.values")?,
    );
    if keys.len() != tokenizers.len() {
        return Err(format!("it has {} languages, {} tokenizers", keys.len(), tokenizers.len()));
    }
    let mut map = Map::new();
    for (key, tokenizer) in keys.iter().zip(tokenizers) {
        if let Json::Array(list) = map.entry(key.as_str()).or_insert_with(|| json!([])) {
            list.push(tokenizer.as_str().into());
        }
    }
    Ok(map)
}
