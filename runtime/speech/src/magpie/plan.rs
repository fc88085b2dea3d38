//! Everything that a run will do; nothing is optional.

use acestep_engine::{Error, Notice, check};
use acestep_model::speech::magpie::{Config, Files};

use super::{
    MagpieError, align, choose,
    frames::{HISTORY, Settings},
    request::{Request, Sampling},
    text::{TextConfig, Tokenizers, Tools},
    voiced::NetworkOptions,
    words::Words,
};

/// The language of a request without one.
pub const USUAL_LANGUAGE: &str = "en";
/// The least temperature of draws with the local transformer. Scores divided by less can be infinite.
const LEAST_LOCAL: f32 = 1e-6;
/// The least temperature without local transformer: the reference always draws there.
const LEAST_PARALLEL: f32 = 0.01;

/// A planned run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The texts that are spoken one after the other; the phonemes if they were given, and one without
    /// words if ids were given.
    pub texts: Vec<String>,
    /// The ids of each, with their end.
    pub chunks: Vec<Vec<u32>>,
    /// The language.
    pub language: String,
    /// The name of the voice, or its number if it has none.
    pub voice: String,
    /// The seed of the draws.
    pub seed: u64,
    /// Settings of the networks.
    pub options: NetworkOptions,
    /// Settings of the run.
    pub settings: Settings,
    /// Notices for the user.
    pub notices: Vec<Notice>,
}

/// Reads the tokenizers of a model, and checks them against its text embedding.
///
/// # Errors
/// [`MagpieError`]; [`Error::Checkpoint`] if a file cannot be read.
pub fn tokenizers(model: &dyn Files) -> Result<Tokenizers, Error> {
    let config = model.config();
    let config = TextConfig {
        nemo_version: config.nemo_version.clone(),
        text_tokenizers: config.text_tokenizers.clone(),
        language_to_tokenizer_mapping: config.language_to_tokenizer_mapping.clone(),
    };
    let artefact = |name: &str| {
        let bytes = model.texts().artefact(name);
        let bytes = bytes.map_err(|error| MagpieError::bad_setting(name, error.to_string()))?;
        String::from_utf8(bytes).map_err(|_| MagpieError::bad_setting(name, "it is not UTF-8"))
    };
    Ok(Tokenizers::read(&config, &artefact)?.fitted(model.sizes().text_rows)?)
}

impl Plan {
    /// Plans `request` for a model; `seed` is the seed if the request has none.
    ///
    /// # Errors
    /// An error about a field that the model does not take or that is out of range; about several of
    /// text, `phonemes` and `ids`; about a text in which nothing can be said, or that is too long.
    pub fn new(
        request: &Request,
        seed: u64,
        model: &dyn Files,
        tokenizers: &Tokenizers,
        tools: Tools<'_>,
    ) -> Result<Self, Error> {
        let language = request.language.as_deref().unwrap_or(USUAL_LANGUAGE);
        let language = tokenizers.spelling(language);
        let words = Words::read(request, language, tokenizers, tools)?;
        let notices = words.notices();
        let (voice, name) = voice(request.voice.as_deref(), model)?;
        let settings = settings(&request.sampling, model.config())?;
        let options = NetworkOptions {
            voice,
            is_guided: settings.guidance.is_some(),
            most_steps: settings.most_frames / model.config().frame_stacking_factor,
            exact_prior: request.sampling.exact_prior.unwrap_or(false),
        };
        let plan = Self {
            texts: words.texts,
            chunks: words.chunks,
            language: language.to_owned(),
            voice: name,
            seed: request.seed.unwrap_or(seed),
            options,
            settings,
            notices,
        };
        plan.check_lengths(model)?;
        Ok(plan)
    }

    /// Checks that every chunk fits into the positions of the networks.
    fn check_lengths(&self, model: &dyn Files) -> Result<(), Error> {
        let config = model.config();
        let most = config.encoder.max_length_causal_mask;
        for (index, (ids, text)) in self.chunks.iter().zip(&self.texts).enumerate() {
            let history = if index == 0 { 0 } else { ids.len().min(HISTORY) };
            let positions = ids.len() + history;
            if positions > most {
                let start: String = text.chars().take(20).collect();
                let (what, field) = (format!("the ids of the text `{start}`"), "text");
                return Err(MagpieError::TooLong { what, field, positions, most }.into());
            }
        }
        let most = config.decoder.stack.max_length_causal_mask;
        let context = model.sizes().context_lengths.get(self.options.voice).copied();
        let positions = context.unwrap_or(0) + self.options.most_steps;
        if positions > most {
            let field = "max_decoder_steps";
            let what = format!("the voice and `{field}`");
            return Err(MagpieError::TooLong { what, field, positions, most }.into());
        }
        Ok(())
    }
}

