//! Files of latents, the VAE's encoding of sound: in the released models 25 frames per second of 64
//! values.
//!
//! | format | content | bytes per frame of 64 |
//! |---|---|---|
//! | `safetensors` | `latents`, `[T, 64]` f32 | 256 |
//! | `vae` | `[T, 64]` f32, little-endian, nothing else | 256 |
//! | `nac8` | `NAC8`, `T` as u32; each frame an f16 scale and 64 int8 | 66 |
//! | `nac4` | `NAC4`, `T` as u32; each frame an f16 scale and 64 int4, the first in the low half | 34 |
//!
//! A frame's scale is its largest magnitude over 127 (7), and a value is `round(x / scale)`. So the
//! error is at most half a scale, plus the f16 rounding of the scale. The last three formats are
//! acestep.cpp's. The format is detected by content, never by file name.
//!
//! Source: acestep.cpp `tools/neural-codec.cpp`.

mod nac;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt,
    fs::{self, File},
    io::{Read, Write},
    path::Path,
    str::FromStr,
};

use acestep_engine::{
    Action, Error,
    check::choice,
    files::{Existing, write_whole},
};
use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::{
    SongError,
    exchange::{Array3, floats, foreign},
    named::named,
};

/// Values per frame; the same for every released VAE.
pub const CHANNELS: usize = 64;

/// Name of the tensor in a `.safetensors`.
const NAME: &str = "latents";

/// Maximum file size: eleven hours of sound.
const MOST_BYTES: u64 = 1 << 28;

/// Maximum magnitude of a latent; real songs stay within some tens.
const MOST_VALUE: f32 = 1e4;

named! {
    /// A file format of latents; its name is also the usual extension.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum LatentsFormat {
        /// Our own: named and typed.
        #[default]
        Safetensors = "safetensors",
        /// acestep.cpp's `.vae`: raw values.
        Vae = "vae",
        /// acestep.cpp's `.nac8`: int8.
        Nac8 = "nac8",
        /// acestep.cpp's `.nac4`: int4.
        Nac4 = "nac4",
    }
}

impl LatentsFormat {
    /// Returns the format of `path`'s extension.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        Self::ALL.into_iter().find(|format| extension.eq_ignore_ascii_case(format.name()))
    }
}

impl fmt::Display for LatentsFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LatentsFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fits = |format: &Self| text.trim().eq_ignore_ascii_case(format.name());
        let found = Self::ALL.into_iter().find(fits);
        found.map_or_else(|| choice("format", Some(text), &Self::NAMES), Ok)
    }
}

