//! The settings of an adapter: how strongly it was trained to work.
//!
//! A change is `alpha / rank` times a product (`alpha / sqrt(rank)` for rank-stabilised LoRA,
//! arXiv:2312.03732). The rank is that of the tensors; alpha is, in this order, a tensor of the
//! module, PEFT's adapter_config.json, the file's metadata; without any it is the rank.
//!
//! Source: PEFT `LoraConfig`, `LoraLayer.update_layer`, `get_pattern_key`; diffusers
//! `lora_adapter_metadata`; LyCORIS's and kohya's metadata.

use std::{collections::BTreeMap, path::Path};

use regex::Regex;
use serde_json::{Map, Value};

use super::AdapterError;

/// What the settings say.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    /// What PEFT calls the kind of adapter.
    pub(super) peft_type: Option<String>,
    alpha: Option<f64>,
    rank: Option<usize>,
    alphas: Vec<(Regex, f64)>,
    ranks: Vec<(Regex, usize)>,
    is_rank_stabilised: bool,
    /// Whether the weights were given lengths of their own.
    pub(super) is_dora: bool,
    /// The rank of LoKr modules none of whose sides is a product.
    lokr_rank: Option<usize>,
    /// Settings that are not known and say something.
    pub(super) unknown: Vec<String>,
}

/// The scale of one module's product, before the user's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    pub(super) factor: f64,
    pub(super) alpha: Option<f64>,
}

impl Settings {
    /// Of PEFT's adapter_config.json at `path`.
    ///
    /// # Errors
    /// What is malformed, or asks for something that is not built.
    pub(super) fn peft(path: &Path, text: &str) -> Result<Self, AdapterError> {
        let bad = |reason: String| AdapterError::BadSettings { path: path.to_owned(), reason };
        let object: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| bad(format!("not JSON: {error}")))?;
        refuse(path, &object)?;
        let mut this = Self::from_object(&object, "").map_err(bad)?;
        this.peft_type = Some(
            object.get("peft_type").and_then(Value::as_str).unwrap_or("LORA").to_ascii_uppercase(),
        );
        if this.alpha.is_none() {
            return Err(bad("there is no `lora_alpha`".to_owned()));
        }
        this.unknown = object
            .iter()
            .filter(|(key, value)| !KNOWN.contains(&key.as_str()) && !is_nothing(value))
            .map(|(key, _)| key.clone())
            .collect();
        Ok(this)
    }

    /// Of the metadata of the safetensors file at `path`.
    ///
    /// # Errors
    /// As [`Settings::peft`].
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
            // A pipeline saves the settings of each of its networks, a network its own.
            let own = if prefixed.is_empty() { of_diffusers } else { prefixed };
            refuse(path, &own)?;
            this = Self::from_object(&own, "`lora_adapter_metadata`: ").map_err(bad)?;
        }
        if let Some(of_lycoris) = object("lokr_config")? {
            this.lokr_rank = natural(&of_lycoris, "linear_dim").map_err(bad)?;
        }
        // ComfyUI's trainers, kohya.
        for (alpha, rank) in [("lora_alpha", "lora_rank"), ("ss_network_alpha", "ss_network_dim")] {
            let number = |key: &str| metadata.get(key).and_then(|text| text.trim().parse().ok());
            this.alpha = this.alpha.or(number(alpha).filter(|x: &f64| x.is_finite()));
            this.rank = this.rank.or(metadata.get(rank).and_then(|text| text.trim().parse().ok()));
        }
        Ok(this)
    }

    /// The numbers that PEFT's settings of `object` have.
    fn from_object(object: &Map<String, Value>, of: &str) -> Result<Self, String> {
        let say = |why: String| format!("{of}{why}");
        let alpha = ["lora_alpha", "alpha"].into_iter().find_map(|key| object.get(key));
        let alpha = match alpha.filter(|value| !value.is_null()) {
            Some(value) => Some(finite(value).ok_or_else(|| say(format!("alpha is {value}")))?),
            None => None,
        };
        Ok(Self {
            alpha,
            rank: natural(object, "r").map_err(say)?,
            alphas: patterns(object, "alpha_pattern", finite).map_err(say)?,
            ranks: patterns(object, "rank_pattern", whole).map_err(say)?,
            is_rank_stabilised: object.get("use_rslora") == Some(&Value::Bool(true)),
            is_dora: object.get("use_dora") == Some(&Value::Bool(true)),
            ..Self::default()
        })
    }

    /// The scale of `module`, whose tensors have `rank` and, it may be, an alpha of their own.
    ///
    /// A LoKr module without a product has no rank. LyCORIS gives it its nominal rank as alpha, so
    /// that without a note of that rank the quotient is 1; PEFT takes the nominal one.
    ///
    /// # Errors
    /// If the settings speak of another rank than the tensors have.
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

