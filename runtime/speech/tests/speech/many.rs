//! Several runs side by side, and texts of several segments.

use std::{cell::Cell, fs, path::Path};

use acestep_engine::{Error, Event, Unobserved};
use acestep_import::Qwen3Tts;
use acestep_model::speech::qwen3_tts::Files as _;
use acestep_speech::{
    Chunks, EndReason, Fault, Options, SpeechError, Spoken, StopReason, StreamItem,
    qwen3_tts::{Plan, Request, Sampling, Speaking, Voice, speak},
};
use burn_flex::{Flex, FlexDevice};
use safetensors::SafeTensors;
use serde_json::Value;

use super::{base, copy_files, fill, model, networks, recording, request, spoken};

/// Speaks `plans` with `batch_size` rows. The samples of each run must be those of its result.
fn together(model: &Qwen3Tts, plans: Vec<Plan>, batch_size: usize) -> Vec<Spoken> {
    let mut streamed = vec![Vec::new(); plans.len()];
    let mut done: Vec<Option<Spoken>> = vec![None; plans.len()];
    let networks = networks(model);
    let chunks = Chunks { first: 1, others: 3 };
    let options = Options { batch_size, chunks, ..Options::default() };
    let runs = Speaking::begin(plans, None, &networks, options, &Unobserved).expect("networks");
    for made in runs {
        match made.expect("speech") {
            (id, StreamItem::Samples(samples)) => streamed[id].extend(samples),
            (id, StreamItem::Done(spoken)) => done[id] = Some(spoken),
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
pub(super) fn described(folder: &Path) -> Qwen3Tts {
    let goldens = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/checkpoints_qwen3_tts");
    for name in ["Qwen3-TTS-12Hz-0.6B-CustomVoice", "Qwen3-TTS-Tokenizer-12Hz"] {
        fs::create_dir(folder.join(name)).expect("a folder");
        copy_files(&Path::new(goldens).join(name), &folder.join(name));
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

#[test]
fn a_model_in_shards_speaks_as_in_one_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let request = Request { voice: None, instruct: Some("Loud.".into()), ..request("Hi.") };
    let speak = |model: &Qwen3Tts| {
        let made = spoken(model, &request, 3, Chunks::default());
        (model.path().to_owned(), made.audio)
    };
    let (path, expected) = speak(&described(folder.path()));
    for name in ["Qwen3-TTS-12Hz-0.6B-CustomVoice", "Qwen3-TTS-Tokenizer-12Hz"] {
        let file = folder.path().join(name).join("model.safetensors");
        let bytes = fs::read(&file).expect("weights");
        let tensors = SafeTensors::deserialize(&bytes).expect("tensors").tensors();
        let mut shards = serde_json::Map::new();
        for (index, part) in tensors.chunks(tensors.len().div_ceil(3)).enumerate() {
            let shard = format!("model-{index}.safetensors");
            shards.extend(part.iter().map(|(name, _)| (name.clone(), shard.clone().into())));
            let part = safetensors::serialize(part.iter().cloned(), None).expect("tensors");
            fs::write(file.with_file_name(shard), part).expect("a shard");
        }
        let index = serde_json::json!({ "weight_map": shards }).to_string();
        fs::write(file.with_file_name("model.safetensors.index.json"), index).expect("an index");
        fs::remove_file(file).expect("the shards are in its place");
    }
    let model = Qwen3Tts::open(&path).expect("a model");
    assert_eq!(model.files().len(), 6);
    assert!(speak(&model) == (path, expected), "another sound");
}

/// One is then missing, and one is left over: either is named, with its file.
#[test]
fn a_tensor_of_another_name_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = described(folder.path()).path().to_owned();
    for (place, name, other) in [
        ("Qwen3-TTS-12Hz-0.6B-CustomVoice", "talker.codec_head.weight", "talker.codec_heap.weight"),
        ("Qwen3-TTS-Tokenizer-12Hz", "decoder.pre_conv.conv.bias", "decoder.pre_conv.conv.bims"),
    ] {
        let file = folder.path().join(place).join("model.safetensors");
        let whole = fs::read(&file).expect("weights");
        let at = whole.windows(name.len()).position(|own| own == name.as_bytes()).expect(name);
        let changed = [&whole[..at], other.as_bytes(), &whole[at + name.len()..]].concat();
        fs::write(&file, changed).expect("weights");
        let opened = Qwen3Tts::open(&path).and_then(|model| model.check::<Flex>(&FlexDevice));
        let error = opened.expect_err(name).to_string();
        assert!(error.contains(place), "{error}");
        assert!(error.contains(name) || error.contains(other), "{error}");
        fs::write(&file, whole).expect("weights");
    }
}

/// A talker whose logits are all equal writes the first code for ever, and its request.
fn looping(folder: &Path) -> (Qwen3Tts, Request) {
    let path = described(folder).path().join("model.safetensors");
    fill(&path, "talker.codec_head.weight", 0);
    let model = Qwen3Tts::open(path.parent().expect("a folder")).expect("a model");
    let sampling =
        Sampling { do_sample: Some(false), max_new_tokens: Some(200), ..Sampling::default() };
    let request = Request { text: "Hello there.".into(), sampling, ..Request::default() };
    (model, Request { instruct: Some("Loud.".into()), ..request })
}

/// The kept part of the speech does not depend on the chunks.
#[test]
fn a_loop_ends_after_the_same_frame_for_all_chunks() {
    let folder = tempfile::tempdir().expect("a folder");
    let (model, request) = looping(folder.path());
    let of = |others| spoken(&model, &request, 0, Chunks { first: 1, others });
    let first = of(1);
    assert_eq!(first.frames.len(), 50);
    let fault = EndReason::Fault(Fault::Loop { code: 0, frames: 50 });
    assert_eq!(first.segments[0].ended, fault);
    for others in [7, 8, 100] {
        let other = of(others);
        assert_eq!((&other.frames, &other.segments), (&first.frames, &first.segments));
        assert_eq!(other.audio, first.audio);
    }
}

/// A chunk is 80 s here, and a loop 4 s: no frame is written after its 50.
#[test]
fn a_loop_ends_the_run_before_a_chunk_is_full() {
    let folder = tempfile::tempdir().expect("a folder");
    let (model, request) = looping(folder.path());
    let plan = Plan::new(&request, None, 0, &model).expect("a plan");
    assert_eq!(plan.most_frames, 199);
    let (chunks, frames) = (Chunks { first: 1, others: 1000 }, Cell::new(0));
    let observe = |event: Event| {
        if let Event::Advanced { done, .. } = event {
            frames.set(done.max(frames.get()));
        }
    };
    let mut sink = |_: &[f32]| Ok(());
    let spoken = speak(&plan, None, &networks(&model), chunks, &observe, &mut sink);
    assert_eq!(spoken.expect("speech").frames.len(), 50);
    assert_eq!(frames.get(), 50);
}

/// The most positions are those of the plans of all segments, also with a voice and streamed text.
#[test]
fn the_most_positions_are_those_of_the_longest_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    let (named, base, described) = (model(), base(), described(folder.path()));
    let networks = networks(&base);
    let words = Some("Il fait beau.");
    let voice = Voice::of_recording(&recording(9_700), words, &networks, &Unobserved);
    let voice = voice.expect("a voice");
    let lone = Voice { context: None, ..voice.clone() };
    let name = || Some("ryan".to_owned());
    let cases = [
        (&named, name(), None),
        (&base, None, Some(voice)),
        (&base, None, Some(lone)),
        (&described, None, None),
    ];
    let (short, long) =
        ("The sea is calm tonight and full.", "The sea is calm tonight and the tide is full.");
    for (model, name, voice) in cases {
        let tokens = model.tokenizer().expect("a vocabulary").encode(long).len();
        for (mode, limit) in [(true, None), (false, None), (true, Some(20)), (false, Some(20))] {
            let request = Request {
                voice: name.clone(),
                non_streaming_mode: Some(mode),
                sampling: Sampling { max_new_tokens: limit, ..Sampling::default() },
                max_text_tokens_per_segment: Some(tokens as u32),
                ..request(&[short, short, long, short].join(" "))
            };
            let plan = Plan::new(&request, voice.clone(), 0, model).expect("a plan");
            // Those of a described voice continue its first segment.
            let mut frames = vec![vec![0; 16]; plan.most_frames];
            let (mut plans, mut own) = (Vec::new(), Some(plan.clone()));
            while let Some(plan) = own {
                own = plan.next(&std::mem::take(&mut frames), model).expect("a plan");
                plans.push(plan);
            }
            let positions = plans.iter().map(|plan| plan.prompt.rows.len() + plan.most_frames);
            let positions: Vec<_> = positions.collect();
            assert_eq!(positions.len(), 4, "{positions:?}");
            assert!(!mode || positions[2] > positions[0].max(positions[1]), "{positions:?}");
            let found = plan.most_positions(model).expect("plans");
            assert_eq!(Some(&found), positions.iter().max(), "{positions:?}");
        }
    }
}

/// With a copy of all texts for each segment, the time would grow with the square of the length.
#[test]
fn a_text_of_thousands_of_segments_is_planned_in_one_pass() {
    let model = model();
    let sentence = "The sea is calm tonight. ";
    let tokens = model.tokenizer().expect("a vocabulary").encode(sentence.trim()).len();
    let max_text_tokens_per_segment = Some(tokens.max(10) as u32);
    let request = request(&sentence.repeat(4_000));
    let request = Request { max_text_tokens_per_segment, ..request };
    let plan = Plan::new(&request, None, 0, &model).expect("a plan");
    assert!(plan.following.len() >= 1_999, "{}", plan.following.len());
    // The sentences are equal, and so are the segments.
    assert_eq!(plan.following[0], plan.text);
    let positions = plan.prompt.rows.len() + plan.most_frames;
    assert_eq!(plan.most_positions(&model).expect("plans"), positions);
    let next = plan.next(&[], &model).expect("a plan").expect("a second segment");
    assert_eq!(next.following.len(), plan.following.len() - 1);
    assert_eq!(next.following.as_ptr(), plan.following[1..].as_ptr());
}

/// A checkpoint of 100 positions has room for a prompt and the rest in frames.
#[test]
fn the_checkpoint_says_how_many_positions_it_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = described(folder.path()).path().join("config.json");
    let config = fs::read_to_string(&path).expect("a configuration");
    let mut config: Value = serde_json::from_str(&config).expect("JSON");
    config["talker_config"]["max_position_embeddings"] = 100.into();
    fs::write(&path, config.to_string()).expect("a configuration");
    let model = Qwen3Tts::open(path.parent().expect("a folder")).expect("a model");
    let of = |text: &str, max_new_tokens| {
        let sampling = Sampling { max_new_tokens, ..Sampling::default() };
        let request = Request { voice: None, sampling, ..request(text) };
        Plan::new(&request, None, 0, &model)
    };
    let plan = of("fine", Some(100)).expect("a plan");
    assert_eq!(plan.prompt.rows.len() + plan.most_frames, 100);
    assert_eq!(plan.limit, StopReason::Context { field: "max_position_embeddings" });
    let limit = of("fine", Some(10)).expect("a plan").limit;
    assert_eq!(limit, StopReason::Limit { field: "max_new_tokens" });
    let error = of("fine", Some(101)).expect_err("too many");
    assert!(matches!(error, Error::OutOfRange { field: "max_new_tokens", .. }), "{error}");
    let error = of(&"🎉".repeat(50), None).expect_err("its prompt is too long");
    assert!(matches!(error.family(), Some(SpeechError::TooLong { most: 100, .. })), "{error}");
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
