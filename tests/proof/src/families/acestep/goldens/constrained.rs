//! Replay of the reference's recorded runs of constrained decoding.
//!
//! A recorded run has a request and its result. Its scores come from a hash that both sides can
//! compute, not from a network, so a replay needs only a tokenizer.

use std::{collections::BTreeMap, sync::Arc};

use acestep_music::lm::{
    constrain::{AnswerMachine, Field, Grammar, Phase, Rules, State, genres::GenreVocabulary},
    sample::{Scores, TokenMap},
    vocabulary::{Vocabulary, VocabularyError},
};
use serde::{Deserialize, Serialize};

/// File of recorded runs, `constrained_decoding.json`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Runs {
    /// Default list of genres of the runs.
    pub(super) genres: Vec<String>,
    /// Runs by vocabulary: `tiny`, `full`.
    pub(super) results: BTreeMap<String, Vec<Run>>,
}

/// One recorded run.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Run {
    /// Input of the run.
    pub(super) case: Case,
    /// Tokens that the scores favour, one after the other.
    wish_ids: Vec<u32>,
    /// Result of the run.
    #[serde(flatten)]
    pub(super) trace: Trace,
}

/// Input of a run.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Case {
    /// Name of the case.
    pub(super) name: String,
    /// Seed of the scores.
    pub(super) seed: u32,
    max_steps: usize,
    prompt: String,
    phase: String,
    enabled: bool,
    skip_caption: bool,
    skip_genres: bool,
    skip_language: bool,
    stop_at_reasoning: bool,
    target_duration: Option<f64>,
    max_duration: u32,
    metadata_temperature: Option<f32>,
    codes_temperature: Option<f32>,
    user_metadata: BTreeMap<String, String>,
    /// `null` = no list of genres.
    genres_vocab: Option<Vec<String>>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            name: String::new(),
            seed: 0,
            max_steps: 160,
            prompt: "x".into(),
            phase: "cot".into(),
            enabled: true,
            skip_caption: false,
            skip_genres: true,
            skip_language: false,
            stop_at_reasoning: false,
            target_duration: None,
            max_duration: 600,
            metadata_temperature: None,
            codes_temperature: None,
            user_metadata: BTreeMap::new(),
            genres_vocab: Some(Vec::new()),
        }
    }
}

/// Result of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Trace {
    /// The tokens, each the most likely allowed one.
    pub(super) tokens: Vec<u32>,
    /// Number of allowed tokens at each step.
    pub(super) finite_counts: Vec<usize>,
    /// States in order, with upstream's names.
    pub(super) state_path: Vec<String>,
    /// State after the last token.
    pub(super) final_state: String,
    /// The tokens as text.
    pub(super) text: String,
}

impl Run {
    /// Replays the run; `genres` is the file's list.
    ///
    /// # Errors
    /// If the tokenizer lacks a required token.
    pub(super) fn replay(
        &self,
        vocabulary: &Vocabulary<'_>,
        genres: &Arc<GenreVocabulary>,
    ) -> Result<Trace, VocabularyError> {
        let case = &self.case;
        let grammar = Grammar::new(vocabulary, case.max_duration)?;
        let mut machine = AnswerMachine::new(&grammar, case.rules(genres));
        machine.start(&vocabulary.tokenizer().encode(&case.prompt));

        let mut trace = Trace::default();
        let mut wishes = self.wish_ids.iter().copied().peekable();
        for step in 0..case.max_steps {
            let mut scores = scores(case.seed, step as u32, vocabulary.size() as usize);
            if let Some(index) = wishes.peek().and_then(|&wish| scores.index(wish)) {
                scores.logits[index] += 20.0;
            }
            machine.constrain(&mut scores);
            let state = name(machine.state());
            if trace.state_path.last().is_none_or(|last| *last != state) {
                trace.state_path.push(state);
            }
            trace.finite_counts.push(scores.logits.iter().filter(|s| s.is_finite()).count());
            // As argmax over only minus infinity.
            let token = scores.best().unwrap_or(0);
            trace.tokens.push(token);
            wishes.next_if_eq(&token);
            machine.advance(token);
            if vocabulary.is_last(token) {
                break;
            }
        }
        trace.final_state = name(machine.state());
        trace.text = vocabulary.tokenizer().decode(&trace.tokens);
        Ok(trace)
    }
}