/// PEFT's settings that ask for something that is not built.
fn refuse(path: &Path, object: &Map<String, Value>) -> Result<(), AdapterError> {
    let refuse = |what: String| {
        let path = path.to_owned();
        Err(AdapterError::NotSupported { path, what })
    };
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    if let Some(kind) = text("peft_type")
        && !["LORA", "LOKR", "LOHA"].contains(&kind.to_ascii_uppercase().as_str())
    {
        return refuse(format!("the kind {kind} (`peft_type`)"));
    }
    if let Some(bias) = text("bias").filter(|bias| *bias != "none") {
        return refuse(format!("trained biases (`bias`: {bias})"));
    }
    // These take a part of the weights away before they add theirs, and do not keep what they took.
    if let Some(start) = text("init_lora_weights").filter(|start| !HARMLESS.contains(start)) {
        return refuse(format!(
            "a start that changes the model's own weights (`init_lora_weights`: {start})"
        ));
    }
    for key in REFUSED {
        if let Some(value) = object.get(*key).filter(|value| !is_nothing(value)) {
            return refuse(format!("`{key}`: {value}"));
        }
    }
    Ok(())
}

/// Ways to start the training that leave the model's weights as they are.
const HARMLESS: &[&str] = &["gaussian", "eva", "orthogonal", "true", "false"];

/// PEFT's settings that change what is computed; null, false and empty say nothing.
const REFUSED: &[&str] = &[
    "modules_to_save",
    "fan_in_fan_out",
    "layer_replication",
    "target_parameters",
    "trainable_token_indices",
    "alora_invocation_tokens",
    "lora_bias",
    "use_qalora",
    "use_bdlora",
    "arrow_config",
    "use_effective_conv2d",
];

/// PEFT's settings that are read, or that only the training needs.
const KNOWN: &[&str] = &[
    "alpha",
    "alpha_pattern",
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "corda_config",
    "decompose_both",
    "decompose_factor",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "inference_mode",
    "init_lora_weights",
    "init_weights",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_alpha",
    "lora_dropout",
    "megatron_config",
    "megatron_core",
    "module_dropout",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_dropout",
    "rank_dropout_scale",
    "rank_pattern",
    "revision",
    "runtime_config",
    "tag_position",
    "target_modules",
    "task_type",
    "trigger_word",
    "use_dora",
    "use_rslora",
];

/// Whether `value` says nothing.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

fn finite(value: &Value) -> Option<f64> {
    value.as_f64().filter(|x| x.is_finite())
}

fn whole(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0)
}

fn natural(object: &Map<String, Value>, key: &str) -> Result<Option<usize>, String> {
    match object.get(key).filter(|value| !value.is_null()) {
        Some(value) => {
            whole(value).map(Some).ok_or_else(|| format!("`{key}` is {value}, not a rank"))
        }
        None => Ok(None),
    }
}

