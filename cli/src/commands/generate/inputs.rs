//! Files that stand for a part of the run: initial noise, conditioning.

use std::path::{Path, PathBuf};

use acestep_runtime::{
    Error, ModelInfo, Notice, Plan,
    exchange::{Array3, Conditioning},
};
use anyhow::Result;
use safetensors::{Dtype, SafeTensors};

use super::{Args, request::Asked};
use crate::error::Refusal;

/// What was read instead of being made.
pub(super) struct Inputs {
    /// Initial noise `[B, T, C]`, and the file it is from.
    pub(super) noise: Option<(PathBuf, Array3)>,
    /// Everything that sampling starts from, and the folder it is from.
    pub(super) conditioning: Option<(PathBuf, Conditioning)>,
}

impl Inputs {
    /// Reads the files that `args` names.
    pub(super) fn read(args: &Args) -> Result<Self> {
        let noise = match &args.sampling.noise {
            Some(path) => Some((path.clone(), noise(path)?)),
            None => None,
        };
        let conditioning = match &args.sampling.conditioning {
            Some(folder) => Some((folder.clone(), Conditioning::load(folder)?)),
            None => None,
        };
        Ok(Self { noise, conditioning })
    }

    /// Lets a folder of conditioning decide what it knows: length and number of songs.
    pub(super) fn fill(&self, asked: &mut Asked, model: &ModelInfo) -> Result<()> {
        let Some((folder, conditioning)) = &self.conditioning else { return Ok(()) };
        let request = &mut asked.request;
        let unused = [
            (request.caption.is_some(), "the caption is not used"),
            (request.lyrics.is_some() || request.instrumental.is_some(), "the lyrics are not used"),
            (request.audio_codes.is_some(), "the audio codes are not used"),
        ];
        for (_, what) in unused.into_iter().filter(|(given, _)| *given) {
            let text = format!("{what}: the conditioning is there already");
            asked.notices.push(Notice(text));
        }
        // The plan wants words; here they say where the real ones went.
        request.caption = Some(format!("conditioning of {}", folder.display()));
        (request.lyrics, request.instrumental, request.audio_codes) = (None, None, None);
        let [batch, frames, _] = conditioning.initial_noise.shape;
        if request.duration.is_none() {
            let seconds = (frames * model.hop) as f64 / f64::from(model.sample_rate);
            request.duration = Some(seconds);
        }
        if request.batch_size.is_none() && request.seed.as_ref().is_none_or(|s| s.len() == 1) {
            request.batch_size = i64::try_from(batch).ok();
        }
        Ok(())
    }

    /// Takes the sampled length from the conditioning, and checks the noise against the plan.
    pub(super) fn fit(&self, plan: &mut Plan) -> Result<()> {
        if let Some((folder, conditioning)) = &self.conditioning {
            let frames = conditioning.initial_noise.shape[1];
            if plan.frames > frames {
                let message = format!(
                    "`{}` holds {frames} latent frames, but {} s need {}",
                    folder.display(),
                    plan.duration_s,
                    plan.frames
                );
                return Err(Refusal::new(message).hint("leave --duration out").into());
            }
            plan.padded_frames = frames;
        }
        if let Some((path, noise)) = &self.noise {
            let wanted = [plan.batch_size(), plan.padded_frames, plan.channels];
            if noise.shape != wanted {
                let message = format!(
                    "the noise of `{}` is {:?}, but this song needs {wanted:?} (songs, latent \
                     frames, channels)",
                    path.display(),
                    noise.shape
                );
                let hint = "choose --duration and --batch-size to fit it; songs below 128 frames \
                            (5.12 s) are sampled with 128";
                return Err(Refusal::new(message).hint(hint).into());
            }
        }
        Ok(())
    }
}

/// Initial noise from a `.bin` (three little-endian int32 of shape, then f32), or from a
/// `.safetensors` that has `initial_noise`.
fn noise(path: &Path) -> Result<Array3, Error> {
    let bytes = std::fs::read(path).map_err(|source| Error::File {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    let bad = |why: String| Error::Conditioning { path: path.to_owned(), why };
    let (shape, values) = if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("safetensors"))
    {
        let tensors = SafeTensors::deserialize(&bytes).map_err(|e| bad(e.to_string()))?;
        let view = tensors.tensor("initial_noise").map_err(|e| bad(e.to_string()))?;
        if view.dtype() != Dtype::F32 {
            return Err(bad(format!("initial_noise is {:?}, not F32", view.dtype())));
        }
        let shape = <[usize; 3]>::try_from(view.shape())
            .map_err(|_| bad(format!("initial_noise has shape {:?}", view.shape())))?;
        (shape, floats(view.data()))
    } else {
        let Some((header, values)) = bytes.split_at_checked(12) else {
            return Err(bad(format!("{} bytes, less than its 12 of shape", bytes.len())));
        };
        let mut shape = [0; 3];
        for (length, raw) in shape.iter_mut().zip(header.chunks_exact(4)) {
            let read = i32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
            *length = usize::try_from(read)
                .map_err(|_| bad(format!("its shape has a length of {read}")))?;
        }
        (shape, floats(values))
    };
    let needed: u128 = shape.iter().map(|&length| length as u128).product();
    if needed != values.len() as u128 {
        return Err(bad(format!(
            "shape {shape:?} needs {needed} values, but has {}",
            values.len()
        )));
    }
    if let Some(i) = values.iter().position(|x| !x.is_finite()) {
        return Err(bad(format!("value {i} is {}", values[i])));
    }
    Ok(Array3::new(shape, values))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}
