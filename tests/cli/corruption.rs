//! Broken checkpoints: one message that names the file and a remedy, exit code 1.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

#[cfg(unix)]
use crate::running::Running;
use crate::{Dir, Run};

fn run(dir: &Dir, model: &Path) -> Run {
    let model = model.to_str().expect("UTF-8");
    let args = ["generate", "rain", "--duration", "1", "--no-thinking", "--model", model];
    dir.run(&[&args[..], &["-o", "a.wav"]].concat())
}

/// Asserts that the model is refused, the message names `file`, and no song is written.
#[track_caller]
fn refused(dir: &Dir, model: &Path, file: &str) -> Run {
    let run = run(dir, model).failed(1).says(file).says("\nhint: ");
    assert!(!dir.path("a.wav").exists());
    run
}

/// Header and values of a safetensors file.
struct Weights {
    path: PathBuf,
    header: Map<String, Value>,
    values: Vec<u8>,
}

impl Weights {
    fn open(path: PathBuf) -> Self {
        let bytes = fs::read(&path).expect("a file");
        let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight")) as usize;
        let header = serde_json::from_slice(&bytes[8..8 + length]).expect("a header");
        Self { path, header, values: bytes[8 + length..].to_vec() }
    }

    fn save(&self) {
        let mut header = Value::from(self.header.clone()).to_string();
        header += &" ".repeat(header.len().next_multiple_of(8) - header.len());
        let length = (header.len() as u64).to_le_bytes();
        fs::write(&self.path, [&length, header.as_bytes(), &self.values].concat()).expect("writes");
    }

    fn tensor(&mut self, name: &str) -> &mut Value {
        self.header.get_mut(name).unwrap_or_else(|| panic!("{name}"))
    }
}

const TENSOR: &str = "decoder.layers.0.self_attn.q_proj.weight";

#[test]
fn an_unharmed_copy_makes_the_same_song_as_the_built_in_one() {
    let dir = Dir::new();
    let model = dir.checkpoint();
    let model = model.to_str().expect("UTF-8");
    let args = ["generate", "rain", "--duration", "1", "--seed", "7", "--no-thinking"];
    dir.run(&[&args[..], &["--model", model, "-o", "a.wav"]].concat()).succeeded();
    dir.run(&[&args[..], &["--model", "tiny", "-o", "b.wav"]].concat()).succeeded();
    assert_eq!(dir.sound("a.wav"), dir.sound("b.wav"));
}

/// In the header, behind it and in the values: the tests of the readers cut at every byte.
#[test]
fn a_file_that_is_cut_is_refused() {
    let dir = Dir::new();
    let model = dir.checkpoint();
    for (directory, name) in [
        ("acestep-v15-turbo", "model.safetensors"),
        ("vae", "diffusion_pytorch_model.safetensors"),
        ("Qwen3-Embedding-0.6B", "model.safetensors"),
        ("acestep-v15-turbo", "silence_latent.pt"),
    ] {
        let path = dir.path(directory).join(name);
        let whole = fs::read(&path).expect("a file");
        let length = whole.len();
        for cut in [0, 9, length - 1] {
            fs::write(&path, &whole[..cut]).expect("writes");
            refused(&dir, &model, name);
        }
        fs::write(&path, &whole).expect("writes");
    }
    run(&dir, &model).succeeded();
}

#[test]
fn weights_that_are_not_finite_are_found_and_the_stage_is_named() {
    let dir = Dir::new();
    let model = dir.checkpoint();
    for (file, tensor, stage) in [
        ("acestep-v15-turbo/model.safetensors", TENSOR, "the diffusion transformer"),
        ("vae/diffusion_pytorch_model.safetensors", "decoder.conv1.bias", "the VAE"),
        ("Qwen3-Embedding-0.6B/model.safetensors", "norm.weight", "the text encoder"),
    ] {
        let whole = dir.read(file);
        let mut weights = Weights::open(dir.path(file));
        let offsets = weights.tensor(tensor)["data_offsets"].clone();
        let [start, end] = [0, 1].map(|i| offsets[i].as_u64().expect("an offset") as usize);
        // All ones is a NaN in every float type.
        weights.values[start..end].fill(0xff);
        weights.save();
        let run = run(&dir, &model).failed(1);
        run.says(&format!("error: {stage} gave")).says("not finite");
        dir.write(file, whole);
    }
    assert!(!dir.path("a.wav").exists());
}

