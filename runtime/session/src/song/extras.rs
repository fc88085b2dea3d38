//! Extra results for finished songs: times of lines, scores.

use acestep_engine::{Error, Notice, check};
use acestep_import::AceStep;
use acestep_music::{
    Aligned, Extras, Song,
    align::{
        Line,
        attention_maps::{self, AlignmentScores},
        lrc,
    },
    lm::pmi::{LanguageScore, SCALE},
    plot,
};
use serde_json::{Map, Value, json};

use crate::SessionError;

/// The wanted extra results.
#[derive(Debug, Clone, Copy)]
pub struct ExtraOptions {
    /// Results of the alignment of words and song.
    pub alignment: Extras,
    /// True if the language model scores the songs, if there is one.
    pub judges: bool,
    /// Difference in nats per token that counts as large.
    pub scale: f64,
}

impl ExtraOptions {
    /// Returns times of lines, and scores with their `scale`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn new(lines: bool, score: bool, scale: Option<f64>) -> Result<Self, Error> {
        let scale = check::real("score_scale", scale.unwrap_or(SCALE), 0.001, 100.0)?;
        Ok(Self { alignment: Extras { lines, score }, judges: score, scale })
    }

    /// Refuses what is impossible with the model in `folder`.
    pub(super) fn check(
        &mut self,
        has_condition: bool,
        folder: &AceStep,
        notices: &mut Vec<Notice>,
    ) -> Result<(), Error> {
        if !self.alignment.anything() {
            return Ok(());
        }
        if has_condition {
            return Err(SessionError::NoWordsInCondition.into());
        }
        match attention_maps::heads(&folder.configs().dit) {
            Err(unknown) if self.alignment.lines => return Err(unknown),
            Err(_) => {
                let text = "the heads of this model that follow the lyrics are not known: its \
                            words are not scored";
                notices.push(Notice(text.into()));
                self.alignment.score = false;
            }
            Ok(_) => (),
        }
        Ok(())
    }
}

/// Results for the songs, one per song; empty if nothing was wanted.
#[derive(Debug, Default)]
pub struct ExtraResults {
    /// The results of the alignment.
    pub aligned: Vec<Aligned>,
    /// The language model's scores.
    pub judged: Vec<LanguageScore>,
    /// Reason why the language model scored nothing.
    pub unjudged: Option<String>,
}

/// A song and its scores.
#[derive(Debug)]
pub struct SongScores<'a> {
    /// The number of the song, from 0.
    pub index: usize,
    /// The language model's score.
    pub judged: Option<&'a LanguageScore>,
    /// The scores of the alignment.
    pub words: Option<AlignmentScores>,
}

impl SongScores<'_> {
    /// Returns the language model's score, or the alignment score of the words if there is none.
    pub fn key(&self) -> Option<f64> {
        self.judged.and_then(LanguageScore::total).or(self.words.map(|words| words.song.score))
    }
}

impl ExtraResults {
    /// Creates the results from the alignment.
    ///
    /// # Errors
    /// The error of the alignment.
    pub fn of(aligned: Result<Vec<Aligned>, Error>) -> Result<Self, Error> {
        Ok(Self { aligned: aligned?, ..Self::default() })
    }

    /// Adds the language model's scores; a song that is too long for it is no error.
    ///
    /// # Errors
    /// All others.
    pub fn take_judged(&mut self, judged: Result<Vec<LanguageScore>, Error>) -> Result<(), Error> {
        match judged {
            Ok(judged) => self.judged = judged,
            Err(error @ Error::PromptTooLong { .. }) => self.unjudged = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns the lines of song `index` with their times.
    fn lines(&self, index: usize) -> &[Line] {
        self.aligned.get(index).map_or(&[], |aligned| &aligned.lines)
    }

    /// Returns the file with the extra result `kind` of song `index`: `lrc`, `vtt`, or `plot` with a
    /// title. A song without words has no times of lines.
    ///
    /// # Errors
    /// [`Error::Picture`].
    pub fn file(
        &self,
        kind: &str,
        index: usize,
        song: &Song,
        title: &str,
    ) -> Result<Option<Vec<u8>>, Error> {
        let lines = self.lines(index);
        Ok(Some(match kind {
            "plot" => plot::draw(&plot::PlotInput { audio: &song.audio, title, lines }).to_png()?,
            _ if lines.is_empty() => return Ok(None),
            "lrc" => (lrc::lrc(lines) + "\n").into_bytes(),
            _ => lrc::vtt(lines, song.audio.seconds()).into_bytes(),
        }))
    }

    /// Returns the `songs`, numbers from 0, best first; equal scores keep the order.
    pub fn rows(&self, songs: impl Iterator<Item = usize>) -> Vec<SongScores<'_>> {
        let row = |index: usize| SongScores {
            index,
            judged: self.judged.get(index),
            words: self.aligned.get(index).and_then(|aligned| aligned.score),
        };
        let mut rows: Vec<_> = songs.map(row).collect();
        let key = |row: &SongScores<'_>| row.key().unwrap_or(f64::NEG_INFINITY);
        rows.sort_by(|a, b| key(b).total_cmp(&key(a)));
        rows
    }

    /// Returns the results of one song as a JSON object with the wanted keys.
    pub fn to_json(&self, extras: &ExtraOptions, index: usize) -> Map<String, Value> {
        let mut object = Map::new();
        if extras.alignment.lines && index < self.aligned.len() {
            let line =
                |line: &Line| json!({"start": line.start, "end": line.end, "text": line.text});
            object.insert("lines".into(), self.lines(index).iter().map(line).collect());
        }
        if extras.judges {
            let words = self.aligned.get(index).and_then(|aligned| aligned.score);
            object.insert("scores".into(), scores_json(self.judged.get(index), words));
        }
        object
    }

    /// Returns notices about wanted results that are impossible.
    pub(super) fn missing(&self, extras: &ExtraOptions, has_codes: bool) -> Vec<Notice> {
        let mut notices = Vec::new();
        // The list is empty if the alignment was not reached or failed.
        let no_lines = self.aligned.iter().all(|aligned| aligned.lines.is_empty());
        if extras.alignment.lines && no_lines && !self.aligned.is_empty() {
            notices.push(Notice("the song has no words: no times of lines are written".into()));
        }
        if extras.judges && !has_codes {
            let text = "the song has no audio codes: the language model has nothing to score";
            notices.push(Notice(text.into()));
        }
        if let Some(why) = &self.unjudged {
            notices.push(Notice(format!("the language model scores nothing: {why}")));
        }
        notices
    }
}

/// Returns all scores of a song as JSON.
fn scores_json(judged: Option<&LanguageScore>, words: Option<AlignmentScores>) -> Value {
    let judged = judged.map(|of| {
        let metadata: Map<String, Value> =
            of.metadata.iter().map(|&(key, score)| (key.to_owned(), score.into())).collect();
        json!({
            "score": of.total(),
            "caption": of.caption,
            "lyrics": of.lyrics,
            "metadata": metadata,
        })
    });
    json!({
        "language_model": judged,
        "words": words.map(|words| words.song),
        "words_in_outline": words.map(|words| words.outline),
    })
}
