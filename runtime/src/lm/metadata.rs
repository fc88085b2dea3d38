//! What the language model decides about a song.
