//! Settings of the language model: its use, sampling, and the parts that it may decide.

mod style;

use acestep_engine::{
    Error, Notice,
    check::{self, choice, real, whole},
};

use super::{
    Request,
    topic::topic,
    words::{SongMetadata, Words},
};
use crate::python::strip;

pub use style::PromptStyle;

topic! {
    /// Settings of the language model.
    Language {
        /// True if the language model decides open settings and writes audio codes. Its own settings
        /// follow; a [`Plan`](crate::Plan) does not read them.
        thinking: bool = Flag("think"),
        /// The language model: a short name, a directory name or a path.
        lm_model: String = Model("lm_model_path"),
        /// `generate`, `inspire` (`caption` is a wish) or `format` (caption and lyrics are drafts).
        lm_mode: String = Mode,
        /// Sampling temperature; 0 = greedy.
        lm_temperature: f64 = Number,
        /// Guidance scale of the language model; 1 = no guidance.
        lm_cfg_scale: f64 = Number,
        /// Number of most likely tokens to sample from; 0 = all.
        lm_top_k: i64 = Count,
        /// Probability mass of the tokens to sample from; 0 and 1 = all.
        lm_top_p: f64 = Number,
        /// Repetition penalty; 1 = none.
        lm_repetition_penalty: f64 = Number,
        /// Negative prompt of the guidance.
        lm_negative_prompt: String = Text,
        /// Seed of the language model, if it differs from the songs' seeds.
        lm_seed: u64 = Seed,
        /// True if the language model decides missing metadata.
        use_cot_metas: bool = Flag,
        /// True if the language model rewrites the caption.
        use_cot_caption: bool = Flag,
        /// True if the language model decides a missing language.
        use_cot_language: bool = Flag("cot_language"),
        /// True to restrict its output to text that can be parsed.
        use_constrained_decoding: bool = Flag("constrained_decoding", "constrained"),
        /// Prompt format: `open`, `closed`, `upstream` or `acestep.cpp`.
        lm_prompt_style: String = Word,
    }
}

const MOST_TEMPERATURE: f64 = 2.0;
const MOST_CFG_SCALE: f64 = 10.0;
/// More than the size of any vocabulary or context.
const MOST_TOKENS: u32 = 1_000_000;
const MOST_REPETITION_PENALTY: f64 = 2.0;
/// As acestep.cpp; upstream uses 4096, too few for the prompt and the codes of ten minutes.
const MAX_SEQ: usize = 8192;
/// Room for the instructions with a short caption, and for a few words of answer.
const LEAST_SEQ: u32 = 128;

/// The user's text in training if there is no input.
pub const NO_USER_INPUT: &str = "NO USER INPUT";

/// Returns a negative prompt unchanged; `None` if it is blank or [`NO_USER_INPUT`].
pub fn meaningful_negative(text: &str) -> Option<&str> {
    let stripped = strip(text);
    (!stripped.is_empty() && stripped != NO_USER_INPUT).then_some(text)
}

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
    /// With codes or a source song, the model does not run. By default the model of a `tiny` song is
    /// off, because it is a random network. With `thinking` false, explicit requests still work
    /// (`use_cot_*`, or an `lm_mode` that writes texts); upstream calls this the task `dit`.
    pub fn of(request: &Request, is_tiny: bool) -> Self {
        if request.source.has_codes() || request.follows_source() {
            return Self::Off;
        }
        let language = &request.language;
        match language.thinking {
            Some(true) => Self::Codes,
            Some(false) if language.asks_by_name() || language.writes_texts() => Self::Metadata,
            None if !is_tiny => Self::Codes,
            Some(false) | None => Self::Off,
        }
    }
}

/// Settings of the language model from a request, all decided.
#[derive(Debug, Clone, PartialEq)]
pub struct LmSettings {
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

impl LmSettings {
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

    /// Returns the number of rows of the codes phase: one per song, twice that with guidance.
    pub fn code_rows(&self) -> usize {
        self.seeds.len() * if self.cfg_scale > 1.0 { 2 } else { 1 }
    }
}

impl Language {
    /// True if a value is asked of the model by name.
    pub fn asks_by_name(&self) -> bool {
        [self.use_cot_metas, self.use_cot_caption, self.use_cot_language].contains(&Some(true))
    }

