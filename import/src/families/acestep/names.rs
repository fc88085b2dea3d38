//! The tensors of each network of ACE-Step 1.5.
//!
//! | network | file | tensors |
//! |---|---|---|
//! | text encoder | Qwen3-Embedding-0.6B | all, with or without `model.` |
//! | conditioner | acestep-v15-* | `encoder.*`, `null_condition_emb` |
//! | audio codec | acestep-v15-* | `tokenizer.*`, `detokenizer.*` |
//! | diffusion transformer | acestep-v15-* | `decoder.*` |
//! | VAE decoder | vae | `decoder.*` |
//! | VAE encoder | vae | `encoder.*` |
//! | language model | acestep-5Hz-lm-* | all, with or without `model.`, and `lm_head.*` |

use acestep_model::acestep::Network;

use crate::names::TensorNames;

/// The networks in the file of the diffusion transformer.
pub(crate) const OF_DIT_FILE: [Network; 3] =
    [Network::Conditioner, Network::AudioCodec, Network::Dit];
/// The networks in the file of the autoencoder.
pub(crate) const OF_VAE_FILE: [Network; 2] = [Network::VaeDecoder, Network::VaeEncoder];

pub(crate) fn tensor_names(network: Network) -> TensorNames {
    type Beginnings = &'static [(&'static str, &'static str)];
    // ANCHOR: renamed
    // (Beginning in the file, beginning in the module.) In PyTorch the patch convolutions are second
    // in a `Sequential` whose other members have no parameters.
    let published: Beginnings = match network {
        Network::TextEncoder => &[("", "")],
        Network::Conditioner => {
            &[("encoder.", "encoder."), ("null_condition_emb", "null_condition_emb")]
        }
        Network::AudioCodec => &[("tokenizer.", "tokenizer."), ("detokenizer.", "detokenizer.")],
        Network::Dit => &[
            ("decoder.", ""),
            ("decoder.proj_in.1.", "proj_in."),
            ("decoder.proj_out.1.", "proj_out."),
        ],
        Network::VaeDecoder => &[("decoder.", "")],
        Network::VaeEncoder => &[("encoder.", "")],
        // The head is beside the trunk.
        Network::LanguageModel => &[("model.", "model."), ("lm_head.", "lm_head.")],
    };
    // ANCHOR_END: renamed
    // Some files store the trunk of a Qwen3 with another prefix.
    let others: Beginnings = match network {
        Network::TextEncoder => &[("model.", "")],
        Network::LanguageModel => &[("", "model.")],
        Network::Conditioner
        | Network::AudioCodec
        | Network::Dit
        | Network::VaeDecoder
        | Network::VaeEncoder => &[],
    };
    let rows = |rows: Beginnings| rows.iter().map(|&(file, module)| (file.into(), module.into()));
    TensorNames {
        noun: network.name(),
        published: rows(published).collect(),
        others: rows(others).collect(),
        ones: Vec::new(),
    }
}

/// Returns the name in a published file of the parameter at `path` of the module of `network`.
pub fn tensor_name(network: Network, path: &str) -> String {
    tensor_names(network).name_of(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tensor_of_the_dit_file_has_exactly_one_part() {
        for (name, network, path) in [
            ("decoder.proj_in.1.weight", Network::Dit, "proj_in.weight"),
            ("decoder.layers.0.mlp.up_proj.weight", Network::Dit, "layers.0.mlp.up_proj.weight"),
            (
                "encoder.text_projector.weight",
                Network::Conditioner,
                "encoder.text_projector.weight",
            ),
            ("null_condition_emb", Network::Conditioner, "null_condition_emb"),
            (
                "tokenizer.quantizer.project_in.bias",
                Network::AudioCodec,
                "tokenizer.quantizer.project_in.bias",
            ),
            ("detokenizer.special_tokens", Network::AudioCodec, "detokenizer.special_tokens"),
        ] {
            let owns = |network: &Network| tensor_names(*network).path_of(name).is_some();
            let owners: Vec<_> = OF_DIT_FILE.into_iter().filter(owns).collect();
            assert_eq!(owners, [network], "{name}");
            assert_eq!(tensor_names(network).path_of(name).as_deref(), Some(path));
            assert_eq!(tensor_names(network).name_of(path), name);
        }
    }

    #[test]
    fn the_trunk_of_a_qwen3_is_read_with_and_without_model_and_written_in_one_way() {
        use Network::{LanguageModel, TextEncoder};
        for (network, name, path) in [
            (LanguageModel, "model.norm.weight", "model.norm.weight"),
            (LanguageModel, "norm.weight", "model.norm.weight"),
            (LanguageModel, "layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"),
            (LanguageModel, "lm_head.weight", "lm_head.weight"),
            (TextEncoder, "model.norm.weight", "norm.weight"),
            (TextEncoder, "norm.weight", "norm.weight"),
        ] {
            let names = tensor_names(network);
            assert_eq!(names.path_of(name).as_deref(), Some(path), "{name}");
            assert_eq!(names.name_of(path), path);
        }
    }
}