#[test]
fn missing_files_and_folders_are_named() {
    for (gone, says) in [
        ("acestep-v15-turbo/config.json", "config.json"),
        ("acestep-v15-turbo/model.safetensors", "model.safetensors"),
        ("acestep-v15-turbo/silence_latent.pt", "silence_latent.pt"),
        ("vae/config.json", "config.json"),
        ("Qwen3-Embedding-0.6B/config.json", "config.json"),
    ] {
        let dir = Dir::new();
        let model = dir.checkpoint();
        fs::remove_file(dir.path(gone)).expect("removed");
        refused(&dir, &model, says);
    }
    for gone in ["vae", "Qwen3-Embedding-0.6B"] {
        let dir = Dir::new();
        let model = dir.checkpoint();
        fs::remove_dir_all(dir.path(gone)).expect("removed");
        refused(&dir, &model, gone).says("is not on this machine").says("acestep model pull");
    }
}

#[test]
fn a_config_that_cannot_be_used_is_refused() {
    let dir = Dir::new();
    let model = dir.checkpoint();
    let path = model.join("config.json");
    let whole = fs::read_to_string(&path).expect("a config");
    let with = |key: &str, value: Value| {
        let mut config: Value = serde_json::from_str(&whole).expect("JSON");
        config[key] = value;
        config.to_string()
    };
    for (text, says) in [
        (whole[..whole.len() / 2].to_owned(), "is not JSON"),
        (String::new(), "is not JSON"),
        (with("rope_scaling", json!({ "type": "yarn" })), "rope_scaling"),
        (with("hidden_size", json!(-1)), "invalid value: integer `-1`"),
        (with("hidden_size", json!("many")), "invalid type: string"),
        (with("model_type", json!("llama")), "llama"),
    ] {
        fs::write(&path, text).expect("writes");
        refused(&dir, &model, "acestep-v15-turbo").says(says);
    }
}

#[test]
fn a_tokenizer_that_is_broken_is_refused() {
    let dir = Dir::new();
    let model = dir.checkpoint();
    let path = dir.path("Qwen3-Embedding-0.6B/tokenizer.json");
    let whole = fs::read(&path).expect("a tokenizer");
    for cut in [0, 1, whole.len() / 2] {
        fs::write(&path, &whole[..cut]).expect("writes");
        refused(&dir, &model, "tokenizer");
    }
}

/// A song of ten minutes with a copy of the tiny model, to whose file of weights something is done while the
/// transformer is at work.
#[cfg(unix)]
fn meddled(meddle: impl FnOnce(&Path)) -> (Dir, String) {
    let dir = Dir::new();
    let model = dir.checkpoint();
    let path = model.to_str().expect("UTF-8");
    let args = ["generate", "rain", "--no-thinking", "--duration", "600", "--model", path];
    let more = ["--dtype", "f32", "-o", "a.wav", "--progress", "json"];
    let mut command = dir.command(&[&args[..], &more].concat());
    let mut program = Running::start(&mut command, std::process::Stdio::null());
    program
        .read_until(|line| line.contains(r#""event":"step""#) && line.contains(r#""diffusion""#));
    meddle(&model.join("model.safetensors"));
    let (code, said) = program.end();
    assert_eq!(code, Some(1), "{said}");
    let error = said.lines().find(|line| line.contains(r#""event":"error""#));
    (dir, error.expect(&said).to_owned())
}

/// The weights of f32 are used in their file, where nothing is any more: no signal ends the program.
#[cfg(unix)]
#[test]
fn a_file_that_is_cut_while_a_song_is_made_is_an_error() {
    let (dir, error) = meddled(|path| {
        fs::File::options().write(true).open(path).and_then(|file| file.set_len(100)).expect("cut");
    });
    for words in [
        "model.safetensors` was cut from ",
        " while it was in use",
        "wait until it is whole and run this again",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(!dir.path("a.wav").exists());
}

#[cfg(unix)]
#[test]
fn a_file_that_is_overwritten_while_a_song_is_made_is_an_error() {
    let (dir, error) = meddled(|path| {
        let mut bytes = fs::read(path).expect("a file");
        let last = bytes.len() - 2;
        bytes[last] ^= 1;
        fs::write(path, bytes).expect("written");
    });
    assert!(error.contains("model.safetensors` was written to while it was in use"), "{error}");
    assert!(!dir.path("a.wav").exists());
}
