//! Examines the demo model, one part at a time:
//!
//! `cargo run --release -p acestep-demo --example exam -- [PART] [COUNT] [FOLDER] [REQUEST] [ADAPTER]`
//!
//! The folder is the output folder of training, or `built-in` for the model inside the program.
//! A request as JSON, such as `{"guidance_scale": 3}`, applies to all songs; so does an adapter.
//! `ACESTEP_CPU` lowers the level of the CPU's vector instructions, as for the program. `ACESTEP_DTYPE` is the type of
//! the weights: `f32`, `bf16` or `q8`.
//!
//! | part | sound that the listener measures |
//! |---|---|
//! | `composed` | unchanged pieces with other bands, which shows the listener's own accuracy |
//! | `vae` | pieces after the autoencoder |
//! | `songs` | songs from caption and metadata, without the language model |
//! | `planned` | the same songs, with audio codes of the language model |
//! | `covers` | covers with the caption of another piece, without tempo and key of the source |
//! | `repaints` | the repainted middle ten seconds of twenty; also prints the change of the rest |
//! | `taught` | songs in polka, a style that only the adapter has learned |
//! | `understood` | none: checks the language model's descriptions of pieces |

#![expect(clippy::print_stdout, reason = "its marks are what it is run for")]

use std::{path::Path, time::Instant};

use acestep_demo::{
    composer::{Piece, Style},
    exam::{self, Answer, LESSONS, Marks, Student, Times, composed, heard, question, question_in},
};
use acestep_import::Adapter;
use acestep_model::kernel::lower_cpu_level;
use acestep_music::Request;
use burn::tensor::DType;

/// Answers the question with the given index.
type Player = Box<dyn FnMut(u64) -> Answer>;

#[expect(clippy::disallowed_methods, reason = "an example has no settings")]
fn main() {
    if let Ok(level) = std::env::var("ACESTEP_CPU") {
        lower_cpu_level(level.parse().expect("a level of this CPU"));
    }
    let dtype = match std::env::var("ACESTEP_DTYPE").as_deref() {
        Err(_) | Ok("f32") => DType::F32,
        Ok("bf16") => DType::BF16,
        Ok("q8") => DType::I8,
        Ok(other) => panic!("there is no type `{other}`"),
    };
    let mut arguments = std::env::args().skip(1);
    let part = arguments.next().unwrap_or_else(|| "songs".to_owned());
    let count: u64 = arguments.next().map_or(100, |count| count.parse().expect("a number"));
    let folder = arguments.next().unwrap_or_else(|| "target/demo/model".to_owned());
    let how = arguments.next().unwrap_or_else(|| "{}".to_owned());
    let (how, _) = Request::from_json(&how).expect("a request");
    let adapter = arguments.next();
    let student = || {
        let mut student = match folder.as_str() {
            "built-in" => Student { how: how.clone(), ..Student::built_in() },
            folder => Student::of(Path::new(folder), how.clone()),
        };
        student.dtype = dtype;
        if let Some(adapter) = &adapter {
            let adapter = Adapter::open(Path::new(adapter)).expect("an adapter");
            student.model.adapt(vec![(adapter, 1.0)]).expect("one that fits");
        }
        student
    };
    let of_ten_seconds = |index| question(index, 10.0);
    let player: Player = match part.as_str() {
        "composed" => Box::new(|index| {
            let asked = composed(index, 10.0);
            Answer { sound: asked.render(), asked }
        }),
        "vae" => {
            let vae = exam::vae(Path::new(&folder));
            Box::new(move |index| {
                let asked = of_ten_seconds(index);
                Answer { sound: exam::after_vae(&vae, &asked), asked }
            })
        }
        "songs" | "planned" => {
            let student = student();
            let make = if part == "songs" { Student::song } else { Student::planned };
            Box::new(move |index| {
                let asked = of_ten_seconds(index);
                Answer { sound: make(&student, &asked, index), asked }
            })
        }
        "taught" => {
            let student = student();
            Box::new(move |index| {
                let asked = question_in(Style::Polka, index);
                Answer { sound: student.song(&asked, index), asked }
            })
        }
        "covers" => {
            let student = student();
            Box::new(move |index| student.cover(&of_ten_seconds(index), index))
        }
        "repaints" => {
            let student = student();
            Box::new(move |index| {
                let (answer, apart) = student.repaint(index, index);
                println!("    the rest is {apart:.4} from the source");
                answer
            })
        }
        "understood" => return say(&student(), count),
        other => panic!("there is no part `{other}`"),
    };
    play(player, count, (part == "taught").then_some(Style::Polka));
}

/// Measures `count` answers, with the styles of the corpus and optionally one more.
fn play(mut player: Player, count: u64, more: Option<Style>) {
    let styles = exam::styles(LESSONS, more);
    let mut marks = Marks::default();
    let mut times = Times::default();
    for index in 0..count {
        let start = Instant::now();
        let Answer { asked, sound } = player(index);
        times.add(asked.duration, start.elapsed());
        let told = heard(&sound, &styles);
        marks.add(&asked, &told);
        println!(
            "{} heard {:6.1} bpm {:8} {:14} {}",
            of(index, &asked),
            told.bpm,
            told.keyscale.to_string(),
            told.style,
            if told.is_whole() { "" } else { "broken" },
        );
    }
    println!("{marks:?}\n{times:?}");
}

/// Checks `count` descriptions by the language model.
fn say(student: &Student, count: u64) {
    let mut marks = Marks::default();
    for index in 0..count {
        let piece = question(index, 10.0);
        let said = student.understood(&piece, index);
        marks.add_said(&piece, &said);
        println!("{} said {said:?}", of(index, &piece));
    }
    println!("{marks:?}");
}

fn of(index: u64, piece: &Piece) -> String {
    let (keyscale, style) = (piece.keyscale.to_string(), piece.style.to_string());
    format!("{index:3} {:3} bpm {keyscale:8} {style:14}", piece.bpm)
}
