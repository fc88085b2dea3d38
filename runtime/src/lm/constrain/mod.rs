//! Which tokens may come next.
//!
//! A machine goes through the plan field by field. Before each token it forbids whatever would
//! break the form; after it, it takes note. Names are forced, values come from trees of tokens, the
//! caption is nearly free, and codes follow until there are enough.
//!
//! | file | what |
//! |---|---|
//! | `state` | the states and their order |
//! | `rules` | what an answer has to be |
//! | `machine` | the steps from one to the next |
//! | `grammar` | what is made once of a vocabulary |
//! | `fixed`, `tries` | names; values of which there are few |
//! | `caption`, [`genres`] | values that are text |
//! | [`replay`] | what the reference did, once more |
//!
//! Source: upstream `constrained_logits_processor.py`. Its oddities are kept where a stored result
//! shows them, and each says so. Two are not, and concern only what upstream cannot end well: a
//! skipped field that the model names by itself (see `state`), and the end of genres without a
//! list, where upstream counts the newline as the first letter of `keyscale:` and so loses the key.

mod caption;
mod fixed;
pub mod genres;
mod grammar;
mod machine;
pub mod replay;
mod rules;
mod state;
mod tries;

pub use grammar::Grammar;
pub use machine::Machine;
pub use rules::{Phase, Rules, UserValues};
pub use state::{Field, State};

#[cfg(test)]
mod tests;
