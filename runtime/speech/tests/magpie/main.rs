//! Properties of speech with Magpie TTS, with a small model of random weights.

use std::cell::Cell;

use acestep_engine::{CancelIf, Error, Unobserved};
use acestep_speech::{
    Chunks, EndReason, Fault, Options, Spoken, StopReason,
    magpie::{
        MagpieError, Networks, Plan, Request, Sampling, Speaking, Tools,
        end::{EndCodebooks, EndRule},
        speak, tokenizers,
    },
};
use burn_flex::Flex;

mod tiny;

use tiny::{Tiny, place};

fn plan(model: &Tiny, request: &Request) -> Result<Plan, Error> {
    Plan::new(request, 5, model, &tokenizers(model)?, Tools::default())
}

fn request(text: &str) -> Request {
    Request { text: text.into(), ..Request::default() }
}

fn set(json: &str) -> Sampling {
    serde_json::from_str(json).expect("settings")
}

fn spoken(model: &Tiny, request: &Request, chunks: Chunks) -> Spoken {
    let plan = plan(model, request).expect("a good request");
    let networks = Networks::<Flex>::new(model, place());
    let options = Options { chunks, ..Options::default() };
    let mut streamed = Vec::new();
    let mut sink = |samples: &[f32]| {
        streamed.extend_from_slice(samples);
        Ok(())
    };
    let spoken = speak(plan, &networks, options, &Unobserved, &mut sink).expect("speech");
    assert_eq!(spoken.audio.channels, [streamed]);
    spoken
}

#[test]
fn chunks_of_sound_are_the_whole() {
    for frames in [1, 2] {
        let model = Tiny::new(frames);
        let of = |first, others| spoken(&model, &request("The old dog."), Chunks { first, others });
        let whole = of(100, 100);
        assert_eq!(whole.audio.samples(), whole.frames.len() * 32);
        assert_eq!(whole.audio.sample_rate, 22_050);
        for (first, others) in [(1, 1), (1, 3), (2, 5)] {
            let streamed = of(first, others);
            assert_eq!(streamed.frames, whole.frames);
            let pairs = streamed.audio.channels[0].iter().zip(&whole.audio.channels[0]);
            let most = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(most < 1e-5, "{most}");
        }
    }
}

#[test]
fn a_seed_repeats_and_another_differs() {
    let model = Tiny::new(2);
    let of = |seed| {
        let request = Request { seed: Some(seed), ..request("Hello world.") };
        spoken(&model, &request, Chunks::default()).frames
    };
    assert_eq!(of(3), of(3));
    assert!((4..10).any(|seed| of(seed) != of(3)));
}

