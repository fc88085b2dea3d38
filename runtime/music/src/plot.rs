//! An image of a song: its waveform, its mel spectrogram, and its lyrics over time.
//!
//! It needs only rectangles, pixel columns and short texts, so no plotting crate is used. The font
//! is DejaVu Sans, which is part of the program and covers Latin, Greek, Cyrillic, Arabic and more.
//! Other characters, such as Chinese, are drawn as boxes.

mod canvas;
mod colors;
mod layout;
mod mel;
mod preview;

use std::{io::Write, path::Path};

use acestep_engine::{
    Error,
    audio::Audio,
    files::{Existing, write_whole},
};
use canvas::{Align, Canvas};
use colors::{ACCENT, BODY, FAINT, GRID, PANEL, TEXT, WAVE};
use layout::Layout;

use crate::align::Line;

pub use canvas::Picture;
pub use preview::{Letters, preview};

/// The content of an image.
#[derive(Debug, Clone, Copy)]
pub struct PlotInput<'a> {
    /// The sound.
    pub audio: &'a Audio,
    /// The title above it.
    pub title: &'a str,
    /// Lyrics with their times; no panel is drawn if empty.
    pub lines: &'a [Line],
}

/// Font size of labels, in pixels.
const LABEL: f32 = 15.0;
/// Font size of the title, in pixels.
const TITLE: f32 = 24.0;

/// Draws a song.
pub fn draw(input: &PlotInput<'_>) -> Picture {
    let PlotInput { audio, title, lines } = *input;
    let mut canvas = Canvas::new();
    let placed = layout::place(lines, audio.seconds(), |text| canvas.width_of(text, LABEL));
    let layout = Layout::new(audio, placed.lanes);
    canvas.resize(layout::WIDTH, layout.height);

    canvas.text(layout::LEFT as f32, 36.0, TITLE, TEXT, Align::Left, title);
    let right = layout::RIGHT as f32;
    canvas.text(right, 36.0, LABEL, FAINT, Align::Right, &described(audio));
    waveform(&mut canvas, audio);
    spectrogram(&mut canvas, &layout, audio);
    axis(&mut canvas, &layout);
    words(&mut canvas, &layout, &placed);
    canvas.finish()
}

/// Formats a description: `0:30 · 48 kHz · stereo`
fn described(audio: &Audio) -> String {
    let channels = match audio.channels.len() {
        1 => "mono".to_owned(),
        2 => "stereo".to_owned(),
        n => format!("{n} channels"),
    };
    let rate = f64::from(audio.sample_rate) / 1000.0;
    format!("{} · {rate} kHz · {channels}", layout::clock(audio.seconds(), 1.0))
}

/// Draws one lane per channel: the range of samples of each column, with its RMS inside.
fn waveform(canvas: &mut Canvas, audio: &Audio) {
    canvas.rectangle([layout::LEFT, layout::RIGHT], layout::WAVE, PANEL);
    let lanes = audio.channels.len().max(1);
    let tall = layout::WAVE[1] - layout::WAVE[0];
    for (lane, channel) in audio.channels.iter().enumerate() {
        let rows =
            [layout::WAVE[0] + lane * tall / lanes, layout::WAVE[0] + (lane + 1) * tall / lanes];
        let half = (rows[1] - rows[0]) as f32 / 2.0;
        let middle = rows[0] as f32 + half;
        let row = |value: f32| {
            let y = middle - value.clamp(-1.0, 1.0) * (half - 2.0);
            (y as usize).clamp(rows[0], rows[1] - 1)
        };
        for column in layout::LEFT..layout::RIGHT {
            let index = column - layout::LEFT;
            let samples = &channel[layout::samples(index, layout::COLUMNS, channel.len())];
            let low = samples.iter().copied().fold(0.0, f32::min);
            let high = samples.iter().copied().fold(0.0, f32::max);
            canvas.column(column, [row(high), row(low) + 1], WAVE);
            let squares: f32 = samples.iter().map(|x| x * x).sum();
            let rms = (squares / samples.len().max(1) as f32).sqrt();
            if rms > 0.0 {
                canvas.column(column, [row(rms.min(high)), row((-rms).max(low)) + 1], BODY);
            }
        }
        if lane > 0 {
            canvas.rectangle([layout::LEFT, layout::RIGHT], [rows[0], rows[0] + 1], GRID);
        }
        for (value, text) in [(1.0, "1"), (0.0, "0"), (-1.0, "-1")] {
            if lanes == 1 || value == 0.0 {
                let y = row(value) as f32 + LABEL / 3.0;
                let y = y.clamp(rows[0] as f32 + LABEL * 0.75, rows[1] as f32);
                let name = ["L", "R"].get(lane).filter(|_| lanes == 2).unwrap_or(&text);
                canvas.text(layout::LEFT as f32 - 8.0, y, LABEL, FAINT, Align::Right, name);
            }
        }
    }
}

