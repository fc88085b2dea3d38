//! Reads and writes conditioning files, to compare two implementations stage by stage.
//!
//! A folder holds `encoder_hidden_states`, `context_latents` and `initial_noise`, each as
//! `NAME.bin` (three little-endian `int32`, the shape, then f32 row-major: the format of the
//! Swift port), and all three in `conditioning.safetensors`.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{Read, Write},
    path::Path,
};

use acestep_engine::{
    Action, Error,
    files::{Existing, write_whole},
};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::SongError;

const NAMES: [&str; 3] = ["encoder_hidden_states", "context_latents", "initial_noise"];
const SAFETENSORS: &str = "conditioning.safetensors";

/// Magic bytes of other files, whose lengths are sometimes whole frames.
const FOREIGN: [(&[u8], &str); 9] = [
    (b"RIFF", "a WAV file"),
    (b"fLaC", "a FLAC file"),
    (b"OggS", "an Ogg file"),
    (b"ID3", "an MP3 file"),
    (b"FORM", "an AIFF file"),
    (b"GGUF", "a GGUF file"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
];

/// Returns the kind of another file if `bytes` begin like one.
pub(crate) fn foreign(bytes: &[u8]) -> Option<&'static str> {
    let by_name = FOREIGN.iter().find(|(first, _)| bytes.starts_with(first));
    match by_name {
        Some((_, what)) => Some(what),
        None if bytes.get(4..8) == Some(b"ftyp") => Some("an M4A file"),
        None if bytes.starts_with(b"{") && std::str::from_utf8(bytes).is_ok() => Some("JSON"),
        None => None,
    }
}

/// A three-dimensional array on the host, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Array3 {
    /// Lengths, slowest axis first.
    pub shape: [usize; 3],
    /// Values; their number is the product of the lengths.
    pub data: Vec<f32>,
}

impl Array3 {
    /// Returns an array of `data`.
    ///
    /// # Panics
    /// If the number of values does not match the shape.
    pub fn new(shape: [usize; 3], data: Vec<f32>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), data.len(), "shape {shape:?}");
        Self { shape, data }
    }

    /// Returns the values in little-endian order.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.data.iter().flat_map(|x| x.to_le_bytes()).collect()
    }
}

/// All inputs of the sampler.
#[derive(Debug, Clone, PartialEq)]
pub struct Conditioning {
    /// Lyrics, timbre and text, packed: `[B, L, H]`.
    pub encoder_hidden_states: Array3,
    /// Source latents and chunk mask: `[B, T, 2 C]`.
    pub context_latents: Array3,
    /// Noise: `[B, T, C]`.
    pub initial_noise: Array3,
}

impl Conditioning {
    fn arrays(&self) -> [&Array3; 3] {
        [&self.encoder_hidden_states, &self.context_latents, &self.initial_noise]
    }

    fn from_arrays([encoder_hidden_states, context_latents, initial_noise]: [Array3; 3]) -> Self {
        Self { encoder_hidden_states, context_latents, initial_noise }
    }

    /// Checks that the three shapes belong to one song: `[B, L, H]`, `[B, T, 2 C]`, `[B, T, C]`.
    fn check(&self, folder: &Path) -> Result<(), Error> {
        let [condition, context, noise] = self.arrays().map(|array| array.shape);
        let fits =
            condition[0] == noise[0] && context[..2] == noise[..2] && context[2] == 2 * noise[2];
        if fits {
            return Ok(());
        }
        bad(
            folder,
            format!(
                "the shapes do not fit together: encoder_hidden_states {condition:?} should be \
                 [B, L, H], context_latents {context:?} [B, T, 2 C], initial_noise {noise:?} \
                 [B, T, C]"
            ),
        )
    }

