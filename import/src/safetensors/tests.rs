use std::collections::HashMap;

use safetensors::Dtype::F32;

use super::*;
use crate::testing::{directory, file, stored};

fn open(files: &[(&str, Vec<u8>)]) -> Result<Vec<String>, Error> {
    let (_temporary, directory) = directory(files);
    Ok(Tensors::open(&directory)?.names().map(str::to_owned).collect())
}

fn with(name: &str) -> Vec<u8> {
    file(&[(name, stored(F32, &[1], &[1.0]))])
}

fn index(pairs: &[(&str, &str)]) -> Vec<u8> {
    let map: HashMap<_, _> = pairs.iter().copied().collect();
    serde_json::json!({ "weight_map": map }).to_string().into()
}

/// Reads tensor `name` with its shape in the file.
fn read(tensors: &Tensors, name: &str, dtype: DType) -> Result<TensorData, Error> {
    tensors.read_as(name, tensors.shape(name)?.to_vec(), dtype)
}

#[test]
fn one_file_comes_before_an_index_and_that_before_the_name_of_diffusers() -> Result<(), Error> {
    let files = [
        ("model.safetensors", with("single")),
        ("model.safetensors.index.json", index(&[("sharded", "s.safetensors")])),
        ("s.safetensors", with("sharded")),
        ("diffusion_pytorch_model.safetensors", with("diffusers")),
    ];
    assert_eq!(open(&files)?, ["single"]);
    assert_eq!(open(&files[1..])?, ["sharded"]);
    assert_eq!(open(&files[3..])?, ["diffusers"]);
    let index =
        ("diffusion_pytorch_model.safetensors.index.json", index(&[("sharded", "s.safetensors")]));
    assert_eq!(open(&[index, files[2].clone()])?, ["sharded"]);
    Ok(())
}

#[test]
fn a_directory_without_weights_is_told_by_the_file_it_lacks() {
    let error = open(&[("pytorch_model.bin", vec![0])]).expect_err("no weights").to_string();
    let file = format!("{}model.safetensors` is missing", std::path::MAIN_SEPARATOR);
    assert!(error.contains(&file), "{error}");
    assert!(error.contains("`diffusion_pytorch_model.safetensors`"), "{error}");
}

#[test]
fn each_contradiction_of_an_index_has_its_own_error() {
    let name = "model.safetensors.index.json";
    let error = open(&[(name, index(&[("a", "gone.safetensors")]))]).expect_err("no shard");
    assert!(matches!(&error, Error::MissingShard { shard, .. } if shard == "gone.safetensors"));

    let error = open(&[(name, index(&[("a", "s")])), ("s", with("b"))]).expect_err("no tensor");
    assert!(matches!(&error, Error::NotInShard { tensor, .. } if tensor == "a"), "{error}");

    let swapped = index(&[("a", "s2"), ("b", "s1")]);
    let error =
        open(&[(name, swapped), ("s1", with("a")), ("s2", with("b"))]).expect_err("swapped");
    assert!(matches!(&error, Error::NotInShard { tensor, .. } if tensor == "a"), "{error}");

    let double = index(&[("a", "s1"), ("b", "s2")]);
    let error = open(&[(name, double), ("s1", with("a")), ("s2", with("a"))]).expect_err("double");
    assert!(matches!(&error, Error::InTwoShards { tensor, .. } if tensor == "a"), "{error}");

    let error = open(&[(name, index(&[("a", "../s")]))]).expect_err("a path");
    assert!(error.to_string().contains("shard `../s` is not a file name"), "{error}");

    let error = open(&[(name, b"{}".to_vec())]).expect_err("no map");
    assert!(error.to_string().contains("missing field `weight_map`"), "{error}");
}

#[test]
fn a_file_cut_anywhere_is_an_error_that_names_it() {
    let whole = file(&[
        ("a", stored(F32, &[40], &[1.0; 40])),
        ("b", stored(F32, &[2, 30], &[2.0; 60])),
        ("c", stored(F32, &[1], &[3.0])),
    ]);
    for length in 0..whole.len() {
        let error = open(&[("model.safetensors", whole[..length].to_vec())]).expect_err("cut");
        assert!(matches!(error, Error::Cut { .. }), "{length}: {error}");
        assert!(error.to_string().contains("model.safetensors` is cut"), "{error}");
    }
    assert!(open(&[("model.safetensors", whole)]).is_ok());
}

/// Any damage gives an error or other values, never a panic.
#[test]
fn a_file_with_a_damaged_byte_never_panics() {
    let whole = file(&[("a", stored(F32, &[4], &[1.0; 4])), ("b", stored(F32, &[2], &[2.0; 2]))]);
    for at in 0..whole.len() {
        for value in [0, b'9', b'"', 0xFF] {
            let mut damaged = whole.clone();
            damaged[at] = value;
            let (_temporary, directory) = directory(&[("model.safetensors", damaged)]);
            if let Ok(tensors) = Tensors::open(&directory) {
                let names: Vec<_> = tensors.names().collect();
                // A wrong type or name may only be found when the tensor is read.
                names.iter().for_each(|name| drop(read(&tensors, name, DType::F32)));
            }
        }
    }
}

#[test]
fn values_that_are_not_aligned_in_the_file_are_read() -> Result<(), Error> {
    let header = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    assert_eq!(bytes.len() % 4, 2, "the point of this test");
    bytes.extend([1.5_f32, -2.0].iter().flat_map(|value| value.to_le_bytes()));
    let (_temporary, directory) = directory(&[("model.safetensors", bytes)]);
    let tensors = Tensors::open(&directory)?;
    assert_eq!(tensors.values::<f32>("a")?, [1.5, -2.0]);
    Ok(())
}

