//! The pickle of a saved tensor: type, order and place of its values.
//!
//! `torch.save(tensor, path)` pickles one call, `_rebuild_tensor_v2(storage, offset, sizes,
//! strides, requires_grad, hooks)`, in protocol 2 and always with the same instructions. This
//! module reads exactly those. Any other pickle (a dictionary, a parameter, another call) is an
//! error: nothing is executed and nothing is guessed.
//!
//! Source: Python's `pickletools`; PyTorch `torch/_utils.py` and `torch/serialization.py`.

pub(crate) mod dictionary;

/// A tensor as described by its pickle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Described {
    /// Class of the storage in module `torch`, such as `FloatStorage`.
    pub(crate) storage: String,
    /// Name of the entry `data/{key}` with the values.
    pub(crate) key: String,
    /// Number of values in the storage.
    pub(crate) stored: usize,
    /// Index of the tensor's first value in it.
    pub(crate) offset: usize,
    pub(crate) sizes: Vec<usize>,
    pub(crate) strides: Vec<usize>,
}

impl Described {
    /// Parses `pickle`.
    ///
    /// # Errors
    /// The byte where it stops being the pickle of one plain tensor.
    pub(crate) fn parse(pickle: &[u8]) -> Result<Self, usize> {
        let mut reader = Reader { rest: pickle };
        reader.tensor().ok_or(pickle.len() - reader.rest.len())
    }

    /// Returns the storage index of each value, row by row; `None` if one is outside, or if there
    /// are more values than stored ones.
    pub(crate) fn places(&self) -> Option<Vec<usize>> {
        let axes = || self.sizes.iter().zip(&self.strides);
        let count = self.sizes.iter().try_fold(1_usize, |count, &size| count.checked_mul(size))?;
        if count == 0 {
            return Some(Vec::new());
        }
        let last = axes().try_fold(self.offset, |last, (&size, &stride)| {
            (size - 1).checked_mul(stride)?.checked_add(last)
        })?;
        if self.sizes.len() != self.strides.len() || count > self.stored || last >= self.stored {
            return None;
        }
        let spread = |places: Vec<usize>, (&size, &stride): (&usize, &usize)| {
            places.iter().flat_map(|place| (0..size).map(move |i| place + i * stride)).collect()
        };
        Some(axes().fold(vec![self.offset], spread))
    }
}

