//! A diffusers pipeline.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{Stack, read, released, save, silence, text, write};

/// Writes the tiny turbo model, its autoencoder and its text encoder as a diffusers pipeline.
pub fn write_diffusers(to: &Path) {
    let index = json!({ "_class_name": "AceStepPipeline", "_diffusers_version": "0.38.0" });
    save(&to.join("model_index.json"), index.to_string().as_bytes());
    let own: Value = serde_json::from_str(&text(&released().join("acestep-v15-turbo/config.json")))
        .expect("a config");
    let shared = "hidden_size intermediate_size num_attention_heads num_key_value_heads head_dim \
                  rope_theta attention_bias attention_dropout rms_norm_eps sliding_window";
    let codes = "audio_acoustic_hidden_dim pool_window_size num_attention_pooler_hidden_layers";
    let mut parts = [
        (
            "transformer",
            "decoder.",
            "AceStepTransformer1DModel",
            "num_hidden_layers in_channels audio_acoustic_hidden_dim patch_size layer_types is_turbo \
             model_version",
        ),
        (
            "condition_encoder",
            "encoder.",
            "AceStepConditionEncoder",
            "text_hidden_dim timbre_hidden_dim num_lyric_encoder_hidden_layers \
             num_timbre_encoder_hidden_layers",
        ),
        (
            "audio_tokenizer",
            "tokenizer.",
            "AceStepAudioTokenizer",
            &*format!("{codes} fsq_dim fsq_input_levels fsq_input_num_quantizers"),
        ),
        ("audio_token_detokenizer", "detokenizer.", "AceStepAudioTokenDetokenizer", codes),
    ]
    .map(|(name, prefix, class, keys)| {
        let mut config = json!({ "_class_name": class, "_diffusers_version": "0.38.0" });
        for key in shared.split_whitespace().chain(keys.split_whitespace()) {
            config[key] = own[key].clone();
        }
        (name, prefix, config)
    });
    parts[0].2["encoder_hidden_size"] = own["hidden_size"].clone();
    let tensors = read(&released().join("acestep-v15-turbo/model.safetensors"));
    for (name, prefix, config) in &parts {
        let mut part: Stack = tensors
            .iter()
            .filter_map(|(key, stored)| Some((of_diffusers(key.strip_prefix(prefix)?), stored)))
            .map(|(key, stored)| (key, stored.clone()))
            .collect();
        if *name == "condition_encoder" {
            let mut silence = silence();
            silence.shape.insert(0, 1);
            part.insert("silence_latent".into(), silence);
            let null = "null_condition_emb";
            part.insert(null.into(), tensors[null].clone());
        }
        save(&to.join(name).join("config.json"), config.to_string().as_bytes());
        write(&to.join(name).join("diffusion_pytorch_model.safetensors"), &part);
    }
    for (from, file, directory) in [
        ("vae", "config.json", "vae"),
        ("vae", "diffusion_pytorch_model.safetensors", "vae"),
        ("Qwen3-Embedding-0.6B", "config.json", "text_encoder"),
        ("Qwen3-Embedding-0.6B", "model.safetensors", "text_encoder"),
        ("Qwen3-Embedding-0.6B", "tokenizer.json", "tokenizer"),
    ] {
        let content = fs::read(released().join(from).join(file)).expect("a golden");
        save(&to.join(directory).join(file), &content);
    }
}

/// Returns the diffusers name of a tensor.
fn of_diffusers(name: &str) -> String {
    let name = name.replace("proj_in.1.", "proj_in_conv.").replace("proj_out.1.", "proj_out_conv.");
    let renamed = [
        ("q_proj", "to_q"),
        ("k_proj", "to_k"),
        ("v_proj", "to_v"),
        ("o_proj", "to_out.0"),
        ("q_norm", "norm_q"),
        ("k_norm", "norm_k"),
    ];
    renamed
        .iter()
        .fold(name, |name, (own, other)| name.replace(&format!(".{own}."), &format!(".{other}.")))
}