#[test]
fn a_tensor_longer_than_a_chunk_is_read_whole() -> Result<(), Error> {
    let count = CHUNK / 4 * 2 + 5;
    let values: Vec<f32> = (0..count).map(|i| (i % 1021) as f32).collect();
    let (_temporary, directory) =
        directory(&[("model.safetensors", file(&[("a", stored(F32, &[count], &values))]))]);
    assert_eq!(Tensors::open(&directory)?.values::<f32>("a")?, values);
    Ok(())
}

/// The first tensor starts after a header of a multiple of eight bytes; the last one is shifted by
/// an odd number of pairs.
#[test]
fn what_is_of_the_wanted_type_and_aligned_stays_where_it_is() -> Result<(), Error> {
    use burn::tensor::AllocationProperty;
    use safetensors::Dtype::BF16;

    let tensors =
        [("a", stored(BF16, &[3], &[1.0, 2.0, 3.0])), ("b", stored(BF16, &[2], &[4.0, 5.0]))];
    let (_temporary, directory) = directory(&[("model.safetensors", file(&tensors))]);
    let tensors = Tensors::open(&directory)?;
    let place = |name: &str, dtype| -> Result<_, Error> {
        let data = read(&tensors, name, dtype)?;
        let is_mapped = data.bytes.property() == AllocationProperty::File;
        Ok((is_mapped, data.convert::<f32>().to_vec::<f32>().expect("f32")))
    };
    let first = vec![1.0, 2.0, 3.0];
    assert_eq!(place("a", DType::BF16)?, (true, first.clone()));
    assert_eq!(place("a", DType::F32)?, (false, first.clone()));
    assert_eq!(place("b", DType::BF16)?, (false, vec![4.0, 5.0]));
    // Its pages were released with the value, and are mapped again.
    assert_eq!(place("a", DType::BF16)?, (true, first));
    Ok(())
}

/// Returns the kB of the map of the file at `path` that are in memory.
#[cfg(target_os = "linux")]
fn resident(path: &Path) -> u64 {
    let path = path.display().to_string();
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux has it");
    let own = maps.lines().skip_while(|line| !line.ends_with(&path));
    let size = own.filter_map(|line| line.strip_prefix("Rss:")).next().expect("a map");
    size.trim().strip_suffix(" kB").and_then(|size| size.parse().ok()).expect("a number")
}

/// Weights that a network uses in place are not read from the file again, and others do not take memory.
#[test]
#[cfg(target_os = "linux")]
fn a_sample_neither_maps_pages_nor_gives_them_back() -> Result<(), Error> {
    let count = 1 << 20;
    let values = vec![1.0; count];
    let tensors = ["a", "b", "c"].map(|name| (name, stored(F32, &[count], &values)));
    let (temporary, directory) = directory(&[("model.safetensors", file(&tensors))]);
    let path = temporary.path().join("model.safetensors");
    let tensors = Tensors::open(&directory)?;
    let opened = resident(&path);
    assert!(opened < 4096, "{opened} kB of 12 MiB");
    tensors.sample(&mut Sha256::new())?;
    assert!(resident(&path) <= opened, "{} kB of 12 MiB", resident(&path));

    let data = read(&tensors, "a", DType::F32)?;
    assert_eq!(data.iter::<f32>().sum::<f32>(), count as f32);
    let used = resident(&path);
    assert!(used >= 4096, "{used} kB of 12 MiB");
    tensors.sample(&mut Sha256::new())?;
    assert_eq!(resident(&path), used);
    Ok(())
}

/// Files that were written by an older version have the hash of the bytes in the map.
#[test]
fn a_sample_is_that_of_the_mapped_bytes() -> Result<(), Error> {
    let values: Vec<f32> = (0..900).map(|i| i as f32 / 7.0).collect();
    let of = |count: usize| stored(F32, &[count], &values[900 - count..]);
    let shards = [
        ("one.safetensors", file(&[("long", of(900)), ("single", of(1)), ("none", of(0))])),
        ("two.safetensors", file(&[("short", of(33)), ("half", of(64))])),
    ];
    let names = ["long", "single", "none", "short", "half"];
    let shard = |at: usize| shards[usize::from(at > 2)].0;
    let pairs: Vec<_> = names.iter().enumerate().map(|(at, name)| (*name, shard(at))).collect();
    let index = ("model.safetensors.index.json", index(&pairs));
    let (_temporary, directory) = directory(&[shards[0].clone(), shards[1].clone(), index]);
    let tensors = Tensors::open(&directory)?;
    let mut expected = Sha256::new();
    for (name, (file, Entry { shape, range, .. })) in &tensors.entries {
        let all = &tensors.files[*file].1.all()[range.clone()];
        expected.update(format!("{name} {shape:?} {}\n", all.len()));
        for start in [0, all.len() / 2] {
            expected.update(&all[start..all.len().min(start + 128)]);
        }
    }
    let (mut hash, mut in_memory) = (Sha256::new(), Sha256::new());
    tensors.sample(&mut hash)?;
    let expected = expected.finalize();
    assert_eq!(hash.finalize(), expected);

    // The same in memory.
    let files = tensors
        .files
        .iter()
        .map(|(path, bytes)| (path.clone(), Arc::new(Bytes::Owned(bytes.all().to_vec()))));
    let owned = Tensors { files: files.collect(), ..tensors.clone() };
    owned.sample(&mut in_memory)?;
    assert_eq!(in_memory.finalize(), expected);
    Ok(())
}
