//! Files that are not adapters, recognised by kind.

use super::*;
use crate::testing::{gguf, goldens};

/// Returns the message and the remedy for the file at `path`.
fn refusal(path: &std::path::Path) -> (String, String) {
    let error = Adapter::open(path).expect_err("no adapter");
    assert!(
        matches!(&error, Error::Adapter(AdapterError::NotAnAdapter { .. })),
        "{path:?}: {error:?}"
    );
    (error.to_string(), error.hint().expect("a remedy"))
}

#[test]
fn a_network_of_a_model_is_called_what_it_is() {
    for (name, what, remedy) in [
        ("vae", "it is the Oobleck audio autoencoder", "leave `adapter` out"),
        (
            "acestep-v15-turbo",
            "it is a diffusion transformer of ACE-Step 1.5",
            "pass it as `model`",
        ),
        (
            "Qwen3-Embedding-0.6B",
            "it is a Qwen3 network: a text encoder or a language model",
            "as `lm_model`",
        ),
        (
            "acestep-5Hz-lm-0.6B",
            "it is a Qwen3 network: a text encoder or a language model",
            "as `lm_model`",
        ),
    ] {
        let path = goldens().join("checkpoints_a").join(name);
        let (error, hint) = refusal(&path);
        assert_ends(&error, &format!(".safetensors` is not an adapter: {what}"));
        assert_contains(&hint, remedy);
    }
}

#[test]
fn a_file_of_other_tensors_is_called_what_its_names_say() {
    for (names, what) in [
        (&["vae.decoder.conv1.weight_v"][..], "it is the Oobleck audio autoencoder"),
        (
            &["vae.decoder.layers.0.weight_v", "model.diffusion_model.decoder.proj_in.1.weight"],
            "a checkpoint of several networks: a diffusion transformer of ACE-Step 1.5, the Oobleck",
        ),
        (
            &["encoder.block.0.res_unit1.snake1.alpha", "encoder.block.0.res_unit1.snake1.beta"],
            "it is an audio autoencoder (VAE)",
        ),
        (
            &["layers.0.self_attn.q_proj.weight", "proj_in.1.weight"],
            "a diffusion transformer of ACE-Step 1.5 without its other networks",
        ),
        (&["transformer.proj_in_conv.weight"], "without its other networks"),
        (&["lyric_embs.weight"], "a checkpoint of ACE-Step 1, not of 1.5"),
        (&["silence_latent"], "the latent of silence of a model"),
        (&["emb_params"], "a trained embedding (textual inversion)"),
        (&["state.0.exp_avg"], "the state of an optimiser"),
        (&["decoder.conv_in.weight"], "an autoencoder (VAE) of another model"),
        (&["model.diffusion_model.input_blocks.0.0.weight"], "a diffusion model of another kind"),
        (&["lm_head.weight"], "a language model or a text encoder of another kind"),
    ] {
        let tensors = names.iter().map(|name| ((*name).to_owned(), tensor(&[2, 2], 0.1)));
        let mut file = File::new([]);
        file.tensors.extend(tensors);
        let (error, _) = refusal(&file.write());
        assert!(error.contains(what), "{names:?}: {error}");
    }
}

#[test]
fn a_file_of_another_kind_is_called_what_its_first_bytes_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let gguf = |pairs: &[(&str, &str)]| {
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| gguf::value_text(key, value)).collect();
        gguf::file(&pairs, &[], 0)
    };
    let path = folder.path().join("adapter.safetensors");
    for (bytes, what, remedy) in [
        (
            gguf(&[("general.architecture", "acestep-lm")]),
            "a language model of ACE-Step 1.5 in a GGUF file",
            "`lm_model`",
        ),
        (
            gguf(&[("general.architecture", "acestep-vae")]),
            "the Oobleck audio autoencoder in a GGUF",
            "leave `adapter` out",
        ),
        (
            gguf(&[("general.type", "adapter"), ("general.architecture", "llama")]),
            "an adapter of llama.cpp in a GGUF file",
            "take an adapter of ACE-Step 1.5",
        ),
        (
            gguf(&[("general.architecture", "llama")]),
            "a GGUF file of no network of ACE-Step",
            "take an",
        ),
        (b"PK\x03\x04 and a pickle".to_vec(), "a pickle of PyTorch", "save it as safetensors"),
        (b"\x80\x02}q\x00.".to_vec(), "a pickle of PyTorch", "save it as safetensors"),
        (b"<!DOCTYPE html><html></html>".to_vec(), "a web page (HTML or XML)", "`resolve`"),
        (b"{\"error\": \"not found\"}".to_vec(), "a text of JSON", "fetch the .safetensors"),
        (b"RIFF\x24\0\0\0WAVEfmt ".to_vec(), "a sound file", "`src_audio`"),
        (b"ID3\x03\0\0\0\0\0\0".to_vec(), "a sound file", "`src_audio`"),
    ] {
        std::fs::write(&path, bytes).expect("written");
        for path in [&path, folder.path()] {
            let (error, hint) = refusal(path);
            assert!(error.contains(what), "{what}: {error}");
            assert!(hint.contains(remedy), "{remedy}: {hint}");
        }
    }
}

#[test]
fn a_directory_of_another_kind_is_called_what_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, text).expect("written");
    };
    write("pipeline/model_index.json", "{}");
    write("models/vae/config.json", "{}");
    write("sharded/config.json", r#"{"model_type": "acestep"}"#);
    write("sharded/model-1.safetensors", "");
    write("sharded/model-2.safetensors", "");
    for (name, what) in [
        ("pipeline", "it is a pipeline of diffusers, a whole model"),
        ("models", "it is a directory of models"),
        ("sharded", "it is a diffusion transformer of ACE-Step 1.5"),
    ] {
        let (error, _) = refusal(&folder.path().join(name));
        assert_ends(&error, what);
    }
}
