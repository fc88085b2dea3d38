//! Caption, lyrics and metadata of a song.
//!
//! Requests, tags of songs, training folders and answers of the language model share the rules of
//! the metadata.

use acestep_engine::{
    Error, Notice,
    check::{self, above, text, whole},
    error::shortened,
    texts::unix_lines,
};
use serde::Serialize;

use super::{
    length::{Length, MOST_SECONDS},
    singing,
    source::SourcePlan,
    topic::topic,
};
use crate::{
    ModelInfo, SongError,
    lyrics::{cleaned, is_sung},
    prompt::{self, Metas},
};

topic! {
    /// Caption, lyrics and metadata of a song.
    Words {
        /// Description of the sound.
        caption: String = Text("prompt"),
        /// The sung text, with tags such as `[Verse]`.
        lyrics: String = Text,
        /// True for a song without voice.
        instrumental: bool = Flag,
        /// Beats per minute.
        bpm: i64 = Count("tempo"),
        /// Key, e.g. `F# minor`.
        keyscale: String = Word("key_scale", "key"),
        /// Time signature, e.g. `4` or `6/8`.
        timesignature: String = Word("time_signature"),
        /// Language of the voice, e.g. `en`.
        vocal_language: String = Word("language"),
        /// Length in seconds.
        duration: f64 = Positive("audio_duration", "target_duration"),
    }
}

/// The texts of a song, and the prompts that contain them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WordsPlan {
    /// Description of the sound.
    pub caption: String,
    /// The sung text.
    pub lyrics: String,
    /// A code of [`LANGUAGES`].
    pub vocal_language: String,
    /// Tempo, metre, key and length for the prompt.
    #[serde(skip)]
    pub metas: Metas,
    /// Full text for the caption encoder.
    pub caption_prompt: String,
    /// The same with the text2music instruction, for the steps that follow neither codes nor
    /// source. Present if [`SourcePlan::audio_cover_strength`] is below 1.
    #[serde(skip)]
    pub non_cover_prompt: Option<String>,
    /// Full text for the lyric encoder.
    pub lyric_prompt: String,
}

/// Message for lyrics beside `instrumental`.
pub const VOICE_AND_NONE: &str =
    "`instrumental: true` and lyrics exclude each other: leave one of them out";

/// Returns notices about texts that reach the limits of upstream's input forms. The encoders truncate at
/// 256 and 2048 tokens.
pub fn too_long(caption: &str, lyrics: &str) -> Vec<Notice> {
    let limits = [("caption", caption, 512, 256), ("lyrics", lyrics, 4096, 2048)];
    let notice = |(what, text, most, tokens): (&str, &str, usize, usize)| {
        let length = text.chars().count();
        (length >= most).then(|| {
            Notice(format!(
                "the {what} of {length} characters may be too long: the model reads {tokens} tokens"
            ))
        })
    };
    limits.into_iter().filter_map(notice).collect()
}

impl Words {
    /// Decides texts, prompts and length. `samples` is the length of the source with the added
    /// silence.
    pub(crate) fn plan(
        &self,
        source: &SourcePlan,
        samples: Option<usize>,
        model: &ModelInfo,
        notices: &mut Vec<Notice>,
    ) -> Result<(WordsPlan, Length), Error> {
        let (caption, lyrics) = self.texts(source.sound.is_some(), notices)?;
        let metadata = SongMetadata::of(self, notices)?;
        let asked = metadata.duration;
        let length = Length::of(asked, source.codes.first(), samples, model, notices)?;
        notices.extend(singing::notice(&lyrics, length.duration_s));
        // The prompt states the length of the source without the added silence. Upstream states
        // the requested length; codes may be slightly shorter or longer.
        let source_s = source.samples(model).map(|n| n as f64 / f64::from(model.sample_rate));
        let stated = source_s.or(asked).unwrap_or(length.duration_s);
        let metas = Metas {
            bpm: metadata.bpm,
            timesignature: metadata.timesignature,
            keyscale: metadata.keyscale,
            duration: Some(prompt::duration_text(stated)),
        };
        let language = metadata.vocal_language.unwrap_or("unknown");
        let prompt = |task: &str| prompt::caption_prompt(task, &caption, &metas.to_text());
        let words = WordsPlan {
            caption_prompt: prompt(&source.instruction),
            non_cover_prompt: (source.audio_cover_strength < 1.0)
                .then(|| prompt(prompt::TEXT_TO_MUSIC)),
            lyric_prompt: prompt::lyric_prompt(language, &lyrics),
            vocal_language: language.to_owned(),
            metas,
            caption,
            lyrics,
        };
        Ok((words, length))
    }

