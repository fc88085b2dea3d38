//! The model's text back to metadata, codes and lyrics.
