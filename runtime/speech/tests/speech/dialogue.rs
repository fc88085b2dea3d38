//! Properties of dialogues, with the random model of the goldens.

mod snapshots;

use std::{cell::Cell, path::Path};

use acestep_engine::{CancelIf, Error, Unobserved};
use acestep_import::{Dia2, Dia2Choice};
use acestep_model::Place;
use acestep_speech::{
    Chunks, EndReason, Fault, Spoken, StopReason, TimesFormat, Word,
    dia2::{
        Dialogue, Networks, Plan, Recording, Request, Resampling, Snapshot, Speakers, Speaking,
        StreamItem, reader, speak, streams, words_of_json,
    },
};
use burn_flex::{Flex, FlexDevice};

const MODEL: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/checkpoints_dia2/Dia2-tiny-alt");

fn model() -> Dia2 {
    Dia2::open(Path::new(MODEL), &Dia2Choice::default()).expect("the goldens are in the repository")
}

fn networks(model: &Dia2) -> Networks<'_, Flex> {
    Networks::new(model, Place::f32(FlexDevice))
}

const SCRIPT: &str = "[S1] hello there, [S2] my friend. <break time=\"0.2s\"/> (laughs)";

fn request(script: &str) -> Request {
    Request { script: script.into(), max_steps: Some(40), ..Request::default() }
}

/// A recording of ten frames.
fn recording(networks: &Networks<'_, Flex>) -> Recording {
    let sound = super::recording(19_200);
    let word = |text: &str, start, end| Word { text: text.into(), start, end };
    let words = vec![word("hello", 0.05, 0.2), word("there", 0.31, 0.6)];
    Recording::new(&sound, words, Resampling::Filtered, networks, &Unobserved).expect("a recording")
}

fn spoken(
    plan: &Plan,
    snapshot: Option<&Snapshot<Flex>>,
    networks: &Networks<'_, Flex>,
    chunks: Chunks,
) -> Dialogue {
    let mut streamed = Vec::new();
    let mut sink = |samples: &[f32]| {
        streamed.extend_from_slice(samples);
        Ok(())
    };
    let dialogue =
        speak(plan, snapshot, networks, chunks, &Unobserved, &mut sink).expect("a dialogue");
    assert_eq!(dialogue.spoken.audio.channels, [streamed]);
    assert_eq!(dialogue.spoken.audio.samples(), dialogue.spoken.frames.len() * 1920);
    dialogue
}

fn same(a: &Dialogue, b: &Dialogue) {
    assert_eq!(a.spoken.frames, b.spoken.frames);
    assert_eq!(a.spoken.audio, b.spoken.audio);
    assert_eq!(a.spoken.words, b.spoken.words);
}

/// Row 30: the codec decodes each frame once.
#[test]
fn chunks_of_any_size_are_the_same_sound() {
    let model = model();
    let networks = networks(&model);
    let recordings = [recording(&networks)];
    let snapshot = Snapshot::new(&recordings, 2, &networks, &Unobserved).expect("a snapshot");
    for (speakers, include_prefix, snapshot) in [
        (Speakers::Recorded(&[]), false, None),
        (Speakers::Recorded(&recordings), false, None),
        (Speakers::Recorded(&recordings), true, None),
        (Speakers::Kept, false, Some(&snapshot)),
    ] {
        let request = Request { include_prefix: Some(include_prefix), ..request(SCRIPT) };
        let plan = Plan::new(&request, speakers, 5, &model).expect("a good request");
        let of = |first, others| spoken(&plan, snapshot, &networks, Chunks { first, others });
        let whole = of(100, 100);
        assert!(whole.spoken.frames.len() > 8, "{} frames", whole.spoken.frames.len());
        for (first, others) in [(1, 1), (2, 3), (1, 8)] {
            same(&of(first, others), &whole);
        }
    }
}

