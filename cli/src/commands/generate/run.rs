//! The backend-dependent part of `generate`.

use acestep_engine::{Engine, Error};
use acestep_import::{AceStep, Network};
use acestep_model::{Backend, ModelFiles, Place};
use acestep_music::{
    ModelInfo, Networks, Plan, SongError,
    exchange::Array3,
    pipeline::{self, Prepared, Rendered, Wanted},
    sounds::{Sound, Sounds},
    stage,
    text::{CAPTION_TOKENS, LYRIC_TOKENS},
};
use burn::tensor::{Tensor, TensorData};

use super::{Args, Job};
use crate::{interrupt, progress};

/// Makes the songs of `jobs`, stage by stage, so that each network is loaded once. All jobs have
/// the same model and device; each has its own observer.
///
/// Calls `made(k, ..)` for job `k` as soon as it has its songs or an error.
///
/// # Errors
/// Errors of `made`; [`Error::NoDevice`].
pub(super) fn songs(
    jobs: &[(&Job, progress::Of<'_>)],
    args: &Args,
    made: impl FnMut(usize, Result<Rendered, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some((first, _)) = jobs.first() else { return Ok(()) };
    first.engine.run(Songs { jobs, args, made })?
}

struct Songs<'a, F> {
    jobs: &'a [(&'a Job, progress::Of<'a>)],
    args: &'a Args,
    made: F,
}

impl<'a, F: FnMut(usize, Result<Rendered, Error>) -> Result<(), Error>> acestep_engine::Job
    for Songs<'a, F>
{
    type Output = Result<(), Error>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { jobs, args, made } = self;
        let Some((first, _)) = jobs.first() else { return Ok(()) };
        let wanted = |(job, observe): &'a (&'a Job, progress::Of<'a>)| Wanted {
            plan: &job.plan,
            wants: job.after.wants,
            observe,
        };
        let wanted: Vec<Wanted<'_>> = jobs.iter().map(wanted).collect();
        let networks = Networks::<B>::new(&*first.folder, place, args.compute.residency());
        // Conditioning from files is only allowed with a single request.
        let prepared = match &first.inputs.conditioning {
            Some((folder, conditioning)) => {
                let prepared =
                    Prepared::from_conditioning(conditioning.clone(), &first.plan, &networks);
                vec![prepared.map_err(|error| match error {
                    // A mismatch is an error of the files, not a conflict of flags.
                    Error::Conflict(why) => {
                        SongError::Conditioning { path: folder.clone(), why }.into()
                    }
                    other => other,
                })]
            }
            None => pipeline::prepare_all(&wanted, &networks),
        };
        let finished = |((job, _), prepared): (&(&Job, _), Result<Prepared<B>, Error>)| {
            finished(job, prepared?, args, &networks)
        };
        let prepared = jobs.iter().zip(prepared).map(finished).collect();
        pipeline::generate_all(&wanted, &networks, prepared, made)
    }
}

/// Inserts the noise from a file, and writes the conditioning if wanted.
fn finished<B: Backend>(
    job: &Job,
    mut prepared: Prepared<B>,
    args: &Args,
    networks: &Networks<'_, B>,
) -> Result<Prepared<B>, Error> {
    if let Some((_, Array3 { shape, data })) = &job.inputs.noise {
        let data = TensorData::new(data.clone(), *shape);
        prepared.start.noise = networks
            .attempt(stage::DIFFUSION, || Ok(Tensor::from_data(data, networks.device())))?;
    }
    if let Some(folder) = &args.sampling.dump_conditioning {
        let conditioning = networks.attempt(stage::CONDITION, || prepared.to_conditioning())?;
        interrupt::whole(|| conditioning.save(folder, args.output.existing()))?;
    }
    Ok(prepared)
}

/// Returns the properties of the model in `folder` that the plan needs.
///
/// # Errors
/// [`Error::NoDevice`]; [`Error::Checkpoint`] if a tensor of a required network is missing,
/// unexpected or has another shape.
pub(crate) fn model_info(folder: &AceStep, engine: Engine) -> Result<ModelInfo, Error> {
    engine.run(Describe(folder))?
}

/// Networks that make a song from a request.
const PARTS: [Network; 5] = [
    Network::TextEncoder,
    Network::Conditioner,
    Network::AudioCodec,
    Network::Dit,
    Network::VaeDecoder,
];

/// True if a sound must be encoded.
pub(super) fn needs_encoder(sounds: &Sounds) -> bool {
    sounds.source.iter().chain(&sounds.references).any(|sound| matches!(sound, Sound::Audio(_)))
}

/// Returns the latent frames of the longest sound to encode, if there is one.
pub(super) fn encoded_frames(plan: &Plan) -> Option<usize> {
    let source = matches!(plan.source, Some(Sound::Audio(_))).then_some(plan.frames);
    let references = plan.references.iter().filter(|sound| matches!(sound, Sound::Audio(_)));
    source.max(references.map(|sound| sound.samples(plan.hop) / plan.hop).max())
}

/// Checks with the headers that the model has a VAE encoder.
///
/// # Errors
/// [`Error::NoDevice`]; [`Error::Checkpoint`].
pub(super) fn check_encoder(folder: &AceStep, engine: Engine) -> Result<(), Error> {
    engine.run(CheckEncoder(folder))?
}

struct CheckEncoder<'a>(&'a AceStep);

impl acestep_engine::Job for CheckEncoder<'_> {
    type Output = Result<(), Error>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        self.0.check::<B>(&place.device, &[Network::VaeEncoder]).map_err(Error::checkpoint)
    }
}

struct Describe<'a>(&'a AceStep);

impl acestep_engine::Job for Describe<'_> {
    type Output = Result<ModelInfo, Error>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        // Check all headers first, so that no network runs before the last one is known to be
        // complete.
        self.0.check::<B>(&place.device, &PARTS).map_err(Error::checkpoint)?;
        let configs = self.0.configs();
        Ok(ModelInfo::new(self.0.name(), self.0.is_turbo(), configs))
    }
}

/// Counts the tokens of the caption and the lyrics, as the networks get them.
///
/// # Errors
/// [`Error::Checkpoint`] if there is no tokenizer.
pub(super) fn count_tokens(Job { folder, plan, .. }: &Job) -> Result<[usize; 2], Error> {
    let count = |text: &str, most| match folder.token_ids(text, most) {
        Ok(ids) => Ok(ids.len()),
        Err(error) => Err(Error::checkpoint(error)),
    };
    Ok([count(&plan.caption_prompt, CAPTION_TOKENS)?, count(&plan.lyric_prompt, LYRIC_TOKENS)?])
}
