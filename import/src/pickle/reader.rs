//! The instructions of a pickle.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use super::{Described, PROTOCOL, STORAGES};

/// Items of the longest tuple that `torch.save` writes.
const LONGEST_TUPLE: usize = 16;
/// More characters than the name of a storage has, a number: each of its tensors has a copy.
const LONGEST_KEY: usize = 32;
/// Tuples in each other: arguments, in them a storage and its number.
const DEPTH: usize = 3;

/// Names and tensors of a dictionary. A value that is no tensor has none.
pub(super) type Items = Vec<(Rc<str>, Option<Rc<Described>>)>;

/// A value of the pickle.
#[derive(Debug, Clone)]
pub(super) enum Item {
    Mark,
    None,
    Bool,
    Int(i64),
    Text(Rc<str>),
    /// Items, and the depth of tuples in it.
    Tuple(Rc<[Self]>, usize),
    Dictionary(Rc<RefCell<Items>>),
    OrderedDict,
    Rebuild,
    StorageClass(usize),
    Storage(usize, Rc<str>, usize),
    Tensor(Rc<Described>),
}

/// The instructions of a pickle, and the values so far.
pub(super) struct Reader<'a> {
    all: &'a [u8],
    at: usize,
    stack: Vec<Item>,
    memo: HashMap<u32, Item>,
}

impl<'a> Reader<'a> {
    pub(super) fn of(pickle: &'a [u8]) -> Self {
        Self { all: pickle, at: 0, stack: Vec::new(), memo: HashMap::new() }
    }

    /// Returns the number of bytes that were read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Reads a pickle of one dictionary.
    pub(super) fn dictionary_alone(&mut self) -> Result<Items, String> {
        self.run()?;
        let items = self.dictionary()?;
        self.end()?;
        Ok(items.take())
    }

    /// Reads a pickle of one value.
    pub(super) fn value(&mut self) -> Result<Item, String> {
        self.run()?;
        self.end()?;
        self.pop()
    }

    /// Checks that one value and no byte is left.
    fn end(&self) -> Result<(), String> {
        if self.stack.len() != 1 || self.at != self.all.len() {
            return Err("it goes on after its end".into());
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), String> {
        if self.take(PROTOCOL.len())? != PROTOCOL {
            return Err("it is no pickle of protocol 2".into());
        }
        loop {
            let code = self.take(1)?[0];
            match code {
                b'.' => return Ok(()),
                b'(' => self.stack.push(Item::Mark),
                b'N' => self.stack.push(Item::None),
                b'\x88' | b'\x89' => self.stack.push(Item::Bool),
                b'}' => self.stack.push(Item::Dictionary(Rc::default())),
                b'K' => {
                    let number = i64::from(self.take(1)?[0]);
                    self.stack.push(Item::Int(number));
                }
                b'M' => {
                    let number = self.number(2)?;
                    self.stack.push(Item::Int(number.into()));
                }
                b'J' => {
                    let number = self.number(4)?.cast_signed();
                    self.stack.push(Item::Int(number.into()));
                }
                b'\x8a' => self.long()?,
                b'X' => {
                    let length = self.number(4)? as usize;
                    let text = str::from_utf8(self.take(length)?).map_err(|_| "a text")?;
                    self.stack.push(Item::Text(text.into()));
                }
                b'c' => self.global()?,
                b')' => self.tuple(Vec::new())?,
                b'\x85'..=b'\x87' => {
                    let count = usize::from(code - 0x84);
                    let start = self.stack.len().checked_sub(count).ok_or("a tuple of nothing")?;
                    let items = self.stack.split_off(start);
                    self.tuple(items)?;
                }
                b't' => {
                    let items = self.since_mark()?;
                    self.tuple(items)?;
                }
                b'Q' => self.storage()?,
                b'R' => self.call()?,
                b'b' => {
                    // The attribute `_metadata`, which no tensor needs.
                    self.pop()?;
                    self.dictionary()?;
                }
                b'u' => {
                    let items = self.since_mark()?;
                    self.set(items)?;
                }
                b's' => {
                    let start = self.stack.len().checked_sub(2).ok_or("an item of nothing")?;
                    let items = self.stack.split_off(start);
                    self.set(items)?;
                }
                b'q' | b'r' => {
                    let key = self.number(if code == b'q' { 1 } else { 4 })?;
                    let top = self.stack.last().ok_or("nothing to remember")?.clone();
                    self.memo.insert(key, top);
                }
                b'h' | b'j' => {
                    let key = self.number(if code == b'h' { 1 } else { 4 })?;
                    let item = self.memo.get(&key).ok_or("nothing was remembered")?.clone();
                    self.stack.push(item);
                }
                other => return Err(format!("instruction {other:#04x} is not of a checkpoint")),
            }
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let rest = &self.all[self.at..];
        let taken = rest.get(..count).ok_or("it is cut")?;
        self.at += count;
        Ok(taken)
    }

    fn number(&mut self, bytes: usize) -> Result<u32, String> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }

    fn line(&mut self) -> Result<&'a str, String> {
        let end = self.all[self.at..].iter().position(|&byte| byte == b'\n').ok_or("it is cut")?;
        let line = str::from_utf8(self.take(end)?).map_err(|_| "a name")?;
        self.take(1)?;
        Ok(line)
    }

