use std::sync::Arc;

use acestep_model::Tokenizer;
use proptest::prelude::*;

use super::*;
use crate::{
    lm::{
        sample::{Draws, Sampler, Scores, TokenMap},
        vocabulary::Vocabulary,
    },
    request::words::{LANGUAGES, is_keyscale},
    test_goldens::{golden_json, hashed_scores, tokenizer},
};

fn list(genres: &[&str]) -> Arc<genres::GenreVocabulary> {
    Arc::new(genres::GenreVocabulary::parse(&genres.join("\n")))
}

/// Scores with `token` as the most likely one.
fn favouring(token: u32, size: usize) -> Scores {
    let mut scores = Scores { logits: vec![0.0; size], tokens: TokenMap::All };
    scores.logits[token as usize] = 1.0;
    scores
}

/// Writes 60 tokens: `text` as far as the rules allow it, other tokens elsewhere.
fn written(rules: Rules, text: &str) -> String {
    let tokenizer = tokenizer();
    let vocabulary = Vocabulary::new(&tokenizer).expect("complete");
    let grammar = Grammar::new(&vocabulary, 600).expect("complete");
    let mut machine = AnswerMachine::new(&grammar, rules);
    let mut tokens = Vec::new();
    let mut rest = text;
    for _ in 0..60 {
        let wished = tokenizer.encode(rest).first().copied().unwrap_or(0);
        let mut scores = favouring(wished, tokenizer.vocabulary());
        machine.constrain(&mut scores);
        let token = scores.best().expect("something is allowed");
        rest = rest.strip_prefix(&tokenizer.decode(&[token])[..]).unwrap_or(rest);
        machine.advance(token);
        tokens.push(token);
    }
    tokenizer.decode(&tokens)
}

/// Golden: `prefix_trees_tiny.json`.
#[test]
fn the_trees_are_those_of_the_reference() {
    let tokenizer = tokenizer();
    let vocabulary = Vocabulary::new(&tokenizer).expect("complete");
    let grammar = Grammar::new(&vocabulary, 600).expect("complete");
    let golden = golden_json("a/logic/prefix_trees_tiny.json");
    for field in [Field::Bpm, Field::Keyscale, Field::Language, Field::Timesignature] {
        let prefixes = serde_json::to_value(grammar.beginnings(field)).expect("JSON");
        assert_eq!(prefixes, golden[field.key()], "{field:?}");
    }
    let durations = grammar.beginnings(Field::Duration).expect("a tree");
    assert_eq!(durations.len(), golden["duration_nodes"]);
    assert_eq!(vocabulary.newline, golden["newline"]);
    assert_eq!(vocabulary.codes().len(), golden["audio_tokens"]);
}

#[test]
fn a_skipped_field_that_the_model_names_leads_on() {
    let rules = Rules { skip_language: true, stop_at_reasoning: true, ..Rules::new(Phase::Cot) };
    let text = "<think>\nbpm: 99\ncaption: x\nlanguage: en\ntimesignature: 4\n";
    let written = written(rules, text);
    assert!(written.contains("\nlanguage: en\ntimesignature: 4\n<|im_end|>"), "{written}");
}

#[test]
fn without_a_list_genres_end_at_a_likely_newline_and_the_key_keeps_its_name() {
    let rules = Rules { skip_caption: true, skip_genres: false, ..Rules::new(Phase::Understand) };
    let text = "<think>\nbpm: 99\nduration: 50\ngenres: lo-fi, jazz\nkeyscale: C major\n";
    let written = written(rules, text);
    assert!(written.starts_with(text), "{written}");
}

#[test]
fn without_a_list_genres_are_not_empty() {
    let tokenizer = tokenizer();
    let vocabulary = Vocabulary::new(&tokenizer).expect("complete");
    let grammar = Grammar::new(&vocabulary, 600).expect("complete");
    let mut machine = AnswerMachine::new(&grammar, Rules::new(Phase::Understand));
    machine.state = State::Value(Field::Genres);
    let newline = favouring(vocabulary.newline, tokenizer.vocabulary());
    for (written, ends) in [(" ", false), ("x", true)] {
        machine.advance(tokenizer.encode(written)[0]);
        let mut scores = newline.clone();
        machine.constrain(&mut scores);
        assert_eq!(scores.best() == Some(vocabulary.newline), ends, "{written:?}");
    }
}

