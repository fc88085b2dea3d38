//! Plan -> source -> condition -> flow matching -> latents -> VAE -> audio.

use std::time::Instant;

use acestep_model::{Backend, Checkpoint};
use burn::tensor::{Tensor, TensorData};

use crate::{
    Error, Plan,
    align::{self, Aligned, Wants},
    audio::{
        Audio,
        loudness::{normalise_peak, prevent_clipping, require_finite, require_sound},
        splice::splice,
    },
    condition::{self, Prompt, Timbre},
    device::trial::in_tiles,
    exchange::{Array3, Conditioning},
    flow::{
        self, Start, Steering, Track, Tracks,
        latents::adjusted,
        region::{Region, injected_steps},
    },
    host::{audio_from_sound, from_host, to_host},
    listen::CODES_AT_ONCE,
    observe::{Event, Observe, Stage, check},
    plan::Task,
    residency::{Network, Parts},
    sounds::Sound,
    source, vae,
};

/// A finished song and the seed that makes it again.
#[derive(Debug, Clone, PartialEq)]
pub struct Song {
    /// What is heard.
    pub audio: Audio,
    /// The seed of its noise.
    pub seed: u64,
}

/// Everything that sampling starts from.
#[derive(Debug, Clone)]
pub struct Prepared<B: Backend> {
    /// What the transformer follows.
    pub tracks: Tracks<B>,
    /// The initial noise, and what of a source is kept.
    pub start: Start<B>,
}

/// Makes the songs of a plan.
///
/// # Errors
/// [`Error::Checkpoint`] if a network cannot be read; [`Error::NotFinite`] or [`Error::Silent`]
/// with the stage whose result is unusable; [`Error::DeviceFailed`] if a card fails, most likely for
/// lack of memory; [`Error::Cancelled`].
// ANCHOR: generate
pub fn generate<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    parts: &Parts<'_, B, C>,
    observe: &dyn Observe,
) -> Result<Vec<Song>, Error> {
    let prepared = prepare(plan, parts, observe)?; // [B, L, H], [B, T, C]
    render(plan, parts, prepared, observe)
}
// ANCHOR_END: generate

/// The first half: prompts and codes to what sampling starts from.
///
/// # Errors
/// As [`generate`].
pub fn prepare<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    parts: &Parts<'_, B, C>,
    observe: &dyn Observe,
) -> Result<Prepared<B>, Error> {
    // What is not a network's is small, but on a card that is full it fails too.
    parts.attempt(Stage::Condition, || prepared(plan, parts, observe))
}

fn prepared<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    parts: &Parts<'_, B, C>,
    observe: &dyn Observe,
) -> Result<Prepared<B>, Error> {
    let batch = plan.seeds.len();
    let frames = plan.padded_frames;
    let silence = parts.silence_latent()?; // [1, stored, C]
    // ANCHOR: source
    let target = source::target(plan, &silence, parts, observe)?; // [1, T, C]
    let target = target.map(|target| source::padded(target, &silence, frames));
    // ANCHOR_END: source
    let timbre = timbre(plan, &silence, parts, observe)?;
    let prompt = Prompt {
        caption: plan.caption_prompt.clone(),
        lyrics: plan.lyric_prompt.clone(),
        plain_caption: plan.non_cover_prompt.clone(),
    };
    let heard = condition::encode(parts, &[prompt], &timbre, observe)?; // [1, L, H]
    let plain_source = source::silence(&silence, frames);
    let first_source = match &target {
        _ if plan.has_codes() => {
            let hints = hints(plan, parts, observe)?; // [1 or B, 5 N, C]
            source::padded(hints, &silence, frames)
        }
        None => plain_source.clone(),
        Some(target) if plan.is_cover() => coded(target, &silence, parts, observe)?,
        Some(target) => match &plan.region {
            // Lego hears what its track goes with.
            Some(region) if plan.task == Task::Repaint => {
                source::silenced(target.clone(), &region.frames, &silence)
            }
            _ => target.clone(),
        },
    };

    // Noise is laid over the source itself, not over what its audio codes keep of it.
    let under_noise = match &target {
        Some(target) if plan.is_cover() && !plan.has_codes() => target.clone(),
        _ => first_source.clone(),
    };

    // Every item of the batch hears the same, unless it has codes of its own.
    let each = |x: Tensor<B, 3>| {
        let [_, length, width] = x.dims();
        x.expand([batch, length, width])
    };
    let anew = plan.region.as_ref().map(|region| &region.frames);
    let mask = source::mask(anew, plan.mask_mode, frames);
    let track = |hidden: Tensor<B, 3>, source: Tensor<B, 3>| Track {
        condition: each(hidden),
        context: each(source::context(source, &mask)),
    };
    let tracks = Tracks {
        first: track(heard.first.hidden, first_source),
        later: heard.later.map(|later| (plan.cover_steps(), track(later.hidden, plain_source))),
        steering: plan.guidance.map(|guidance| Steering { guidance, null: heard.null }),
    };
    let region = match (&plan.region, target) {
        (Some(region), Some(target)) => Some(Region {
            clean: each(target),
            anew: region.frames.clone(),
            injected_steps: injected_steps(region.repaint.injection_ratio, plan.steps()),
            crossfade_frames: region.repaint.crossfade_frames,
        }),
        _ => None,
    };
    let source = (plan.cover_noise_strength > 0.0).then(|| each(under_noise));
    let start = Start { noise: initial_noise(plan, parts), source, region };
    Ok(Prepared { tracks, start })
}

