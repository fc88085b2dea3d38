//! Reader for numbers, texts and values of a GGUF header. No length is trusted before that many
//! bytes exist.

/// Maximum depth of nested arrays that are skipped.
const DEPTH: usize = 4;

/// A value of the header; only the needed types are kept.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Unsigned(u64),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    /// A negative number, a fraction, or another array.
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

    /// Returns the read position.
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
            0 => Value::Unsigned(self.take(1)?[0].into()),
            2 => {
                let bytes = self.take(2)?;
                Value::Unsigned(u16::from_le_bytes([bytes[0], bytes[1]]).into())
            }
            4 => Value::Unsigned(self.u32()?.into()),
            10 => Value::Unsigned(self.u64()?),
            5 => u64::try_from(self.u32()?.cast_signed()).map_or(Value::Other, Value::Unsigned),
            11 => u64::try_from(self.u64()?.cast_signed()).map_or(Value::Other, Value::Unsigned),
            7 => Value::Bool(self.take(1)?[0] != 0),
            8 => Value::Text(self.text()?),
            9 => self.array(depth)?,
            _ => {
                let size =
                    size_of_number(kind).ok_or_else(|| format!("type {kind} is not known"))?;
                self.take(size)?;
                Value::Other
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
                self.take(count as usize * size)?;
                Ok(Value::Other)
            }
            (_, None) => Err(format!("an array of type {kind}, which is not known")),
        }
    }
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