#[test]
fn a_genre_is_a_line_of_the_list_in_any_case() {
    let tokenizer = tokenizer();
    let vocabulary = Vocabulary::new(&tokenizer).expect("complete");
    let genres = list(&["# genres", "", "  Lo-Fi, Jazz ", "pop"]);
    assert!(list(&["# pop", " "]).is_empty());
    let allows = |written: &str, text: &str| {
        let allowed = genres.allowed(&vocabulary, written);
        allowed.iter().any(|&token| tokenizer.decode(&[token]) == text)
    };
    assert!(allows("", "l") && allows("", "P") && !allows("", "o") && !allows("", "\n"));
    assert!(allows(" LO-fi", ",") && !allows("lo-fi", "\n"));
    assert!(allows("lo-fi, jazz", "\n") && allows("Pop ", "\n") && !allows("pop", "p"));
    // Outside the list only the end is allowed.
    assert_eq!(genres.allowed(&vocabulary, "rock"), [vocabulary.newline]);
}

#[test]
fn codes_alone_are_constrained_as_codes_among_all() {
    let tokenizer = tokenizer();
    let vocabulary = Vocabulary::new(&tokenizer).expect("complete");
    let grammar = Grammar::new(&vocabulary, 600).expect("complete");
    let rules = Rules { target_seconds: Some(0.7), ..Rules::new(Phase::Codes) };
    let mut machine = AnswerMachine::new(&grammar, rules);
    assert!(!machine.wants_codes_only());
    machine.start(&tokenizer.encode("<think>\n</think>\n\n"));
    assert!(machine.wants_codes_only());
    let codes = vocabulary.codes();
    let few = TokenMap::CodesAndEnd { end: vocabulary.end, first_code: codes.start };
    let sampler = Sampler { temperature: 0.9, top_k: None, top_p: None, repetition_penalty: 1.0 };
    let (mut draws, mut draws_of_few) = (Draws::new(3, 958), Draws::new(3, 958));
    for step in 0.. {
        let mut scores = hashed_scores(11, step, tokenizer.vocabulary());
        let picked = |token: u32| scores.of(token);
        let logits = std::iter::once(vocabulary.end).chain(codes.clone()).map(picked).collect();
        let mut scores_of_few = Scores { logits, tokens: few };
        machine.constrain(&mut scores_of_few);
        machine.clone().constrain(&mut scores);
        for index in 0..scores_of_few.logits.len() {
            assert_eq!(scores_of_few.logits[index], scores.of(scores_of_few.token(index)));
        }
        let token = sampler.pick(&scores, &mut draws).expect("a token");
        assert_eq!(sampler.pick(&scores_of_few, &mut draws_of_few), Ok(token));
        machine.advance(token);
        if token == vocabulary.end {
            break;
        }
    }
    assert_eq!(machine.codes(), 3);
}

#[test]
fn rows_that_belong_to_no_token_are_never_chosen() {
    let tokenizer = tokenizer();
    let vocabulary = Vocabulary::new(&tokenizer).expect("complete");
    let grammar = Grammar::new(&vocabulary, 600).expect("complete");
    let mut machine = AnswerMachine::new(&grammar, Rules::new(Phase::Cot));
    machine.state = State::Completed;
    let mut scores = favouring(960, 1000);
    machine.constrain(&mut scores);
    assert_eq!(scores.best(), Some(0));
}

/// Scores as from a broken network, of one of five kinds.
fn noise(kind: u8, seed: u32, step: u32, size: usize) -> Scores {
    let mut scores = hashed_scores(seed, step, size);
    let extremes = [f32::NEG_INFINITY, f32::MAX, f32::MIN, 0.0, -1e30, 1e-40];
    for (index, score) in scores.logits.iter_mut().enumerate() {
        *score = match kind {
            0 => *score,
            1 => *score * 1e37,
            2 => extremes[(*score).to_bits() as usize % extremes.len()],
            3 => 0.0,
            _ if index % 7 == 0 => *score,
            _ => f32::NEG_INFINITY,
        };
    }
    scores
}

fn rules() -> impl Strategy<Value = Rules> {
    let phase = prop_oneof![Just(Phase::Cot), Just(Phase::Codes), Just(Phase::Understand)];
    let seconds = prop_oneof![Just(None), (-1.0..4.0f64).prop_map(Some), Just(Some(f64::NAN))];
    let given = proptest::option::weighted(0.2, "[ -~\n]{0,8}");
    (phase, any::<[bool; 5]>(), seconds, given).prop_map(|(phase, flags, target_seconds, given)| {
        let [skip_caption, skip_genres, skip_language, stop_at_reasoning, with_list] = flags;
        Rules {
            skip_caption,
            skip_genres,
            skip_language,
            stop_at_reasoning,
            target_seconds,
            user: given
                .into_iter()
                .flat_map(|given| [(Field::Caption, given.clone()), (Field::Genres, given)])
                .collect(),
            genres: with_list.then(|| list(&["pop", "hip hop", "lo-fi, jazz"])),
            ..Rules::new(phase)
        }
    })
}