/// Returns the row of a voice and its name. Without a name it is the first one.
fn voice(name: Option<&str>, model: &dyn Files) -> Result<(usize, String), Error> {
    let speakers = model.texts().speakers().map_err(Error::Checkpoint)?;
    let count = model.sizes().context_lengths.len();
    let of_row = |row: usize| {
        let named = speakers.iter().find(|(_, index)| *index == row);
        named.map_or_else(|| row.to_string(), |(name, _)| name.clone())
    };
    let Some(wanted) = name else { return Ok((0, of_row(0))) };
    let by_name = speakers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
    let by_number = || wanted.parse::<usize>().ok();
    let row = by_name.map(|(_, row)| *row).or_else(by_number).filter(|row| *row < count);
    let known = || (0..count).map(of_row).collect();
    let absent = || MagpieError::Voice { voice: wanted.to_owned(), known: known() };
    let row = row.ok_or_else(absent)?;
    Ok((row, of_row(row)))
}

/// Returns the settings of a run: those of the request, else those of the model.
fn settings(own: &Sampling, config: &Config) -> Result<Settings, Error> {
    let of_model = &config.inference_parameters;
    let bad = |field: &'static str, value: String, range: &str| {
        Err(Error::OutOfRange { field, value, range: range.to_owned() })
    };
    let count = |own: Option<u32>, of_model: usize| own.map_or(of_model, |n| n as usize);
    let temperature = own.temperature.unwrap_or(of_model.temperature as f32);
    let is_local = own.use_local_transformer.unwrap_or(true);
    let least = if is_local { LEAST_LOCAL } else { LEAST_PARALLEL };
    let is_greedy = is_local && temperature == 0.0;
    if !is_greedy && !(least..=100.0).contains(&temperature) {
        let local = "0, or 0.000001 to 100";
        let range = if is_local { local } else { "0.01 to 100 without local transformer" };
        return bad("temperature", temperature.to_string(), range);
    }
    let scale = own.cfg_scale.unwrap_or(of_model.cfg_scale as f32);
    if !(0.0..=100.0).contains(&scale) {
        return bad("cfg_scale", scale.to_string(), "0 to 100");
    }
    let most_frames = count(own.max_decoder_steps, of_model.max_decoder_steps);
    let stack = config.frame_stacking_factor;
    if most_frames < stack {
        return bad("max_decoder_steps", most_frames.to_string(), &format!("at least {stack}"));
    }
    let mut prior = align::PriorSettings {
        lookahead: of_model.attention_prior_lookahead_window,
        epsilon: of_model.attention_prior_epsilon as f32,
        wraps: false,
    };
    if let Some(places) = own.attention_prior_lookahead_window {
        let field = "attention_prior_lookahead_window";
        prior.lookahead = check::whole(field, places.into(), 0, 1000)? as usize;
    }
    if let Some(epsilon) = own.attention_prior_epsilon {
        // With 0, a row might have no attention left.
        check::above("attention_prior_epsilon", epsilon.into(), 0.0, 1.0)?;
        prior.epsilon = epsilon;
    }
    let has_prior = own.apply_attention_prior.unwrap_or(of_model.apply_attention_prior);
    let ignores =
        own.ignore_finished_sentence_tracking.unwrap_or(of_model.ignore_finished_sentence_tracking);
    Ok(Settings {
        guidance: own.use_cfg.unwrap_or(true).then_some(scale),
        sampling: choose::DrawSettings { temperature, top_k: count(own.topk, of_model.topk) },
        prior,
        has_prior,
        start_prior_after: count(
            own.start_prior_after_n_audio_steps,
            of_model.start_prior_after_n_audio_steps,
        ),
        is_tracking: !ignores,
        end: own.eos_detection_method.unwrap_or(of_model.eos_detection_method).into(),
        least_frames: count(own.min_generated_frames, of_model.min_generated_frames),
        most_frames,
        is_local,
    })
}
