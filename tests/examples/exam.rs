//! How good the demo model is, part by part:
//!
//! `cargo run --release -p acestep-tests --example exam -- [PART] [COUNT] [FOLDER] [REQUEST]`
//!
//! A request as JSON, such as `{"guidance_scale": 3}`, holds for all songs.
//!
//! | part | what is heard |
//! |---|---|
//! | `vae` | pieces after the autoencoder |
//! | `songs` | songs that were asked for by caption and metadata, without the language model |
//! | `planned` | the same, as the language model outlines them |
//! | `covers` | covers of pieces, called otherwise: tempo and key are the piece's, the style is not |
//! | `repaints` | pieces of which three seconds were made anew |
//! | `understood` | nothing: what the language model says of pieces |

#![expect(clippy::print_stdout, reason = "its marks are what it is run for")]

use std::{path::PathBuf, time::Instant};

use acestep_runtime::Request;
use acestep_tests::exam::{self, Marks, Student, Times, heard, question};
use acestep_train::composer::{Piece, Stereo};

/// Plays what piece number so-and-so became.
type Player = Box<dyn FnMut(&Piece, u64) -> Stereo>;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let part = arguments.next().unwrap_or_else(|| "songs".to_owned());
    let count: u64 = arguments.next().map_or(100, |count| count.parse().expect("a number"));
    let folder = arguments.next().map_or_else(|| PathBuf::from("target/demo/model"), PathBuf::from);
    let how = arguments.next().unwrap_or_else(|| "{}".to_owned());
    let (how, _) = Request::from_json(&how).expect("a request");
    let player: Player = match part.as_str() {
        "vae" => {
            let vae = exam::vae(&folder);
            Box::new(move |piece, _| exam::after_vae(&vae, piece))
        }
        "songs" | "planned" | "covers" | "repaints" => {
            let student = Student::of(&folder, how);
            let make = match part.as_str() {
                "songs" => Student::song,
                "planned" => Student::planned,
                "covers" => Student::cover,
                _ => Student::repaint,
            };
            Box::new(move |piece, index| make(&student, piece, index))
        }
        "understood" => return say(&Student::of(&folder, how), count),
        other => panic!("there is no part `{other}`"),
    };
    play(player, count);
}

/// Hears `count` answers.
fn play(mut player: Player, count: u64) {
    let styles = exam::styles();
    let mut marks = Marks::default();
    let mut times = Times::default();
    for index in 0..count {
        let piece = question(index, 10.0);
        let start = Instant::now();
        let sound = player(&piece, index);
        times.add(piece.duration, start.elapsed());
        let told = heard(&sound, &styles);
        marks.add(&piece, &told);
        println!(
            "{} heard {:6.1} bpm {:8} {:14} {}",
            asked(index, &piece),
            told.bpm,
            told.keyscale.to_string(),
            told.style,
            if told.is_whole() { "" } else { "broken" },
        );
    }
    println!("{marks:?}\n{times:?}");
}

/// Reads `count` answers.
fn say(student: &Student, count: u64) {
    let mut marks = Marks::default();
    for index in 0..count {
        let piece = question(index, 10.0);
        let said = student.understood(&piece, index);
        marks.add_said(&piece, &said);
        println!("{} said {said:?}", asked(index, &piece));
    }
    println!("{marks:?}");
}

fn asked(index: u64, piece: &Piece) -> String {
    let (keyscale, style) = (piece.keyscale.to_string(), piece.style.to_string());
    format!("{index:3} {:3} bpm {keyscale:8} {style:14}", piece.bpm)
}
