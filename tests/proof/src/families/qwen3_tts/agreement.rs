//! A speech model in a narrower type beside itself in f32: agreement of codes, distance of logits and
//! of the sound.
//!
//! A code is a choice: one that differs makes everything after it another sentence. So both read the
//! same frames, which the model in f32 has written, and only the next choice is compared.

use acestep_engine::{
    Audio, BackendWork, Engine, Error, Unobserved, audio::loudness::require_finite, device::dtype,
    host::to_host,
};
use acestep_import::Qwen3Tts;
use acestep_model::{
    Backend, Place,
    speech::qwen3_tts::{CodePredictor, Files as _, ModelType, Talker},
};
use acestep_speech::qwen3_tts::{
    Networks, Plan, Request, Sampling, StreamingDecoder, TALKER, Voice, frames::embedded, restrict,
};
use anyhow::Result;
use burn::tensor::{DType, Tensor};
use serde::Serialize;

use super::runs::frames;
use crate::Host;

/// Text of the comparison.
const TEXT: &str = "The harbour was quiet that morning, and nobody had seen the boat come in.";

/// The agreement of a model in a narrower type with itself in f32.
#[derive(Debug, Clone, Serialize)]
pub struct Agreement {
    /// Name of the model.
    pub model: String,
    /// The narrower type.
    pub dtype: String,
    /// Frames that were compared.
    pub frames: usize,
    /// Share of frames for which both choose the same code, for each codebook.
    pub codes: Vec<f64>,
    /// Root mean square of the difference of the talker's logits, divided by the logits' own.
    pub logits: f64,
    /// The same of the code predictor's logits.
    pub predictor_logits: f64,
    /// The same of the sound of the same codes.
    pub sound: f64,
}

impl Agreement {
    /// Returns a table for the terminal.
    pub fn text(&self) -> String {
        let Self { model, dtype, frames, codes, logits, predictor_logits, sound } = self;
        let percent = |share: &f64| format!("{:.1} %", share * 100.0);
        let mut lines = vec![format!("{model} in {dtype} beside f32, {frames} frames")];
        let rows =
            codes.iter().enumerate().map(|(book, share)| (format!("codebook {book}"), share));
        lines.extend(rows.map(|(name, share)| format!("{name:<24} {:>8}", percent(share))));
        let all = codes.iter().sum::<f64>() / codes.len().max(1) as f64;
        lines.push(format!("{:<24} {:>8}", "all codebooks", percent(&all)));
        for (name, distance) in [
            ("talker's logits", logits),
            ("code predictor's logits", predictor_logits),
            ("sound of the same codes", sound),
        ] {
            lines.push(format!("{name:<24} {distance:>8.1e}  relative rms"));
        }
        lines.join("\n") + "\n"
    }
}

/// Compares `model` in the type of `engine` with itself in f32, over at most `most` frames.
///
/// # Errors
/// The errors of loading and of the device; [`Error::Cancelled`].
pub fn agreement(
    model: &Qwen3Tts,
    engine: Engine,
    most: usize,
    host: &dyn Host,
) -> Result<Agreement> {
    engine.run(Compare { model, most, host })?
}

struct Compare<'a> {
    model: &'a Qwen3Tts,
    most: usize,
    host: &'a dyn Host,
}

impl BackendWork for Compare<'_> {
    type Output = Result<Agreement>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { model, most, host } = self;
        let name = dtype::name(place.dtype).to_owned();
        host.line(&format!("{}: writing frames in f32", model.name()));
        let exact = Place { dtype: DType::F32, ..place.clone() };
        let (plan, made, wide) = {
            let networks = Networks::<B>::new(model, exact);
            let plan = plan(model, most, &networks)?;
            let made = frames(&plan, &networks)?;
            let wide = Choices::of(&plan, &made, &networks, host)?;
            (plan, made, wide)
        };
        host.line(&format!("{}: reading them in {name}", model.name()));
        let networks = Networks::<B>::new(model, place);
        let narrow = Choices::of(&plan, &made, &networks, host)?;
        let groups = model.config().talker_config.num_code_groups;
        let same = |group: usize| {
            let pairs = wide.codes.iter().zip(&narrow.codes);
            let same = pairs.filter(|(a, b)| a[group] == b[group]).count();
            same as f64 / wide.codes.len().max(1) as f64
        };
        Ok(Agreement {
            model: model.name().to_owned(),
            dtype: name,
            frames: made.len(),
            codes: (0..groups).map(same).collect(),
            logits: distance(&wide.logits, &narrow.logits),
            predictor_logits: distance(&wide.predictor_logits, &narrow.predictor_logits),
            sound: distance(&wide.sound, &narrow.sound),
        })
    }
}

/// Returns the plan of the comparison. A base model speaks with the voice of a synthetic vowel.
fn plan<B: Backend>(model: &Qwen3Tts, most: usize, networks: &Networks<'_, B>) -> Result<Plan> {
    let config = model.config();
    let max_new_tokens = Some(most as u32 + 1);
    let request = Request {
        text: TEXT.to_owned(),
        voice: config.talker_config.spk_id.keys().next().cloned(),
        instruct: (config.tts_model_type == ModelType::VoiceDesign)
            .then(|| "A calm voice.".to_owned()),
        sampling: Sampling { max_new_tokens, ..Sampling::default() },
        ..Request::default()
    };
    let voice = match config.tts_model_type {
        ModelType::Base => Some(Voice::of_recording(&vowel(), None, networks, &Unobserved)?),
        ModelType::CustomVoice | ModelType::VoiceDesign => None,
    };
    let voice_name = request.voice.clone().filter(|_| voice.is_none());
    Ok(Plan::new(&Request { voice: voice_name, ..request }, voice, 0, model)?)
}

