//! Token-by-token generation: reads prompts, samples, and stops.
//!
//! ```text
//! prompt -> cache -> scores of the last position -> guidance -> rules -> draw -> cache -> ...
//! ```
//!
//! A common prefix of two prompts is read once, and a batch of songs reads its prompt once.
//!
//! Source: upstream `_generate_with_constrained_decoding`, `_generate_with_cfg_custom`. Upstream
//! pads rows to one length; this does not, which changes nothing because positions are relative.

use std::time::{Duration, Instant};

use acestep_engine::{
    Error,
    host::to_host,
    progress::{Event, Observe, check},
};
use acestep_model::{Backend, Place, nn::Cache, qwen3};
use burn::tensor::Tensor;

use super::{
    constrain::{AnswerMachine, Grammar, Rules},
    sample::{Draws, Sampler, Scores, TokenMap, guide},
    vocabulary::Vocabulary,
};
use crate::stage;

/// Tokens of a prompt per call; cancellation is checked between calls.
const READ_AT_ONCE: usize = 512;

/// One answer of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The written tokens, including the end token.
    pub tokens: Vec<u32>,
    /// Time from the prompt to the first token.
    pub first_token: Duration,
    /// Total time.
    pub elapsed: Duration,
}

/// Prompts of the codes phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prompts<'a> {
    /// The prompt with the plan.
    pub conditional: &'a [u32],
    /// The unconditional prompt and the guidance scale.
    pub unconditional: Option<(&'a [u32], f32)>,
}

/// A loaded language model with its settings.
pub struct Writer<'a, B: Backend> {
    /// The network.
    pub model: &'a qwen3::Causal<B>,
    /// Sizes of the network.
    pub config: &'a qwen3::Config,
    /// Device and dtype.
    pub place: &'a Place<B>,
    /// Tables for constrained decoding.
    pub grammar: &'a Grammar<'a>,
    /// Sampling settings.
    pub sampler: Sampler,
    /// Most tokens of prompt and answer together.
    pub max_seq: usize,
    /// Time for loading the model.
    pub loading: Duration,
    /// Receiver of progress events.
    pub observe: &'a dyn Observe,
}