/// Whose timbre the song takes: that of its references, or that of silence.
fn timbre<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    silence: &Tensor<B, 3>,
    parts: &Parts<'_, B, C>,
    observe: &dyn Observe,
) -> Result<Timbre<B>, Error> {
    let frames = parts.configs().dit.timbre_fix_frame;
    if plan.references.is_empty() {
        return Ok(Timbre::of_silence(silence, frames, 1));
    }
    let reference =
        |sound: &Sound| source::latents(&sound.excerpt(frames, plan.hop)?, parts, observe);
    let references = plan.references.iter().map(reference).collect::<Result<_, _>>()?;
    Ok(Timbre::of(references, 1))
}

/// The second half: what sampling starts from to songs.
///
/// # Errors
/// As [`generate`].
pub fn render<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    parts: &Parts<'_, B, C>,
    prepared: Prepared<B>,
    observe: &dyn Observe,
) -> Result<Vec<Song>, Error> {
    let rendered = render_and_align(plan, Wants::default(), parts, prepared, observe)?;
    Ok(rendered.songs)
}

/// Songs, and what was found in them.
#[derive(Debug)]
pub struct Rendered {
    /// The songs.
    pub songs: Vec<Song>,
    /// What was wanted of each. Where that fails, the songs are there all the same.
    pub aligned: Result<Vec<Aligned>, Error>,
}

/// [`render`], and then what is wanted of the songs besides their sound.
///
/// # Errors
/// As [`generate`].
pub fn render_and_align<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    wants: Wants,
    parts: &Parts<'_, B, C>,
    prepared: Prepared<B>,
    observe: &dyn Observe,
) -> Result<Rendered, Error> {
    let followed = prepared.tracks.first.clone();
    // ANCHOR: render
    let latents = denoise(plan, parts, prepared, observe)?; // [B, T, C]
    let songs = sing(plan, parts, latents.clone(), observe)?;
    let aligned = align::gaze::songs(plan, wants, parts, &followed, &latents, observe);
    // ANCHOR_END: render
    Ok(Rendered { songs, aligned })
}

/// The last part of [`render`]: latents `[B, T, C]` to songs.
///
/// # Errors
/// As [`generate`].
pub fn sing<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    parts: &Parts<'_, B, C>,
    latents: Tensor<B, 3>,
    observe: &dyn Observe,
) -> Result<Vec<Song>, Error> {
    let songs = decode(plan, parts, latents, observe)?; // B times [2, S]
    Ok(finish(plan, songs))
}

