//! A plan: a request with every default filled in and every range checked.
//!
//! Source: upstream `inference.py` and handler defaults. Where upstream's entry points disagree
//! (shift 1.0 or 3.0, batch 1 or 2), the model cards decide.

mod adapters;
pub mod length;
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

use acestep_engine::{
    Error, Notice,
    audio::{Audio, loudness::Loudness, splice::Seam},
    tiling::Tiling,
};

use crate::{
    ModelInfo, Request,
    flow::{
        self, Sampling, dcw::Dcw, latents::retaken, noise::NoiseSource, schedule::Schedule,
        smoothing::Smoothing, solver::Solver,
    },
    sounds::{Sound, Sounds},
};

pub use crate::flow::guidance::{Guidance, GuidanceMode};
pub use adapters::adapters;
pub use length::frames_from_seconds;
pub use metadata::SongMetadata;
pub use song::{VOICE_AND_NONE, no_duration};
pub use start::{FlowEdit, Retake};
pub use task::{Added, MaskMode, Region, Repaint, TRACKS, Task};

/// Least number of latent frames that upstream samples; shorter songs are cropped afterwards.
pub const LEAST_FRAMES: usize = 128;

/// Longest song in seconds: the length of the checkpoint's silence latent.
pub const MOST_SECONDS: f64 = 600.0;

/// A song with every setting decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The task.
    pub task: Task,
    /// The source song; `None` for text2music, and if audio codes replace the source.
    pub source: Option<Sound>,
    /// Timbre references, each a part of a song; empty = the timbre of silence.
    pub references: Vec<Sound>,
    /// Silence that is added to the source, to be filled.
    pub added: Added,
    /// The part to generate; `None` = the whole song.
    pub region: Option<Region>,
    /// The mask that tells the transformer which part to generate.
    pub mask_mode: MaskMode,
    /// Description of the sound.
    pub caption: String,
    /// The sung text.
    pub lyrics: String,
    /// A code of [`metadata::LANGUAGES`].
    pub vocal_language: String,
    /// Instruction for the model.
    pub instruction: String,
    /// Tempo, metre, key and length for the prompt.
    pub metas: crate::prompt::Metas,
    /// Full text for the caption encoder.
    pub caption_prompt: String,
    /// The same with the text2music instruction, for the steps that follow neither codes nor
    /// source. Present if [`Plan::audio_cover_strength`] is below 1.
    pub non_cover_prompt: Option<String>,
    /// Full text for the lyric encoder.
    pub lyric_prompt: String,
    /// Length in seconds: that of the codes or the source if there are any, else as requested.
    pub duration_s: f64,
    /// Latent frames of the finished song.
    pub frames: usize,
    /// Latent frames to sample, at least [`LEAST_FRAMES`].
    pub padded_frames: usize,
    /// Samples of one latent frame.
    pub hop: usize,
    /// Samples per second.
    pub sample_rate: u32,
    /// Latent channels.
    pub channels: usize,
    /// One seed per song.
    pub seeds: Vec<u64>,
    /// Start times of the solver's steps, descending. If sampling starts from a source,
    /// [`Plan::schedule`] drops the first ones.
    pub timesteps: Vec<f32>,
    /// End time of the last step: 0, unless the user's own times end elsewhere.
    pub terminal: f32,
    /// Shift of the schedule towards the noise; `None` if the times were given.
    pub shift: Option<f32>,
    /// Method to compute a step.
    pub solver: Solver,
    /// Smoothing of every velocity.
    pub smoothing: Smoothing,
    /// Correction after every step; `None` = none.
    pub dcw: Option<Dcw>,
    /// Guidance; `None` for turbo and for a scale of 1.
    pub guidance: Option<Guidance>,
    /// Audio codes, five per second: one list for all songs or one per song, all of equal length;
    /// empty = no codes.
    pub codes: Vec<Vec<u32>>,
    /// Share of the steps that follow codes or source; the others get silence instead.
    pub audio_cover_strength: f64,
    /// Share of the source in the initial latents, 0 to 1.
    pub cover_noise_strength: f64,
    /// Retake of the songs; `None` = the songs of [`Plan::seeds`] themselves.
    pub retake: Option<Retake>,
    /// Edit of the source; `None` = the song is generated.
    pub flow_edit: Option<FlowEdit>,
    /// Factor for the finished latents.
    pub latent_rescale: f32,
    /// Offset for the finished latents, added after [`Plan::latent_rescale`].
    pub latent_shift: f32,
    /// True if the model is distilled; its stochastic steps end at the schedule's times.
    pub is_turbo: bool,
    /// Generator of the noise.
    pub noise: NoiseSource,
    /// Tiling of the latents for the VAE.
    pub tiling: Tiling,
    /// Loudness target of the songs.
    pub loudness: Loudness,
    /// Seconds of fade-in and fade-out.
    pub fades: (f64, f64),
}

