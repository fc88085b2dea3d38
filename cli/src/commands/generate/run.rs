//! The backend-dependent part of `generate`.

use acestep_engine::{Engine, Error, on_engine};
use acestep_import::{AceStep, Network};
use acestep_model::{Backend, ModelFiles, Place};
use acestep_music::{
    Conditioning, ModelInfo, Networks,
    inputs::Inputs,
    pipeline::{self, Rendered, Wanted},
    stage,
    text::{CAPTION_TOKENS, LYRIC_TOKENS},
};

use super::Resolved;
use crate::{interrupt, progress};

/// Makes songs, stage by stage, so that each network is loaded once. All songs have the same model
/// and device; each has its own observer.
///
/// Calls `made(k, ..)` for song `k` as soon as it has its sound or an error.
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

impl<'a, F: FnMut(usize, Result<Rendered, Error>) -> Result<(), Error>> acestep_engine::BackendWork
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
        let inputs: Vec<&Inputs> = songs.iter().map(|(song, _)| &song.setup.inputs).collect();
        let mut prepared = Inputs::prepare_all(&inputs, &wanted, &networks);
        if let (Some(folder), [Ok(only)]) = (&first.setup.dump, &prepared[..]) {
            let conditioning = networks.attempt(stage::CONDITION, || only.to_conditioning());
            let save = |of: Conditioning| of.save(folder, first.setup.existing);
            if let Err(error) = conditioning.and_then(|of| interrupt::whole(|| save(of))) {
                prepared = vec![Err(error)];
            }
        }
        pipeline::generate_all(&wanted, &networks, prepared, made)
    }
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

/// Checks with the headers that the model has a VAE encoder.
pub(super) fn check_encoder(folder: &AceStep, engine: Engine) -> Result<(), Error> {
    on_engine!(engine, for<'a>(folder: &'a AceStep) -> Result<(), Error>, |place: B| {
        folder.check::<B>(&place.device, &[Network::VaeEncoder]).map_err(Error::checkpoint)
    })?
}

/// Counts the tokens of the caption and the lyrics, as the networks get them.
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
