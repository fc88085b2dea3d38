//! Voices that stay in memory, with the random model of the goldens.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
};

use acestep_engine::{
    Audio, Device, Encoding, Existing, Format, Unobserved, on_engine, save_audio,
};
use acestep_import::{Dia2Choice, Layout};
use acestep_speech::{Chunks, Spoken};
use burn::tensor::DType;
use serde_json::{Value, json};

use super::*;

const ENGINE: Engine = Engine { device: Device::Cpu, dtype: DType::F32 };
const MODEL: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/checkpoints_dia2/Dia2-tiny-alt");
/// A rest of two frames, and no word.
const BREAK: &str = "<break time=\"0.16s\"/> ";

fn model() -> Arc<Dia2> {
    let model = Dia2::open(Path::new(MODEL), &Dia2Choice::default());
    Arc::new(model.expect("the goldens are in the repository"))
}

fn resident<B: Backend>(place: Place<B>) -> Rc<Resident<B>> {
    Rc::new(Resident::new(model(), place, true).expect("its networks"))
}

/// Writes a recording of so many frames of 80 ms.
fn write(path: &Path, frames: usize) {
    let sample = |i: usize| 0.4 * (i as f32 / 24_000.0 * 900.0).sin();
    let samples = (0..frames * 1920).map(sample).collect();
    let audio = Audio { channels: vec![samples], sample_rate: 24_000 };
    save_audio(path, &audio, &Encoding::new(Format::Wav16), None, Existing::Replace)
        .expect("a file");
}

/// A folder with a recording of so many frames, and its path.
fn recording(frames: usize) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.wav");
    write(&path, frames);
    (folder, path)
}

/// A request with the recording at `path`.
fn with(path: &Path, more: &Value) -> SpeechInput<'static> {
    let mut fields = json!({
        "speaker_1": path, "words_1": [{ "text": "hello", "start": 0.05, "end": 0.2 }],
    });
    for (field, value) in more.as_object().expect("an object") {
        fields[field] = value.clone();
    }
    input("[S1] no", &fields)
}

fn input(text: &str, fields: &Value) -> SpeechInput<'static> {
    let fields = fields.as_object().expect("an object").clone();
    SpeechInput { texts: vec![text.to_owned()], fields, seed: 4, voices: None, lines: false }
}

fn turn<B: Backend>(on: &Rc<Resident<B>>, input: SpeechInput<'_>) -> Turn<B> {
    on.turn(input, &Unobserved, &mut Vec::new()).expect("a good request")
}

/// Five frames are 0.4 s, and one more is encoded. The model has 64 steps.
#[test]
fn recordings_without_a_snapshot_are_cut_before_they_are_encoded() {
    let folder = tempfile::tempdir().expect("a folder");
    let [short, long] = ["short.wav", "long.wav"].map(|name| folder.path().join(name));
    write(&short, 10);
    write(&long, 100);
    let (short, long) = (&*short, &*long);
    let frames = on_engine!(ENGINE,
    for<'a>(short: &'a Path, long: &'a Path) -> Vec<usize>,
    |place: B| {
        let on = resident::<B>(place);
        let refused = on.turn(with(long, &json!({})), &Unobserved, &mut Vec::new()).err();
        let refused = refused.expect("it is longer than the model").to_string();
        assert!(refused.contains("100"), "{refused}");
        let of = |(path, more): (&Path, Value)| {
            let turn = turn(&on, with(path, &more));
            let heard = turn.heard(&Unobserved).expect("a voice");
            let Some(VoiceState::Recordings(recordings)) = heard else { panic!("recordings") };
            recordings[0].frames.len()
        };
        let cut = |seconds: f64| json!({ "max_prefix_duration": seconds });
        let all = [
            (short, cut(0.4)),
            (short, json!({})),
            (short, cut(0.4)),
            (short, cut(3600.0)),
            (long, cut(3600.0)),
        ];
        all.into_iter().map(of).collect()
    });
    assert_eq!(frames.expect("a device"), [6, 10, 6, 10, 65]);
}

#[test]
fn an_error_about_words_names_those_of_its_speaker() {
    let (_folder, path) = recording(5);
    for words in [json!([]), json!("no.json"), Value::Null] {
        let input = with(&path, &json!({ "speaker_2": path, "words_2": words }));
        let ready = model().prepare(input, ENGINE, &Unobserved, &mut Vec::new());
        let error = ready.err().expect("no words");
        let reason = crate::speech::reason(&error);
        assert_eq!(reason, Some(("bad_value", Some("words_2".to_owned()))), "{error}");
        assert!(error.to_string().starts_with("the words in `words_2` cannot"), "{error}");
    }
}