fn hints<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    parts: &Parts<'_, B, C>,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    check(observe)?;
    let start = Instant::now();
    let hints = parts.guarded(Network::AudioCodec, observe, || {
        observe.event(Event::Loading(Stage::Codes));
        let codec = parts.audio_codec()?;
        observe.event(Event::Advanced { stage: Stage::Codes, done: 0, total: 1 });
        let hints = codec.decode(&plan.codes, parts.device());
        require_finite("the detokenizer of audio codes", &to_host(hints.clone()))?;
        Ok(hints)
    })?;
    observe.event(Event::Finished { stage: Stage::Codes, elapsed: start.elapsed() });
    Ok(hints)
}

/// Latents as their audio codes have them: what a cover follows.
///
/// # Shapes
/// - `target`, output: `[1, T, C]`
fn coded<B: Backend, C: Checkpoint<B>>(
    target: &Tensor<B, 3>,
    silence: &Tensor<B, 3>,
    parts: &Parts<'_, B, C>,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    check(observe)?;
    let start = Instant::now();
    let frames = target.dims()[1];
    let at_once = CODES_AT_ONCE * parts.configs().dit.pool_window_size;
    let starts: Vec<usize> = (0..frames).step_by(at_once).collect();
    let total = starts.len();
    let coded = parts.guarded(Network::AudioCodec, observe, || {
        observe.event(Event::Loading(Stage::Codes));
        let codec = parts.audio_codec()?;
        observe.event(Event::Advanced { stage: Stage::Codes, done: 0, total });
        let mut pieces = Vec::with_capacity(total);
        for (index, &start) in starts.iter().enumerate() {
            check(observe)?;
            let piece = target.clone().narrow(1, start, at_once.min(frames - start));
            pieces.push(codec.round_trip(piece, silence.clone()));
            observe.event(Event::Advanced { stage: Stage::Codes, done: index + 1, total });
        }
        let coded = Tensor::cat(pieces, 1);
        require_finite("the tokenizer of audio codes", &to_host(coded.clone()))?;
        Ok(coded)
    })?;
    observe.event(Event::Finished { stage: Stage::Codes, elapsed: start.elapsed() });
    // The last code may reach beyond the end.
    Ok(coded.narrow(1, 0, frames))
}

/// The first part of [`render`]: what sampling starts from to latents, `[B, T, C]`.
///
/// # Errors
/// As [`generate`].
pub fn denoise<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    parts: &Parts<'_, B, C>,
    prepared: Prepared<B>,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    check(observe)?;
    let Prepared { tracks, start: from } = prepared;
    let start = Instant::now();
    let [_, frames, channels] = from.noise.dims();
    let step_noise = |step: usize| {
        let draw = |&seed: &u64| plan.noise.step_noise(seed, step, frames, channels);
        from_host(plan.seeds.iter().flat_map(draw).collect(), frames, channels, parts.device())
    };
    let sampling = plan.sampling();
    let latents = parts.guarded(Network::Dit, observe, || {
        observe.event(Event::Loading(Stage::Diffusion));
        let dit = parts.dit()?;
        let latents = flow::sample(&dit, &tracks, from.clone(), &sampling, step_noise, observe)?;
        let latents = adjusted(latents, plan.latent_rescale, plan.latent_shift);
        require_finite("the diffusion transformer", &to_host(latents.clone()))?;
        Ok(latents)
    })?;
    observe.event(Event::Finished { stage: Stage::Diffusion, elapsed: start.elapsed() });
    Ok(latents)
}

/// Sound that can be heard, one song a seed, cut to what was asked.
///
/// Where a card has too little memory after all, the tiles are halved, and halved again.
fn decode<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    parts: &Parts<'_, B, C>,
    latents: Tensor<B, 3>,
    observe: &dyn Observe,
) -> Result<Vec<Audio>, Error> {
    check(observe)?;
    let start = Instant::now();
    let config = &parts.configs().vae;
    let device = parts.site().device;
    let frames = latents.dims()[1];
    let songs = parts.guarded(Network::VaeDecoder, observe, || {
        observe.event(Event::Loading(Stage::Vae));
        let decoder = parts.vae_decoder()?;
        let free = || parts.free();
        let work = |tiling| {
            let sound = vae::decode(&decoder, latents.clone(), config.hop(), tiling, observe)?;
            // Only values that were read are known to have been computed.
            Ok(audio_from_sound(sound, config.sampling_rate))
        };
        let mut songs = in_tiles(device, Stage::Vae, frames, plan.tiling, observe, free, work)?;
        for song in &mut songs {
            song.crop(plan.samples());
            require_sound("the VAE", song)?;
        }
        Ok(songs)
    })?;
    observe.event(Event::Finished { stage: Stage::Vae, elapsed: start.elapsed() });
    Ok(songs)
}

