//! Single safetensors files in the format of ComfyUI.

use std::{fs, path::Path};

use super::{Stack, Stored, read, released, save, write};

/// Writes the tiny turbo model and its language model as one file that ComfyUI would read.
///
/// Also writes the files that such a file needs beside it.
pub fn write_comfy_checkpoint(to: &Path) {
    let mut all = Stack::new();
    for (prefix, tensors) in comfy_parts() {
        all.extend(tensors.into_iter().map(|(name, stored)| (format!("{prefix}{name}"), stored)));
    }
    let scalar = Stored { shape: vec![], values: vec![4.6] };
    all.insert("text_encoders.qwen3_06b.logit_scale".into(), scalar);
    write(&to.join("tiny_turbo_aio.safetensors"), &all);
    write_beside(to);
}

/// Writes the same networks into ComfyUI's directories: `diffusion_models`, `text_encoders`, `vae`.
pub fn write_comfy_split(to: &Path) {
    let [dit, text, language, vae] = comfy_parts().map(|(_, tensors)| tensors);
    write(&to.join("diffusion_models/tiny_turbo.safetensors"), &dit);
    write(&to.join("text_encoders/qwen_tiny.safetensors"), &text);
    write(&to.join("lm/qwen_tiny_lm.safetensors"), &language);
    write(&to.join("vae/tiny_vae.safetensors"), &vae);
    write_beside(to);
    fs::rename(to.join("config.json"), to.join("diffusion_models/config.json")).expect("moved");
}

/// Writes the files that a single file does not contain: config.json, tokenizer, silence.
///
/// config.json is optional for models of the released sizes.
fn write_beside(to: &Path) {
    let copy = |from: &str, name: &str| {
        save(&to.join(name), &fs::read(released().join(from)).expect("a golden"));
    };
    copy("acestep-v15-turbo/config.json", "config.json");
    copy("acestep-v15-turbo/silence_latent.pt", "silence_latent.pt");
    copy("Qwen3-Embedding-0.6B/vocab.json", "Qwen3-Embedding-0.6B/vocab.json");
    copy("Qwen3-Embedding-0.6B/merges.txt", "Qwen3-Embedding-0.6B/merges.txt");
}

/// Returns the networks with their prefixes in a single file.
///
/// Tensors of the autoencoder are named by list indices.
fn comfy_parts() -> [(&'static str, Stack); 4] {
    let model = |name: &str| read(&released().join(name).join("model.safetensors"));
    let with_model = |tensors: Stack| {
        tensors.into_iter().map(|(name, stored)| (format!("model.{name}"), stored)).collect()
    };
    let vae = read(&released().join("vae/diffusion_pytorch_model.safetensors"));
    let vae = vae.into_iter().map(|(name, mut stored)| {
        if name.ends_with("alpha") || name.ends_with("beta") {
            stored.shape.retain(|&size| size != 1);
        }
        (in_lists(&name), stored)
    });
    [
        ("model.diffusion_model.", model("acestep-v15-turbo")),
        ("text_encoders.qwen3_06b.transformer.", with_model(model("Qwen3-Embedding-0.6B"))),
        ("text_encoders.qwen3_2b.transformer.", model("acestep-5Hz-lm-0.6B")),
        ("vae.", vae.collect()),
    ]
}

/// Renames `decoder.block.1.res_unit2.conv1.bias` to `decoder.layers.2.layers.3.layers.1.bias`.
fn in_lists(name: &str) -> String {
    let parts: Vec<_> = name.split('.').collect();
    let is_encoder = parts[0] == "encoder";
    let unit = |module: &str| {
        ["snake1", "conv1", "snake2", "conv2"].iter().position(|own| *own == module).expect("one")
    };
    let last = |name: &str| match name {
        "weight_g" if is_encoder => "parametrizations.weight.original0".to_owned(),
        "weight_v" if is_encoder => "parametrizations.weight.original1".to_owned(),
        other => other.to_owned(),
    };
    match parts[1..] {
        ["conv1", parameter] => format!("{}.layers.0.{}", parts[0], last(parameter)),
        ["snake1", parameter] => format!("{}.layers.6.{}", parts[0], last(parameter)),
        ["conv2", parameter] => format!("{}.layers.7.{}", parts[0], last(parameter)),
        ["block", index, ref rest @ ..] => {
            let block = index.parse::<usize>().expect("an index") + 1;
            let shift = if is_encoder { 0 } else { 2 };
            let rest = match *rest {
                ["snake1", parameter] => {
                    format!("{}.{parameter}", if is_encoder { 3 } else { 0 })
                }
                ["conv1", parameter] => format!("4.{}", last(parameter)),
                ["conv_t1", parameter] => format!("1.{}", last(parameter)),
                [unit_name, module, parameter] => {
                    let number = unit_name.trim_start_matches("res_unit").parse::<usize>();
                    let place = number.expect("a number") - 1 + shift;
                    format!("{place}.layers.{}.{}", unit(module), last(parameter))
                }
                _ => panic!("no place for {name}"),
            };
            format!("{}.layers.{block}.layers.{rest}", parts[0])
        }
        _ => panic!("no place for {name}"),
    }
}
