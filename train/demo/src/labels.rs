//! Labels of a piece, and the texts that state them to the networks.

use acestep_music::{
    lm::{
        cot::cot,
        metadata::{Metadata, Scalar},
        prompt as chat,
    },
    prompt::{self, Metas},
};
use serde::{Deserialize, Serialize};

use crate::composer::Piece;

/// The labels of a piece, in the form of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Labels {
    /// The description.
    pub caption: String,
    /// Tags of its sections.
    pub lyrics: String,
    /// Beats per minute.
    pub bpm: u32,
    /// Such as `F# minor`.
    pub keyscale: String,
    /// Beats per bar, `3` or `4`.
    pub timesignature: String,
    /// Length in seconds.
    pub duration: f64,
    /// The composer's name of the style; the networks only get the caption.
    pub style: String,
}

/// Language of instrumental songs.
pub const LANGUAGE: &str = "unknown";

impl Labels {
    /// Returns the labels of a composed piece.
    pub fn of(piece: &Piece) -> Self {
        Self {
            caption: piece.caption.clone(),
            lyrics: piece.lyrics.clone(),
            bpm: piece.bpm,
            keyscale: piece.keyscale.to_string(),
            timesignature: piece.timesignature.beats().to_string(),
            duration: piece.duration,
            style: piece.style.names()[0].to_owned(),
        }
    }

    /// Returns all metadata of a caption prompt.
    pub fn metas(&self) -> Metas {
        Metas {
            bpm: Some(self.bpm),
            timesignature: Some(self.timesignature.clone()),
            keyscale: Some(self.keyscale.clone()),
            duration: Some(prompt::duration_text(self.duration)),
        }
    }

    /// Formats the caption prompt with `metas`, which may be incomplete.
    pub fn caption_prompt(&self, instruction: &str, metas: &Metas) -> String {
        prompt::caption_prompt(instruction, &self.caption, &metas.to_text())
    }

    /// Formats the lyric prompt.
    pub fn lyric_prompt(&self) -> String {
        prompt::lyric_prompt(LANGUAGE, &self.lyrics)
    }

    /// Formats the plan that a language model writes before the codes.
    pub fn plan(&self) -> String {
        cot(&Metadata {
            caption: Some(self.caption.clone()),
            language: Some(LANGUAGE.to_owned()),
            ..self.given()
        })
    }

    /// Formats the plan for a request with all metadata given.
    pub fn short_plan(&self) -> String {
        cot(&self.given())
    }

    fn given(&self) -> Metadata {
        Metadata {
            bpm: Some(Scalar::Whole(self.bpm.into())),
            duration: Some(Scalar::Whole(self.duration as i64)),
            keyscale: Some(self.keyscale.clone()),
            timesignature: Some(self.timesignature.clone()),
            ..Metadata::default()
        }
    }

    /// Returns the language model's prompt for a song of `wording`, and its expected answer before
    /// the codes.
    pub fn generation(&self, wording: &str) -> [String; 2] {
        [chat::plan(wording, &self.lyrics), format!("{}\n\n", self.plan())]
    }
}