/// True if `value` is valid for `field`.
fn is_in_range(field: Field, value: &str) -> bool {
    let number = |low, high| value.parse::<u32>().is_ok_and(|n| (low..=high).contains(&n));
    match field {
        Field::Bpm => number(30, 300),
        Field::Duration => number(10, 120),
        Field::Keyscale => is_keyscale(value),
        Field::Language => LANGUAGES.contains(&value),
        Field::Timesignature => ["2", "3", "4", "6"].contains(&value),
        Field::Caption | Field::Genres => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// With any scores, each finished field is in range, and the number of codes is exact.
    #[test]
    fn whatever_the_network_says_what_is_written_is_in_range(
        rules in rules(),
        seed: u32,
        kind in 0..5u8,
        temperature in prop_oneof![Just(0.0f32), 0.2..2.0f32],
    ) {
        let tokenizer = tokenizer();
        let vocabulary = Vocabulary::new(&tokenizer).expect("complete");
        let grammar = Grammar::new(&vocabulary, 120).expect("complete");
        let sampler = Sampler { temperature, top_k: Some(50), top_p: Some(0.9), repetition_penalty: 1.1 };
        let mut machine = AnswerMachine::new(&grammar, rules.clone());
        machine.start(&tokenizer.encode(if seed % 2 == 0 { "</think>" } else { "x" }));
        let mut draws = Draws::new(u64::from(seed), tokenizer.vocabulary());
        let mut history = Vec::new();
        let mut value = Vec::new();
        let mut ended = false;
        for step in 0..150 {
            let mut scores = noise(kind, seed, step, tokenizer.vocabulary());
            machine.constrain(&mut scores);
            let state = machine.state();
            // If all scores are minus infinity, the result is an error, not a token.
            let Ok(token) = sampler.choose(&mut scores, &history, &mut draws) else { break };
            history.push(token);
            machine.advance(token);
            if let State::Value(field) = state {
                value.push(token);
                if machine.state() != state {
                    let text = tokenizer.decode(&value);
                    let targeted = field == Field::Duration && rules.target_seconds.is_some_and(|seconds| seconds > 0.0);
                    prop_assert!(targeted || is_in_range(field, text.trim()), "{field:?} {text:?}");
                    value.clear();
                }
            }
            if state == State::Codes {
                prop_assert!(token == vocabulary.end || vocabulary.code_of_token(token).is_some());
            }
            if vocabulary.is_last(token) {
                ended = state == State::Codes;
                break;
            }
        }
        if let (true, Some(target)) = (ended, rules.target_seconds.filter(|t| *t > 0.0)) {
            prop_assert_eq!(machine.codes(), (target * 5.0).floor() as usize);
        }
    }

    /// A plan without a caption has one line per field.
    #[test]
    fn a_plan_without_a_caption_has_all_its_fields_in_range(seed: u32, skip_language: bool) {
        let tokenizer = tokenizer();
        let vocabulary = Vocabulary::new(&tokenizer).expect("complete");
        let grammar = Grammar::new(&vocabulary, 120).expect("complete");
        let rules = Rules {
            skip_caption: true,
            skip_language,
            stop_at_reasoning: true,
            ..Rules::new(Phase::Cot)
        };
        let mut machine = AnswerMachine::new(&grammar, rules.clone());
        let sampler = Sampler { temperature: 1.0, top_k: None, top_p: None, repetition_penalty: 1.0 };
        let mut draws = Draws::new(u64::from(seed), tokenizer.vocabulary());
        let mut tokens = Vec::new();
        while machine.state() != State::Completed {
            let mut scores = hashed_scores(seed, tokens.len() as u32, tokenizer.vocabulary());
            machine.constrain(&mut scores);
            tokens.push(sampler.pick(&scores, &mut draws).expect("a token"));
            machine.advance(tokens[tokens.len() - 1]);
        }
        let text = tokenizer.decode(&tokens);
        let text = text.strip_prefix("<think>\n").and_then(|t| t.strip_suffix("<|im_end|>"));
        let text = text.expect("a plan and the end");
        let mut fields = Field::ALL.to_vec();
        fields.retain(|f| ![Field::Caption, Field::Genres].contains(f));
        fields.retain(|f| !skip_language || *f != Field::Language);
        prop_assert_eq!(text.lines().count(), fields.len());
        for (field, line) in fields.into_iter().zip(text.lines()) {
            let value = line.strip_prefix(field.name());
            prop_assert!(value.is_some_and(|v| is_in_range(field, v.trim())), "{:?}", line);
        }
    }
}
