//! Conditioning in and out as files, so that two implementations can be compared stage by stage.
//!
//! A folder holds `encoder_hidden_states`, `context_latents` and `initial_noise`, each as
//! `NAME.bin` (three little-endian `int32`, the shape, then f32 row-major: the format that the
//! Swift port exchanges), and all three in `conditioning.safetensors`.

use std::{collections::HashMap, io::Write, path::Path};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::{Error, files::write_whole};

const NAMES: [&str; 3] = ["encoder_hidden_states", "context_latents", "initial_noise"];
const SAFETENSORS: &str = "conditioning.safetensors";

/// A three-dimensional array on the host, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Array3 {
    /// Its lengths, slowest first.
    pub shape: [usize; 3],
    /// Its values: as many as the product of the lengths.
    pub data: Vec<f32>,
}

impl Array3 {
    /// An array of `data`.
    ///
    /// # Panics
    /// If the number of values does not fit the shape: a mistake of ours.
    pub fn new(shape: [usize; 3], data: Vec<f32>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), data.len(), "shape {shape:?}");
        Self { shape, data }
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.data.iter().flat_map(|x| x.to_le_bytes()).collect()
    }
}

/// Everything that the sampler reads.
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

    /// The three shapes must describe one song: `[B, L, H]`, `[B, T, 2 C]`, `[B, T, C]`.
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

    /// Writes all four files into `folder`, which is made if it is missing.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::AlreadyExists`] unless `replace`.
    pub fn save(&self, folder: &Path, replace: bool) -> Result<(), Error> {
        std::fs::create_dir_all(folder).map_err(|e| file_error("create", folder, e))?;
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
            write_bytes(&path, &bytes, replace)?;
        }
        write_bytes(&folder.join(SAFETENSORS), &self.to_safetensors(folder)?, replace)
    }

    fn to_safetensors(&self, folder: &Path) -> Result<Vec<u8>, Error> {
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
            .or_else(|e| bad(&folder.join(SAFETENSORS), e.to_string()))
    }

    /// Reads a folder that holds the three `.bin` files, `conditioning.safetensors`, or both.
    ///
    /// # Errors
    /// [`Error::File`] if a file is missing or unreadable; [`Error::Conditioning`] if one is not
    /// as promised, or if the two forms disagree.
    pub fn load(folder: &Path) -> Result<Self, Error> {
        let any_bin = NAMES.iter().any(|name| folder.join(format!("{name}.bin")).exists());
        let path = folder.join(SAFETENSORS);
        let both = any_bin && path.exists();
        let conditioning = if any_bin { load_bins(folder)? } else { load_safetensors(&path)? };
        if both && load_safetensors(&path)? != conditioning {
            return bad(&path, "it differs from the .bin files beside it: remove one form".into());
        }
        conditioning.check(folder)?;
        Ok(conditioning)
    }
}

/// Bytes before the values: three lengths.
const HEADER: usize = 12;

fn load_bins(folder: &Path) -> Result<Conditioning, Error> {
    let [a, b, c] = NAMES.map(|name| load_bin(&folder.join(format!("{name}.bin"))));
    Ok(Conditioning::from_arrays([a?, b?, c?]))
}

fn load_bin(path: &Path) -> Result<Array3, Error> {
    let bytes = std::fs::read(path).map_err(|e| file_error("read", path, e))?;
    let Some((header, values)) = bytes.split_at_checked(HEADER) else {
        return bad(path, format!("{} bytes, less than its {HEADER} of shape", bytes.len()));
    };
    let mut shape = [0; 3];
    for (length, raw) in shape.iter_mut().zip(header.chunks_exact(4)) {
        let read = i32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
        match usize::try_from(read) {
            Ok(read) if read > 0 => *length = read,
            _ => return bad(path, format!("its shape has a length of {read}")),
        }
    }
    let expected: u128 = 4 * shape.iter().map(|&n| n as u128).product::<u128>();
    if expected != values.len() as u128 {
        let found = values.len();
        return bad(
            path,
            format!("shape {shape:?} needs {expected} bytes of values, but {found} follow"),
        );
    }
    finite(path, Array3 { shape, data: floats(values) })
}

fn load_safetensors(path: &Path) -> Result<Conditioning, Error> {
    let bytes = std::fs::read(path).map_err(|e| file_error("read", path, e))?;
    let tensors = SafeTensors::deserialize(&bytes).or_else(|e| bad(path, e.to_string()))?;
    let [a, b, c] = NAMES.map(|name| {
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
    });
    Ok(Conditioning::from_arrays([a?, b?, c?]))
}

