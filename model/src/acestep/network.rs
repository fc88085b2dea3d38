//! The networks of ACE-Step 1.5, by name.

use std::fmt;

/// A network that is loaded as a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Network {
    /// Encodes caption and metadata to hidden states.
    TextEncoder,
    /// Encodes text, lyrics and timbre to one condition.
    Conditioner,
    /// Encodes latents to audio codes, and back.
    AudioCodec,
    /// The diffusion transformer.
    Dit,
    /// Decodes latents to sound.
    VaeDecoder,
    /// Encodes sound to latents.
    VaeEncoder,
    /// Writes metadata, lyrics and audio codes from a caption. It runs first, has its own
    /// directory, and is optional.
    LanguageModel,
}

impl Network {
    /// The networks of a diffusion model, in the order of their use: all but the language model.
    pub const ALL: [Self; 6] = [
        Self::TextEncoder,
        Self::Conditioner,
        Self::AudioCodec,
        Self::Dit,
        Self::VaeDecoder,
        Self::VaeEncoder,
    ];

    /// Returns the name for messages, with its article.
    pub const fn with_article(self) -> &'static str {
        match self {
            Self::TextEncoder => "the text encoder",
            Self::Conditioner => "the conditioner",
            Self::AudioCodec => "the audio codec",
            Self::Dit => "the diffusion transformer",
            Self::VaeDecoder => "the VAE decoder",
            Self::VaeEncoder => "the VAE encoder",
            Self::LanguageModel => "the language model",
        }
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        self.with_article().trim_start_matches("the ")
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
