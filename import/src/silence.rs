//! The latent of silence, `silence_latent.pt`: `[1, C, T]` in the file, `[1, T, C]` here.
//!
//! `torch.save` writes a zip archive whose entries are stored uncompressed; a tensor's values are
//! the entry `*/data/0`, little-endian f32. The sizes are known (`C` from config.json), so the
//! pickle beside them is only asked whether it describes another order.
//!
//! Source: PyTorch's zip serialisation; upstream loads the tensor and swaps its last two axes.

use std::io::{Cursor, Read};

use burn::tensor::TensorData;
use zip::{CompressionMethod, ZipArchive, result::ZipError};

use crate::{Directory, Error, Tensors};

const PT: &str = "silence_latent.pt";
const SAFETENSORS: &str = "silence_latent.safetensors";
/// 600 s at 25 Hz take 3.8 MB; no latent of silence is longer than this.
const LIMIT: u64 = 1 << 28;

/// Reads the latent of silence from `directory` as f32.
///
/// `silence_latent.safetensors` is taken only where there is no `silence_latent.pt`.
///
/// # Shapes
/// - output: `[1, T, C]` with `C = channels`
///
/// # Errors
/// [`Error::MissingFile`], [`Error::BadSilence`], and those of a safetensors file.
pub(crate) fn read(directory: &Directory, channels: usize) -> Result<TensorData, Error> {
    let (file, values) = if directory.has(PT) {
        (PT, values_of_pt(directory, channels)?)
    } else if directory.has(SAFETENSORS) {
        (SAFETENSORS, values_of_safetensors(directory, channels)?)
    } else {
        let alternatives = format!(", and so is `{SAFETENSORS}`");
        return Err(Error::MissingFile { path: directory.path(PT), alternatives });
    };
    let bad =
        |reason: &str| Error::BadSilence { path: directory.path(file), reason: reason.into() };
    if values.iter().any(|value| !value.is_finite()) {
        return Err(bad("it has values that are not finite"));
    }
    if values.is_empty() {
        return Err(bad("it is empty"));
    }
    let frames = values.len() / channels;
    let transposed = // [C, T] -> [T, C]
        (0..frames).flat_map(|t| (0..channels).map(move |c| c * frames + t)).map(|i| values[i]);
    Ok(TensorData::new(transposed.collect(), [1, frames, channels]))
}

fn values_of_safetensors(directory: &Directory, channels: usize) -> Result<Vec<f32>, Error> {
    let bad = |reason: String| Error::BadSilence { path: directory.path(SAFETENSORS), reason };
    let tensors = Tensors::open_file(directory, SAFETENSORS)?;
    let names: Vec<_> = tensors.names().collect();
    let [name] = names[..] else {
        return Err(bad(format!("it has {} tensors instead of one", names.len())));
    };
    match tensors.shape(name)? {
        [1, c, _] if *c == channels => tensors.values(name),
        shape => Err(bad(format!("it is {shape:?} instead of [1, {channels}, T]"))),
    }
}

fn values_of_pt(directory: &Directory, channels: usize) -> Result<Vec<f32>, Error> {
    let bytes = directory.open(PT)?;
    let bad = |reason: String| Error::BadSilence { path: directory.path(PT), reason };
    let mut zip = ZipArchive::new(Cursor::new(bytes.all())).map_err(|error| {
        bad(format!("it is not a zip archive as torch.save writes it ({error})"))
    })?;
    let find =
        |suffix: &str| zip.file_names().find(|name| name.ends_with(suffix)).map(str::to_owned);
    let data = find("/data/0").ok_or_else(|| bad("it has no entry `*/data/0`".into()))?;
    let (byteorder, pickle) = (find("/byteorder"), find("/data.pkl"));

    if let Some(name) = byteorder {
        let order = entry(&mut zip, &name).map_err(bad)?;
        if order.trim_ascii() != b"little" {
            let order = String::from_utf8_lossy(&order).into_owned();
            return Err(bad(format!("its byte order is `{order}`, not `little`")));
        }
    }
    let data = entry(&mut zip, &data).map_err(bad)?;
    let row = channels * size_of::<f32>();
    if data.len() % row != 0 {
        let size = data.len();
        return Err(bad(format!("its {size} bytes are not a multiple of {channels} f32 channels")));
    }
    if let Some(name) = pickle {
        let pickle = entry(&mut zip, &name).map_err(bad)?;
        if is_transposed(&pickle, channels, data.len() / row) {
            return Err(bad(format!("it is [1, T, {channels}] instead of [1, {channels}, T]")));
        }
    }
    let words = data.chunks_exact(4);
    Ok(words.map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
}

/// The content of a stored entry.
fn entry(zip: &mut ZipArchive<Cursor<&[u8]>>, name: &str) -> Result<Vec<u8>, String> {
    let describe = |error: ZipError| format!("entry `{name}`: {error}");
    let index = zip.index_for_name(name).ok_or_else(|| format!("no entry `{name}`"))?;
    let method = zip.by_index_raw(index).map_err(describe)?.compression();
    if method != CompressionMethod::Stored {
        return Err(format!("entry `{name}` is compressed, torch.save stores plainly"));
    }
    let file = zip.by_index(index).map_err(describe)?;
    let mut content = Vec::new();
    // The archive's own size cannot be trusted before it is read.
    file.take(LIMIT)
        .read_to_end(&mut content)
        .map_err(|error| format!("entry `{name}`: {error}"))?;
    Ok(content)
}

/// Whether the pickle describes sizes `(.., T, C)` or strides `(.., 1, C)`: a tensor whose values
/// lie in another order than `[1, C, T]`.
fn is_transposed(pickle: &[u8], channels: usize, frames: usize) -> bool {
    const TUPLE2: u8 = 0x86;
    const TUPLE3: u8 = 0x87;
    let has = |a: usize, b: usize| {
        let pair = [int(a), int(b)].concat();
        pickle.windows(pair.len() + 1).any(|window| {
            window.starts_with(&pair) && [TUPLE2, TUPLE3].contains(&window[pair.len()])
        })
    };
    channels != frames && (has(frames, channels) || has(1, channels))
}

/// A number as pickle protocol 2 writes it: `BININT1`, `BININT2` or `BININT`.
fn int(value: usize) -> Vec<u8> {
    let bytes = (value as u64).to_le_bytes();
    match value {
        0..=0xFF => vec![b'K', bytes[0]],
        0x100..=0xFFFF => vec![b'M', bytes[0], bytes[1]],
        _ => vec![b'J', bytes[0], bytes[1], bytes[2], bytes[3]],
    }
}

#[cfg(test)]
mod tests;
