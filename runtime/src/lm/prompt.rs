//! The texts that the language model continues, byte by byte.