#[test]
fn row_14_each_text_of_a_voice_in_memory_has_the_notices_of_its_making() {
    let (_folder, path) = recording(10);
    let path = &*path;
    let all = on_engine!(ENGINE,
    for<'a>(path: &'a Path) -> Vec<(bool, Vec<String>)>,
    |place: B| {
        let on = resident::<B>(place);
        let of = |()| {
            let more = json!({ "snapshot": true, "max_prefix_duration": 0.4 });
            let turn = turn(&on, with(path, &more));
            let (was_known, notices) = (turn.has_voice(), RefCell::new(Vec::new()));
            let observe = |event: Event| {
                if let Event::Noticed(notice) = event {
                    notices.borrow_mut().push(notice.0);
                }
            };
            turn.load_voice(&observe).expect("a voice");
            (was_known, notices.take())
        };
        [(); 3].into_iter().map(of).collect()
    });
    let notice = "5 frames of the recordings are used: the rest is left out, with 0 words";
    let notices = || vec![notice.to_owned()];
    let expected = [(false, notices()), (true, notices()), (true, notices())];
    assert_eq!(all.expect("a device"), expected);
}

#[test]
fn the_state_of_a_file_that_changed_while_it_was_read_is_not_kept() {
    let (_folder, path) = recording(10);
    let path = &*path;
    let known = on_engine!(ENGINE,
    for<'a>(path: &'a Path) -> Vec<bool>,
    |place: B| {
        let on = resident::<B>(place);
        let of = |is_kept: bool| {
            let turn = turn(&on, with(path, &json!({})));
            assert!(turn.is_kept, "nobody writes the file");
            let turn = Turn { is_kept, ..turn };
            let was_known = turn.has_voice();
            assert!(turn.heard(&Unobserved).expect("a voice").is_some());
            was_known
        };
        [false, false, true, true].into_iter().map(of).collect()
    });
    assert_eq!(known.expect("a device"), [false, false, false, true]);
}

struct Pieces(VecDeque<&'static str>);

impl Arriving for Pieces {
    fn more(&mut self, _: &dyn Observe) -> Result<Option<String>, Error> {
        Ok(self.0.pop_front().map(str::to_owned))
    }
}

/// For each piece of sound, true if more were certain to come.
#[derive(Default)]
struct Told(bool, Vec<bool>);

impl Sink for Told {
    fn goes_on(&mut self, _: usize, is_certain: bool) -> Result<(), Error> {
        self.0 = is_certain;
        Ok(())
    }

    fn samples(&mut self, _: usize, _: &[f32]) -> Result<(), Error> {
        self.1.push(self.0);
        Ok(())
    }

    fn done(&mut self, _: usize, _: Spoken) -> Result<(), Error> {
        Ok(())
    }
}

/// Row 31: so a client of stream-dia2 hears the others at once.
#[test]
fn the_last_piece_of_sound_alone_may_be_the_last() {
    let (_folder, path) = recording(10);
    let path = &*path;
    let told = on_engine!(ENGINE,
    for<'a>(path: &'a Path) -> Vec<Vec<bool>>,
    |place: B| {
        let on = resident::<B>(place);
        let of = |(request, others): (SpeechInput<'static>, usize)| {
            let turn = turn(&on, request);
            let chunks = Chunks { first: others, others };
            let (mut told, options) = (Told::default(), Options { chunks, ..Options::default() });
            turn.speak(options, None, &Unobserved, &mut told).expect("speech");
            told.1
        };
        let early = json!({ "snapshot": true, "early": true, "max_steps": 30 });
        let all = [
            (with(path, &json!({})), 1),
            (with(path, &json!({})), 3),
            (with(path, &early), 1),
            (input("[S1] hello there", &json!({ "max_steps": 9 })), 1),
        ];
        all.into_iter().map(of).collect()
    });
    for told in told.expect("a device") {
        let (last, others) = told.split_last().expect("sound");
        assert!(!last && !others.is_empty() && others.iter().all(|told| *told), "{told:?}");
    }
}

#[test]
fn the_codec_that_is_named_is_used() {
    let layout = Layout::new([PathBuf::from("none")]);
    let mut fields = input("", &json!({ "codec": "no/codec" })).fields;
    let found = prepare::find(Some(MODEL), &mut fields, &layout).expect("one of this family");
    let error = found.expect_err("no such codec").to_string();
    assert!(error.contains("codec `no/codec`") && fields.is_empty(), "{error}");
}

/// With one step the run ends before it asks for the second piece.
#[test]
fn a_text_in_pieces_has_no_words_only_if_none_came_before_its_end() {
    let all: &[(&[&'static str], u32)] =
        &[(&["hello ", "there"], 30), (&[" ", "hello"], 30), (&["hello"], 1), (&[], 30)];
    let said = on_engine!(ENGINE,
    for<'a>(all: &'a [(&'a [&'static str], u32)]) -> Vec<bool>,
    |place: B| {
        let on = resident::<B>(place);
        let of = |&(more, steps): &(&[&'static str], u32)| {
            let turn = turn(&on, input(BREAK, &json!({ "max_steps": steps })));
            let mut pieces = Pieces(more.iter().copied().collect());
            let (options, mut told) = (Options::default(), Told::default());
            let spoken = turn.speak(options, Some(&mut pieces), &Unobserved, &mut told);
            let notices = spoken.expect("speech");
            notices.iter().any(|notice| notice.0 == "the script has no words")
        };
        all.iter().map(of).collect()
    });
    assert_eq!(said.expect("a device"), [false, false, false, true]);
}
