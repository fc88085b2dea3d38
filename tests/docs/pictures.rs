//! The code that the book's pictures show also draws them, so they are always current.

use std::{fmt::Write as _, fs};

use acestep_engine::tiling::Tiling;
use acestep_model::kernel::{Mask, Visibility, attention};
use acestep_music::flow::schedule::{self, Schedule};
use acestep_tests::{Cpu, DEVICE, root};
use burn::tensor::{Tensor, TensorData};

use super::text;

const BLUE: &str = "#3a6ea5";
const GOLD: &str = "#b98416";
const GREEN: &str = "#4b8b5a";
const INK: &str = "#1b2b3c";
const GREY: &str = "#8894a0";

/// An SVG picture that is written line by line.
struct Svg {
    text: String,
}

impl Svg {
    fn new(width: u32, height: u32, title: &str) -> Self {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" role=\"img\" \
             aria-labelledby=\"t\">\n<title id=\"t\">{title}</title>\n\
             <rect width=\"{width}\" height=\"{height}\" rx=\"10\" fill=\"#fff\"/>\n"
        );
        Self { text }
    }

    fn line(&mut self, points: &[(f64, f64)], colour: &str, width: f64) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            points.join(" ")
        ));
    }

    fn dot(&mut self, (x, y): (f64, f64), colour: &str) {
        self.add(&format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>"));
    }

    fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        self.add(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{colour}\"/>"
        ));
    }

    fn say(&mut self, (x, y): (f64, f64), anchor: &str, colour: &str, words: &str) {
        self.add(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{words}</text>"
        ));
    }

    fn add(&mut self, line: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    /// Compares with the picture in the book. If they differ, writes the new one and panics.
    #[track_caller]
    fn compare(mut self, name: &str) {
        self.text += "</svg>\n";
        let path = root().join("book/src/img").join(name);
        let kept = if path.is_file() { text(&path) } else { String::new() };
        if kept != self.text {
            let new = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            fs::write(&new, &self.text).expect("a picture");
            panic!("{name} has changed: cp {} {}", new.display(), path.display());
        }
    }
}

/// The times of the transformer's evaluations: curves of base, and the eight times of turbo.
#[test]
fn the_picture_of_schedules_is_what_is_sampled() {
    let mut svg = Svg::new(
        720,
        380,
        "Times at which the transformer is asked, by step, for shifts of 1, 2 and 3",
    );
    let at = |step: f64, t: f64| (70.0 + 560.0 * step, 320.0 - 280.0 * t);
    svg.line(&[at(0.0, 1.0), at(0.0, 0.0), at(1.0, 0.0)], INK, 1.5);
    for t in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (x, y) = at(0.0, t);
        svg.say((x - 10.0, y + 4.0), "end", INK, &format!("{t}"));
        svg.line(&[at(0.0, t), at(1.0, t)], "#e3e7ec", 1.0);
    }
    svg.say((30.0, 25.0), "start", INK, "t: 1 is noise, 0 is music");
    svg.say((630.0, 345.0), "end", INK, "steps");
    for (shift, colour) in [(1.0_f32, BLUE), (2.0, GREEN), (3.0, GOLD)] {
        let curve = |Schedule { timesteps, terminal }: Schedule| {
            let count = timesteps.len() as f64;
            let all = timesteps.into_iter().chain([terminal]).enumerate();
            all.map(|(i, t)| at(i as f64 / count, f64::from(t))).collect::<Vec<_>>()
        };
        svg.line(&curve(schedule::base(50, shift)), colour, 2.0);
        let turbo = curve(schedule::turbo(8, shift.into()));
        assert_eq!(turbo.len(), 9);
        turbo.iter().for_each(|&point| svg.dot(point, colour));
        let (x, y) = at(0.5, f64::from(schedule::shifted(0.5, shift)));
        // The label must not cross another curve.
        let words = format!("shift {shift}");
        match shift < 3.0 {
            true => svg.say((x - 8.0, y + 13.0), "end", colour, &words),
            false => svg.say((x + 12.0, y - 8.0), "start", colour, &words),
        }
    }
    svg.say(
        (70.0, 368.0),
        "start",
        GREY,
        "lines: 50 steps of base and sft; dots: the eight of turbo",
    );
    svg.compare("schedules.svg");
}

