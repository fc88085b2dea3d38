//! How the language model draws, and what it may decide.

#[cfg(test)]
mod tests;

use super::{
    compose::Ask,
    constrain::Phase,
    prompt::{self, PromptStyle},
    sample::max_new_tokens,
};
use crate::{
    Error, Notice, Request,
    error::shortened,
    plan::{
        MOST_SECONDS, SongMetadata,
        limits::{self, choice, real, whole},
    },
};

const MOST_TEMPERATURE: f64 = 2.0;
const MOST_CFG_SCALE: f64 = 10.0;
/// More tokens than any vocabulary has, and than any model reads.
const MOST_TOKENS: u32 = 1_000_000;
const MOST_REPETITION_PENALTY: f64 = 2.0;
/// acestep.cpp's; upstream takes 4096, too few for the prompt and the codes of ten minutes.
const MAX_SEQ: usize = 8192;
const CODES_A_SECOND: f64 = 5.0;
/// Room for the instructions around a short caption, and a few words of answer.
const LEAST_SEQ: u32 = 128;

/// Whether the language model takes part in a song.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// It does not.
    Off,
    /// It decides metadata and writes texts, and no codes.
    Metadata,
    /// It also writes the audio codes.
    Codes,
}

impl Thinking {
    /// Upstream's rule, where it has one.
    ///
    /// Codes that are there already leave nothing to do, nor does a song that is followed: upstream
    /// asks for a plan of `lego` and `complete` too, whose codes then stand for the song. Without being asked the model of a `tiny`
    /// song stays off: it is a random network, and what it decides is nonsense. Where it is told
    /// not to think, it still does what is asked for by name (`use_cot_*`, or an `lm_mode` in which
    /// it writes the texts); upstream calls that the task `dit`.
    pub fn of(request: &Request, is_tiny: bool) -> Self {
        if request.has_codes() || request.follows_source() {
            return Self::Off;
        }
        let Request { use_cot_metas, use_cot_caption, use_cot_language, .. } = request;
        let by_name = [use_cot_metas, use_cot_caption, use_cot_language].contains(&&Some(true))
            || writes_texts(request);
        match request.thinking {
            Some(true) => Self::Codes,
            Some(false) if by_name => Self::Metadata,
            None if !is_tiny => Self::Codes,
            Some(false) | None => Self::Off,
        }
    }
}

/// Whether `lm_mode` asks for caption and lyrics.
fn writes_texts(request: &Request) -> bool {
    request.lm_mode.as_deref().is_some_and(|mode| mode != "generate")
}

/// What the language model is asked for: by `lm_mode`, or else by what is left open.
///
/// # Errors
/// [`Error::RequestValue`] for a mode that there is not.
pub fn ask(request: &Request) -> Result<Ask, Error> {
    match request.lm_mode.as_deref() {
        None | Some("generate") => Ok(Ask::of(request)),
        Some("inspire") => Ok(Ask::Inspire),
        Some("format") => Ok(Ask::Format),
        Some(other) => Err(Error::RequestValue {
            key: "lm_mode".into(),
            value: format!("`{}`", shortened(other)),
            expected: "it must be one of generate, inspire, format".into(),
        }),
    }
}

/// Everything about the language model that a request decides, with nothing left open.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Spread of the draws; 0 takes the likeliest token.
    pub temperature: f32,
    /// Strength of guidance while codes are written; 1 = none. Text is written without: guidance
    /// was found to cut captions short (upstream, spring 2026).
    pub cfg_scale: f32,
    /// Only so many of the likeliest tokens; `None` = all.
    pub top_k: Option<usize>,
    /// Only the likeliest tokens that together have this probability; `None` = all.
    pub top_p: Option<f32>,
    /// Divides the scores of what was written before; 1 = not.
    pub repetition_penalty: f32,
    /// What guidance leads away from; `None` = from the same without its plan.
    pub negative_prompt: Option<String>,
    /// Whether missing metadata are decided.
    pub cot_metas: bool,
    /// Whether the caption is written anew.
    pub cot_caption: bool,
    /// Whether a missing language is decided.
    pub cot_language: bool,
    /// Whether only what can be read back may be written.
    pub constrained: bool,
    /// Whose prompts are written.
    pub prompt_style: PromptStyle,
    /// Tokens that each answer may have; `None` = as many as its length needs.
    pub max_tokens: Option<usize>,
    /// Tokens of prompt and answer together.
    pub max_seq: usize,
    /// Seeds of the items; the first also draws metadata and lyrics.
    pub seeds: Vec<u64>,
}

