//! A dialogue on networks that stay in memory equals an engine's, with recordings and without.

use std::fs;

use acestep_engine::{
    Audio, Device, Encoding, Engine, Format, Unobserved, files::Existing, save_audio,
};
use acestep_import::{Dia2, Dia2Choice};
use acestep_session::speech::dia2::{self as dialogue, DialogueTask, DialogueVoices, Speaker};
use acestep_speech::{
    Options,
    dia2::{Dialogue, KeptSnapshot, Networks, Request, Resampling},
};
use acestep_tests::{Cpu, place, root};
use burn::tensor::DType;

const ENGINE: Engine = Engine { device: Device::Cpu, dtype: DType::F32 };

fn model() -> Dia2 {
    let path = root().join("tests/goldens/checkpoints_dia2/Dia2-tiny-alt");
    Dia2::open(&path, &Dia2Choice::default()).expect("the goldens are in the repository")
}

fn task<'a>(request: &'a Request, voices: DialogueVoices<'a>) -> DialogueTask<'a> {
    DialogueTask { request, voices, resampling: Resampling::Filtered, options: Options::default() }
}

fn same(a: &Dialogue, b: &Dialogue) {
    assert_eq!((&a.spoken.frames, &a.spoken.words), (&b.spoken.frames, &b.spoken.words));
    assert_eq!(a.spoken.audio, b.spoken.audio);
}

/// A speaker from files: a tone of half a second, and the words of whisper.cpp.
fn speaker() -> Speaker {
    let folder = tempfile::tempdir().expect("a folder");
    let [sound, words] = ["a.wav", "a.json"].map(|name| folder.path().join(name));
    let sample = |i: usize| 0.3 * (i as f32 / 16_000.0 * 1_500.0).sin();
    let tone = Audio { channels: vec![(0..8_000).map(sample).collect()], sample_rate: 16_000 };
    let encoding = Encoding::new(Format::Wav16);
    save_audio(&sound, &tone, &encoding, None, Existing::Keep).expect("a file");
    let json = r#"{"transcription": [{"text": " hello", "offsets": {"from": 80, "to": 360}}]}"#;
    fs::write(&words, json).expect("a file");
    let mut notices = Vec::new();
    let speaker =
        Speaker::read(&sound, &words, "words_1", &Unobserved, &mut notices).expect("a speaker");
    assert_eq!((speaker.words.len(), notices.len()), (1, 1));
    assert!(notices[0].0.ends_with("has 16000 Hz: it is resampled to 24000 Hz"), "{}", notices[0]);
    fs::write(&words, "[]").expect("a file");
    let error =
        Speaker::read(&sound, &words, "words_1", &Unobserved, &mut notices).expect_err("no words");
    assert!(error.is_usage() && error.to_string().contains("it has no words"), "{error}");
    speaker
}

#[test]
fn a_dialogue_on_kept_networks_is_that_of_an_engine() {
    let model = model();
    let speakers = [speaker()];
    let request = Request {
        script: "[S1] hello there, [S2] my friend".to_owned(),
        max_steps: Some(30),
        seed: Some(3),
        ..Request::default()
    };
    let networks = Networks::<Cpu>::new(&model, place());
    let kept: KeptSnapshot =
        dialogue::keep_with(&speakers, Resampling::Filtered, &networks, &Unobserved)
            .expect("a state");
    let mut all = Vec::new();
    for voices in [
        DialogueVoices::Recorded(&[]),
        DialogueVoices::Recorded(&speakers),
        DialogueVoices::Kept(&kept),
    ] {
        let task = task(&request, voices);
        dialogue::check(task, &model, ENGINE).expect("it is small");
        let mut streamed = Vec::new();
        let mut sink = |samples: &[f32]| {
            streamed.extend_from_slice(samples);
            Ok(())
        };
        let (_, once) =
            dialogue::speak(task, None, &model, ENGINE, &Unobserved, &mut sink).expect("speech");
        let mut quiet = |_: &[f32]| Ok(());
        let (_, again) =
            dialogue::speak_with(task, None, &model, &networks, &Unobserved, &mut quiet)
                .expect("speech");
        same(&again, &once);
        assert_eq!(once.spoken.audio.channels, [streamed]);
        all.push(once.spoken.frames);
    }
    assert!(all[0] != all[1] && all[1] != all[2], "each voice is another one");
}