/// Measures the visible keys of each query with attention itself.
///
/// With zero queries and keys and an identity matrix as values, a row is not zero at visible keys.
#[test]
fn the_picture_of_masks_is_what_attention_sees() {
    const LENGTH: usize = 32;
    let masks = [
        ("every position", Visibility::Full, BLUE),
        ("the nearest, both ways", Visibility::Window(5), GREEN),
        ("what came before", Visibility::Causal { first: 0 }, GOLD),
    ];
    let title = "Which positions each position sees: all, a window, those before it";
    let mut svg = Svg::new(720, 290, title);
    for (index, (words, visibility, colour)) in masks.into_iter().enumerate() {
        let zeros = Tensor::<Cpu, 4>::zeros([1, 1, LENGTH, LENGTH], &DEVICE);
        let mut ones = vec![0.0_f32; LENGTH * LENGTH];
        ones.iter_mut().step_by(LENGTH + 1).for_each(|one| *one = 1.0);
        let values = TensorData::new(ones, [1, 1, LENGTH, LENGTH]);
        let values = Tensor::<Cpu, 4>::from_data(values, &DEVICE);
        let mask = Mask::by_position(visibility);
        let seen = attention(zeros.clone(), zeros, values, &mask).into_data();
        let seen: Vec<f32> = seen.to_vec().expect("f32");
        let (left, cell) = (30.0 + 230.0 * index as f64, 200.0 / LENGTH as f64);
        svg.bar((left, 40.0), (200.0, 200.0), "#f1f3f6");
        for (row, weights) in seen.chunks(LENGTH).enumerate() {
            let first = weights.iter().position(|&weight| weight > 1e-6).expect("a key");
            let last = weights.iter().rposition(|&weight| weight > 1e-6).expect("a key");
            assert!(weights[first..=last].iter().all(|&weight| weight > 1e-6), "a hole");
            let place = (left + cell * first as f64, 40.0 + cell * row as f64);
            svg.bar(place, (cell * (last + 1 - first) as f64, cell - 0.6), colour);
        }
        svg.say((left + 100.0, 30.0), "middle", INK, words);
    }
    svg.say(
        (30.0, 265.0),
        "start",
        GREY,
        "a row is a position that looks, a column one that is looked at",
    );
    svg.compare("masks.svg");
}

/// The tiles in which the VAE decodes a song of one minute.
#[test]
fn the_picture_of_tiles_is_how_songs_are_cut() {
    const FRAMES: usize = 1500;
    let tiling = Tiling::default();
    let reach = 9;
    let windows = tiling.windows(FRAMES, reach).expect("tiles");
    let mut svg = Svg::new(
        720,
        70 + 34 * windows.len() as u32,
        "A minute of latents in four tiles that overlap",
    );
    let at = |frame: usize| 30.0 + 660.0 * frame as f64 / FRAMES as f64;
    let stride = tiling.chunk - 2 * tiling.overlap;
    for (index, window) in windows.iter().enumerate() {
        let core = (index * stride, ((index + 1) * stride).min(FRAMES));
        let start = core.0.saturating_sub(reach);
        assert_eq!(start + window, (core.1 + reach).min(FRAMES));
        let top = 20.0 + 34.0 * index as f64;
        svg.bar((at(start), top), (at(start + window) - at(start), 22.0), "#dbe3ec");
        svg.bar((at(core.0), top), (at(core.1) - at(core.0), 22.0), BLUE);
        let middle = (at(core.0) + at(core.1)) / 2.0;
        svg.say((middle, top + 16.0), "middle", "#fff", &format!("{} to {}", core.0, core.1));
    }
    let bottom = 45.0 + 34.0 * windows.len() as f64;
    svg.say(
        (30.0, bottom),
        "start",
        GREY,
        "dark: frames whose sound is kept; light: frames that are decoded along and thrown away",
    );
    svg.compare("tiles.svg");
}
