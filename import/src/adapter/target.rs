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
//! Several of the model's modules may be one layer of the adapter's: see [`fused`].
//!
//! Names with underscores cannot be taken apart (`self_attn` has one of its own), so they are made
//! from the model's names and looked up.
//!
//! Source: PEFT; ComfyUI `model_lora_keys_unet` for `ACEStep15`; acestep.cpp
//! `src/adapter-merge.h`; diffusers `AceStepTransformer1DModel`.

use std::collections::{BTreeMap, HashMap};

use super::{fused, module::Parameter};

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
    /// Every spelling without prefixes to the paths of its modules, in the order of their rows: one, but
    /// where a tool has several in one layer. A parameter without a module is taken for one.
    spellings: HashMap<String, Vec<String>>,
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
                this.spell(name, vec![module.to_owned()]);
            }
            this.shapes.insert(path, shape);
        }
        for (name, modules) in fused::layers(&this.shapes) {
            this.spell(name, modules);
        }
        this
    }

    /// Lets `name`, with dots and with underscores, be that of `modules`.
    fn spell(&mut self, name: String, modules: Vec<String>) {
        self.spellings.insert(name.replace('.', "_"), modules.clone());
        self.spellings.insert(name, modules);
    }

    /// How many can be changed by products.
    pub(super) fn matrices(&self) -> usize {
        self.shapes.iter().filter(|(path, shape)| is_matrix(path, shape)).count()
    }

    /// How many there are.
    pub(super) fn all(&self) -> usize {
        self.shapes.len()
    }

    /// The path and the shape of what `parameter` is of the module that an adapter calls `name`: one, or
    /// all that are in one layer of the adapter's, in the order of their rows.
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

    /// True if `name` is that of several modules in one whose rows are in an order that is not known.
    pub(super) fn is_mixed(&self, name: &str) -> bool {
        fused::is_mixed(bare(name), |name| self.spellings.contains_key(name))
    }

    /// Whether `tensor` is called like something of a module of the transformer, or like one of its
    /// parameters.
    pub(super) fn has(&self, tensor: &str) -> bool {
        let mut name = tensor;
        loop {
            if self.modules(name).is_some() {
                return true;
            }
            // What follows the module may be of two parts: `default.weight`.
            match name.rsplit_once('.') {
                Some((shorter, _)) => name = shorter,
                None => return false,
            }
        }
    }

    /// The paths of the modules that an adapter calls `name`.
    fn modules(&self, name: &str) -> Option<&[String]> {
        self.spellings.get(bare(name)).map(Vec::as_slice)
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
        } else if self.modules(name).is_some() {
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

/// `name` without what tools put before it, with dots or with underscores.
fn bare(name: &str) -> &str {
    let flat = FLAT_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
    match flat {
        Some(name) => name.strip_prefix("decoder_").unwrap_or(name),
        None => without_prefixes(name),
    }
}

/// `name` without every known prefix.
pub(super) fn without_prefixes(mut name: &str) -> &str {
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        name = rest;
    }
    name
}
