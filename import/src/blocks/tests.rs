use super::*;
use crate::{Directory, Error, Tensors, foreign::gguf_tensors, testing::goldens};

/// Returns the first values of a `block` that is zero except for `bytes`, each at its place.
fn widened(block: Block, bytes: &[(usize, u8)]) -> [f32; LONGEST] {
    let mut stored = vec![0; block.bytes()];
    for &(at, byte) in bytes {
        stored[at] = byte;
    }
    let mut values = [f32::NAN; LONGEST];
    block.widen(&stored, &mut values);
    values
}

/// f16 bits: 0x3400 is 0.25, 0x3800 is 0.5, 0x3C00 is 1, 0x4000 is 2, 0x4200 is 3.
#[test]
fn small_blocks_by_hand() {
    let values = widened(Block::Q8_0, &[(1, 0x34), (2, 0x80), (33, 5)]);
    assert_eq!((values[0], values[1], values[31]), (-32.0, 0.0, 1.25));
    let values = widened(Block::Q4_0, &[(1, 0x40), (2, 0xF0)]);
    assert_eq!((values[0], values[16]), (-16.0, 14.0));
    let values = widened(Block::Q4_1, &[(1, 0x40), (3, 0x42), (5, 0x4A)]);
    assert_eq!((values[0], values[1], values[17]), (3.0, 23.0, 11.0));
    // The fifth bit is set in value 0, not in value 16.
    let values = widened(Block::Q5_0, &[(1, 0x40), (2, 1), (6, 0xF1)]);
    assert_eq!((values[0], values[16]), (2.0, -2.0));
    let values = widened(Block::Q5_1, &[(1, 0x40), (3, 0x3C), (6, 1), (8, 0x20)]);
    assert_eq!((values[0], values[16]), (1.0, (2.0 + 16.0) * 2.0 + 1.0));
}

/// The scale of group 4 is 33: its lower bits 1 are in byte 8, its upper bits 2 in the top of byte
/// 0, where the scale of group 0 is 1. Its minimum is 18, in the same way in bytes 8 and 4.
#[test]
fn scales_of_six_bits_by_hand() {
    let scales = [(1, 0x3C), (3, 0x38), (4, 0x81), (8, 0x42), (12, 0x21)];
    let with = |more: &[(usize, u8)]| [&scales[..], more].concat();
    let values = widened(Block::Q4_K, &with(&[(16, 0x53), (16 + 64, 0x0A)]));
    assert_eq!((values[0], values[32]), (3.0 - 0.5 * 2.0, 0.0));
    assert_eq!(values[128], 33.0 * 10.0 - 0.5 * 18.0);
    // The fifth bit of group 4 is bit 4 of byte 16.
    let values = widened(Block::Q5_K, &with(&[(16, 0x10), (48 + 64, 0x0A)]));
    assert_eq!(values[128], 33.0 * 26.0 - 0.5 * 18.0);
}

#[test]
fn blocks_of_two_three_and_six_bits_by_hand() {
    let d = [(209, 0x38)];
    let bytes = [(192 + 8, (-2_i8).cast_unsigned()), (192 + 4, 3), (64, 7), (160, 3), (0, 0x90)];
    let values = widened(Block::Q6_K, &[&d[..], &bytes, &[(128, 0x10)]].concat());
    assert_eq!(values[128], 0.5 * -2.0 * (7.0 + 48.0 - 32.0));
    assert_eq!(values[64], 0.5 * 3.0 * (9.0 + 16.0 - 32.0));

    // Group 9: values 144 to 159, in the second 32 bytes from their 16th on, the lowest bits.
    let values = widened(Block::Q2_K, &[(81, 0x40), (83, 0x3C), (9, 0x35), (16 + 48, 2)]);
    assert_eq!(values[144], 2.0 * 5.0 * 2.0 - 3.0);

    // 6-bit scale 9, minus 32: lower bits 6 in the upper half of byte 1, upper bits 2 in bits 4 and
    // 5 of byte 9. The third bit of value 144 is bit 4 of mask byte 16; it is 0 first, then 1.
    let scale = [(109, 0x3C), (96 + 1, 0x60), (96 + 9, 0x20), (32 + 48, 3)];
    let values = widened(Block::Q3_K, &scale);
    assert_eq!(values[144], (6.0 + 32.0 - 32.0) * (3.0 - 4.0));
    let values = widened(Block::Q3_K, &[&scale[..], &[(16, 0x10)]].concat());
    assert_eq!(values[144], 6.0 * 3.0);
}

/// `blocks.gguf` and the values of ggml's own package; see `tests/fixtures/gguf/make.py`.
#[test]
fn every_type_gives_the_values_of_the_reference() -> Result<(), Error> {
    let fixtures = goldens().join("../fixtures/gguf");
    let stored = gguf_tensors(&fixtures.join("blocks.gguf"))?;
    let expected = Tensors::open_file(&Directory::Disk(fixtures), "blocks.safetensors")?;
    let names: Vec<_> = stored.names().collect();
    assert_eq!(names.len(), 3 + TYPES.len());
    for name in names {
        assert_eq!(stored.dtype(name).map(str::to_lowercase).as_deref(), Some(name));
        assert_eq!(stored.shape(name)?, [1, 256], "{name}");
        let (own, reference) = (stored.values::<f32>(name)?, expected.values::<f32>(name)?);
        // Compares values, so 0 equals -0.
        assert_eq!(own, reference, "{name}");
    }
    Ok(())
}

#[test]
fn names_are_those_of_ggml_in_the_order_of_the_types() {
    for (index, &(block, name, ..)) in TYPES.iter().enumerate() {
        assert_eq!((Block::from_name(name), block as usize), (Some(block), index));
    }
    assert_eq!(Block::from_name("IQ4_XS"), None);
}
