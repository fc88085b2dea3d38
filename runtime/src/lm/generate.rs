//! Tokens one after the other: reading prompts, drawing, and knowing when to stop.
//!
//! ```text
//! prompt -> cache -> scores of the last position -> guidance -> rules -> draw -> cache -> ...
//! ```
//!
//! What two prompts begin with is read once, and a batch of songs reads its prompt once.
//!
//! Source: upstream `_generate_with_constrained_decoding`, `_generate_with_cfg_custom`. Rows are not
//! padded to one length as there; positions are relative, so that changes nothing.

use std::time::{Duration, Instant};

use acestep_model::{Backend, Place, nn::Cache, qwen3};
use burn::tensor::Tensor;

use super::{
    constrain::{Grammar, Machine, Rules},
    sample::{Draws, Sampler, Scores, Tokens, guide},
    vocabulary::Vocabulary,
};
use crate::{
    Error,
    host::to_host,
    observe::{Event, Observe, Stage, check},
};

/// Tokens of a prompt that are read at once; between them Ctrl-C is heard.
const READ_AT_ONCE: usize = 512;

/// One answer of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// What was written, the ending token included.
    pub tokens: Vec<u32>,
    /// From the prompt to the first token.
    pub first_token: Duration,
    /// All of it.
    pub elapsed: Duration,
}

/// What codes are written after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prompts<'a> {
    /// The prompt with the plan.
    pub conditional: &'a [u32],
    /// What guidance leads away from, and how strongly.
    pub unconditional: Option<(&'a [u32], f32)>,
}

/// A language model that writes.
pub struct Writer<'a, B: Backend> {
    /// The network.
    pub model: &'a qwen3::Causal<B>,
    /// Its sizes.
    pub config: &'a qwen3::Config,
    /// Where it is.
    pub place: &'a Place<B>,
    /// What answers look like.
    pub grammar: &'a Grammar<'a>,
    /// How a token is chosen.
    pub sampler: Sampler,
    /// Tokens of prompt and answer together, at most.
    pub max_seq: usize,
    /// How long reading it took.
    pub loading: Duration,
    /// Who watches.
    pub observe: &'a dyn Observe,
}

