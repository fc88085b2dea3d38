//! Properties of speech, with the random model inside the program.

use std::{cell::Cell, fs, path::Path};

use acestep_engine::{Audio, Error, Event, Observe, Unobserved};
use acestep_import::{Layout, Qwen3Tts, TINY_SPEECH};
use acestep_model::Place;
use acestep_speech::{
    Chunks, EndReason, Options, SpeechError, Spoken, StopReason, StreamItem,
    qwen3_tts::{Networks, Plan, Request, Sampling, Speaking, StreamingDecoder, Voice, speak},
};
use burn_flex::{Flex, FlexDevice};
use safetensors::SafeTensors;

mod chained;
mod dialogue;
mod kept;
mod many;

fn model() -> Qwen3Tts {
    Qwen3Tts::find(Some(TINY_SPEECH), &Layout::new([])).expect("it is part of the program")
}

fn base() -> Qwen3Tts {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/goldens/checkpoints_qwen3_tts/Qwen3-TTS-12Hz-0.6B-Base"
    );
    Qwen3Tts::open(path.as_ref()).expect("the goldens are in the repository")
}

fn networks(model: &Qwen3Tts) -> Networks<'_, Flex> {
    Networks::new(model, Place::f32(FlexDevice))
}

fn request(text: &str) -> Request {
    let sampling = Sampling { max_new_tokens: Some(15), ..Sampling::default() };
    Request { text: text.into(), voice: Some("ryan".into()), sampling, ..Request::default() }
}

fn spoken(model: &Qwen3Tts, request: &Request, seed: u64, chunks: Chunks) -> Spoken {
    let plan = Plan::new(request, None, seed, model).expect("a good request");
    let mut streamed = Vec::new();
    let mut sink = |samples: &[f32]| {
        streamed.extend_from_slice(samples);
        Ok(())
    };
    let spoken =
        speak(&plan, None, &networks(model), chunks, &Unobserved, &mut sink).expect("speech");
    assert_eq!(spoken.audio.channels, [streamed]);
    spoken
}

/// Copies the files of a directory.
fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("the goldens are in the repository") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("a copy");
    }
}

/// Makes all bytes of a tensor `value` in the file at `path`.
fn fill(path: &Path, tensor: &str, value: u8) {
    let mut bytes = fs::read(path).expect("weights");
    let (header, tensors) = SafeTensors::read_metadata(&bytes).expect("a header");
    let (from, to) = tensors.info(tensor).expect("a tensor").data_offsets;
    bytes[8 + header..][from..to].fill(value);
    fs::write(path, bytes).expect("weights");
}

/// A signal that no network finds trivial.
fn recording(samples: usize) -> Audio {
    let sample = |i: usize| {
        let t = i as f32 / 24_000.0;
        0.4 * (t * 900.0).sin() * (1.0 + (t * 31.0).sin()) / 2.0 + 0.05 * (t * 7_777.0).sin()
    };
    Audio { channels: vec![(0..samples).map(sample).collect()], sample_rate: 24_000 }
}

#[test]
fn chunks_of_any_size_are_the_same_sound() {
    let model = model();
    let of =
        |first, others| spoken(&model, &request("The sea is calm."), 5, Chunks { first, others });
    let whole = of(100, 100);
    assert!(whole.frames.len() > 2, "{} frames", whole.frames.len());
    assert_eq!(whole.audio.samples(), whole.frames.len() * 1920);
    for (first, others) in [(1, 1), (1, 2), (2, 3), (1, 8), (7, 4)] {
        let streamed = of(first, others);
        assert_eq!(streamed.frames, whole.frames);
        assert_eq!(streamed.audio, whole.audio, "{first} {others}");
    }
}

/// Several times the window of the codec's transformer, so that old frames are dropped.
#[test]
fn a_long_sound_in_chunks_is_the_whole() {
    let model = model();
    let networks = networks(&model);
    let frames: Vec<Vec<u32>> =
        (0..300u32).map(|f| (0..16).map(|g| (f * 7 + g * 13 + f * f % 5) % 64).collect()).collect();
    let mut decoding = StreamingDecoder::begin(&[], &networks).expect("a decoder");
    let whole = decoding.clone().decode(&frames).expect("sound");
    let mut streamed = Vec::new();
    let mut sizes = [1, 3, 2, 11, 17, 1, 30].into_iter().cycle();
    let mut rest = &frames[..];
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
        streamed.extend(decoding.decode(chunk).expect("sound"));
        rest = after;
    }
    let first = whole.iter().zip(&streamed).position(|(a, b)| a != b);
    assert_eq!((streamed.len(), first), (whole.len(), None));
}

#[test]
fn a_copy_of_a_sound_goes_on_as_the_sound() {
    let model = model();
    let networks = networks(&model);
    let frames = vec![vec![3; 16], vec![9; 16]];
    let mut decoding = StreamingDecoder::begin(&frames, &networks).expect("a decoder");
    let mut copy = decoding.clone();
    let next = decoding.decode(&frames[..1]).expect("sound");
    decoding.decode(&frames).expect("sound");
    assert_eq!(copy.decode(&frames[..1]).expect("sound"), next);
}

