//! Metadata of a song, as the language model writes it.
//!
//! Source: the dictionary that upstream's `parse_lm_output` returns, and its `has_all_metas`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    python,
    request::words::{self, SongMetadata},
};

/// A value of upstream's dictionary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// A whole number; the model writes only these.
    Whole(i64),
    /// A fraction from the user, such as 61.5 seconds.
    Real(f64),
    /// A text, or a whole number beyond i64.
    Text(String),
}

impl Scalar {
    /// Returns the value if it is a whole number in any spelling: `120`, `120.0` or `"120"`.
    pub fn whole(&self) -> Option<i64> {
        match self {
            Self::Whole(value) => Some(*value),
            // All whole f64 up to 2^53 are exact.
            Self::Real(value) if value.fract() == 0.0 && value.abs() <= 9e15 => Some(*value as i64),
            Self::Real(_) => None,
            Self::Text(text) => python::int(text),
        }
    }

    /// Returns the value if it is a finite number in any spelling, also `61.5` and `"61.5"`.
    pub fn number(&self) -> Option<f64> {
        let number = match self {
            Self::Whole(value) => Some(*value as f64),
            Self::Real(value) => Some(*value),
            Self::Text(text) => python::strip(text).parse().ok(),
        };
        number.filter(|number| number.is_finite())
    }
}

/// The format of Python's `str`, which is also the format in the forced part of the answer.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => write!(f, "{value}"),
            Self::Real(value) => f.write_str(&python::repr(*value)),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Metadata of a song besides its lyrics; `None` = unknown.
///
/// As JSON it is upstream's dictionary: only the known keys, in alphabetical order, which is also
/// the order in which the model writes them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Beats per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bpm: Option<Scalar>,
    /// Description of the music in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
    /// Length in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Scalar>,
    /// Genres, separated by commas; parsed, but never written into a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub genres: Option<String>,
    /// Key, such as `F# minor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyscale: Option<String>,
    /// Language code, such as `en`; `unknown` is a value too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Beats per bar, such as `4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timesignature: Option<String>,
}

impl Metadata {
    /// Returns beats per minute, if they are a whole number in any spelling.
    pub fn bpm(&self) -> Option<i64> {
        self.bpm.as_ref()?.whole()
    }

    /// Returns the known values with their keys, in the order of the model's answers.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static str, Scalar)> {
        let text = |text: &Option<String>| text.clone().map(Scalar::Text);
        let all = [
            ("bpm", self.bpm.clone()),
            ("caption", text(&self.caption)),
            ("duration", self.duration.clone()),
            ("genres", text(&self.genres)),
            ("keyscale", text(&self.keyscale)),
            ("language", text(&self.language)),
            ("timesignature", text(&self.timesignature)),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value?)))
    }

    /// Returns the valid values; invalid values and keys outside the training data are left out.
    pub fn usable(&self) -> SongMetadata {
        let seconds = self.duration.as_ref().and_then(Scalar::number);
        let keyscale = self.keyscale.as_deref().map(str::trim);
        let language = self.language.as_deref();
        SongMetadata {
            bpm: self.bpm().and_then(|bpm| words::bpm(bpm).ok()),
            keyscale: keyscale.filter(|key| words::is_keyscale(key)).map(str::to_owned),
            timesignature: self
                .timesignature
                .as_deref()
                .and_then(|metre| words::timesignature(metre).ok()),
            vocal_language: language.and_then(|code| words::vocal_language(code).ok()),
            duration: seconds.and_then(|seconds| words::duration(seconds).ok()),
        }
    }

    /// True if only the codes are left to decide, as in upstream's `has_all_metas`.
    pub fn is_complete(&self) -> bool {
        self.bpm.is_some()
            && self.duration.is_some()
            && self.keyscale.is_some()
            && self.timesignature.is_some()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_goldens::golden_cases;

    /// Golden: `cot_yaml.json`, `has_all_metas`.
    #[test]
    fn a_plan_is_complete_when_upstream_says_so() {
        let cases = golden_cases("a/logic/cot_yaml.json", "has_all_metas");
        assert_eq!(cases.len(), 5);
        for case in &cases {
            // Upstream tests keys, not values, so a key with the value null counts.
            let text = |key: &str| case["in"].get(key).map(|_| String::new());
            let ours = Metadata {
                bpm: text("bpm").map(Scalar::Text),
                duration: text("duration").map(Scalar::Text),
                keyscale: text("keyscale"),
                timesignature: text("timesignature"),
                ..Metadata::default()
            };
            assert_eq!(ours.is_complete(), case["out"], "{}", case["in"]);
        }
    }

    #[test]
    fn only_values_that_make_a_song_are_usable() {
        let usable = |bpm, keyscale: &str, timesignature: &str, language: &str| {
            let metadata = Metadata {
                bpm: Some(Scalar::Whole(bpm)),
                keyscale: Some(keyscale.into()),
                timesignature: Some(timesignature.into()),
                language: Some(language.into()),
                ..Metadata::default()
            };
            metadata.usable()
        };
        let good = usable(300, "F♯ minor", "6/8", "yue");
        assert_eq!((good.bpm, good.keyscale.as_deref()), (Some(300), Some("F♯ minor")));
        assert_eq!(
            (good.timesignature.as_deref(), good.vocal_language),
            (Some("6/8"), Some("yue"))
        );
        assert_eq!(usable(301, "H minor", "5", "klingon"), SongMetadata::default());
    }

    #[test]
    fn json_has_the_keys_that_are_present_and_the_kind_of_each_number() {
        let json = json!({"bpm": 90, "duration": 61.5, "keyscale": "A minor"});
        let metadata: Metadata = serde_json::from_value(json.clone()).expect("metadata");
        assert_eq!(metadata.bpm, Some(Scalar::Whole(90)));
        assert_eq!(metadata.duration, Some(Scalar::Real(61.5)));
        assert_eq!(serde_json::to_value(&metadata).expect("JSON"), json);
        let text: Metadata = serde_json::from_value(json!({"bpm": "90", "language": null}))
            .expect("upstream's nulls are absent");
        assert_eq!(text.bpm, Some(Scalar::Text("90".into())));
        assert_eq!(text.language, None);
    }

    #[test]
    fn whole_numbers_are_whole_in_every_spelling() {
        let text = |text: &str| Scalar::Text(text.into());
        for value in [Scalar::Whole(120), Scalar::Real(120.0), text(" 120 ")] {
            assert_eq!(value.whole(), Some(120), "{value:?}");
            assert_eq!(value.number(), Some(120.0), "{value:?}");
        }
        for value in [Scalar::Real(61.5), text("61.5")] {
            assert_eq!(value.whole(), None, "{value:?}");
            assert_eq!(value.number(), Some(61.5), "{value:?}");
        }
        for value in [Scalar::Real(f64::NAN), text("fast"), text("inf")] {
            assert_eq!((value.whole(), value.number()), (None, None), "{value:?}");
        }
        assert_eq!(Scalar::Real(f64::MAX).whole(), None);
        assert_eq!(Scalar::Real(61.0).to_string(), "61.0");
    }
}
