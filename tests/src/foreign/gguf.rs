//! GGUF files: the container, and the format of acestep.cpp.

use std::{collections::BTreeMap, path::Path};

use super::{Stack, Stored, read, released, save, silence, text};

/// The type of weights in a GGUF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// Unchanged.
    F32,
    /// Rounded to 11 bits.
    F16,
    /// The upper half of each f32, like acestep.cpp's converter.
    Bf16,
    /// One scale for 32 values, if the row length is a multiple of 32.
    Q8_0,
}

impl Weights {
    /// Returns the suffix of file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Q8_0 => "Q8_0",
        }
    }
}

/// Writes the tiny turbo model, its companions and the language model like acestep.cpp.
///
/// The files have names like `acestep-v15-turbo-F32.gguf`.
pub fn write_gguf_models(to: &Path, weights: Weights) {
    for (directory, file, architecture) in [
        ("acestep-v15-turbo", "model", "acestep-dit"),
        ("acestep-5Hz-lm-0.6B", "model", "acestep-lm"),
        ("Qwen3-Embedding-0.6B", "model", "acestep-text-enc"),
        ("vae", "diffusion_pytorch_model", "acestep-vae"),
    ] {
        let from = released().join(directory);
        let mut tensors = read(&from.join(format!("{file}.safetensors")));
        let mut values = vec![
            ("general.architecture", value_text(architecture)),
            ("general.name", value_text(directory)),
            ("acestep.config_json", value_text(&text(&from.join("config.json")))),
        ];
        if architecture == "acestep-dit" {
            tensors.insert("silence_latent".into(), silence());
            values.push(("acestep.is_turbo", [&7_u32.to_le_bytes()[..], &[1]].concat()));
        }
        if from.join("vocab.json").is_file() {
            let (tokens, merges) = vocabulary(&from);
            values.push(("tokenizer.ggml.model", value_text("gpt2")));
            values.push(("tokenizer.ggml.tokens", value_texts(&tokens)));
            values.push(("tokenizer.ggml.merges", value_texts(&merges)));
        }
        let path = to.join(format!("{directory}-{}.gguf", weights.name()));
        write_gguf(&path, &values, &tensors, |name, stored| {
            let plain = if weights == Weights::Q8_0 { Weights::F32 } else { weights };
            let is_kept = ["silence_latent", "scale_shift_table", "null_condition_emb"]
                .iter()
                .any(|own| name.contains(own));
            match stored.shape.last() {
                _ if name == "silence_latent" => Weights::F32,
                Some(row) if row % 32 == 0 && !is_kept && stored.shape.len() > 1 => weights,
                _ => plain,
            }
        });
    }
}

/// Reads the tokens, ordered by id, and the merges.
fn vocabulary(from: &Path) -> (Vec<String>, Vec<String>) {
    let ids: BTreeMap<String, usize> =
        serde_json::from_str(&text(&from.join("vocab.json"))).expect("a vocabulary");
    let mut tokens = vec![String::new(); ids.len()];
    ids.into_iter().for_each(|(token, id)| tokens[id] = token);
    let merges = text(&from.join("merges.txt"));
    let merges = merges.lines().filter(|line| !line.is_empty() && !line.starts_with("#version"));
    (tokens, merges.map(str::to_owned).collect())
}

fn bytes_of_text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// Encodes a string value: its type, then the string.
pub fn value_text(text: &str) -> Vec<u8> {
    [&8_u32.to_le_bytes()[..], &bytes_of_text(text)].concat()
}

/// Encodes a u32 value.
pub fn value_number(number: u32) -> Vec<u8> {
    [4_u32.to_le_bytes(), number.to_le_bytes()].concat()
}

/// Encodes an f32 value.
pub fn value_float(number: f32) -> Vec<u8> {
    [6_u32.to_le_bytes(), number.to_le_bytes()].concat()
}

/// Encodes a bool value.
pub fn value_bool(is_on: bool) -> Vec<u8> {
    [&7_u32.to_le_bytes()[..], &[u8::from(is_on)]].concat()
}

/// Encodes an array of i32.
pub fn value_numbers(numbers: &[i32]) -> Vec<u8> {
    let mut bytes = [9_u32.to_le_bytes(), 5_u32.to_le_bytes()].concat();
    bytes.extend((numbers.len() as u64).to_le_bytes());
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes
}

