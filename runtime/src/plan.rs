//! What will be done: every default taken, every range checked, nothing optional left.
//!
//! Source: upstream `inference.py` and handler defaults; where upstream's own doors disagree
//! (shift 1.0 or 3.0, batch 1 or 2) the model cards decide.

mod adapters;
pub mod length;
pub mod limits;
pub mod metadata;
mod sampler;
mod schedule;
mod seeds;
pub mod singing;
mod song;
pub mod sound;
mod start;
mod task;
#[cfg(test)]
mod tests;
pub mod tiles;

use acestep_model::{Configs, acestep::Fsq};

use crate::{
    Error, Notice, Request,
    audio::{Audio, loudness::Loudness, splice::Seam},
    flow::{
        self, Sampling, dcw::Dcw, latents::retaken, noise::NoiseSource, schedule::Schedule,
        smoothing::Smoothing, solver::Solver,
    },
    sounds::{Sound, Sounds},
    vae::Tiling,
};

pub use crate::flow::guidance::{Guidance, GuidanceMode};
pub use adapters::adapters;
pub use length::frames_from_seconds;
pub use metadata::SongMetadata;
pub use song::no_duration;
pub use start::{FlowEdit, Retake};
pub use task::{Added, MaskMode, Region, Repaint, TRACKS, Task};

/// Upstream never samples fewer latent frames; shorter songs are cropped afterwards.
pub const LEAST_FRAMES: usize = 128;

/// Longest song in seconds: as much silence as the checkpoint holds.
pub const MOST_SECONDS: f64 = 600.0;

/// What a plan must know of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// How messages call it.
    pub name: String,
    /// Distilled to eight steps without guidance.
    pub is_turbo: bool,
    /// Latent channels.
    pub channels: usize,
    /// Samples of one latent frame.
    pub hop: usize,
    /// Samples a second.
    pub sample_rate: u32,
    /// Latent frames of one audio code.
    pub frames_per_code: usize,
    /// Latent frames that a timbre is taken from: 750 in the released models.
    pub timbre_frames: usize,
    /// Audio codes that exist: 64 000 in the released models.
    pub codes: u32,
    /// Strength of guidance where none is asked for: 7 for the released models.
    pub guidance_scale: f64,
}

/// Strength of guidance of the released base and sft models, as upstream's `inference.py` has it.
const GUIDANCE: f64 = 7.0;

impl ModelInfo {
    /// That of the model called `name`, by its configurations.
    pub fn new(name: impl Into<String>, is_turbo: bool, configs: &Configs) -> Self {
        let Configs { dit, vae, .. } = configs;
        Self {
            name: name.into(),
            is_turbo,
            channels: dit.audio_acoustic_hidden_dim,
            hop: vae.hop(),
            sample_rate: vae.sampling_rate,
            frames_per_code: dit.pool_window_size,
            timbre_frames: dit.timbre_fix_frame,
            codes: Fsq::new(dit.fsq_input_levels.clone()).codes(),
            guidance_scale: dit.default_guidance_scale.unwrap_or(GUIDANCE),
        }
    }
}

