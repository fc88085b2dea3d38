//! A song in a terminal: its waveform and its spectrogram as text.

use std::{fmt::Write as _, ops::Range};

use acestep_engine::audio::Audio;

use super::{
    colors::{self, WAVE},
    described, layout, mel,
};

/// Text rows of the waveform, with eight steps each.
const WAVE_ROWS: usize = 4;
/// Text rows of the spectrogram, with two bands each.
const MEL_ROWS: usize = 9;
/// Text columns reserved for frequency labels.
const MARGIN: usize = 8;
/// Minimum number of columns.
const LEAST: usize = 30;
/// Highest frequency: songs have little above it, and a terminal has few rows.
const TOP: f64 = 12_000.0;

/// Capabilities of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letters {
    /// ASCII only.
    Ascii,
    /// Unicode blocks, without colours.
    Blocks,
    /// Unicode blocks in the 256 colours of xterm.
    Palette,
    /// Unicode blocks in 24-bit colours.
    Colors,
}

impl Letters {
    fn are_coloured(self) -> bool {
        matches!(self, Self::Palette | Self::Colors)
    }

    /// Returns the colour code for background (`48`) or foreground (`38`), without `ESC [` and `m`.
    fn color(self, ground: u8, [red, green, blue]: [u8; 3]) -> String {
        match self {
            Self::Colors => format!("{ground};2;{red};{green};{blue}"),
            _ => format!("{ground};5;{}", palette([red, green, blue])),
        }
    }
}

/// Returns the nearest colour of xterm's cube with six steps each: 0, 95, 135, 175, 215, 255.
fn palette(color: [u8; 3]) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let nearest = |value: u8| (0..6).min_by_key(|&i| STEPS[usize::from(i)].abs_diff(value));
    color.iter().fold(0, |sum, &value| 6 * sum + nearest(value).unwrap_or_default()) + 16
}

/// Draws the song with `columns` characters per row. With colours, each character of the
/// spectrogram shows two bands in the colours of [`draw`](super::draw); otherwise denser characters
/// are louder.
pub fn preview(audio: &Audio, columns: usize, letters: Letters) -> String {
    let wide = columns.max(LEAST) - MARGIN;
    let span = |column: usize| layout::samples(column, wide, audio.samples());
    let mut text = String::new();
    // Writing to a String cannot fail.
    let title = match letters {
        Letters::Ascii => described(audio).replace('·', "-"),
        _ => described(audio),
    };
    let _ = writeln!(text, "{:MARGIN$}{title}", "");
    waveform(&mut text, audio, wide, &span, letters);
    spectrogram(&mut text, audio, wide, &span, letters);
    axis(&mut text, audio.seconds(), wide);
    text
}

/// Draws the peak over all channels of each column.
fn waveform(
    text: &mut String,
    audio: &Audio,
    wide: usize,
    span: &impl Fn(usize) -> Range<usize>,
    letters: Letters,
) {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const ASCII: [char; 9] = [' ', '.', '.', '.', ':', ':', ':', '|', '|'];
    let steps = if letters == Letters::Ascii { ASCII } else { BLOCKS };
    let height = |column: usize| {
        let peak = |channel: &Vec<f32>| {
            let samples = channel.get(span(column)).unwrap_or_default();
            samples.iter().fold(0.0, |most: f32, sample| most.max(sample.abs()))
        };
        let peak = audio.channels.iter().map(peak).fold(0.0, f32::max).min(1.0);
        (peak * (8 * WAVE_ROWS) as f32).round() as usize
    };
    let heights: Vec<_> = (0..wide).map(height).collect();
    for row in (0..WAVE_ROWS).rev() {
        let _ = write!(text, "{:MARGIN$}", "");
        let bars = heights.iter().map(|height| steps[height.saturating_sub(8 * row).min(8)]);
        let bars: String = bars.collect();
        let _ = match letters.are_coloured() {
            true => writeln!(text, "\x1b[{}m{bars}\x1b[0m", letters.color(38, WAVE)),
            false => writeln!(text, "{}", bars.trim_end()),
        };
    }
}

fn spectrogram(
    text: &mut String,
    audio: &Audio,
    wide: usize,
    span: &impl Fn(usize) -> Range<usize>,
    letters: Letters,
) {
    const LOUDER: &[u8; 10] = b" .:-=+*#%@";
    let bands = 2 * MEL_ROWS;
    let top = mel::from_hertz(TOP.min(f64::from(audio.sample_rate) / 2.0));
    let edges: Vec<_> = (0..=bands).map(|i| mel::to_hertz(top * i as f64 / bands as f64)).collect();
    let picture = mel::spectrogram(audio, &edges, wide, span);
    for row in (0..MEL_ROWS).rev() {
        let (lower, upper) = (2 * row, 2 * row + 1);
        // Every third row has a frequency label.
        let hertz = edges[upper];
        let name = match (row % 3, hertz >= 1000.0) {
            (0, true) => format!("{:.1} kHz", hertz / 1000.0),
            (0, false) => format!("{hertz:.0} Hz"),
            _ => String::new(),
        };
        let _ = write!(text, "{name:>width$} ", width = MARGIN - 1);
        for values in &picture {
            match letters.are_coloured() {
                true => {
                    let front = letters.color(38, colors::heat(values[upper]));
                    let behind = letters.color(48, colors::heat(values[lower]));
                    let _ = write!(text, "\x1b[{front};{behind}m▀");
                }
                false => {
                    let value = values[upper].max(values[lower]).clamp(0.0, 1.0);
                    let index = (value * (LOUDER.len() - 1) as f32).round() as usize;
                    text.push(char::from(LOUDER[index]));
                }
            }
        }
        text.push_str(if letters.are_coloured() { "\x1b[0m\n" } else { "\n" });
    }
}

