//! The tokenizer of a talker's file.
//!
//! | key | value |
//! |---|---|
//! | `tokenizer.ggml.tokens` | the base vocabulary, then the added tokens, by id |
//! | `tokenizer.ggml.token_type` | 1: of the base vocabulary; 4: added; 5: an id without a token |
//! | `tokenizer.ggml.merges` | merges.txt without the lines that begin with `#` |
//!
//! The converter takes every line of merges.txt that begins with `#` for a comment. So 96 merges of
//! the released tokenizer are not in the file, such as `# #`. They follow from the vocabulary: the
//! token of each merge has the next id, and its two parts are the result of all merges before it.
//! Without them, `##` would be two tokens here and one in the reference.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::super::{Header, MERGES, TOKENS};

const TYPES: &str = "tokenizer.ggml.token_type";
/// Number of tokens that are one byte.
const BYTES: usize = 256;
/// Types of tokens.
const BASE: u64 = 1;
const ADDED: u64 = 4;
const NONE: u64 = 5;

/// Returns vocab.json, merges.txt and tokenizer_config.json; nothing if the file has no tokenizer.
pub(super) fn texts(header: &Header) -> Result<Vec<(&'static str, String)>, String> {
    let (Some(tokens), Some(merges)) = (header.texts(TOKENS), header.texts(MERGES)) else {
        return Ok(Vec::new());
    };
    let types = header.numbers(TYPES).ok_or_else(|| format!("it has no list `{TYPES}`"))?;
    if types.len() != tokens.len() {
        return Err(format!(
            "`{TOKENS}` has {} tokens, but `{TYPES}` has {} types",
            tokens.len(),
            types.len()
        ));
    }
    let (mut base, mut added, mut ids) = (Vec::new(), Map::new(), Map::new());
    for (id, (token, kind)) in tokens.iter().zip(types).enumerate() {
        match *kind {
            BASE => {
                base.push(token.as_str());
                if ids.insert(token.clone(), id.into()).is_some() {
                    return Err(format!("`{TOKENS}` has `{token}` twice"));
                }
            }
            // The file does not say which of them are special. That only matters where ids become
            // text without special tokens, which no program here does.
            ADDED => drop(added.insert(id.to_string(), json!({"content": token, "special": true}))),
            NONE => (),
            other => return Err(format!("token `{token}` is of type {other}")),
        }
    }
    let merges = restored(&base, merges)?;
    Ok(vec![
        ("vocab.json", Value::Object(ids).to_string()),
        ("merges.txt", merges.join("\n")),
        ("tokenizer_config.json", json!({ "added_tokens_decoder": added }).to_string()),
    ])
}

/// Returns `merges` with those that the converter took for comments; `tokens` is the base vocabulary.
fn restored(tokens: &[&str], merges: &[String]) -> Result<Vec<String>, String> {
    let made = |line: &str| line.split_once(' ').map(|(first, second)| format!("{first}{second}"));
    let ids: HashMap<&str, usize> = tokens.iter().copied().zip(0..).collect();
    let mut left = merges.iter().peekable();
    let mut all = Vec::with_capacity(tokens.len().saturating_sub(BYTES));
    for (id, token) in tokens.iter().enumerate().skip(BYTES) {
        if let Some(line) = left.next_if(|line| made(line).as_deref() == Some(token)) {
            all.push(line.clone());
            continue;
        }
        match &parts(token, id, &ids)[..] {
            [first, second] if first.starts_with('#') => all.push(format!("{first} {second}")),
            _ => return Err(format!("`{MERGES}` has no merge for `{token}`, token {id}")),
        }
    }
    match left.next() {
        None => Ok(all),
        Some(line) => Err(format!("`{line}` of `{MERGES}` makes no token of `{TOKENS}`")),
    }
}

/// Returns the parts of `token` after all merges whose tokens have ids below `id`.
fn parts<'a>(token: &'a str, id: usize, ids: &HashMap<&str, usize>) -> Vec<&'a str> {
    let mut ends: Vec<usize> = token.char_indices().map(|(at, _)| at).collect();
    ends.push(token.len());
    loop {
        let pairs = ends.windows(3).enumerate().filter_map(|(at, ends)| {
            let rank = *ids.get(&token[ends[0]..ends[2]])?;
            (rank < id).then_some((rank, at))
        });
        match pairs.min() {
            Some((_, at)) => drop(ends.remove(at + 1)),
            None => break,
        }
    }
    ends.windows(2).map(|ends| &token[ends[0]..ends[1]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates bytes, then the tokens of `merges`.
    fn vocabulary(merges: &[&str]) -> Vec<String> {
        let byte = |byte: usize| char::from_u32(0x4e00 + byte as u32).unwrap_or('?').to_string();
        let mut tokens: Vec<String> = (0..BYTES).map(byte).collect();
        for (token, letter) in tokens.iter_mut().zip(["#", "a", "i", "n"]) {
            *token = letter.to_owned();
        }
        tokens.extend(merges.iter().map(|line| line.replace(' ', "")));
        tokens
    }

    fn restored_of(all: &[&str], kept: &[&str]) -> Result<Vec<String>, String> {
        let tokens = vocabulary(all);
        let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
        let kept: Vec<String> = kept.iter().map(|&line| line.to_owned()).collect();
        restored(&tokens, &kept)
    }

    #[test]
    fn merges_that_look_like_comments_are_found_from_the_vocabulary() {
        let all = ["# #", "i n", "## ##", "#### #", "# in", "a in"];
        let kept: Vec<&str> = all.iter().copied().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(kept, ["i n", "a in"]);
        assert_eq!(restored_of(&all, &kept).expect("all"), all);
        assert_eq!(restored_of(&all, &all).expect("nothing to add"), all);
    }

    #[test]
    fn other_merges_are_not_invented() {
        let all = ["# #", "i n", "a in"];
        let reason = restored_of(&all, &["i n"]).expect_err("a merge is missing");
        assert!(reason.contains("no merge for `ain`, token 258"), "{reason}");
        let reason = restored_of(&all[..2], &["i n", "n a"]).expect_err("one more");
        assert!(reason.contains("`n a` of `tokenizer.ggml.merges` makes no token"), "{reason}");
    }
}
