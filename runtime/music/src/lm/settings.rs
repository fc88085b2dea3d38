//! Settings of the language model: sampling, and the parts that it may decide.

#[cfg(test)]
mod tests;

use acestep_engine::{
    Error, Notice,
    check::{self, choice, real, whole},
    error::shortened,
};

use super::{
    compose::Ask,
    constrain::Phase,
    prompt::{self, PromptStyle},
    sample::max_new_tokens,
};
use crate::{
    Request,
    plan::{MOST_SECONDS, SongMetadata},
};

const MOST_TEMPERATURE: f64 = 2.0;
const MOST_CFG_SCALE: f64 = 10.0;
/// More than the size of any vocabulary or context.
const MOST_TOKENS: u32 = 1_000_000;
const MOST_REPETITION_PENALTY: f64 = 2.0;
/// As acestep.cpp; upstream uses 4096, too few for the prompt and the codes of ten minutes.
const MAX_SEQ: usize = 8192;
const CODES_A_SECOND: f64 = 5.0;
/// MemoryInfo for the instructions with a short caption, and for a few words of answer.
const LEAST_SEQ: u32 = 128;

/// Use of the language model for a song.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// It does not run.
    Off,
    /// It decides metadata and writes texts, but no codes.
    Metadata,
    /// It also writes audio codes.
    Codes,
}

impl Thinking {
    /// Returns the use for a request, by upstream's rule if there is one.
    ///
    /// With codes or a source song, the model does not run. (Upstream also plans `lego` and
    /// `complete`, whose codes then replace the source.) By default the model of a `tiny` song is
    /// off, because it is a random network and its decisions are nonsense. With `thinking` false,
    /// explicit requests still work (`use_cot_*`, or an `lm_mode` that writes texts); upstream
    /// calls this the task `dit`.
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

/// True if `lm_mode` requests caption and lyrics.
fn writes_texts(request: &Request) -> bool {
    request.lm_mode.as_deref().is_some_and(|mode| mode != "generate")
}

/// Returns the task of the language model: from `lm_mode`, or else from the open fields.
///
/// # Errors
/// [`Error::RequestValue`] for an unknown mode.
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

/// Settings of the language model from a request, all decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Sampling temperature; 0 = greedy.
    pub temperature: f32,
    /// Guidance scale for codes; 1 = no guidance. Text is written without guidance, which was found
    /// to cut captions short (upstream, spring 2026).
    pub cfg_scale: f32,
    /// Number of most likely tokens to sample from; `None` = all.
    pub top_k: Option<usize>,
    /// Probability mass of the tokens to sample from; `None` = all.
    pub top_p: Option<f32>,
    /// Penalty for tokens that were written before; 1 = none.
    pub repetition_penalty: f32,
    /// Negative prompt of the guidance; `None` = the default of the prompt style.
    pub negative_prompt: Option<String>,
    /// True if missing metadata are decided.
    pub cot_metas: bool,
    /// True if the caption is rewritten.
    pub cot_caption: bool,
    /// True if a missing language is decided.
    pub cot_language: bool,
    /// True to restrict the output to text that can be parsed.
    pub constrained: bool,
    /// Format of the prompts.
    pub prompt_style: PromptStyle,
    /// Most tokens of each answer; `None` = as many as its length needs.
    pub max_tokens: Option<usize>,
    /// Most tokens of prompt and answer together.
    pub max_seq: usize,
    /// Seeds of the songs; the first one is also used for metadata and lyrics.
    pub seeds: Vec<u64>,
}

