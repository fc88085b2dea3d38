//! Strict parsing that all `config.json` files share.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reasons why a `config.json` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not JSON, or a key is missing or has the wrong type.
    #[error("it is not valid JSON for this model: {0}")]
    Json(serde_json::Error),
    /// A key that this version does not know; it could change the mathematics.
    #[error("key `{key}` (= {value}) is not known to this version and could change the result")]
    UnknownKey {
        /// The key.
        key: String,
        /// Its value as JSON.
        value: String,
    },
    /// A known key asks for something that is not implemented.
    #[error("key `{key}` is {value}: {why}")]
    Unsupported {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// The supported values.
        why: &'static str,
    },
}

/// All keys that no field took, in file order.
pub(crate) type Rest = serde_json::Map<String, Value>;

/// Parses `text`. The caller then checks the remaining keys with [`refuse_unknown`].
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    serde_json::from_str(text).map_err(ConfigError::Json)
}

/// Returns an error for any remaining key that is not in `ignored`, a list of (key, reason).
pub(crate) fn refuse_unknown(rest: &Rest, ignored: &[(&str, &str)]) -> Result<(), ConfigError> {
    match rest.iter().find(|(key, _)| !ignored.iter().any(|(name, _)| name == key)) {
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
        Ok(())
    } else {
        Err(ConfigError::Unsupported { key, value: format!("{value:?}"), why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_key_that_is_neither_used_nor_ignored_is_refused_by_name() {
        let rest =
            serde_json::from_str(r#"{"use_cache": true, "logit_softcap": 30}"#).expect("json");
        let error = refuse_unknown(&rest, &[("use_cache", "inference bookkeeping")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "key `logit_softcap` (= 30) is not known to this version and could change the result"
        );
    }
}
