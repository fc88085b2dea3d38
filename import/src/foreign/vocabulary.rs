//! Checks whether a tokenizer belongs to a network, by the number of its tokens.
//!
//! | network | rows of its table |
//! |---|---|
//! | text encoder | base vocabulary, 26 added tokens |
//! | language model | the same, plus one for each audio code |
//!
//! A table may have more rows than tokens, because its size is rounded up.

use std::collections::HashMap;

use serde::Deserialize;

use crate::{
    families::acestep::Kind,
    tokenizer::ADDED_TOKENS,
    tokenizer::{AUDIO_CODE_0, AUDIO_CODES},
};

/// More rows than any padding of a table, and no more than the codes of any model.
const PADDING: usize = 512;

/// Reason why a tokenizer does not belong to a network.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// All rows of the table are text tokens: it is the text encoder's, not a language model's.
    NoCodes,
    /// Another reason.
    Because(String),
}

impl From<String> for Unfit {
    fn from(reason: String) -> Self {
        Self::Because(reason)
    }
}

impl Unfit {
    pub(super) fn reason(self) -> String {
        match self {
            Self::NoCodes => "its tokens fill the table, and leave no row for audio codes".into(),
            Self::Because(reason) => reason,
        }
    }
}

/// Checks vocab.json and merges.txt, which list the base vocabulary, for a network of `kind` with
/// `rows` rows in its table.
pub(super) fn check_pair(
    (kind, rows): (Kind, usize),
    vocabulary: &str,
    merges: &str,
) -> Result<(), Unfit> {
    let ids: HashMap<String, usize> =
        serde_json::from_str(vocabulary).map_err(|error| format!("vocab.json: {error}"))?;
    if ids.values().any(|&id| id >= ids.len()) {
        return Err(format!("its {} tokens have ids beyond that number", ids.len()).into());
    }
    let pairs = merges.lines().filter(|line| !line.is_empty() && !line.starts_with("#version"));
    for line in pairs {
        let known = line.split_once(' ').is_some_and(|(first, second)| {
            [first, second, &format!("{first}{second}")]
                .iter()
                .all(|token| ids.contains_key(*token))
        });
        if !known {
            return Err(format!("`{line}` of merges.txt is not in vocab.json").into());
        }
    }
    let tokens = ids.len() + ADDED_TOKENS;
    let what = || format!("{} tokens and {ADDED_TOKENS} added ones", ids.len());
    match (kind, rows.checked_sub(tokens)) {
        (_, None) => Err(too_many(what(), rows)),
        (Kind::LanguageModel, Some(left)) if left < PADDING => Err(Unfit::NoCodes),
        (Kind::LanguageModel, Some(left)) if left < AUDIO_CODES + PADDING => Ok(()),
        (Kind::LanguageModel, Some(left)) => Err(too_few(
            format!("{} and {AUDIO_CODES} audio codes", what()),
            rows,
            left - AUDIO_CODES,
        )),
        (_, Some(left)) if left < PADDING => Ok(()),
        (_, Some(left)) => Err(too_few(what(), rows, left)),
    }
}

/// The ids of a tokenizer.json.
#[derive(Deserialize)]
struct File {
    model: Model,
    #[serde(default)]
    added_tokens: Vec<Added>,
}

#[derive(Deserialize)]
struct Model {
    vocab: HashMap<String, usize>,
}

#[derive(Deserialize)]
struct Added {
    id: usize,
    content: String,
}

/// Checks a tokenizer.json in the same way.
pub(super) fn check_whole((kind, rows): (Kind, usize), text: &str) -> Result<(), Unfit> {
    let File { model, added_tokens } =
        serde_json::from_str(text).map_err(|error| Unfit::Because(error.to_string()))?;
    let has_codes = added_tokens.iter().any(|token| token.content == AUDIO_CODE_0)
        || model.vocab.contains_key(AUDIO_CODE_0);
    match (has_codes, kind) {
        (true, Kind::TextEncoder) => {
            return Err("it has audio codes: it is a language model's".to_owned().into());
        }
        (false, Kind::LanguageModel) => {
            return Err("it has no audio codes: it is the text encoder's".to_owned().into());
        }
        _ => (),
    }
    let ids = added_tokens.iter().map(|token| token.id).chain(model.vocab.into_values());
    let ids = ids.max().map_or(0, |last| last.saturating_add(1));
    match rows.checked_sub(ids) {
        None => Err(too_many(format!("{ids} tokens"), rows)),
        Some(left) if left < PADDING => Ok(()),
        Some(left) => Err(too_few(format!("{ids} tokens"), rows, left)),
    }
}