impl Settings {
    /// Fills in upstream's defaults, and checks the values. The song's values are checked too: a
    /// number out of range must not cost a run of the model.
    ///
    /// `seeds` has one seed per song.
    ///
    /// # Errors
    /// An [`Error`] that names the field, its value and the allowed values.
    pub fn resolve(
        request: &Request,
        seeds: &[u64],
        notices: &mut Vec<Notice>,
    ) -> Result<Self, Error> {
        check_song(request)?;
        let number = |field, value: Option<f64>, default, low, high| {
            real(field, value.unwrap_or(default), low, high).map(|x| x as f32)
        };
        let cfg_scale = number("lm_cfg_scale", request.lm_cfg_scale, 2.0, 1.0, MOST_CFG_SCALE)?;
        let top_k = whole("lm_top_k", request.lm_top_k.unwrap_or(0), 0, MOST_TOKENS)?;
        let top_p = number("lm_top_p", request.lm_top_p, 0.9, 0.0, 1.0)?;
        let penalty = request.lm_repetition_penalty.unwrap_or(1.0);
        let penalty = real("lm_repetition_penalty", penalty, 0.1, MOST_REPETITION_PENALTY)?;
        let styles = PromptStyle::ALL.map(|style| (style.name(), style));
        let prompt_style = choice("lm_prompt_style", request.lm_prompt_style.as_deref(), &styles)?;
        let negative_prompt = negative_prompt(request, prompt_style)?;
        if negative_prompt.is_some() && cfg_scale == 1.0 {
            let text = "`lm_negative_prompt` is not used: `lm_cfg_scale: 1` is no guidance";
            notices.push(Notice(text.into()));
        }
        // With `thinking` false, only explicitly requested fields are decided.
        let by_default = request.thinking != Some(false) || writes_texts(request);
        // Below it, a division turns ordinary scores into infinities; greedy is equivalent.
        const LEAST_TEMPERATURE: f32 = 1e-3;
        Ok(Self {
            temperature: number(
                "lm_temperature",
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

    /// Sets limits on the tokens. They are not part of a request: they limit the size of the
    /// answer, not its content.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]
    pub fn bounded(self, max_tokens: Option<i64>, max_seq: Option<i64>) -> Result<Self, Error> {
        let max_tokens = max_tokens.map(|n| whole("max_tokens", n, 1, MOST_TOKENS)).transpose()?;
        let max_seq = max_seq.map(|n| whole("max_seq", n, LEAST_SEQ, MOST_TOKENS)).transpose()?;
        Ok(Self {
            max_tokens: max_tokens.map(|n| n as usize).or(self.max_tokens),
            max_seq: max_seq.map_or(self.max_seq, |n| n as usize),
            ..self
        })
    }

    /// Returns the token limits of the text phase, and of the codes phase for a song of `seconds`.
    pub fn token_limits(&self, seconds: Option<f64>) -> [usize; 2] {
        let limit = |phase, seconds| {
            let longest = MOST_SECONDS as u32;
            max_new_tokens(seconds, phase, self.max_tokens, self.max_seq, longest)
        };
        [limit(Phase::Cot, None), limit(Phase::Codes, seconds)]
    }

    /// Returns the number of rows of the codes phase: one per song, twice that with guidance.
    pub fn code_rows(&self) -> usize {
        self.seeds.len() * if self.cfg_scale > 1.0 { 2 } else { 1 }
    }

    /// Refuses codes for a song that is shorter than one code, and for several songs that could
    /// differ in length. Songs are made together, so that each network is loaded once.
    ///
    /// # Errors
    /// [`Error::Conflict`] that says how to fix the length.
    pub fn check_lengths(&self, request: &Request, ask: &Ask) -> Result<(), Error> {
        if let Some(seconds) = request.duration.filter(|seconds| seconds * CODES_A_SECOND < 1.0) {
            let least = 1.0 / CODES_A_SECOND;
            return Err(Error::Conflict(format!(
                "audio codes are {least} s each, but the song has {seconds} s: make it longer, or \
                 leave them out with `thinking: false`, in a plan with `codes: false`"
            )));
        }
        let songs = self.seeds.len();
        if songs < 2 {
            return Ok(());
        }
        if !self.constrained {
            return Err(Error::Conflict(format!(
                "{songs} songs are made with one length, which `use_constrained_decoding: false` does not \
                 hold the language model to: leave it out, or make one song"
            )));
        }
        if request.duration.is_none() && *ask == Ask::Plan && !self.cot_metas {
            return Err(Error::Conflict(format!(
                "{songs} songs are made with one length, which `use_cot_metas: false` leaves open: \
                 give a `duration`, or make one song"
            )));
        }
        Ok(())
    }
}

/// Checks the parts of the song that the language model reads.
fn check_song(request: &Request) -> Result<(), Error> {
    for (field, text) in [("caption", &request.caption), ("lyrics", &request.lyrics)] {
        text.as_ref().map(|text| check::text(field, text)).transpose()?;
    }
    // The plan of the song gives the notices.
    SongMetadata::of(request, &mut Vec::new()).map(drop)
}

/// Returns the negative prompt, if the style uses this text.
fn negative_prompt(request: &Request, style: PromptStyle) -> Result<Option<String>, Error> {
    let Some(text) = &request.lm_negative_prompt else { return Ok(None) };
    check::text("lm_negative_prompt", text)?;
    let text = match style {
        PromptStyle::AcestepCpp => Some(text.as_str()).filter(|text| !text.is_empty()),
        PromptStyle::Open | PromptStyle::Closed | PromptStyle::Upstream => {
            prompt::meaningful_negative(text)
        }
    };
    Ok(text.map(str::to_owned))
}
