//! `speak` with a dialogue model: a script, its words, recordings of the speakers.

use std::path::Path;

use crate::{Place, Run, speak::base};

/// A script for the tiny model, at most 40 steps.
fn dialogue(place: &Place, args: &[&str]) -> Run {
    let model = "../tests/goldens/checkpoints_dia2/Dia2-tiny-alt";
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join(model).display().to_string();
    let short = ["speak", "--model", &model, "--max-steps", "40", "--seed", "4"];
    place.run(&[&short[..], args].concat())
}

#[test]
fn a_script_is_spoken_and_its_words_have_times() {
    let place = Place::new();
    let script = "[S1] hello there, [S2] my friend";
    let args = [script, "--json", "-o", "a.wav", "--timestamps", "a.srt"];
    let object = dialogue(&place, &args).succeeded().json();
    assert_eq!(object["sample_rate"], 24_000);
    let words: Vec<_> = object["words"].as_array().expect("words").iter().collect();
    assert_eq!(words.first().expect("a word")["text"], "hello");
    let srt = String::from_utf8(place.read("a.srt")).expect("a text");
    assert!(srt.starts_with("1\n00:00:0") && srt.contains("\nhello\n"), "{srt}");
    assert_eq!(srt.matches(" --> ").count(), words.len());
    let again = dialogue(&place, &[script, "--json", "-o", "b.wav"]).succeeded().json();
    assert_eq!(again["codes"], object["codes"]);
    assert_eq!(place.read("a.wav"), place.read("b.wav"));
    let other = [script, "--json", "-o", "c.wav", "--cfg-filter-k", "2"];
    assert_ne!(dialogue(&place, &other).succeeded().json()["codes"], object["codes"]);
}

#[test]
fn recordings_of_speakers_need_their_words() {
    let place = Place::new();
    let sound =
        ["Hello there.", "--model", "tiny-speech", "--max-new-tokens", "20", "-o", "me.wav"];
    place.run(&[&["speak", "--seed", "4"][..], &sound].concat()).succeeded();
    let with = ["[S1] hello", "--speaker-1", "me.wav", "-o", "a.wav"];
    dialogue(&place, &with).failed(2).says("me.json");
    place.write("me.json", r#"[{"text": "hello", "start": 0.1, "end": 0.4}]"#);
    dialogue(&place, &with).succeeded();
    let both = ["[S1] hello", "--speaker-2", "me.wav", "-o", "b.wav"];
    dialogue(&place, &both).failed(2).says("--speaker-1");
}

#[test]
fn flags_of_another_family_are_refused() {
    let place = Place::new();
    dialogue(&place, &["hello", "--top-p", "0.5"]).failed(2).says("takes no `--top-p`");
    dialogue(&place, &["hello", "--cfg-scale", "nan"]).failed(2).says("not a finite number");
    let times = ["speak", "hello", "--model", &base(), "--timestamps", "a.srt"];
    place.run(&times).failed(2).says("does not tell the times of words");
    let scale = ["speak", "hello", "--model", "tiny-speech", "--cfg-scale", "2"];
    place.run(&scale).failed(2).says("`tiny-speech` takes no `--cfg-scale`");
}