impl<B: Backend> Writer<'_, B> {
    /// Writes metadata and words, up to `limit` tokens.
    ///
    /// Tokens that can only be one, such as names of fields, are not scored, and read together.
    ///
    /// # Errors
    /// [`Error::PromptTooLong`], [`Error::Scores`], [`Error::NeverStopped`] with what was written,
    /// [`Error::Cancelled`].
    pub fn text(
        &self,
        prompt: &[u32],
        rules: Rules,
        limit: usize,
        seed: u64,
    ) -> Result<Answer, Error> {
        let start = Instant::now();
        let limit = self.room(prompt.len(), limit)?;
        let mut cache = self.config.cache(1, prompt.len() + limit, self.place);
        let mut draws = Draws::new(seed, self.model.vocabulary());
        let mut machine = Machine::new(self.grammar, rules);
        machine.start(prompt);
        let mut history = prompt.to_vec();
        let mut read = 0;
        let mut answer = Answer::default();
        self.observe.event(Event::Advanced { stage: Stage::LmText, done: 0, total: limit });
        while answer.tokens.len() < limit {
            let token = match machine.forced() {
                Some(token) => {
                    // A draw at temperature 0 takes nothing from the stream either.
                    if self.sampler.temperature > 0.0 {
                        draws.skip();
                    }
                    token
                }
                None => {
                    check(self.observe)?;
                    let hidden = self.read(&history[read..], 0, &mut cache)?;
                    read = history.len();
                    let tokens = self.tokens(machine.wants_codes_only());
                    let mut scores = self.scores(hidden, tokens).remove(0);
                    let step = answer.tokens.len();
                    let unusable = |source| self.unusable(source, step, &answer.tokens);
                    // Before a rule can hide what is no number.
                    scores.check().map_err(unusable)?;
                    machine.constrain(&mut scores);
                    self.sampler.choose(&mut scores, &history, &mut draws).map_err(unusable)?
                }
            };
            machine.advance(token);
            history.push(token);
            answer.tokens.push(token);
            if answer.tokens.len() == 1 {
                answer.first_token = start.elapsed();
            }
            let done = answer.tokens.len();
            self.observe.event(Event::Advanced { stage: Stage::LmText, done, total: limit });
            if self.vocabulary().is_last(token) {
                answer.elapsed = start.elapsed();
                return Ok(answer);
            }
        }
        Err(Error::NeverStopped { tokens: limit, had: self.decode(&answer.tokens) })
    }

    /// Writes codes for every one of `seeds`, all in one pass a token, up to `limit` tokens each.
    ///
    /// An item's codes do not depend on how many others there are.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn codes(
        &self,
        prompts: Prompts<'_>,
        rules: &Rules,
        limit: usize,
        seeds: &[u64],
    ) -> Result<Vec<Answer>, Error> {
        let start = Instant::now();
        let items = seeds.len();
        let guidance = prompts.unconditional;
        let longest = prompts.conditional.len().max(guidance.map_or(0, |(ids, _)| ids.len()));
        let limit = self.room(longest, limit)?;
        if let Some(codes) = rules.target_codes().filter(|codes| codes + 1 > limit) {
            let tokens = longest + codes + 1;
            return Err(Error::PromptTooLong { tokens, most: self.max_seq });
        }
        let rows = if guidance.is_some() { 2 * items } else { items };
        let mut cache = self.config.cache(rows, longest + limit, self.place);
        let expected = rules.target_codes().map_or(limit, |codes| codes + 1);
        self.observe.event(Event::Advanced { stage: Stage::LmCodes, done: 0, total: expected });
        let mut hidden = self.prefill(prompts, items, &mut cache)?;

        let mut writing = Machine::new(self.grammar, rules.clone());
        writing.start(prompts.conditional);
        let mut songs: Vec<Song<'_>> = seeds
            .iter()
            .map(|&seed| Song {
                machine: writing.clone(),
                draws: Draws::new(seed, self.model.vocabulary()),
                history: prompts.conditional.to_vec(),
                answer: Answer::default(),
                is_over: false,
            })
            .collect();
        for step in 0..limit {
            check(self.observe)?;
            // Rows are scored alike: all of them, unless every song is at its codes.
            let at_codes = songs.iter().all(|song| song.machine.wants_codes_only());
            let tokens = self.tokens(at_codes);
            let mut scores = self.scores(hidden, tokens).into_iter();
            let conditional: Vec<Scores> = scores.by_ref().take(items).collect();
            let mut unconditional = scores;
            for (song, mut scores) in songs.iter_mut().zip(conditional) {
                if let (Some((_, scale)), Some(other)) = (guidance, unconditional.next()) {
                    guide(&mut scores, &other, scale);
                }
                if song.is_over {
                    continue;
                }
                let unusable = |source| self.unusable(source, step, &song.answer.tokens);
                scores.check().map_err(unusable)?;
                song.machine.constrain(&mut scores);
                let token = self
                    .sampler
                    .choose(&mut scores, &song.history, &mut song.draws)
                    .map_err(unusable)?;
                song.machine.advance(token);
                song.history.push(token);
                song.answer.tokens.push(token);
                song.is_over = self.vocabulary().is_last(token);
                if step == 0 {
                    song.answer.first_token = start.elapsed();
                }
                song.answer.elapsed = start.elapsed();
            }
            let done = (step + 1).min(expected);
            self.observe.event(Event::Advanced { stage: Stage::LmCodes, done, total: expected });
            if songs.iter().all(|song| song.is_over) {
                return Ok(songs.into_iter().map(|song| song.answer).collect());
            }
            // A song that is over is read on with its end, which nobody looks at.
            let last = |song: &Song<'_>| song.history.last().copied().unwrap_or_default();
            let next: Vec<u32> = (0..rows).map(|row| last(&songs[row % items])).collect();
            hidden = self.model.step(&next, 0..rows, &mut cache, &self.place.device);
        }
        let had = songs.iter().find(|song| !song.is_over).map(|song| &song.answer.tokens);
        Err(Error::NeverStopped { tokens: limit, had: self.decode(had.map_or(&[], Vec::as_slice)) })
    }

    /// Reads the prompts of all rows: what they share once, and each once for all songs.
    fn prefill(
        &self,
        prompts: Prompts<'_>,
        items: usize,
        cache: &mut Cache<B>,
    ) -> Result<Tensor<B, 2>, Error> {
        let conditional = prompts.conditional;
        let mut hidden = vec![];
        if let Some((other, _)) = prompts.unconditional {
            // The last token of each is read apart: its hidden state is what is asked for.
            let most = conditional.len().min(other.len()).saturating_sub(1);
            let pairs = conditional.iter().zip(other).take(most);
            let shared = pairs.take_while(|(a, b)| a == b).count();
            // ANCHOR: prefill
            if shared > 0 {
                self.read(&conditional[..shared], 0, cache)?;
                cache.copy_row(0, items);
            }
            hidden.push(self.read(&conditional[shared..], 0, cache)?);
            hidden.push(self.read(&other[shared..], items, cache)?);
            // ANCHOR_END: prefill
        } else {
            hidden.push(self.read(conditional, 0, cache)?);
        }
        for row in 1..items {
            cache.copy_row(0, row);
            if prompts.unconditional.is_some() {
                cache.copy_row(items, items + row);
            }
        }
        let each = hidden.into_iter().map(|row| row.repeat_dim(0, items)).collect();
        Ok(Tensor::cat(each, 0))
    }

    /// Reads tokens into a row, in pieces; gives the hidden state of the last one.
    pub(super) fn read(
        &self,
        ids: &[u32],
        row: usize,
        cache: &mut Cache<B>,
    ) -> Result<Tensor<B, 2>, Error> {
        let mut hidden = None;
        for piece in ids.chunks(READ_AT_ONCE) {
            check(self.observe)?;
            hidden = Some(self.model.read(piece, row, cache, &self.place.device));
        }
        hidden
            .ok_or_else(|| Error::Conflict("there is nothing to read: the prompt is empty".into()))
    }

    /// Which tokens have to be scored.
    fn tokens(&self, codes_only: bool) -> Tokens {
        let vocabulary = self.vocabulary();
        if codes_only {
            Tokens::CodesAndEnd { end: vocabulary.end, first_code: vocabulary.codes().start }
        } else {
            Tokens::All
        }
    }

    /// The ids of a text; special tokens that are written out in it are one each.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.vocabulary().tokenizer().encode(text)
    }

    /// The text of tokens, special ones written out.
    pub fn decode(&self, tokens: &[u32]) -> String {
        self.vocabulary().tokenizer().decode(tokens)
    }

    /// The scores of each row, on the host.
    fn scores(&self, hidden: Tensor<B, 2>, tokens: Tokens) -> Vec<Scores> {
        let rows = hidden.dims()[0];
        let codes = self.vocabulary().codes();
        let scores = match tokens {
            // Rows of the network beyond the tokenizer's tokens mean nothing.
            Tokens::All => {
                let known = self.vocabulary().size();
                self.model.scores(hidden, std::slice::from_ref(&(0..known as usize)))
            }
            Tokens::CodesAndEnd { end, .. } => {
                let end = end as usize..end as usize + 1;
                self.model.scores(hidden, &[end, codes.start as usize..codes.end as usize])
            }
        };
        let each = scores.dims()[1];
        let values = to_host(scores);
        let rows = (0..rows).map(|row| values[row * each..(row + 1) * each].to_vec());
        rows.map(|logits| Scores { logits, tokens }).collect()
    }

    /// How many tokens an answer to `prompt` tokens may have.
    fn room(&self, prompt: usize, wanted: usize) -> Result<usize, Error> {
        match self.max_seq.checked_sub(prompt) {
            Some(room) if room > 0 => Ok(room.min(wanted)),
            _ => Err(Error::PromptTooLong { tokens: prompt, most: self.max_seq }),
        }
    }

    fn vocabulary(&self) -> &Vocabulary<'_> {
        self.grammar.vocabulary()
    }

    pub(super) fn unusable(
        &self,
        source: super::sample::ScoreError,
        step: usize,
        had: &[u32],
    ) -> Error {
        Error::Scores { step, dtype: self.place.dtype, source, had: self.decode(had) }
    }
}

/// A song of the batch while its codes are written.
struct Song<'a> {
    machine: Machine<'a>,
    draws: Draws,
    history: Vec<u32>,
    answer: Answer,
    is_over: bool,
}
