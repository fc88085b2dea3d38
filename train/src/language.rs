//! The language model learns: a caption to a plan and codes, and codes to what they are like.
//!
//! Cross-entropy of the next token, over what the model itself has to write: after the head of the
//! assistant's turn.
//!
//! Source: Radford et al. 2018 (causal language modelling on prompts and answers); the texts are those of
//! [`acestep_runtime::lm::prompt`].

use acestep_model::qwen3::Causal;
use acestep_runtime::lm::prompt as chat;
use burn::tensor::{Tensor, TensorData, activation::log_softmax, backend::AutodiffBackend};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tokenizers::Tokenizer;

use crate::{Error, flow::padded, labels::Labels};

/// A piece as codes, 5 a second.
#[derive(Debug, Clone)]
pub struct Coded {
    /// Indices into the codebook.
    pub codes: Vec<u32>,
    /// What it is.
    pub labels: Labels,
}

/// Share of the steps in which codes are read; in the others they are written.
const UNDERSTOOD: f64 = 0.25;

/// Items that are not told what is wanted, for guidance.
const UNTOLD: f64 = 0.08;

/// What does not change from step to step.
pub struct Texts<'a> {
    /// All pieces.
    pub corpus: &'a [Coded],
    /// Texts to tokens.
    pub tokenizer: &'a Tokenizer,
    /// The token of the first code.
    pub first_code: u32,
    /// The token that ends an answer.
    pub end: u32,
}

/// Tokens, and from which of them on the model writes.
type Lesson = (Vec<u32>, usize);

impl<'a> Texts<'a> {
    /// Looks up what is special.
    ///
    /// # Errors
    /// [`Error::Vocabulary`] if the tokenizer lacks it.
    pub fn new(corpus: &'a [Coded], tokenizer: &'a Tokenizer) -> Result<Self, Error> {
        let id = |content: &str| {
            let missing = || Error::Vocabulary(format!("it has no token `{content}`"));
            tokenizer.token_to_id(content).ok_or_else(missing)
        };
        let (first_code, end) = (id("<|audio_code_0|>")?, id("<|im_end|>")?);
        Ok(Self { corpus, tokenizer, first_code, end })
    }

    fn tokens(&self, text: &str) -> Vec<u32> {
        let encoding = self.tokenizer.encode_fast(text, true);
        encoding.expect("every text is bytes, and each has a token").get_ids().to_vec()
    }

    /// A song of a caption.
    fn generation(&self, song: &Coded, untold: bool) -> Lesson {
        let labels = &song.labels;
        let (prompt, plan) = match untold {
            false => (chat::plan(&labels.caption, &labels.lyrics), labels.plan() + "\n\n"),
            true => (chat::codes_unconditional("", "", None, chat::Turn::Open), String::new()),
        };
        let mut tokens = self.tokens(&prompt);
        let start = tokens.len();
        tokens.extend(self.tokens(&plan));
        tokens.extend(song.codes.iter().map(|code| self.first_code + code));
        tokens.push(self.end);
        (tokens, start)
    }

    /// What a song is like.
    fn understanding(&self, song: &Coded) -> Lesson {
        let labels = &song.labels;
        let mut tokens = self.tokens(&chat::understand(&song.codes));
        let start = tokens.len();
        tokens.extend(self.tokens(&format!("{}\n\n# Lyric\n{}", labels.plan(), labels.lyrics)));
        tokens.push(self.end);
        (tokens, start)
    }

    /// The loss of `items` songs: nats a token.
    pub fn loss<B>(
        &self,
        model: &Causal<B>,
        items: usize,
        seed: u64,
        device: &B::Device,
    ) -> Tensor<B, 1>
    where
        B: AutodiffBackend + acestep_model::Backend,
    {
        let mut random = Pcg64::seed_from_u64(seed);
        let understood = random.random_bool(UNDERSTOOD);
        // Songs of one length, so that little is padding.
        let first = &self.corpus[random.random_range(0..self.corpus.len())];
        let mut lessons = Vec::with_capacity(items);
        while lessons.len() < items {
            let song = &self.corpus[random.random_range(0..self.corpus.len())];
            if song.codes.len() != first.codes.len() {
                continue;
            }
            lessons.push(match understood {
                true => self.understanding(song),
                false => self.generation(song, random.random_bool(UNTOLD)),
            });
        }
        // The last token is asked for and never read.
        let length = lessons.iter().map(|(tokens, _)| tokens.len() - 1).max().unwrap_or(0);
        let mut wanted = Vec::with_capacity(items * length);
        let mut weight = Vec::with_capacity(items * length);
        for (tokens, start) in &lessons {
            for place in 1..=length {
                let is_own = place >= *start && place < tokens.len();
                wanted.push(tokens.get(place).map_or(0, |&token| token as i32));
                weight.push(f32::from(u8::from(is_own)));
            }
        }
        let count: f32 = weight.iter().sum();
        let rows = lessons.into_iter().map(|(mut tokens, _)| {
            tokens.pop();
            tokens
        });
        let (ids, _) = padded::<B>(rows.collect(), device);
        let scores = log_softmax(model.forward(ids), 2); // [B, L, V]
        let wanted = Tensor::from_data(TensorData::new(wanted, [items, length, 1]), device);
        let weight = Tensor::from_data(TensorData::new(weight, [items, length, 1]), device);
        (scores.gather(2, wanted) * weight).sum() * (-1.0 / count)
    }
}
