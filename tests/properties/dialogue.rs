//! A dialogue on networks that stay in memory equals an engine's, with recordings and without.

use std::{fs, path::Path};

use acestep_engine::{Audio, Encoding, Format, Unobserved, files::Existing, save_audio};
use acestep_import::Layout;
use acestep_session::speech::{self, Fields, SpeechInput};
use acestep_speech::{Options, Voices};
use acestep_tests::{Cpu, place, root};
use serde_json::{Value, json};

use crate::session::{ENGINE, spoken};

/// Writes a tone of half a second.
fn write_tone(path: &Path) {
    let sample = |i: usize| 0.3 * (i as f32 / 16_000.0 * 1_500.0).sin();
    let tone = Audio { channels: vec![(0..8_000).map(sample).collect()], sample_rate: 16_000 };
    save_audio(path, &tone, &Encoding::new(Format::Wav16), None, Existing::Keep).expect("a file");
}

#[test]
fn a_dialogue_on_kept_networks_is_that_of_an_engine() {
    let name = root().join("tests/goldens/checkpoints_dia2/Dia2-tiny-alt").display().to_string();
    let layout = Layout::new(None);
    let folder = tempfile::tempdir().expect("a folder");
    let [sound, words, none] = ["a.wav", "b.json", "none.json"].map(|own| folder.path().join(own));
    write_tone(&sound);
    // Words of whisper.cpp.
    let heard = r#"{"transcription": [{"text": " hello", "offsets": {"from": 80, "to": 360}}]}"#;
    fs::write(&words, heard).expect("a file");
    fs::write(&none, "[]").expect("a file");
    let voices = Voices::new(folder.path().to_owned());
    let of = |fields: Value| fields.as_object().expect("an object").clone();
    let input = |fields: Value| {
        let (texts, mut fields) = (vec!["[S1] hello there, [S2] my friend".to_owned()], of(fields));
        fields.insert("max_steps".to_owned(), 30.into());
        SpeechInput { texts, fields, seed: 3, voices: Some(&voices), lines: false }
    };
    let recorded = json!({ "speaker_1": sound, "words_1": words });

    let model = speech::open(Some(&name), &mut Fields::new(), None, &layout);
    let model = model.expect("the goldens are in the repository");
    let voice = model.prepare_voice(of(recorded.clone()), ENGINE, &Unobserved, &mut vec![]);
    let voice = voice.and_then(|voice| voice.keep(ENGINE, &Unobserved)).expect("a voice");
    voice.write(&voices.path("me").expect("a name"), Existing::Keep).expect("a file");
    let kept = speech::open_on::<Cpu>(&name, &layout, place()).expect("its networks");
    let mut all = Vec::new();
    for (fields, resampled) in [(json!({}), 0), (recorded, 1), (json!({ "voice": "me" }), 0)] {
        let mut notices = vec![];
        let once = model.clone().prepare(input(fields.clone()), ENGINE, &Unobserved, &mut notices);
        let once = spoken(&*once.expect("a good request"), Options::default());
        assert_eq!(once.sounds[0].channels, [&once.samples[..]]);
        assert_eq!(notices.len(), resampled);
        for notice in notices {
            let end = "has 16000 Hz: it is resampled to 24000 Hz";
            assert!(notice.0.ends_with(end), "{notice}");
        }
        let again = kept.clone().prepare(input(fields), &Unobserved, &mut vec![]);
        assert_eq!(spoken(&*again.expect("a good request"), Options::default()), once);
        all.push(once.samples);
    }
    assert!(all[0] != all[1] && all[1] != all[2], "each voice is another one");

    let silent = input(json!({ "speaker_1": sound, "words_1": none }));
    let error = model.prepare(silent, ENGINE, &Unobserved, &mut vec![]).err().expect("no words");
    assert!(error.is_usage() && error.to_string().contains("it has no words"), "{error}");
}