/// Reads a file of latents in any [`LatentsFormat`], detected by content: `[1, T, channels]`.
///
/// `channels` is the model's VAE width, [`CHANNELS`] in the released ones; only a `.safetensors`
/// states it itself.
///
/// # Errors
/// [`Error::File`] if it cannot be read, [`SongError::Latents`] if it holds no such latents.
pub fn read(path: &Path, channels: usize) -> Result<Array3, Error> {
    let failed = |source| Error::File { action: Action::Read, path: path.to_owned(), source };
    // Checked before opening: opening a pipe would wait for its writer.
    let found = fs::metadata(path).map_err(failed)?;
    let bad = |why: String| Error::from(SongError::Latents { path: path.to_owned(), why });
    if !found.is_file() {
        return Err(bad("it is not a regular file".into()));
    }
    if found.len() > MOST_BYTES {
        return Err(bad(format!("its {} bytes are more than any song has", found.len())));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    from_bytes(&bytes, channels).map(|(latents, _)| latents).map_err(bad)
}

/// Like [`read`], from memory; also returns the detected format.
///
/// # Errors
/// A description of the problem, as the end of a sentence.
pub fn from_bytes(bytes: &[u8], channels: usize) -> Result<(Array3, LatentsFormat), String> {
    let (data, format) = if let Some(data) = nac::read(bytes, channels, nac::EIGHT)? {
        (data, LatentsFormat::Nac8)
    } else if let Some(data) = nac::read(bytes, channels, nac::FOUR)? {
        (data, LatentsFormat::Nac4)
    } else if is_safetensors(bytes) {
        (from_safetensors(bytes, channels)?, LatentsFormat::Safetensors)
    } else {
        if let Some(what) = foreign(bytes) {
            return Err(format!("it is {what}"));
        }
        let frame = 4 * channels;
        if !bytes.len().is_multiple_of(frame) {
            return Err(format!(
                "it is no .safetensors, .nac8 or .nac4, and its {} bytes are no whole frames of \
                 {frame} bytes",
                bytes.len()
            ));
        }
        let values = floats(bytes);
        // This format has no header: only its values can be checked.
        if let Some(i) = values.iter().position(|x| x.is_nan() || x.abs() > MOST_VALUE) {
            return Err(format!("value {i} is {:.1e}: these are no latents", values[i]));
        }
        (values, LatentsFormat::Vae)
    };
    if data.is_empty() {
        return Err("there is no frame in it".into());
    }
    if let Some(i) = data.iter().position(|x| !x.is_finite()) {
        return Err(format!("value {i} is {}", data[i]));
    }
    Ok((Array3::new([1, data.len() / channels, channels], data), format))
}

/// Writes the latents of one song, `[1, T, C]`; the file appears whole or not at all.
///
/// # Errors
/// The errors of [`to_bytes`] and [`write_whole`].
pub fn save(
    path: &Path,
    latents: &Array3,
    format: LatentsFormat,
    frames_per_second: f64,
    existing: Existing,
) -> Result<(), Error> {
    let bytes = to_bytes(latents, format, frames_per_second)?;
    write_whole(path, existing, |file| file.write_all(&bytes))
}

/// Encodes a file of latents in memory.
///
/// # Errors
/// [`Error::Conflict`] if they are not those of one song, `[1, T, C]`, or too large for the format;
/// [`Error::NotFinite`].
pub fn to_bytes(
    latents: &Array3,
    format: LatentsFormat,
    frames_per_second: f64,
) -> Result<Vec<u8>, Error> {
    let [1, frames, channels] = latents.shape else {
        return Err(Error::Conflict(format!("latents of {:?} are not one song's", latents.shape)));
    };
    // Two int4 values share a byte.
    if format == LatentsFormat::Nac4 && !channels.is_multiple_of(2) {
        return Err(Error::Conflict(format!("nac4 holds no frames of {channels} numbers")));
    }
    acestep_engine::audio::loudness::require_finite("the VAE", &latents.data)?;
    match format {
        LatentsFormat::Vae => Ok(latents.to_bytes()),
        LatentsFormat::Nac8 => {
            nac::write(&latents.data, channels, nac::EIGHT).map_err(Error::Conflict)
        }
        LatentsFormat::Nac4 => {
            nac::write(&latents.data, channels, nac::FOUR).map_err(Error::Conflict)
        }
        LatentsFormat::Safetensors => {
            let bytes = latents.to_bytes();
            let metadata = HashMap::from([
                ("format".to_owned(), "acestep latents".to_owned()),
                ("frames_per_second".to_owned(), frames_per_second.to_string()),
            ]);
            TensorView::new(Dtype::F32, vec![frames, channels], &bytes)
                .and_then(|view| safetensors::serialize([(NAME, view)], Some(metadata)))
                .map_err(|e| Error::Conflict(format!("latents cannot be stored: {e}")))
        }
    }
}

/// True if `bytes` begin like a `.safetensors`: a length, then JSON. Latents never do, because as
/// floats these bytes are near zero and beyond 1e30.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else { return false };
    rest.first() == Some(&b'{') && u64::from_le_bytes(*length) < 100_000_000
}

fn from_safetensors(bytes: &[u8], channels: usize) -> Result<Vec<f32>, String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|e| e.to_string())?;
    let view = tensors.tensor(NAME).map_err(|_| {
        let mut names = tensors.names();
        names.sort_unstable();
        names.truncate(5);
        format!("it has no tensor `{NAME}`, but: {}", names.join(", "))
    })?;
    match view.shape() {
        [_, width] | [1, _, width] if *width == channels => (),
        shape => return Err(format!("`{NAME}` is {shape:?}, not [T, {channels}]")),
    }
    let pairs = || view.data().chunks_exact(2).map(|b| [b[0], b[1]]);
    match view.dtype() {
        Dtype::F32 => Ok(floats(view.data())),
        Dtype::F16 => Ok(pairs().map(|b| f16::from_le_bytes(b).to_f32()).collect()),
        Dtype::BF16 => Ok(pairs().map(|b| bf16::from_le_bytes(b).to_f32()).collect()),
        other => Err(format!("`{NAME}` is {other:?}, not F32, F16 or BF16")),
    }
}