/// A backbone whose logits of the first codebook are all equal writes the first code for ever. No step is
/// taken after the 50 frames of a loop, however long a chunk is.
#[test]
fn a_loop_ends_the_run_before_a_chunk_is_full() {
    let folder = tempfile::tempdir().expect("a folder");
    super::copy_files(Path::new(MODEL), folder.path());
    let weights = folder.path().join("model.safetensors");
    super::fill(&weights, "transformer.cb0_head.weight", 0);
    let mimi = Some(format!("{MODEL}/../mimi"));
    let choice = Dia2Choice { mimi, ..Dia2Choice::default() };
    let model = Dia2::open(folder.path(), &choice).expect("a model");
    let networks = networks(&model);
    let script = "[S1] ".to_owned() + &"hello there my friend ".repeat(20);
    let request = Request { audio_temperature: Some(0.0), max_steps: None, ..request(&script) };
    let plan = Plan::new(&request, Speakers::Recorded(&[]), 5, &model).expect("a good request");
    let of = |others| {
        let chunks = Chunks { first: 1, others };
        let mut speaking =
            Speaking::begin(plan.clone(), None, &networks, chunks, &Unobserved).expect("begun");
        loop {
            match speaking.take_item() {
                Some(StreamItem::Done(dialogue)) => break (speaking.run().state().step, dialogue),
                Some(StreamItem::Samples(_)) => (),
                None => speaking.advance().expect("a step"),
            }
        }
    };
    let ((steps, ended), (with_long_chunks, other)) = (of(1), of(1000));
    let fault = EndReason::Fault(Fault::Loop { code: 0, frames: 50 });
    // The two steps before the first word are no part of it.
    assert_eq!((ended.spoken.frames.len(), ended.spoken.segments[0].ended), (52, fault));
    same(&ended, &other);
    assert_eq!(with_long_chunks, steps);
    assert!(steps < plan.streams.most_steps, "{steps} steps");
    // The rest before the first word is the user's wish, however long it is.
    let request = Request { initial_padding: Some(60), ..request };
    let plan = Plan::new(&request, Speakers::Recorded(&[]), 5, &model).expect("a good request");
    let later = spoken(&plan, None, &networks, Chunks::default());
    let (frames, ended) = (later.spoken.frames.len(), later.spoken.segments[0].ended);
    assert_eq!(
        (frames, ended),
        (60, EndReason::Frames(StopReason::Context { field: "max_context_steps" }))
    );
}

/// The first codebook is known three steps before the last one. The codes are the same.
#[test]
fn an_early_sound_begins_before_the_last_codebooks_are_known() {
    let model = model();
    let networks = networks(&model);
    let recordings = [recording(&networks)];
    let snapshot = Snapshot::new(&recordings, 2, &networks, &Unobserved).expect("a snapshot");
    // Without a snapshot the beginning of this model's sound is known late.
    for (speakers, snapshot, has_effect) in
        [(Speakers::Recorded(&[]), None, false), (Speakers::Kept, Some(&snapshot), true)]
    {
        let of = |early| {
            let request = Request { early: Some(early), ..request(SCRIPT) };
            let plan = Plan::new(&request, speakers, 5, &model).expect("a good request");
            let chunks = Chunks { first: 1, others: 1 };
            let mut speaking =
                Speaking::begin(plan.clone(), snapshot, &networks, chunks, &Unobserved)
                    .expect("begun");
            let (mut steps, start) = (None, speaking.run().start());
            loop {
                match speaking.take_item() {
                    Some(StreamItem::Done(dialogue)) => {
                        break (steps.expect("sound"), dialogue, plan);
                    }
                    Some(StreamItem::Samples(_)) => {
                        steps.get_or_insert(speaking.run().state().step - start);
                    }
                    None => speaking.advance().expect("a step"),
                }
            }
        };
        let ((steps, usual, _), (early_steps, early, plan)) = (of(false), of(true));
        assert_eq!(plan.early, if has_effect { 3 } else { 0 });
        assert!(plan.notices[0].0.starts_with("`early`"), "{:?}", plan.notices);
        assert_eq!(early_steps + plan.early, steps);
        assert_eq!(early.spoken.frames, usual.spoken.frames);
        assert_eq!(early.spoken.words, usual.spoken.words);
        let (early, usual) = (early.spoken.audio.channels, usual.spoken.audio.channels);
        assert_eq!(early[0].len(), usual[0].len());
        let per_frame = 24_000 * 2 / 25;
        assert_eq!(early[0][..per_frame] != usual[0][..per_frame], has_effect);
    }
}

