//! The available checkpoints.

use std::path::Path;

use acestep_import::{
    AceStep, DitDir, Kind, LanguageModelDir, Layout, TINY, TextEncoderDir, VaeDir, built_in,
};
use anyhow::{Context, Result};

use super::tokenizers::Real;
use crate::{families::listed, golden::Lacks};

/// The prefix of the folders of language models.
pub(crate) const LANGUAGE_MODELS: &str = "acestep-5Hz-lm";

/// The available checkpoints. A set may need only some.
#[derive(Default)]
pub(crate) struct Checkpoints {
    pub(crate) turbo: Option<DitDir>,
    pub(crate) base: Option<DitDir>,
    pub(crate) vae: Option<VaeDir>,
    pub(crate) text: Option<TextEncoderDir>,
    pub(crate) language: Option<LanguageModelDir>,
    pub(crate) whole: Option<AceStep>,
    /// The released tokenizers, if they were passed.
    pub(crate) real: Option<Real>,
}

impl Checkpoints {
    /// The built-in checkpoints.
    pub(crate) fn built_in() -> Result<Self> {
        let tiny =
            built_in(TINY).context("the model of the stored results is part of the program")?;
        let [dit, vae, text] = tiny.directories.clone();
        Ok(Self {
            turbo: Some(DitDir::open(dit)?),
            base: None,
            vae: Some(VaeDir::open(vae)?),
            text: Some(TextEncoderDir::open(text)?),
            language: Some(LanguageModelDir::open(tiny.language_model.clone())?),
            whole: Some(acestep_import::open_tiny()?),
            real: None,
        })
    }

    /// Opens the models of the released layout in `models`: directories or GGUF files.
    pub(crate) fn find(models: &Path) -> Result<Self> {
        let mut paths = listed(models)?;
        paths.retain(|path| {
            let is_gguf = path.extension().is_some_and(|ending| ending == "gguf");
            is_gguf || path.join("config.json").is_file()
        });
        let names: Vec<String> = paths.iter().map(|path| acestep_import::name_of(path)).collect();
        let layout = Layout::new([models.to_owned()]);
        let at = |name: &str, kind| {
            let place = names.iter().position(|own| own == name).unwrap_or_default();
            acestep_import::directory(&paths[place], kind, &layout)
        };
        let has = |name: &str, kind| {
            names.iter().any(|own| own == name).then(|| at(name, kind)).transpose()
        };
        // If several fit, the one with the plain name is used.
        let one = |prefix: &str, plain: &str, fits: &dyn Fn(&str) -> bool| {
            let mut found = names.iter().filter(|name| name.starts_with(prefix));
            let exact = names.iter().find(|name| *name == plain);
            exact.or_else(|| found.find(|name| fits(name))).cloned()
        };
        let dit = |plain, fits| one("acestep-v15-", plain, fits);
        let turbo = dit("acestep-v15-turbo", &|name| name.contains("turbo"));
        let base = dit("acestep-v15-base", &|name| !name.contains("turbo"));
        let language = one(LANGUAGE_MODELS, "acestep-5Hz-lm-0.6B", &|_| true);
        let vae = has(acestep_import::acestep::VAE, Kind::Vae)?;
        let text = has(acestep_import::acestep::TEXT_ENCODER, Kind::TextEncoder)?;
        let whole = match (&turbo, &vae, &text) {
            (Some(name), Some(vae), Some(text)) => {
                let (vae, text) = (vae.clone(), text.clone());
                Some(AceStep::from_directories(name.clone(), at(name, Kind::Dit)?, vae, text)?)
            }
            _ => None,
        };
        Ok(Self {
            turbo: turbo.map(|name| DitDir::open(at(&name, Kind::Dit)?)).transpose()?,
            base: base.map(|name| DitDir::open(at(&name, Kind::Dit)?)).transpose()?,
            vae: vae.map(VaeDir::open).transpose()?,
            text: text.map(TextEncoderDir::open).transpose()?,
            language: language
                .map(|name| LanguageModelDir::open(at(&name, Kind::LanguageModel)?))
                .transpose()?,
            whole,
            real: None,
        })
    }

    pub(crate) fn turbo(&self) -> Result<&DitDir, Lacks> {
        self.turbo.as_ref().ok_or(Lacks("turbo model"))
    }

    pub(crate) fn base(&self) -> Result<&DitDir, Lacks> {
        self.base.as_ref().ok_or(Lacks("base model"))
    }

    pub(crate) fn vae(&self) -> Result<&VaeDir, Lacks> {
        self.vae.as_ref().ok_or(Lacks("vae"))
    }

    pub(crate) fn text_encoder(&self) -> Result<&TextEncoderDir, Lacks> {
        self.text.as_ref().ok_or(Lacks("text encoder"))
    }

    pub(crate) fn language_model(&self) -> Result<&LanguageModelDir, Lacks> {
        self.language.as_ref().ok_or(Lacks("language model"))
    }

    pub(crate) fn whole(&self) -> Result<&AceStep, Lacks> {
        self.whole.as_ref().ok_or(Lacks("complete turbo model"))
    }
}
