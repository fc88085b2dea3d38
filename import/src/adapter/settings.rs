//! Settings of an adapter: the scale that it was trained with.
//!
//! A change is `alpha / rank` times a product (`alpha / sqrt(rank)` for rank-stabilised LoRA,
//! arXiv:2312.03732). The rank comes from the tensors. Alpha comes from a tensor of the module,
//! else from PEFT's adapter_config.json, else from the file's metadata; otherwise it is the rank.
//!
//! Source: PEFT `LoraConfig`, `LoraLayer.update_layer`, `get_pattern_key`; diffusers
//! `lora_adapter_metadata`; LyCORIS's and kohya's metadata.

mod number;
mod peft;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, path::Path};

use regex::Regex;
use serde_json::{Map, Value};

use self::number::{find, finite, natural, patterns, whole};
use super::AdapterError;

/// Parsed settings.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    /// PEFT's name of the kind of adapter.
    peft_type: Option<String>,
    alpha: Option<f64>,
    rank: Option<usize>,
    alphas: Vec<(Regex, f64)>,
    ranks: Vec<(Regex, usize)>,
    is_rank_stabilised: bool,
    /// True if the settings declare DoRA.
    pub(super) is_dora: bool,
    /// Rank of LoKr modules whose two factors are both whole matrices.
    lokr_rank: Option<usize>,
    /// Unknown settings with a value that is not empty.
    pub(super) unknown: Vec<String>,
    /// Invalid settings that are not needed, one clause each.
    pub(super) invalid: Vec<String>,
}

/// Scale of one module's product, before the user's scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    pub(super) factor: f64,
    pub(super) alpha: Option<f64>,
}

