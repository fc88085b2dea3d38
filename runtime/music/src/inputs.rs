//! Inputs of a run that are read from files instead of computed: noise, a condition, songs.

use std::path::{Path, PathBuf};

use acestep_engine::{
    Error, Notice, Observe,
    audio::{Audio, read},
};
use acestep_model::Backend;

use crate::{
    ModelInfo, Plan, Request, SongError,
    exchange::{Array3, Conditioning, load_array},
    flow::solver::Solver,
    latents,
    networks::Networks,
    pipeline::{self, PlanRun, SamplingInputs},
    sounds::{Sound, Sounds},
    stage,
};

/// Inputs that were read instead of computed.
#[derive(Debug, Default)]
pub struct Inputs {
    /// Initial noise `[B, T, C]`, and its file.
    pub noise: Option<(PathBuf, Array3)>,
    /// The condition and initial noise of the sampling, and their folder or file.
    pub conditioning: Option<(PathBuf, Conditioning)>,
    /// The source and reference songs.
    pub sounds: Sounds,
}

impl Inputs {
    /// Reads files of noise and of conditions, and the songs that `request` names. The request takes
    /// their length.
    ///
    /// # Errors
    /// [`Error::File`], and errors of what the files hold; [`SongError::Unusable`]; [`Error::Cancelled`].
    pub fn read(
        noise: Option<&Path>,
        conditioning: Option<&Path>,
        request: &mut Request,
        model: &ModelInfo,
        notices: &mut Vec<Notice>,
        observe: &dyn Observe,
    ) -> Result<Self, Error> {
        let noise = match noise {
            Some(path) => Some((path.to_owned(), load_array(path, "initial_noise")?)),
            None => None,
        };
        let conditioning = match conditioning {
            Some(folder) => Some((folder.to_owned(), Conditioning::load(folder)?)),
            None => None,
        };
        let files = Self { noise, conditioning, sounds: Sounds::default() };
        files.fill(request, model, notices);
        Ok(Self { sounds: read_sounds(request, model, notices, observe)?, ..files })
    }

    /// True if no seed determines the initial noise.
    pub fn have_noise(&self) -> bool {
        self.noise.is_some() || self.conditioning.is_some()
    }

    /// Returns the seeds if they have an effect: with noise from a file, only the steps of sde use
    /// them.
    pub fn seeds<'a>(&self, plan: &'a Plan) -> Option<&'a [u64]> {
        let is_drawn = !self.have_noise() || matches!(plan.sampler.solver, Solver::Sde(_));
        is_drawn.then_some(&plan.noise.seeds[..])
    }

    /// Sets the length and the number of songs from a conditioning folder. Noise from a file sets
    /// the length, before a language model can.
    fn fill(&self, request: &mut Request, model: &ModelInfo, notices: &mut Vec<Notice>) {
        let seconds = |frames: usize| (frames * model.hop) as f64 / f64::from(model.sample_rate);
        if let (Some((path, noise)), None) = (&self.noise, &self.conditioning)
            && request.words.duration.is_none()
            && !request.source.has_codes()
            && !request.follows_source()
        {
            let length = seconds(noise.shape[1]);
            request.words.duration = Some(length);
            let path = path.display();
            let text = format!("the song is as long as the noise of `{path}`: {length} s");
            notices.push(Notice(text));
        }
        let Some((folder, conditioning)) = &self.conditioning else { return };
        let kept = request.without_condition();
        let mut unused = request.keys();
        unused.retain(|key| !kept.keys().contains(key));
        if !unused.is_empty() {
            let unused = unused.join(", ");
            let text = format!("not used, the conditioning is there already: {unused}");
            notices.push(Notice(text));
        }
        // The plan needs a caption; this one names the folder, without its place.
        *request = kept.with(|r| {
            let name = folder.file_name().unwrap_or(folder.as_os_str());
            r.words.caption = Some(format!("conditioning of {}", name.display()));
            // A language model would only decide the condition, which is already given.
            r.language.thinking = Some(false);
        });
        let [batch, frames, _] = conditioning.initial_noise.shape;
        if request.words.duration.is_none() {
            request.words.duration = Some(seconds(frames));
        }
        if request.noise.batch_size.is_none()
            && request.noise.seed.as_ref().is_none_or(|seeds| seeds.len() == 1)
        {
            request.noise.batch_size = i64::try_from(batch).ok();
        }
    }

    /// Plans the song of `request` with these inputs, and returns notices about it.
    ///
    /// # Errors
    /// Errors of [`Plan::with_sounds`]; noise or a condition that does not fit the plan.
    pub fn plan(&self, request: &Request, model: &ModelInfo) -> Result<(Plan, Vec<Notice>), Error> {
        let (mut plan, notices) = Plan::with_sounds(request, model, &self.sounds)?;
        if plan.noise.retake.is_some() && self.have_noise() {
            return Err(SongError::RetakeOfFile.into());
        }
        if plan.edit.is_some() && self.have_noise() {
            return Err(SongError::EditOfFile.into());
        }
        if let Some((folder, conditioning)) = &self.conditioning {
            let (frames, length) = (conditioning.initial_noise.shape[1], &mut plan.length);
            let (seconds, wanted) = (length.duration_s, length.frames);
            if wanted > frames {
                let path = folder.clone();
                return Err(SongError::ShortConditioning { path, frames, seconds, wanted }.into());
            }
            length.padded_frames = frames;
        }
        if let Some((path, noise)) = &self.noise {
            let wanted = [plan.batch_size(), plan.length.padded_frames, plan.length.channels];
            if noise.shape != wanted {
                let (path, shape) = (path.clone(), noise.shape);
                return Err(SongError::NoiseShape { path, shape, wanted }.into());
            }
        }
        Ok((plan, notices))
    }

    /// Prepares all songs, each with its own `inputs`; only a single song may have a condition.
    pub fn prepare_all<B: Backend>(
        inputs: &[&Self],
        runs: &[PlanRun<'_>],
        networks: &Networks<'_, B>,
    ) -> Vec<Result<SamplingInputs<B>, Error>> {
        let prepared = match (inputs, runs) {
            ([Self { conditioning: Some((folder, conditioning)), .. }], [PlanRun { plan, .. }]) => {
                let prepared =
                    SamplingInputs::from_conditioning(conditioning.clone(), plan, networks);
                vec![prepared.map_err(|error| match error {
                    // A mismatch is an error of the files, not a conflict of settings.
                    Error::Conflict(why) => {
                        SongError::Conditioning { path: folder.clone(), why }.into()
                    }
                    other => other,
                })]
            }
            _ => pipeline::prepare_all(runs, networks),
        };
        let with_noise = |(inputs, prepared): (&&Self, Result<SamplingInputs<B>, Error>)| {
            let mut prepared = prepared?;
            if let Some((_, noise)) = &inputs.noise {
                prepared.start.noise = networks.upload(noise, stage::DIFFUSION)?;
            }
            Ok(prepared)
        };
        inputs.iter().zip(prepared).map(with_noise).collect()
    }
}

