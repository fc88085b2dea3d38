//! Format of a network's files, and the types of its weights.

use std::fmt;

use crate::{Directory, ModelFormat, Tensors, blocks::Block};

/// Format and weight types of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Layout of the files.
    pub format: ModelFormat,
    /// Types of the weights as in the files, ordered by bytes, largest first.
    pub types: Vec<String>,
}

impl Origin {
    pub(crate) fn of(directory: &Directory, tensors: &Tensors) -> Self {
        Self { format: directory.format(), types: tensors.types() }
    }

    /// Returns the quantised types, in which several weights share a scale.
    pub fn quantised(&self) -> impl Iterator<Item = &str> {
        self.types.iter().map(String::as_str).filter(|name| Block::from_name(name).is_some())
    }
}

/// Formats as `GGUF, Q4_K and Q6_K`; for plain types, only the one with the most bytes.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut types: Vec<_> = self.quantised().collect();
        if types.is_empty() {
            types.extend(self.types.first().map(String::as_str));
        }
        write!(f, "{}, {}", self.format, types.join(" and "))
    }
}

/// Returns the notices about networks in use; each has its name, its origin and its directory.
pub(crate) fn notices<const N: usize>(networks: [(&str, &Origin, &Directory); N]) -> Vec<String> {
    let quantised = networks.iter().filter_map(|(name, origin, _)| {
        let types: Vec<_> = origin.quantised().collect();
        (!types.is_empty()).then(|| {
            format!(
                "the {name} is quantised ({}): its weights are coarser than the release's, and \
                 what it makes is another",
                types.join(", ")
            )
        })
    });
    let own = networks.iter().flat_map(|(.., directory)| directory.notices().iter().cloned());
    quantised.chain(own).collect()
}
