//! Conditioning in and out as files, so that two implementations can be compared stage by stage.
//!
//! A folder holds `encoder_hidden_states`, `context_latents` and `initial_noise`, each as
//! `NAME.bin` (three little-endian `int32`, the shape, then f32 row-major: the format that the
//! Swift port exchanges), and all three in `conditioning.safetensors`.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{Read, Write},
    path::Path,
};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::{
    Action, Error,
    files::{Existing, write_whole},
};

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
    /// Those of [`write_whole`].
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
        write_bytes(&folder.join(SAFETENSORS), &self.to_safetensors(folder)?, existing)
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

/// No conditioning is larger: eight songs of ten minutes are a third of it.
const MOST_BYTES: u64 = 1 << 30;

/// Reads one array: a `.safetensors` by the tensor's `name`, any other file as a `.bin`.
///
/// # Errors
/// [`Error::File`]; [`Error::Conditioning`] if the file is not as promised.
pub fn load_array(path: &Path, name: &str) -> Result<Array3, Error> {
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("safetensors")) {
        from_safetensors(path, &read(path)?, name)
    } else {
        load_bin(path)
    }
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

/// Reads the shape first: nothing is allocated for values that are not there.
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
    // Three lengths below 2^31 and four bytes fit into 95 bits.
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

/// Opens a regular file of at most [`MOST_BYTES`], and gives its size.
fn open(path: &Path) -> Result<(File, u64), Error> {
    let failed = |e| file_error(Action::Read, path, e);
    // Asked before it is opened: opening a pipe waits for its writer.
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

fn write_bytes(path: &Path, bytes: &[u8], existing: Existing) -> Result<(), Error> {
    write_whole(path, existing, |file| {
        file.write_all(bytes).map_err(|e| file_error(Action::Write, path, e))
    })
}

fn file_error(action: Action, path: &Path, source: std::io::Error) -> Error {
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
        conditioning().save(folder.path(), Existing::Keep).expect("saved");
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
        let error = Conditioning::load(folder.path()).expect_err("huge").to_string();
        assert!(error.ends_with("bytes of values, but 0 follow"), "{error}");
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
        mixed.save(folder.path(), Existing::Keep).expect("saved");
        let error = Conditioning::load(folder.path()).expect_err("mixed").to_string();
        assert!(error.contains("context_latents [1, 2, 4] [B, T, 2 C]"), "{error}");
    }

    #[test]
    fn a_nan_and_a_missing_file_are_named() {
        let folder = saved();
        let mut broken = conditioning();
        broken.initial_noise.data[2] = f32::NAN;
        broken.save(folder.path(), Existing::Replace).expect("saved");
        let error = Conditioning::load(folder.path()).expect_err("NaN").to_string();
        assert!(
            error.ends_with("initial_noise.bin` cannot be used as conditioning: value 2 is NaN")
        );
        std::fs::remove_file(folder.path().join("initial_noise.bin")).expect("removed");
        let error = Conditioning::load(folder.path()).expect_err("missing").to_string();
        assert!(error.starts_with("cannot read") && error.ends_with("initial_noise.bin`"));
    }

    #[test]
    fn saving_twice_needs_permission() {
        let folder = saved();
        let error = conditioning().save(folder.path(), Existing::Keep).expect_err("there already");
        assert!(matches!(error, Error::AlreadyExists { .. }));
    }

    #[test]
    fn one_array_is_loaded_from_either_form() {
        let folder = saved();
        for file in ["initial_noise.bin", SAFETENSORS] {
            let array = load_array(&folder.path().join(file), "initial_noise").expect(file);
            assert_eq!(array, conditioning().initial_noise);
        }
    }

    #[test]
    fn an_array_without_values_is_refused_in_either_form() {
        let folder = tempfile::tempdir().expect("a folder");
        let empty = TensorView::new(Dtype::F32, vec![1, 0, 4], &[]).expect("a view");
        let bytes = safetensors::serialize([("initial_noise", empty)], None).expect("bytes");
        let path = folder.path().join("empty.safetensors");
        std::fs::write(&path, bytes).expect("written");
        let error = load_array(&path, "initial_noise").expect_err("empty").to_string();
        assert!(error.ends_with("initial_noise is empty"), "{error}");
        let path = folder.path().join("empty.bin");
        std::fs::write(&path, [1i32, 0, 4].map(i32::to_le_bytes).concat()).expect("written");
        let error = load_array(&path, "initial_noise").expect_err("empty").to_string();
        assert!(error.ends_with("its shape has a length of 0"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_no_regular_file_or_larger_than_any_song_is_not_read() {
        let error = load_array(Path::new("/dev/zero"), "initial_noise").expect_err("a device");
        assert!(error.to_string().ends_with("it is not a regular file"), "{error}");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sparse.safetensors");
        File::create(&path).and_then(|file| file.set_len(1 << 40)).expect("a file of holes");
        let error = load_array(&path, "initial_noise").expect_err("huge").to_string();
        assert!(error.contains("more than any song needs"), "{error}");
    }
}