/// A song, fully decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What is done.
    pub task: Task,
    /// The song that it is made from; `None` for text2music, and where audio codes stand for it.
    pub source: Option<Sound>,
    /// Pieces of the songs whose timbre it takes; none = that of silence.
    pub references: Vec<Sound>,
    /// Silence that is added to the source to be filled.
    pub added: Added,
    /// The part that is made, if it is not all of it.
    pub region: Option<Region>,
    /// What the transformer is told of that part.
    pub mask_mode: MaskMode,
    /// What it sounds like.
    pub caption: String,
    /// What is sung.
    pub lyrics: String,
    /// A code of [`metadata::LANGUAGES`].
    pub vocal_language: String,
    /// What the model is told to do.
    pub instruction: String,
    /// Tempo, metre, key and length as the prompt states them.
    pub metas: crate::prompt::Metas,
    /// The whole text for the caption encoder.
    pub caption_prompt: String,
    /// The same with the text2music instruction, for the steps that do not follow codes or source.
    /// Present if [`Plan::audio_cover_strength`] is below 1.
    pub non_cover_prompt: Option<String>,
    /// The whole text for the lyric encoder.
    pub lyric_prompt: String,
    /// Length in seconds that was asked for; that of codes or source, if there are some.
    pub duration_s: f64,
    /// Latent frames that are heard.
    pub frames: usize,
    /// Latent frames that are sampled, at least [`LEAST_FRAMES`].
    pub padded_frames: usize,
    /// Samples of one latent frame.
    pub hop: usize,
    /// Samples a second.
    pub sample_rate: u32,
    /// Latent channels.
    pub channels: usize,
    /// One for each song.
    pub seeds: Vec<u64>,
    /// Times of the solver, descending, without the last; [`Plan::schedule`] has those that are left
    /// where sampling starts from a source.
    pub timesteps: Vec<f32>,
    /// Where the last step ends: 0, unless the user's own times end elsewhere.
    pub terminal: f32,
    /// How far the schedule leans to the noise; `None` if the times were given.
    pub shift: Option<f32>,
    /// How a step moves.
    pub solver: Solver,
    /// What is done with every velocity.
    pub smoothing: Smoothing,
    /// What is done after every step; `None` = nothing.
    pub dcw: Option<Dcw>,
    /// Guidance; `None` for turbo and for a scale of 1.
    pub guidance: Option<Guidance>,
    /// The songs' outlines, five codes a second: one list for all songs or one for each, all as
    /// long as each other; no list = no outline.
    pub codes: Vec<Vec<u32>>,
    /// Share of the steps that follow codes or source; the rest see silence in their place.
    pub audio_cover_strength: f64,
    /// How much of a source stays under the noise that sampling starts from, 0 to 1.
    pub cover_noise_strength: f64,
    /// Another take of the songs that the seeds make; `None` = those themselves.
    pub retake: Option<Retake>,
    /// A song that is edited instead of made; `None` = none.
    pub flow_edit: Option<FlowEdit>,
    /// The finished latents are multiplied by this ...
    pub latent_rescale: f32,
    /// ... and moved by this.
    pub latent_shift: f32,
    /// Whether the model is distilled; its stochastic steps end on the schedule's times.
    pub is_turbo: bool,
    /// Generator of the noise.
    pub noise: NoiseSource,
    /// How latents are cut for the VAE.
    pub tiling: Tiling,
    /// How loud the songs are made.
    pub loudness: Loudness,
    /// Seconds from silence at the start, and into it at the end.
    pub fades: (f64, f64),
}

impl Plan {
    /// Latent frames of a second: 25.
    pub fn frames_per_second(&self) -> f64 {
        f64::from(self.sample_rate) / self.hop as f64
    }

    /// Decides everything that `request` leaves open, and says what is worth saying.
    ///
    /// Absent seeds are drawn from the operating system, so two plans of one request differ in
    /// nothing but those.
    ///
    /// # Errors
    /// An [`Error`] that names the option, its value and what is allowed.
    pub fn resolve(request: &Request, model: &ModelInfo) -> Result<(Self, Vec<Notice>), Error> {
        Self::with_sounds(request, model, &Sounds::default())
    }