/// Reads the songs that `request` names, in the form that `model` needs.
fn read_sounds(
    request: &Request,
    model: &ModelInfo,
    notices: &mut Vec<Notice>,
    observe: &dyn Observe,
) -> Result<Sounds, Error> {
    // A source that the task does not use is not read; a notice says so.
    request.source.task()?;
    let source = &request.source;
    source.check_references()?;
    let follows = request.follows_source() && !source.has_codes();
    let mut sounds = Sounds::default();
    match (&source.src_audio, &source.src_latents) {
        (Some(_), Some(_)) => {
            let why = "the request has both `src_audio` and `src_latents`: leave one of them out";
            return Err(Error::Conflict(why.into()));
        }
        (Some(path), None) if follows => {
            let audio = listen(path, model, notices, observe)?;
            let sound = Sound::from_audio(&audio, model, observe);
            sounds.source = Some(sound.map_err(|error| unusable(path, "source", error))?);
        }
        (None, Some(path)) if follows => sounds.source = Some(encoded(path, "source", model)?),
        (None, None) => (),
        _ => {
            let why = match source.has_codes() {
                true => "there are audio codes, which win",
                false => "text2music starts from none; did you mean `task_type: cover`?",
            };
            notices.push(Notice(format!("the source is not used: {why}")));
        }
    }
    for path in source.reference_audio.iter().flatten() {
        let reference = Sound::reference(&listen(path, model, notices, observe)?, model, observe);
        sounds.references.push(reference.map_err(|error| unusable(path, "reference", error))?);
    }
    for path in source.ref_latents.iter().flatten() {
        let latents = encoded(path, "reference", model)?;
        let reference = latents.excerpt(model.timbre_frames, model.hop);
        sounds.references.push(reference.map_err(|error| unusable(path, "reference", error))?);
    }
    Ok(sounds)
}

fn listen(
    path: &str,
    model: &ModelInfo,
    notices: &mut Vec<Notice>,
    observe: &dyn Observe,
) -> Result<Audio, Error> {
    let frame = model.hop as f64 / f64::from(model.sample_rate);
    let (audio, more) = read::song(Path::new(path), frame, model.sample_rate, observe)?;
    notices.extend(more);
    Ok(audio)
}

fn encoded(path: &str, role: &'static str, model: &ModelInfo) -> Result<Sound, Error> {
    let latents = latents::read(Path::new(path), model.channels)?;
    Sound::latents(latents, model).map_err(|error| unusable(path, role, error))
}

fn unusable(path: &str, role: &'static str, source: Error) -> Error {
    if matches!(source, Error::Cancelled) {
        return source;
    }
    SongError::Unusable { path: path.to_owned(), role, source: Box::new(source) }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_run_has_no_unusable_song() {
        let error = unusable("a.wav", "source", Error::Cancelled);
        assert!(matches!(error, Error::Cancelled), "{error}");
    }
}
