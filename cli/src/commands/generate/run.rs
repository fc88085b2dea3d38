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

use super::{Resolved, resolved::Setup};
use crate::{commands::engine::on_engine, interrupt, progress};

/// Makes songs, stage by stage, so that each network is loaded once. All songs have the same model
/// and device; each has its own observer.
///
/// Calls `made(k, ..)` for song `k` as soon as it has its sound or an error.
///
/// # Errors
/// Errors of `made`; [`Error::NoDevice`].
pub(super) fn songs(
    songs: &[(&Resolved, progress::Of<'_>)],
    made: impl FnMut(usize, Result<Rendered, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some((first, _)) = songs.first() else { return Ok(()) };
    first.setup.engine.run(Songs { first, songs, made })?
}

struct Songs<'a, F> {
    first: &'a Resolved,
    songs: &'a [(&'a Resolved, progress::Of<'a>)],
    made: F,
}

impl<'a, F: FnMut(usize, Result<Rendered, Error>) -> Result<(), Error>> acestep_engine::Job
    for Songs<'a, F>
{
    type Output = Result<(), Error>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { first, songs, made } = self;
        let wanted = |(song, observe): &'a (&'a Resolved, progress::Of<'a>)| Wanted {
            plan: &song.plan,
            wants: song.setup.after.wants,
            observe,
        };
        let wanted: Vec<Wanted<'_>> = songs.iter().map(wanted).collect();
        let networks = Networks::<B>::new(&*first.folder, place, first.setup.residency);
        // Conditioning from files is only allowed with a single request.
        let prepared = match &first.setup.inputs.conditioning {
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
        let finished = |((song, _), prepared): (&(&Resolved, _), Result<Prepared<B>, Error>)| {
            finished(&song.setup, prepared?, &networks)
        };
        let prepared = songs.iter().zip(prepared).map(finished).collect();
        pipeline::generate_all(&wanted, &networks, prepared, made)
    }
}

/// Inserts the noise from a file, and writes the conditioning if wanted.
fn finished<B: Backend>(
    setup: &Setup,
    mut prepared: Prepared<B>,
    networks: &Networks<'_, B>,
) -> Result<Prepared<B>, Error> {
    if let Some((_, Array3 { shape, data })) = &setup.inputs.noise {
        let data = TensorData::new(data.clone(), *shape);
        prepared.start.noise = networks
            .attempt(stage::DIFFUSION, || Ok(Tensor::from_data(data, networks.device())))?;
    }
    if let Some(folder) = &setup.dump {
        let conditioning = networks.attempt(stage::CONDITION, || prepared.to_conditioning())?;
        interrupt::whole(|| conditioning.save(folder, setup.existing))?;
    }
    Ok(prepared)
}

/// Returns the properties of the model in `folder` that the plan needs.
///
/// # Errors
/// [`Error::NoDevice`]; [`Error::Checkpoint`] if a tensor of a required network is missing,
/// unexpected or has another shape.
pub(crate) fn model_info(folder: &AceStep, engine: Engine) -> Result<ModelInfo, Error> {
    on_engine!(engine, for<'a>(folder: &'a AceStep) -> Result<ModelInfo, Error>, |place: B| {
        // Check all headers first, so that no network runs before the last one is known to be
        // complete.
        folder.check::<B>(&place.device, &PARTS).map_err(Error::checkpoint)?;
        let configs = folder.configs();
        Ok(ModelInfo::new(folder.name(), folder.is_turbo(), configs))
    })?
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
    let source = matches!(plan.source.sound, Some(Sound::Audio(_))).then_some(plan.length.frames);
    let references = plan.source.references.iter().filter(|sound| matches!(sound, Sound::Audio(_)));
    source.max(references.map(|sound| sound.samples(plan.length.hop) / plan.length.hop).max())
}

/// Checks with the headers that the model has a VAE encoder.
///
/// # Errors
/// [`Error::NoDevice`]; [`Error::Checkpoint`].
pub(super) fn check_encoder(folder: &AceStep, engine: Engine) -> Result<(), Error> {
    on_engine!(engine, for<'a>(folder: &'a AceStep) -> Result<(), Error>, |place: B| {
        folder.check::<B>(&place.device, &[Network::VaeEncoder]).map_err(Error::checkpoint)
    })?
}

/// Counts the tokens of the caption and the lyrics, as the networks get them.
///
/// # Errors
/// [`Error::Checkpoint`] if there is no tokenizer.
pub(super) fn count_tokens(resolved: &Resolved) -> Result<[usize; 2], Error> {
    let Resolved { folder, plan, .. } = resolved;
    let count = |text: &str, most| match folder.token_ids(text, most) {
        Ok(ids) => Ok(ids.len()),
        Err(error) => Err(Error::checkpoint(error)),
    };
    Ok([
        count(&plan.words.caption_prompt, CAPTION_TOKENS)?,
        count(&plan.words.lyric_prompt, LYRIC_TOKENS)?,
    ])
}
