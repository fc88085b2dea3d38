//! Plan -> source -> condition -> flow matching -> latents -> VAE -> audio.

mod many;
mod prepare;

use acestep_engine::{
    Error, Notice,
    allocator::KeepFreed,
    audio::{
        Audio,
        fade::fade,
        loudness::{Loudness, prevent_clipping, require_sound},
        splice::splice,
    },
    host::{from_host, to_host},
    progress::{Event, Observe},
};
use acestep_model::Backend;
use burn::tensor::{DType, Tensor};

use crate::{
    Plan,
    align::{self, Aligned, Extras},
    codec::sounds_of,
    exchange::Array3,
    flow::{
        self, Track,
        edit::{Edit, Side},
        latents::adjusted,
    },
    networks::{DIT, Networks},
    stage,
    usable::{finite, usable},
    vae::decoded_frames,
};

pub use many::{PlanRun, generate_all};
pub use prepare::{Edited, SamplingInputs, prepare, prepare_all};

/// A finished song and the seed that reproduces it.
#[derive(Debug, Clone, PartialEq)]
pub struct Song {
    /// The sound.
    pub audio: Audio,
    /// The seed of its noise.
    pub seed: u64,
}

/// Generates the songs of a plan.
///
/// # Errors
/// [`Error::Checkpoint`] if a network cannot be read; [`Error::NotFinite`] or [`Error::Silent`]
/// with the stage whose result is unusable, of one song too ([`render_and_align`] returns the
/// others); [`Error::DeviceFailed`] if a GPU fails, perhaps for lack of memory;
/// [`Error::Cancelled`].
// ANCHOR: generate
pub fn generate<B: Backend>(
    plan: &Plan,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Vec<Song>, Error> {
    let prepared = prepare(plan, networks, observe)?; // [B, L, H], [B, T, C]
    render(plan, networks, prepared, observe)
}
// ANCHOR_END: generate

/// The second half of [`generate`]: from the inputs of sampling to songs.
///
/// # Errors
/// As [`generate`].
pub fn render<B: Backend>(
    plan: &Plan,
    networks: &Networks<'_, B>,
    prepared: SamplingInputs<B>,
    observe: &dyn Observe,
) -> Result<Vec<Song>, Error> {
    render_and_align(plan, Extras::default(), networks, prepared, observe)?.all_songs()
}

/// Songs, and the results of their alignment.
#[derive(Debug)]
pub struct Rendered {
    /// Each song of the batch, or its error if it is silent or not finite. At least one is usable.
    pub songs: Vec<Result<Song, Error>>,
    /// The latents of each song, `[1, T, C]`, without padding frames.
    pub latents: Vec<Array3>,
    /// The requested alignment of each song. If it fails, the songs are still returned.
    pub aligned: Result<Vec<Aligned>, Error>,
}

impl Rendered {
    /// Returns the songs if all are usable.
    ///
    /// # Errors
    /// The error of the first song that is not.
    pub fn all_songs(self) -> Result<Vec<Song>, Error> {
        self.songs.into_iter().collect()
    }
}

/// [`render`], and the requested alignment of the songs.
///
/// # Errors
/// As [`generate`], if no song is usable.
pub fn render_and_align<B: Backend>(
    plan: &Plan,
    extras: Extras,
    networks: &Networks<'_, B>,
    prepared: SamplingInputs<B>,
    observe: &dyn Observe,
) -> Result<Rendered, Error> {
    let followed = prepared.tracks.first.clone();
    // ANCHOR: render
    let latents = denoise(plan, networks, prepared, observe)?; // [B, T, C]
    // Before decoding, because the transformer may still be in memory.
    let aligned =
        align::attention_maps::songs(plan, extras, networks, &followed, &latents, observe);
    let songs = decode_songs(plan, networks, latents.clone(), observe)?;
    // ANCHOR_END: render
    let latents = trim_to_host(plan, latents, networks)?;
    Ok(Rendered { songs, latents, aligned })
}

/// Copies latents `[B, T, C]` to the host without padding frames, one array per song.
fn trim_to_host<B: Backend>(
    plan: &Plan,
    latents: Tensor<B, 3>,
    networks: &Networks<'_, B>,
) -> Result<Vec<Array3>, Error> {
    let heard = latents.narrow(1, 0, plan.length.frames);
    let [_, frames, channels] = heard.dims();
    let values = networks.catch(stage::DIFFUSION, || Ok(to_host(heard)))?;
    let song = |song: &[f32]| Array3::new([1, frames, channels], song.to_vec());
    Ok(values.chunks(frames * channels).map(song).collect())
}

/// The last part of [`render`]: latents `[B, T, C]` to songs, or their errors.
///
/// # Errors
/// As [`render_and_align`].
pub fn decode_songs<B: Backend>(
    plan: &Plan,
    networks: &Networks<'_, B>,
    latents: Tensor<B, 3>,
    observe: &dyn Observe,
) -> Result<Vec<Result<Song, Error>>, Error> {
    let songs = decode(plan, networks, latents, observe)?; // B times [2, S]
    Ok(finish(plan, songs, observe))
}

/// The first part of [`render`]: from the inputs of sampling to latents, `[B, T, C]`. Those of one
/// song at least are finite.
///
/// # Errors
/// As [`render_and_align`].
pub fn denoise<B: Backend>(
    plan: &Plan,
    networks: &Networks<'_, B>,
    prepared: SamplingInputs<B>,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    let SamplingInputs { tracks, start: from, edited } = prepared;
    let [_, frames, channels] = from.noise.dims();
    let step_noise = |step: usize| {
        let draw = |&seed: &u64| plan.noise.source.step_noise(seed, step, frames, channels);
        let noise = plan.noise.seeds.iter().flat_map(draw).collect();
        from_host(noise, frames, channels, networks.device())
    };
    let sampling = plan.steps_to_take();
    networks.stage(stage::DIFFUSION, DIT, observe, |steps| {
        let _kept = KeepFreed::new();
        let dit = networks.dit()?;
        let latents = match (&plan.edit, &edited) {
            (Some(settings), Some(Edited { song, source })) => {
                let side = |track: &Track<B>| Side {
                    track: track.clone(),
                    steering: tracks.steering.clone(),
                };
                let edit = Edit {
                    song: song.clone(),
                    source: side(source),
                    target: side(&tracks.first),
                    window: settings.window,
                };
                let mut streams: Vec<_> =
                    settings.seeds.iter().map(|&seed| plan.noise.source.stream(seed)).collect();
                let draw = || {
                    let noise = streams.iter_mut().flat_map(|it| it.draw(frames, channels));
                    from_host(noise.collect(), frames, channels, networks.device())
                };
                flow::edit::edit(&dit, &edit, &sampling, draw, steps.observe)?
            }
            _ => flow::sample(&dit, &tracks, from.clone(), &sampling, step_noise, steps.observe)?,
        };
        let latents = adjusted(latents, plan.output.latent_rescale, plan.output.latent_shift);
        usable(finite(&latents), networks.place(DIT).dtype)?;
        Ok(latents)
    })
}

/// Decodes audible sound, one song per seed, cut to the requested length. Latents that are not
/// finite are not decoded.
fn decode<B: Backend>(
    plan: &Plan,
    networks: &Networks<'_, B>,
    latents: Tensor<B, 3>,
    observe: &dyn Observe,
) -> Result<Vec<Result<Audio, Error>>, Error> {
    let (checked, latents) = networks.catch(stage::VAE, || {
        let checked = usable(finite(&latents), DType::F32)?;
        if checked.iter().all(Result::is_ok) {
            return Ok((checked, latents));
        }
        let songs = checked.iter().enumerate().filter(|(_, checked)| checked.is_ok());
        let songs = songs.map(|(index, _)| latents.clone().narrow(0, index, 1)).collect();
        Ok((checked, Tensor::cat(songs, 0)))
    })?;
    let latents = without_padding(plan, latents, networks);
    let mut songs = sounds_of(latents, Some(plan.tiling), networks, observe, |song| {
        song.crop(plan.samples());
        require_sound("the VAE", song)
    })?
    .into_iter();
    let of = |checked: Result<(), Error>| match checked {
        Ok(()) => songs.next(),
        Err(error) => Some(Err(error)),
    };
    Ok(checked.into_iter().filter_map(of).collect())
}

/// Returns the latents `[B, T, C]` without the padding that [`decoded_frames`] leaves out.
fn without_padding<B: Backend>(
    plan: &Plan,
    latents: Tensor<B, 3>,
    networks: &Networks<'_, B>,
) -> Tensor<B, 3> {
    let (config, device) = (&networks.configs().vae, networks.target().device);
    let padded = latents.dims()[1];
    match decoded_frames(plan.length.frames, padded, config, device) {
        all if all == padded => latents,
        needed => latents.narrow(1, 0, needed),
    }
}

/// Inserts the generated part into its source if the source is kept, sets the loudness of songs,
/// and applies fades.
fn finish(
    plan: &Plan,
    songs: Vec<Result<Audio, Error>>,
    observe: &dyn Observe,
) -> Vec<Result<Song, Error>> {
    let seam = plan.seam();
    let several = songs.len() > 1;
    let finished = |seed: u64, mut audio: Audio| {
        // Notify only if no loudness target follows; a target would hide the change.
        let quieter =
            prevent_clipping(&mut audio).filter(|_| plan.output.loudness == Loudness::AsIs);
        if let Some((seam, source)) = &seam {
            splice(&mut audio, source, seam);
        }
        if let Some(Notice(text)) = plan.output.loudness.apply(&mut audio).or(quieter) {
            let which = if several { format!("song of seed {seed}: ") } else { String::new() };
            observe.event(Event::Noticed(Notice(format!("{which}{text}"))));
        }
        fade(&mut audio, plan.output.fades());
        Song { audio, seed }
    };
    let pairs = plan.noise.seeds.iter().zip(songs);
    pairs.map(|(&seed, audio)| audio.map(|audio| finished(seed, audio))).collect()
}
