//! The state machine.

use super::{Field, Grammar, Phase, Rules, State, caption::Caption, tries::NodeRef};
use crate::{
    lm::sample::{Scores, TokenMap},
    python::strip,
};

/// Progress within the value of a field.
#[derive(Debug, Clone)]
struct Value {
    place: NodeRef,
    /// True after the first token.
    begun: bool,
    /// Text so far, used for genres only.
    text: String,
    /// Number of digits so far.
    digits: usize,
    caption: Caption,
}

impl Value {
    fn new() -> Self {
        let (text, caption) = (String::new(), Caption::default());
        Self { place: NodeRef::ROOT, begun: false, text, digits: 0, caption }
    }
}

/// A value from the user that is being forced into the answer.
#[derive(Debug, Clone)]
struct Injection {
    field: Field,
    tokens: std::vec::IntoIter<u32>,
}

/// State machine of one answer.
#[derive(Clone)]
pub struct AnswerMachine<'a> {
    grammar: &'a Grammar<'a>,
    rules: Rules,
    pub(super) state: State,
    /// Number of characters written of the state's fixed text.
    written: usize,
    value: Value,
    injection: Option<Injection>,
    codes: usize,
}

impl<'a> AnswerMachine<'a> {
    /// Creates a machine in the first state.
    pub fn new(grammar: &'a Grammar<'a>, rules: Rules) -> Self {
        Self {
            grammar,
            rules,
            state: State::ThinkTag,
            written: 0,
            value: Value::new(),
            injection: None,
            codes: 0,
        }
    }

    /// Reads the prompt: in the codes phase, a prompt with `</think>` already has the plan.
    pub fn start(&mut self, prompt: &[u32]) {
        let tag = &self.grammar.vocabulary.think_end;
        let has_plan = !tag.is_empty() && prompt.windows(tag.len()).any(|window| window == tag);
        if self.rules.enabled && self.rules.phase == Phase::Codes && has_plan {
            self.enter(State::Codes);
        }
    }

    /// Returns the state of the next token.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the number of codes so far.
    pub fn codes(&self) -> usize {
        self.codes
    }

    /// True if only codes and the end token can follow; the network need not score other tokens.
    pub fn wants_codes_only(&self) -> bool {
        self.rules.enabled && self.state == State::Codes
    }

    /// Returns the next token if it does not depend on the scores, so they need not be computed.
    ///
    /// `None` if the scores decide, or if nothing is forced.
    pub fn forced(&self) -> Option<u32> {
        if !self.rules.enabled {
            return None;
        }
        if let Some(injection) = &self.injection {
            return injection.tokens.as_slice().first().copied();
        }
        match self.state {
            State::ThinkEndTag if self.rules.stop_at_reasoning => {
                Some(self.grammar.vocabulary().end)
            }
            State::ThinkTag | State::NewlineAfterThink | State::Name(_) | State::ThinkEndTag => {
                self.grammar.fixed.next(self.state, self.written)
            }
            State::Value(_) | State::Codes | State::Completed => None,
        }
    }

    /// Forbids invalid tokens, and applies the temperature of the phase.
    pub fn constrain(&mut self, scores: &mut Scores) {
        if self.rules.enabled {
            self.forbid(scores);
        }
        let is_plan = !matches!(self.state, State::Codes | State::Completed);
        let Rules { metadata_temperature, codes_temperature, .. } = self.rules;
        let temperature = if is_plan { metadata_temperature } else { codes_temperature };
        if let Some(temperature) = temperature {
            // As in upstream, avoid a division by zero.
            let temperature = if temperature <= 0.0 { 1e-6 } else { temperature };
            scores.logits.iter_mut().for_each(|score| *score /= temperature);
        }
    }

    fn forbid(&mut self, scores: &mut Scores) {
        let vocabulary = self.grammar.vocabulary;
        // Forbid the network's padding rows beyond the tokenizer's tokens.
        if scores.tokens == TokenMap::All {
            scores.forbid_all(vocabulary.size()..u32::MAX);
        }
        if let Some(token) = self.forced() {
            return scores.allow_only(&[token]);
        }
        match self.state {
            State::Codes => self.forbid_all_but_codes(scores),
            State::Completed => {
                if self.rules.phase == Phase::Understand {
                    scores.forbid_all(vocabulary.codes());
                }
            }
            // No token continues the fixed text: forbid all.
            State::ThinkTag | State::NewlineAfterThink | State::Name(_) | State::ThinkEndTag => {
                scores.allow_only(&[]);
            }
            State::Value(field) => self.forbid_in_value(field, scores),
        }
    }

    fn forbid_all_but_codes(&self, scores: &mut Scores) {
        let vocabulary = self.grammar.vocabulary;
        let (codes, end) = (vocabulary.codes(), vocabulary.end);
        // ANCHOR: code_count
        match self.rules.target_codes() {
            Some(target) if self.codes >= target => return scores.allow_only(&[end]),
            Some(_) => scores.forbid(end),
            None => {}
        }
        // ANCHOR_END: code_count
        let of_end = scores.of(end);
        scores.forbid_all(codes.end..u32::MAX);
        if scores.tokens == TokenMap::All {
            scores.forbid_all(0..codes.start);
        }
        if let Some(index) = scores.index(end) {
            scores.logits[index] = of_end;
        }
    }

