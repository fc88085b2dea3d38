//! Files that are not what is needed are refused with what to do.

use std::path::{Path, PathBuf};

use acestep_import::{Directory, Layout, ModelFormat, open, open_language_model};
use acestep_tests::{
    Cpu, DEVICE,
    foreign::{
        Weights, value_text, write_comfy_checkpoint, write_comfy_split, write_diffusers,
        write_gguf, write_gguf_models,
    },
};

use super::{PARTS, Refusal, layout, refused, temporary};

/// `check` reads no weights, so a missing file is found before the language model runs.
#[test]
fn what_a_file_does_not_hold_is_named_with_what_to_do_before_anything_is_read() {
    let dir = temporary();
    let at = |name: &str| dir.path().join(name);
    write_comfy_checkpoint(dir.path());
    let check = || {
        let model = open("tiny_turbo_aio.safetensors", &layout(dir.path())).expect("a model");
        let checked = model.check::<Cpu>(&DEVICE, &PARTS).and_then(|()| model.check_tokenizer());
        checked.err().map(|error| Refusal::of(&error))
    };
    assert_eq!(check(), None);
    std::fs::rename(at("silence_latent.pt"), at("moved.pt")).expect("moved");
    let place = dir.path().display();
    check()
        .expect("no silence")
        .says("holds no latent of silence")
        .hints(&format!("put silence_latent.pt of the model's release into `{place}`"));
    // A file that does not fit is ignored and named in the message.
    let broken = at("acestep-v15-base");
    std::fs::create_dir(&broken).expect("a directory");
    std::fs::write(broken.join("silence_latent.pt"), "no zip").expect("written");
    let refusal = check().expect("no silence that fits");
    refusal.says("silence_latent.pt`, but it does not fit: `");
    // The directory of another known model contains one that fits.
    let turbo = at("acestep-v15-turbo");
    std::fs::create_dir(&turbo).expect("a directory");
    std::fs::rename(at("moved.pt"), turbo.join("silence_latent.pt")).expect("moved");
    assert_eq!(check(), None);

    let tokenizer = at("Qwen3-Embedding-0.6B");
    std::fs::rename(&tokenizer, at("elsewhere")).expect("moved");
    let refusal = check().expect("no tokenizer");
    refusal.says("holds no tokenizer").hints(&format!("of the release into `{place}`"));
    // The tokenizer of a GGUF file in the models directory is used.
    let models = temporary();
    write_gguf_models(models.path(), Weights::F32);
    let file = "Qwen3-Embedding-0.6B-F32.gguf";
    std::fs::copy(models.path().join(file), at(file)).expect("a copy");
    assert_eq!(check(), None);
}

#[test]
fn what_says_the_sizes_is_named_where_a_tensor_has_others() {
    let dir = temporary();
    write_comfy_checkpoint(dir.path());
    std::fs::remove_file(dir.path().join("config.json")).expect("removed");
    let path = dir.path().join("tiny_turbo_aio.safetensors");
    let mut tensors = acestep_tests::foreign::read(&path);
    let name = "model.diffusion_model.decoder.layers.1.mlp.up_proj.weight";
    let stored = tensors.get_mut(name).expect("a tensor");
    stored.shape[0] -= 1;
    stored.values.truncate(stored.shape.iter().product());
    acestep_tests::foreign::write(&path, &tensors);
    let model = open(&path.to_string_lossy(), &Layout::new([])).expect("a model");
    let error = model.check::<Cpu>(&DEVICE, &PARTS).expect_err("another shape").to_string();
    assert!(error.contains("but by the sizes of its other tensors it is ["), "{error}");
}

