//! What is known of a piece, and the texts that say it to the networks.

use acestep_runtime::{
    lm::{
        cot::cot,
        metadata::{Metadata, Scalar},
        prompt as chat,
    },
    prompt::{self, Metas},
};
use serde::{Deserialize, Serialize};

use crate::composer::Piece;

/// The labels of a piece, as a request has them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Labels {
    /// What it is like.
    pub caption: String,
    /// Tags of its sections.
    pub lyrics: String,
    /// Beats a minute.
    pub bpm: u32,
    /// Such as `F# minor`.
    pub keyscale: String,
    /// Beats a bar, `3` or `4`.
    pub timesignature: String,
    /// Seconds.
    pub duration: f64,
    /// What the composer calls its style; the networks are told only the caption.
    pub style: String,
}

/// The language of songs that nobody sings.
pub const LANGUAGE: &str = "unknown";

impl Labels {
    /// Those of a composed piece.
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

    /// Everything that a caption prompt states.
    pub fn metas(&self) -> Metas {
        Metas {
            bpm: Some(self.bpm),
            timesignature: Some(self.timesignature.clone()),
            keyscale: Some(self.keyscale.clone()),
            duration: Some(prompt::duration_text(self.duration)),
        }
    }

    /// The caption prompt with `metas`, which may lack some.
    pub fn caption_prompt(&self, instruction: &str, metas: &Metas) -> String {
        prompt::caption_prompt(instruction, &self.caption, &metas.to_text())
    }

    /// The lyric prompt.
    pub fn lyric_prompt(&self) -> String {
        prompt::lyric_prompt(LANGUAGE, &self.lyrics)
    }

    /// The plan that a language model writes before the codes.
    pub fn plan(&self) -> String {
        cot(&Metadata {
            caption: Some(self.caption.clone()),
            language: Some(LANGUAGE.to_owned()),
            ..self.given()
        })
    }

    /// The plan of a request that leaves none of its numbers open.
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

    /// What a language model is asked for a song of `wording`, and what it shall answer before the
    /// codes.
    pub fn generation(&self, wording: &str) -> [String; 2] {
        [chat::plan(wording, &self.lyrics), format!("{}\n\n", self.plan())]
    }
}
