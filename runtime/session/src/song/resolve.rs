//! A request becomes all decisions that need no network.

use std::{path::Path, sync::Arc};

use acestep_engine::{Engine, Error, Notice, Observe, Residency};
use acestep_import::{AceStep, DEMO, Layout, Network, TINY};
use acestep_music::{ModelInfo, Plan, Request, inputs::Inputs, plan, request::singing};

use super::{
    Composition, ExtraOptions, Judge, Resolved, Setup, composition::is_absent, make, memory,
};
use crate::language::{self, Choice, TokenLimits};

/// A request, and the values beside it.
#[derive(Debug)]
pub struct Order<'a> {
    /// The request; its adapters were found by [`adapters::find`](super::adapters::find).
    pub request: Request,
    /// Name or path of the model, as chosen.
    pub model: String,
    /// Notices so far.
    pub notices: Vec<Notice>,
    /// A file of noise.
    pub noise: Option<&'a Path>,
    /// A folder of conditions, or a file of safetensors with them.
    pub conditioning: Option<&'a Path>,
    /// Limits of the language model.
    pub limits: TokenLimits,
    /// Genres that the language model may name.
    pub genres: Option<Arc<acestep_music::lm::constrain::genres::GenreVocabulary>>,
    /// The configured language model.
    pub language_model: Option<&'a str>,
    /// The device.
    pub engine: Engine,
    /// The lifetime of the networks.
    pub residency: Residency,
    /// The places of models.
    pub layout: &'a Layout,
}

/// An error, and notices that may explain it.
#[derive(Debug)]
pub struct PlanError {
    /// The error.
    pub error: Error,
    /// The notices.
    pub notices: Vec<Notice>,
}

impl From<Error> for PlanError {
    fn from(error: Error) -> Self {
        Self { error, notices: vec![] }
    }
}

/// A planned song: its number of songs and its seeds are fixed.
#[derive(Debug)]
pub struct Planned<'a> {
    /// The request, completed by its files.
    pub order: Order<'a>,
    /// The model.
    pub folder: Arc<AceStep>,
    info: ModelInfo,
    /// Files in place of what is computed.
    pub inputs: Inputs,
    /// The plan of the song without the language model.
    pub plan: Plan,
    plan_notices: Vec<Notice>,
    /// Task of the language model.
    pub composition: Option<Composition>,
}

/// Returns the choice of the language model.
pub(super) fn language_choice<'a>(order: &'a Order<'_>, model: &'a str) -> Choice<'a> {
    let asked = order.request.language.lm_model.as_deref();
    Choice { asked, model, configured: order.language_model }
}

impl<'a> Order<'a> {
    /// Plans the song with the model in `folder`, which has the adapters of the request.
    ///
    /// # Errors
    /// A value that cannot be used; a file that cannot be read; a network that is missing; then, the tokenizer of
    /// prompts; [`Error::Cancelled`].
    pub fn plan(
        self,
        folder: Arc<AceStep>,
        observe: &dyn Observe,
    ) -> Result<Planned<'a>, PlanError> {
        let model = &*folder;
        // One core reads a vocabulary: those of prompts and of the language model are read side by side.
        let (planned, tokenizer) = std::thread::scope(|scope| {
            let tokenizer = scope.spawn(|| model.check_tokenizer().map_err(Error::checkpoint));
            (self.decided(folder.clone(), observe), tokenizer.join())
        });
        let tokenizer = tokenizer.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let planned = planned?;
        match tokenizer {
            Ok(()) => Ok(planned),
            Err(error) => Err(PlanError { error, notices: planned.order.notices }),
        }
    }

    /// [`Self::plan`], without the tokenizer of prompts.
    fn decided(
        mut self,
        folder: Arc<AceStep>,
        observe: &dyn Observe,
    ) -> Result<Planned<'a>, PlanError> {
        let (engine, residency) = (self.engine, self.residency);
        let info = make::model_info(&folder, engine)?;
        let Self { request, notices, noise, conditioning, .. } = &mut self;
        let inputs = Inputs::read(*noise, *conditioning, request, &info, notices, observe)?;
        if inputs.sounds.have_audio() {
            make::check(&folder, engine, &[Network::VaeEncoder])?;
        }
        let (mut plan, plan_notices) = match inputs.plan(request, &info) {
            Ok(planned) => planned,
            Err(error) => return Err(PlanError { error, notices: self.notices }),
        };
        if let Some(notice) = memory::tiling(request, &plan, &folder, engine, residency)? {
            let seeds = plan.noise.seeds.clone();
            let seeded = self.request.clone().with(|r| r.noise.seed = Some(seeds));
            (plan, _) = inputs.plan(&seeded, &info)?;
            self.notices.push(notice);
        }
        let composition = Composition::decide(&mut self, &plan, folder.name())?;
        // Check early, so that the language model does not write codes that cannot be decoded.
        let writes_codes = composition.as_ref().is_some_and(|of| of.writes_codes);
        if writes_codes || plan.source.has_codes() || plan.source.is_cover() {
            folder.require(Network::AudioCodec).map_err(Error::checkpoint)?;
        }
        Ok(Planned { order: self, folder, info, inputs, plan, plan_notices, composition })
    }
}