impl Settings {
    /// Parses PEFT's adapter_config.json at `path`.
    pub(super) fn peft(path: &Path, text: &str) -> Result<Self, AdapterError> {
        let bad = |reason: String| AdapterError::BadSettings { path: path.to_owned(), reason };
        let object: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| bad(format!("not JSON: {error}")))?;
        peft::refuse(path, &object)?;
        let mut this = Self::from_object(&object, "").map_err(bad)?;
        if this.alpha.is_none() {
            return Err(bad("there is no `lora_alpha`".to_owned()));
        }
        this.unknown = peft::unknown(&object);
        Ok(this)
    }

    /// Parses the metadata of the safetensors file at `path`.
    pub(super) fn metadata(
        path: &Path,
        metadata: &BTreeMap<String, String>,
    ) -> Result<Self, AdapterError> {
        let bad = |reason: String| AdapterError::BadSettings { path: path.to_owned(), reason };
        let object = |key: &str| -> Result<Option<Map<String, Value>>, AdapterError> {
            let Some(text) = metadata.get(key) else { return Ok(None) };
            let parsed = serde_json::from_str(text);
            parsed.map(Some).map_err(|error| bad(format!("`{key}` is not JSON: {error}")))
        };
        let mut this = Self::default();
        if let Some(of_diffusers) = object("lora_adapter_metadata")? {
            let prefixed: Map<String, Value> = of_diffusers
                .iter()
                .filter_map(|(key, value)| {
                    Some((key.strip_prefix("transformer.")?.to_owned(), value.clone()))
                })
                .collect();
            // A pipeline saves the settings of each of its networks with a prefix, a single network
            // without.
            let own = if prefixed.is_empty() { of_diffusers } else { prefixed };
            peft::refuse(path, &own)?;
            this = Self::from_object(&own, "`lora_adapter_metadata`: ").map_err(bad)?;
        }
        if let Some(text) = metadata.get("lokr_config") {
            this.read_lokr(text);
        }
        // Written by ComfyUI's trainers and kohya.
        for (alpha, rank) in [("lora_alpha", "lora_rank"), ("ss_network_alpha", "ss_network_dim")] {
            let value = |key: &str| Some(Value::from(metadata.get(key)?.as_str()));
            this.alpha = this.alpha.or(value(alpha).and_then(|value| finite(&value)));
            this.rank = this.rank.or(value(rank).and_then(|value| whole(&value)));
        }
        Ok(this)
    }

    /// Reads LyCORIS's settings of ACE-Step's training. Most files do not need them, so an
    /// unreadable value is not an error.
    fn read_lokr(&mut self, text: &str) {
        match serde_json::from_str::<Map<String, Value>>(text) {
            Ok(of_lycoris) => match of_lycoris.get("linear_dim") {
                None | Some(Value::Null) => (),
                Some(value) => match whole(value) {
                    Some(rank) => self.lokr_rank = Some(rank),
                    None => self
                        .invalid
                        .push(format!("`linear_dim` of `lokr_config` is {value}, no rank")),
                },
            },
            Err(_) => self.invalid.push("`lokr_config` is no object of JSON".to_owned()),
        }
    }

    /// Reads the values of PEFT's settings in `object`.
    fn from_object(object: &Map<String, Value>, of: &str) -> Result<Self, String> {
        let say = |why: String| format!("{of}{why}");
        let alpha = ["lora_alpha", "alpha"].into_iter().find_map(|key| object.get(key));
        let alpha = match alpha.filter(|value| !value.is_null()) {
            Some(value) => Some(finite(value).ok_or_else(|| say(format!("alpha is {value}")))?),
            None => None,
        };
        Ok(Self {
            peft_type: object.get("peft_type").and_then(Value::as_str).map(str::to_owned),
            alpha,
            rank: natural(object, "r").map_err(say)?,
            alphas: patterns(object, "alpha_pattern", finite).map_err(say)?,
            ranks: patterns(object, "rank_pattern", whole).map_err(say)?,
            is_rank_stabilised: object.get("use_rslora") == Some(&Value::Bool(true)),
            is_dora: object.get("use_dora") == Some(&Value::Bool(true)),
            ..Self::default()
        })
    }

    /// Checks that changes of these `kinds` match the kind in the settings, if they name one.
    pub(super) fn check_kind(
        &self,
        mut kinds: impl Iterator<Item = &'static str>,
    ) -> Result<(), String> {
        let Some(said) = &self.peft_type else { return Ok(()) };
        match kinds.find(|kind| !kind.eq_ignore_ascii_case(said)) {
            Some(kind) => {
                Err(format!("`peft_type` is {said}, but its tensors are those of {kind}"))
            }
            None => Ok(()),
        }
    }

    /// Returns the scale of `module`, whose tensors have `rank` and possibly an alpha of their own.
    ///
    /// A LoKr module with two whole factors has no rank. LyCORIS gives it its nominal rank as
    /// alpha, so the quotient is 1 if that rank is not recorded; PEFT uses the nominal rank.
    pub(super) fn scale(
        &self,
        module: &str,
        rank: Option<usize>,
        own_alpha: Option<f64>,
    ) -> Result<Scale, String> {
        if let Some(alpha) = own_alpha {
            let factor = rank.or(self.lokr_rank).map_or(1.0, |rank| alpha / rank as f64);
            return Ok(Scale { factor, alpha: own_alpha });
        }
        let name = super::target::without_prefixes(module);
        let nominal = find(&self.ranks, name).or(self.rank);
        if let (Some(rank), Some(nominal)) = (rank, nominal)
            && rank != nominal
        {
            return Err(format!("its rank is {rank}, but the settings say {nominal}"));
        }
        let alpha = find(&self.alphas, name).or(self.alpha);
        let rank = rank.or(nominal);
        let factor = match (alpha, rank) {
            (Some(alpha), Some(rank)) if self.is_rank_stabilised => alpha / (rank as f64).sqrt(),
            (Some(alpha), Some(rank)) => alpha / rank as f64,
            _ => 1.0,
        };
        Ok(Scale { factor, alpha })
    }
}
