//! Sizes of the demo model: every network of a released model in miniature.

use acestep_model::{acestep, oobleck, qwen3};

use acestep_train::Error;

/// `config.json` of the autoencoder.
pub const VAE: &str = include_str!("demo/vae.json");

/// `config.json` of the diffusion transformer, its encoders and the audio codes.
pub const DIT: &str = include_str!("demo/dit.json");

/// `config.json` of the text encoder.
pub const TEXT_ENCODER: &str = include_str!("demo/text_encoder.json");

/// `config.json` of the language model.
pub const LANGUAGE_MODEL: &str = include_str!("demo/language_model.json");

/// All configurations, parsed.
#[derive(Debug, Clone)]
pub struct Sizes {
    /// Autoencoder.
    pub vae: oobleck::Config,
    /// Diffusion transformer, its encoders and the audio codes.
    pub dit: acestep::Config,
    /// Text encoder.
    pub text_encoder: qwen3::Config,
    /// Language model.
    pub language_model: qwen3::Config,
}

impl Sizes {
    /// Returns the demo's configurations.
    ///
    /// # Errors
    /// None, unless the built-in files are wrong.
    pub fn demo() -> Result<Self, Error> {
        Ok(Self {
            vae: oobleck::Config::from_json(VAE)?,
            dit: acestep::Config::from_json(DIT)?,
            text_encoder: qwen3::Config::from_json(TEXT_ENCODER)?,
            language_model: qwen3::Config::from_json(LANGUAGE_MODEL)?,
        })
    }

    /// Returns the number of audio codes.
    pub fn codes(&self) -> u32 {
        self.dit.fsq_input_levels.iter().product()
    }
}

#[cfg(test)]
mod tests {
    use acestep_model::{
        oobleck::{Decoder, Encoder},
        qwen3::Causal,
    };
    use burn::module::Module;
    use burn_flex::Flex;

    use super::*;
    use crate::{flow::Singer, vocabulary::WORDS};
    use acestep_train::times::LogitNormal;

    /// bf16 takes two bytes per parameter; tokenizers and exact tensors take less than 500 kB.
    #[test]
    fn all_networks_together_are_less_than_twenty_megabytes() {
        let (sizes, device) = (Sizes::demo().expect("sizes"), Default::default());
        let parts = [
            Encoder::<Flex>::init(&sizes.vae, &device).num_params(),
            Decoder::<Flex>::init(&sizes.vae, &device).num_params(),
            Singer::<Flex>::init(&sizes.text_encoder, &sizes.dit, &device).num_params(),
            Causal::<Flex>::init(&sizes.language_model, &device).num_params(),
        ];
        assert!(2 * parts.iter().sum::<usize>() < 19_500_000, "{parts:?}");
    }

    #[test]
    fn times_are_those_of_the_configuration() {
        let times = LogitNormal::of(&Sizes::demo().expect("sizes").dit);
        assert_eq!(times, LogitNormal { mu: 1.0, sigma: 1.4 });
    }

    #[test]
    fn the_vocabularies_are_as_large_as_the_tables() {
        let sizes = Sizes::demo().expect("sizes");
        assert_eq!(sizes.text_encoder.vocab_size, WORDS + 5);
        assert_eq!(sizes.language_model.vocab_size, WORDS + 5 + sizes.codes() as usize);
    }
}
