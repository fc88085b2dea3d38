//! Input files that replace a part of the run: initial noise, conditioning.

use std::path::PathBuf;

use acestep_engine::Notice;
use acestep_music::{
    ModelInfo, Plan,
    exchange::{Array3, Conditioning, load_array},
    flow::solver::Solver,
    sounds::Sounds,
};
use anyhow::Result;

use super::{Args, request::ResolvedRequest, sounds};
use crate::error::CliError;

/// Inputs that were read instead of computed.
pub(super) struct Inputs {
    /// Initial noise `[B, T, C]`, and its file.
    pub(super) noise: Option<(PathBuf, Array3)>,
    /// The conditioning and initial noise of the sampling, and their folder.
    pub(super) conditioning: Option<(PathBuf, Conditioning)>,
    /// The source and reference songs.
    pub(super) sounds: Sounds,
}

impl Inputs {
    /// Reads the files that `args` and the request name; the request takes their length.
    ///
    /// # Errors
    /// Errors of the files, and of [`sounds::read`].
    pub(super) fn read(
        args: &Args,
        asked: &mut ResolvedRequest,
        model: &ModelInfo,
    ) -> Result<Self> {
        let noise = match &args.sampling.noise {
            Some(path) => Some((path.clone(), load_array(path, "initial_noise")?)),
            None => None,
        };
        let conditioning = match &args.sampling.conditioning {
            Some(folder) => Some((folder.clone(), Conditioning::load(folder)?)),
            None => None,
        };
        let files = Self { noise, conditioning, sounds: Sounds::default() };
        files.fill(asked, model);
        let sounds = sounds::read(&asked.request, model, &mut asked.notices)?;
        Ok(Self { sounds, ..files })
    }

    /// Sets the length and the number of songs from a conditioning folder. Noise from a file sets
    /// the length, before the language model can.
    fn fill(&self, asked: &mut ResolvedRequest, model: &ModelInfo) {
        let seconds = |frames: usize| (frames * model.hop) as f64 / f64::from(model.sample_rate);
        let request = &mut asked.request;
        if let (Some((path, noise)), None) = (&self.noise, &self.conditioning)
            && request.words.duration.is_none()
            && !request.source.has_codes()
            && !request.follows_source()
        {
            let length = seconds(noise.shape[1]);
            request.words.duration = Some(length);
            let path = path.display();
            let text = format!("the song is as long as the noise of `{path}`: {length} s");
            asked.notices.push(Notice(text));
        }
        let Some((folder, conditioning)) = &self.conditioning else { return };
        let request = &mut asked.request;
        let kept = request.without_condition();
        let mut unused = request.keys();
        unused.retain(|key| !kept.keys().contains(key));
        if !unused.is_empty() {
            let text =
                format!("not used, the conditioning is there already: {}", unused.join(", "));
            asked.notices.push(Notice(text));
        }
        // The plan needs a caption; this one names the folder.
        *request = kept.with(|r| {
            r.words.caption = Some(format!("conditioning of {}", folder.display()));
            // The language model would only decide the condition, which is already given.
            r.language.thinking = Some(false);
        });
        let [batch, frames, _] = conditioning.initial_noise.shape;
        if request.words.duration.is_none() {
            request.words.duration = Some(seconds(frames));
        }
        if request.noise.batch_size.is_none()
            && request.noise.seed.as_ref().is_none_or(|s| s.len() == 1)
        {
            request.noise.batch_size = i64::try_from(batch).ok();
        }
    }

    /// Returns the seeds if they have an effect: with noise from a file, only the steps of sde use
    /// them.
    pub(super) fn seeds<'a>(&self, plan: &'a Plan) -> Option<&'a [u64]> {
        let drawn = self.noise.is_none() && self.conditioning.is_none();
        (drawn || matches!(plan.sampler.solver, Solver::Sde(_))).then_some(&plan.noise.seeds[..])
    }

    /// Sets the sampled length from the conditioning, and checks the noise against the plan.
    pub(super) fn fit(&self, plan: &mut Plan) -> Result<()> {
        if plan.noise.retake.is_some() && (self.noise.is_some() || self.conditioning.is_some()) {
            let message =
                "--retake-variance turns the noise of the seed, but the noise is from a file";
            return Err(CliError::usage(message).hint("leave one of them out").into());
        }
        if plan.edit.is_some() && (self.noise.is_some() || self.conditioning.is_some()) {
            let message = "--flow-edit-morph draws its noise anew for each step, from a seed";
            let hint = "leave --noise and --conditioning out";
            return Err(CliError::usage(message).hint(hint).into());
        }
        if let Some((folder, conditioning)) = &self.conditioning {
            let frames = conditioning.initial_noise.shape[1];
            if plan.length.frames > frames {
                let message = format!(
                    "`{}` holds {frames} latent frames, but {} s need {}",
                    folder.display(),
                    plan.length.duration_s,
                    plan.length.frames
                );
                return Err(CliError::new(message).hint("leave --duration out").into());
            }
            plan.length.padded_frames = frames;
        }
        if let Some((path, noise)) = &self.noise {
            let wanted = [plan.batch_size(), plan.length.padded_frames, plan.length.channels];
            if noise.shape != wanted {
                let message = format!(
                    "the noise of `{}` is {:?}, but this song needs {wanted:?} (songs, latent \
                     frames, channels)",
                    path.display(),
                    noise.shape
                );
                let hint = "choose --duration and --batch-size to fit it; songs below 128 frames \
                            (5.12 s) are sampled with 128";
                return Err(CliError::new(message).hint(hint).into());
            }
        }
        Ok(())
    }
}
