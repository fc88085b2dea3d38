//! The part of `generate` that knows the backend.

use acestep_import::{Folder, Part};
use acestep_model::{Backend, Checkpoint, Configs, Place, acestep::Fsq};
use acestep_runtime::{
    Engine, Error, ModelInfo, Parts, Plan, Residency, Stage,
    exchange::Array3,
    pipeline::{self, Prepared, Rendered},
    sounds::{Sound, Sounds},
    text::{CAPTION_TOKENS, LYRIC_TOKENS},
};
use burn::tensor::{Tensor, TensorData};

use super::{Args, Job};
use crate::{interrupt, progress::Progress};

/// Makes the songs of `job` on its device.
///
/// # Errors
/// Those of [`pipeline::generate`], and of writing conditioning.
pub(super) fn songs(job: &Job, args: &Args, progress: &Progress) -> Result<Rendered, Error> {
    job.engine.run(Songs { job, args, progress })?
}

struct Songs<'a> {
    job: &'a Job,
    args: &'a Args,
    progress: &'a Progress,
}

impl acestep_runtime::Job for Songs<'_> {
    type Output = Result<Rendered, Error>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { job, args, progress } = self;
        let Job { plan, inputs, folder, .. } = job;
        let parts = Parts::<B, Folder>::new(folder, place, args.compute.residency());
        let mut prepared = match &inputs.conditioning {
            Some((folder, conditioning)) => {
                Prepared::from_conditioning(conditioning.clone(), plan, &parts).map_err(
                    // What does not fit is the files' fault, not that of two flags.
                    |error| match error {
                        Error::Conflict(why) => Error::Conditioning { path: folder.clone(), why },
                        other => other,
                    },
                )?
            }
            None => pipeline::prepare(plan, &parts, progress)?,
        };
        if let Some((_, Array3 { shape, data })) = &inputs.noise {
            let data = TensorData::new(data.clone(), *shape);
            prepared.start.noise =
                parts.attempt(Stage::Diffusion, || Ok(Tensor::from_data(data, parts.device())))?;
        }
        if let Some(folder) = &args.sampling.dump_conditioning {
            let conditioning = parts.attempt(Stage::Condition, || prepared.to_conditioning())?;
            interrupt::whole(|| conditioning.save(folder, args.output.existing()))?;
        }
        pipeline::render_and_align(plan, job.after.wants, &parts, prepared, progress)
    }
}

/// What the plan must know of the model in `folder`.
///
/// # Errors
/// [`Error::NoDevice`]; [`Error::Checkpoint`] if a tensor of a network that songs are made with is
/// missing, left over or of another shape.
pub(crate) fn model_info(folder: &Folder, engine: Engine) -> Result<ModelInfo, Error> {
    engine.run(Describe(folder))?
}

/// The networks that turn a request into a song.
const PARTS: [Part; 5] =
    [Part::TextEncoder, Part::Conditioner, Part::AudioCodec, Part::Dit, Part::VaeDecoder];

/// Whether sound has to be encoded.
pub(super) fn needs_encoder(sounds: &Sounds) -> bool {
    sounds.source.iter().chain(&sounds.references).any(|sound| matches!(sound, Sound::Audio(_)))
}

/// Latent frames of the longest sound that is encoded, if there is one.
pub(super) fn encoded_frames(plan: &Plan) -> Option<usize> {
    let source = matches!(plan.source, Some(Sound::Audio(_))).then_some(plan.frames);
    let references = plan.references.iter().filter(|sound| matches!(sound, Sound::Audio(_)));
    source.max(references.map(|sound| sound.samples(plan.hop) / plan.hop).max())
}

/// Checks by the headers that there is a network that sound is encoded with.
///
/// # Errors
/// [`Error::NoDevice`]; [`Error::Checkpoint`].
pub(super) fn check_encoder(folder: &Folder, engine: Engine) -> Result<(), Error> {
    engine.run(CheckEncoder(folder))?
}

struct CheckEncoder<'a>(&'a Folder);

impl acestep_runtime::Job for CheckEncoder<'_> {
    type Output = Result<(), Error>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        self.0.check::<B>(&place.device, &[Part::VaeEncoder]).map_err(Error::checkpoint)
    }
}

struct Describe<'a>(&'a Folder);

impl acestep_runtime::Job for Describe<'_> {
    type Output = Result<ModelInfo, Error>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        // By the headers alone, so that no network runs before the last one is known to be whole.
        self.0.check::<B>(&place.device, &PARTS).map_err(Error::checkpoint)?;
        let Configs { dit, vae, .. } = Checkpoint::<B>::configs(self.0);
        Ok(ModelInfo {
            name: self.0.name().to_owned(),
            is_turbo: self.0.is_turbo(),
            channels: dit.audio_acoustic_hidden_dim,
            hop: vae.hop(),
            sample_rate: vae.sampling_rate,
            frames_per_code: dit.pool_window_size,
            timbre_frames: dit.timbre_fix_frame,
            codes: Fsq::new(dit.fsq_input_levels.clone()).codes(),
        })
    }
}

/// How many tokens the caption and the lyrics are, as the networks read them.
///
/// # Errors
/// [`Error::Checkpoint`] if there is no tokenizer, [`Error::NoDevice`].
pub(super) fn count_tokens(job: &Job) -> Result<[usize; 2], Error> {
    job.engine.run(CountTokens(job))?
}

struct CountTokens<'a>(&'a Job);

impl acestep_runtime::Job for CountTokens<'_> {
    type Output = Result<[usize; 2], Error>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Job { folder, plan, .. } = self.0;
        let parts = Parts::<B, Folder>::new(folder, place, Residency::WhileUsed);
        Ok([
            parts.token_ids(&plan.caption_prompt, CAPTION_TOKENS)?.len(),
            parts.token_ids(&plan.lyric_prompt, LYRIC_TOKENS)?.len(),
        ])
    }
}