/// Puts what was made into its source, if that stays, and sets the loudness of songs.
fn finish(plan: &Plan, songs: Vec<Audio>) -> Vec<Song> {
    let seam = plan.seam();
    let finished = |(&seed, mut audio): (&u64, Audio)| {
        prevent_clipping(&mut audio);
        if let Some((seam, source)) = &seam {
            splice(&mut audio, source, seam);
        }
        if let Some(decibels) = plan.normalization_db {
            normalise_peak(&mut audio, decibels);
        }
        Song { audio, seed }
    };
    plan.seeds.iter().zip(songs).map(finished).collect()
}

fn initial_noise<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    parts: &Parts<'_, B, C>,
) -> Tensor<B, 3> {
    let (frames, channels) = (plan.padded_frames, parts.configs().dit.audio_acoustic_hidden_dim);
    let noise = (0..plan.batch_size()).flat_map(|item| plan.initial_noise(item)).collect();
    from_host(noise, frames, channels, parts.device())
}

impl<B: Backend> Prepared<B> {
    /// What is exchanged with other programs: the first track and the noise.
    ///
    /// # Errors
    /// [`Error::Conflict`] if there is a second track, which the files cannot hold.
    pub fn to_conditioning(&self) -> Result<Conditioning, Error> {
        if self.tracks.later.is_some() {
            let why = "conditioning files hold one condition: --dump-conditioning needs \
                       --audio-cover-strength 1";
            return Err(Error::Conflict(why.into()));
        }
        if self.start.region.is_some() || self.start.source.is_some() {
            let why = "conditioning files hold nothing of a source that is kept";
            return Err(Error::Conflict(why.into()));
        }
        let array = |x: &Tensor<B, 3>| Array3::new(x.dims(), to_host(x.clone()));
        Ok(Conditioning {
            encoder_hidden_states: array(&self.tracks.first.condition),
            context_latents: array(&self.tracks.first.context),
            initial_noise: array(&self.start.noise),
        })
    }

    /// Takes what another program conditioned; guidance reads the checkpoint's null condition.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the arrays do not fit each other, the checkpoint or the plan;
    /// [`Error::DeviceFailed`] if a card fails.
    pub fn from_conditioning<C: Checkpoint<B>>(
        conditioning: Conditioning,
        plan: &Plan,
        parts: &Parts<'_, B, C>,
    ) -> Result<Self, Error> {
        let Conditioning { encoder_hidden_states, context_latents, initial_noise } = conditioning;
        let config = &parts.configs().dit;
        let (channels, width) = (config.audio_acoustic_hidden_dim, config.encoder_shape().hidden());
        let [batch, frames] = [plan.seeds.len(), plan.padded_frames];
        let length = encoder_hidden_states.shape[1];
        for (name, found, wanted) in [
            ("encoder_hidden_states", encoder_hidden_states.shape, [batch, length, width]),
            ("context_latents", context_latents.shape, [batch, frames, 2 * channels]),
            ("initial_noise", initial_noise.shape, [batch, frames, channels]),
        ] {
            if found != wanted {
                let why = format!("{name} is {found:?}, but this model and plan need {wanted:?}");
                return Err(Error::Conflict(why));
            }
        }
        let tensor = |array: Array3| {
            Tensor::from_data(TensorData::new(array.data, array.shape), parts.device())
        };
        parts.attempt(Stage::Condition, || {
            let steering = match plan.guidance {
                Some(guidance) => {
                    Some(Steering { guidance, null: parts.conditioner()?.null_condition() })
                }
                None => None,
            };
            let condition = tensor(encoder_hidden_states);
            let first = Track { condition, context: tensor(context_latents) };
            let tracks = Tracks { first, later: None, steering };
            Ok(Self { tracks, start: tensor(initial_noise).into() })
        })
    }
}
