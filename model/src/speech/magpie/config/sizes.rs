//! Sizes that follow from the tensors.

/// Number of special codes after those of a codebook: begin, end, six others.
pub const SPECIAL_CODES: usize = 8;

/// Sizes that the configuration does not contain: of the vocabulary, the codec and the voices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// Rows of the text table: the vocabulary, then begin and end.
    pub text_rows: usize,
    /// Codebooks of the codec.
    pub codebooks: usize,
    /// Codes of a codebook, without special ones.
    pub codes: usize,
    /// Rows of each voice in the file.
    pub context_rows: usize,
    /// Rows of each voice that are used.
    pub context_lengths: Vec<usize>,
}

impl Sizes {
    /// Returns the rows of a table of codes.
    pub fn code_rows(&self) -> usize {
        self.codes + SPECIAL_CODES
    }

    /// Returns the code that begins speech.
    pub fn begin(&self) -> usize {
        self.codes
    }

    /// Returns the code that ends speech.
    pub fn end(&self) -> usize {
        self.codes + 1
    }
}