impl Settings {
    /// Takes upstream's defaults for what `request` leaves open, and checks what it says, also of
    /// the song: a number out of range must not cost a run of the model.
    ///
    /// `seeds` are those of the songs, one for each.
    ///
    /// # Errors
    /// An [`Error`] that names the option, its value and what is allowed.
    pub fn resolve(
        request: &Request,
        seeds: &[u64],
        notices: &mut Vec<Notice>,
    ) -> Result<Self, Error> {
        check_song(request)?;
        let number = |flag, value: Option<f64>, default, low, high| {
            real(flag, value.unwrap_or(default), low, high).map(|x| x as f32)
        };
        let cfg_scale = number("lm-cfg-scale", request.lm_cfg_scale, 2.0, 1.0, MOST_CFG_SCALE)?;
        let top_k = whole("lm-top-k", request.lm_top_k.unwrap_or(0), 0, MOST_TOKENS)?;
        let top_p = number("lm-top-p", request.lm_top_p, 0.9, 0.0, 1.0)?;
        let penalty = request.lm_repetition_penalty.unwrap_or(1.0);
        let penalty = real("lm-repetition-penalty", penalty, 0.1, MOST_REPETITION_PENALTY)?;
        let styles = PromptStyle::ALL.map(|style| (style.name(), style));
        let prompt_style = choice("lm-prompt-style", request.lm_prompt_style.as_deref(), &styles)?;
        let negative_prompt = negative_prompt(request, prompt_style)?;
        if negative_prompt.is_some() && cfg_scale == 1.0 {
            let text = "--lm-negative-prompt is not used: a --lm-cfg-scale of 1 is no guidance";
            notices.push(Notice(text.into()));
        }
        // Where it is told not to think, only what is asked for by name is decided.
        let by_default = request.thinking != Some(false) || writes_texts(request);
        // Below, a division makes infinities of ordinary scores; the likeliest token wins anyway.
        const LEAST_TEMPERATURE: f32 = 1e-3;
        Ok(Self {
            temperature: number(
                "lm-temperature",
                request.lm_temperature,
                0.85,
                0.0,
                MOST_TEMPERATURE,
            )
            .map(|t| if t < LEAST_TEMPERATURE { 0.0 } else { t })?,
            cfg_scale,
            top_k: (top_k > 0).then_some(top_k as usize),
            top_p: (top_p > 0.0 && top_p < 1.0).then_some(top_p),
            repetition_penalty: penalty as f32,
            negative_prompt,
            cot_metas: request.use_cot_metas.unwrap_or(by_default),
            cot_caption: request.use_cot_caption.unwrap_or(by_default),
            cot_language: request.use_cot_language.unwrap_or(by_default),
            constrained: request.use_constrained_decoding.unwrap_or(true),
            prompt_style,
            max_tokens: None,
            max_seq: MAX_SEQ,
            seeds: match request.lm_seed {
                Some(first) => (0..seeds.len() as u64).map(|i| first.wrapping_add(i)).collect(),
                None => seeds.to_vec(),
            },
        })
    }

    /// The same with bounds on the tokens, which no request holds: they decide what fits, not what
    /// is written.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]
    pub fn bounded(self, max_tokens: Option<i64>, max_seq: Option<i64>) -> Result<Self, Error> {
        let max_tokens = max_tokens.map(|n| whole("max-tokens", n, 1, MOST_TOKENS)).transpose()?;
        let max_seq = max_seq.map(|n| whole("max-seq", n, LEAST_SEQ, MOST_TOKENS)).transpose()?;
        Ok(Self {
            max_tokens: max_tokens.map(|n| n as usize).or(self.max_tokens),
            max_seq: max_seq.map_or(self.max_seq, |n| n as usize),
            ..self
        })
    }

    /// The most tokens that are written in words, and as codes of a song of `seconds`.
    pub fn token_limits(&self, seconds: Option<f64>) -> [usize; 2] {
        let limit = |phase, seconds| {
            let longest = MOST_SECONDS as u32;
            max_new_tokens(seconds, phase, self.max_tokens, self.max_seq, longest)
        };
        [limit(Phase::Cot, None), limit(Phase::Codes, seconds)]
    }

    /// Rows in which codes are written: one for each song, twice with guidance.
    pub fn code_rows(&self) -> usize {
        self.seeds.len() * if self.cfg_scale > 1.0 { 2 } else { 1 }
    }

    /// Refuses to write codes for a song that is shorter than one, and for several that could
    /// differ in length: they are made together, so that each network is read once.
    ///
    /// # Errors
    /// [`Error::Conflict`] that says what would decide the length.
    pub fn check_lengths(&self, request: &Request, ask: &Ask) -> Result<(), Error> {
        if let Some(seconds) = request.duration.filter(|seconds| seconds * CODES_A_SECOND < 1.0) {
            let least = 1.0 / CODES_A_SECOND;
            return Err(Error::Conflict(format!(
                "audio codes are {least} s each, but the song has {seconds} s: make it longer, or \
                 leave them out with `--no-thinking`, in a plan with `--no-codes`"
            )));
        }
        let songs = self.seeds.len();
        if songs < 2 {
            return Ok(());
        }
        if !self.constrained {
            return Err(Error::Conflict(format!(
                "{songs} songs are made with one length, which `--no-constrained-decoding` does not \
                 hold the language model to: leave it out, or make one song"
            )));
        }
        if request.duration.is_none() && *ask == Ask::Plan && !self.cot_metas {
            return Err(Error::Conflict(format!(
                "{songs} songs are made with one length, which `--no-use-cot-metas` leaves open: \
                 give a --duration, or make one song"
            )));
        }
        Ok(())
    }
}

/// Checks what the language model reads of the song.
fn check_song(request: &Request) -> Result<(), Error> {
    for (flag, text) in [("caption", &request.caption), ("lyrics", &request.lyrics)] {
        text.as_ref().map(|text| limits::text(flag, text)).transpose()?;
    }
    // What is said of them is said when the song is planned.
    SongMetadata::of(request, &mut Vec::new()).map(drop)
}

/// The text that guidance leads away from. acestep.cpp takes every text for one, the others those
/// that say something.
fn negative_prompt(request: &Request, style: PromptStyle) -> Result<Option<String>, Error> {
    let Some(text) = &request.lm_negative_prompt else { return Ok(None) };
    limits::text("lm-negative-prompt", text)?;
    let text = match style {
        PromptStyle::AcestepCpp => Some(text.as_str()).filter(|text| !text.is_empty()),
        PromptStyle::Open | PromptStyle::Closed | PromptStyle::Upstream => {
            prompt::meaningful_negative(text)
        }
    };
    Ok(text.map(str::to_owned))
}
