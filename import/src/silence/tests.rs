use safetensors::Dtype::F32;

use super::*;
use crate::testing::{directory, file, pickled_tensor, stored, zip as archive};

/// Returns torch's pickle of a tensor with `sizes` and `strides`, starting at `offset`.
fn pickle(
    storage: &str,
    [stored, offset]: [usize; 2],
    sizes: [usize; 3],
    strides: [usize; 3],
) -> Vec<u8> {
    let tensor = pickled_tensor((storage, 0, stored), offset, &sizes, &strides);
    [b"\x80\x02".to_vec(), tensor, b".".to_vec()].concat()
}

/// Returns `values` as `torch.save` writes a contiguous f32 tensor `[1, 2, T]`.
fn pt(values: &[f32]) -> Vec<u8> {
    let (count, frames) = (values.len(), values.len() / 2);
    let described = pickle("FloatStorage", [count, 0], [1, 2, frames], [count, frames, 1]);
    archive(&[("x/data.pkl", &described), ("x/byteorder", b"little"), ("x/data/0", &le(values))])
}

fn read_pt(bytes: Vec<u8>) -> Result<TensorData, Error> {
    let (_temporary, directory) = directory(&[(PT, bytes)]);
    read(&directory, 2)
}

fn message(bytes: Vec<u8>) -> String {
    read_pt(bytes).expect_err("an error").to_string()
}

fn le(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn safetensors_serve_only_where_there_is_no_pt() -> Result<(), Error> {
    let tensor = stored(F32, &[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let safetensors = (SAFETENSORS, file(&[("silence_latent", tensor)]));
    let (_temporary, alone) = directory(std::slice::from_ref(&safetensors));
    assert_eq!(read(&alone, 2)?.iter::<f32>().collect::<Vec<_>>(), [1.0, 3.0, 2.0, 4.0]);
    let pt = (PT, pt(&[5.0, 6.0]));
    let (_temporary, both) = directory(&[safetensors, pt]);
    assert_eq!(read(&both, 2)?.iter::<f32>().collect::<Vec<_>>(), [5.0, 6.0]);
    Ok(())
}

#[test]
fn each_way_to_be_no_latent_of_silence_is_told() {
    let good = le(&[1.0, 2.0]);
    let plain = pickle("FloatStorage", [2, 0], [1, 2, 1], [2, 1, 1]);
    let six = |pickle: Vec<u8>| archive(&[("x/data.pkl", &pickle), ("x/data/0", &le(&[1.0; 6]))]);
    let float = |place, sizes, strides| six(pickle("FloatStorage", place, sizes, strides));
    for (bytes, says) in [
        (b"not a zip".to_vec(), "it is no zip archive"),
        (
            [LEGACY, b"\x80\x02M\xe9\x03."].concat(),
            "it is in the format of torch before 1.6, not a zip archive",
        ),
        (archive(&[("x/data/0", &good)]), "it has 0 descriptions `data.pkl` instead of one"),
        (archive(&[("x/data.pkl", &plain)]), "it has no entry `data/0`"),
        (
            archive(&[("x/data.pkl", &plain), ("x/data/0", &[0; 12])]),
            "it has 12 bytes for the 2 values of a FloatStorage",
        ),
        (pt(&[]), "it is empty"),
        (
            archive(&[("x/data.pkl", &plain), ("x/data/0", &good), ("x/byteorder", b"big")]),
            "its values are not little-endian",
        ),
        (pt(&[1.0, f32::NAN]), "it has values that are not finite"),
        (
            six(b"\x80\x02}q\x00".to_vec()),
            "its data.pkl is not that of one plain tensor (from byte 2 on)",
        ),
        (
            six(pickle("DoubleStorage", [3, 0], [1, 2, 3], [6, 3, 1])),
            "it is a `DoubleStorage`, not one of float, half or bfloat16",
        ),
        (float([6, 0], [1, 3, 2], [6, 2, 1]), "it is [1, 3, 2] instead of [1, 2, T]"),
        (float([6, 0], [3, 2, 1], [2, 1, 1]), "it is [3, 2, 1] instead of [1, 2, T]"),
        (
            float([6, 1], [1, 2, 3], [6, 3, 1]),
            "[1, 2, 3] with strides [6, 3, 1] from value 1 on leaves the 6 stored",
        ),
    ] {
        let message = message(bytes);
        assert!(message.contains(says), "{message}");
        assert!(message.contains(PT), "{message}");
    }
    let (_temporary, empty) = directory(&[]);
    let error = read(&empty, 2).expect_err("nothing").to_string();
    assert!(error.ends_with("and so is `silence_latent.safetensors`"), "{error}");
}

/// Six stored values 1 to 6: the transposed view of `[3, 2]`, and the last two of each row of
/// three.
#[test]
fn views_and_slices_are_read_as_torch_reads_them() -> Result<(), Error> {
    let stored = le(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for (place, sizes, strides, expected) in [
        ([6, 0], [1, 2, 3], [6, 1, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ([6, 1], [1, 2, 2], [6, 3, 1], vec![2.0, 5.0, 3.0, 6.0]),
    ] {
        let pickle = pickle("FloatStorage", place, sizes, strides);
        let silence = read_pt(archive(&[("x/data.pkl", &pickle), ("x/data/0", &stored)]))?;
        assert_eq!(silence.iter::<f32>().collect::<Vec<_>>(), expected, "{strides:?}");
    }
    Ok(())
}

/// 1.5 and -0.25 are 3E00 and B400 in f16, 3FC0 and BE80 in bf16.
#[test]
fn half_types_give_their_exact_values() -> Result<(), Error> {
    for (storage, data) in
        [("HalfStorage", b"\x00\x3e\x00\xb4"), ("BFloat16Storage", b"\xc0\x3f\x80\xbe")]
    {
        let pickle = pickle(storage, [2, 0], [1, 2, 1], [2, 1, 1]);
        let silence = read_pt(archive(&[("x/data.pkl", &pickle), ("x/data/0", data)]))?;
        assert_eq!(silence.iter::<f32>().collect::<Vec<_>>(), [1.5, -0.25], "{storage}");
    }
    Ok(())
}

/// Method 8 (deflate) written over method 0 (stored) in both headers of the entry.
#[test]
fn a_compressed_entry_is_told() {
    let mut bytes = archive(&[("x/data.pkl", b"")]);
    let central = bytes.windows(4).position(|window| window == b"PK\x01\x02").expect("a directory");
    bytes[8] = 8;
    bytes[central + 10] = 8;
    let message = message(bytes);
    assert!(message.contains("entry `x/data.pkl` is compressed"), "{message}");
}
