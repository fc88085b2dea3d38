//! `config.json` of the autoencoder.
//!
//! Source: diffusers `autoencoder_oobleck.py`, `AutoencoderOobleck`, whose arguments the keys are.

use serde::Deserialize;

use crate::{
    ConfigError,
    config::{Ignored, Rest, parse, refuse_unknown, require},
    limits::{keys, layers, size, sizes},
};

/// The keys of the autoencoder's `config.json`; all of them affect the computation.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Audio channels: 2.
    pub audio_channels: usize,
    /// Width of the encoder's first layer, and of its output: means and scales.
    pub encoder_hidden_size: usize,
    /// Width of the decoder's last layer.
    pub decoder_channels: usize,
    /// Latent channels.
    pub decoder_input_channels: usize,
    /// Width after each stage, in units of the first.
    pub channel_multiples: Vec<usize>,
    /// Downsampling factor of each stage.
    pub downsampling_ratios: Vec<usize>,
    /// Samples per second.
    pub sampling_rate: u32,
    #[serde(flatten)]
    rest: Rest,
}

/// Keys that do not affect the computation, with the reason.
const IGNORED: &Ignored = &[
    ("_class_name", "checked by the layout"),
    ("_diffusers_version", "bookkeeping"),
    ("_name_or_path", "bookkeeping"),
];

impl Config {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// [`ConfigError`] if a key is missing, malformed, unknown, or asks for something that is not
    /// implemented.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let config: Self = parse(text)?;
        refuse_unknown(&config.rest, &[IGNORED])?;
        sizes(&keys!(config: audio_channels, encoder_hidden_size, decoder_channels))?;
        size("decoder_input_channels", config.decoder_input_channels)?;
        size("sampling_rate", config.sampling_rate as usize)?;
        let (ratios, multiples) = (&config.downsampling_ratios, &config.channel_multiples);
        let even = ratios.iter().all(|&r| r > 0 && r.is_multiple_of(2));
        let why = "only even ratios keep every stage's length exact";
        require(even, "downsampling_ratios", ratios, why)?;
        let paired = ratios.len() == multiples.len() && !ratios.is_empty();
        require(paired, "channel_multiples", multiples, "one for every downsampling ratio")?;
        layers("downsampling_ratios", ratios.len())?;
        let base = config.encoder_hidden_size.max(config.decoder_channels);
        for &multiple in multiples {
            size("channel_multiples", multiple)?;
            size("channel_multiples", base * multiple)?;
        }
        let hop = ratios.iter().try_fold(1_usize, |hop, &ratio| hop.checked_mul(ratio));
        let why = "the product of the ratios is too large";
        let short = hop.is_some_and(|hop| size("downsampling_ratios", hop).is_ok());
        require(short, "downsampling_ratios", ratios, why)?;
        let latents = config.encoder_hidden_size;
        let halves = latents == 2 * config.decoder_input_channels;
        require(halves, "encoder_hidden_size", latents, "must be twice decoder_input_channels")?;
        Ok(config)
    }

    /// Returns the number of latent frames per second: 25.
    pub fn frames_per_second(&self) -> f64 {
        f64::from(self.sampling_rate) / self.hop() as f64
    }

    /// Returns the number of samples per latent frame: the product of the ratios, 1920.
    pub fn hop(&self) -> usize {
        self.downsampling_ratios.iter().product()
    }

    /// Returns (narrow side, wide side, ratio) of each stage, in channels, in the encoder's order.
    pub(super) fn stages(&self, channels: usize) -> Vec<(usize, usize, usize)> {
        let narrow = std::iter::once(&1).chain(&self.channel_multiples);
        narrow
            .zip(&self.channel_multiples)
            .zip(&self.downsampling_ratios)
            .map(|((narrow, wide), &ratio)| (channels * narrow, channels * wide, ratio))
            .collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::tests::assert_refused;

    /// Returns a configuration with these ratios, and with `channels` in every stage of the decoder.
    pub(crate) fn config(ratios: &[usize], channels: usize) -> Config {
        let keys = json!({
            "audio_channels": 2, "encoder_hidden_size": 8, "decoder_channels": channels,
            "decoder_input_channels": 4, "channel_multiples": vec![1; ratios.len()],
            "downsampling_ratios": ratios, "sampling_rate": 48000
        });
        Config::from_json(&keys.to_string()).expect("a configuration")
    }

    #[test]
    fn a_size_that_is_absurd_is_refused_by_its_key() {
        let text = include_str!("../../../tests/goldens/checkpoints_a/vae/config.json");
        let changes = [
            ("audio_channels", json!(0)),
            ("decoder_channels", json!(1_000_001)),
            ("sampling_rate", json!(0)),
            ("channel_multiples", json!([1, 1, 1, 2, 0])),
            ("channel_multiples", json!([1, 1, 1, 2, 100_000])),
            ("downsampling_ratios", json!([2, 4, 4, 6, 0])),
            ("downsampling_ratios", json!([65_536, 65_536, 65_536, 65_536, 2])),
            ("downsampling_ratios", json!([2, 4, 4, 6, 10_000])),
        ];
        assert_refused(Config::from_json, text, changes);
    }
}
