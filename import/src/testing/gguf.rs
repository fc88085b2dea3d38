//! GGUF files, byte by byte.

/// Encodes a text as in the file.
pub(crate) fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// Encodes a key and its value of type `kind`.
pub(crate) fn value(key: &str, kind: u32, bytes: &[u8]) -> Vec<u8> {
    [&text(key), &kind.to_le_bytes()[..], bytes].concat()
}

/// Encodes a key and its text.
pub(crate) fn value_text(key: &str, value: &str) -> Vec<u8> {
    self::value(key, 8, &text(value))
}

/// Encodes a tensor's description, `sizes` innermost first.
pub(crate) fn tensor(name: &str, sizes: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut bytes = [&text(name), &(sizes.len() as u32).to_le_bytes()[..]].concat();
    sizes.iter().for_each(|size| bytes.extend(size.to_le_bytes()));
    bytes.extend(kind.to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes
}

/// Creates a file of version 3 with `data` bytes of data, all zero.
pub(crate) fn file(values: &[Vec<u8>], tensors: &[Vec<u8>], data: usize) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((values.len() as u64).to_le_bytes());
    bytes.extend(values.concat());
    bytes.extend(tensors.concat());
    bytes.resize(bytes.len().next_multiple_of(32) + data, 0);
    bytes
}
