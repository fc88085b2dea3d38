//! The published directories of Dia2, and the tensors of its networks.
//!
//! | network | tensors |
//! |---|---|
//! | backbone | `transformer.*` |
//! | depformer | `depformer.*`, whose maps of a stage have the numbers of the schedule |
//!
//! Source: nari-labs/dia2.

use acestep_model::speech::dia2::Config;
use serde_json::Value;

use super::{Release, mimi::MIMI};
use crate::names::TensorNames;

/// The models, the default first.
pub const MODELS: [Release; 2] = [
    model("dia2-1b", "nari-labs/Dia2-1B", 4.3, "dialogue: two speakers, English"),
    model("dia2-2b", "nari-labs/Dia2-2B", 7.9, "dialogue: two speakers, English, larger"),
];

/// The networks that the models need.
pub const COMPANIONS: [Release; 1] = [MIMI];

const fn model(
    name: &'static str,
    repo: &'static str,
    gigabytes: f32,
    about: &'static str,
) -> Release {
    Release { needs: &COMPANIONS, ..Release::whole(name, repo, gigabytes, about) }
}

/// True if a `config.json` is one of these models, which name no type.
pub(crate) fn is_one(config: &Value) -> bool {
    config["model"]["depformer"].is_object()
        && config["model"]["decoder"].is_object()
        && config["data"]["channels"].is_number()
}

pub(crate) fn backbone() -> TensorNames {
    TensorNames::of("backbone", vec![("transformer.".into(), "".into())])
}

/// The depformer. A map with a number that the schedule does not have belongs to no network.
pub(crate) fn depformer(config: &Config) -> TensorNames {
    let mut published = Vec::new();
    let mut add = |file: String, module: String| published.push((file.into(), module.into()));
    for part in ["audio_embeds.", "logits.", "norm."] {
        add(format!("depformer.{part}"), part.to_owned());
    }
    if config.model.depformer.text_embedding {
        add("depformer.text_embed.".to_owned(), "text_embed.".to_owned());
    }
    for (index, id) in config.weight_ids().into_iter().enumerate() {
        add(format!("depformer.depformer_in.{id}."), format!("depformer_in.{index}."));
        for layer in 0..config.model.depformer.n_layer {
            let module = format!("layers.{layer}.self_attention.");
            for map in ["in_proj", "out_proj"] {
                let file = format!("depformer.{module}{map}.{id}.");
                add(file, format!("{module}{map}.{index}."));
            }
        }
    }
    for layer in 0..config.model.depformer.n_layer {
        for part in
            ["pre_norm.", "post_norm.", "mlp.", "self_attention.q_norm.", "self_attention.k_norm."]
        {
            let module = format!("layers.{layer}.{part}");
            add(format!("depformer.{module}"), module);
        }
    }
    TensorNames::of("depformer", published)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_model_is_the_first_and_needs_the_codec() {
        let [first, _] = &MODELS;
        assert_eq!([first.name, first.directory], ["dia2-1b", "Dia2-1B"]);
        assert_eq!(first.with_needs().map(|of| of.name).collect::<Vec<_>>(), ["dia2-1b", "mimi"]);
    }
}
