//! A plan: a request with every default filled in and every range checked.
//!
//! Each part is made by the [`Request`]'s topic of that name; rules for two topics are here.
//!
//! Source: upstream `inference.py` and handler defaults. Where upstream's entry points disagree
//! (shift 1.0 or 3.0, batch 1 or 2), the model cards decide.

mod json;
#[cfg(test)]
mod tests;
mod text;

use acestep_engine::{
    Error, Notice,
    audio::{Audio, splice::Seam},
    tiling::Tiling,
};
use serde::Serialize;

use crate::{
    ModelInfo, Request,
    flow::{self, schedule::Schedule, solver::Solver},
    networks::Network,
    request::{
        Language, Words, compute::of_tiling, length::Length, noise::NoisePlan, output::OutputPlan,
        repaint::RepaintPlan, sampler::SamplerPlan, sampling::SamplingPlan, source::SourcePlan,
        words::WordsPlan,
    },
    sounds::{Sound, Sounds},
};

pub use text::of_seeds;

pub use crate::{
    flow::guidance::{Guidance, GuidanceMode},
    request::{
        edit::FlowEdit,
        length::{LEAST_FRAMES, MOST_SECONDS, frames_from_seconds, no_duration},
        noise::Retake,
        repaint::{Added, MaskMode, Region, Transition},
        source::{TRACKS, Task},
        words::{SongMetadata, VOICE_AND_NONE},
    },
};

/// A song with every setting decided.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Texts and prompts.
    #[serde(flatten)]
    pub words: WordsPlan,
    /// Length of the song, and rates.
    #[serde(flatten)]
    pub length: Length,
    /// Seeds and noise of each song.
    #[serde(flatten)]
    pub noise: NoisePlan,
    /// Task, source, references and codes.
    #[serde(flatten)]
    pub source: SourcePlan,
    /// The part to generate.
    #[serde(flatten)]
    pub repaint: RepaintPlan,
    /// Edit of the source; `None` = the song is generated.
    #[serde(rename = "flow_edit")]
    pub edit: Option<FlowEdit>,
    /// Times of the steps, and guidance.
    #[serde(flatten)]
    pub sampling: SamplingPlan,
    /// Solver, smoothing and correction of the steps.
    #[serde(flatten)]
    pub sampler: SamplerPlan,
    /// Changes to the finished song.
    #[serde(flatten)]
    pub output: OutputPlan,
    /// Tiling of the latents for the VAE.
    #[serde(flatten, serialize_with = "of_tiling")]
    pub tiling: Tiling,
}

