//! The model inside the program, which has ten languages and two dialects.

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
    for language in &listed {
        taken(language).expect(language);
    }
    assert!(model.config().talker_config.codec_language_id.contains_key("beijing_dialect"));
    assert!(!listed.iter().any(|language| language.ends_with("_dialect")), "{listed:?}");
    assert!(taken("beijing_dialect").is_err());
}
