//! Genres from a list.
//!
//! The whole value is one line of the list, including commas. It is matched by characters, not by
//! tokens, and case does not matter.

use std::collections::HashMap;

use acestep_model::Tokenizer;

use crate::{
    lm::vocabulary::Vocabulary,
    python::{is_space, strip},
};

/// A list of genres.
#[derive(Debug, Clone, Default)]
pub struct GenreVocabulary {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, Default)]
struct Node {
    children: HashMap<char, usize>,
    complete: bool,
}

impl GenreVocabulary {
    /// Reads one genre per line; skips empty lines and lines that begin with `#`.
    pub fn parse(text: &str) -> Self {
        let mut this = Self { nodes: vec![Node::default()] };
        for line in text.lines().map(strip) {
            if !line.is_empty() && !line.starts_with('#') {
                this.insert(&line.to_lowercase());
            }
        }
        this
    }

    fn insert(&mut self, genre: &str) {
        let mut at = 0;
        for c in genre.chars() {
            let new = self.nodes.len();
            at = *self.nodes[at].children.entry(c).or_insert(new);
            if at == new {
                self.nodes.push(Node::default());
            }
        }
        self.nodes[at].complete = true;
    }

    /// True if the list has no genre.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() <= 1
    }

    fn walk(&self, from: usize, text: &str) -> Option<usize> {
        text.chars().try_fold(from, |at, c| self.nodes.get(at)?.children.get(&c).copied())
    }

    /// Returns the tokens that may follow `written`; never empty.
    ///
    /// As in upstream, spaces around the written text are ignored. So if a genre continues with a
    /// space, the model may write any number of blank tokens. Only a token that begins with a space
    /// continues the genre, and some vocabularies have none.
    pub(super) fn allowed(&self, vocabulary: &Vocabulary<'_>, written: &str) -> Vec<u32> {
        let written = written.to_lowercase();
        let Some(at) = self.walk(0, strip(&written)) else {
            return vec![vocabulary.newline];
        };
        let Some(node) = self.nodes.get(at) else { return vec![vocabulary.newline] };
        let goes_on = |c| node.children.contains_key(&c);
        let blank_is_allowed = goes_on(' ') || goes_on(',');
        let texts = vocabulary.texts();
        let mut allowed: Vec<u32> = node
            .children
            .keys()
            .filter_map(|c| texts.by_first.get(c))
            .flatten()
            .copied()
            .filter(|&token| match texts.text(token) {
                " " => blank_is_allowed,
                text => self.walk(at, text).is_some(),
            })
            .collect();
        // The end is allowed after a complete genre, and if no other token is allowed.
        if node.complete || allowed.is_empty() {
            allowed.push(vocabulary.newline);
        }
        allowed
    }
}

/// Text of every token for matching genres: lower case, without trailing blanks; a token of blanks
/// is one space.
#[derive(Debug)]
pub(in crate::lm) struct TokenTexts {
    texts: Vec<Box<str>>,
    /// Tokens by their first character, and by their first non-blank character.
    by_first: HashMap<char, Vec<u32>>,
}

impl TokenTexts {
    pub(in crate::lm) fn new(tokenizer: &dyn Tokenizer) -> Self {
        let mut this = Self { texts: Vec::new(), by_first: HashMap::new() };
        for token in 0..tokenizer.vocabulary() as u32 {
            let text = tokenizer.decode(&[token]);
            let lower = text.to_lowercase();
            let matched = match lower.trim_end_matches(is_space) {
                "" if !text.is_empty() => " ",
                matched => matched,
            };
            this.texts.push(matched.into());

            let unblank = text.trim_start_matches(is_space);
            let first = text.chars().next();
            let inner = unblank.chars().next().filter(|_| unblank.len() < text.len());
            for c in first.into_iter().chain(inner) {
                // A character with several lower-case characters does not occur in genres.
                let mut lower = c.to_lowercase();
                if let (Some(c), None) = (lower.next(), lower.next()) {
                    this.by_first.entry(c).or_default().push(token);
                }
            }
        }
        this
    }

    fn text(&self, token: u32) -> &str {
        self.texts.get(token as usize).map_or("", |text| text)
    }
}
