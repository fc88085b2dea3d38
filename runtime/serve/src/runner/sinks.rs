//! Results on disk: sound files, peaks, texts.

use std::io::Write as _;

use acestep_engine::{
    Audio, Error, Existing, Notice,
    audio::{
        encoding::EncodingOptions,
        format::{Encoding, Format},
        tags::Tags,
        write,
    },
    write_whole,
};
use serde_json::json;

use crate::{
    job::Content,
    worker::{Made, Task},
};

/// Columns of the picture of a waveform.
const COLUMNS: usize = 2000;

/// Returns the encoding of sound files. A format that is not built in, or does not exist, is an error.
///
/// # Errors
/// [`Error::BadValue`], [`Error::NotBuiltIn`].
pub(super) fn encoding(
    format: Option<&str>,
    options: EncodingOptions,
    notices: &mut Vec<Notice>,
) -> Result<Encoding, Error> {
    let format: Format = format.map(str::parse).transpose()?.unwrap_or_default();
    Encoding::resolve(options, format.require()?, notices)
}

/// Writes a sound of a job, and its waveform.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn sound(
    task: &mut Task<'_>,
    track: u32,
    audio: &Audio,
    encoding: &Encoding,
    tags: Option<&Tags>,
    seed: Option<u64>,
) -> Result<(), Error> {
    let name = format!("{track}.{}", encoding.format.extension());
    write::save(&task.folder.join(&name), audio, encoding, tags, Existing::Replace)?;
    let seconds = Some(audio.seconds());
    task.made.push(Made { track, content: Content::Audio, name, seed, seconds });
    let text = json!({ "duration": audio.seconds(), "peaks": peaks(audio) }).to_string();
    file(task, track, Content::Peaks, &format!("{track}.peaks.json"), text.as_bytes())
}

/// Writes another result of a job.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn file(
    task: &mut Task<'_>,
    track: u32,
    content: Content,
    name: &str,
    bytes: &[u8],
) -> Result<(), Error> {
    write_whole(&task.folder.join(name), Existing::Replace, |file| file.write_all(bytes))?;
    task.made.push(Made { track, content, name: name.to_owned(), seed: None, seconds: None });
    Ok(())
}

/// Returns the smallest and the largest sample of each column over all channels: one after the other.
fn peaks(audio: &Audio) -> Vec<f64> {
    let samples = audio.samples();
    let columns = COLUMNS.min(samples);
    let of_column = |column: usize| {
        let range = column * samples / columns..(column + 1) * samples / columns;
        let values = audio.channels.iter().flat_map(|channel| &channel[range.clone()]);
        let (low, high) =
            values.fold((0f32, 0f32), |(low, high), &value| (low.min(value), high.max(value)));
        // Three digits are more than a picture shows.
        [low, high].map(|value| (f64::from(value) * 1000.0).round() / 1000.0)
    };
    (0..columns).flat_map(of_column).collect()
}