/// Without a prior nothing that is kept depends on a later step.
#[test]
fn kept_rows_are_those_computed_again_without_a_prior() {
    let model = Tiny::new(1);
    let of = |exact| {
        let exact_prior = Some(exact);
        let sampling = set(r#"{"apply_attention_prior": false, "temperature": 0}"#);
        let sampling = Sampling { exact_prior, ..sampling };
        spoken(&model, &Request { sampling, ..request("Hello world.") }, Chunks::default()).frames
    };
    assert_eq!(of(true), of(false));
}

/// As in the reference: scale 1 has the logits of one row, but two rows are drawn.
#[test]
fn guidance_of_scale_1_has_the_likeliest_codes_of_none_and_other_draws() {
    let model = Tiny::new(1);
    let of = |json: &str| {
        let request = Request { sampling: set(json), ..request("Hello world.") };
        spoken(&model, &request, Chunks::default()).frames
    };
    let likeliest = of(r#"{"use_cfg": false, "temperature": 0}"#);
    assert_eq!(of(r#"{"cfg_scale": 1, "temperature": 0}"#), likeliest);
    assert_ne!(of(r#"{"cfg_scale": 1}"#), of(r#"{"use_cfg": false}"#));
}

#[test]
fn the_limit_ends_a_sentence_and_is_said() {
    let model = Tiny::new(2);
    let sampling = set(r#"{"max_decoder_steps": 3, "temperature": 0}"#);
    let spoken = spoken(&model, &Request { sampling, ..request("Hello.") }, Chunks::default());
    // The end is forbidden in the first four frames; an odd limit counts whole steps.
    assert_eq!(spoken.frames.len(), 2);
    let limit = StopReason::Limit { field: "max_decoder_steps" };
    assert_eq!(spoken.segments[0].ended, EndReason::Frames(limit));
    assert!(spoken.notices()[0].0.contains("max_decoder_steps"), "{:?}", spoken.notices());
}

/// The file has none of them: these are those of the reference's `ModelInferenceParameters`.
#[test]
fn the_prior_and_the_end_are_those_of_the_request_and_else_of_the_file() {
    let model = Tiny::new(1);
    let of = |json: &str| {
        let request = Request { sampling: set(json), ..request("Hello.") };
        let own = plan(&model, &request).expect("a good request").settings;
        let prior = (own.prior.epsilon, own.prior.lookahead, own.start_prior_after);
        (prior, own.end, own.least_frames)
    };
    let end = EndRule { of: EndCodebooks::Any, with_drawn: true };
    assert_eq!(of("{}"), ((0.1, 5, 0), end, 4));
    let own = of(r#"{ "attention_prior_epsilon": 0.25, "attention_prior_lookahead_window": 7,
        "start_prior_after_n_audio_steps": 3, "eos_detection_method": "argmax_zero_cb",
        "min_generated_frames": 9 }"#);
    assert_eq!(own, ((0.25, 7, 3), EndRule { of: EndCodebooks::First, with_drawn: false }, 9));
    // An end that may never come: 12 is the limit of the file.
    let sampling = set(r#"{"min_generated_frames": 1000}"#);
    let request = Request { sampling, ..request("Hello.") };
    assert_eq!(spoken(&model, &request, Chunks::default()).frames.len(), 12);
}

#[test]
fn a_long_text_is_spoken_in_sentences() {
    let model = Tiny::new(1);
    let text = format!("{} The old dog waits. Hello", "We walk along the cold river. ".repeat(8));
    let plan = plan(&model, &request(&text)).expect("a good request");
    assert_eq!(plan.texts.len(), 10);
    assert!(plan.notices.iter().any(|notice| notice.0.contains("in 10 sentences")));
    let spoken = spoken(&model, &request(&text), Chunks::default());
    assert_eq!(spoken.segments.len(), 10);
    let frames: usize = spoken.segments.iter().map(|segment| segment.frames).sum();
    assert_eq!(frames, spoken.frames.len());
    assert!(spoken.frames.iter().flatten().all(|&code| code < 12));
}

#[test]
fn a_voice_has_a_name_or_a_number() {
    let model = Tiny::new(1);
    let of =
        |voice: &str| plan(&model, &Request { voice: Some(voice.into()), ..request("Hello.") });
    for (voice, row, name) in [("sofia", 1, "Sofia"), ("0", 0, "Leo"), ("2", 2, "2")] {
        let plan = of(voice).expect(voice);
        assert_eq!((plan.options.voice, &*plan.voice), (row, name));
    }
    for voice in ["ann", "3", "-1"] {
        let error = of(voice).expect_err(voice);
        let Some(MagpieError::Voice { known, .. }) = error.family() else { panic!("{error}") };
        assert_eq!(known, &["Leo", "Sofia", "2"]);
    }
}

#[test]
fn symbols_that_are_left_out_are_said_and_nothing_else_is_an_error() {
    let model = Tiny::new(1);
    let plan_of = |text: &str| plan(&model, &request(text));
    let notices = plan_of("Hello 24 worlds.").expect("words").notices;
    assert!(notices.iter().any(|notice| notice.0.contains("`2`, `4`")), "{notices:?}");
    for text in ["", " \n", "24", "…"] {
        let error = plan_of(text).expect_err(text);
        assert!(matches!(error.family(), Some(MagpieError::NothingToSay { .. })), "{error}");
    }
    // Another script is named with its remedy, and not letter by letter.
    let error = plan_of(&(0..60).filter_map(|i| char::from_u32(0x4e00 + i)).collect::<String>());
    let error = error.expect_err("Chinese");
    assert!(error.to_string().ends_with("and 40 others"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("`language`")));
    let long = plan_of(&"a".repeat(1_000_001)).expect_err("too long");
    assert!(matches!(long, Error::OutOfRange { field: "text", .. }), "{long}");
}

#[test]
fn fields_out_of_range_and_texts_without_room_are_refused() {
    let model = Tiny::new(2);
    let of = |sampling| plan(&model, &Request { sampling, ..request("Hello.") });
    let bad = [
        Sampling { temperature: Some(f32::NAN), ..Sampling::default() },
        Sampling { cfg_scale: Some(f32::INFINITY), ..Sampling::default() },
        set(r#"{"temperature": -1}"#),
        set(r#"{"temperature": 1e-40}"#),
        set(r#"{"temperature": 0, "use_local_transformer": false}"#),
        set(r#"{"max_decoder_steps": 1}"#),
        set(r#"{"attention_prior_epsilon": 0}"#),
        set(r#"{"attention_prior_lookahead_window": 1001}"#),
        // 5 rows of the voice and 60 steps, in 64 positions.
        set(r#"{"max_decoder_steps": 120}"#),
    ];
    for sampling in bad {
        let error = of(sampling.clone()).expect_err("out of range");
        assert!(error.is_usage(), "{sampling:?}: {error}");
    }
    assert!(of(set(r#"{"max_decoder_steps": 118}"#)).is_ok());
    let long = plan(&model, &request(&"hello ".repeat(30))).expect_err("too long");
    assert!(long.to_string().contains("positions, and 80 is the most"), "{long}");
    let ids = |ids: Vec<u32>| plan(&model, &Request { ids: Some(ids), ..Request::default() });
    assert_eq!(ids(vec![5, 3036]).expect("ids").chunks, [[5, 3036, 3038]]);
    assert!(ids(vec![3037]).is_err() && ids(vec![]).is_err());
}

#[test]
fn phonemes_stand_in_place_of_a_text_and_not_beside_it() {
    let model = Tiny::new(1);
    let text = plan(&model, &request("Hello.")).expect("a text");
    let of = |phonemes: &str, text: &str| {
        plan(&model, &Request { phonemes: Some(phonemes.into()), ..request(text) })
    };
    let planned = of("həˈɫoʊ.", "").expect("phonemes");
    assert_eq!((planned.chunks, planned.texts), (text.chunks, vec!["həˈɫoʊ.".to_owned()]));
    let error = of("həˈɫoʊ.", "Hello.").expect_err("both");
    assert!(matches!(error, Error::Conflict(_)), "{error}");
    assert!(of("∂", "").is_err());
    let both = Request { phonemes: Some("a".into()), ids: Some(vec![1]), ..Request::default() };
    assert!(plan(&model, &both).is_err());
}

/// 107 frames are five seconds. The result does not depend on the sizes of chunks, although a chunk ends
/// behind the fault, and in another sentence.
#[test]
fn silence_ends_the_speech_by_name_at_the_same_frame_with_any_chunks() {
    let text = format!("{} The old dog waits.", "We walk along the cold river. ".repeat(9));
    for frames in [1, 2] {
        let model = Tiny::silent(frames);
        let of = |first, others| spoken(&model, &request(&text), Chunks { first, others });
        let whole = of(1000, 1000);
        let fault = Fault::Silence { frames: 107 };
        assert_eq!(whole.frames.len(), 107);
        assert_eq!(whole.audio.samples(), 107 * 32);
        assert_eq!(whole.segments.last().map(|last| last.ended), Some(EndReason::Fault(fault)));
        assert_eq!(whole.segments.len() + whole.unspoken, 10);
        assert_eq!(whole.segments.iter().map(|segment| segment.frames).sum::<usize>(), 107);
        let said = whole.notices().iter().map(|notice| notice.0.clone()).collect::<String>();
        assert!(said.contains("the last 107 frames are silent"), "{said}");
        for (first, others) in [(1, 8), (30, 77)] {
            let streamed = of(first, others);
            assert_eq!(streamed.frames, whole.frames);
            assert_eq!(
                (streamed.segments, streamed.unspoken),
                (whole.segments.clone(), whole.unspoken)
            );
        }
    }
}

/// 86 frames are four seconds.
#[test]
fn one_code_ends_the_speech_by_name_at_the_same_frame_with_any_chunks() {
    let text = "We walk along the cold river. ".repeat(10);
    for frames in [1, 2] {
        let model = Tiny::monotonous(frames);
        let sampling = set(r#"{"temperature": 0}"#);
        let request = Request { sampling, ..request(&text) };
        for (first, others) in [(1000, 1000), (1, 8), (30, 77)] {
            let spoken = spoken(&model, &request, Chunks { first, others });
            assert_eq!(spoken.frames.len(), 86);
            let code = spoken.frames[0][0];
            assert!(spoken.frames.iter().all(|frame| frame[0] == code));
            let fault = Fault::Loop { code, frames: 86 };
            assert_eq!(
                spoken.segments.last().map(|last| last.ended),
                Some(EndReason::Fault(fault))
            );
            let said = spoken.notices().iter().map(|notice| notice.0.clone()).collect::<String>();
            assert!(said.contains(&format!("repeated code {code} for 86 frames")), "{said}");
        }
    }
}

/// A rule of all codebooks does not see an end in one of them, and the codec has no such code: 12 is the
/// first that is none. The draws are a stream of their own in every sentence, so one of 50 frames has one.
#[test]
fn an_end_in_one_codebook_reaches_no_codec_with_any_chunks() {
    let text = "We walk along the cold river. ".repeat(10);
    for frames in [1, 2] {
        let model = Tiny::new(frames);
        let of = |first, others| {
            let sampling = set(r#"{"max_decoder_steps": 50}"#);
            let mut plan = plan(&model, &Request { sampling, ..request(&text) }).expect("a plan");
            plan.settings.end = EndRule { of: EndCodebooks::All, with_drawn: true };
            plan.settings.least_frames = 0;
            let networks = Networks::<Flex>::new(&model, place());
            let options = Options { chunks: Chunks { first, others }, ..Options::default() };
            speak(plan, &networks, options, &Unobserved, &mut |_| Ok(())).expect("speech")
        };
        let whole = of(1000, 1000);
        let last = whole.segments.last().map(|last| last.ended);
        assert_eq!(last, Some(EndReason::Fault(Fault::HalfEnd)), "{:?}", whole.segments);
        assert!(whole.frames.iter().flatten().all(|&code| code < 12), "{:?}", whole.frames);
        assert_eq!(whole.audio.samples(), whole.frames.len() * 32);
        assert_eq!(whole.segments.len() + whole.unspoken, 10);
        assert_eq!(whole.frames(), whole.frames.len());
        let said = whole.notices().iter().map(|notice| notice.0.clone()).collect::<String>();
        assert!(said.contains("wrote its end in some codebooks only: the speech ends"), "{said}");
        for (first, others) in [(1, 8), (3, 1)] {
            let streamed = of(first, others);
            assert_eq!(
                (streamed.frames, streamed.segments),
                (whole.frames.clone(), whole.segments.clone())
            );
        }
    }
}

/// The text embedding belongs to another dictionary: 15 marks, the apostrophe, a letter, a phoneme and
/// three more are 21.
#[test]
fn a_dictionary_that_is_not_that_of_the_weights_is_refused_by_its_tokenizer() {
    let model = Tiny::new(1).with_dictionary("ipa_cmudict-0.7b_nv23.01.txt", "A ə\n");
    let error = plan(&model, &request("A.")).expect_err("another dictionary");
    let Some(MagpieError::Vocabulary { rows, ours, sizes }) = error.family() else {
        panic!("{error}")
    };
    assert_eq!((*rows, *ours), (3039, 3039 - 79 + 21));
    assert!(sizes.starts_with("english_phoneme 21, "), "{sizes}");
    assert!(!error.is_usage() && error.to_string().contains("3039 rows"), "{error}");
}

/// A line without a pronunciation. The ids of other languages come behind those of this one.
#[test]
fn a_damaged_dictionary_refuses_its_own_language_alone() {
    let whole = Tiny::new(1);
    let model = Tiny::new(1).with_dictionary("es_ES_nv230301.dict", "hola\n");
    let of = |model: &Tiny, language: &str, text: &str| {
        plan(model, &Request { language: Some(language.into()), ..request(text) })
    };
    for (language, text) in [("EN", "Hello."), ("de", "Haus"), ("pt-br", "olá"), ("ko", "a")] {
        let own = of(&model, language, text).expect(language);
        assert_eq!(own.chunks, of(&whole, language, text).expect(language).chunks, "{language}");
    }
    assert_eq!(of(&model, "pt-br", "olá").expect("a plan").language, "pt-BR");
    let error = of(&model, "es", "hola").expect_err("a damaged dictionary");
    let says = "texts in `es` cannot be read: the model's setting \
                `text_tokenizers.spanish_phoneme.phoneme_dict` cannot be used: line 1";
    assert!(error.to_string().starts_with(says), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("another `language`")), "{error}");
    let ids = plan(&model, &Request { ids: Some(vec![5]), ..Request::default() });
    assert_eq!(ids.expect("ids").chunks, [[5, 3038]]);
}

#[test]
fn a_run_can_be_cancelled_between_steps() {
    let model = Tiny::new(1);
    let networks = Networks::<Flex>::new(&model, place());
    let plan = plan(&model, &request("Hello world.")).expect("a good request");
    let checks = Cell::new(0);
    let observe = CancelIf(|| checks.replace(checks.get() + 1) >= 4);
    let speaking =
        Speaking::begin(plan, &networks, Options::default(), &observe).expect("networks");
    let last = speaking.last().expect("an end");
    assert!(matches!(last, Err(Error::Cancelled)), "{last:?}");
}
