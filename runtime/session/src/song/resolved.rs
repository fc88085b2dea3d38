//! A request with all decisions before the first network is loaded.

use std::sync::Arc;

use acestep_engine::{Engine, Error, Notice, Residency, Tiling, device::memory::keep_all};
use acestep_import::{AceStep, LanguageModelDir};
use acestep_music::{
    Composed, LmSettings, ModelInfo, Plan, Request,
    inputs::Inputs,
    lm::{compose::Timing, metadata::Metadata},
};

use super::{Composition, ExtraOptions, ExtraResults, memory};
use crate::{language, outcome::Outcome};

/// A request with all decisions before the first network is loaded.
#[derive(Debug)]
pub struct Resolved {
    /// The decisions that the language model cannot change.
    pub setup: Arc<Setup>,
    /// The model; requests with the same model and adapters share it.
    pub folder: Arc<AceStep>,
    /// The request.
    pub request: Request,
    /// The song's plan; it lacks the language model's decisions until that model has run.
    pub plan: Plan,
    /// Decisions of the language model, and its time, after it has run.
    pub decided: Option<(Metadata, Timing)>,
    /// Notices about the decisions.
    pub notices: Vec<Notice>,
    /// Notices about the plan, which are shown when it is final.
    pub plan_notices: Vec<Notice>,
}

/// A language model that scores songs, with its settings.
pub type Judge = (Arc<LanguageModelDir>, LmSettings);

/// Decisions that the language model cannot change.
#[derive(Debug)]
pub struct Setup {
    /// Name or path of the model, as chosen.
    pub model: String,
    /// Properties of the model.
    pub info: ModelInfo,
    /// The device.
    pub engine: Engine,
    /// The lifetime of the networks.
    pub residency: Residency,
    /// Task of the language model.
    pub composition: Option<Composition>,
    /// Scores given codes, if there is no other language model.
    pub judge: Option<Judge>,
    /// Files in place of what is computed.
    pub inputs: Inputs,
    /// Extra results.
    pub extras: ExtraOptions,
}

impl Resolved {
    /// Returns the seeds, if they have an effect.
    pub fn seeds(&self) -> Option<&[u64]> {
        self.setup.inputs.seeds(&self.plan)
    }

    /// Returns a name such as `song 2 of 4 (seed 8)` for the song with this index in the batch.
    pub fn name_of(&self, index: usize) -> String {
        let seed = self.seeds().and_then(|seeds| seeds.get(index));
        let seed = seed.map_or_else(String::new, |seed| format!(" (seed {seed})"));
        format!("song {} of {}{seed}", index + 1, self.plan.batch_size())
    }

    /// Returns the models whose kernels are used.
    pub fn models(&self) -> Vec<String> {
        let language = self.setup.composition.as_ref().map(|of| language::label(&of.folder));
        [self.folder.name().to_owned()].into_iter().chain(language).collect()
    }

    /// Refuses a run that does not fit into memory.
    ///
    /// # Errors
    /// The need, the available memory, and a remedy.
    pub fn check_memory(&self) -> Result<(), Error> {
        let Setup { residency, engine, .. } = &*self.setup;
        let needs = memory::needs(self)?;
        crate::memory::check(&needs, *residency == Residency::Kept, *engine)
    }

    /// True if all networks fit into memory together with the language model of the song, or else with one
    /// that is `resident`.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn fits_beside(&self, resident: Option<&LanguageModelDir>) -> Result<bool, Error> {
        let Setup { engine, .. } = &*self.setup;
        let size = resident.map(LanguageModelDir::size).transpose().map_err(Error::checkpoint)?;
        let weights = size.map_or(0, |size| engine.widths().weights(size.parameters));
        let mut needs = memory::needs(self)?;
        keep_all(&mut needs, weights);
        Ok(crate::memory::check(&needs, true, *engine).is_ok())
    }

    /// Returns the song with the decisions of the language model, whose changes are new notices.
    ///
    /// # Errors
    /// The errors of [`Inputs::plan`].
    pub fn completed(&self, composed: Composed) -> Result<Self, Error> {
        // Keep the random seeds, because the songs' file names contain them.
        let request = composed.request.with(|r| r.noise.seed = Some(self.plan.noise.seeds.clone()));
        let (plan, plan_notices) = self.setup.inputs.plan(&request, &self.setup.info)?;
        Ok(Self {
            setup: self.setup.clone(),
            folder: self.folder.clone(),
            request,
            plan,
            decided: Some((composed.metadata, composed.timing)),
            notices: [&self.notices[..], &composed.changes].concat(),
            plan_notices,
        })
    }

    /// Returns the song with the tiles of the VAE that its run used, and true if they are others.
    pub fn after(self, outcome: &Outcome) -> (Self, bool) {
        let Self { plan, .. } = &self;
        // The used chunk is never larger than the planned one, so it fits.
        let fitted = |chunk| Tiling { chunk, ..plan.tiling }.fitted().ok();
        match outcome.vae_chunk.and_then(fitted) {
            Some(tiling) => (Self { plan: Plan { tiling, ..self.plan }, ..self }, true),
            None => (self, false),
        }
    }

    /// Returns the language model that scores the songs and its settings, if scores are wanted and
    /// there are codes.
    pub fn judge(&self) -> Option<(&Arc<LanguageModelDir>, &LmSettings)> {
        let Setup { extras, composition, judge, .. } = &*self.setup;
        if !extras.judges || self.plan.source.codes.is_empty() {
            return None;
        }
        let own = composition.as_ref().map(|own| (&own.folder, &own.settings));
        own.or(judge.as_ref().map(|(folder, settings)| (folder, settings)))
    }

    /// Returns notices about wanted results that are impossible.
    pub fn missing(&self, found: &ExtraResults) -> Vec<Notice> {
        found.missing(&self.setup.extras, !self.plan.source.codes.is_empty())
    }
}