impl Plan {
    /// Returns the number of latent frames per second: 25.
    pub fn frames_per_second(&self) -> f64 {
        f64::from(self.sample_rate) / self.hop as f64
    }

    /// Decides everything that `request` leaves open, and returns notices for the user.
    ///
    /// Missing seeds are random, so two plans of one request differ in them, but in nothing else.
    ///
    /// # Errors
    /// An [`Error`] that names the option, its value and the allowed values.
    pub fn resolve(request: &Request, model: &ModelInfo) -> Result<(Self, Vec<Notice>), Error> {
        Self::with_sounds(request, model, &Sounds::default())
    }

    /// As [`Self::resolve`], with loaded sounds; the file names in `request` are ignored.
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

    /// True if the song follows audio codes.
    pub fn has_codes(&self) -> bool {
        !self.codes.is_empty()
    }

    /// True if the source is reduced to audio codes.
    pub fn is_cover(&self) -> bool {
        self.task == Task::Cover && self.source.is_some()
    }

    /// Returns the seam between the generated region and the source, and the source's sound; `None`
    /// without a region, or if the source is not audio.
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

    /// Returns the number of audio codes per song.
    pub fn codes_per_song(&self) -> usize {
        self.codes.first().map_or(0, Vec::len)
    }

    /// Returns the times of the steps to take.
    pub fn schedule(&self) -> Schedule {
        let whole = Schedule { timesteps: self.timesteps.clone(), terminal: self.terminal };
        whole.keeping(self.cover_noise_strength)
    }

    /// Returns the steps to take, with solver and corrections.
    pub fn sampling(&self) -> Sampling {
        Sampling {
            smoothing: self.smoothing,
            dcw: self.dcw,
            ..Sampling::new(&self.schedule(), self.solver, self.is_turbo)
        }
    }

    /// Returns the number of solver steps to take.
    pub fn steps(&self) -> usize {
        self.schedule().timesteps.len()
    }

    /// Returns the number of generated samples per channel.
    pub fn samples(&self) -> usize {
        self.frames * self.hop
    }

    /// Returns the number of output samples per channel: [`Self::samples`], plus the kept rest of
    /// the source after its last whole frame.
    pub fn heard_samples(&self) -> usize {
        match self.seam() {
            Some((seam, source)) => {
                let end = seam.source_start + source.samples();
                if seam.region.end < end { end.max(self.samples()) } else { self.samples() }
            }
            None => self.samples(),
        }
    }

    /// Returns the number of songs.
    pub fn batch_size(&self) -> usize {
        self.seeds.len()
    }

    /// Returns the first step without the codes, see [`flow::schedule::cover_steps`].
    pub fn cover_steps(&self) -> usize {
        flow::schedule::cover_steps(self.steps(), self.audio_cover_strength)
    }

    /// Returns the initial noise of song `index` of the batch, `[padded_frames, channels]`.
    pub fn initial_noise(&self, index: usize) -> Vec<f32> {
        let of = |seed| self.noise.initial_noise(seed, self.padded_frames, self.channels);
        let noise = of(self.seeds[index]);
        match &self.retake {
            None => noise,
            Some(retake) => retaken(&noise, &of(retake.seeds[index]), retake.variance),
        }
    }
}

/// Returns one seed for each requested song: drawn, counted up or listed.
///
/// # Errors
/// Too many songs, or different numbers of songs and seeds.
pub fn seeds(request: &Request) -> Result<Vec<u64>, Error> {
    seeds::decide(request, 1, NoiseSource::default(), &mut Vec::new())
}
