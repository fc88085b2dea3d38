//! Selects the function that computes each file of a set.

use acestep_engine::{
    Job,
    device::{free, panics},
    host::to_host,
};
use acestep_model::{Backend, Place};
use anyhow::{Context, Result};
use burn::tensor::Tensor;
use serde_json::Value;

use super::{
    case::Case,
    checkpoints::Networks,
    e2e,
    golden::Set,
    language,
    ledger::{Ledger, Tell},
    logic, networks, noise,
    page::Page,
    plans, rules, sampling,
    sheet::Sheet,
    vocabularies::{Real, Vocabularies},
    word::Done,
};

/// Computes a whole set.
pub(super) struct Verify<'a> {
    pub(super) set: &'a Set,
    pub(super) networks: &'a Networks,
    pub(super) real: Option<&'a Real>,
    pub(super) tell: &'a Tell<'a>,
    /// The cases that are already finished.
    pub(super) known: &'a Done,
}

impl Job for Verify<'_> {
    type Output = Result<Vec<Case>>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let still_works = || still_works::<B>(&place.device);
        let ledger = Ledger::new(self.known, self.tell, &still_works);
        for file in self.set.names().filter(|file| !ledger.knows_file(file)) {
            let of_file = match file.strip_suffix(".safetensors") {
                Some(kind) => self.tensors::<B>(file, kind, &ledger, &place),
                None => self.text::<B>(file, &ledger, &place),
            };
            of_file.with_context(|| format!("cannot verify {file}"))?;
            ledger.end_file(file);
        }
        Ok(ledger.finish()?)
    }
}

/// True if a device still computes after some of its work has failed.
fn still_works<B: Backend>(device: &B::Device) -> bool {
    free::<B>(device);
    let doubled = || to_host(Tensor::<B, 1>::from_floats([1.5], device) * 2.0);
    panics::caught(doubled).is_ok_and(|doubled| doubled == [3.0])
}

impl Verify<'_> {
    fn tensors<B: Backend>(
        &self,
        file: &str,
        kind: &str,
        ledger: &Ledger<'_>,
        place: &Place<B>,
    ) -> Result<()> {
        let golden = self.set.tensors(file)?;
        Sheet::new(&golden, component(kind), ledger).fill(|sheet| self.fill(sheet, kind, place))
    }

    fn fill<B: Backend>(&self, s: &mut Sheet<'_>, kind: &str, place: &Place<B>) -> Result<()> {
        let Networks { turbo, base, vae, text, language, whole } = self.networks;
        macro_rules! with {
            ($network:expr, $what:literal, |$open:ident| $run:expr) => {
                match $network {
                    Some($open) => $run?,
                    None => {
                        s.skip_all(concat!("no ", $what, " among the checkpoints"), |_| true);
                    }
                }
            };
        }
        match kind {
            "vae_decode" => with!(vae, "vae", |v| networks::vae_decode::<B>(s, v, place)),
            "vae_encode" => with!(vae, "vae", |v| networks::vae_encode::<B>(s, v, place)),
            "vae_tiled" => with!(vae, "vae", |v| networks::vae_tiled::<B>(s, v, place)),
            "dit_time" => with!(turbo, "turbo model", |m| networks::dit_time::<B>(s, m, place)),
            "dit_forward" => {
                with!(turbo, "turbo model", |m| networks::dit_forward::<B>(s, m, place));
            }
            "bf16_time" => {
                let forward = self.set.tensors("dit_forward.safetensors").ok();
                let inputs = forward.as_ref();
                with!(turbo, "turbo model", |m| networks::bf16_time::<B>(s, m, inputs, place));
            }
            "cond_encoder" => {
                with!(turbo, "turbo model", |m| networks::cond_encoder::<B>(s, m, place));
            }
            "audio_tokenizer" => {
                with!(turbo, "turbo model", |m| networks::audio_tokenizer::<B>(s, m, place));
            }
            "silence" => with!(turbo, "turbo model", |m| networks::silence::<B>(s, m, place)),
            "text_encoder" => {
                with!(text, "text encoder", |t| networks::text_encoder::<B>(s, t, place));
            }
            "sampling_turbo" => {
                with!(turbo, "turbo model", |m| sampling::runs::<B>(s, m, true, place));
            }
            "sampling_base" => {
                with!(base, "base model", |m| sampling::runs::<B>(s, m, false, place));
            }
            "guidance" => sampling::guidance::<B>(s, &place.device)?,
            "e2e" => with!(whole, "complete turbo model", |m| e2e::run::<B>(s, m, place)),
            "rng" => noise::streams(s)?,
            "lm" => match language {
                Some(language) => language::scores::<B>(s, language, place)?,
                None => s.skip_all(language::NO_CHECKPOINT, |_| true),
            },
            _ => {}
        }
        Ok(())
    }

    fn text<B: Backend>(&self, file: &str, ledger: &Ledger<'_>, place: &Place<B>) -> Result<()> {
        let content = self.set.json(file)?;
        let page = Page::new(file, logic::COMPONENT, ledger);
        let work = || self.read(file, &content, ledger, place);
        if let Err(why) = ledger.attempt(file, logic::COMPONENT, vec![], work)? {
            page.fail("the rest", &why);
        }
        Ok(())
    }

    fn read<B: Backend>(
        &self,
        file: &str,
        content: &Value,
        ledger: &Ledger<'_>,
        place: &Place<B>,
    ) -> Result<()> {
        let Networks { text, language, .. } = self.networks;
        let vocabularies =
            Vocabularies { real: self.real, text: text.as_ref(), language: language.as_ref() };
        let page = |component| Page::new(file, component, ledger);
        let [text_page, language_page] = [logic::COMPONENT, language::COMPONENT].map(page);
        match file.rsplit('/').next().unwrap_or(file) {
            "dit_prompts.json" => logic::prompts(text_page, content, vocabularies),
            "tokenizer_cases.json" => logic::tokens(text_page, content, vocabularies),
            "lm_e2e.json" => language::runs::<B>(language_page, content, language.as_ref(), place),
            "lm_prompts.json" => plans::prompts(language_page, content, vocabularies),
            "cot_yaml.json" => plans::texts(language_page, content),
            "lm_sampling.json" => {
                plans::sampling(language_page, content);
                Ok(())
            }
            "constrained_decoding.json" => rules::runs(language_page, content, vocabularies),
            "prefix_trees_tiny.json" => rules::trees(language_page, content, "tiny", vocabularies),
            "prefix_trees_full.json" => rules::trees(language_page, content, "full", vocabularies),
            // It describes how the goldens were made; it is not an output.
            "xcheck_diffusers.json" => Ok(()),
            _ => {
                text_page.skip_entries(content, "this version does not know this file");
                Ok(())
            }
        }
    }
}

/// The component that a file of goldens tests.
fn component(kind: &str) -> &'static str {
    match kind {
        "vae_decode" | "vae_tiled" => "VAE decoder",
        "vae_encode" => "VAE encoder",
        "dit_time" | "dit_forward" | "bf16_time" => "DiT",
        "cond_encoder" => "condition encoder",
        "audio_tokenizer" => "audio codes",
        "silence" => "silence",
        "text_encoder" => "text encoder",
        "sampling_turbo" | "sampling_base" | "guidance" => "flow matching",
        "e2e" => "whole song",
        "rng" => "noise",
        "lm" => language::COMPONENT,
        _ => "unknown",
    }
}
