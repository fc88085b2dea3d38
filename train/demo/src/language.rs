//! Training of the language model on three tasks: a caption to a plan and codes, codes to a
//! description, and a few words to a plan with lyrics. Lyrics are only tags of sections.
//!
//! The loss is the cross-entropy of the next token over the model's own text: after the head of the
//! assistant's turn.
//!
//! Source: Radford et al. 2018 (causal language modelling on prompts and answers); the texts are
//! from [`acestep_music::lm::prompt`].

use acestep_model::qwen3::Causal;
use acestep_music::{lm::prompt as chat, prompt::INSTRUMENTAL};
use acestep_train::Error;
use burn::tensor::{Tensor, TensorData, activation::log_softmax, backend::AutodiffBackend};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tokenizers::Tokenizer;

use crate::{flow::padded, labels::Labels};

/// A piece as audio codes, 5 per second.
#[derive(Debug, Clone)]
pub struct Coded {
    /// Indices into the codebook.
    pub codes: Vec<u32>,
    /// The labels.
    pub labels: Labels,
}

/// The task of a step.
#[derive(Debug, Clone, Copy)]
pub enum LmTask {
    /// Caption to codes.
    Codes,
    /// Codes to description.
    Understand,
    /// A few words to plan and lyrics.
    Inspire,
    /// A few words and lyrics to plan and lyrics.
    Format,
}

/// Share of the steps of each task.
pub const SHARES: [(LmTask, f64); 4] = [
    (LmTask::Codes, 0.6),
    (LmTask::Understand, 0.28),
    (LmTask::Inspire, 0.08),
    (LmTask::Format, 0.04),
];

/// Share of unconditional items, for guidance.
const UNCONDITIONAL: f64 = 0.08;

/// Training data and constants of all steps.
pub struct Texts<'a> {
    /// All pieces.
    pub corpus: &'a [Coded],
    /// The tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// The token of the first code.
    pub first_code: u32,
    /// The token that ends an answer.
    pub end: u32,
}

/// Imitates a user's request for such a piece: its caption, a part of it, or only its style.
fn few_words(labels: &Labels, random: &mut Pcg64) -> String {
    match random.random_range(0..3) {
        0 => labels.caption.clone(),
        1 => labels.style.clone(),
        _ => {
            let parts = labels.caption.trim_end_matches('.').split(", ");
            let kept: Vec<&str> = parts.filter(|_| random.random_bool(0.5)).collect();
            if kept.is_empty() { labels.style.clone() } else { kept.join(", ") }
        }
    }
}

/// Tokens, and the index of the first one that the model writes.
type Example = (Vec<u32>, usize);

impl<'a> Texts<'a> {
    /// Looks up the special tokens.
    ///
    /// # Errors
    /// [`Error::Vocabulary`] if the tokenizer lacks one.
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

    /// Builds an item of plan and codes from a caption.
    fn generation(&self, song: &Coded, unconditional: bool, is_short: bool) -> Example {
        let labels = &song.labels;
        let plan = if is_short { labels.short_plan() } else { labels.plan() };
        let (prompt, plan) = match unconditional {
            false => (chat::plan(&labels.caption, &labels.lyrics), plan + "\n\n"),
            true => {
                (chat::codes_unconditional("", "", None, chat::PromptStyle::Open), String::new())
            }
        };
        let mut tokens = self.tokens(&prompt);
        let start = tokens.len();
        tokens.extend(self.tokens(&plan));
        tokens.extend(song.codes.iter().map(|code| self.first_code + code));
        tokens.push(self.end);
        (tokens, start)
    }

    /// Builds an item of plan and lyrics after `prompt`.
    fn description(&self, prompt: &str, labels: &Labels) -> Example {
        let mut tokens = self.tokens(prompt);
        let start = tokens.len();
        tokens.extend(self.tokens(&format!("{}\n\n# Lyric\n{}", labels.plan(), labels.lyrics)));
        tokens.push(self.end);
        (tokens, start)
    }

    fn example(&self, task: LmTask, song: &Coded, short: f64, random: &mut Pcg64) -> Example {
        let labels = &song.labels;
        match task {
            LmTask::Codes => {
                let unconditional = random.random_bool(UNCONDITIONAL);
                self.generation(song, unconditional, short > 0.0 && random.random_bool(short))
            }
            LmTask::Understand => self.description(&chat::understand(&song.codes), labels),
            LmTask::Inspire => {
                let is_instrumental = labels.lyrics == INSTRUMENTAL;
                let query = few_words(labels, random);
                self.description(&chat::inspire(&query, is_instrumental), labels)
            }
            LmTask::Format => {
                let query = few_words(labels, random);
                self.description(&chat::format(&query, &labels.lyrics), labels)
            }
        }
    }

    /// Returns the loss, `[1]`, of `items` songs in nats per token. `short` is the share of plans
    /// without caption and language. Inference uses such a plan, not written by the model, if the
    /// user gives tempo, key, metre and length.
    pub fn loss<B>(
        &self,
        model: &Causal<B>,
        items: usize,
        short: f64,
        seed: u64,
        device: &B::Device,
    ) -> Tensor<B, 1>
    where
        B: AutodiffBackend + acestep_model::Backend,
    {
        let mut random = Pcg64::seed_from_u64(seed);
        let mut left = random.random::<f64>();
        let is_it = |(_, share): &&(LmTask, f64)| {
            left -= share;
            left < 0.0
        };
        let (task, _) = *SHARES.iter().find(is_it).unwrap_or(&SHARES[0]);
        // Songs of equal length need little padding.
        let first = &self.corpus[random.random_range(0..self.corpus.len())];
        let mut examples = Vec::with_capacity(items);
        while examples.len() < items {
            let song = &self.corpus[random.random_range(0..self.corpus.len())];
            if song.codes.len() != first.codes.len() {
                continue;
            }
            examples.push(self.example(task, song, short, &mut random));
        }
        // The last token is only a target.
        let length = examples.iter().map(|(tokens, _)| tokens.len() - 1).max().unwrap_or(0);
        let mut wanted = Vec::with_capacity(items * length);
        let mut weight = Vec::with_capacity(items * length);
        for (tokens, start) in &examples {
            for place in 1..=length {
                let is_own = place >= *start && place < tokens.len();
                wanted.push(tokens.get(place).map_or(0, |&token| token as i32));
                weight.push(f32::from(u8::from(is_own)));
            }
        }
        let count: f32 = weight.iter().sum();
        let rows = examples.into_iter().map(|(mut tokens, _)| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_all_there_is() {
        assert!((SHARES.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_few_words_are_of_the_caption_or_name_the_style() {
        let labels = Labels {
            caption: "rock, powerful, fast, deep bass".to_owned(),
            lyrics: INSTRUMENTAL.to_owned(),
            bpm: 159,
            keyscale: "F# major".to_owned(),
            timesignature: "4".to_owned(),
            duration: 10.0,
            style: "hard rock".to_owned(),
        };
        let mut random = Pcg64::seed_from_u64(1);
        let mut all: Vec<String> = (0..200).map(|_| few_words(&labels, &mut random)).collect();
        all.sort();
        all.dedup();
        // Any of the caption's parts may be left out; without parts, the style is used.
        assert_eq!(all.len(), 16, "{all:?}");
        for words in all.iter().filter(|words| **words != labels.style) {
            let said = words.split(", ").all(|part| labels.caption.contains(part));
            assert!(said, "{words}");
        }
    }
}
