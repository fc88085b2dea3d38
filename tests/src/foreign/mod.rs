//! The tiny checkpoint in the formats of other programs: GGUF, ComfyUI's single file, diffusers.
//!
//! The writers follow the descriptions of the formats. They share no code with the readers.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

mod comfy;
mod diffusers;
mod gguf;
mod qwentts;

pub use comfy::{write_comfy_checkpoint, write_comfy_split};
pub use diffusers::write_diffusers;
pub use gguf::{
    Weights, value_bool, value_float, value_number, value_numbers, value_text, value_texts,
    write_gguf, write_gguf_models,
};
pub use qwentts::{
    GgufValue, qwentts_codec, qwentts_talker, write_qwentts, write_qwentts_codec,
    write_qwentts_talker, write_rounded_release,
};

/// Returns the folder in the released layout. All other formats are made from it.
pub fn released() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/goldens/checkpoints_a")).to_owned()
}

/// An f32 tensor of a safetensors file.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The shape, outermost dimension first.
    pub shape: Vec<usize>,
    /// The values, row-major.
    pub values: Vec<f32>,
}

/// Tensors by name.
pub type Stack = BTreeMap<String, Stored>;

/// Reads the tensors of a safetensors file, all f32 or bf16.
pub fn read(path: &Path) -> Stack {
    let bytes = fs::read(path).expect("a golden");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    let header: BTreeMap<String, Value> =
        serde_json::from_slice(&bytes[8..8 + length]).expect("a header");
    let number = |value: &Value| value.as_u64().expect("a number") as usize;
    let tensors = header.into_iter().filter(|(name, _)| name != "__metadata__");
    tensors
        .map(|(name, value)| {
            let shape = value["shape"].as_array().expect("sizes").iter().map(number).collect();
            let [begin, end] = [0, 1].map(|at| 8 + length + number(&value["data_offsets"][at]));
            let values = match value["dtype"].as_str() {
                Some("F32") => floats(&bytes[begin..end]),
                Some("BF16") => upper_halves(&bytes[begin..end]),
                other => panic!("{name} is {other:?}"),
            };
            (name, Stored { shape, values })
        })
        .collect()
}

/// Writes `tensors` as an f32 safetensors file.
pub fn write(path: &Path, tensors: &Stack) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, Stored { shape, values }) in tensors {
        let begin = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let offsets = [begin, data.len()];
        header.insert(
            name.clone(),
            json!({ "dtype": "F32", "shape": shape, "data_offsets": offsets }),
        );
    }
    let header = Value::Object(header).to_string();
    let length = (header.len() as u64).to_le_bytes();
    save(path, &[&length, header.as_bytes(), &data].concat());
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.chunks_exact(4);
    words.map(|word| f32::from_le_bytes(word.try_into().expect("4 bytes"))).collect()
}

/// Reads values that are the upper halves of f32.
fn upper_halves(bytes: &[u8]) -> Vec<f32> {
    let value = |half: &[u8]| f32::from_bits(u32::from_le_bytes([0, 0, half[0], half[1]]));
    bytes.chunks_exact(2).map(value).collect()
}

fn save(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a place")).expect("a directory");
    fs::write(path, bytes).expect("a written file");
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("a text")
}

/// Reads the latent of silence as `[T, C]` from a PyTorch file that holds `[1, C, T]`.
///
/// The values are the zip entry `*/data/0`.
pub fn silence() -> Stored {
    let bytes = fs::read(released().join("acestep-v15-turbo/silence_latent.pt")).expect("a file");
    let u16_at = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let u32_at = |at: usize| u16_at(at) | u16_at(at + 2) << 16;
    let entry = (0..bytes.len() - 46)
        .filter(|&at| bytes[at..].starts_with(b"PK\x01\x02"))
        .find(|&at| bytes[at + 46..at + 46 + u16_at(at + 28)].ends_with(b"/data/0"))
        .expect("the values in the list of entries");
    let (size, local) = (u32_at(entry + 24), u32_at(entry + 42));
    let start = local + 30 + u16_at(local + 26) + u16_at(local + 28);
    let values = floats(&bytes[start..start + size]);
    let channels = 16;
    let frames = values.len() / channels;
    let turned = (0..frames).flat_map(|t| (0..channels).map(move |c| c * frames + t));
    Stored { shape: vec![frames, channels], values: turned.map(|at| values[at]).collect() }
}