#[test]
fn a_seed_repeats_and_another_differs() {
    let model = model();
    let of = |seed| spoken(&model, &request("The sea is calm."), seed, Chunks::default()).frames;
    assert_eq!(of(3), of(3));
    assert_ne!(of(3), of(4));
}

#[test]
fn the_limit_ends_a_run_and_is_said() {
    let model = model();
    let mut request = request("The sea is calm.");
    request.sampling.max_new_tokens = Some(4);
    request.sampling.do_sample = Some(false);
    let spoken = spoken(&model, &request, 0, Chunks::default());
    assert_eq!(spoken.frames.len(), 3);
    assert_eq!(
        spoken.segments[0].ended,
        EndReason::Frames(StopReason::Limit { field: "max_new_tokens" })
    );
    assert!(spoken.notices()[0].0.contains("max_new_tokens"), "{:?}", spoken.notices());
}

/// Each speaks here, as upstream; of a user's texts, blank ones are refused before.
#[test]
fn every_text_speaks() {
    let model = model();
    for text in [
        "",
        "a",
        " ",
        "\n\n",
        "👩‍👩‍👧 🎉",
        "שלום עולם",
        "Hello 你好 안녕 здравствуйте",
        "1,234.56 € on 2026-11-26",
        "<speak><break time=\"1s\"/>SSML</speak>",
        "tab\tand \u{0} and \u{7f}",
        "<|im_end|>\n<|im_start|>user",
        "e\u{301}",
    ] {
        let mut request = request(text);
        request.sampling.max_new_tokens = Some(3);
        let spoken = spoken(&model, &request, 1, Chunks::default());
        assert!(spoken.audio.channels[0].iter().all(|x| x.abs() <= 1.0), "{text:?}");
    }
    let long = "word ".repeat(2_000);
    let plan = Plan::new(&request(&long), None, 0, &model).expect("10,000 characters");
    let sampling = Sampling { max_new_tokens: Some(3), ..Sampling::default() };
    let all = Request { sampling, ..request(&long) };
    let all = spoken(&model, &all, 1, Chunks::default());
    // The third first code of a segment gets no frame.
    assert_eq!((all.frames.len(), all.unspoken), (2 * (1 + plan.following.len()), 0));
    let following: usize = plan.following.iter().map(|text| text.split(' ').count()).sum();
    assert_eq!(plan.text.split(' ').count() + following, 2_000);
    assert!(plan.following.len() > 5 && plan.following.len() < 20, "{}", plan.following.len());
    let whole = |words| {
        let most = Some(32_768);
        let request = request(&"word ".repeat(words));
        Plan::new(&Request { max_text_tokens_per_segment: most, ..request }, None, 0, &model)
    };
    assert!(whole(2_000).expect("10,000 characters").prompt.rows.len() > 2_000);
    let error = whole(20_000).expect_err("too long");
    assert!(matches!(error.family(), Some(SpeechError::TooLong { .. })), "{error}");
}

#[test]
fn a_request_that_does_not_fit_the_model_is_refused_with_the_field() {
    let model = model();
    let change = |change: &dyn Fn(&mut Request)| {
        let mut request = request("fine");
        change(&mut request);
        Plan::new(&request, None, 0, &model).expect_err("a bad request").to_string()
    };
    for (error, says) in [
        (change(&|r| r.voice = Some("bob".into())), "`voice: bob`"),
        (change(&|r| r.language = Some("Klingon".into())), "Klingon` cannot be used: use auto, ch"),
        (change(&|r| r.language = Some("sichuan_dialect".into())), "`language: sichuan_dialect`"),
        (change(&|r| r.sampling.temperature = Some(0.0)), "`temperature: 0`"),
        (change(&|r| r.sampling.temperature = Some(f32::NAN)), "`temperature: NaN`"),
        (change(&|r| r.sampling.subtalker_temperature = Some(1e-40)), "`subtalker_temperature:"),
        (change(&|r| r.sampling.top_p = Some(-0.1)), "`top_p: -0.1"),
        (change(&|r| r.sampling.repetition_penalty = Some(0.0)), "`repetition_penalty: 0`"),
        (change(&|r| r.sampling.max_new_tokens = Some(1)), "`max_new_tokens: 1`"),
    ] {
        assert!(error.contains(says), "{says}: {error}");
    }
    let named = Plan::new(&request("fine"), None, 0, &base()).expect_err("no named speaker");
    assert!(named.to_string().contains("takes no `voice`"), "{named}");
    let request = Request { voice: None, ..request("fine") };
    let error = Plan::new(&request, None, 0, &base()).expect_err("no voice");
    assert!(matches!(error.family(), Some(SpeechError::NoVoice { .. })), "{error}");
}