impl<B: Backend> Writer<'_, B> {
    /// Writes metadata and lyrics, up to `limit` tokens.
    ///
    /// Forced tokens, such as names of fields, are not scored, and are read together.
    ///
    /// # Errors
    /// [`Error::PromptTooLong`], [`Error::Scores`], [`Error::NeverStopped`] with the output so far,
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
        let mut machine = AnswerMachine::new(self.grammar, rules);
        machine.start(prompt);
        let mut history = prompt.to_vec();
        let mut read = 0;
        let mut answer = Answer::default();
        self.observe.event(Event::Advanced { stage: stage::LM_TEXT, done: 0, total: limit });
        while answer.tokens.len() < limit {
            let token = match machine.forced() {
                Some(token) => {
                    // Greedy sampling does not consume random numbers either.
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
                    // Before a rule can hide a NaN.
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
            self.observe.event(Event::Advanced { stage: stage::LM_TEXT, done, total: limit });
            if self.vocabulary().is_last(token) {
                answer.elapsed = start.elapsed();
                return Ok(answer);
            }
        }
        Err(Error::NeverStopped { tokens: limit, had: self.decode(&answer.tokens) })
    }

    /// Writes codes for each of `seeds`, up to `limit` tokens each, as one batch.
    ///
    /// The codes of a song do not depend on the batch size.
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
        self.observe.event(Event::Advanced { stage: stage::LM_CODES, done: 0, total: expected });
        let mut hidden = self.prefill(prompts, items, &mut cache)?;

        let mut writing = AnswerMachine::new(self.grammar, rules.clone());
        writing.start(prompts.conditional);
        let mut songs: Vec<SongState<'_>> = seeds
            .iter()
            .map(|&seed| SongState {
                machine: writing.clone(),
                draws: Draws::new(seed, self.model.vocabulary()),
                history: prompts.conditional.to_vec(),
                answer: Answer::default(),
                is_over: false,
            })
            .collect();
        for step in 0..limit {
            check(self.observe)?;
            // All rows score the same tokens: only codes if every song is at its codes.
            let at_codes = songs.iter().all(|song| song.machine.wants_codes_only());
            let tokens = self.tokens(at_codes);
            let mut scores = self.scores(hidden, tokens).into_iter();
            let conditional: Vec<Scores> = scores.by_ref().take(items).collect();
            let mut unconditional = scores;
            let mut open = Vec::new();
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
                open.push((song, scores));
            }
            let turns = open.iter_mut().map(|(song, scores)| {
                let SongState { history, draws, .. } = song;
                (scores, &history[..], draws)
            });
            let tokens = self.sampler.choose_all(turns.collect());
            for ((song, _), token) in open.into_iter().zip(tokens) {
                let unusable = |source| self.unusable(source, step, &song.answer.tokens);
                let token = token.map_err(unusable)?;
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
            self.observe.event(Event::Advanced { stage: stage::LM_CODES, done, total: expected });
            if songs.iter().all(|song| song.is_over) {
                return Ok(songs.into_iter().map(|song| song.answer).collect());
            }
            // A finished song is fed its end token again; the result is ignored.
            let last = |song: &SongState<'_>| song.history.last().copied().unwrap_or_default();
            let next: Vec<u32> = (0..rows).map(|row| last(&songs[row % items])).collect();
            hidden = self.model.step(&next, 0..rows, &mut cache, &self.place.device);
        }
        let had = songs.iter().find(|song| !song.is_over).map(|song| &song.answer.tokens);
        Err(Error::NeverStopped { tokens: limit, had: self.decode(had.map_or(&[], Vec::as_slice)) })
    }

    /// Reads the prompts of all rows: their common prefix once, and each prompt once for all songs.
    fn prefill(
        &self,
        prompts: Prompts<'_>,
        items: usize,
        cache: &mut Cache<B>,
    ) -> Result<Tensor<B, 2>, Error> {
        let conditional = prompts.conditional;
        let mut hidden = vec![];
        if let Some((other, _)) = prompts.unconditional {
            // The last token is never shared, because its hidden state is needed for each prompt.
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

    /// Reads tokens into a row, in chunks; returns the hidden state of the last one.
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

    /// Returns the tokens to score.
    fn tokens(&self, codes_only: bool) -> TokenMap {
        let vocabulary = self.vocabulary();
        if codes_only {
            TokenMap::CodesAndEnd { end: vocabulary.end, first_code: vocabulary.codes().start }
        } else {
            TokenMap::All
        }
    }

    /// Tokenises a text; a special token in it becomes one id.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.vocabulary().tokenizer().encode(text)
    }

    /// Converts tokens to text, including special tokens.
    pub fn decode(&self, tokens: &[u32]) -> String {
        self.vocabulary().tokenizer().decode(tokens)
    }

    /// Returns the scores of each row, on the host.
    fn scores(&self, hidden: Tensor<B, 2>, tokens: TokenMap) -> Vec<Scores> {
        let rows = hidden.dims()[0];
        let codes = self.vocabulary().codes();
        let scores = match tokens {
            // The network's rows beyond the tokenizer's tokens are padding.
            TokenMap::All => {
                let known = self.vocabulary().size();
                self.model.scores(hidden, std::slice::from_ref(&(0..known as usize)))
            }
            TokenMap::CodesAndEnd { end, .. } => {
                let end = end as usize..end as usize + 1;
                self.model.scores(hidden, &[end, codes.start as usize..codes.end as usize])
            }
        };
        let each = scores.dims()[1];
        let mut first = to_host(scores);
        let mut logits: Vec<_> = (1..rows).rev().map(|row| first.split_off(row * each)).collect();
        logits.push(first);
        logits.into_iter().rev().map(|logits| Scores { logits, tokens }).collect()
    }

    /// Returns the most tokens of an answer to `prompt` tokens.
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

/// State of one song of the batch in the codes phase.
struct SongState<'a> {
    machine: AnswerMachine<'a>,
    draws: Draws,
    history: Vec<u32>,
    answer: Answer,
    is_over: bool,
}
