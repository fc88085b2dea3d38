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

use super::module::Parameter;

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
    ("_attn.q_norm", "_attn.norm_q"),
    ("_attn.k_norm", "_attn.norm_k"),
];

/// The patch convolutions: our path, and what files call it. Their weights are laid out as matrices
/// of `[first size, all others]`, as ComfyUI does that trains them; no other tool trains the second.
const PATCHES: [(&str, [&str; 2]); 2] =
    [("proj_in", ["proj_in.1", "proj_in_conv"]), ("proj_out", ["proj_out.1", "proj_out_conv"])];

/// The parameters of a transformer, which an adapter may change.
#[derive(Debug)]
pub(super) struct Targets {
    /// Paths to shapes.
    shapes: BTreeMap<String, Vec<usize>>,
    /// Every spelling without prefixes to the path of a module, or of a parameter without one.
    spellings: HashMap<String, String>,
}

impl Targets {
    /// Of the parameters of the transformer, path to shape.
    pub(super) fn new(parameters: impl IntoIterator<Item = (String, Vec<usize>)>) -> Self {
        let mut this = Self { shapes: BTreeMap::new(), spellings: HashMap::new() };
        for (path, shape) in parameters {
            let module = module_of(&path);
            let mut names = vec![module.to_owned()];
            for (ours, theirs) in DIFFUSERS.iter().filter(|(ours, _)| module.ends_with(ours)) {
                names.push(module.replace(ours, theirs));
            }
            if let Some((_, others)) = PATCHES.iter().find(|(ours, _)| *ours == module) {
                names.extend(others.map(str::to_owned));
            }
            for name in names {
                this.spellings.insert(name.replace('.', "_"), module.to_owned());
                this.spellings.insert(name, module.to_owned());
            }
            this.shapes.insert(path, shape);
        }
        this
    }

    /// How many can be changed by products.
    pub(super) fn matrices(&self) -> usize {
        self.shapes.iter().filter(|(path, shape)| is_matrix(path, shape)).count()
    }

    /// How many there are.
    pub(super) fn all(&self) -> usize {
        self.shapes.len()
    }

    /// The path and the shape of what `parameter` is of the module that an adapter calls `name`.
    pub(super) fn find(&self, name: &str, parameter: Parameter) -> Option<(&str, &[usize])> {
        let module = self.module(name)?;
        let get = |path: &str| {
            let (path, shape) = self.shapes.get_key_value(path)?;
            Some((path.as_str(), shape.as_slice()))
        };
        match parameter {
            Parameter::Matrix => {
                get(&format!("{module}.weight")).filter(|(path, shape)| is_matrix(path, shape))
            }
            Parameter::Any => get(&format!("{module}.weight")).or_else(|| get(module)),
            Parameter::Bias => get(&format!("{module}.bias")),
        }
    }

    /// Whether `tensor` is called like something of a module of the transformer, or like one of its
    /// parameters.
    pub(super) fn has(&self, tensor: &str) -> bool {
        let mut name = tensor;
        loop {
            if self.module(name).is_some() {
                return true;
            }
            // What follows the module may be of two parts: `default.weight`.
            match name.rsplit_once('.') {
                Some((shorter, _)) => name = shorter,
                None => return false,
            }
        }
    }

    /// The path of the module that an adapter calls `name`.
    fn module(&self, name: &str) -> Option<&str> {
        let bare = without_prefixes(name);
        let flat = FLAT_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
        let flat = flat.map(|name| name.strip_prefix("decoder_").unwrap_or(name));
        self.spellings.get(flat.unwrap_or(bare)).map(String::as_str)
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
        } else if self.module(name).is_some() {
            // Its parameter is not there, or is no matrix.
            "a network like this one with more parameters"
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

/// The module of the parameter at `path`; one that is of no module is taken for one.
fn module_of(path: &str) -> &str {
    path.strip_suffix(".weight").or_else(|| path.strip_suffix(".bias")).unwrap_or(path)
}

/// Whether the parameter at `path` is a weight that a product can be added to.
fn is_matrix(path: &str, shape: &[usize]) -> bool {
    let module = path.strip_suffix(".weight");
    module.is_some_and(|module| shape.len() == 2 || PATCHES.iter().any(|(ours, _)| *ours == module))
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
            shape("proj_out.bias", &[16]),
        ])
    }

    #[test]
    fn every_tools_spelling_finds_the_module() {
        let targets = targets();
        assert_eq!((targets.matrices(), targets.all()), (6, 10));
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
            ("diffusion_model.decoder.proj_out.1", "proj_out"),
        ] {
            let found = targets.find(name, Parameter::Matrix).map(|(path, _)| path);
            assert_eq!(found, Some(&*format!("{path}.weight")), "{name}");
        }
        assert_eq!(targets.find("proj_in", Parameter::Matrix).expect("there").1, [64, 48, 2]);
    }

    #[test]
    fn a_difference_finds_a_parameter_of_any_shape() {
        use Parameter::{Any, Bias, Matrix};
        let targets = targets();
        for (name, parameter, found) in [
            ("diffusion_model.decoder.layers.0.mlp_norm", Any, Some("layers.0.mlp_norm.weight")),
            ("layers.0.mlp_norm", Matrix, None),
            ("layers.0.mlp_norm", Bias, None),
            ("lycoris_layers_0_mlp_norm", Any, Some("layers.0.mlp_norm.weight")),
            ("diffusion_model.decoder.proj_out.1", Any, Some("proj_out.weight")),
            ("diffusion_model.decoder.proj_out.1", Bias, Some("proj_out.bias")),
            ("decoder.time_embed.linear_1", Bias, Some("time_embed.linear_1.bias")),
            ("layers.0.scale_shift_table", Any, Some("layers.0.scale_shift_table")),
            ("layers.0.scale_shift_table", Bias, None),
            ("encoder.norm", Any, None),
        ] {
            let place = targets.find(name, parameter).map(|(path, _)| path);
            assert_eq!(place, found, "{name} {parameter:?}");
        }
    }

    #[test]
    fn a_tensor_is_the_models_by_its_name() {
        let targets = targets();
        for (tensor, is) in [
            ("base_model.model.layers.0.mlp_norm.weight", true),
            ("base_model.model.proj_out.1.bias", true),
            ("layers.0.scale_shift_table", true),
            ("layers.0.self_attn.q_proj.strange.default", true),
            ("lycoris_layers_0_mlp_up_proj.strange", true),
            ("note", false),
            ("encoder.norm.weight", false),
            ("base_model.model.layers.0", false),
        ] {
            assert_eq!(targets.has(tensor), is, "{tensor}");
        }
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
            ("layers.0.mlp_norm", "a network like this one with more parameters"),
            ("layers.0.mlp_gate", "no network that is known"),
        ] {
            assert_eq!(targets.find(name, Parameter::Matrix), None, "{name}");
            assert_eq!(targets.other(name), other, "{name}");
        }
    }
}
