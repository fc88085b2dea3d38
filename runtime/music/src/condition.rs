//! Encodes prompts and timbre to the sequence that conditions the diffusion transformer.
//!
//! Source: upstream `handler.py`, `_prepare_batch`, and `AceStepConditionEncoder`.

use acestep_engine::{
    Error,
    audio::loudness::require_finite,
    host::to_host,
    progress::{Observe, check},
};
use acestep_model::{
    Backend,
    acestep::{ConditionInputs, Padded},
};
use burn::tensor::Tensor;

use crate::{
    networks::{CONDITIONER, Networks, TEXT_ENCODER},
    source, stage,
    text::{CAPTION_TOKENS, LYRIC_TOKENS, TokenBatch},
};

/// Texts of one song, as input of the networks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Instruction, caption and metadata.
    pub caption: String,
    /// Language and lyrics.
    pub lyrics: String,
    /// The caption prompt with the plain instruction. It is used in the later steps, when a song
    /// made from audio codes is no longer conditioned on them.
    pub plain_caption: Option<String>,
}

/// Conditions of a batch.
#[derive(Debug, Clone)]
pub struct Conditions<B: Backend> {
    /// The main condition, `[B, L, encoder width]`.
    pub first: Padded<B>,
    /// The condition with the plain caption, if every prompt has one.
    pub later: Option<Padded<B>>,
    /// The unconditional embedding of guidance, `[1, 1, encoder width]`.
    pub null: Tensor<B, 3>,
}

/// Timbre references of a batch.
#[derive(Debug, Clone)]
pub struct Timbre<B: Backend> {
    /// Latents of all references, `[R, T, C]`; there is at least one.
    pub latents: Tensor<B, 3>,
    /// The batch index of each reference.
    pub items: Vec<usize>,
}

impl<B: Backend> Timbre<B> {
    /// Uses the first `frames` frames of the model's silence latents, `[1, T, C]`, for each of
    /// `batch` items.
    pub fn of_silence(stored_silence: &Tensor<B, 3>, frames: usize, batch: usize) -> Self {
        let channels = stored_silence.dims()[2];
        let latents = source::silence(stored_silence, frames).expand([batch, frames, channels]);
        Self { latents, items: (0..batch).collect() }
    }

    /// Uses `references`, `[1, T, C]` each and of equal length, for every item of a batch.
    pub fn of(references: Vec<Tensor<B, 3>>, batch: usize) -> Self {
        let count = references.len();
        let items = (0..batch).flat_map(|item| vec![item; count]).collect();
        let latents = Tensor::cat(references, 0).repeat_dim(0, batch);
        Self { latents, items }
    }
}

/// Encodes a batch of prompts.
///
/// # Errors
/// [`Error::Checkpoint`], [`Error::ForeignTokenizer`], [`Error::NotFinite`], [`Error::Cancelled`].
pub fn encode<B: Backend>(
    networks: &Networks<'_, B>,
    prompts: &[Prompt],
    timbre: &Timbre<B>,
    observe: &dyn Observe,
) -> Result<Conditions<B>, Error> {
    let texts = encode_text(networks, prompts, observe)?;
    encode_condition(networks, &texts, timbre, observe)
}

/// Second half of [`encode`]: combines encoded texts and a timbre to one condition.
///
/// # Errors
/// The errors of [`encode`].
pub fn encode_condition<B: Backend>(
    networks: &Networks<'_, B>,
    texts: &TextStates<B>,
    timbre: &Timbre<B>,
    observe: &dyn Observe,
) -> Result<Conditions<B>, Error> {
    let TextStates { caption, plain, lyrics } = texts;
    networks.stage(stage::CONDITION, CONDITIONER, observe, |steps| {
        let conditioner = networks.conditioner()?;
        steps.advanced(0, 1);
        let condition = |text: &Padded<B>| {
            conditioner.forward(ConditionInputs {
                text: text.clone(),
                lyrics: lyrics.clone(),
                timbre: timbre.latents.clone(),
                timbre_item: timbre.items.clone(),
            })
        };
        let conditions = Conditions {
            first: finite("the conditioner", condition(caption))?,
            later: match plain.as_ref().map(condition) {
                Some(later) => Some(finite("the conditioner", later)?),
                None => None,
            },
            null: conditioner.null_condition(),
        };
        steps.advanced(1, 1);
        Ok(conditions)
    })
}

/// Returns an error unless all of a stage's output is finite.
fn finite<B: Backend>(stage: &str, given: Padded<B>) -> Result<Padded<B>, Error> {
    require_finite(stage, &to_host(given.hidden.clone()))?;
    Ok(given)
}

/// Texts after the text encoder.
#[derive(Debug, Clone)]
pub struct TextStates<B: Backend> {
    caption: Padded<B>,
    plain: Option<Padded<B>>,
    lyrics: Padded<B>,
}

/// First half of [`encode`]: runs prompts through the text encoder.
///
/// # Errors
/// The errors of [`encode`].
pub fn encode_text<B: Backend>(
    networks: &Networks<'_, B>,
    prompts: &[Prompt],
    observe: &dyn Observe,
) -> Result<TextStates<B>, Error> {
    check(observe)?;
    let captions: Vec<&str> = prompts.iter().map(|prompt| prompt.caption.as_str()).collect();
    let lyrics: Vec<&str> = prompts.iter().map(|prompt| prompt.lyrics.as_str()).collect();
    let plain: Option<Vec<&str>> =
        prompts.iter().map(|prompt| prompt.plain_caption.as_deref()).collect();

    let captions = TokenBatch::new(networks, &captions, CAPTION_TOKENS)?;
    let lyrics = TokenBatch::new(networks, &lyrics, LYRIC_TOKENS)?;
    let plain = match plain {
        Some(texts) => {
            let own = TokenBatch::new(networks, &texts, CAPTION_TOKENS)?;
            // Upstream truncates or pads this prompt to the length of the other.
            let ids = own.rows_without_padding();
            Some(TokenBatch::fitted(ids, captions.length(), networks.pad_token_id()?))
        }
        None => None,
    };

    let device = networks.device();
    networks.stage(stage::TEXT_ENCODER, TEXT_ENCODER, observe, |steps| {
        let encoder = networks.text_encoder()?;
        steps.advanced(0, 1);
        let read = TextStates {
            caption: finite("the text encoder", captions.encode(&encoder, device)?)?,
            plain: match &plain {
                Some(plain) => Some(finite("the text encoder", plain.encode(&encoder, device)?)?),
                None => None,
            },
            lyrics: finite("the text encoder's table", lyrics.embed(&encoder, device)?)?,
        };
        steps.advanced(1, 1);
        Ok(read)
    })
}
