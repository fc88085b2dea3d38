//! Reader for numbers, texts and values of a GGUF header. No length is trusted before that many
//! bytes exist.

/// Maximum depth of nested arrays that are skipped.
const DEPTH: usize = 4;

/// A value of the header; only the needed types are kept.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Unsigned(u64),
    Float(f64),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    /// An array of integers, none negative.
    Numbers(Vec<u64>),
    /// A negative number, or another array.
    Other,
}

/// The bytes of a header and the read position.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..count));
        let taken = taken.ok_or_else(|| {
            format!("the file ends before the {count} bytes that byte {} speaks of", self.at)
        })?;
        self.at += count;
        Ok(taken)
    }

    /// Refuses a `count` of items, each of at least `least` bytes, that exceeds the file.
    pub(super) fn expect(&self, count: u64, least: u64, what: &str) -> Result<(), String> {
        let left = (self.bytes.len() - self.at) as u64;
        if count.checked_mul(least).is_none_or(|bytes| bytes > left) {
            return Err(format!("it speaks of {count} {what}, but {left} bytes are left"));
        }
        Ok(())
    }

    pub(super) fn u32(&mut self) -> Result<u32, String> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    pub(super) fn u64(&mut self) -> Result<u64, String> {
        let [low, high] = [self.u32()?, self.u32()?];
        Ok(u64::from(low) | u64::from(high) << 32)
    }

    pub(super) fn text(&mut self) -> Result<String, String> {
        let (at, length) = (self.at, self.u64()?);
        self.expect(length, 1, "bytes of text")?;
        let text = str::from_utf8(self.take(length as usize)?);
        text.map(str::to_owned).map_err(|error| format!("the text at byte {at}: {error}"))
    }

    /// Reads a value of type `kind`, inside `depth` arrays.
    pub(super) fn value(&mut self, kind: u32, depth: usize) -> Result<Value, String> {
        Ok(match kind {
            6 => Value::Float(widened(f32::from_bits(self.u32()?))),
            7 => Value::Bool(self.take(1)?[0] != 0),
            8 => Value::Text(self.text()?),
            9 => self.array(depth)?,
            12 => Value::Float(f64::from_bits(self.u64()?)),
            _ => {
                let size =
                    size_of_number(kind).ok_or_else(|| format!("type {kind} is not known"))?;
                unsigned(kind, self.take(size)?).map_or(Value::Other, Value::Unsigned)
            }
        })
    }

    fn array(&mut self, depth: usize) -> Result<Value, String> {
        if depth == DEPTH {
            return Err(format!("arrays lie {DEPTH} deep in each other"));
        }
        let (kind, count) = (self.u32()?, self.u64()?);
        match (kind, size_of_number(kind)) {
            (8, _) => {
                self.expect(count, 8, "texts")?;
                Ok(Value::Texts((0..count).map(|_| self.text()).collect::<Result<_, _>>()?))
            }
            (9, _) => {
                self.expect(count, 12, "arrays")?;
                for _ in 0..count {
                    self.array(depth + 1)?;
                }
                Ok(Value::Other)
            }
            (_, Some(size)) => {
                self.expect(count, size as u64, "numbers")?;
                let numbers = self.take(count as usize * size)?.chunks_exact(size);
                let numbers = numbers.map(|bytes| unsigned(kind, bytes)).collect::<Option<_>>();
                Ok(numbers.map_or(Value::Other, Value::Numbers))
            }
            (_, None) => Err(format!("an array of type {kind}, which is not known")),
        }
    }
}

/// Returns the integer of type `kind` in `bytes`; `None` if it is negative, or no integer.
fn unsigned(kind: u32, bytes: &[u8]) -> Option<u64> {
    let low = bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
    let is_signed = match kind {
        0 | 2 | 4 | 10 => false,
        1 | 3 | 5 | 11 => true,
        _ => return None,
    };
    let is_negative = is_signed && bytes.last().is_some_and(|&byte| byte & 0x80 != 0);
    (!is_negative).then_some(low)
}

/// Returns the shortest decimal number that rounds to `value`: 1e-5 for the f32 of 1e-5. A
/// configuration has that number.
fn widened(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}

/// Returns the bytes of a number or bool of type `kind`.
fn size_of_number(kind: u32) -> Option<usize> {
    Some(match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        10..=12 => 8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_decimals_that_were_written() {
        let value = |kind, bytes: &[u8]| Reader::of(bytes).value(kind, 0).expect("a value");
        assert_eq!(value(6, &1e-5_f32.to_le_bytes()), Value::Float(1e-5));
        assert_eq!(value(12, &0.1_f64.to_le_bytes()), Value::Float(0.1));
        assert_eq!(value(3, &(-2_i16).to_le_bytes()), Value::Other);
        assert_eq!(value(3, &258_i16.to_le_bytes()), Value::Unsigned(258));
        assert_eq!(value(11, &i64::MAX.to_le_bytes()), Value::Unsigned(u64::MAX >> 1));
    }

    #[test]
    fn an_array_is_kept_if_all_its_numbers_are_integers_from_zero() {
        let array = |kind: u32, numbers: &[i32]| {
            let mut bytes = kind.to_le_bytes().to_vec();
            bytes.extend((numbers.len() as u64).to_le_bytes());
            numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
            Reader::of(&bytes).value(9, 0).expect("a value")
        };
        assert_eq!(array(5, &[8, 0, 5]), Value::Numbers(vec![8, 0, 5]));
        assert_eq!(array(5, &[8, -1]), Value::Other);
        assert_eq!(array(6, &[8]), Value::Other);
    }
}
