//! Several runs side by side, and texts of several segments.

use std::{fs, path::Path};

use acestep_engine::{Error, Unobserved};
use acestep_speech::{
    Chunks, Ended, Fault, Made, Options, Spoken,
    qwen3_tts::{Plan, Request, Sampling, Speaking},
};

use super::{base, model, networks, recording, request, spoken};
use acestep_import::Qwen3Tts;
use acestep_speech::qwen3_tts::Voice;
use safetensors::SafeTensors;

/// Speaks `plans` with `batch_size` rows. The samples of each run must be those of its result.
fn together(model: &Qwen3Tts, plans: Vec<Plan>, batch_size: usize) -> Vec<Spoken> {
    let mut streamed = vec![Vec::new(); plans.len()];
    let mut done: Vec<Option<Spoken>> = vec![None; plans.len()];
    let networks = networks(model);
    let chunks = Chunks { first: 1, others: 3 };
    let options = Options { batch_size, chunks, since: None };
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

/// Runs of several segments begin again while others go on.
#[test]
fn long_texts_side_by_side_are_those_of_each_alone() {
    let model = model();
    let texts = ["Hi.", &long().text, "It rains.", &long().text];
    let requests: Vec<_> = texts.map(|text| Request { text: text.into(), ..long() }).into();
    let plan = |(request, seed)| Plan::new(request, None, seed, &model).expect("a plan");
    let plans = requests.iter().zip(3..).map(plan).collect();
    for ((run, request), seed) in together(&model, plans, 2).iter().zip(&requests).zip(3..) {
        let alone = spoken(&model, request, seed, Chunks::default());
        assert_eq!((&run.frames, &run.segments), (&alone.frames, &alone.segments));
        assert_eq!(run.audio, alone.audio);
    }
}

/// A model of named speakers that says it is one of described voices.
fn described(folder: &Path) -> Qwen3Tts {
    let goldens = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/checkpoints_qwen3_tts");
    for name in ["Qwen3-TTS-12Hz-0.6B-CustomVoice", "Qwen3-TTS-Tokenizer-12Hz"] {
        fs::create_dir(folder.join(name)).expect("a folder");
        for entry in fs::read_dir(Path::new(goldens).join(name)).expect("the goldens") {
            let from = entry.expect("an entry").path();
            let to = folder.join(name).join(from.file_name().expect("a name"));
            fs::copy(&from, to).expect("a copy");
        }
    }
    let path = folder.join("Qwen3-TTS-12Hz-0.6B-CustomVoice");
    let config = fs::read_to_string(path.join("config.json")).expect("a configuration");
    let config = config.replace("custom_voice", "voice_design");
    fs::write(path.join("config.json"), config).expect("a configuration");
    Qwen3Tts::open(&path).expect("a model")
}

/// The first segment of a described voice is short, and the others continue its sound.
#[test]
fn a_described_voice_is_carried_from_its_first_segment() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = described(folder.path());
    let instruct = Some("An old sailor.".into());
    let request = Request { voice: None, instruct, ..long() };
    let plan = Plan::new(&request, None, 0, &model).expect("a plan");
    assert_eq!(plan.voice, None);
    let frames = vec![vec![3; 16], vec![5; 16]];
    let next = plan.next(&frames, &model).expect("a plan").expect("a second segment");
    let context = next.voice.as_ref().and_then(|voice| voice.context.as_ref()).expect("a sound");
    assert_eq!((&context.frames, &context.transcript), (&frames, &plan.text));
    let third = next.next(&[vec![7; 16]], &model).expect("a plan").expect("a third segment");
    assert_eq!(third.voice, next.voice);
}

/// A talker whose logits are all equal writes the first code for ever. The kept part of its speech does
/// not depend on the chunks.
#[test]
fn a_loop_ends_after_the_same_frame_for_all_chunks() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = described(folder.path()).path().join("model.safetensors");
    let mut bytes = fs::read(&path).expect("weights");
    let (header, tensors) = SafeTensors::read_metadata(&bytes).expect("a header");
    let (from, to) = tensors.info("talker.codec_head.weight").expect("a head").data_offsets;
    bytes[8 + header..][from..to].fill(0);
    fs::write(&path, bytes).expect("weights");
    let model = Qwen3Tts::open(path.parent().expect("a folder")).expect("a model");
    let sampling = Sampling { do_sample: Some(false), ..Sampling::default() };
    let request = Request { text: "Hello there.".into(), sampling, ..Request::default() };
    let request = Request { instruct: Some("Loud.".into()), ..request };
    let of = |others| spoken(&model, &request, 0, Chunks { first: 1, others });
    let first = of(1);
    assert_eq!(first.frames.len(), 50);
    let fault = Ended::Fault(Fault::Loop { code: 0, frames: 50 });
    assert_eq!(first.segments[0].ended, fault);
    for others in [7, 8, 100] {
        let other = of(others);
        assert_eq!((&other.frames, &other.segments), (&first.frames, &first.segments));
        assert_eq!(other.audio, first.audio);
    }
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
