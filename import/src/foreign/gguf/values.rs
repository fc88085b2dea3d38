//! Values of a header under one prefix, as the values of a configuration.

use serde_json::{Map, Value as Json, json};

use super::{Header, Value};

pub(super) fn constants(object: Json) -> Map<String, Json> {
    match object {
        Json::Object(map) => map,
        _ => Map::new(),
    }
}

/// The values of a header whose keys begin with a prefix and a dot.
pub(super) struct Values<'a> {
    pub(super) header: &'a Header,
    pub(super) prefix: &'static str,
}

impl Values<'_> {
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.header.values.get(&format!("{}.{key}", self.prefix))
    }

    /// Returns the reason why the value at `key` cannot be used.
    fn lacks(&self, key: &str, kind: &str) -> String {
        format!("it has no {kind} `{}.{key}`", self.prefix)
    }

    pub(super) fn number(&self, key: &str) -> Result<Json, String> {
        match self.get(key) {
            Some(Value::Unsigned(number)) => Ok((*number).into()),
            _ => Err(self.lacks(key, "whole number")),
        }
    }

    pub(super) fn float(&self, key: &str) -> Result<Json, String> {
        match self.get(key) {
            Some(Value::Float(number)) => Ok((*number).into()),
            Some(Value::Unsigned(number)) => Ok((*number).into()),
            _ => Err(self.lacks(key, "number")),
        }
    }

    pub(super) fn flag(&self, key: &str) -> Result<Json, String> {
        match self.get(key) {
            Some(Value::Bool(flag)) => Ok((*flag).into()),
            _ => Err(self.lacks(key, "flag")),
        }
    }

    pub(super) fn text(&self, key: &str) -> Result<&str, String> {
        match self.get(key) {
            Some(Value::Text(text)) => Ok(text),
            _ => Err(self.lacks(key, "text")),
        }
    }

    pub(super) fn numbers(&self, key: &str) -> Result<&[u64], String> {
        match self.get(key) {
            Some(Value::Numbers(numbers)) => Ok(numbers),
            _ => Err(self.lacks(key, "list of whole numbers")),
        }
    }

    pub(super) fn texts(&self, key: &str) -> Result<&[String], String> {
        match self.get(key) {
            Some(Value::Texts(texts)) => Ok(texts),
            _ => Err(self.lacks(key, "list of texts")),
        }
    }

    /// Returns the keys of `part`, which have the names of config.json; each text is names with spaces
    /// between.
    pub(super) fn part(
        &self,
        part: &str,
        numbers: &str,
        floats: &str,
        lists: &str,
    ) -> Result<Map<String, Json>, String> {
        let mut config = Map::new();
        for key in numbers.split_whitespace() {
            config.insert(key.into(), self.number(&format!("{part}.{key}"))?);
        }
        for key in floats.split_whitespace() {
            config.insert(key.into(), self.float(&format!("{part}.{key}"))?);
        }
        for key in lists.split_whitespace() {
            config.insert(key.into(), self.numbers(&format!("{part}.{key}"))?.into());
        }
        Ok(config)
    }

    /// Returns the keys of the layers of `part`.
    pub(super) fn layers(&self, part: &str) -> Result<Map<String, Json>, String> {
        let mut config = constants(json!({ "attention_bias": false, "hidden_act": "silu" }));
        for (key, from) in [
            ("hidden_size", "embedding_length"),
            ("intermediate_size", "feed_forward_length"),
            ("num_hidden_layers", "block_count"),
            ("num_attention_heads", "attention.head_count"),
            ("num_key_value_heads", "attention.head_count_kv"),
            ("head_dim", "attention.key_length"),
        ] {
            config.insert(key.into(), self.number(&format!("{part}.{from}"))?);
        }
        for (key, from) in
            [("rope_theta", "rope.freq_base"), ("rms_norm_eps", "attention.layer_norm_rms_epsilon")]
        {
            config.insert(key.into(), self.float(&format!("{part}.{from}"))?);
        }
        Ok(config)
    }

    /// Returns the map from the list `stem` with `_names` to the `list` of the same length, which is called
    /// `ending` after `stem`. An error about the names comes first.
    fn pairs<T>(
        &self,
        stem: &str,
        ending: &str,
        list: Result<&[T], String>,
        value: impl Fn(&T) -> Json,
    ) -> Result<Map<String, Json>, String> {
        let (prefix, names) = (self.prefix, self.texts(&format!("{stem}_names"))?);
        let list = list?;
        let (count, others) = (names.len(), list.len());
        if count != others {
            return Err(format!(
                "`{prefix}.{stem}_names` has {count} names, but `{prefix}.{stem}_{ending}` has \
                 {others} {ending}"
            ));
        }
        Ok(names.iter().cloned().zip(list.iter().map(value)).collect())
    }

    /// Returns the map of two lists: `stem` with `_names` and with `_ids`.
    pub(super) fn table(&self, stem: &str) -> Result<Map<String, Json>, String> {
        self.pairs(stem, "ids", self.numbers(&format!("{stem}_ids")), |&id| id.into())
    }

    /// Returns the dialect of each named speaker; an empty text is none.
    pub(super) fn dialects(&self) -> Result<Map<String, Json>, String> {
        let stem = "codec.speaker";
        let dialects = self.texts(&format!("{stem}_dialects"));
        self.pairs(stem, "dialects", dialects, |name| match name.as_str() {
            "" => false.into(),
            name => name.into(),
        })
    }
}