/// Two seconds of a sum of harmonics with vibrato.
fn vowel() -> Audio {
    let sample = |index: usize| {
        let time = index as f32 / 24_000.0;
        let phase = std::f32::consts::TAU * (140.0 * time + 0.4 * (5.0 * time).sin());
        (1..12).map(|n| (n as f32 * phase).sin() / n as f32).sum::<f32>() * 0.2
    };
    Audio { channels: vec![(0..48_000).map(sample).collect()], sample_rate: 24_000 }
}

/// The choices of a model that reads given frames, and its sound of them.
struct Choices {
    codes: Vec<Vec<usize>>,
    logits: Vec<f32>,
    predictor_logits: Vec<f32>,
    sound: Vec<f32>,
}

impl Choices {
    fn of<B: Backend>(
        plan: &Plan,
        frames: &[Vec<u32>],
        networks: &Networks<'_, B>,
        host: &dyn Host,
    ) -> Result<Self> {
        let (talker, device) = (networks.talker()?, networks.device());
        let config = networks.checkpoint().config();
        let (place, predictor) = (networks.place(TALKER), talker.code_predictor());
        let mut cache = Talker::cache(config, 1, plan.prompt.rows.len() + frames.len(), &place);
        let mut of_frame = CodePredictor::cache(&config.talker_config, 1, &place);
        let x = embedded(&talker, &plan.prompt.rows, plan.voice.as_ref(), device);
        let mut hidden = talker.read(x, 0..1, &mut cache);
        let mut made =
            Self { codes: vec![], logits: vec![], predictor_logits: vec![], sound: vec![] };
        let mut history = Vec::new();
        for (index, frame) in frames.iter().enumerate() {
            if host.is_cancelled() {
                return Err(Error::Cancelled.into());
            }
            let mut logits = to_host(talker.scores(hidden.clone()));
            require_finite("the talker", &logits)?;
            made.logits.extend_from_slice(&logits);
            restrict(&mut logits, &history, 1.0, config.talker_config.codec_eos_token_id);
            history.push(frame[0]);
            let mut codes = vec![likeliest(&logits)];
            of_frame.truncate(0, 0);
            let mut x = Tensor::cat(vec![hidden, talker.codec(&frame[..1], device)], 1);
            for group in 1..predictor.groups() {
                let logits = to_host(predictor.scores(x, group, 0..1, &mut of_frame));
                require_finite("the code predictor", &logits)?;
                codes.push(likeliest(&logits));
                made.predictor_logits.extend(logits);
                x = predictor.codes(group, &frame[group..=group], device);
            }
            made.codes.push(codes);
            let text = plan.prompt.trailing.get(index).copied().unwrap_or(config.tts_pad_token_id);
            let x =
                talker.frames(std::slice::from_ref(frame), device) + talker.text(&[text], device);
            hidden = talker.read(x, 0..1, &mut cache);
        }
        let mut decoding = StreamingDecoder::begin(&[], networks)?;
        for frames in frames.chunks(8) {
            made.sound.extend(decoding.decode(frames)?);
        }
        Ok(made)
    }
}

/// Returns the index of the largest value; all are finite or negative infinity.
pub(super) fn likeliest(logits: &[f32]) -> usize {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0)
}

/// Returns the root mean square of the difference, divided by the one of `exact`.
fn distance(exact: &[f32], other: &[f32]) -> f64 {
    let sum = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
    let of = sum(&mut exact.iter().map(|&x| f64::from(x)));
    let pairs = exact.iter().zip(other);
    let difference = sum(&mut pairs.map(|(&a, &b)| f64::from(a) - f64::from(b)));
    (difference / of.max(f64::MIN_POSITIVE)).sqrt()
}

#[cfg(test)]
mod tests {
    use acestep_engine::Device;
    use acestep_import::{Layout, TINY_SPEECH};

    use super::*;
    use crate::host::QUIET;

    #[test]
    fn a_distance_is_relative() {
        assert_eq!(distance(&[3.0, 4.0], &[3.0, 4.5]), 0.1);
        assert_eq!(likeliest(&[0.0, 2.0, 1.0]), 1);
    }

    /// The tiny model agrees with itself wholly in f32, and in bf16 nearly.
    #[test]
    fn a_model_agrees_with_itself() {
        let model = Qwen3Tts::find(Some(TINY_SPEECH), &Layout::new([])).expect("built in");
        let of = |dtype| {
            let engine = Engine { device: Device::Cpu, dtype };
            agreement(&model, engine, 6, &QUIET).expect("a comparison")
        };
        let same = of(DType::F32);
        assert_eq!((same.codes.len(), same.frames > 0), (16, true));
        assert!(same.codes.iter().all(|&share| share == 1.0), "{:?}", same.codes);
        assert_eq!((same.logits, same.sound), (0.0, 0.0));
        let near = of(DType::BF16);
        // A CPU without arithmetic in bf16 rounds only weights, and these are bf16 in the file.
        assert!((0.0..0.05).contains(&near.logits), "{}", near.logits);
        assert!(near.sound > 1e-4 && near.sound < 0.2, "{}", near.sound);
        assert!(near.text().contains("codebook 15"), "{}", near.text());
    }
}
