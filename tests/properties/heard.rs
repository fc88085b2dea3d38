//! An independent listener checks songs of the built-in model against their requests.
//!
//! These are a few questions of the [exam](acestep_demo::exam). The results of the whole exam are
//! in the book, "Training".

use std::sync::LazyLock;

use acestep_demo::{
    composer::Piece,
    exam::{Answer, Measured, Student, heard, question, styles},
    listener::Styles,
};
use acestep_music::lm::metadata::Scalar;

/// The styles that all tests listen with, learned from 96 pieces.
static STYLES: LazyLock<Styles> = LazyLock::new(|| styles(96, None));

fn hear(answers: impl Iterator<Item = Answer>) -> Vec<(Answer, Measured)> {
    answers
        .map(|answer| {
            let heard = heard(&answer.sound, &STYLES);
            assert!(heard.is_whole(), "{heard:?}");
            (answer, heard)
        })
        .collect()
}

/// In the exam, 92 of 100 covers have the tempo of their source, which the request does not give.
///
/// These are five of the 92, to detect a regression of a later model.
#[test]
fn covers_keep_the_tempo_of_their_source() {
    let student = Student::built_in();
    // The styles are house, synth pop, chiptune, techno and bossa nova.
    let covers = [2, 3, 5, 8, 10].map(|index| (index, question(index, 10.0)));
    let answers = hear(covers.iter().map(|(index, source)| student.cover(source, *index)));
    for (Answer { asked, .. }, heard) in answers {
        let Piece { bpm, style, .. } = asked;
        assert!(is_in_time(bpm.into(), &heard), "{bpm} bpm, {style}: {heard:?}");
    }
}

/// In the exam, 189 of 200 songs have the right key, 187 the tempo and 171 the style.
#[test]
fn what_is_planned_is_what_was_asked_for() {
    let student = Student::built_in();
    let answers = hear((0..6).map(|index| {
        let asked = question(index, 10.0);
        Answer { sound: student.planned(&asked, index), asked }
    }));
    let told: Vec<String> = answers
        .iter()
        .map(|(Answer { asked, .. }, heard)| {
            let [wanted, was] = [asked.keyscale, heard.keyscale];
            format!("{wanted} {} {}: {was} {} {}", asked.bpm, asked.style, heard.bpm, heard.style)
        })
        .collect();
    let count = |is_right: fn(&Piece, &Measured) -> bool| {
        answers.iter().filter(|(answer, heard)| is_right(&answer.asked, heard)).count()
    };
    assert!(count(|asked, heard| asked.keyscale == heard.keyscale) >= 5, "{told:?}");
    assert!(count(|asked, heard| is_in_time(asked.bpm.into(), heard)) >= 4, "{told:?}");
    assert!(count(|asked, heard| asked.style.to_string() == heard.style) >= 4, "{told:?}");
}

fn is_in_time(bpm: f64, heard: &Measured) -> bool {
    (heard.bpm / bpm - 1.0).abs() < 0.02
}

/// Runs the README's first command, which gives only a caption.
#[test]
fn a_caption_alone_becomes_what_it_says() {
    let student = Student::built_in();
    let (sound, decided) = student.of_caption("dark techno, driving, fast", 4);
    let heard = heard(&sound, &STYLES);
    assert!(heard.is_whole(), "{heard:?}");
    assert_eq!(heard.style, "techno", "{decided:?}");
    let bpm = decided.words.bpm.expect("a tempo");
    assert!(bpm >= 130, "fast: {decided:?}");
    assert!(is_in_time(bpm as f64, &heard), "{heard:?}, {decided:?}");
    assert_eq!(Some(heard.keyscale.to_string()), decided.words.keyscale);
}

/// A repaint changes only its region, and the model recognises key and tempo of a song.
#[test]
fn a_repaint_leaves_the_rest_and_key_and_tempo_are_understood() {
    let student = Student::built_in();
    let (Answer { asked, sound }, apart) = student.repaint(0, 0);
    assert_eq!(apart, 0.0, "outside it");
    let before = asked.render();
    let energy = |sound: &[f32]| sound.iter().map(|x| x * x).sum::<f32>();
    let middle = &before[0][5 * 48_000..15 * 48_000];
    let change: Vec<f32> = sound[0].iter().zip(middle).map(|(a, b)| a - b).collect();
    assert!(energy(&change) > 0.1 * energy(middle), "the same music");
    let mut in_time = 0;
    for index in 0..3 {
        let piece = question(index, 10.0);
        let said = student.understood(&piece, index);
        assert_eq!(said.keyscale, Some(piece.keyscale.to_string()), "{said:?}");
        let bpm = said.bpm.as_ref().and_then(Scalar::number).expect("a tempo");
        in_time += usize::from((bpm / f64::from(piece.bpm) - 1.0).abs() < 0.02);
    }
    assert!(in_time >= 2, "{in_time} of 3");
}
