use super::*;
use crate::testing::gguf::{file, tensor, text, value, value_text};

fn parsed(bytes: &[u8]) -> Result<Header, Error> {
    parse(Path::new("x.gguf"), bytes)
}

fn message(bytes: &[u8]) -> String {
    parsed(bytes).expect_err("a broken file").to_string()
}

#[test]
fn sizes_are_turned_round_and_offsets_count_from_the_data() -> Result<(), Error> {
    let bytes = file(
        &[value("a.b", 4, &7_u32.to_le_bytes()), value_text("c", "d")],
        &[tensor("w", &[32, 3], 8, 0), tensor("b", &[2], 0, 128)],
        136,
    );
    let header = parsed(&bytes)?;
    assert_eq!(header.values["a.b"], Value::Unsigned(7));
    assert_eq!(header.text("c"), Some("d"));
    let start = bytes.len() - 136;
    let w = Entry { dtype: "Q8_0".into(), shape: vec![3, 32], range: start..start + 102 };
    let b = Entry { dtype: "F32".into(), shape: vec![2], range: start + 128..start + 136 };
    assert_eq!((&header.tensors["w"], &header.tensors["b"]), (&w, &b));
    Ok(())
}

#[test]
fn another_alignment_moves_the_data() -> Result<(), Error> {
    let alignment = value(ALIGNMENT, 4, &1024_u32.to_le_bytes());
    let mut bytes = file(&[alignment], &[tensor("b", &[2], 0, 0)], 0);
    bytes.resize(1032, 0);
    assert_eq!(parsed(&bytes)?.tensors["b"].range, 1024..1032);
    Ok(())
}

#[test]
fn what_is_no_gguf_of_today_is_told_by_its_version() {
    let good = file(&[], &[], 0);
    assert!(parsed(&good).is_ok());
    let version = |bytes: [u8; 4]| {
        let mut file = good.clone();
        file[4..8].copy_from_slice(&bytes);
        message(&file)
    };
    assert_eq!(version([1, 0, 0, 0]), "`x.gguf` cannot be read: it is a GGUF file of version 1");
    assert_eq!(version([0; 4]), "`x.gguf` cannot be read: it is a GGUF file of version 0");
    assert_eq!(version([9, 0, 0, 0]), "`x.gguf` cannot be read: it is a GGUF file of version 9");
    assert_eq!(version([0, 0, 0, 3]), "`x.gguf` cannot be read: it is a GGUF file in big-endian");
    assert!(message(b"GGML\x03\0\0\0").contains("does not begin with `GGUF`"));
}

/// Every prefix of a file gives an error, without a panic or a large allocation.
#[test]
fn a_file_cut_anywhere_is_an_error() {
    let texts = [&8_u32.to_le_bytes()[..], &2_u64.to_le_bytes(), &text("a"), &text("bc")].concat();
    let numbers = [&4_u32.to_le_bytes()[..], &2_u64.to_le_bytes(), &[0; 8]].concat();
    let bytes = file(
        &[value("texts", 9, &texts), value("numbers", 9, &numbers), value("yes", 7, &[1])],
        &[tensor("w", &[32, 3], 8, 0)],
        102,
    );
    assert!(parsed(&bytes).is_ok());
    for length in 0..bytes.len() {
        let error = parsed(&bytes[..length]).expect_err("cut");
        assert!(error.hint().is_some(), "{length}: {error}");
    }
    let needed = bytes.len();
    let cut =
        format!("`x.gguf` is cut: it has {} bytes and its header speaks of {needed}", needed - 1);
    assert_eq!(message(&bytes[..needed - 1]), cut);
}

#[test]
fn counts_and_sizes_that_no_file_has_are_refused_before_they_are_believed() {
    let huge = u64::MAX.to_le_bytes();
    let mut many_tensors = file(&[], &[], 0);
    many_tensors[8..16].copy_from_slice(&huge);
    let mut many_values = file(&[], &[], 0);
    many_values[16..24].copy_from_slice(&huge);
    let array = |kind: u32| value("a", 9, &[&kind.to_le_bytes()[..], &huge].concat());
    let nested = [&9_u32.to_le_bytes()[..], &1_u64.to_le_bytes()].concat().repeat(1000);
    let at = |tensor| file(&[], &[tensor], 64);
    for (bytes, reason) in [
        (many_tensors, "it speaks of 18446744073709551615 tensors"),
        (many_values, "it speaks of 18446744073709551615 values"),
        (file(&[value("a", 8, &huge)], &[], 64), "18446744073709551615 bytes of text"),
        (file(&[array(8)], &[], 64), "18446744073709551615 texts"),
        (file(&[array(4)], &[], 64), "18446744073709551615 numbers"),
        (file(&[array(9)], &[], 64), "18446744073709551615 arrays"),
        (file(&[value("a", 9, &nested)], &[], 0), "arrays lie 4 deep"),
        (file(&[], &[tensor("w", &[256], 23, 0)], 256), "tensor `w` is IQ4_XS"),
        (file(&[array(77)], &[], 64), "an array of type 77, which is not known"),
        (file(&[value("a", 13, &[])], &[], 64), "value `a`: type 13 is not known"),
        (at(tensor("w", &[], 0, 0)), "tensor `w` has 0 dimensions"),
        (at(tensor("w", &[1; 5], 0, 0)), "tensor `w` has 5 dimensions"),
        (at(tensor("w", &[u64::MAX, 2], 0, 0)), "too large"),
        (at(tensor("w", &[1 << 62, 1 << 62], 0, 0)), "too large"),
        (at(tensor("w", &[4], 0, u64::MAX - 31)), "too large"),
        (at(tensor("w", &[4], 0, 3)), "begins at byte 3, which is no multiple of 32"),
        (at(tensor("w", &[33], 8, 0)), "is [33], but Q8_0 has blocks of 32 in a row"),
        (at(tensor("w", &[4], 99, 0)), "tensor `w` is of the unknown type 99"),
        (
            file(&[value(ALIGNMENT, 4, &[3, 0, 0, 0])], &[], 0),
            "its general.alignment is Unsigned(3)",
        ),
        (
            file(&[], &[tensor("w", &[1], 0, 0), tensor("w", &[1], 0, 0)], 64),
            "tensor `w` is described twice",
        ),
        (file(&[value("a", 7, &[1]), value("a", 7, &[1])], &[], 0), "value `a` is there twice"),
    ] {
        let message = message(&bytes);
        assert!(message.contains(reason), "{message} instead of {reason}");
    }
}