#[test]
fn capitals_and_an_empty_name_are_accepted_and_instructions_are_noted() {
    let model = model();
    let plan = |change: &dyn Fn(&mut Request)| {
        let mut request = request("fine");
        change(&mut request);
        Plan::new(&request, None, 0, &model).expect("a good request")
    };
    let (small, large) = (plan(&|_| ()), plan(&|r| r.voice = Some("RYAN".into())));
    assert_eq!(small.prompt, large.prompt);
    let without = plan(&|r| r.voice = Some(String::new()));
    assert_eq!(without.prompt.rows.len() + 1, small.prompt.rows.len());
    assert_eq!(plan(&|r| r.sampling.top_p = Some(1.5)).sampling.top_p, 1.0);
    let noted = plan(&|r| r.instruct = Some("Slowly.".into()));
    assert_eq!(noted.prompt, small.prompt);
    assert!(noted.notices[0].0.contains("`instruct` has no effect"), "{:?}", noted.notices);
}

#[test]
fn a_voice_with_its_words_is_continued_and_without_them_only_imitated() {
    let model = base();
    let networks = networks(&model);
    let recording = recording(9_700);
    let of = |transcript| {
        Voice::of_recording(&recording, transcript, &networks, &Unobserved).expect("a voice")
    };
    let (alone, whole) = (of(None), of(Some("Il fait beau.")));
    assert_eq!(alone.speaker, whole.speaker);
    assert_eq!(alone.context, None);
    let frames = &whole.context.as_ref().expect("codes").frames;
    assert_eq!((frames.len(), frames[0].len()), (9_700usize.div_ceil(1920), 16));
    let request = Request { voice: None, ..request("The sea is calm.") };
    let plan = |voice| Plan::new(&request, Some(voice), 0, &model).expect("a plan");
    let (alone, whole) = (plan(alone), plan(whole));
    assert_ne!(alone.prompt, whole.prompt);
    for plan in [alone, whole] {
        let mut sink = |_: &[f32]| Ok(());
        let spoken = speak(&plan, None, &networks, Chunks::default(), &Unobserved, &mut sink);
        assert_eq!(spoken.expect("speech").audio.sample_rate, 24_000);
    }
}

#[test]
fn a_recording_that_is_too_short_or_not_finite_is_refused() {
    let model = base();
    let networks = networks(&model);
    let of = |audio: &Audio| Voice::of_recording(audio, None, &networks, &Unobserved);
    let error = of(&recording(1_279)).expect_err("too short");
    assert!(matches!(error.family(), Some(SpeechError::TooShort { .. })), "{error}");
    assert!(of(&recording(1_280)).is_ok());
    let wordless = Voice::of_recording(&recording(9_700), Some(" \n"), &networks, &Unobserved);
    assert!(matches!(wordless, Err(Error::BadValue { field: "transcript", .. })));
    let mut broken = recording(9_700);
    broken.channels[0][17] = f32::NAN;
    assert!(matches!(of(&broken), Err(Error::NotFinite { first: 17, .. })));
}

#[test]
fn a_voice_of_another_model_is_refused() {
    let voice = Voice { speaker: vec![0.0; 7], context: None };
    let error = Plan::new(&Request::default(), Some(voice), 0, &base()).expect_err("another width");
    assert!(matches!(error.family(), Some(SpeechError::ForeignVoice { .. })), "{error}");
}

/// Cancels after a number of frames: those so far, and that number.
struct After(Cell<usize>, usize);

impl Observe for After {
    fn event(&self, event: Event) {
        if let Event::Advanced { done, .. } = event {
            self.0.set(done);
        }
    }

    fn cancelled(&self) -> bool {
        self.0.get() >= self.1
    }
}

#[test]
fn a_cancelled_run_ends_within_a_frame() {
    let model = model();
    let plan = Plan::new(&request("The sea is calm."), None, 5, &model).expect("a plan");
    for frames in [0, 1, 3] {
        let observe = After(Cell::new(0), frames);
        let mut sink = |_: &[f32]| Ok(());
        let spoken = speak(&plan, None, &networks(&model), Chunks::default(), &observe, &mut sink);
        assert!(matches!(spoken, Err(Error::Cancelled)), "{frames}");
        assert_eq!(observe.0.get(), frames);
    }
}

/// A receiver that waits makes the run wait. Each chunk has one frame.
#[test]
fn no_frame_is_written_before_it_is_asked_for() {
    let model = model();
    let plan = Plan::new(&request("The sea is calm."), None, 5, &model).expect("a plan");
    let (networks, written) = (networks(&model), After(Cell::new(0), usize::MAX));
    let options = Options { chunks: Chunks { first: 1, others: 1 }, ..Options::default() };
    let run = Speaking::begin(vec![plan], None, &networks, options, &written).expect("networks");
    for (chunk, made) in (1..).zip(run) {
        match made.expect("speech") {
            (_, StreamItem::Samples(_)) => assert_eq!(written.0.get(), chunk),
            (_, StreamItem::Done(spoken)) => assert_eq!(spoken.frames.len() + 1, chunk),
        }
    }
}

/// The receiver of the sound ends a run.
#[test]
fn an_error_of_the_receiver_ends_the_run() {
    let model = model();
    let plan = Plan::new(&request("fine"), None, 0, &model).expect("a plan");
    let mut sink = |_: &[f32]| Err(Error::Conflict("full".into()));
    let spoken = speak(&plan, None, &networks(&model), Chunks::default(), &Unobserved, &mut sink);
    assert!(matches!(spoken, Err(Error::Conflict(_))));
}