    fn forbid_in_value(&mut self, field: Field, scores: &mut Scores) {
        let vocabulary = self.grammar.vocabulary;
        let place = self.value.place;
        let newline = vocabulary.newline;
        match (field, self.grammar.trie(field)) {
            (Field::Caption, _) => self.value.caption.constrain(vocabulary, scores),
            (Field::Duration, _) if self.rules.target_seconds().is_some() => {
                scores.allow_only(&[self.next_digit_of_target()]);
            }
            // As in upstream, the most likely language wins at any temperature. On a tie upstream
            // takes the first one of Python's set; we take the first token.
            (Field::Language, Some(trie)) if !self.value.begun => {
                let candidates = trie.allowed(place);
                scores.allow_only(candidates);
                let best = scores.best().or(candidates.first().copied()).unwrap_or(newline);
                scores.allow_only(&[best]);
            }
            (Field::Keyscale | Field::Language | Field::Timesignature, Some(trie))
                if trie.is_complete(place) =>
            {
                scores.allow_only(&[newline]);
            }
            (_, Some(trie)) => scores.allow_only(trie.allowed(place)),
            (_, None) => self.forbid_in_genres(scores),
        }
    }

    /// Returns the next digit of the target in whole seconds, then the newline.
    fn next_digit_of_target(&self) -> u32 {
        let seconds = self.rules.target_seconds().map(|seconds| (seconds as u32).to_string());
        let next = seconds.and_then(|digits| digits.as_bytes().get(self.value.digits).copied());
        next.map_or(self.grammar.vocabulary.newline, |byte| {
            self.grammar.digits[usize::from(byte - b'0')]
        })
    }

    fn forbid_in_genres(&self, scores: &mut Scores) {
        let vocabulary = self.grammar.vocabulary;
        let written = &self.value.text;
        match &self.rules.genres {
            Some(list) if !list.is_empty() => {
                scores.allow_only(&list.allowed(vocabulary, written));
            }
            // Without a list, a value ends when the newline is the most likely token.
            Some(_) | None if strip(written).is_empty() => {
                scores.forbid(vocabulary.newline);
            }
            Some(_) | None if scores.best() == Some(vocabulary.newline) => {
                scores.allow_only(&[vocabulary.newline]);
            }
            Some(_) | None => {}
        }
    }

    /// Advances by the chosen token, even if it was not allowed.
    pub fn advance(&mut self, token: u32) {
        if !self.rules.enabled {
            return;
        }
        if let Some(injection) = &mut self.injection {
            injection.tokens.next();
            if injection.tokens.as_slice().is_empty() {
                let next = injection.field.next(&self.rules);
                self.enter(next);
            }
            return;
        }
        match self.state {
            State::Completed => {}
            State::Codes => {
                self.codes += usize::from(self.grammar.vocabulary.codes().contains(&token));
            }
            State::Value(field) => self.advance_value(field, token),
            State::ThinkTag | State::NewlineAfterThink | State::Name(_) | State::ThinkEndTag => {
                self.written += self.text(token).chars().count();
                if self.written >= self.state.fixed_text().map_or(0, str::len) {
                    self.enter(self.after_fixed_text());
                }
            }
        }
    }

    fn advance_value(&mut self, field: Field, token: u32) {
        let text = self.text(token);
        if field == Field::Caption {
            self.value.begun = true;
            if let Some(next) = self.value.caption.advance(&text) {
                self.enter(next);
            }
            return;
        }
        if token == self.grammar.vocabulary.newline {
            let next = field.next(&self.rules);
            return self.enter(next);
        }
        self.value.begun = true;
        self.value.text.push_str(&text);
        let digits = strip(&text);
        if digits.chars().all(|c| c.is_ascii_digit()) {
            self.value.digits += digits.len();
        }
        if let Some(trie) = self.grammar.trie(field) {
            self.value.place = trie.step(self.value.place, token);
        }
    }

    fn after_fixed_text(&self) -> State {
        match self.state {
            State::ThinkTag => State::NewlineAfterThink,
            State::NewlineAfterThink => State::Name(Field::Bpm),
            State::Name(field) => State::Value(field),
            State::ThinkEndTag if self.rules.stop_at_reasoning => State::Completed,
            State::ThinkEndTag => match self.rules.phase {
                Phase::Understand => State::Completed,
                Phase::Cot | Phase::Codes => State::Codes,
            },
            State::Value(_) | State::Codes | State::Completed => self.state,
        }
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.written = 0;
        self.value = Value::new();
        self.injection = if let State::Value(field) = state { self.given(field) } else { None };
    }

    /// Returns the user's value for `field`, if there is one.
    fn given(&self, field: Field) -> Option<Injection> {
        let given = self.rules.user.get(&field)?;
        // As upstream, tokenise the value alone, without its name.
        let tokens = self.grammar.vocabulary.tokenizer().encode(&format!(" {given}\n"));
        (!tokens.is_empty()).then(|| Injection { field, tokens: tokens.into_iter() })
    }

    fn text(&self, token: u32) -> String {
        self.grammar.vocabulary.tokenizer().decode(&[token])
    }
}