fn spectrogram(canvas: &mut Canvas, layout: &Layout, audio: &Audio) {
    let bands = layout.bands();
    let spans = |column: usize| layout::samples(column, layout::COLUMNS, audio.samples());
    let picture = mel::spectrogram(audio, &bands, layout::COLUMNS, spans);
    for (column, values) in picture.iter().enumerate() {
        for (band, &value) in values.iter().enumerate() {
            canvas.set(layout::LEFT + column, layout::MEL[1] - 1 - band, colors::heat(value));
        }
    }
    for hertz in [100.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0] {
        let Some(y) = layout.row_of(hertz) else { continue };
        canvas.rectangle([layout::LEFT - 5, layout::LEFT], [y, y + 1], FAINT);
        let text = match hertz {
            1000.0.. => format!("{} kHz", hertz / 1000.0),
            _ => format!("{hertz} Hz"),
        };
        let baseline = (y as f32 + LABEL / 3.0).max(layout::MEL[0] as f32 + LABEL * 0.75);
        canvas.text(layout::LEFT as f32 - 8.0, baseline, LABEL, FAINT, Align::Right, &text);
    }
}

fn axis(canvas: &mut Canvas, layout: &Layout) {
    let top = layout::MEL[1];
    let step = layout::tick(layout.seconds);
    let times = (0..).map(|count| f64::from(count) * step);
    for time in times.take_while(|time| *time <= layout.seconds + 1e-9) {
        let x = layout.column_of(time);
        canvas.rectangle([x, x + 1], [top, top + 6], FAINT);
        let text = layout::clock(time, step);
        canvas.text(x as f32, top as f32 + 22.0, LABEL, FAINT, Align::Middle, &text);
    }
}

fn words(canvas: &mut Canvas, layout: &Layout, placed: &layout::Placed<'_>) {
    let [first, end] = layout.words;
    if first == end {
        return;
    }
    canvas.rectangle([layout::LEFT, layout::RIGHT], [first, end], PANEL);
    for word in &placed.words {
        let x = layout.column_of(word.line.start);
        let is_tag = word.line.text.starts_with('[');
        let color = if is_tag { ACCENT } else { TEXT };
        let top = first + 6 + word.lane * layout::LANE;
        for panel in [layout::WAVE, layout::MEL] {
            canvas.blend([x, x + 1], panel, color, 0.35);
        }
        canvas.rectangle([x, x + 2], [top, top + layout::LANE - 4], color);
        let left = (word.left * layout::COLUMNS as f64) as f32 + layout::LEFT as f32;
        canvas.text(left + 6.0, top as f32 + 14.0, LABEL, color, Align::Left, &word.line.text);
    }
    if placed.left_out > 0 {
        let text = format!("and {} more lines", placed.left_out);
        let (x, y) = (layout::RIGHT as f32 - 6.0, end as f32 - 7.0);
        canvas.text(x, y, LABEL, FAINT, Align::Right, &text);
    }
}

impl Picture {
    /// Encodes the picture as a PNG file.
    ///
    /// # Errors
    /// [`Error::Picture`], which never happens for a picture of [`draw`].
    pub fn to_png(&self) -> Result<Vec<u8>, Error> {
        let failed = |error: png::EncodingError| Error::Picture(error.to_string());
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().map_err(failed)?;
        writer.write_image_data(self.pixels.as_flattened()).map_err(failed)?;
        writer.finish().map_err(failed)?;
        Ok(bytes)
    }

    /// Writes the picture as a PNG file.
    ///
    /// # Errors
    /// The errors of [`write_whole`].
    pub fn save(&self, path: &Path, existing: Existing) -> Result<(), Error> {
        let bytes = self.to_png()?;
        write_whole(path, existing, |file| file.write_all(&bytes))
    }
}

#[cfg(test)]
mod tests;
