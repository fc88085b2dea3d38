//! Caption and lyrics as inputs of the condition encoder.
//!
//! The caption passes the whole text encoder; the lyrics only use its embedding table.
//!
//! Source: upstream `handler.py`, `infer_text_embeddings` and `infer_lyric_embeddings`.

use acestep_engine::Error;
use acestep_model::{Backend, acestep::Padded, qwen3};
use burn::tensor::{Int, Tensor, TensorData};

use crate::networks::Networks;

/// Maximum tokens of a caption prompt; the rest is cut off.
pub const CAPTION_TOKENS: usize = 256;

/// Maximum tokens of a lyric prompt; the rest is cut off.
pub const LYRIC_TOKENS: usize = 2048;

/// A batch of token ids, padded on the right to the longest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBatch {
    /// One row per text, all of equal length.
    pub ids: Vec<Vec<u32>>,
    /// True for a token of the text, false for padding.
    pub mask: Vec<Vec<bool>>,
}

impl TokenBatch {
    /// Tokenizes `texts`, each truncated to `most` tokens.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if the tokenizer cannot be read.
    pub fn new<B: Backend>(
        networks: &Networks<'_, B>,
        texts: &[&str],
        most: usize,
    ) -> Result<Self, Error> {
        let ids = texts.iter().map(|text| networks.token_ids(text, most));
        let ids: Vec<Vec<u32>> = ids.collect::<Result<_, _>>()?;
        let longest = ids.iter().map(Vec::len).max().unwrap_or(0);
        Ok(Self::fitted(ids, longest, networks.pad_token_id()?))
    }

    /// Truncates or pads every row to `length`.
    pub fn fitted(ids: Vec<Vec<u32>>, length: usize, pad: u32) -> Self {
        let mask = ids.iter().map(|row| (0..length).map(|i| i < row.len()).collect()).collect();
        let fit = |mut row: Vec<u32>| {
            row.resize(length, pad);
            row
        };
        Self { ids: ids.into_iter().map(fit).collect(), mask }
    }

    /// Returns the ids of every text without padding.
    pub fn rows_without_padding(&self) -> Vec<Vec<u32>> {
        let row = |(ids, mask): (&Vec<u32>, &Vec<bool>)| {
            ids.iter().zip(mask).filter(|(_, real)| **real).map(|(&id, _)| id).collect()
        };
        self.ids.iter().zip(&self.mask).map(row).collect()
    }

    /// Returns the common length of the rows.
    pub fn length(&self) -> usize {
        self.ids.first().map_or(0, Vec::len)
    }

    fn tensor<B: Backend>(
        &self,
        encoder: &qwen3::Model<B>,
        device: &B::Device,
    ) -> Result<Tensor<B, 2, Int>, Error> {
        let rows = encoder.vocabulary();
        if let Some(&id) = self.ids.iter().flatten().find(|&&id| id as usize >= rows) {
            return Err(Error::ForeignTokenizer { id, rows });
        }
        let ids: Vec<i32> = self.ids.iter().flatten().map(|&id| id as i32).collect();
        let shape = [self.ids.len(), self.length()];
        Ok(Tensor::from_data(TensorData::new(ids, shape), device))
    }

    /// Returns the last hidden states of the text encoder, `[B, L, text]`.
    ///
    /// # Errors
    /// [`Error::ForeignTokenizer`] if an id has no row in the encoder's table.
    pub fn encode<B: Backend>(
        &self,
        encoder: &qwen3::Model<B>,
        device: &B::Device,
    ) -> Result<Padded<B>, Error> {
        let hidden = encoder.forward(self.tensor(encoder, device)?);
        Ok(Padded { hidden, mask: self.mask.clone() })
    }

    /// Returns rows of the text encoder's embedding table, `[B, L, text]`.
    ///
    /// # Errors
    /// [`Error::ForeignTokenizer`] if an id has no row in it.
    pub fn embed<B: Backend>(
        &self,
        encoder: &qwen3::Model<B>,
        device: &B::Device,
    ) -> Result<Padded<B>, Error> {
        let hidden = encoder.embed(self.tensor(encoder, device)?);
        Ok(Padded { hidden, mask: self.mask.clone() })
    }
}