    /// True if there is neither a caption nor lyrics.
    pub fn are_blank(&self) -> bool {
        [&self.caption, &self.lyrics].into_iter().flatten().all(|text| text.trim().is_empty())
    }

    /// Returns caption and lyrics; a source song replaces missing ones.
    fn texts(
        &self,
        has_source: bool,
        notices: &mut Vec<Notice>,
    ) -> Result<(String, String), Error> {
        let [caption, mut lyrics] = [&self.caption, &self.lyrics]
            .map(|text| unix_lines(text.as_deref().unwrap_or_default()));
        let left_out;
        (lyrics, left_out) = cleaned(&lyrics);
        notices.extend(left_out);
        if self.instrumental == Some(true) {
            if is_sung(&lyrics) {
                return Err(Error::Conflict(VOICE_AND_NONE.into()));
            }
            lyrics = prompt::INSTRUMENTAL.to_owned();
        }
        check::text("caption", &caption)?;
        check::text("lyrics", &lyrics)?;
        if !has_source && self.are_blank() {
            return Err(SongError::NothingAsked.into());
        }
        notices.extend(too_long(&caption, &lyrics));
        if prompt::caption_of_prompt(&caption) != caption {
            let text = "the caption is a whole prompt: its section `# Caption` is read alone";
            notices.push(Notice(text.into()));
        }
        Ok((caption, lyrics))
    }

    /// Returns the fields with the decisions of `plan`, which they make again.
    pub(crate) fn decided(&self, plan: &WordsPlan) -> Self {
        Self {
            caption: Some(plan.caption.clone()),
            lyrics: Some(plan.lyrics.clone()),
            vocal_language: Some(plan.vocal_language.clone()),
            ..self.clone()
        }
    }
}

/// Languages that the model was trained on (upstream `VALID_LANGUAGES`).
pub const LANGUAGES: [&str; 51] = [
    "ar", "az", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "fa", "fi", "fr", "he", "hi",
    "hr", "ht", "hu", "id", "is", "it", "ja", "ko", "la", "lt", "ms", "ne", "nl", "no", "pa", "pl",
    "pt", "ro", "ru", "sa", "sk", "sr", "sv", "sw", "ta", "te", "th", "tl", "tr", "uk", "ur", "vi",
    "yue", "zh", "unknown",
];

/// Validated metadata of a song besides caption and lyrics; `None` = not given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SongMetadata {
    /// Beats per minute.
    pub bpm: Option<u32>,
    /// Key, such as `F# minor`.
    pub keyscale: Option<String>,
    /// Time signature, such as `4` or `6/8`.
    pub timesignature: Option<String>,
    /// A code of [`LANGUAGES`].
    pub vocal_language: Option<&'static str>,
    /// Length in seconds.
    pub duration: Option<f64>,
}