/// Encodes an array of strings.
pub fn value_texts(texts: &[String]) -> Vec<u8> {
    let mut bytes = [9_u32.to_le_bytes(), 8_u32.to_le_bytes()].concat();
    bytes.extend((texts.len() as u64).to_le_bytes());
    texts.iter().for_each(|text| bytes.extend(bytes_of_text(text)));
    bytes
}

/// Writes a GGUF file of version 3. `values` are pairs of a key and its encoded type and value.
pub fn write_gguf(
    path: &Path,
    values: &[(&str, Vec<u8>)],
    tensors: &Stack,
    weights: impl Fn(&str, &Stored) -> Weights,
) {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((values.len() as u64).to_le_bytes());
    for (key, value) in values {
        bytes.extend(bytes_of_text(key));
        bytes.extend(value);
    }
    let mut data = Vec::new();
    for (name, stored) in tensors {
        let (kind, stored_bytes) = match weights(name, stored) {
            Weights::F32 => {
                (0_u32, stored.values.iter().flat_map(|value| value.to_le_bytes()).collect())
            }
            Weights::F16 => {
                (1, stored.values.iter().flat_map(|value| half(*value).to_le_bytes()).collect())
            }
            Weights::Bf16 => {
                let upper = |value: &f32| ((value.to_bits() >> 16) as u16).to_le_bytes();
                (30, stored.values.iter().flat_map(upper).collect())
            }
            Weights::Q8_0 => (8, stored.values.chunks_exact(32).flat_map(block).collect()),
        };
        // ggml drops leading dimensions of size 1.
        let ones = stored.shape.iter().take_while(|&&size| size == 1).count();
        let shape = &stored.shape[ones.min(stored.shape.len() - 1)..];
        bytes.extend(bytes_of_text(name));
        bytes.extend((shape.len() as u32).to_le_bytes());
        shape.iter().rev().for_each(|&size| bytes.extend((size as u64).to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend((data.len() as u64).to_le_bytes());
        let stored_bytes: Vec<u8> = stored_bytes;
        data.extend(stored_bytes);
        data.resize(data.len().next_multiple_of(32), 0);
    }
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes.extend(data);
    save(path, &bytes);
}

/// Encodes a Q8_0 block. The scale is a power of two, so f16 holds it exactly.
///
/// The scale is at most 1/63 of the largest value; the error of a value is at most half the scale.
fn block(values: &[f32]) -> Vec<u8> {
    let most = values.iter().fold(0_f32, |most, value| most.max(value.abs()));
    let exponent = ((most / 127.0).log2().ceil() as i32).clamp(-14, 15);
    let scale = 2_f32.powi(exponent);
    let bits = ((exponent + 15) as u16) << 10;
    let numbers = values.iter().map(|value| ((value / scale).round() as i8).cast_unsigned());
    bits.to_le_bytes().into_iter().chain(numbers).collect()
}

/// Returns the values that `stored` has in a file as `weights`.
pub(super) fn rounded(stored: &Stored, weights: Weights) -> Stored {
    let values = stored.values.iter();
    let values = match weights {
        Weights::F32 => stored.values.clone(),
        Weights::F16 => values.map(|value| widened(half(*value))).collect(),
        Weights::Bf16 => values.map(|v| f32::from_bits(v.to_bits() & 0xffff_0000)).collect(),
        Weights::Q8_0 => stored.values.chunks_exact(32).flat_map(of_block).collect(),
    };
    Stored { shape: stored.shape.clone(), values }
}

/// Returns the values of a block.
fn of_block(values: &[f32]) -> Vec<f32> {
    let block = block(values);
    let scale = widened(u16::from_le_bytes([block[0], block[1]]));
    block[2..].iter().map(|byte| f32::from(byte.cast_signed()) * scale).collect()
}

/// Returns the f16 nearest to `value`, whose size is below 65504; the even one of two.
fn half(value: f32) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    // Steps of 2^-24 below 2^-14, and 2^10 steps for each power of two above.
    let exponent = (value.abs().log2().floor()).clamp(-14.0, 15.0) as i32;
    let steps = (f64::from(value.abs()) * 2_f64.powi(10 - exponent)).round_ties_even() as u16;
    sign | ((((exponent + 14) as u16) << 10) + steps)
}

/// Returns the value of an f16 that is finite.
fn widened(bits: u16) -> f32 {
    let (exponent, steps) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => steps * 2_f64.powi(-24),
        _ => (steps + 1024.0) * 2_f64.powi(exponent - 25),
    };
    if bits & 0x8000 == 0 { size as f32 } else { -size as f32 }
}
