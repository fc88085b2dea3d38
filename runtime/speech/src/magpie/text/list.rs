//! A list of tokens, and the ids of symbols.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;

use super::{Encoded, MOST_DROPPED};

/// The usual prefix of letters, which tells them from phonemes.
const PREFIX: char = '#';

impl Encoded {
    /// Notes a symbol that is left out. Letters of some languages have a prefix that the user did not write.
    pub(super) fn leave_out(&mut self, symbol: String) {
        let symbol = match symbol.strip_prefix(PREFIX) {
            Some(own) if !own.is_empty() => own.to_owned(),
            _ => symbol,
        };
        if self.dropped.len() < MOST_DROPPED && !self.dropped.contains(&symbol) {
            self.dropped.push(symbol);
        }
    }
}

/// A list of tokens.
#[derive(Debug)]
pub(super) struct List {
    tokens: Vec<String>,
    /// The last position of each token: some lists have a token twice.
    ids: HashMap<String, u32>,
    has_space_around: bool,
    merges_spaces: bool,
}

impl List {
    pub(super) fn new(tokens: Vec<String>, has_space_around: bool, merges_spaces: bool) -> Self {
        let ids = tokens.iter().cloned().zip(0..).collect();
        Self { tokens, ids, has_space_around, merges_spaces }
    }

    pub(super) fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Returns the symbols of a text that consists of tokens: the longest one counts at each place. `<pad>`
    /// and `<oov>` are no symbols.
    pub(super) fn symbols(&self, text: &str) -> Vec<String> {
        let text: String = text.nfc().collect();
        let longest = self.tokens.iter().map(String::len).max().unwrap_or(0);
        let mut symbols = Vec::new();
        let mut rest = &*text;
        while let Some(first) = rest.chars().next() {
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
            let is_token =
                |end: &usize| !rest.starts_with('<') && self.ids.contains_key(&rest[..*end]);
            let end = ends.take_while(|&end| end <= longest).filter(is_token).last();
            let (symbol, after) = rest.split_at(end.unwrap_or(first.len_utf8()));
            symbols.push(symbol.to_owned());
            rest = after;
        }
        symbols
    }

    /// Returns the ids of symbols; unknown ones and spaces at the end are left out.
    pub(super) fn encode(&self, symbols: impl IntoIterator<Item = String>) -> Encoded {
        let space = self.ids.get(" ").copied();
        let mut encoded = Encoded::default();
        for symbol in symbols {
            match self.ids.get(&symbol).copied() {
                id if id == space && id.is_some() && self.merges_spaces => {
                    let last = encoded.ids.last().copied();
                    if last.is_some() && last != space {
                        encoded.ids.extend(id);
                    }
                }
                Some(id) => encoded.ids.push(id),
                None => encoded.leave_out(symbol),
            }
        }
        while !encoded.ids.is_empty() && encoded.ids.last().copied() == space {
            encoded.ids.pop();
        }
        if let Some(space) = space.filter(|_| self.has_space_around && !encoded.ids.is_empty()) {
            encoded.ids.insert(0, space);
            encoded.ids.push(space);
        }
        encoded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_that_is_left_out_is_said_as_the_user_wrote_it() {
        let mut encoded = Encoded::default();
        for symbol in ["#3", "#", "3", "é"] {
            encoded.leave_out(symbol.to_owned());
        }
        assert_eq!(encoded.dropped, ["3", "#", "é"]);
        (0..2 * MOST_DROPPED).for_each(|k| encoded.leave_out(format!("x{k}")));
        assert_eq!(encoded.dropped.len(), MOST_DROPPED);
    }
}