#[test]
fn a_text_encoder_is_no_language_model() {
    let dir = temporary();
    write_comfy_split(dir.path());
    let path = dir.path().join("text_encoders/qwen_tiny.safetensors");
    let refused = |path: &Path| {
        let choice = path.to_string_lossy();
        let opened = open_language_model(Some(&choice), &layout(dir.path()));
        Refusal::of(&opened.expect_err("refused"))
    };
    refused(&path).says("no audio codes among its 446 tokens");
    // For a released size, the header alone is enough, without a tokenizer.
    let shape = [151_669, 0];
    let stored = acestep_tests::foreign::Stored { shape: shape.into(), values: vec![] };
    let tensors = [("embed_tokens.weight".to_owned(), stored)].into();
    let path = dir.path().join("qwen.safetensors");
    acestep_tests::foreign::write(&path, &tensors);
    refused(&path).says("no audio codes among its 151669 tokens");
    // diffusers keeps the tokenizer in another directory.
    let pipeline = dir.path().join("pipeline");
    write_diffusers(&pipeline);
    let config = pipeline.join("text_encoder/config.json");
    let text = std::fs::read_to_string(&config).expect("a config");
    let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    json["vocab_size"] = 151_669.into();
    std::fs::write(&config, json.to_string()).expect("written");
    refused(&pipeline.join("text_encoder")).says("no audio codes among its 151669 tokens");
}

#[test]
fn pointers_and_adapters_are_called_what_they_are() {
    let dir = temporary();
    let at = |name: &str| dir.path().join(name);
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4790000000\n";
    for name in ["turbo.safetensors", "acestep-v15-turbo-Q8_0.gguf"] {
        std::fs::write(at(name), pointer).expect("written");
        refused(name, dir.path())
            .says("it is a Git LFS pointer, not the file itself")
            .hints("git lfs pull");
    }
    let stored = acestep_tests::foreign::Stored { shape: vec![1, 2], values: vec![0.0; 2] };
    let name = "base_model.model.layers.0.self_attn.q_proj.lora_A.weight".to_owned();
    let peft = at("peft");
    acestep_tests::foreign::write(
        &peft.join("adapter_model.safetensors"),
        &[(name, stored)].into(),
    );
    std::fs::write(peft.join("adapter_config.json"), "{}").expect("written");
    for path in [peft.join("adapter_model.safetensors"), peft] {
        let path = path.to_string_lossy().into_owned();
        refused(&path, dir.path())
            .says("it is an adapter (LoRA or of its kin)")
            .hints(&format!("pass it as `adapter: {path}`"));
    }
}

#[test]
fn other_files_are_refused_by_what_they_are() {
    let dir = temporary();
    let at = |name: &str| dir.path().join(name);
    write_gguf_models(dir.path(), Weights::F32);
    // A network of another kind.
    let refused = |choice: &str| refused(choice, dir.path());
    refused(&at("vae-F32.gguf").to_string_lossy())
        .says("holds the Oobleck audio autoencoder, not a diffusion");
    let llama = [("general.architecture", value_text("llama"))];
    write_gguf(&at("llama.gguf"), &llama, &Default::default(), |_, _| Weights::F32);
    refused("llama.gguf").says("its architecture is `llama`, which is no network");
    std::fs::write(at("notes.txt"), "a song").expect("written");
    refused("notes.txt").says("it is neither GGUF nor safetensors");
    std::fs::write(at("model.pt"), b"PK\x03\x04").expect("written");
    refused("model.pt").hints("PyTorch's own files are not read");

    // ComfyUI's fp8 weights.
    let header = r#"{"model.diffusion_model.decoder.proj_in.1.weight":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 2]].concat();
    std::fs::write(at("fp8.safetensors"), bytes).expect("written");
    refused("fp8.safetensors").says("its weights are in 8 bits (tensor `model.diffusion_model.");
    let header = r#"{"lyric_embs.weight":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    std::fs::write(at("first.safetensors"), bytes).expect("written");
    refused("first.safetensors").says("ACE-Step 1, not of 1.5");

    let pipeline: PathBuf = at("pipeline");
    std::fs::create_dir(&pipeline).expect("a directory");
    let index = r#"{"_class_name": "FluxPipeline"}"#;
    std::fs::write(pipeline.join("model_index.json"), index).expect("written");
    refused("pipeline").says("of class `FluxPipeline`");
    assert!(matches!(Directory::Disk(pipeline).format(), ModelFormat::Released));
}