    /// True if `lm_mode` requests caption and lyrics.
    pub fn writes_texts(&self) -> bool {
        self.lm_mode.as_deref().is_some_and(|mode| mode != "generate")
    }

    /// Fills in upstream's defaults, and checks the values. The song's values are checked too: a
    /// number out of range must not cost a run of the model.
    ///
    /// `seeds` has one seed per song.
    ///
    /// # Errors
    /// An [`Error`] that names the field, its value and the allowed values.
    pub fn plan(
        &self,
        words: &Words,
        seeds: &[u64],
        notices: &mut Vec<Notice>,
    ) -> Result<LmSettings, Error> {
        check_song(words)?;
        let number = |field, value: Option<f64>, default, low, high| {
            real(field, value.unwrap_or(default), low, high).map(|x| x as f32)
        };
        let cfg_scale = number("lm_cfg_scale", self.lm_cfg_scale, 2.0, 1.0, MOST_CFG_SCALE)?;
        let top_k = whole("lm_top_k", self.lm_top_k.unwrap_or(0), 0, MOST_TOKENS)?;
        let top_p = number("lm_top_p", self.lm_top_p, 0.9, 0.0, 1.0)?;
        let penalty = self.lm_repetition_penalty.unwrap_or(1.0);
        let penalty = real("lm_repetition_penalty", penalty, 0.1, MOST_REPETITION_PENALTY)?;
        let style = self.lm_prompt_style.as_deref();
        let prompt_style = choice("lm_prompt_style", style, &PromptStyle::NAMES)?;
        let negative_prompt = self.negative_prompt(prompt_style)?;
        if negative_prompt.is_some() && cfg_scale == 1.0 {
            let text = "`lm_negative_prompt` is not used: `lm_cfg_scale: 1` is no guidance";
            notices.push(Notice(text.into()));
        }
        // With `thinking` false, only explicitly requested fields are decided.
        let by_default = self.thinking != Some(false) || self.writes_texts();
        // Below it, a division turns ordinary scores into infinities; greedy is equivalent.
        const LEAST_TEMPERATURE: f32 = 1e-3;
        Ok(LmSettings {
            temperature: number("lm_temperature", self.lm_temperature, 0.85, 0.0, MOST_TEMPERATURE)
                .map(|t| if t < LEAST_TEMPERATURE { 0.0 } else { t })?,
            cfg_scale,
            top_k: (top_k > 0).then_some(top_k as usize),
            top_p: (top_p > 0.0 && top_p < 1.0).then_some(top_p),
            repetition_penalty: penalty as f32,
            negative_prompt,
            cot_metas: self.use_cot_metas.unwrap_or(by_default),
            cot_caption: self.use_cot_caption.unwrap_or(by_default),
            cot_language: self.use_cot_language.unwrap_or(by_default),
            constrained: self.use_constrained_decoding.unwrap_or(true),
            prompt_style,
            max_tokens: None,
            max_seq: MAX_SEQ,
            seeds: match self.lm_seed {
                Some(first) => (0..seeds.len() as u64).map(|i| first.wrapping_add(i)).collect(),
                None => seeds.to_vec(),
            },
        })
    }

    /// Returns the negative prompt, if the style uses this text.
    fn negative_prompt(&self, style: PromptStyle) -> Result<Option<String>, Error> {
        let Some(text) = &self.lm_negative_prompt else { return Ok(None) };
        check::text("lm_negative_prompt", text)?;
        let text = match style {
            PromptStyle::AcestepCpp => Some(text.as_str()).filter(|text| !text.is_empty()),
            PromptStyle::Open | PromptStyle::Closed | PromptStyle::Upstream => {
                meaningful_negative(text)
            }
        };
        Ok(text.map(str::to_owned))
    }
}

/// Checks the parts of the song that the language model reads.
fn check_song(words: &Words) -> Result<(), Error> {
    for (field, text) in [("caption", &words.caption), ("lyrics", &words.lyrics)] {
        text.as_ref().map(|text| check::text(field, text)).transpose()?;
    }
    // The plan of the song gives the notices.
    SongMetadata::of(words, &mut Vec::new()).map(drop)
}
