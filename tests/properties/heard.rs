//! What the built-in model plays is held against what was asked for, by a listener that knows nothing of it.
//!
//! A few questions of the [exam](acestep_tests::exam), whose marks over a hundred are in the book,
//! "Training".

use acestep_tests::exam::{Answer, Heard, Student, heard, question, styles};

/// Pieces that the listener learns the styles from.
const LESSONS: u64 = 96;

fn hear(answers: impl Iterator<Item = Answer>) -> Vec<(Answer, Heard)> {
    let styles = styles(LESSONS, None);
    answers
        .map(|answer| {
            let heard = heard(&answer.sound, &styles);
            assert!(heard.is_whole(), "{heard:?}");
            (answer, heard)
        })
        .collect()
}

/// Of a hundred covers 88 have the beat of their source, whose tempo nobody typed. These are five of them: a
/// later model shall not lose what this one had.
#[test]
fn covers_keep_the_tempo_of_their_source() {
    let student = Student::built_in();
    // House, synth pop, chiptune, techno, bossa nova.
    let covers = [2, 3, 5, 8, 10].map(|index| (index, question(index, 10.0)));
    let answers = hear(covers.iter().map(|(index, source)| student.cover(source, *index)));
    for (Answer { asked, .. }, heard) in answers {
        let bpm = f64::from(asked.bpm);
        assert!((heard.bpm / bpm - 1.0).abs() < 0.02, "{bpm} bpm, {}: {heard:?}", asked.style);
    }
}

/// Of two hundred 193 have the key and 180 the tempo.
#[test]
fn what_is_planned_has_the_key_and_the_tempo_that_were_asked_for() {
    let student = Student::built_in();
    let answers = hear((0..6).map(|index| {
        let asked = question(index, 10.0);
        Answer { sound: student.planned(&asked, index), asked }
    }));
    let in_key = |(answer, heard): &&(Answer, Heard)| answer.asked.keyscale == heard.keyscale;
    let in_time = |(answer, heard): &&(Answer, Heard)| {
        (heard.bpm / f64::from(answer.asked.bpm) - 1.0).abs() < 0.02
    };
    let told: Vec<String> = answers
        .iter()
        .map(|(Answer { asked, .. }, heard)| {
            format!("{} {}: {} {}", asked.keyscale, asked.bpm, heard.keyscale, heard.bpm)
        })
        .collect();
    assert!(answers.iter().filter(in_key).count() >= 5, "{told:?}");
    assert!(answers.iter().filter(in_time).count() >= 3, "{told:?}");
}

/// A repaint changes what it was asked to change and nothing else; the model hears the key of a song.
#[test]
fn a_repaint_leaves_the_rest_and_the_key_is_understood() {
    let student = Student::built_in();
    let (Answer { asked, sound }, apart) = student.repaint(0, 0);
    assert!(apart < 1e-3, "{apart}");
    let before = asked.render();
    let energy = |sound: &[f32]| sound.iter().map(|x| x * x).sum::<f32>();
    let middle = &before[0][5 * 48_000..15 * 48_000];
    let change: Vec<f32> = sound[0].iter().zip(middle).map(|(a, b)| a - b).collect();
    assert!(energy(&change) > 0.1 * energy(middle), "the same music");
    for index in 0..3 {
        let piece = question(index, 10.0);
        let said = student.understood(&piece, index);
        assert_eq!(said.keyscale, Some(piece.keyscale.to_string()), "{said:?}");
    }
}
