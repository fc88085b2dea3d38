use std::io::Write;

use safetensors::Dtype::F32;
use zip::{ZipWriter, write::SimpleFileOptions};

use super::*;
use crate::testing::{directory, file, goldens, stored};

/// A zip archive with `entries`.
fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, content) in entries {
        zip.start_file(*name, options).expect("an entry");
        zip.write_all(content).expect("its content");
    }
    zip.finish().expect("an archive").into_inner()
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

/// Golden: `a/silence.safetensors`, the first 64 frames as upstream sees them, `[1, 64, 16]`.
#[test]
fn the_file_of_torch_gives_what_upstream_sees() -> Result<(), Error> {
    let golden = Tensors::open_file(&Directory::Disk(goldens().join("a")), "silence.safetensors")?;
    let expected = golden.values::<f32>("silence_latent")?;
    let directory = Directory::Disk(goldens().join("checkpoints_a/acestep-v15-turbo"));
    let silence = read(&directory, 16)?;
    assert_eq!(silence.shape.iter().copied().collect::<Vec<_>>(), [1, 1000, 16]);
    let values: Vec<f32> = silence.iter().collect();
    assert_eq!(values[..64 * 16], expected);
    Ok(())
}

#[test]
fn channels_come_last() -> Result<(), Error> {
    let data = le(&[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]); // [C = 2, T = 3]
    let silence = read_pt(archive(&[("x/data/0", &data), ("x/byteorder", b"little")]))?;
    assert_eq!(silence.iter::<f32>().collect::<Vec<_>>(), [1.0, 10.0, 2.0, 20.0, 3.0, 30.0]);
    Ok(())
}

#[test]
fn safetensors_serve_only_where_there_is_no_pt() -> Result<(), Error> {
    let tensor = stored(F32, &[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let safetensors = (SAFETENSORS, file(&[("silence_latent", tensor)]));
    let (_temporary, alone) = directory(std::slice::from_ref(&safetensors));
    assert_eq!(read(&alone, 2)?.iter::<f32>().collect::<Vec<_>>(), [1.0, 3.0, 2.0, 4.0]);
    let pt = (PT, archive(&[("x/data/0", &le(&[5.0, 6.0]))]));
    let (_temporary, both) = directory(&[safetensors, pt]);
    assert_eq!(read(&both, 2)?.iter::<f32>().collect::<Vec<_>>(), [5.0, 6.0]);
    Ok(())
}

#[test]
fn each_way_to_be_no_latent_of_silence_is_told() {
    let good = le(&[1.0, 2.0]);
    for (bytes, says) in [
        (b"not a zip".to_vec(), "it is not a zip archive as torch.save writes it"),
        (archive(&[("x/version", b"3")]), "it has no entry `*/data/0`"),
        (archive(&[("x/data/0", &[0; 12])]), "its 12 bytes are not a multiple of 2 f32 channels"),
        (archive(&[("x/data/0", &[])]), "it is empty"),
        (
            archive(&[("x/data/0", &good), ("x/byteorder", b"big")]),
            "its byte order is `big`, not `little`",
        ),
        (archive(&[("x/data/0", &le(&[1.0, f32::NAN]))]), "it has values that are not finite"),
        (
            // Sizes (1, 3, 2) as torch pickles them.
            archive(&[
                ("x/data/0", &le(&[1.0; 6])),
                ("x/data.pkl", b"\x80\x02K\x00K\x01K\x03K\x02\x87"),
            ]),
            "it is [1, T, 2] instead of [1, 2, T]",
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

/// Method 8 (deflate) written over method 0 (stored) in both headers of the entry.
#[test]
fn a_compressed_entry_is_told() {
    let mut bytes = archive(&[("x/data/0", &le(&[1.0, 2.0]))]);
    let central = bytes.windows(4).position(|window| window == b"PK\x01\x02").expect("a directory");
    bytes[8] = 8;
    bytes[central + 10] = 8;
    let message = message(bytes);
    assert!(message.contains("entry `x/data/0` is compressed"), "{message}");
}

#[test]
fn a_file_cut_anywhere_is_an_error() -> Result<(), Error> {
    let path = goldens().join("checkpoints_a/acestep-v15-turbo").join(PT);
    let whole = std::fs::read(&path).map_err(|source| Error::Io { path, source })?;
    for part in 0..64 {
        let cut = whole[..whole.len() * part / 64].to_vec();
        let (_temporary, directory) = directory(&[(PT, cut)]);
        let error = read(&directory, 16).expect_err("cut");
        assert!(matches!(error, Error::BadSilence { .. }), "{part}: {error}");
    }
    Ok(())
}