impl Case {
    fn rules(&self, genres: &Arc<GenreVocabulary>) -> Rules {
        let given = |field: Field| Some((field, self.user_metadata.get(field.key())?.clone()));
        Rules {
            phase: match self.phase.as_str() {
                "codes" => Phase::Codes,
                "understand" => Phase::Understand,
                _ => Phase::Cot,
            },
            enabled: self.enabled,
            skip_caption: self.skip_caption,
            skip_genres: self.skip_genres,
            skip_language: self.skip_language,
            stop_at_reasoning: self.stop_at_reasoning,
            target_seconds: self.target_duration,
            user: Field::ALL.into_iter().filter_map(given).collect(),
            metadata_temperature: self.metadata_temperature,
            codes_temperature: self.codes_temperature,
            genres: self.genres_vocab.is_some().then(|| Arc::clone(genres)),
        }
    }
}

/// Returns upstream's name of a state (`FSMState`).
fn name(state: State) -> String {
    let field = |field: Field| match field {
        Field::Timesignature => "TIMESIG".to_owned(),
        field => field.key().to_uppercase(),
    };
    match state {
        State::ThinkTag => "THINK_TAG".to_owned(),
        State::NewlineAfterThink => "NEWLINE_AFTER_THINK".to_owned(),
        State::Name(of) => field(of) + "_NAME",
        State::Value(of) => field(of) + "_VALUE",
        State::ThinkEndTag => "THINK_END_TAG".to_owned(),
        State::Codes => "CODES_GENERATION".to_owned(),
        State::Completed => "COMPLETED".to_owned(),
    }
}

/// Returns the scores of step `step`: a hash of seed, step and token, from -8 to 8, exact in f32.
fn scores(seed: u32, step: u32, vocabulary: usize) -> Scores {
    let begin = seed
        .wrapping_mul(0x9E37_79B1)
        .wrapping_add(step.wrapping_mul(0x85EB_CA77))
        .wrapping_add(0x27D4_EB2F);
    let score = |token: u32| {
        let mut x = begin.wrapping_add(token.wrapping_mul(0xC2B2_AE3D));
        x ^= x >> 15;
        x = x.wrapping_mul(0x2C1B_3C6D);
        x ^= x >> 12;
        x = x.wrapping_mul(0x297A_2D39);
        x ^= x >> 15;
        (x >> 8) as f32 / (1 << 20) as f32 - 8.0
    };
    Scores { logits: (0..vocabulary as u32).map(score).collect(), tokens: TokenMap::All }
}

#[cfg(test)]
mod tests {
    use acestep_import::open_tiny_language_model;
    use acestep_model::LanguageFiles;

    use super::*;

    /// Golden: `constrained_decoding.json`, the runs with the tiny vocabulary.
    #[test]
    fn every_stored_run_comes_out_again() {
        let model = open_tiny_language_model().expect("built in");
        let tokenizer = LanguageFiles::tokenizer(&model).expect("built in");
        let vocabulary = Vocabulary::new(tokenizer).expect("complete");
        let runs = include_str!("../../../../../goldens/a/logic/constrained_decoding.json");
        let runs: Runs = serde_json::from_str(runs).expect("runs");
        let genres = Arc::new(GenreVocabulary::parse(&runs.genres.join("\n")));
        assert_eq!(runs.results["tiny"].len(), 53);
        for run in &runs.results["tiny"] {
            let trace = run.replay(&vocabulary, &genres).expect("complete");
            assert_eq!(trace, run.trace, "{} {}", run.case.name, run.case.seed);
        }
    }
}
