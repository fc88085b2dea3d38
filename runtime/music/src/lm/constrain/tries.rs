//! Prefix trees of tokens, for fields with few values.

use std::collections::BTreeMap;

use super::Field;
use crate::{
    lm::vocabulary::Vocabulary,
    request::words::{LANGUAGES, keyscales},
};

/// A set of token sequences as a prefix tree.
#[derive(Debug, Clone, Default)]
pub(super) struct Trie {
    /// Nodes, the root first; empty for the empty set.
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, Default)]
struct Node {
    children: BTreeMap<u32, usize>,
    /// Tokens of `children`, and the newline if a value ends here.
    allowed: Vec<u32>,
    complete: bool,
}

/// A node in a [`Trie`]; `None` after a token outside the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeRef(Option<usize>);

impl NodeRef {
    pub(super) const ROOT: Self = Self(Some(0));
}

impl Trie {
    /// Builds the tree of the values of `field`, tokenised together with its name.
    ///
    /// As in upstream, a value is left out if its tokens do not begin with those of the name alone:
    /// the machine writes the name first and cannot take back its last token.
    fn new(vocabulary: &Vocabulary<'_>, field: Field, values: Vec<String>) -> Self {
        let tokenizer = vocabulary.tokenizer();
        let name = tokenizer.encode(field.name());
        let mut trie = Self::default();
        for value in values {
            // ANCHOR: value
            let tokens = tokenizer.encode(&format!("{} {value}", field.name()));
            let Some(tokens @ [first, ..]) = tokens.strip_prefix(&name[..]) else { continue };
            if field == Field::Keyscale && !may_begin_a_key(&tokenizer.decode(&[*first])) {
                continue;
            }
            trie.insert(tokens);
            // ANCHOR_END: value
        }
        for node in &mut trie.nodes {
            let newline = node.complete.then_some(vocabulary.newline);
            node.allowed = node.children.keys().copied().chain(newline).collect();
        }
        trie
    }

    fn insert(&mut self, tokens: &[u32]) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        for &token in tokens {
            let new = self.nodes.len();
            at = *self.nodes[at].children.entry(token).or_insert(new);
            if at == new {
                self.nodes.push(Node::default());
            }
        }
        self.nodes[at].complete = true;
    }

    fn node(&self, place: NodeRef) -> Option<&Node> {
        self.nodes.get(place.0?)
    }

    /// Returns the place after `token`.
    pub(super) fn step(&self, place: NodeRef, token: u32) -> NodeRef {
        NodeRef(self.node(place).and_then(|node| node.children.get(&token).copied()))
    }

    /// Returns the tokens that may follow, ascending, the newline last; empty outside the tree.
    pub(super) fn allowed(&self, place: NodeRef) -> &[u32] {
        self.node(place).map_or(&[], |node| &node.allowed)
    }

    /// True if a value ends here.
    pub(super) fn is_complete(&self, place: NodeRef) -> bool {
        self.node(place).is_some_and(|node| node.complete)
    }

    /// Returns every prefix of a value with the tokens that may follow it, in ascending order.
    pub(super) fn prefixes(&self) -> Vec<(Vec<u32>, Vec<u32>)> {
        let mut prefixes = Vec::new();
        let mut open = vec![(Vec::new(), 0)];
        while let Some((prefix, at)) = open.pop() {
            let Some(node) = self.nodes.get(at) else { break };
            for (&token, &child) in &node.children {
                open.push(([&prefix[..], &[token]].concat(), child));
            }
            let mut allowed = node.allowed.clone();
            allowed.sort_unstable();
            prefixes.push((prefix, allowed));
        }
        prefixes.sort();
        prefixes
    }
}

/// True if the first letter is a note. As in upstream, a single space passes too: some
/// vocabularies, such as the tiny one, have no ` C` and begin with the space.
fn may_begin_a_key(text: &str) -> bool {
    text.trim_start().chars().next().is_none_or(|c| ('A'..='G').contains(&c.to_ascii_uppercase()))
}

/// Builds the trees of all fields with few values; durations are 10 to `max_seconds`. Captions and genres
/// have none: they are texts with rules of their own.
pub(super) fn of_fields(vocabulary: &Vocabulary<'_>, max_seconds: u32) -> BTreeMap<Field, Trie> {
    let numbers = |low: u32, high: u32| (low..=high).map(|number| number.to_string()).collect();
    let words = |words: &[&str]| words.iter().copied().map(str::to_owned).collect();
    let values: [(Field, Vec<String>); 5] = [
        (Field::Bpm, numbers(30, 300)),
        (Field::Duration, numbers(10, max_seconds)),
        (Field::Keyscale, keyscales().collect()),
        (Field::Language, words(&LANGUAGES)),
        (Field::Timesignature, words(&["2", "3", "4", "6"])),
    ];
    let tree = |(field, values)| (field, Trie::new(vocabulary, field, values));
    values.into_iter().map(tree).collect()
}
