//! Modules of the diffusion transformer as adapters call them.
//!
//! | form | who writes it |
//! |---|---|
//! | `base_model.model.layers.0.self_attn.q_proj` | PEFT around the decoder: ACE-Step's own training |
//! | `diffusion_model.`, `transformer.`, `decoder.` or nothing before it | ComfyUI, diffusers, others |
//! | `layers.0.self_attn.to_q`, `to_out.0` | diffusers' names of the attention |
//! | `lycoris_layers_0_self_attn_q_proj` | LyCORIS: ACE-Step's own LoKr training |
//! | `lora_unet_`, `lora_transformer_`, also with `decoder_` after it | kohya's and OneTrainer's way |
//!
//! Names with underscores cannot be taken apart (`self_attn` has one of its own), so they are made
//! from the model's names and looked up.
//!
//! Source: PEFT; ComfyUI `model_lora_keys_unet` for `ACEStep15`; acestep.cpp
//! `src/adapter-merge.h`; diffusers `AceStepTransformer1DModel`.

use std::collections::{BTreeMap, HashMap};

/// What is said of modules in layers behind the last.
pub(super) const LAYERS_BEYOND: &str = "layers that a larger model has";

/// What may stand before a name with dots, several times over and in any order.
const PREFIXES: &[&str] = &[
    "base_model.model.",
    "model.diffusion_model.",
    "diffusion_model.",
    "transformer.",
    "decoder.",
    "dit.",
    "_orig_mod.",
    "module.",
];

/// What may stand before a name with underscores.
const FLAT_PREFIXES: &[&str] = &["lycoris_", "lora_unet_", "lora_transformer_"];

/// (Our name of a part of a module, diffusers').
const DIFFUSERS: &[(&str, &str)] = &[
    ("_attn.q_proj", "_attn.to_q"),
    ("_attn.k_proj", "_attn.to_k"),
    ("_attn.v_proj", "_attn.to_v"),
    ("_attn.o_proj", "_attn.to_out.0"),
    ("_attn.o_proj", "_attn.to_out"),
];

/// The first patch convolution: our path, and what files call it.
const PATCHES: (&str, [&str; 2]) = ("proj_in", ["proj_in.1", "proj_in_conv"]);

/// The weights of a transformer that an adapter may change.
#[derive(Debug)]
pub(super) struct Targets {
    /// Module paths to shapes of their weights.
    shapes: BTreeMap<String, Vec<usize>>,
    /// Every spelling without prefixes to a module path.
    spellings: HashMap<String, String>,
}

impl Targets {
    /// Of the parameters of the transformer, path to shape, those that are matrices, and the
    /// convolution that begins it.
    pub(super) fn new(parameters: impl IntoIterator<Item = (String, Vec<usize>)>) -> Self {
        let mut this = Self { shapes: BTreeMap::new(), spellings: HashMap::new() };
        for (path, shape) in parameters {
            let Some(module) = path.strip_suffix(".weight") else { continue };
            if shape.len() != 2 && module != PATCHES.0 {
                continue;
            }
            let mut names = vec![module.to_owned()];
            for (ours, theirs) in DIFFUSERS.iter().filter(|(ours, _)| module.ends_with(ours)) {
                names.push(module.replace(ours, theirs));
            }
            if module == PATCHES.0 {
                names.extend(PATCHES.1.map(str::to_owned));
            }
            for name in names {
                this.spellings.insert(name.replace('.', "_"), module.to_owned());
                this.spellings.insert(name, module.to_owned());
            }
            this.shapes.insert(module.to_owned(), shape);
        }
        this
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.shapes.len()
    }

    /// The path of the module that an adapter calls `name`, and the shape of its weight.
    pub(super) fn find(&self, name: &str) -> Option<(&str, &[usize])> {
        let bare = without_prefixes(name);
        let flat = FLAT_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
        let flat = flat.map(|name| name.strip_prefix("decoder_").unwrap_or(name));
        let path = self.spellings.get(flat.unwrap_or(bare))?;
        self.shapes.get_key_value(path).map(|(path, shape)| (path.as_str(), shape.as_slice()))
    }

