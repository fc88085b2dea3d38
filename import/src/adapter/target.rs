//! Names that adapters use for the modules of the diffusion transformer.
//!
//! | form | written by |
//! |---|---|
//! | `base_model.model.layers.0.self_attn.q_proj` | PEFT around the decoder: ACE-Step's own training |
//! | `diffusion_model.`, `transformer.`, `decoder.` or nothing before it | ComfyUI, diffusers, others |
//! | `layers.0.self_attn.to_q`, `to_out.0` | diffusers' names in the attention |
//! | `lycoris_layers_0_self_attn_q_proj` | LyCORIS: ACE-Step's own LoKr training |
//! | `lora_unet_`, `lora_transformer_`, also with `decoder_` after it | kohya, OneTrainer |
//!
//! One layer of an adapter may combine several of the model's modules: see [`fused`].
//!
//! Names with underscores cannot be split (`self_attn` contains one itself), so they are built from
//! the model's names and looked up.
//!
//! Source: PEFT; ComfyUI `model_lora_keys_unet` for `ACEStep15`; acestep.cpp
//! `src/adapter-merge.h`; diffusers `AceStepTransformer1DModel`.

use std::collections::{BTreeMap, HashMap};

use super::{fused, module::Parameter};

/// Description of modules in layers after the model's last one.
pub(super) const LAYERS_BEYOND: &str = "layers that a larger model has";

/// Possible prefixes of a name with dots. Several may occur, in any order.
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

/// Possible prefixes of a name with underscores.
const FLAT_PREFIXES: &[&str] = &["lycoris_", "lora_unet_", "lora_transformer_"];

/// (Our name of a part of a module, diffusers' name).
const DIFFUSERS: &[(&str, &str)] = &[
    ("_attn.q_proj", "_attn.to_q"),
    ("_attn.k_proj", "_attn.to_k"),
    ("_attn.v_proj", "_attn.to_v"),
    ("_attn.o_proj", "_attn.to_out.0"),
    ("_attn.o_proj", "_attn.to_out"),
    ("_attn.q_norm", "_attn.norm_q"),
    ("_attn.k_norm", "_attn.norm_k"),
];

/// The patch convolutions: our path, and the names in files. Their weights are flattened to
/// matrices `[first size, all others]`, as ComfyUI does in training. No other tool trains
/// `proj_out`.
const PATCHES: [(&str, [&str; 2]); 2] =
    [("proj_in", ["proj_in.1", "proj_in_conv"]), ("proj_out", ["proj_out.1", "proj_out_conv"])];

/// The parameters of a transformer that an adapter may change.
#[derive(Debug)]
pub(super) struct Targets {
    /// Paths to shapes.
    shapes: BTreeMap<String, Vec<usize>>,
    /// Every spelling without prefixes to the paths of its modules, in the order of their rows.
    /// There is one path, except for fused layers. A parameter without a module counts as one.
    spellings: HashMap<String, Vec<String>>,
}

impl Targets {
    /// Creates the table from the parameters of the transformer (path to shape).
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
                this.spell(name, vec![module.to_owned()]);
            }
            this.shapes.insert(path, shape);
        }
        for (name, modules) in fused::layers(&this.shapes) {
            this.spell(name, modules);
        }
        this
    }

    /// Registers `name`, with dots and with underscores, as a spelling of `modules`.
    fn spell(&mut self, name: String, modules: Vec<String>) {
        self.spellings.insert(name.replace('.', "_"), modules.clone());
        self.spellings.insert(name, modules);
    }

    /// Returns the number of weights that a product can change.
    pub(super) fn matrices(&self) -> usize {
        self.shapes.iter().filter(|(path, shape)| is_matrix(path, shape)).count()
    }

    pub(super) fn all(&self) -> usize {
        self.shapes.len()
    }

    /// Finds `parameter` of the module that an adapter calls `name`. Returns path and shape: one
    /// pair, or several for a fused layer, in the order of their rows.
    pub(super) fn find(&self, name: &str, parameter: Parameter) -> Option<Vec<(&str, &[usize])>> {
        let get = |path: &str| {
            let (path, shape) = self.shapes.get_key_value(path)?;
            Some((path.as_str(), shape.as_slice()))
        };
        let of_module = |module: &String| match parameter {
            Parameter::Matrix => {
                get(&format!("{module}.weight")).filter(|(path, shape)| is_matrix(path, shape))
            }
            Parameter::Any => get(&format!("{module}.weight")).or_else(|| get(module)),
            Parameter::Bias => get(&format!("{module}.bias")),
        };
        self.modules(name)?.iter().map(of_module).collect()
    }

    /// True if `name` is a fused layer whose order of rows is unknown.
    pub(super) fn is_mixed(&self, name: &str) -> bool {
        fused::is_mixed(bare(name), |name| self.spellings.contains_key(name))
    }

    /// True if the name of `tensor` begins with a module or a parameter of the transformer.
    pub(super) fn has(&self, tensor: &str) -> bool {
        let mut name = tensor;
        loop {
            if self.modules(name).is_some() {
                return true;
            }
            // The suffix after the module may have two parts: `default.weight`.
            match name.rsplit_once('.') {
                Some((shorter, _)) => name = shorter,
                None => return false,
            }
        }
    }

    /// Returns the paths of the modules that an adapter calls `name`.
    fn modules(&self, name: &str) -> Option<&[String]> {
        self.spellings.get(bare(name)).map(Vec::as_slice)
    }

    /// Returns the network that the unknown `name` seems to belong to.
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
        } else if self.modules(name).is_some() {
            // The parameter is missing, or is not a matrix.
            "a network like this one with more parameters"
        } else if self.is_layer_beyond(bare) {
            LAYERS_BEYOND
        } else {
            "no network that is known"
        }
    }

    /// True if `name` is a layer of a deeper transformer.
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

/// Returns the module of the parameter at `path`. A parameter without a module counts as one.
fn module_of(path: &str) -> &str {
    path.strip_suffix(".weight").or_else(|| path.strip_suffix(".bias")).unwrap_or(path)
}

/// True if the parameter at `path` is a weight that a product can change.
fn is_matrix(path: &str, shape: &[usize]) -> bool {
    let module = path.strip_suffix(".weight");
    module.is_some_and(|module| shape.len() == 2 || PATCHES.iter().any(|(ours, _)| *ours == module))
}

/// Returns `name` without the prefixes of tools, with dots or with underscores.
fn bare(name: &str) -> &str {
    let flat = FLAT_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
    match flat {
        Some(name) => name.strip_prefix("decoder_").unwrap_or(name),
        None => without_prefixes(name),
    }
}

/// Returns `name` without every known prefix.
pub(super) fn without_prefixes(mut name: &str) -> &str {
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        name = rest;
    }
    name
}
