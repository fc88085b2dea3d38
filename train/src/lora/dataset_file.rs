//! The JSON file that upstream's dataset builder saves.
//!
//! ```text
//! {"metadata": {"custom_tag": "zyx", "tag_position": "prepend", "genre_ratio": 0, ..},
//!  "samples": [{"audio_path": "a.wav", "caption": "calm", "genre": "folk", "bpm": 92, ..}, ..]}
//! ```
//!
//! The text of a song is its caption, or its genre for `genre_ratio` percent of the songs, with the
//! tag. A list of songs alone is a data set too.
//!
//! Source: upstream `dataset_builder_modules`: `models.py`, `preprocess.py`, `preprocess_utils.py`;
//! `training_v2/preprocess_discovery.py`.

use std::{collections::HashSet, path::Path};

use acestep_engine::{Error as Wrong, Notice};
use acestep_music::{prompt::INSTRUMENTAL, request};
use rand_mt::Mt;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    dataset::{DatasetSong, LARGEST, bad, field, mute, name_of, text},
    sidecar,
};
use crate::Error;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `samples`, or a list of songs")]
struct DataSet {
    #[serde(default)]
    metadata: Settings,
    samples: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
struct Settings {
    custom_tag: Option<String>,
    tag_position: TagPosition,
    genre_ratio: f64,
}

/// Other keys of `metadata`, which training does not need.
const NOTHING: [&str; 4] = ["name", "created_at", "num_samples", "all_instrumental"];

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TagPosition {
    #[default]
    Prepend,
    Append,
    Replace,
}

impl TagPosition {
    fn tagged(self, tag: Option<&str>, text: String) -> String {
        match (tag, self) {
            (None, _) => text,
            (Some(tag), Self::Replace) => tag.to_owned(),
            (Some(tag), _) if text.is_empty() => tag.to_owned(),
            (Some(tag), Self::Prepend) => format!("{tag}, {text}"),
            (Some(tag), Self::Append) => format!("{text}, {tag}"),
        }
    }
}

/// The text that a song is trained with, against `genre_ratio`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TrainedText {
    Caption,
    Genre,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct Sample {
    audio_path: Option<String>,
    filename: Option<String>,
    genre: Option<String>,
    custom_tag: Option<String>,
    prompt_override: Option<TrainedText>,
    labeled: Option<bool>,
    /// Keys of a request.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Reads the labeled songs of `file`. `tag` replaces all tags of the file, `caption` is used for
/// songs without one. Relative paths begin at the folder of the file.
///
/// # Errors
/// [`Error::Read`]; [`Error::Dataset`] with the first song that is absent or cannot be used.
pub(super) fn read(
    file: &Path,
    tag: Option<&str>,
    caption: Option<&str>,
) -> Result<(Vec<DatasetSong>, Vec<Notice>), Error> {
    let json = text(file, LARGEST)?.unwrap_or_default();
    let folder = file.parent().unwrap_or(Path::new(""));
    let wrong = |reason: String| bad(file, &reason);
    let DataSet { metadata: settings, samples } = parts(&json).map_err(wrong)?;
    let (all, mut labeled) = (samples.len(), Vec::new());
    for (number, sample) in (1..).zip(samples) {
        let sample = serde_json::from_value::<Sample>(sample);
        let sample = sample.map_err(|error| wrong(format!("song {number}: {error}")))?;
        if sample.labeled == Some(false) {
            continue;
        }
        let paths = [&sample.audio_path, &sample.filename];
        let Some(path) = paths.into_iter().flatten().find(|path| !path.is_empty()) else {
            return Err(wrong(format!("song {number}: `audio_path` is missing")));
        };
        let (name, audio) = (name_of(Path::new(path)), folder.join(path));
        labeled.push((format!("song {number}, `{path}`"), name, audio, sample));
    }
    if labeled.is_empty() {
        return Err(wrong("it has no song that is labeled".to_owned()));
    }
    let (count, mut notices) = (labeled.len(), Vec::new());
    if count < all {
        let unused = all - count;
        notices.push(Notice(format!("{unused} of the {all} songs are not labeled, and left out")));
    }
    let absent: Vec<_> = labeled.iter().filter(|(_, _, audio, _)| !audio.is_file()).collect();
    if let Some((_, _, first, _)) = absent.first() {
        return Err(wrong(format!(
            "{} of the {count} sound files are not there, such as `{}`: correct `audio_path`; a \
             relative path begins at the folder of this file",
            absent.len(),
            first.display()
        )));
    }
    let with_genre = genre_indices(count, settings.genre_ratio);
    let common_tag = field(settings.custom_tag);
    let mut songs = Vec::with_capacity(count);
    for (index, (place, name, audio, sample)) in labeled.into_iter().enumerate() {
        let said = sidecar::of_object(sample.rest);
        let mut said = said.map_err(|why| wrong(format!("{place}: {why}")))?;
        said.say_of(&name);
        notices.extend(said.notices);
        let words = said.request.words;
        let is_genre = match sample.prompt_override {
            Some(trained) => trained == TrainedText::Genre,
            None => with_genre.contains(&index),
        };
        let described = field(if is_genre { sample.genre } else { words.caption });
        let described = described.or(caption.map(str::to_owned)).unwrap_or_default();
        let own_tag = field(sample.custom_tag);
        let tag = tag.or(own_tag.as_deref()).or(common_tag.as_deref());
        let caption = settings.tag_position.tagged(tag, described);
        let lyrics = field(words.lyrics).unwrap_or_else(|| INSTRUMENTAL.to_owned());
        songs.push(DatasetSong::of(audio, name, [caption, lyrics], said.metadata, &mut notices));
    }
    match mute(&songs) {
        None => Ok((songs, notices)),
        Some((_, all)) => {
            Err(wrong(format!("{all}: write its `caption`, or give all of them one caption")))
        }
    }
}

/// Reads a data set, with unread songs.
fn parts(text: &str) -> Result<DataSet, String> {
    let mut json = request::json(text).map_err(|error| match error {
        Wrong::RequestSyntax(why) => format!("no JSON: {why}"),
        other => sidecar::reason(other),
    })?;
    if json.is_array() {
        json = json!({ "samples": json });
    }
    if let Some(metadata) = json.get_mut("metadata").and_then(Value::as_object_mut) {
        NOTHING.iter().for_each(|key| drop(metadata.remove(*key)));
    }
    let set = serde_json::from_value::<DataSet>(json);
    let set =
        set.map_err(|why| format!("it is no data set of upstream's dataset builder: {why}"))?;
    match set.metadata.genre_ratio {
        ratio if (0.0..=100.0).contains(&ratio) => Ok(set),
        ratio => Err(format!("`genre_ratio` is {ratio}, but it is 0 to 100")),
    }
}

/// The songs that are trained with their genre: `ratio` percent, drawn as in upstream.
///
/// Source: CPython `random.seed`, `Random.shuffle` and `_randbelow_with_getrandbits`, seed 42.
fn genre_indices(count: usize, ratio: f64) -> HashSet<usize> {
    let mut random = Mt::new_with_key([42]);
    let mut indices: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let bits = (last + 1).ilog2() + 1;
        let drawn = loop {
            let drawn = (random.next_u32() >> (32 - bits)) as usize;
            if drawn <= last {
                break drawn;
            }
        };
        indices.swap(last, drawn);
    }
    indices.truncate((count as f64 * ratio / 100.0) as usize);
    indices.into_iter().collect()
}

#[cfg(test)]
mod tests;
