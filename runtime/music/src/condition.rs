//! Encodes prompts and timbre to the sequence that conditions the diffusion transformer.
//!
//! Source: upstream `handler.py`, `_prepare_batch`, and `AceStepConditionEncoder`.

use acestep_engine::{
    Error,
    audio::loudness::require_finite,
    host::to_host,
    progress::{Observe, check},
};
use acestep_model::{Backend, NoTap, acestep::Padded};
use burn::tensor::Tensor;

use crate::{
    networks::{CONDITIONER, Networks, TEXT_ENCODER, Voices},
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

/// Timbre references of every item of a batch. Clones are encoded once, while the network stays
/// loaded.
#[derive(Debug, Clone)]
pub struct Timbre<B: Backend> {
    /// Latents of the references, `[R, T, C]`; there is at least one.
    latents: Tensor<B, 3>,
    voices: Voices<B>,
}

impl<B: Backend> Timbre<B> {
    /// Uses the first frames of `stored_silence`, which is [`Networks::silence_latent`], as many as
    /// the model's references have. All such timbres of `networks` are encoded once.
    pub fn of_silence(networks: &Networks<'_, B>, stored_silence: &Tensor<B, 3>) -> Self {
        let frames = networks.configs().dit.timbre_fix_frame;
        let latents = source::silence(stored_silence, frames);
        Self { latents, voices: networks.voices_of_silence() }
    }

    /// Uses `references`, `[1, T, C]` each and of equal length.
    pub fn of(references: Vec<Tensor<B, 3>>) -> Self {
        Self { latents: Tensor::cat(references, 0), voices: Voices::default() }
    }
}

/// Combines encoded texts and a timbre to one condition.
///
/// # Errors
/// [`Error::Checkpoint`], [`Error::NotFinite`], [`Error::Cancelled`].
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
        let kept = timbre.voices.of(&conditioner);
        let voices = kept.unwrap_or_else(|| conditioner.encode_timbre(timbre.latents.clone()));
        let (batch, [count, _]) = (lyrics.mask.len(), voices.dims());
        let items: Vec<usize> = (0..batch).flat_map(|item| vec![item; count]).collect();
        let each = voices.clone().repeat_dim(0, batch); // [batch R, H]
        let start = conditioner.lyrics_and_timbre(lyrics.clone(), each, &items, &mut NoTap);
        let condition = |text: &Padded<B>| {
            let condition = conditioner.with_caption(start.clone(), text.clone(), &mut NoTap);
            finite("the conditioner", condition)
        };
        let conditions = Conditions {
            first: condition(caption)?,
            later: plain.as_ref().map(condition).transpose()?,
            null: conditioner.null_condition(),
        };
        // Only now it is certain that they are finite, and that the device did not fail.
        timbre.voices.keep(&conditioner, voices);
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

/// Runs a batch of prompts through the text encoder.
///
/// # Errors
/// [`Error::Checkpoint`], [`Error::ForeignTokenizer`], [`Error::NotFinite`], [`Error::Cancelled`].
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

#[cfg(test)]
mod tests {
    use acestep_engine::{Residency, Unobserved};
    use acestep_model::Place;
    use burn_flex::{Flex, FlexDevice};

    use super::*;

    /// The second time, NaN stands in place of the latents: to encode them again is an error.
    #[test]
    fn a_timbre_is_encoded_once_while_the_network_stays_loaded() {
        let model = acestep_import::open_tiny().expect("built in");
        let new = |residency| Networks::<Flex>::new(&model, Place::f32(FlexDevice), residency);
        let encoded = |networks: &Networks<'_, Flex>, caption: &str, timbre: &Timbre<Flex>| {
            let (caption, lyrics) = (caption.to_owned(), "la".to_owned());
            let prompt = Prompt { caption: caption.clone(), lyrics, plain_caption: Some(caption) };
            let texts = encode_text(networks, &[prompt], &Unobserved)?;
            encode_condition(networks, &texts, timbre, &Unobserved).map(|conditions| {
                [Some(conditions.first), conditions.later].map(|it| it.map(|it| to_host(it.hidden)))
            })
        };
        let stored = new(Residency::Kept).silence_latent().expect("built in");
        let nan = |latents: &Tensor<Flex, 3>| latents.clone().mul_scalar(f32::NAN);
        for residency in [Residency::Kept, Residency::LastUsed, Residency::WhileUsed] {
            let networks = new(residency);
            let silence = |latents: &Tensor<Flex, 3>| Timbre::of_silence(&networks, latents);
            let piece = source::silence(&stored, 9);
            let two = Timbre::of(vec![piece.clone(), piece]);
            let broken = Timbre { latents: nan(&two.latents), ..two.clone() };
            for [whole, broken] in [[silence(&stored), silence(&nan(&stored))], [two, broken]] {
                let fresh = Timbre::of(vec![whole.latents.clone()]);
                let expected = encoded(&new(Residency::WhileUsed), "sun", &fresh);
                encoded(&networks, "rain", &whole).expect("a condition");
                let again = encoded(&networks, "sun", &broken);
                match residency {
                    Residency::Kept => {
                        assert_eq!(again.expect("a kept timbre"), expected.expect("a condition"));
                    }
                    Residency::LastUsed | Residency::WhileUsed => {
                        assert!(matches!(again, Err(Error::NotFinite { .. })), "{again:?}");
                    }
                }
            }
        }
    }
}
