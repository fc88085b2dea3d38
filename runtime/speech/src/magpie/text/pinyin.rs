//! Chinese words, and a table of their syllables.
//!
//! A line of the table is `word: syllable syllable`, with tones as marks or as digits behind, or
//! `U+4E2D: zhōng,zhòng  # 中` for one character: the files of the projects pinyin-data and
//! phrase-pinyin-data. A word is cut into the longest words of the table; a single character takes its
//! first syllable.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use jieba_rs::Jieba;
use unicode_normalization::UnicodeNormalization as _;

use crate::magpie::MagpieError;

/// Words and their syllables.
pub struct Pinyin {
    jieba: Jieba,
    syllables: HashMap<String, Vec<String>>,
    beginnings: HashSet<String>,
}

impl fmt::Debug for Pinyin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinyin").field("words", &self.syllables.len()).finish()
    }
}

impl Pinyin {
    /// Reads a table.
    ///
    /// # Errors
    /// If a line is not one of a table, or a word has not as many syllables as characters.
    pub fn read(table: &str) -> Result<Self, MagpieError> {
        let (mut syllables, mut beginnings) = (HashMap::new(), HashSet::new());
        for (number, line) in table.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let bad = || MagpieError::BadPinyin { line: number + 1 };
            let (word, readings) = line.split_once(':').ok_or_else(bad)?;
            let word = match word.trim().strip_prefix("U+") {
                Some(code) => u32::from_str_radix(code, 16)
                    .ok()
                    .and_then(char::from_u32)
                    .map(String::from)
                    .ok_or_else(bad)?,
                None => word.trim().to_owned(),
            };
            let is_single = word.chars().count() == 1;
            let readings = if is_single { readings.split(',').next() } else { Some(readings) };
            let readings = readings.unwrap_or_default().split_whitespace();
            let readings: Vec<_> = readings.map(with_digit).collect();
            if readings.is_empty() || readings.len() != word.chars().count() {
                return Err(bad());
            }
            let ends = word.char_indices().map(|(at, c)| at + c.len_utf8());
            beginnings.extend(ends.map(|end| word[..end].to_owned()));
            syllables.insert(word, readings);
        }
        Ok(Self { jieba: Jieba::new(), syllables, beginnings })
    }

    pub(super) fn words(&self, text: &str) -> Vec<String> {
        self.jieba.cut(text, true).into_iter().map(|token| token.word.to_owned()).collect()
    }

    /// Returns the syllables of a word with their tones; other characters stand for themselves.
    pub(super) fn items(&self, word: &str) -> Vec<String> {
        let mut items = Vec::new();
        let mut rest = word;
        while let Some(first) = rest.chars().next() {
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
            let known = ends.take_while(|&end| self.beginnings.contains(&rest[..end]));
            let longest = known.filter(|&end| self.syllables.contains_key(&rest[..end])).last();
            let end = longest.unwrap_or(first.len_utf8());
            match self.syllables.get(&rest[..end]) {
                Some(syllables) => items.extend(syllables.iter().cloned()),
                None => items.push(first.to_string()),
            }
            rest = &rest[end..];
        }
        items
    }
}

/// Returns a syllable with its tone as a digit behind, 5 if it has none; `ü` becomes `v`.
fn with_digit(syllable: &str) -> String {
    if syllable.ends_with(|c: char| c.is_ascii_digit()) {
        return syllable.replace('ü', "v");
    }
    let mut tone = '5';
    let mut plain = String::new();
    for c in syllable.to_lowercase().nfd() {
        match c {
            '\u{304}' => tone = '1',
            '\u{301}' => tone = '2',
            '\u{30c}' => tone = '3',
            '\u{300}' => tone = '4',
            '\u{308}' => {
                plain.pop();
                plain.push('v');
            }
            c => plain.push(c),
        }
    }
    plain.push(tone);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tones_are_digits_behind_the_syllable() {
        for (given, written) in [
            ("zhōng", "zhong1"),
            ("hǎo", "hao3"),
            ("nǚ", "nv3"),
            ("de", "de5"),
            ("lǜ", "lv4"),
            ("hao3", "hao3"),
            ("nü3", "nv3"),
            ("shén", "shen2"),
        ] {
            assert_eq!(with_digit(given), written);
        }
    }

    #[test]
    fn the_longest_word_of_the_table_decides() {
        let table = "# words\n银行: yín háng\nU+884C: xíng,háng  # 行\n的: de5\n一个: yí gè\n";
        let pinyin = Pinyin::read(table).expect("a table");
        assert_eq!(pinyin.items("银行行的X"), ["yin2", "hang2", "xing2", "de5", "X"]);
        // Nobody knows the first character alone.
        assert_eq!(pinyin.items("银的"), ["银", "de5"]);
    }

    #[test]
    fn a_fault_in_the_table_names_its_line() {
        for table in ["\n银行 yin2\n", "\n银行: yín\n", "\nU+zz: a\n", "\n行:\n"] {
            let error = Pinyin::read(table).expect_err(table);
            assert!(error.to_string().contains("line 2"), "{error}");
        }
    }
}