    /// The same with the songs that are followed; the request's names of files are not read.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn with_sounds(
        request: &Request,
        model: &ModelInfo,
        sounds: &Sounds,
    ) -> Result<(Self, Vec<Notice>), Error> {
        let mut notices = Vec::new();
        let work = task::decide(request, model, sounds, &mut notices)?;
        let song = song::decide(request, model, &work, &mut notices)?;
        let sampling = schedule::decide(request, model, &mut notices)?;
        let noise = request.rng.as_deref().map(str::parse).transpose()?.unwrap_or_default();
        let padded_frames = song.frames.max(LEAST_FRAMES);
        let seeds = seeds::decide(request, song.codes.len(), noise, &mut notices)?;
        let solver = sampler::solver(request, model, &mut notices)?;
        let (latent_rescale, latent_shift) = start::latents(request)?;
        let has_source = work.source.is_some() || !song.codes.is_empty();
        let flow_edit = start::flow_edit(request, &song, &seeds, &mut notices)?;
        let mut plan = Self {
            caption_prompt: song.caption_prompt(&song.instruction),
            non_cover_prompt: (song.audio_cover_strength < 1.0)
                .then(|| song.caption_prompt(crate::prompt::TEXT_TO_MUSIC)),
            lyric_prompt: crate::prompt::lyric_prompt(song.vocal_language, &song.lyrics),
            caption: song.caption,
            lyrics: song.lyrics,
            vocal_language: song.vocal_language.to_owned(),
            instruction: song.instruction,
            metas: song.metas,
            duration_s: song.duration_s,
            frames: song.frames,
            padded_frames,
            hop: model.hop,
            sample_rate: model.sample_rate,
            channels: model.channels,
            retake: start::retake(request, seeds.len(), &mut notices)?,
            flow_edit,
            seeds,
            timesteps: sampling.schedule.timesteps,
            terminal: sampling.schedule.terminal,
            shift: sampling.shift,
            solver,
            smoothing: sampler::smoothing(request)?,
            dcw: sampler::dcw(request, solver, &mut notices)?,
            guidance: sampling.guidance,
            codes: song.codes,
            audio_cover_strength: song.audio_cover_strength,
            cover_noise_strength: start::cover_noise_strength(request, has_source, &mut notices)?,
            latent_rescale,
            latent_shift,
            is_turbo: model.is_turbo,
            noise,
            tiling: tiles::decide(
                (request.vae_chunk, request.vae_overlap),
                Tiling::default(),
                padded_frames,
                &mut notices,
            )?,
            loudness: sound::loudness(request, work.keeps(model), &mut notices)?,
            fades: sound::fades(request, song.duration_s, &mut notices)?,
            task: work.task,
            source: work.source,
            references: work.references,
            added: work.added,
            region: work.region,
            mask_mode: work.mask_mode,
        };
        start::keep_to_edit(&mut plan, request, &mut notices);
        Ok((plan, notices))
    }

    /// Whether the song follows audio codes.
    pub fn has_codes(&self) -> bool {
        !self.codes.is_empty()
    }

    /// Whether its source is heard through audio codes.
    pub fn is_cover(&self) -> bool {
        self.task == Task::Cover && self.source.is_some()
    }

    /// Where what is made meets the sound of its source, if what lies outside the region stays as it
    /// is.
    pub fn seam(&self) -> Option<(Seam, &Audio)> {
        let (Some(region), Some(Sound::Audio(source))) = (&self.region, &self.source) else {
            return None;
        };
        let rate = f64::from(self.sample_rate);
        let before_s = (-region.seconds.0).max(0.0);
        let sample = |seconds: f64| ((seconds + before_s) * rate).round() as usize;
        let seam = Seam {
            region: sample(region.seconds.0)..sample(region.seconds.1),
            source_start: self.added.before,
            ramp: (region.repaint.crossfade_s * rate) as usize,
        };
        Some((seam, source))
    }

    /// Audio codes of each song.
    pub fn codes_per_song(&self) -> usize {
        self.codes.first().map_or(0, Vec::len)
    }

    /// The times of the steps that are taken.
    pub fn schedule(&self) -> Schedule {
        let whole = Schedule { timesteps: self.timesteps.clone(), terminal: self.terminal };
        whole.keeping(self.cover_noise_strength)
    }

    /// The steps that are taken, and how.
    pub fn sampling(&self) -> Sampling {
        Sampling {
            smoothing: self.smoothing,
            dcw: self.dcw,
            ..Sampling::new(&self.schedule(), self.solver, self.is_turbo)
        }
    }

    /// Solver steps that are taken.
    pub fn steps(&self) -> usize {
        self.schedule().timesteps.len()
    }

    /// Samples of one channel that are made.
    pub fn samples(&self) -> usize {
        self.frames * self.hop
    }

    /// The same with what the source has after the last whole frame, which stays too.
    pub fn heard_samples(&self) -> usize {
        match self.seam() {
            Some((seam, source)) => {
                let end = seam.source_start + source.samples();
                if seam.region.end < end { end.max(self.samples()) } else { self.samples() }
            }
            None => self.samples(),
        }
    }

    /// How many songs.
    pub fn batch_size(&self) -> usize {
        self.seeds.len()
    }

    /// The first step that no longer follows the codes: see [`flow::schedule::cover_steps`].
    pub fn cover_steps(&self) -> usize {
        flow::schedule::cover_steps(self.steps(), self.audio_cover_strength)
    }

    /// The noise that song `index` of the batch starts from, `[padded_frames, channels]`.
    pub fn initial_noise(&self, index: usize) -> Vec<f32> {
        let of = |seed| self.noise.initial_noise(seed, self.padded_frames, self.channels);
        let noise = of(self.seeds[index]);
        match &self.retake {
            None => noise,
            Some(retake) => retaken(&noise, &of(retake.seeds[index]), retake.variance),
        }
    }
}

/// The seeds of the songs that `request` asks for: drawn, counted up or listed.
///
/// # Errors
/// Too many songs, or another number of them than of seeds.
pub fn seeds(request: &Request) -> Result<Vec<u64>, Error> {
    seeds::decide(request, 1, NoiseSource::default(), &mut Vec::new())
}
