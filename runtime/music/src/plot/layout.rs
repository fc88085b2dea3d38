//! Positions of the parts of a plot.

use std::ops::Range;

use acestep_engine::audio::Audio;

use super::mel;
use crate::align::Line;

/// Height of a lane of lyrics.
pub(super) const LANE: usize = 22;
/// Maximum number of lanes; lines without a lane are only counted.
const MOST_LANES: usize = 24;

/// Width of the picture in pixels.
pub(super) const WIDTH: usize = 1600;
/// First pixel column of the panels.
pub(super) const LEFT: usize = 84;
/// End of the panels' pixel columns, exclusive.
pub(super) const RIGHT: usize = WIDTH - 40;
/// Number of the panels' pixel columns.
pub(super) const COLUMNS: usize = RIGHT - LEFT;
/// Pixel rows of the waveform, the end exclusive.
pub(super) const WAVE: [usize; 2] = [56, 236];
/// Pixel rows of the spectrogram, the end exclusive.
pub(super) const MEL: [usize; 2] = [252, 632];
/// Height of the time axis below the spectrogram.
const AXIS: usize = 36;

/// Sizes that depend on the song.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    pub(super) height: usize,
    /// Pixel rows of the lyrics; empty without lyrics.
    pub(super) words: [usize; 2],
    /// Length of the song in seconds, over the width of the panels.
    pub(super) seconds: f64,
    /// Highest frequency, in Hz.
    top: f64,
}

impl Layout {
    pub(super) fn new(audio: &Audio, lanes: usize) -> Self {
        let first = MEL[1] + AXIS;
        let words = [first, if lanes > 0 { first + lanes * LANE + 12 } else { first }];
        Self {
            height: words[1] + 12,
            words,
            seconds: audio.seconds(),
            top: (f64::from(audio.sample_rate) / 2.0).min(mel::TOP),
        }
    }

    /// Returns the column of a time in seconds; the end of the song maps to the first column after
    /// it.
    pub(super) fn column_of(&self, time: f64) -> usize {
        let share = if self.seconds > 0.0 { (time / self.seconds).clamp(0.0, 1.0) } else { 0.0 };
        LEFT + (share * COLUMNS as f64) as usize
    }

    /// Returns the edges of the spectrogram's bands in Hz, one pixel row per band, from the lowest
    /// up.
    pub(super) fn bands(&self) -> Vec<f64> {
        let rows = MEL[1] - MEL[0];
        let top = mel::from_hertz(self.top);
        (0..=rows).map(|i| mel::to_hertz(top * i as f64 / rows as f64)).collect()
    }

    /// Returns the row of a frequency, if it is visible.
    pub(super) fn row_of(&self, hertz: f64) -> Option<usize> {
        let rows = MEL[1] - MEL[0];
        let share = mel::from_hertz(hertz) / mel::from_hertz(self.top);
        let row = (share * rows as f64) as usize;
        (share <= 1.0).then(|| MEL[1] - 1 - row.min(rows - 1))
    }
}

/// Returns the samples of one of `columns`, out of `count`; at least one if there are any.
pub(super) fn samples(column: usize, columns: usize, count: usize) -> Range<usize> {
    let start = (column * count / columns).min(count.saturating_sub(1));
    start..((column + 1) * count / columns).max(start + 1).min(count)
}

/// A line of the lyrics with its position.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Word<'a> {
    pub(super) line: &'a Line,
    pub(super) lane: usize,
    /// Left end of the text, relative to the panel's width.
    pub(super) left: f64,
}

/// Lines of the lyrics in lanes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Placed<'a> {
    pub(super) words: Vec<Word<'a>>,
    pub(super) lanes: usize,
    /// Number of lines without a lane.
    pub(super) left_out: usize,
}

/// Gives each line the first lane in which it does not overlap the line before it.
///
/// A text that would exceed the right border is drawn to the left of its time.
pub(super) fn place<'a>(
    lines: &'a [Line],
    seconds: f64,
    width_of: impl Fn(&str) -> f32,
) -> Placed<'a> {
    let panel = COLUMNS as f64;
    let mut ends: Vec<f64> = Vec::new();
    let mut words = Vec::new();
    let mut left_out = 0;
    let mut sorted: Vec<&Line> = lines.iter().collect();
    sorted.sort_by(|a, b| a.start.total_cmp(&b.start));
    for line in sorted {
        let start = if seconds > 0.0 { (line.start / seconds).clamp(0.0, 1.0) } else { 0.0 };
        let wide = (f64::from(width_of(&line.text)) + 12.0) / panel;
        let left = if start + wide <= 1.0 { start } else { (start - wide).max(0.0) };
        let lane = ends.iter().position(|&end| end <= left).unwrap_or(ends.len());
        if lane == MOST_LANES {
            left_out += 1;
            continue;
        }
        // The vertical mark of the start time takes space too.
        let end = left.max(start) + wide;
        if lane < ends.len() {
            ends[lane] = end
        } else {
            ends.push(end)
        }
        words.push(Word { line, lane, left });
    }
    Placed { words, lanes: ends.len(), left_out }
}

/// Returns the seconds between two ticks of the axis, for at most about fifteen ticks.
pub(super) fn tick(seconds: f64) -> f64 {
    let steps = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0];
    steps.into_iter().find(|step| seconds / step <= 15.0).unwrap_or(3600.0)
}

/// Formats a time as `m:ss`, with a decimal if `step` is below a second.
pub(super) fn clock(seconds: f64, step: f64) -> String {
    let tenths = (seconds * 10.0).round() as u64;
    let (minutes, rest) = (tenths / 600, tenths % 600);
    if step < 1.0 {
        return format!("{minutes}:{:02}.{}", rest / 10, rest % 10);
    }
    let whole = seconds.round() as u64;
    format!("{}:{:02}", whole / 60, whole % 60)
}