#[test]
fn a_seed_repeats_and_another_differs() {
    let model = model();
    let networks = networks(&model);
    let of = |seed| {
        let plan = Plan::new(&request(SCRIPT), Speakers::Recorded(&[]), seed, &model);
        spoken(&plan.expect("a good request"), None, &networks, Chunks::default())
    };
    same(&of(3), &of(3));
    assert_ne!(of(3).spoken.frames, of(4).spoken.frames);
}

/// Each speaks: no script is refused, except one with a break that is none.
#[test]
fn every_script_speaks() {
    let model = model();
    let networks = networks(&model);
    for script in [
        "",
        " \n\t ",
        "[S1]",
        "[S2] [S1]",
        "a",
        "[S1][S2]",
        "<break time=\"0.2s\"/>",
        "<break time=\"99999s\"/> late",
        "👩‍👩‍👧 🎉",
        "שלום עולם 你好 안녕",
        "1,234.56 € on 2026-11-26: fine",
        "<speak>SSML</speak> <|endoftext|>",
        "tab\tand \u{0} and \u{7f}",
        "e\u{301} \u{a0}\u{2028}",
        "(laughs) (LAUGHS) (clears throat)",
    ] {
        let request = Request { max_steps: Some(9), ..request(script) };
        let plan = Plan::new(&request, Speakers::Recorded(&[]), 1, &model).expect("a script");
        let dialogue = spoken(&plan, None, &networks, Chunks::default());
        assert!(dialogue.spoken.audio.channels[0].iter().all(|x| x.abs() <= 1.0), "{script:?}");
    }
    let long = "word ".repeat(5_000);
    let plan = Plan::new(&request(&long), Speakers::Recorded(&[]), 1, &model).expect("a script");
    assert_eq!(plan.entries.len(), 5_000);
    let bad = request("a <break time=\"1,5s\"/> b");
    let error = Plan::new(&bad, Speakers::Recorded(&[]), 1, &model).expect_err("no number");
    assert!(error.is_usage() && error.to_string().contains("1,5s"), "{error}");
}

#[test]
fn the_end_is_that_of_the_script_the_limit_or_the_context_and_is_said() {
    let model = model();
    let networks = networks(&model);
    let of = |script: &str, max_steps| {
        let request = Request { max_steps, ..request(script) };
        let plan = Plan::new(&request, Speakers::Recorded(&[]), 1, &model).expect("a script");
        spoken(&plan, None, &networks, Chunks::default())
    };
    let ended = |dialogue: &Dialogue| dialogue.spoken.segments[0].ended;
    let whole = of("[S1] no", None);
    assert_eq!(ended(&whole), EndReason::Frames(StopReason::Finished));
    assert_eq!((whole.left, whole.notices().len()), (0, 0));
    assert_eq!(whole.spoken.reason(), "end");
    let short = of(SCRIPT, Some(9));
    assert_eq!(ended(&short), EndReason::Frames(StopReason::Limit { field: "max_steps" }));
    assert_eq!(short.spoken.reason(), "limit");
    // A frame of the codec is 80 ms.
    for Spoken { audio, segments, .. } in [&whole.spoken, &short.spoken] {
        assert!((audio.seconds() - 0.08 * segments[0].frames as f64).abs() < 1e-9);
    }
    assert!(short.left > 0 && short.notices().len() == 2, "{:?}", short.notices());
    let long = of(&"hello there ".repeat(40), None);
    assert_eq!(ended(&long), EndReason::Frames(StopReason::Context { field: "max_context_steps" }));
    assert_eq!(long.spoken.reason(), "context");
}

#[test]
fn the_times_of_the_words_are_in_order_and_inside_the_sound() {
    let model = model();
    let networks = networks(&model);
    let request = Request { max_steps: None, ..request("[S1] hello there, [S2] my friend") };
    let plan = Plan::new(&request, Speakers::Recorded(&[]), 1, &model).expect("a script");
    let dialogue = spoken(&plan, None, &networks, Chunks::default());
    let texts: Vec<&str> = dialogue.spoken.words.iter().map(|word| &*word.text).collect();
    assert_eq!(texts, ["hello", "there,", "my", "friend"]);
    let length = dialogue.spoken.audio.seconds();
    let mut before = 0.0;
    for word in &dialogue.spoken.words {
        assert!(word.start >= before && word.end <= length, "{word:?} of {length}");
        before = word.end;
    }
    let json = TimesFormat::Json.text(&dialogue.spoken.words);
    let words = words_of_json(&json, "words_1").expect("words");
    assert_eq!(words, dialogue.spoken.words);
}