    /// What `name`, which is none of these, seems to belong to.
    pub(super) fn other(&self, name: &str) -> &'static str {
        let bare = without_prefixes(name);
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| bare.starts_with(prefix));
        if starts(&["text_encoder", "lora_te", "lycoris_te", "conditioner.embedders"]) {
            "the text encoder"
        } else if starts(&["model.layers.", "language_model.", "lm_head", "model.embed_tokens"]) {
            "a language model"
        } else if starts(&["encoder.", "lora_unet_encoder_", "lycoris_encoder_"]) {
            "the conditioner"
        } else if starts(&["tokenizer.", "detokenizer."]) {
            "the audio codec"
        } else if starts(&["vae.", "first_stage_model."]) {
            "the VAE"
        } else if bare.contains("transformer_blocks") || bare.contains("speaker_embedder") {
            "ACE-Step 1 or another model"
        } else if self.is_layer_beyond(bare) {
            LAYERS_BEYOND
        } else {
            "no network that is known"
        }
    }

    /// Whether `name` is the layer of a deeper transformer.
    fn is_layer_beyond(&self, name: &str) -> bool {
        let Some((_, rest)) = name.split_once("layers") else { return false };
        let digits = rest.trim_start_matches(['.', '_']);
        let digits = &digits[..digits.len() - digits.trim_start_matches(char::is_numeric).len()];
        let first = |layer: usize| format!("layers.{layer}.");
        digits.parse().is_ok_and(|layer| {
            !self.shapes.keys().any(|path| path.starts_with(&first(layer)))
                && self.shapes.keys().any(|path| path.starts_with(&first(0)))
        })
    }
}

/// `name` without every known prefix.
pub(super) fn without_prefixes(mut name: &str) -> &str {
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        name = rest;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets() -> Targets {
        let shape = |name: &str, shape: &[usize]| (name.to_owned(), shape.to_vec());
        Targets::new([
            shape("layers.0.self_attn.q_proj.weight", &[64, 64]),
            shape("layers.0.self_attn.o_proj.weight", &[64, 64]),
            shape("layers.0.mlp.up_proj.weight", &[96, 64]),
            shape("layers.0.mlp_norm.weight", &[64]),
            shape("layers.0.scale_shift_table", &[1, 6, 64]),
            shape("time_embed.linear_1.weight", &[64, 256]),
            shape("time_embed.linear_1.bias", &[64]),
            shape("proj_in.weight", &[64, 48, 2]),
            shape("proj_out.weight", &[64, 16, 2]),
        ])
    }

    #[test]
    fn every_tools_spelling_finds_the_module() {
        let targets = targets();
        assert_eq!(targets.len(), 5);
        for (name, path) in [
            ("base_model.model.layers.0.self_attn.q_proj", "layers.0.self_attn.q_proj"),
            ("base_model.model.decoder.layers.0.self_attn.q_proj", "layers.0.self_attn.q_proj"),
            ("diffusion_model.layers.0.self_attn.q_proj", "layers.0.self_attn.q_proj"),
            ("diffusion_model.decoder.layers.0.mlp.up_proj", "layers.0.mlp.up_proj"),
            ("transformer.layers.0.self_attn.to_q", "layers.0.self_attn.q_proj"),
            ("layers.0.self_attn.to_out.0", "layers.0.self_attn.o_proj"),
            ("layers.0.self_attn.to_out", "layers.0.self_attn.o_proj"),
            ("layers.0.self_attn.o_proj", "layers.0.self_attn.o_proj"),
            ("lycoris_layers_0_self_attn_q_proj", "layers.0.self_attn.q_proj"),
            ("lycoris_time_embed_linear_1", "time_embed.linear_1"),
            ("lora_unet_layers_0_self_attn_to_out_0", "layers.0.self_attn.o_proj"),
            ("lora_unet_decoder_layers_0_mlp_up_proj", "layers.0.mlp.up_proj"),
            ("lora_transformer_layers_0_self_attn_to_q", "layers.0.self_attn.q_proj"),
            ("decoder.proj_in.1", "proj_in"),
            ("transformer.proj_in_conv", "proj_in"),
        ] {
            assert_eq!(targets.find(name).map(|(path, _)| path), Some(path), "{name}");
        }
        assert_eq!(targets.find("proj_in").expect("there").1, [64, 48, 2]);
    }

    /// PEFT around a causal language model has one `model.` more than around the decoder, and its
    /// layers have the same names.
    #[test]
    fn modules_of_other_networks_are_not_taken_for_ours() {
        let targets = targets();
        for (name, other) in [
            ("base_model.model.model.layers.0.self_attn.q_proj", "a language model"),
            ("text_encoder.layers.0.self_attn.q_proj", "the text encoder"),
            ("lora_te_layers_0_self_attn_q_proj", "the text encoder"),
            ("base_model.model.encoder.lyric_encoder.layers.0.self_attn.q_proj", "the conditioner"),
            ("transformer_blocks.0.attn.to_q", "ACE-Step 1 or another model"),
            ("layers.7.self_attn.q_proj", "layers that a larger model has"),
            ("lycoris_layers_30_mlp_up_proj", "layers that a larger model has"),
            ("layers.0.mlp_norm", "no network that is known"),
            ("proj_out.1", "no network that is known"),
        ] {
            assert_eq!(targets.find(name), None, "{name}");
            assert_eq!(targets.other(name), other, "{name}");
        }
    }
}
