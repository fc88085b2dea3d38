//! Several runs side by side, and texts of several segments.

use acestep_engine::{Error, Unobserved};
use acestep_speech::{Chunks, Made, Options, Plan, Request, Sampling, Speaking, Spoken};

use super::{base, model, networks, recording, request, spoken};
use acestep_import::Qwen3Tts;
use acestep_speech::Voice;

/// Speaks `plans` with `batch_size` rows. The samples of each run must be those of its result.
fn together(model: &Qwen3Tts, plans: Vec<Plan>, batch_size: usize) -> Vec<Spoken> {
    let mut streamed = vec![Vec::new(); plans.len()];
    let mut done: Vec<Option<Spoken>> = vec![None; plans.len()];
    let networks = networks(model);
    let options = Options { batch_size, chunks: Chunks { first: 1, others: 3 } };
    let runs = Speaking::begin(plans, None, &networks, options, &Unobserved).expect("networks");
    for made in runs {
        match made.expect("speech") {
            (id, Made::Samples(samples)) => streamed[id].extend(samples),
            (id, Made::Done(spoken)) => done[id] = Some(spoken),
        }
    }
    let done =
        done.into_iter().map(|spoken| spoken.expect("a result for each")).collect::<Vec<_>>();
    for (spoken, streamed) in done.iter().zip(streamed) {
        assert_eq!(spoken.audio.channels, [streamed]);
    }
    done
}

/// Lengths differ, so rows of the caches are freed, moved and used again.
#[test]
fn runs_side_by_side_are_those_of_each_alone() {
    let model = model();
    let texts = ["The sea is calm.", "Hi.", "One two three four five six.", "No.", "It rains."];
    let limits = [12, 4, 9, 2, 15];
    let requests: Vec<_> = texts
        .iter()
        .zip(limits)
        .map(|(text, limit)| {
            let sampling = Sampling { max_new_tokens: Some(limit), ..Sampling::default() };
            Request { sampling, ..request(text) }
        })
        .collect();
    let seeds = 7..;
    let alone: Vec<Spoken> = requests
        .iter()
        .zip(seeds.clone())
        .map(|(request, seed)| spoken(&model, request, seed, Chunks::default()))
        .collect();
    for batch_size in [1, 2, 3, 5, 16] {
        let plan = |(request, seed)| Plan::new(request, None, seed, &model).expect("a plan");
        let plans = requests.iter().zip(seeds.clone()).map(plan).collect();
        for (index, (run, alone)) in
            together(&model, plans, batch_size).iter().zip(&alone).enumerate()
        {
            assert_eq!(run.frames, alone.frames, "{batch_size} {index}");
            assert_eq!(run.audio, alone.audio, "{batch_size} {index}");
        }
    }
}

/// Four sentences in segments of at most ten tokens.
fn long() -> Request {
    let text = "The sea is calm tonight. The tide is full, the moon lies fair. Come to the window. \
                Sweet is the night air.";
    Request { max_text_tokens_per_segment: Some(10), ..request(text) }
}

#[test]
fn a_long_text_is_its_segments_one_after_the_other() {
    let model = model();
    let whole = spoken(&model, &long(), 5, Chunks::default());
    assert!(whole.segments.len() > 2, "{:?}", whole.segments);
    let texts: Vec<_> = whole.segments.iter().map(|segment| &*segment.text).collect();
    assert_eq!(texts.join(" "), long().text);
    let mut frames = Vec::new();
    for (segment, seed) in whole.segments.iter().zip(5..) {
        assert_eq!(segment.seed, seed);
        let alone = spoken(&model, &request(&segment.text), seed, Chunks::default());
        assert_eq!(alone.frames.len(), segment.frames);
        frames.extend(alone.frames);
    }
    assert_eq!(whole.frames, frames);
    let other_chunks = spoken(&model, &long(), 5, Chunks { first: 4, others: 3 });
    assert_eq!(other_chunks.audio, whole.audio);
    let plan = Plan::new(&long(), None, 5, &model).expect("a plan");
    assert!(plan.notices[0].0.ends_with("segments"), "{:?}", plan.notices);
}

#[test]
fn a_voice_is_carried_through_all_segments() {
    let model = base();
    let networks = networks(&model);
    let words = Some("Il fait beau.");
    let voice = Voice::of_recording(&recording(9_700), words, &networks, &Unobserved);
    let request = Request { voice: None, ..long() };
    let plan = Plan::new(&request, Some(voice.expect("a voice")), 0, &model).expect("a plan");
    let next = plan.next(&[], &model).expect("a plan").expect("a second segment");
    assert_eq!((&next.voice, next.seed), (&plan.voice, plan.seed + 1));
    assert_eq!(next.prompt.rows[..next.prompt.shared], plan.prompt.rows[..plan.prompt.shared]);
}

#[test]
fn a_segment_has_at_least_ten_tokens() {
    let request = Request { max_text_tokens_per_segment: Some(9), ..request("fine") };
    let error = Plan::new(&request, None, 0, &model()).expect_err("too few");
    let is_named = matches!(error, Error::OutOfRange { field: "max_text_tokens_per_segment", .. });
    assert!(is_named, "{error}");
}
