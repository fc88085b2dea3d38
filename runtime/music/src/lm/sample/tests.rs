use super::*;
use crate::test_goldens::{golden_cases, hashed_scores};

const PLAIN: Sampler =
    Sampler { temperature: 1.0, top_k: None, top_p: None, repetition_penalty: 1.0 };

fn all(logits: &[f32]) -> Scores {
    Scores { logits: logits.to_vec(), tokens: TokenMap::All }
}

/// Golden: `lm_sampling.json`. The filters are bit-exact. Probabilities are not: the exponential of
/// torch's softmax is accurate to two units in the last place, and its sum is in f32. The measured
/// difference is at most 3 units. Both differ from an f64 result by up to 15 units.
#[test]
fn filters_are_those_of_the_reference() {
    for case in &golden_cases("a/logic/lm_sampling.json", "filters") {
        let seed = case["seed"].as_u64().expect("a seed") as u32;
        let logits = hashed_scores(seed, 0, 40).logits;
        let numbers = |name: &str| -> Vec<f32> {
            let values = case[name].as_array().expect("numbers");
            values.iter().map(|v| v.as_f64().map_or(f32::NEG_INFINITY, |v| v as f32)).collect()
        };
        let history: Vec<u32> = serde_json::from_value(case["history"].clone()).expect("a history");
        let after = |change: &dyn Fn(&mut Scores)| {
            let mut scores = all(&logits);
            change(&mut scores);
            scores.logits
        };
        let penalised = after(&|scores| penalise(scores, &history, 1.3));
        assert_eq!(penalised, numbers("repetition_penalty_1.3"), "{seed}");
        assert_eq!(after(&|scores| keep_top_k(scores, 5)), numbers("top_k_5"), "{seed}");
        assert_eq!(after(&|scores| keep_top_p(scores, 0.9)), numbers("top_p_0.9"), "{seed}");
        assert_eq!(after(&|scores| keep_top_p(scores, 0.3)), numbers("top_p_0.3"), "{seed}");

        let probabilities = softmax(&logits, 0.85).expect("finite");
        for (ours, golden) in probabilities.iter().zip(numbers("probs_t0.85")) {
            let units = ours.to_bits().abs_diff(golden.to_bits());
            assert!(units <= 4, "{units}: {ours} {golden}");
        }
    }
}

/// Computed with torch 2.15 on x86, one and two threads: `torch.manual_seed(7)`, then for each step
/// `multinomial(softmax(scores(77, step) / 0.85))` over 217204 tokens; and the same with all but
/// 64000 codes and the end token forbidden.
#[test]
fn draws_from_a_whole_vocabulary_are_those_of_torch() {
    const SIZE: usize = 217_204;
    let (end, first_code) = (151_645, 151_669);
    let sampler = Sampler { temperature: 0.85, ..PLAIN };
    let (mut draws, mut draws_of_few) = (Draws::new(7, SIZE), Draws::new(7, SIZE));
    for (step, (of_all, of_few)) in [195_383, 57_414, 55_784, 166_899, 51_381, 112_913]
        .into_iter()
        .zip([195_383, 189_490, 152_451, 166_899, 166_680, 167_029])
        .enumerate()
    {
        let scores = hashed_scores(77, step as u32, SIZE);
        assert_eq!(sampler.pick(&scores, &mut draws), Ok(of_all), "step {step}");
        let codes = first_code as usize..first_code as usize + 64_000;
        let logits = [&[scores.of(end)], &scores.logits[codes]].concat();
        let scores = Scores { logits, tokens: TokenMap::CodesAndEnd { end, first_code } };
        assert_eq!(sampler.pick(&scores, &mut draws_of_few), Ok(of_few), "step {step}");
    }
}

/// `compute_max_new_tokens` of `lm_sampling.json`, recorded on a machine without a GPU, where
/// upstream's limit is 240 s.
#[test]
fn the_length_of_an_answer_is_that_of_the_reference() {
    let cases =
        golden_cases("a/logic/lm_sampling.json", "compute_max_new_tokens(max_model_len=4096)");
    for case in &cases {
        let phase = if case["phase"] == "codes" { Phase::Codes } else { Phase::Cot };
        let fallback = case["fallback"].as_u64().map(|fallback| fallback as usize);
        let most = max_new_tokens(case["target_duration"].as_f64(), phase, fallback, 4096, 240);
        assert_eq!(most, case["out"], "{case}");
    }
    assert_eq!(max_new_tokens(Some(f64::NAN), Phase::Codes, Some(7), 4096, 600), 7);
    assert_eq!(max_new_tokens(Some(1e300), Phase::Codes, None, 2048, 600), 1984);
    assert_eq!(max_new_tokens(None, Phase::Codes, None, 10, 600), 0);
}

#[test]
fn without_temperature_the_first_of_the_likeliest_is_taken_and_chance_is_left_alone() {
    let greedy = Sampler { temperature: 0.0, ..PLAIN };
    let mut draws = Draws::new(1, 3);
    for _ in 0..3 {
        assert_eq!(greedy.pick(&all(&[1.0, 2.0, 2.0]), &mut draws), Ok(1));
    }
    let flat = all(&[0.0; 3]);
    let next = PLAIN.pick(&flat, &mut draws);
    assert_eq!(next, PLAIN.pick(&flat, &mut Draws::new(1, 3)));
}

#[test]
fn scores_that_nothing_can_be_chosen_from_are_errors() {
    let infinity = f32::INFINITY;
    for (logits, error) in [
        (&[0.0, f32::NAN][..], ScoreError::NotANumber { token: 1 }),
        (&[infinity, 0.0], ScoreError::Infinite { token: 0 }),
        (&[-infinity, -infinity], ScoreError::NothingAllowed),
        (&[], ScoreError::NothingAllowed),
    ] {
        for temperature in [0.0, 0.5] {
            let sampler = Sampler { temperature, top_k: Some(1), top_p: Some(0.5), ..PLAIN };
            let drawn = sampler.choose(&mut all(logits), &[0], &mut Draws::new(0, 2));
            assert_eq!(drawn, Err(error), "{logits:?}");
        }
    }
    let tiny = Sampler { temperature: 1e-30, ..PLAIN };
    let drawn = tiny.pick(&all(&[1.0, 1e20]), &mut Draws::new(0, 2));
    assert_eq!(drawn, Err(ScoreError::Infinite { token: 1 }));
}

#[test]
fn one_token_that_is_allowed_is_drawn() {
    let mut logits = [f32::NEG_INFINITY; 5];
    logits[3] = -1e30;
    let scores = all(&logits);
    let mut draws = Draws::new(0, 5);
    assert!((0..50).all(|_| PLAIN.pick(&scores, &mut draws) == Ok(3)));
}

/// An end token after the codes is drawn as among all tokens.
#[test]
fn the_order_of_the_tokens_does_not_matter_to_the_draw() {
    let tokens = TokenMap::CodesAndEnd { end: 9, first_code: 4 };
    let few = Scores { logits: vec![0.3, 0.1, 0.2, 0.4], tokens };
    let mut logits = [f32::NEG_INFINITY; 12];
    for index in 0..4 {
        logits[few.token(index) as usize] = few.logits[index];
    }
    let (mut draws, mut draws_of_few) = (Draws::new(5, 12), Draws::new(5, 12));
    for _ in 0..40 {
        let token = PLAIN.pick(&all(&logits), &mut draws);
        assert_eq!(PLAIN.pick(&few, &mut draws_of_few), token);
    }
}