fn too_many(what: String, rows: usize) -> Unfit {
    format!("its {what} are more than the {rows} rows of the network's table").into()
}

fn too_few(what: String, rows: usize, left: usize) -> Unfit {
    format!("its {what} leave {left} of the {rows} rows of the network's table without one").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a vocabulary of `count` tokens, and merges of its first three.
    fn pair(count: usize) -> (String, String) {
        let tokens = ["a", "b", "ab"].map(str::to_owned).into_iter();
        let tokens = tokens.chain((3..count).map(|id| format!("t{id}")));
        let ids: HashMap<String, usize> = tokens.zip(0..).collect();
        (serde_json::to_string(&ids).expect("JSON"), "#version: 0.2\na b\n".to_owned())
    }

    #[test]
    fn a_pair_fits_a_table_of_its_tokens_and_the_added_ones() {
        let (vocabulary, merges) = pair(1000);
        let check = |kind, rows| check_pair((kind, rows), &vocabulary, &merges);
        let text = |rows| check(Kind::TextEncoder, rows);
        assert_eq!(text(1026), Ok(()));
        assert_eq!(text(1026 + 511), Ok(()), "filled up");
        for (rows, says) in [(1025, "are more than the 1025 rows"), (1538, "leave 512 of the 1538")]
        {
            let reason = text(rows).expect_err(says).reason();
            assert!(reason.contains(says), "{reason}");
        }
        let language = |rows| check(Kind::LanguageModel, rows);
        assert_eq!(language(1026 + 512), Ok(()));
        assert_eq!(language(1026 + AUDIO_CODES), Ok(()));
        assert_eq!(language(1026), Err(Unfit::NoCodes));
        let reason = language(1026 + AUDIO_CODES + 512).expect_err("too few").reason();
        assert!(reason.contains("leave 512 of"), "{reason}");
    }

    #[test]
    fn halves_of_two_vocabularies_are_no_pair() {
        let (vocabulary, _) = pair(1000);
        let reason = check_pair((Kind::TextEncoder, 1026), &vocabulary, "a c\n");
        let reason = reason.expect_err("other merges").reason();
        assert_eq!(reason, "`a c` of merges.txt is not in vocab.json");
        let check = check_pair((Kind::TextEncoder, 1026), "[]", "");
        assert!(check.expect_err("no map").reason().starts_with("vocab.json: invalid type"));
    }

    #[test]
    fn a_whole_tokenizer_is_of_its_kind_and_number() {
        let file = |added: &str, id: usize| {
            format!(
                r#"{{"model":{{"vocab":{{"a":0}}}},"added_tokens":[{{"id":{id},"content":"{added}"}}]}}"#
            )
        };
        let check = |kind, rows, text: &str| {
            check_whole((kind, rows), text).map_err(Unfit::reason).err().unwrap_or_default()
        };
        assert_eq!(check(Kind::TextEncoder, 700, &file("<|endoftext|>", 500)), "");
        assert_eq!(check(Kind::LanguageModel, 700, &file(AUDIO_CODE_0, 500)), "");
        for (kind, rows, added, says) in [
            (Kind::TextEncoder, 500, "<|endoftext|>", "its 501 tokens are more than the 500 rows"),
            (Kind::TextEncoder, 2000, "<|endoftext|>", "its 501 tokens leave 1499 of the 2000"),
            (Kind::TextEncoder, 700, AUDIO_CODE_0, "it is a language model's"),
            (Kind::LanguageModel, 700, "<|endoftext|>", "it is the text encoder's"),
        ] {
            let reason = check(kind, rows, &file(added, 500));
            assert!(reason.contains(says), "{reason}");
        }
    }
}
