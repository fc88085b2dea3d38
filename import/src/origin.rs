//! Whose files a network is read from, and in what types its weights are.

use std::fmt;

use crate::{Directory, Format, Tensors, blocks::Block};

/// Where a network's weights come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Whose layout the files have.
    pub format: Format,
    /// The types of the weights as the files spell them, that of the most bytes first.
    pub types: Vec<String>,
}

impl Origin {
    pub(crate) fn of(directory: &Directory, tensors: &Tensors) -> Self {
        Self { format: directory.format(), types: tensors.types() }
    }

    /// The types in which several weights share a scale.
    pub fn quantised(&self) -> impl Iterator<Item = &str> {
        self.types.iter().map(String::as_str).filter(|name| Block::from_name(name).is_some())
    }
}

/// `GGUF, Q4_K and Q6_K`; of plain types only the one of the most bytes.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut types: Vec<_> = self.quantised().collect();
        if types.is_empty() {
            types.extend(self.types.first().map(String::as_str));
        }
        write!(f, "{}, {}", self.format, types.join(" and "))
    }
}

/// What is worth saying of networks when they are used: what each is called, where it is from, its
/// directory.
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
