//! Mapping between the tensors of a checkpoint and the networks.
//!
//! A parameter's path in its module is the tensor's name without the prefix of its network.
//! [`Part::renamed`] lists the exceptions.
//!
//! | part | file | tensors |
//! |---|---|---|
//! | text encoder | Qwen3-Embedding-0.6B | all, with or without `model.` |
//! | conditioner | acestep-v15-* | `encoder.*`, `null_condition_emb` |
//! | audio codec | acestep-v15-* | `tokenizer.*`, `detokenizer.*` |
//! | diffusion transformer | acestep-v15-* | `decoder.*` |
//! | VAE decoder | vae | `decoder.*` |
//! | VAE encoder | vae | `encoder.*` |
//! | language model | acestep-5Hz-lm-* | all, with or without `model.`, and `lm_head.*` |

use std::fmt;

/// A network that is loaded as a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// Encodes caption and metadata to hidden states.
    TextEncoder,
    /// Encodes text, lyrics and timbre to one condition.
    Conditioner,
    /// Encodes latents to audio codes, and back.
    AudioCodec,
    /// The diffusion transformer.
    Dit,
    /// Decodes latents to sound.
    VaeDecoder,
    /// Encodes sound to latents.
    VaeEncoder,
    /// Writes metadata, lyrics and audio codes from a caption.
    LanguageModel,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Part {
    /// The parts of a model, in the order of their use. The language model is not included: it runs
    /// first, has its own directory, and is optional.
    pub const ALL: [Self; 6] = [
        Self::TextEncoder,
        Self::Conditioner,
        Self::AudioCodec,
        Self::Dit,
        Self::VaeDecoder,
        Self::VaeEncoder,
    ];

    /// The parts in the file of the diffusion transformer.
    pub(crate) const OF_DIT_FILE: [Self; 3] = [Self::Conditioner, Self::AudioCodec, Self::Dit];
    /// The parts in the file of the autoencoder.
    pub(crate) const OF_VAE_FILE: [Self; 2] = [Self::VaeDecoder, Self::VaeEncoder];

    /// Returns the name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::TextEncoder => "text encoder",
            Self::Conditioner => "conditioner",
            Self::AudioCodec => "audio codec",
            Self::Dit => "diffusion transformer",
            Self::VaeDecoder => "VAE decoder",
            Self::VaeEncoder => "VAE encoder",
            Self::LanguageModel => "language model",
        }
    }

    /// Returns the path of tensor `name` in this part's module; `None` if it belongs to another
    /// part.
    pub(crate) fn path_of(self, name: &str) -> Option<String> {
        let path = match self {
            Self::TextEncoder => name.strip_prefix("model.").unwrap_or(name),
            Self::Conditioner => {
                (name.starts_with("encoder.") || name == "null_condition_emb").then_some(name)?
            }
            Self::AudioCodec => (name.starts_with("tokenizer.")
                || name.starts_with("detokenizer."))
            .then_some(name)?,
            Self::Dit | Self::VaeDecoder => name.strip_prefix("decoder.")?,
            Self::VaeEncoder => name.strip_prefix("encoder.")?,
            // The head is beside the trunk; some files store the trunk without its prefix.
            Self::LanguageModel if name.starts_with("model.") || name.starts_with("lm_head.") => {
                name
            }
            Self::LanguageModel => return Some(format!("model.{name}")),
        };
        let renamed = self
            .renamed()
            .iter()
            .find_map(|(file, module)| Some(format!("{module}{}", path.strip_prefix(file)?)));
        Some(renamed.unwrap_or_else(|| path.to_owned()))
    }

    /// Returns the name in the file of the parameter at `path` of this part's module: without
    /// `model.` for the text encoder, with it for the language model.
    pub fn name_of(self, path: &str) -> String {
        let renamed = self
            .renamed()
            .iter()
            .find_map(|(file, module)| Some(format!("{file}{}", path.strip_prefix(module)?)));
        let name = renamed.unwrap_or_else(|| path.to_owned());
        match self {
            Self::TextEncoder | Self::Conditioner | Self::AudioCodec | Self::LanguageModel => name,
            Self::Dit | Self::VaeDecoder => format!("decoder.{name}"),
            Self::VaeEncoder => format!("encoder.{name}"),
        }
    }

    /// Returns pairs of (prefix in the file, prefix in the module). In PyTorch the patch
    /// convolutions are second in a `Sequential` whose other members have no parameters.
    fn renamed(self) -> &'static [(&'static str, &'static str)] {
        // ANCHOR: renamed
        match self {
            Self::Dit => &[("proj_in.1.", "proj_in."), ("proj_out.1.", "proj_out.")],
            Self::TextEncoder
            | Self::Conditioner
            | Self::AudioCodec
            | Self::VaeDecoder
            | Self::VaeEncoder
            | Self::LanguageModel => &[],
        }
        // ANCHOR_END: renamed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tensor_of_the_dit_file_has_exactly_one_part() {
        for (name, part, path) in [
            ("decoder.proj_in.1.weight", Part::Dit, "proj_in.weight"),
            ("decoder.layers.0.mlp.up_proj.weight", Part::Dit, "layers.0.mlp.up_proj.weight"),
            ("encoder.text_projector.weight", Part::Conditioner, "encoder.text_projector.weight"),
            ("null_condition_emb", Part::Conditioner, "null_condition_emb"),
            (
                "tokenizer.quantizer.project_in.bias",
                Part::AudioCodec,
                "tokenizer.quantizer.project_in.bias",
            ),
            ("detokenizer.special_tokens", Part::AudioCodec, "detokenizer.special_tokens"),
        ] {
            let owners: Vec<_> =
                Part::OF_DIT_FILE.into_iter().filter(|part| part.path_of(name).is_some()).collect();
            assert_eq!(owners, [part], "{name}");
            assert_eq!(part.path_of(name).as_deref(), Some(path));
            assert_eq!(part.name_of(path), name);
        }
    }

    #[test]
    fn the_trunk_of_a_language_model_gets_its_prefix_and_the_head_has_none() {
        let part = Part::LanguageModel;
        for (name, path) in [
            ("model.norm.weight", "model.norm.weight"),
            ("norm.weight", "model.norm.weight"),
            ("layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"),
            ("lm_head.weight", "lm_head.weight"),
        ] {
            assert_eq!(part.path_of(name).as_deref(), Some(path), "{name}");
            assert_eq!(part.name_of(path), path);
        }
    }
}