impl SongMetadata {
    /// Reads the metadata of a request's words.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::BadValue`] or [`SongError::UnknownLanguage`].
    pub fn of(words: &Words, notices: &mut Vec<Notice>) -> Result<Self, Error> {
        let key = words.keyscale.as_deref().map(keyscale).transpose()?;
        if let Some(key) = key.filter(|key| !is_keyscale(key)) {
            notices.push(Notice(format!(
                "the key `{}` does not look like `F# minor` or `C major`; the model gets it as it is",
                shortened(key)
            )));
        }
        Ok(Self {
            bpm: words.bpm.map(bpm).transpose()?,
            keyscale: key.map(str::to_owned),
            timesignature: words.timesignature.as_deref().map(timesignature).transpose()?,
            vocal_language: words.vocal_language.as_deref().map(vocal_language).transpose()?,
            duration: words.duration.map(duration).transpose()?,
        })
    }
}

/// Checks beats per minute against the range that the model was trained on.
pub(crate) fn bpm(value: i64) -> Result<u32, Error> {
    whole("bpm", value, 30, 300)
}

/// Checks the length of a song in seconds.
pub(crate) fn duration(seconds: f64) -> Result<f64, Error> {
    above("duration", seconds, 0.0, MOST_SECONDS)
}

/// Returns the language code as the model knows it.
pub(crate) fn vocal_language(code: &str) -> Result<&'static str, Error> {
    let wanted = code.trim().to_ascii_lowercase();
    if let Some(known) = LANGUAGES.into_iter().find(|known| *known == wanted) {
        return Ok(known);
    }
    // `en-US` and `english` mean `en`; also suggest codes that differ by one edit.
    let begins = |known: &&str| known.len() <= 3 && wanted.starts_with(*known);
    let looks_alike = |known: &&str| strsim::osa_distance(known, &wanted) <= 1;
    let mut near: Vec<_> = LANGUAGES.into_iter().filter(begins).collect();
    near.extend(LANGUAGES.into_iter().filter(|k| looks_alike(k) && !begins(k)).take(5));
    Err(SongError::UnknownLanguage { code: shortened(code), near }.into())
}

/// Returns `2`, `3`, `4` or `6`, or a number with a denominator, verbatim.
pub(crate) fn timesignature(text: &str) -> Result<String, Error> {
    let text = text.trim();
    let known = match text.split_once('/') {
        Some((beats, "2" | "4" | "8" | "16")) => matches!(beats.parse::<u32>(), Ok(1..=32)),
        Some(_) => false,
        None => matches!(text, "2" | "3" | "4" | "6"),
    };
    if known {
        return Ok(text.to_owned());
    }
    let why = "use 2, 3, 4 or 6, or a fraction such as 6/8".into();
    Err(Error::BadValue { field: "timesignature", value: shortened(text), why, near: None })
}

/// Returns a key as written if it is a safe prompt value: short, on one line, and without special
/// tokens of the language model.
pub(crate) fn keyscale(key: &str) -> Result<&str, Error> {
    text("keyscale", key)?;
    let key = key.trim();
    let refused = |value, why: &str| {
        Err(Error::BadValue { field: "keyscale", value, why: why.to_owned(), near: None })
    };
    if key.is_empty() {
        return refused(String::new(), "it is empty; leave it out for any key");
    }
    let is_one_value =
        key.chars().count() <= 100 && !key.contains("<|") && !key.chars().any(char::is_control);
    if !is_one_value {
        return refused(shortened(key), "a key is a note and a mode, such as F# minor");
    }
    Ok(key)
}

/// True if `text` is a key that the model was trained on: `F# minor`, `B♭ major`.
pub fn is_keyscale(text: &str) -> bool {
    keyscales().any(|key| key == text)
}

/// Returns the 70 keys of the training data.
pub(crate) fn keyscales() -> impl Iterator<Item = String> {
    let accidentals = ["", "#", "b", "♯", "♭"];
    ('A'..='G').flat_map(move |note| {
        accidentals.into_iter().flat_map(move |accidental| {
            ["major", "minor"].map(|mode| format!("{note}{accidental} {mode}"))
        })
    })
}

#[cfg(test)]
mod tests;