/// A NaN would otherwise be blamed on the first network that reads it.
fn finite(path: &Path, array: Array3) -> Result<Array3, Error> {
    match array.data.iter().position(|x| !x.is_finite()) {
        Some(i) => bad(path, format!("value {i} is {}", array.data[i])),
        None => Ok(array),
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn write_bytes(path: &Path, bytes: &[u8], replace: bool) -> Result<(), Error> {
    write_whole(path, replace, |file| {
        file.write_all(bytes).map_err(|e| file_error("write", path, e))
    })
}

fn file_error(action: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::File { action, path: path.to_owned(), source }
}

fn bad<T>(path: &Path, why: String) -> Result<T, Error> {
    Err(Error::Conditioning { path: path.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditioning() -> Conditioning {
        let array = |shape: [usize; 3], first: f32| {
            let n: usize = shape.iter().product();
            Array3::new(shape, (0..n).map(|i| first + i as f32).collect())
        };
        Conditioning {
            encoder_hidden_states: array([1, 3, 4], 0.5),
            context_latents: array([1, 2, 4], -1.0),
            initial_noise: array([1, 2, 2], 100.0),
        }
    }

    fn saved() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        conditioning().save(folder.path(), false).expect("saved");
        folder
    }

    #[test]
    fn a_bin_is_three_int32_and_then_the_values() {
        let folder = saved();
        let bytes = std::fs::read(folder.path().join("initial_noise.bin")).expect("readable");
        assert_eq!(bytes.len(), 12 + 16);
        assert_eq!(bytes[..12], [1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(bytes[16..20], 101f32.to_le_bytes());
    }

    #[test]
    fn what_was_saved_is_loaded_from_either_form() {
        let folder = saved();
        assert_eq!(Conditioning::load(folder.path()).expect("both forms"), conditioning());
        let path = folder.path().join(SAFETENSORS);
        std::fs::rename(&path, folder.path().join("aside")).expect("moved");
        assert_eq!(Conditioning::load(folder.path()).expect("bins"), conditioning());
        std::fs::rename(folder.path().join("aside"), &path).expect("moved");
        for name in NAMES {
            std::fs::remove_file(folder.path().join(format!("{name}.bin"))).expect("removed");
        }
        assert_eq!(Conditioning::load(folder.path()).expect("safetensors"), conditioning());
    }

    #[test]
    fn every_cut_and_every_longer_bin_is_refused() {
        let folder = saved();
        let path = folder.path().join("context_latents.bin");
        let whole = std::fs::read(&path).expect("readable");
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).expect("written");
            let error = Conditioning::load(folder.path()).expect_err("cut");
            assert!(matches!(error, Error::Conditioning { .. }), "{length}: {error}");
        }
        std::fs::write(&path, [&whole[..], &[0]].concat()).expect("written");
        let error = Conditioning::load(folder.path()).expect_err("too long").to_string();
        assert!(error.ends_with("shape [1, 2, 4] needs 32 bytes of values, but 33 follow"));
    }

    #[test]
    fn shapes_that_are_negative_huge_or_zero_are_refused() {
        let folder = saved();
        let path = folder.path().join("context_latents.bin");
        for (length, message) in
            [(-1i32, "its shape has a length of -1"), (0, "its shape has a length of 0")]
        {
            let mut bytes = std::fs::read(&path).expect("readable");
            bytes[4..8].copy_from_slice(&length.to_le_bytes());
            std::fs::write(&path, bytes).expect("written");
            let error = Conditioning::load(folder.path()).expect_err("shape").to_string();
            assert!(error.ends_with(message), "{error}");
        }
        std::fs::write(&path, i32::MAX.to_le_bytes().repeat(3)).expect("written");
        assert!(Conditioning::load(folder.path()).is_err());
    }

    #[test]
    fn forms_that_disagree_are_refused() {
        let folder = saved();
        let mut other = conditioning();
        other.initial_noise.data[1] += 1.0;
        let bytes = other.to_safetensors(folder.path()).expect("bytes");
        std::fs::write(folder.path().join(SAFETENSORS), bytes).expect("written");
        let error = Conditioning::load(folder.path()).expect_err("disagreement").to_string();
        assert!(error.ends_with("it differs from the .bin files beside it: remove one form"));
    }

    #[test]
    fn shapes_of_different_songs_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mixed = conditioning();
        mixed.initial_noise = Array3::new([1, 3, 2], vec![0.0; 6]);
        mixed.save(folder.path(), false).expect("saved");
        let error = Conditioning::load(folder.path()).expect_err("mixed").to_string();
        assert!(error.contains("context_latents [1, 2, 4] [B, T, 2 C]"), "{error}");
    }

    #[test]
    fn a_nan_and_a_missing_file_are_named() {
        let folder = saved();
        let mut broken = conditioning();
        broken.initial_noise.data[2] = f32::NAN;
        broken.save(folder.path(), true).expect("saved");
        let error = Conditioning::load(folder.path()).expect_err("NaN").to_string();
        assert!(error.ends_with("initial_noise.bin` is no conditioning file: value 2 is NaN"));
        std::fs::remove_file(folder.path().join("initial_noise.bin")).expect("removed");
        let error = Conditioning::load(folder.path()).expect_err("missing").to_string();
        assert!(error.starts_with("cannot read") && error.ends_with("initial_noise.bin`"));
    }

    #[test]
    fn saving_twice_needs_permission() {
        let folder = saved();
        let error = conditioning().save(folder.path(), false).expect_err("there already");
        assert!(matches!(error, Error::AlreadyExists { .. }));
    }
}