/// Patterns of modules and a number for each. PEFT takes the first that is the end of the module's
/// name, from a dot on, as a regular expression.
fn patterns<T>(
    object: &Map<String, Value>,
    key: &str,
    number: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<(Regex, T)>, String> {
    let Some(value) = object.get(key).filter(|value| !is_nothing(value)) else {
        return Ok(vec![]);
    };
    let Some(pairs) = value.as_object() else { return Err(format!("`{key}` is {value}")) };
    let pair = |(pattern, value): (&String, &Value)| {
        let regex = Regex::new(&format!("^(?:.*\\.)?(?:{pattern})$"))
            .map_err(|_| format!("`{key}` has the pattern `{pattern}`, which cannot be read"))?;
        let number = number(value).ok_or_else(|| format!("`{key}` of `{pattern}` is {value}"))?;
        Ok((regex, number))
    };
    pairs.iter().map(pair).collect()
}

fn find<T: Copy>(patterns: &[(Regex, T)], name: &str) -> Option<T> {
    patterns.iter().find(|(regex, _)| regex.is_match(name)).map(|&(_, number)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const Q: &str = "base_model.model.layers.0.self_attn.q_proj";

    fn peft(text: &str) -> Result<Settings, String> {
        Settings::peft(Path::new("adapter_config.json"), text).map_err(|error| error.to_string())
    }

    fn factor(settings: &Settings, module: &str, rank: usize) -> f64 {
        settings.scale(module, Some(rank), None).expect("a scale").factor
    }

    /// PEFT: `scaling = lora_alpha / r`, or `lora_alpha / sqrt(r)`.
    #[test]
    fn the_scale_is_alpha_over_the_rank_or_over_its_root() {
        let plain = peft(r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 6}"#).expect("settings");
        assert_eq!(factor(&plain, Q, 4), 1.5);
        let root = peft(r#"{"r": 4, "lora_alpha": 6, "use_rslora": true}"#).expect("settings");
        assert_eq!(factor(&root, Q, 4), 3.0);
        // An alpha of the module's own goes before them.
        assert_eq!(root.scale(Q, Some(4), Some(2.0)).expect("a scale").factor, 0.5);
        // Nothing is known: alpha is the rank.
        let nothing = Settings::default().scale(Q, Some(4), None).expect("a scale");
        assert_eq!(nothing, Scale { factor: 1.0, alpha: None });
    }

    #[test]
    fn a_pattern_is_the_end_of_a_modules_name_from_a_dot_on() {
        let settings = peft(
            r#"{"r": 4, "lora_alpha": 4, "rank_pattern": {"q_proj": 8, "layers\\.1\\..*": 2},
                "alpha_pattern": {"proj": 1, "self_attn.q_proj": 16}}"#,
        )
        .expect("settings");
        assert_eq!(factor(&settings, Q, 8), 2.0);
        assert_eq!(factor(&settings, "base_model.model.layers.1.mlp.up_proj", 2), 2.0);
        assert_eq!(factor(&settings, "base_model.model.layers.0.mlp.up_proj", 4), 1.0);
        let error = settings.scale(Q, Some(4), None).expect_err("another rank");
        assert_eq!(error, "its rank is 4, but the settings say 8");
    }

    #[test]
    fn what_is_not_built_is_refused_by_name() {
        for (more, says) in [
            (r#""bias": "all""#, "has trained biases (`bias`: all), which"),
            (r#""peft_type": "IA3""#, "has the kind IA3 (`peft_type`)"),
            (r#""modules_to_save": ["proj_out"]"#, "has `modules_to_save`: [\"proj_out\"]"),
            (r#""fan_in_fan_out": true"#, "has `fan_in_fan_out`: true"),
            (r#""init_lora_weights": "pissa_niter_16""#, "(`init_lora_weights`: pissa_niter_16)"),
        ] {
            let error = peft(&format!(r#"{{"r": 4, "lora_alpha": 4, {more}}}"#)).expect_err(more);
            assert!(error.contains(says), "{error}");
        }
        for neutral in [
            r#""bias": "none""#,
            r#""modules_to_save": null"#,
            r#""fan_in_fan_out": false"#,
            r#""init_lora_weights": true"#,
            r#""init_lora_weights": "gaussian""#,
        ] {
            peft(&format!(r#"{{"r": 4, "lora_alpha": 4, {neutral}}}"#)).expect(neutral);
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_and_unknown_ones_kept_for_a_note() {
        for (text, says) in [
            ("{", "not JSON"),
            ("{}", "there is no `lora_alpha`"),
            (r#"{"lora_alpha": "x"}"#, "alpha is \"x\""),
            (r#"{"lora_alpha": 1, "r": 0}"#, "`r` is 0, not a rank"),
            (r#"{"lora_alpha": 1, "alpha_pattern": {"(": 1}}"#, "the pattern `(`"),
        ] {
            let error = peft(text).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
        let settings = peft(r#"{"lora_alpha": 1, "shiny": 3, "new": null}"#).expect("settings");
        assert_eq!(settings.unknown, ["shiny"]);
    }

    #[test]
    fn metadata_of_other_tools_is_read() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Settings::metadata(Path::new("a.safetensors"), &pairs).expect("settings")
        };
        let diffusers = r#"{"transformer.r": 4, "transformer.lora_alpha": 8, "unet.r": 3}"#;
        assert_eq!(factor(&of(&[("lora_adapter_metadata", diffusers)]), Q, 4), 2.0);
        assert_eq!(factor(&of(&[("lora_alpha", "128"), ("lora_rank", "64")]), Q, 64), 2.0);
        assert_eq!(factor(&of(&[("ss_network_alpha", "2.0")]), Q, 4), 0.5);
        let lokr = of(&[("lokr_config", r#"{"linear_dim": 64, "factor": -1}"#)]);
        let scale = |settings: &Settings| settings.scale(Q, None, Some(16.0)).expect("a scale");
        assert_eq!(scale(&lokr).factor, 0.25);
        assert_eq!(scale(&Settings::default()).factor, 1.0);
    }
}