    /// Writes all four files into `folder`, and creates it if it is missing.
    ///
    /// # Errors
    /// The errors of [`write_whole`].
    pub fn save(&self, folder: &Path, existing: Existing) -> Result<(), Error> {
        std::fs::create_dir_all(folder).map_err(|e| file_error(Action::Create, folder, e))?;
        for (name, array) in NAMES.into_iter().zip(self.arrays()) {
            let path = folder.join(format!("{name}.bin"));
            let mut bytes = Vec::with_capacity(HEADER + 4 * array.data.len());
            for length in array.shape {
                let Ok(length) = i32::try_from(length) else {
                    return bad(&path, format!("a length of {length} does not fit into an int32"));
                };
                bytes.extend(length.to_le_bytes());
            }
            bytes.extend(array.to_bytes());
            write_bytes(&path, &bytes, existing)?;
        }
        write_bytes(&folder.join(SAFETENSORS), &self.to_safetensors()?, existing)
    }

    /// Returns the bytes of a file `conditioning.safetensors`.
    ///
    /// # Errors
    /// [`SongError::Conditioning`] if the arrays are no file of safetensors.
    pub fn to_safetensors(&self) -> Result<Vec<u8>, Error> {
        let buffers = self.arrays().map(Array3::to_bytes);
        let views: Result<Vec<_>, _> = NAMES
            .into_iter()
            .zip(self.arrays().into_iter().zip(&buffers))
            .map(|(name, (array, bytes))| {
                Ok((name, TensorView::new(Dtype::F32, array.shape.to_vec(), bytes)?))
            })
            .collect();
        views
            .and_then(|views| safetensors::serialize(views, None::<HashMap<_, _>>))
            .or_else(|e| bad(Path::new(SAFETENSORS), e.to_string()))
    }

    /// Reads a folder that holds the three `.bin` files, `conditioning.safetensors`, or both; or such a
    /// file itself.
    ///
    /// # Errors
    /// [`Error::File`] if a file is missing or unreadable; [`SongError::Conditioning`] if one does not
    /// have the expected format, or if the two forms differ.
    pub fn load(folder: &Path) -> Result<Self, Error> {
        let is_file = folder.is_file();
        let path = if is_file { folder.to_owned() } else { folder.join(SAFETENSORS) };
        let any_bin = NAMES.iter().any(|name| folder.join(format!("{name}.bin")).exists());
        let conditioning = if any_bin { load_bins(folder)? } else { load_safetensors(&path)? };
        if any_bin && path.exists() && load_safetensors(&path)? != conditioning {
            return bad(&path, "it differs from the .bin files beside it: remove one form".into());
        }
        conditioning.check(folder)?;
        Ok(conditioning)
    }
}

/// Size of the header, which holds three lengths, in bytes.
const HEADER: usize = 12;

/// Maximum file size: eight songs of ten minutes need a third of it.
const MOST_BYTES: u64 = 1 << 30;

/// Reads one array: by the tensor's `name` from safetensors, any other file as a `.bin`. A file of
/// safetensors may have another name.
///
/// # Errors
/// [`Error::File`]; [`SongError::Conditioning`] if the file does not have the expected format.
pub fn load_array(path: &Path, name: &str) -> Result<Array3, Error> {
    let is_named = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("safetensors"));
    if is_named || begins_as_safetensors(path)? {
        from_safetensors(path, &read(path)?, name)
    } else {
        load_bin(path)
    }
}

/// True if a file begins with the length of a header, which fits into the file, and with `{`. The first
/// eight bytes of a `.bin` are the numbers of songs and frames. Read as one length, they exceed any file.
fn begins_as_safetensors(path: &Path) -> Result<bool, Error> {
    let (file, size) = open(path)?;
    let mut first = Vec::new();
    file.take(9).read_to_end(&mut first).map_err(|e| file_error(Action::Read, path, e))?;
    Ok(match first[..] {
        [a, b, c, d, e, f, g, h, b'{'] => u64::from_le_bytes([a, b, c, d, e, f, g, h]) < size,
        _ => false,
    })
}

fn load_bins(folder: &Path) -> Result<Conditioning, Error> {
    let [a, b, c] = NAMES.map(|name| load_bin(&folder.join(format!("{name}.bin"))));
    Ok(Conditioning::from_arrays([a?, b?, c?]))
}