impl Plan {
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
        let said = &mut notices;
        let is_edit = request.edit.is_on();
        let source = request.source.plan(is_edit, sounds, model, said)?;
        let repaint = request.repaint.plan(&source, model, said)?;
        let samples = repaint.samples(&source, model);
        let (words, length) = request.words.plan(&source, samples, model, said)?;
        let sampling = request.sampling.plan(is_edit, model, said)?;
        let noise = request.noise.plan(source.codes.len(), is_edit, said)?;
        let sampler = request.sampler.plan(model, said)?;
        let (instruction, seeds) = (&source.instruction, &noise.seeds);
        let edit = request.edit.plan(&words, instruction, &request.noise, seeds, said)?;
        let tiling = request.compute.tiling(length.padded_frames, said)?;
        let keeps = repaint.keeps(length.frames);
        let output = request.output.plan(keeps, length.duration_s, said)?;
        let mut plan =
            Self { words, length, noise, source, repaint, edit, sampling, sampler, output, tiling };
        plan.keep_to_edit(request, said);
        Ok((plan, notices))
    }

    /// Removes settings that an edit does not use, as upstream does, with a notice; ends the
    /// schedule at 0.
    fn keep_to_edit(&mut self, request: &Request, notices: &mut Vec<Notice>) {
        if self.edit.is_none() {
            return;
        }
        let Self { words, source, sampling, sampler, .. } = self;
        let mut unused = Vec::new();
        if sampler.solver != Solver::Euler {
            unused.push(sampler.solver.name());
            sampler.solver = Solver::Euler;
        }
        if sampler.dcw.take().is_some() {
            unused.push("`dcw_enabled`");
        }
        if let Some(guidance) = &mut sampling.guidance
            && !matches!(guidance.mode, GuidanceMode::Apg | GuidanceMode::Cfg)
        {
            unused.push(guidance.mode.name());
            guidance.mode = GuidanceMode::Apg;
        }
        if std::mem::take(&mut source.cover_noise_strength) > 0.0 {
            unused.push("`cover_noise_strength`");
        }
        if source.audio_cover_strength < 1.0 {
            (source.audio_cover_strength, words.non_cover_prompt) = (1.0, None);
            unused.push("`audio_cover_strength`");
        }
        if request.noise.retake_variance.is_some_and(|variance| variance > 0.0) {
            unused.push("`retake_variance`");
        }
        if !unused.is_empty() {
            let text = format!(
                "an edit takes Euler steps and no other start: {} not used",
                unused.join(", ")
            );
            notices.push(Notice(text));
        }
        let SamplingPlan { timesteps, terminal, .. } = sampling;
        if *terminal > 0.0 {
            let text = format!("an edit ends at time 0: a step from {terminal} is added");
            notices.push(Notice(text));
            timesteps.push(std::mem::take(terminal));
        }
    }

    /// True if the song is made with `network`. `has_condition` is true if its condition is given and
    /// not computed.
    pub fn uses(&self, network: Network, has_condition: bool) -> bool {
        match network {
            Network::TextEncoder => !has_condition,
            // With a given condition, guidance still encodes the unconditional input.
            Network::Conditioner => !has_condition || self.sampling.guidance.is_some(),
            Network::AudioCodec => self.source.has_codes() || self.source.is_cover(),
            Network::Dit | Network::VaeDecoder => true,
            Network::VaeEncoder => self.encoded_frames().is_some(),
            Network::LanguageModel => false,
        }
    }

    /// Returns the latent frames of the longest sound to encode, if there is one.
    pub fn encoded_frames(&self) -> Option<usize> {
        let hop = self.length.hop;
        let source =
            self.source.sound.iter().filter(|of| of.is_audio()).map(|_| self.length.frames);
        let references = self.source.references.iter().filter(|of| of.is_audio());
        source.chain(references.map(|sound| sound.samples(hop) / hop)).max()
    }

    /// Returns `asked` with every open value decided, so that it makes this plan again; given values
    /// stay. The language model is not used again.
    pub fn to_request(&self, asked: &Request) -> Request {
        let own_length = asked.words.duration.filter(|_| self.source.sound.is_none());
        Request {
            words: Words {
                duration: own_length.or(Some(self.length.duration_s)),
                ..asked.words.decided(&self.words)
            },
            source: asked.source.decided(&self.source),
            repaint: asked.repaint.decided(&self.repaint),
            edit: asked.edit.clone(),
            sampling: asked.sampling.decided(&self.sampling),
            sampler: asked.sampler.decided(&self.sampler),
            noise: asked.noise.decided(&self.noise, self.edit.as_ref()),
            language: Language {
                thinking: (!self.source.is_followed()).then_some(false),
                ..Language::default()
            },
            output: asked.output.decided(&self.output),
            compute: asked.compute.decided(&self.tiling),
        }
    }

    /// As [`Self::to_request`], for song `index` alone: its seeds and its codes.
    pub fn to_request_of(&self, asked: &Request, index: usize) -> Request {
        // All songs share a value, or each has its own.
        fn own<T: Clone>(values: &mut Vec<T>, index: usize) {
            *values = values.get(index).or(values.last()).cloned().into_iter().collect();
        }
        self.to_request(asked).with(|r| {
            r.noise.batch_size = Some(1);
            r.noise.seed.iter_mut().for_each(|seeds| own(seeds, index));
            r.noise.retake_seed.iter_mut().for_each(|seeds| own(seeds, index));
            r.source.audio_codes.iter_mut().for_each(|lists| own(lists, index));
        })
    }

    /// Refuses a song whose inputs cannot be written as a conditioning folder.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a second condition, a source or an edit.
    pub fn check_conditioning(&self) -> Result<(), Error> {
        let why = if self.words.non_cover_prompt.is_some() {
            "conditioning files hold one condition, but this song has a second one for the steps \
             that leave its codes: `dump_conditioning` needs `audio_cover_strength: 1`"
        } else if self.repaint.region.is_some()
            || self.edit.is_some()
            || self.source.cover_noise_strength > 0.0
        {
            "conditioning files hold nothing of a song that is started from: leave \
             `dump_conditioning` out"
        } else {
            return Ok(());
        };
        Err(Error::Conflict(why.into()))
    }

    /// Returns the number of latent frames per second: 25.
    pub fn frames_per_second(&self) -> f64 {
        f64::from(self.length.sample_rate) / self.length.hop as f64
    }

    /// Returns the seam between the generated region and the source, and the source's sound; `None`
    /// without a region, or if the source is not audio.
    pub fn seam(&self) -> Option<(Seam, &Audio)> {
        let (Some(region), Some(Sound::Audio(source))) = (&self.repaint.region, &self.source.sound)
        else {
            return None;
        };
        let rate = f64::from(self.length.sample_rate);
        let before_s = (-region.seconds.0).max(0.0);
        let sample = |seconds: f64| ((seconds + before_s) * rate).round() as usize;
        let seam = Seam {
            region: sample(region.seconds.0)..sample(region.seconds.1),
            source_start: self.repaint.added.before,
            ramp: (region.transition.crossfade_s * rate) as usize,
        };
        Some((seam, source))
    }

    /// Returns the times of the steps to take.
    pub fn schedule(&self) -> Schedule {
        let SamplingPlan { timesteps, terminal, .. } = &self.sampling;
        let whole = Schedule { timesteps: timesteps.clone(), terminal: *terminal };
        whole.keeping(self.source.cover_noise_strength)
    }

    /// Returns the steps to take, with solver and corrections.
    pub fn steps_to_take(&self) -> flow::Sampling {
        let SamplerPlan { solver, smoothing, dcw } = self.sampler;
        let plain = flow::Sampling::new(&self.schedule(), solver, self.sampling.is_turbo);
        flow::Sampling { smoothing, dcw, ..plain }
    }

    /// Returns the number of solver steps to take.
    pub fn steps(&self) -> usize {
        self.schedule().timesteps.len()
    }

    /// Returns the number of generated samples per channel.
    pub fn samples(&self) -> usize {
        self.length.frames * self.length.hop
    }

    /// Returns the number of output samples per channel: [`Self::samples`], plus the kept rest of
    /// the source after its last whole frame.
    pub fn output_samples(&self) -> usize {
        match self.seam() {
            Some((seam, source)) => {
                let end = seam.source_start + source.samples();
                if seam.region.end < end { end.max(self.samples()) } else { self.samples() }
            }
            None => self.samples(),
        }
    }

    /// Returns the audible seconds of each song.
    pub fn output_seconds(&self) -> f64 {
        self.output_samples() as f64 / f64::from(self.length.sample_rate)
    }

    /// Returns the number of songs.
    pub fn batch_size(&self) -> usize {
        self.noise.seeds.len()
    }

    /// Returns the first step without the codes, see [`flow::schedule::cover_steps`].
    pub fn cover_steps(&self) -> usize {
        flow::schedule::cover_steps(self.steps(), self.source.audio_cover_strength)
    }

    /// Returns the initial noise of song `index` of the batch, `[padded_frames, channels]`.
    pub fn initial_noise(&self, index: usize) -> Vec<f32> {
        self.noise.initial(index, self.length.padded_frames, self.length.channels)
    }
}
