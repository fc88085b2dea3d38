use super::*;
use crate::{Directory, Error, Tensors, foreign::gguf_tensors, testing::goldens};

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
