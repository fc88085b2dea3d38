//! The value of the first phase.

use std::{path::PathBuf, rc::Rc};

use acestep_engine::{
    Engine, Notice, Residency, audio::format::Encoding, device::kernels::Kernels, files::Existing,
};
use acestep_import::{AceStep, LanguageModelDir};
use acestep_music::{
    ModelInfo, Plan, Request,
    inputs::Inputs,
    lm::{
        compose::{Composed, Timing},
        metadata::Metadata,
        settings::Settings,
    },
};
use anyhow::Result;

use super::{after::After, composition::Composition, outputs::Outputs};
use crate::{
    commands::{engine, language},
    report::Report,
};

/// A request with all decisions before the first network is loaded.
pub(super) struct Resolved {
    /// The decisions that the language model cannot change.
    pub(super) setup: Rc<Setup>,
    /// The model; requests with the same model and adapters share it.
    pub(super) folder: Rc<AceStep>,
    pub(super) request: Request,
    /// The song's plan; it lacks the language model's decisions until that model has run.
    pub(super) plan: Plan,
    /// Decisions of the language model, and its time, after it has run.
    pub(super) decided: Option<(Metadata, Timing)>,
    /// Notices that were printed.
    pub(super) notices: Vec<Notice>,
    /// Notices about the plan, which are printed when it is final.
    pub(super) plan_notices: Vec<Notice>,
}

/// Decisions that the language model cannot change.
pub(super) struct Setup {
    /// Name or path of the model, as chosen.
    pub(super) model: String,
    pub(super) info: ModelInfo,
    pub(super) engine: Engine,
    pub(super) residency: Residency,
    pub(super) kernels: Kernels,
    /// Task of the language model.
    pub(super) composition: Option<Composition>,
    /// Language model that scores given codes, if there is no other, with its settings.
    pub(super) judge: Option<(LanguageModelDir, Settings)>,
    pub(super) inputs: Inputs,
    pub(super) encoding: Encoding,
    /// True if songs get tags.
    pub(super) is_tagged: bool,
    pub(super) outputs: Outputs,
    /// Extra outputs for the songs.
    pub(super) after: After,
    /// Folder for the conditions of the diffusion transformer, if they are written.
    pub(super) dump: Option<PathBuf>,
    pub(super) existing: Existing,
}

impl Resolved {
    /// Returns the seeds, if they have an effect.
    pub(super) fn seeds(&self) -> Option<&[u64]> {
        self.setup.inputs.seeds(&self.plan)
    }

    /// Returns the models whose kernels are used.
    pub(super) fn models(&self) -> Vec<String> {
        let language = self.setup.composition.as_ref().map(|of| language::label(&of.folder));
        [self.folder.name().to_owned()].into_iter().chain(language).collect()
    }

    /// Records that the models have completed a run.
    pub(super) fn remember_kernels(&self) {
        engine::remember(&self.setup.kernels, self.setup.engine, &self.models());
    }

    /// Returns the song with the decisions of the language model, which are printed.
    pub(super) fn completed(&self, composed: Composed, report: &Report) -> Result<Self> {
        report.notes(&composed.changes);
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
}
