//! Strict parsing that all `config.json` files share.

use serde::{
    Deserialize as _, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::Value;

/// Reasons why a `config.json` cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what most fields hold")]
pub enum ConfigError {
    /// Not JSON, or a key is missing or has the wrong type.
    #[error("it is not valid JSON for this model: {0}")]
    Json(serde_json::Error),
    /// A key that this version does not know; it could change the mathematics.
    #[error("key `{key}` (= {value}) is not known to this version and could change the result")]
    UnknownKey {
        key: String,
        /// Its value as JSON.
        value: String,
    },
    /// A known key asks for something that is not implemented.
    #[error("key `{key}` is {value}: {why}")]
    Unsupported { key: &'static str, value: String, why: &'static str },
}

/// All keys that no field took, in file order.
pub(crate) type Rest = serde_json::Map<String, Value>;

/// Parses `text`. The caller then checks the remaining keys with [`refuse_unknown`].
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    serde_json::from_str(text).map_err(ConfigError::Json)
}

/// Keys that do not affect the computation, with the reason.
pub(crate) type Ignored = [(&'static str, &'static str)];

/// Keys of every transformer that are ignored.
pub(crate) const OF_TRANSFORMERS: &Ignored = &[
    ("architectures", "class names of the reference"),
    ("attention_dropout", "training only"),
    ("dtype", "read from the tensors"),
    ("torch_dtype", "read from the tensors"),
    ("initializer_range", "training only"),
    ("max_position_embeddings", "positions are computed, not stored"),
    ("model_type", "checked by the layout"),
    ("transformers_version", "bookkeeping"),
    ("use_cache", "a cache does not change the result"),
    ("_name_or_path", "bookkeeping"),
];

/// Returns an error for any remaining key that is in none of the lists `ignored`.
pub(crate) fn refuse_unknown(rest: &Rest, ignored: &[&Ignored]) -> Result<(), ConfigError> {
    let is_ignored = |key: &str| ignored.iter().copied().flatten().any(|(name, _)| *name == key);
    match rest.iter().find(|(key, _)| !is_ignored(key)) {
        Some((key, value)) => {
            Err(ConfigError::UnknownKey { key: key.clone(), value: value.to_string() })
        }
        None => Ok(()),
    }
}

/// Returns an error about `value` unless `ok`.
pub(crate) fn require(
    ok: bool,
    key: &'static str,
    value: impl std::fmt::Debug,
    why: &'static str,
) -> Result<(), ConfigError> {
    if ok {
        return Ok(());
    }
    let value = format!("{value:?}");
    // A key that a file may leave out is an `Option`.
    let value = match value.strip_prefix("Some(").and_then(|rest| rest.strip_suffix(')')) {
        Some(own) => own.to_owned(),
        None if value == "None" => "missing".to_owned(),
        None => value,
    };
    Err(ConfigError::Unsupported { key, value, why })
}

/// The number of a key that a file may leave out.
pub(crate) const fn number<const N: usize>() -> usize {
    N
}

/// The flag of a key that a file may leave out.
pub(crate) const fn yes() -> bool {
    true
}

/// The activation of a transformer whose file names none.
pub(crate) fn silu() -> String {
    "silu".into()
}

/// Reads the base of the rotary angles. transformers 5 has an object in its place, `rope_parameters`.
pub(crate) fn rope_theta<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let value = Value::deserialize(from)?;
    let theta = match &value {
        Value::Object(own) => {
            let is_plain = |(key, value): (&String, &Value)| {
                key == "rope_theta" || (key == "rope_type" && value == "default")
            };
            own.iter().all(is_plain).then(|| &value["rope_theta"]).and_then(Value::as_f64)
        }
        other => other.as_f64(),
    };
    theta.ok_or_else(|| D::Error::custom(format!("rotary positions of another kind: {value}")))
}

/// Returns an error for options of a transformer's layers that are not implemented.
pub(crate) fn require_plain(
    attention_bias: bool,
    hidden_act: &str,
    rope_scaling: &Option<Value>,
) -> Result<(), ConfigError> {
    require(!attention_bias, "attention_bias", true, "only projections without bias")?;
    require(hidden_act == "silu", "hidden_act", hidden_act, "only silu")?;
    let is_plain = |scaling: &Value| scaling["rope_type"] == "default";
    let why = "only unscaled positions (null or rope_type default)";
    require(rope_scaling.as_ref().is_none_or(is_plain), "rope_scaling", rope_scaling, why)
}

/// Returns an error unless query heads can share `kv_heads` heads of keys and values.
pub(crate) fn require_groups(heads: usize, kv_heads: usize) -> Result<(), ConfigError> {
    let divides = heads.is_multiple_of(kv_heads);
    require(divides, "num_key_value_heads", kv_heads, "must divide num_attention_heads")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fmt::Debug;

    use super::*;

    /// Asserts that `read` refuses the configuration `text` with each of `changes`, by its key.
    #[track_caller]
    pub(crate) fn assert_refused<T: Debug>(
        read: impl Fn(&str) -> Result<T, ConfigError>,
        text: &str,
        changes: impl IntoIterator<Item = (&'static str, Value)>,
    ) {
        for (key, value) in changes {
            let mut config: Rest = parse(text).expect("a JSON object");
            config.insert(key.into(), value.clone());
            let error = read(&Value::Object(config).to_string()).expect_err(key).to_string();
            assert!(error.starts_with(&format!("key `{key}` ")), "{value}: {error}");
        }
    }

    #[test]
    fn what_the_parser_says_is_in_the_message_and_not_said_again_as_its_source() {
        let error = parse::<Rest>("[]").unwrap_err();
        assert_eq!(
            error.to_string(),
            "it is not valid JSON for this model: invalid type: sequence, expected a map at line 1 \
             column 0"
        );
        assert!(std::error::Error::source(&error).is_none());
    }

    #[test]
    fn a_key_that_is_left_out_is_missing() {
        let message = |value| require(false, "rate", value, "only 2").unwrap_err().to_string();
        assert_eq!(message(None), "key `rate` is missing: only 2");
        assert_eq!(message(Some(3)), "key `rate` is 3: only 2");
    }

    #[test]
    fn a_key_that_is_neither_used_nor_ignored_is_refused_by_name() {
        let rest =
            serde_json::from_str(r#"{"use_cache": true, "logit_softcap": 30}"#).expect("json");
        let error =
            refuse_unknown(&rest, &[&[("use_cache", "inference bookkeeping")]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "key `logit_softcap` (= 30) is not known to this version and could change the result"
        );
    }
}