    fn long(&mut self) -> Result<(), String> {
        let count = usize::from(self.take(1)?[0]);
        let bytes = self.take(count)?;
        if count > 8 {
            return Err("a number is too large".into());
        }
        let mut wide = [if bytes.last().is_some_and(|&top| top >= 0x80) { 0xFF } else { 0 }; 8];
        wide[..count].copy_from_slice(bytes);
        self.stack.push(Item::Int(i64::from_le_bytes(wide)));
        Ok(())
    }

    fn global(&mut self) -> Result<(), String> {
        let (module, name) = (self.line()?, self.line()?);
        let item = match (module, name) {
            ("collections", "OrderedDict") => Item::OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2") => Item::Rebuild,
            _ => {
                let class = STORAGES.iter().position(|(class, ..)| *class == name);
                let class = class.filter(|_| module == "torch");
                Item::StorageClass(class.ok_or_else(|| {
                    format!("it names `{module}.{name}`, which no checkpoint of weights needs")
                })?)
            }
        };
        self.stack.push(item);
        Ok(())
    }

    fn pop(&mut self) -> Result<Item, String> {
        self.stack.pop().ok_or_else(|| "a value is missing".to_owned())
    }

    fn since_mark(&mut self) -> Result<Vec<Item>, String> {
        let mark = self.stack.iter().rposition(|item| matches!(item, Item::Mark));
        let items = self.stack.split_off(mark.ok_or("a mark is missing")? + 1);
        self.stack.pop();
        Ok(items)
    }

    fn tuple(&mut self, items: Vec<Item>) -> Result<(), String> {
        let depth = |item: &Item| match item {
            Item::Tuple(_, depth) => *depth,
            _ => 0,
        };
        let depth = 1 + items.iter().map(depth).max().unwrap_or(0);
        if depth > DEPTH || items.len() > LONGEST_TUPLE {
            return Err("a tuple is too long or too deep".into());
        }
        self.stack.push(Item::Tuple(items.into(), depth));
        Ok(())
    }

    fn dictionary(&mut self) -> Result<Rc<RefCell<Items>>, String> {
        match self.stack.last() {
            Some(Item::Dictionary(items)) => Ok(Rc::clone(items)),
            _ => Err("it is no dictionary".into()),
        }
    }

    fn set(&mut self, items: Vec<Item>) -> Result<(), String> {
        let dictionary = self.dictionary()?;
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() {
            return Err("a key has no value".into());
        }
        for [key, value] in pairs {
            let Item::Text(key) = key else { return Err("a key is no text".into()) };
            let tensor = match value {
                Item::Tensor(tensor) => Some(Rc::clone(tensor)),
                _ => None,
            };
            dictionary.borrow_mut().push((Rc::clone(key), tensor));
        }
        Ok(())
    }

    /// Reads `("storage", class, key, device, count)`.
    fn storage(&mut self) -> Result<(), String> {
        let item = match self.pop()? {
            Item::Tuple(items, _) => match &items[..] {
                [
                    Item::Text(kind),
                    Item::StorageClass(class),
                    Item::Text(key),
                    Item::Text(_),
                    Item::Int(count),
                ] if &**kind == "storage" && key.len() <= LONGEST_KEY => {
                    let count = usize::try_from(*count).map_err(|_| "a negative size")?;
                    Some(Item::Storage(*class, Rc::clone(key), count))
                }
                _ => None,
            },
            _ => None,
        };
        self.stack.push(item.ok_or("a storage has other values")?);
        Ok(())
    }

    /// Calls `OrderedDict()` or `_rebuild_tensor_v2(storage, offset, sizes, strides, flag, hooks)`.
    fn call(&mut self) -> Result<(), String> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Item::Tuple(arguments, _) = arguments else {
            return Err("a call without arguments".into());
        };
        let item = match (function, &arguments[..]) {
            (Item::OrderedDict, []) => Item::Dictionary(Rc::default()),
            (
                Item::Rebuild,
                [
                    Item::Storage(class, key, stored),
                    Item::Int(offset),
                    Item::Tuple(sizes, _),
                    Item::Tuple(strides, _),
                    Item::Bool,
                    Item::Dictionary(hooks),
                ],
            ) if hooks.borrow().is_empty() => {
                let whole = |item: &Item| match item {
                    Item::Int(number) => usize::try_from(*number).map_err(|_| "a negative size"),
                    _ => Err("a size is no number"),
                };
                let list = |items: &[Item]| items.iter().map(whole).collect::<Result<Vec<_>, _>>();
                let (storage, dtype, bytes) = STORAGES[*class];
                Item::Tensor(Rc::new(Described {
                    storage,
                    dtype,
                    bytes,
                    key: key.to_string(),
                    stored: *stored,
                    offset: whole(&Item::Int(*offset))?,
                    sizes: list(sizes)?,
                    strides: list(strides)?,
                }))
            }
            _ => return Err("a call has other arguments".into()),
        };
        self.stack.push(item);
        Ok(())
    }
}