impl Planned<'_> {
    /// Returns the seeds, if they have an effect.
    pub fn seeds(&self) -> Option<&[u64]> {
        self.inputs.seeds(&self.plan)
    }

    /// Decides the rest. A preview names the length that the language model will decide.
    ///
    /// # Errors
    /// Results that this model cannot give; the errors of [`language::open`].
    pub fn resolve(self, mut extras: ExtraOptions, is_preview: bool) -> Result<Resolved, Error> {
        let Self { mut order, folder, info, inputs, plan, mut plan_notices, composition } = self;
        extras.check(inputs.conditioning.is_some(), &folder, &mut order.notices)?;
        let judge = match composition {
            None if extras.judges => judge(&mut order, &plan, folder.name())?,
            _ => None,
        };
        let Order { request, model, mut notices, engine, residency, .. } = order;
        notices.extend(language::in_place_of(Some(&model), folder.path()));
        let of_language = composition.iter().flat_map(|of| of.folder.notices());
        notices.extend(folder.notices().into_iter().chain(of_language).map(Notice));
        let is_open = composition.as_ref().is_some_and(|of| of.decides_length(&request));
        if is_preview && is_open {
            // The notice below says that this length is provisional.
            plan_notices.retain(|notice| *notice != plan::no_duration());
            let length = plan.length.duration_s;
            let text =
                format!("the language model decides the length; {length} s stands for it here");
            notices.push(Notice(text));
        }
        notices.extend(of_built_in(&folder, &request));
        let setup = Setup { model, info, engine, residency, composition, judge, inputs, extras };
        let setup = Arc::new(setup);
        Ok(Resolved { setup, folder, request, plan, decided: None, notices, plan_notices })
    }
}

/// Opens the language model that scores the codes of the request, if there are codes.
fn judge(order: &mut Order<'_>, plan: &Plan, model: &str) -> Result<Option<Judge>, Error> {
    if !order.request.source.has_codes() {
        return Ok(None);
    }
    match language::open(language_choice(order, model), order.layout, order.engine) {
        Ok(folder) => {
            let Request { language, words, .. } = &order.request;
            let settings = language.plan(words, &plan.noise.seeds, &mut vec![])?;
            Ok(Some((Arc::new(folder), order.limits.bound(settings)?)))
        }
        Err(error) if is_absent(&error) => {
            let text = "there is no language model: how well the audio codes fit is not scored";
            order.notices.push(Notice(text.into()));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns notices about the limits of the built-in models.
fn of_built_in(folder: &AceStep, request: &Request) -> Option<Notice> {
    let lyrics = request.words.lyrics.as_deref();
    match folder.name() {
        TINY => {
            let text = "tiny is a random network: the sound is noise, made to prove the pipeline";
            Some(Notice(text.into()))
        }
        DEMO if lyrics.is_some_and(|of| singing::least_seconds(of) > 0.0) => {
            let text = "demo has never heard a voice: the words will not be sung";
            Some(Notice(text.into()))
        }
        _ => None,
    }
}