fn load_safetensors(path: &Path) -> Result<Conditioning, Error> {
    let bytes = read(path)?;
    let [a, b, c] = NAMES.map(|name| from_safetensors(path, &bytes, name));
    Ok(Conditioning::from_arrays([a?, b?, c?]))
}

/// Checks the shape against the file size first, so that a wrong shape allocates nothing.
fn load_bin(path: &Path) -> Result<Array3, Error> {
    let (mut file, size) = open(path)?;
    let failed = |e| file_error(Action::Read, path, e);
    let Some(found) = size.checked_sub(HEADER as u64) else {
        return bad(path, format!("{size} bytes, less than its {HEADER} of shape"));
    };
    let mut header = [0; HEADER];
    file.read_exact(&mut header).map_err(failed)?;
    let mut shape = [0; 3];
    for (length, raw) in shape.iter_mut().zip(header.chunks_exact(4)) {
        let read = i32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
        match usize::try_from(read) {
            Ok(read) if read > 0 => *length = read,
            _ => return bad(path, format!("its shape has a length of {read}")),
        }
    }
    if let Some(what) = foreign(&header) {
        return bad(path, format!("it is {what}"));
    }
    // Four bytes times three lengths below 2^31 fit into 95 bits.
    let expected: u128 = 4 * shape.iter().map(|&n| n as u128).product::<u128>();
    if expected != u128::from(found) {
        return bad(
            path,
            format!("shape {shape:?} needs {expected} bytes of values, but {found} follow"),
        );
    }
    let mut values = Vec::new();
    file.take(found).read_to_end(&mut values).map_err(failed)?;
    if values.len() as u64 != found {
        return bad(path, "it became shorter while it was read".into());
    }
    finite(path, Array3 { shape, data: floats(&values) })
}

fn from_safetensors(path: &Path, bytes: &[u8], name: &str) -> Result<Array3, Error> {
    let tensors = SafeTensors::deserialize(bytes).or_else(|e| bad(path, e.to_string()))?;
    let view = tensors.tensor(name).or_else(|e| bad(path, e.to_string()))?;
    let &[x, y, z] = view.shape() else {
        return bad(path, format!("{name} has shape {:?}, not three lengths", view.shape()));
    };
    if view.dtype() != Dtype::F32 {
        return bad(path, format!("{name} is {:?}, not F32", view.dtype()));
    }
    if view.data().is_empty() {
        return bad(path, format!("{name} is empty"));
    }
    finite(path, Array3 { shape: [x, y, z], data: floats(view.data()) })
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let (file, size) = open(path)?;
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes).map_err(|e| file_error(Action::Read, path, e))?;
    Ok(bytes)
}

/// Opens a regular file of at most [`MOST_BYTES`], and returns it with its size.
fn open(path: &Path) -> Result<(File, u64), Error> {
    let failed = |e| file_error(Action::Read, path, e);
    // Checked before opening: opening a pipe would wait for its writer.
    let found = fs::metadata(path).map_err(failed)?;
    if !found.is_file() {
        return bad(path, "it is not a regular file".into());
    }
    if found.len() > MOST_BYTES {
        let size = found.len();
        return bad(path, format!("its {size} bytes are more than any song needs ({MOST_BYTES})"));
    }
    Ok((File::open(path).map_err(failed)?, found.len()))
}

/// Rejects NaN and infinity, because a later check would blame the first network that reads them.
fn finite(path: &Path, array: Array3) -> Result<Array3, Error> {
    match array.data.iter().position(|x| !x.is_finite()) {
        Some(i) => bad(path, format!("value {i} is {}", array.data[i])),
        None => Ok(array),
    }
}

/// Reads little-endian values.
pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

fn write_bytes(path: &Path, bytes: &[u8], existing: Existing) -> Result<(), Error> {
    write_whole(path, existing, |file| file.write_all(bytes))
}

fn file_error(action: Action, path: &Path, source: std::io::Error) -> Error {
    Error::File { action, path: path.to_owned(), source }
}

fn bad<T>(path: &Path, why: String) -> Result<T, Error> {
    Err(SongError::Conditioning { path: path.to_owned(), why }.into())
}

#[cfg(test)]
mod tests;
