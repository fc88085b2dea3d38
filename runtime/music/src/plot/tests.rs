use std::f32::consts::TAU;

use super::*;

const RATE: u32 = 48_000;

pub(super) fn audio(seconds: f32, channels: usize, wave: impl Fn(f32) -> f32) -> Audio {
    let samples = (seconds * RATE as f32) as usize;
    let channel: Vec<f32> = (0..samples).map(|i| wave(i as f32 / RATE as f32)).collect();
    Audio { channels: vec![channel; channels], sample_rate: RATE }
}

fn drawn(audio: &Audio, lines: &[Line]) -> (Picture, Layout) {
    let picture = draw(&PlotInput { audio, title: "a song", lines });
    let lanes = layout::place(lines, audio.seconds(), |text| 8.0 * text.len() as f32).lanes;
    (picture, Layout::new(audio, lanes))
}

fn brightness(pixel: [u8; 3]) -> u32 {
    pixel.iter().map(|&x| u32::from(x)).sum()
}

/// Returns the brightest row of a column of the spectrogram.
fn brightest(picture: &Picture, column: usize) -> usize {
    let rows = layout::MEL[0]..layout::MEL[1];
    rows.max_by_key(|&y| brightness(picture.pixel(column, y))).expect("rows")
}

#[test]
fn a_tone_is_brightest_at_its_own_frequency() {
    for hertz in [250.0, 1000.0, 4000.0] {
        let tone = audio(2.0, 2, |t| 0.5 * (TAU * hertz * t).sin());
        let (picture, layout) = drawn(&tone, &[]);
        let wanted = layout.row_of(f64::from(hertz)).expect("in the picture");
        for column in [layout::LEFT + 300, layout::RIGHT - 300] {
            let row = brightest(&picture, column);
            assert!(row.abs_diff(wanted) <= 2, "{hertz} Hz: row {row}, not {wanted}");
        }
    }
}

#[test]
fn silence_is_dark_and_its_waveform_a_line() {
    let (picture, _) = drawn(&audio(1.0, 1, |_| 0.0), &[]);
    for y in layout::MEL[0]..layout::MEL[1] {
        for x in layout::LEFT..layout::RIGHT {
            assert_eq!(picture.pixel(x, y), [0, 0, 4], "{x}, {y}");
        }
    }
    let column = |x: usize| (layout::WAVE[0]..layout::WAVE[1]).map(move |y| (x, y));
    let lit = column(layout::LEFT + 700).filter(|&(x, y)| picture.pixel(x, y) != PANEL).count();
    assert_eq!(lit, 1);
}

#[test]
fn the_time_axis_ends_where_the_song_does() {
    // Silence, with a burst in the last quarter.
    let song = audio(8.0, 1, |t| if t >= 6.0 { 0.8 * (TAU * 440.0 * t).sin() } else { 0.0 });
    let (picture, layout) = drawn(&song, &[]);
    let is_loud = |x: usize| {
        let lit = |y: &usize| picture.pixel(x, *y) != PANEL;
        (layout::WAVE[0]..layout::WAVE[1]).filter(lit).count() > 50
    };
    let first = (layout::LEFT..layout::RIGHT).find(|&x| is_loud(x)).expect("the burst");
    assert!(first.abs_diff(layout.column_of(6.0)) <= 1, "{first}");
    assert!(is_loud(layout::RIGHT - 1));
    assert_eq!(layout.column_of(8.0), layout::RIGHT);
    // A tick at each second, from 0:00 to 0:08, and nowhere else.
    let tick = |x: usize| picture.pixel(x, layout::MEL[1] + 3) == FAINT;
    let ticks: Vec<usize> = (0..picture.width).filter(|&x| tick(x)).collect();
    let wanted: Vec<usize> = (0..=8).map(|s| layout.column_of(f64::from(s))).collect();
    assert_eq!(ticks, wanted);
}

#[test]
fn a_tone_half_as_loud_is_a_waveform_half_as_tall() {
    let tall = |loud: f32| {
        let (picture, _) = drawn(&audio(1.0, 1, |t| loud * (TAU * 440.0 * t).sin()), &[]);
        let lit = |y: &usize| picture.pixel(layout::LEFT + 500, *y) != PANEL;
        (layout::WAVE[0]..layout::WAVE[1]).filter(lit).count() as f32
    };
    let ratio = tall(0.4) / tall(0.8);
    assert!((ratio - 0.5).abs() < 0.03, "{ratio}");
}

#[test]
fn lines_stand_at_their_times_and_do_not_overlap() {
    let line = |text: &str, start| Line { text: text.into(), start, end: start + 1.0 };
    let song = audio(10.0, 2, |t| 0.1 * (TAU * 300.0 * t).sin());
    let lines = [line("[Verse]", 2.0), line("It rains on the roof", 2.2), line("again", 7.0)];
    let placed = layout::place(&lines, 10.0, |text| 8.0 * text.len() as f32);
    let lanes: Vec<usize> = placed.words.iter().map(|word| word.lane).collect();
    assert_eq!((lanes, placed.lanes, placed.left_out), (vec![0, 1, 0], 2, 0));
    let (picture, layout) = drawn(&song, &lines);
    assert_eq!(picture.height, layout.height);
    let top = layout.words[0] + 6;
    assert_eq!(picture.pixel(layout.column_of(2.0), top + 2), ACCENT);
    assert_eq!(picture.pixel(layout.column_of(2.2), top + layout::LANE + 2), TEXT);
    assert_eq!(picture.pixel(layout.column_of(7.0), top + 2), TEXT);

    // A line at the very end is moved into the picture, and lines without a lane are counted.
    let placed = layout::place(&lines[1..2], 2.5, |_| 300.0);
    let wanted = 2.2 / 2.5 - 312.0 / layout::COLUMNS as f64;
    assert!((placed.words[0].left - wanted).abs() < 1e-9, "{placed:?}");
    let many: Vec<Line> = (0..40).map(|_| line("the same moment", 1.0)).collect();
    assert_eq!(layout::place(&many, 10.0, |_| 100.0).left_out, 16);
}

#[test]
fn a_file_is_a_png_of_the_picture() {
    let (picture, _) = drawn(&audio(0.5, 2, |t| (TAU * 100.0 * t).sin()), &[]);
    let bytes = picture.to_png().expect("a file");
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut pixels).expect("a frame");
    assert_eq!((info.width as usize, info.height as usize), (picture.width, picture.height));
    assert_eq!(pixels, picture.pixels.as_flattened());
}

#[test]
fn the_shortest_sound_and_one_of_several_channels_are_drawn() {
    for audio in [audio(1e-4, 1, |_| 0.5), audio(0.2, 6, |t| t), audio(0.0, 2, |_| 0.0)] {
        let (picture, layout) = drawn(&audio, &[]);
        assert_eq!(picture.pixels.len(), layout::WIDTH * layout.height);
    }
}

#[test]
fn times_are_written_as_minutes_and_seconds() {
    let written = |seconds, step| layout::clock(seconds, step);
    assert_eq!(written(0.0, 1.0), "0:00");
    assert_eq!(written(75.0, 15.0), "1:15");
    assert_eq!(written(600.0, 60.0), "10:00");
    assert_eq!(written(59.96, 0.2), "1:00.0");
    for (seconds, step) in [(0.8, 0.1), (8.0, 1.0), (30.0, 2.0), (180.0, 15.0), (600.0, 60.0)] {
        assert_eq!(layout::tick(seconds), step, "{seconds}");
    }
}