#[test]
fn text_that_is_added_while_it_speaks_is_spoken() {
    let model = model();
    let networks = networks(&model);
    let streams = streams(&model).expect("a model");
    let reader = reader(&streams, &model).expect("a tokenizer");
    let mut reading = reader.reading();
    assert_eq!(reading.more("[S1] no ").expect("words").len(), 1);
    let request = Request { max_steps: None, ..request("[S1] no") };
    let plan = Plan::new(&request, Speakers::Recorded(&[]), 1, &model).expect("a script");
    let chunks = Chunks { first: 1, others: 1 };
    let mut speaking = Speaking::begin(plan, None, &networks, chunks, &Unobserved).expect("begun");
    assert!(matches!(speaking.next(), Some(Ok(StreamItem::Samples(_)))));
    speaking.append(reading.more("not really ").expect("words"));
    let Some(Ok(StreamItem::Done(dialogue))) = speaking.last() else { panic!("it ends") };
    let texts: Vec<&str> = dialogue.spoken.words.iter().map(|word| &*word.text).collect();
    assert_eq!(texts, ["no", "not", "really"]);
}

/// Words come one by one, each when it is wanted: the sound is as for the whole script. Steps that cannot take a
/// word do not ask for one.
#[test]
fn words_that_come_when_they_are_wanted_are_spoken_as_the_whole() {
    let model = model();
    let networks = networks(&model);
    let streams = streams(&model).expect("a model");
    let reader = reader(&streams, &model).expect("a tokenizer");
    let request = Request { max_steps: None, ..request("[S1] hello there, [S2] my friend") };
    let plan = Plan::new(&request, Speakers::Recorded(&[]), 5, &model).expect("a script");
    let whole = spoken(&plan, None, &networks, Chunks::default());
    let mut reading = reader.reading();
    let mut pieces = request.script.split_inclusive(' ');
    let mut plan = plan;
    plan.entries = reading.more(pieces.next().expect("a piece")).expect("words");
    let (mut has_ended, mut asked, mut steps, mut without) = (false, 0, 0, 0);
    let chunks = Chunks::default();
    let mut speaking = Speaking::begin(plan, None, &networks, chunks, &Unobserved).expect("begun");
    let dialogue = loop {
        match speaking.take_item() {
            Some(StreamItem::Done(dialogue)) => break dialogue,
            Some(StreamItem::Samples(_)) => {}
            None => {
                while !has_ended && speaking.wants_entries() {
                    asked += 1;
                    let entries = match pieces.next() {
                        Some(piece) => reading.more(piece).expect("words"),
                        None => {
                            has_ended = true;
                            reading.end().expect("words")
                        }
                    };
                    speaking.append(entries);
                }
                without += usize::from(speaking.run().state().machine.left() == 0 && !has_ended);
                speaking.advance().expect("a step");
                steps += 1;
            }
        }
    };
    same(&dialogue, &whole);
    // Five pieces after the first, and the end.
    assert_eq!((asked, has_ended), (6, true), "of {steps} steps");
    assert!(without > 8, "{without} steps did not wait, with no word there");
}

#[test]
fn a_run_is_cancelled_between_steps() {
    let model = model();
    let networks = networks(&model);
    let recordings = [recording(&networks)];
    for last in [0, 4, 12, 20] {
        let plan = Plan::new(&request(SCRIPT), Speakers::Recorded(&recordings), 5, &model);
        let checks = Cell::new(0);
        let observe = CancelIf(|| checks.replace(checks.get() + 1) >= last);
        let mut sink = |_: &[f32]| Ok(());
        let plan = plan.expect("a good request");
        let made = speak(&plan, None, &networks, Chunks::default(), &observe, &mut sink);
        assert!(matches!(made, Err(Error::Cancelled)), "{last}");
    }
}
