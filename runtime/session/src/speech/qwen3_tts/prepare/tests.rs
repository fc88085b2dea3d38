//! The model inside the program, which has ten languages and two dialects.

use acestep_engine::{Audio, Encoding, Existing, Format, Unobserved, save_audio};

use super::*;

fn model() -> Qwen3Tts {
    Qwen3Tts::find(Some(TINY_SPEECH), &Layout::new([])).expect("it is part of the program")
}

#[test]
fn every_listed_language_is_taken_and_no_dialect_is_listed() {
    let model = model();
    let taken = |language: &str| {
        let mut fields = Fields::new();
        fields.insert("language".to_owned(), language.into());
        SpeechModel::check(&model, "fine", &fields, None)
    };
    let listed = SpeechModel::languages(&model);
    assert_eq!((listed.len(), &*listed[0]), (11, "auto"));
    for language in listed.iter().map(String::as_str).chain(["de", "zh-CN"]) {
        taken(language).expect(language);
    }
    assert!(model.config().talker_config.codec_language_id.contains_key("beijing_dialect"));
    assert!(!listed.iter().any(|language| language.ends_with("_dialect")), "{listed:?}");
    assert!(taken("beijing_dialect").is_err());
}

#[test]
fn a_blank_text_is_refused() {
    for text in ["", " \n\u{3000}"] {
        let error = SpeechModel::check(&model(), text, &Fields::new(), None).expect_err("no words");
        assert!(error.is_usage(), "{error}");
        assert_eq!(error.to_string(), "there is nothing to say in the text");
        assert_eq!(crate::speech::reason(&error), Some(("bad_value", Some("text".to_owned()))));
    }
}

#[test]
fn a_recording_stands_in_place_of_a_named_voice_and_that_is_said() {
    let mut notices = Vec::new();
    let named = Request { voice: Some("anna".to_owned()), ..Request::default() };
    let mut first = named.clone();
    unused_voice(&mut first, false, &mut notices);
    assert_eq!((first.voice.as_deref(), notices.len()), (Some("anna"), 0));
    unused_voice(&mut first, true, &mut notices);
    assert_eq!((first.voice, notices.len()), (None, 1));
    assert!(notices[0].0.contains("`anna`"), "{}", notices[0]);
}

fn recording(seconds: usize) -> Audio {
    let samples = (0..24_000 * seconds).map(|i| 0.3 * (i as f32 / 20.0).sin()).collect();
    Audio { sample_rate: 24_000, channels: vec![samples] }
}

/// A frame of 80 ms is a row of the prompt: memory is checked before the recording is encoded.
#[test]
fn the_length_of_a_recording_counts_and_is_limited() {
    let base = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/goldens/checkpoints_qwen3_tts/Qwen3-TTS-12Hz-0.6B-Base"
    );
    let model = Qwen3Tts::find(Some(base), &Layout::new([])).expect("the goldens are here");
    let request = Request { text: "Yes.".to_owned(), ..Request::default() };
    let of = |seconds| {
        let voice = VoiceSource::Recording(recording(seconds), Some("one two".to_owned()));
        positions(&request, &voice, &model).expect("a good request")
    };
    assert_eq!(of(60) - of(20), 500);

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("long.wav");
    let encoding = Encoding::new(Format::Wav16);
    save_audio(&path, &recording(121), &encoding, None, Existing::Keep).expect("written");
    let read = VoiceSource::recording(&path, None, &Unobserved, &mut Vec::new());
    let error = read.expect_err("it is too long").to_string();
    assert_eq!(error, "the recording is longer than 120 s");
}