/// The rest of a pickle. Every method reads the item that it names, or returns `None` if something
/// else follows.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn tensor(&mut self) -> Option<Described> {
        self.exactly(b"\x80\x02")?; // PROTO 2
        self.exactly(b"ctorch._utils\n_rebuild_tensor_v2\n")?;
        self.put()?;
        self.exactly(b"((")?; // MARK, MARK: the arguments, and the first of them
        (self.text()? == "storage").then_some(())?;
        self.exactly(b"ctorch\n")?;
        let end = self.rest.iter().position(|&byte| byte == b'\n')?;
        let storage = str::from_utf8(self.take(end)?).ok()?.to_owned();
        self.exactly(b"\n")?;
        self.put()?;
        let key = self.text()?.to_owned();
        self.text()?; // The device of the storage.
        let stored = self.int()?;
        self.exactly(b"t")?; // TUPLE
        self.put()?;
        self.exactly(b"Q")?; // BINPERSID
        let offset = self.int()?;
        let (sizes, strides) = (self.tuple()?, self.tuple()?);
        // NEWTRUE, NEWFALSE: requires_grad.
        self.exactly(b"\x88").or_else(|| self.exactly(b"\x89"))?;
        self.exactly(b"ccollections\nOrderedDict\n")?;
        self.put()?;
        self.exactly(b")R")?; // EMPTY_TUPLE, REDUCE: no hooks.
        self.put()?;
        self.exactly(b"t")?;
        self.put()?;
        self.exactly(b"R")?;
        self.put()?;
        self.exactly(b".")?; // STOP
        self.rest.is_empty().then_some(Described { storage, key, stored, offset, sizes, strides })
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn exactly(&mut self, bytes: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(bytes)?;
        Some(())
    }

    /// Skips BINPUT, which stores the last value; we never need it again.
    fn put(&mut self) -> Option<()> {
        match self.exactly(b"q") {
            Some(()) => self.take(1).map(drop),
            None => Some(()),
        }
    }

    /// Reads BINUNICODE.
    fn text(&mut self) -> Option<&'a str> {
        self.exactly(b"X")?;
        let length = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
        let text = str::from_utf8(self.take(length as usize)?).ok()?;
        self.put()?;
        Some(text)
    }

    /// Reads BININT1, BININT2 or BININT, not negative.
    fn int(&mut self) -> Option<usize> {
        match self.take(1)? {
            b"K" => Some(self.take(1)?[0].into()),
            b"M" => Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?).into()),
            b"J" => i32::from_le_bytes(self.take(4)?.try_into().ok()?).try_into().ok(),
            _ => None,
        }
    }

    /// Reads numbers before TUPLE1, TUPLE2 or TUPLE3; `()`; or longer tuples that start with MARK.
    fn tuple(&mut self) -> Option<Vec<usize>> {
        let mut numbers = Vec::new();
        if self.exactly(b")").is_some() {
            return Some(numbers);
        }
        let end: &[u8] = match self.exactly(b"(") {
            Some(()) => b"t",
            None => b"\x85\x86\x87",
        };
        while !end.contains(self.rest.first()?) {
            numbers.push(self.int()?);
        }
        let end = self.take(1)?[0];
        let counted = end == b't' || usize::from(end - 0x84) == numbers.len();
        self.put()?;
        counted.then_some(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `torch.save(torch.arange(20.).reshape(1, 2, 10)[:, :, 3:6], path)`, torch 2.15.
    const SLICE: &[u8] = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00((X\x07\x00\x00\x00storage\
        q\x01ctorch\nFloatStorage\nq\x02X\x01\x00\x00\x000q\x03X\x03\x00\x00\x00cpuq\x04K\x14tq\x05Q\
        K\x03K\x01K\x02K\x03\x87q\x06K\x14K\nK\x01\x87q\x07\x89ccollections\nOrderedDict\nq\x08)Rq\t\
        tq\nRq\x0b.";
    /// The same for `{"a": torch.zeros(1)}`, up to its first call.
    const DICTIONARY: &[u8] = b"\x80\x02}q\x00X\x01\x00\x00\x00aq\x01ctorch._utils\n";

    #[test]
    fn the_pickle_of_a_slice_says_where_it_lies() {
        let expected = Described {
            storage: "FloatStorage".into(),
            key: "0".into(),
            stored: 20,
            offset: 3,
            sizes: vec![1, 2, 3],
            strides: vec![20, 10, 1],
        };
        assert_eq!(expected.places(), Some(vec![3, 4, 5, 13, 14, 15]));
        assert_eq!(Described::parse(SLICE), Ok(expected));
    }

    #[test]
    fn a_pickle_of_something_else_or_cut_anywhere_is_refused() {
        assert_eq!(Described::parse(DICTIONARY), Err(2));
        for end in 0..SLICE.len() {
            assert!(Described::parse(&SLICE[..end]).is_err(), "{end}");
        }
        assert!(Described::parse(&[SLICE, b"."].concat()).is_err());
    }

    #[test]
    fn a_tensor_that_reaches_out_of_its_storage_has_no_places() {
        let described = |offset, sizes: [usize; 3], strides: [usize; 3]| {
            let (sizes, strides) = (sizes.to_vec(), strides.to_vec());
            let [storage, key] = [String::new(), String::new()];
            Described { storage, key, stored: 6, offset, sizes, strides }.places()
        };
        assert_eq!(described(0, [1, 3, 2], [6, 1, 3]), Some(vec![0, 3, 1, 4, 2, 5]));
        assert_eq!(described(1, [1, 2, 3], [6, 3, 1]), None);
        assert_eq!(described(0, [1, 2, 3], [6, usize::MAX, 1]), None);
        assert_eq!(described(0, [usize::MAX, 2, 3], [0, 3, 1]), None);
        assert_eq!(described(0, [1, 6, 6], [0, 0, 0]), None);
        assert_eq!(described(7, [1, 0, 3], [1, 1, 1]), Some(Vec::new()));
    }
}