/// Draws as many times as fit.
fn axis(text: &mut String, seconds: f64, wide: usize) {
    let mut step = layout::tick(seconds);
    let room = |step: f64| (step / seconds * wide as f64) as usize;
    while room(step) < 8 {
        step *= 2.0;
    }
    let mut line = " ".repeat(MARGIN);
    let mut time = 0.0;
    while time <= seconds {
        let column = MARGIN + (time / seconds * wide as f64) as usize;
        let clock = layout::clock(time, step);
        if column + clock.len() > MARGIN + wide {
            break;
        }
        line.extend(std::iter::repeat_n(' ', column.saturating_sub(line.len())));
        line += &clock;
        time += step;
    }
    text.push_str(&line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use std::f32::consts::TAU;

    use super::*;

    fn audio(seconds: f32, wave: impl Fn(f32) -> f32) -> Audio {
        crate::plot::tests::audio(seconds, 2, wave)
    }

    #[test]
    fn a_song_that_begins_loud_and_high_looks_so() {
        let song = |t: f32| match t < 1.0 {
            true => (TAU * 6000.0 * t).sin(),
            false => 0.25 * (TAU * 200.0 * t).sin(),
        };
        let text = preview(&audio(2.0, song), 68, Letters::Blocks);
        let rows: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
        assert_eq!(rows.len(), 1 + WAVE_ROWS + MEL_ROWS + 1);
        assert!(text.starts_with("        0:02 · 48 kHz · stereo\n"), "{text}");
        // 30 columns of full scale, 30 of a quarter.
        assert_eq!((rows[1].len(), rows[1][MARGIN + 29]), (MARGIN + 30, '█'), "{text}");
        assert_eq!((rows[4][MARGIN + 29], rows[4][MARGIN + 59]), ('█', '█'), "{text}");
        let loudest = |column: usize| {
            let density = |row: usize| " .:-=+*#%@".find(rows[row][MARGIN + column]);
            (1 + WAVE_ROWS..1 + WAVE_ROWS + MEL_ROWS).max_by_key(|&row| density(row)).expect("rows")
        };
        // From the top: 6 kHz is in the upper third, 200 Hz in the lowest rows.
        assert!(loudest(10) <= 1 + WAVE_ROWS + MEL_ROWS / 3, "{text}");
        assert!(loudest(50) >= WAVE_ROWS + MEL_ROWS - 1, "{text}");
        assert!(
            rows.last().expect("an axis").iter().collect::<String>().contains("0:01"),
            "{text}"
        );
    }

    #[test]
    fn colours_are_in_every_letter_and_end_with_the_line() {
        let text = preview(&audio(0.5, |t| (TAU * 440.0 * t).sin()), 40, Letters::Colors);
        let lines: Vec<_> = text.lines().collect();
        for line in &lines[1..lines.len() - 1] {
            assert!(line.ends_with("\x1b[0m"), "{line:?}");
        }
        assert_eq!(lines[6].matches('▀').count(), 40 - MARGIN);
    }

    /// 16 + 36 r + 6 g + b: 255 is step 5; the nearest step of 100 is 95, step 1.
    #[test]
    fn a_terminal_of_256_colours_gets_the_nearest_of_them() {
        assert_eq!(palette([0, 0, 0]), 16);
        assert_eq!(palette([255, 100, 0]), 16 + 36 * 5 + 6);
        assert_eq!(palette([255, 255, 255]), 231);
        let text = preview(&audio(0.5, |t| (TAU * 440.0 * t).sin()), 40, Letters::Palette);
        assert!(text.contains("\x1b[38;5;") && !text.contains(";2;"), "{text:?}");
    }

    #[test]
    fn a_terminal_without_unicode_gets_nothing_of_it() {
        let text = preview(&audio(0.5, |t| (TAU * 440.0 * t).sin()), 40, Letters::Ascii);
        assert!(
            text.is_ascii() && text.contains("48 kHz - stereo") && text.contains('|'),
            "{text}"
        );
    }

    #[test]
    fn no_length_and_no_width_is_too_small() {
        for (seconds, columns) in [(0.0, 80), (0.00002, 80), (0.3, 0), (600.0, 20)] {
            let text = preview(&audio(seconds, |_| 0.0), columns, Letters::Blocks);
            assert_eq!(text.lines().count(), 2 + WAVE_ROWS + MEL_ROWS, "{seconds} {columns}");
        }
    }
}
