//! Each stage alone at full size, with random weights.

use acestep_model::{
    Backend, LATENT_HZ, Place,
    acestep::{self, AudioCodec, ConditionInputs, Conditioner, Dit, Packed},
    cast, qwen3,
};
use acestep_music::plan::frames_from_seconds;
use anyhow::Result;
use burn::tensor::{Distribution, Int, Tensor};
use serde::{Deserialize, Serialize};

use super::{
    ceilings::{Binds, Ceilings, Floor, Weights},
    cost::{self, Cost},
    language,
    measure::{self, Time},
    presets::{self, Preset},
    sound,
};
use crate::process;

/// A stage of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stage {
    /// Text encoder: caption tokens to hidden states.
    TextEncoder,
    /// Condition encoder: lyrics, timbre and caption to one condition.
    Condition,
    /// Audio codes to latent hints.
    Codes,
    /// One step of the diffusion transformer.
    Dit,
    /// VAE decoder: latents to sound.
    Vae,
    /// VAE encoder: sound to latents.
    VaeEncode,
    /// A prompt of the language model.
    LmPrefill,
    /// An audio code of the language model.
    LmDecode,
    /// An audio code with guidance: two rows in one pass.
    LmDecodeCfg,
    /// Loading of a network from files; measured with --model.
    #[value(hide = true)]
    Load,
}

impl Stage {
    /// True if its network is kept in the requested type even if that is narrow: see
    /// [`acestep_engine::device::dtype::of_others`].
    pub(crate) fn is_kept_as_asked(&self) -> bool {
        matches!(self, Self::Dit | Self::LmPrefill | Self::LmDecode | Self::LmDecodeCfg)
    }
}

/// Tokens of a typical caption prompt and lyric prompt (from a published request).
pub(crate) const CAPTION_TOKENS: usize = 70;
pub(crate) const LYRIC_TOKENS: usize = 167;

/// Returns the stages of a preset.
pub(super) fn of(preset: Preset) -> &'static [Stage] {
    match preset {
        Preset::Turbo | Preset::Base | Preset::Xl => {
            use Stage::{Codes, Condition, Dit, TextEncoder, Vae, VaeEncode};
            &[TextEncoder, Condition, Codes, Dit, Vae, VaeEncode]
        }
        Preset::Vae => &[Stage::Vae, Stage::VaeEncode],
        Preset::TextEncoder => &[Stage::TextEncoder],
        Preset::Lm06b | Preset::Lm17b | Preset::Lm4b => {
            &[Stage::LmPrefill, Stage::LmDecode, Stage::LmDecodeCfg]
        }
    }
}

/// Measurement of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) stage: Stage,
    /// Description of one run.
    pub(crate) unit: String,
    #[serde(flatten)]
    pub(crate) time: Time,
    /// The usual metric of the stage.
    pub(crate) rate: Rate,
    pub(crate) flop: f64,
    pub(crate) weight_bytes: f64,
    pub(crate) flop_per_s: f64,
    pub(crate) weight_bytes_per_s: f64,
    pub(crate) flop_share_of_ceiling: f64,
    pub(crate) bytes_share_of_ceiling: f64,
    /// The minimum seconds that the ceilings allow for this work.
    pub(crate) floor_s: f64,
    /// The ceiling that determines the minimum.
    pub(crate) binds: Binds,
    /// The floor as a share of the time: 1 is as fast as the device allows.
    pub(crate) share_of_floor: f64,
    /// The stage's peak of host memory; `None` if the system does not report it.
    pub(crate) peak_bytes: Option<u64>,
}

/// A value and its unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rate {
    pub(crate) value: f64,
    pub(crate) unit: String,
}

impl Rate {
    pub(super) fn new(value: f64, unit: &str) -> Self {
        Self { value, unit: unit.to_owned() }
    }
}

/// Preset and song length of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Song {
    pub(crate) preset: Preset,
    pub(crate) duration_s: f64,
}

impl Song {
    pub(crate) fn frames(self) -> usize {
        frames_from_seconds(self.duration_s, LATENT_HZ, 1).max(1)
    }

    /// Returns the rows of one pass: guidance runs both halves at once.
    pub(crate) fn rows(self) -> usize {
        if self.preset == Preset::Base { 2 } else { 1 }
    }
}

/// Runs a stage; its weights are freed afterwards.
pub(crate) fn run<B: Backend>(
    stage: Stage,
    song: Song,
    ceilings: Ceilings,
    place: &Place<B>,
) -> Result<Measured> {
    let work = || {
        Ok(match stage {
            Stage::TextEncoder => text_encoder::<B>(place)?,
            Stage::Condition => condition::<B>(&presets::dit(song.preset)?, place),
            Stage::Codes => codes::<B>(&presets::dit(song.preset)?, song, place),
            Stage::Dit => dit::<B>(&presets::dit(song.preset)?, song, place),
            Stage::Vae => sound::decode::<B>(song, place)?,
            Stage::VaeEncode => sound::encode::<B>(song, place)?,
            Stage::LmPrefill => language::prefill::<B>(song.preset, place)?,
            Stage::LmDecode => language::decode::<B>(song, 1, place)?,
            Stage::LmDecodeCfg => language::decode::<B>(song, 2, place)?,
            Stage::Load => anyhow::bail!("only a model that is named can be loaded"),
        })
    };
    measure(stage, Weights::of(place.dtype), ceilings, work)
}

/// Runs `work` and returns its result with its floor and its peak memory.
pub(super) fn measure(
    stage: Stage,
    weights: Weights,
    ceilings: Ceilings,
    work: impl FnOnce() -> Result<Run>,
) -> Result<Measured> {
    let peak_is_ours = measure::reset_peak();
    let run = work()?;
    let peak_bytes = process::peak().filter(|_| peak_is_ours);
    Ok(Measured::new(stage, run, weights, ceilings, peak_bytes))
}

impl Measured {
    fn new(
        stage: Stage,
        run: Run,
        weights: Weights,
        ceilings: Ceilings,
        peak_bytes: Option<u64>,
    ) -> Self {
        let Run { unit, cost, time, rate } = run;
        let bytes = cost.weights * weights.bytes();
        let (flop_per_s, weight_bytes_per_s) = (cost.flop / time.wall_s, bytes / time.wall_s);
        let Floor { seconds: floor_s, binds } = ceilings.floor(cost.flop, bytes);
        Self {
            stage,
            unit,
            time,
            rate: rate(time),
            flop: cost.flop,
            weight_bytes: bytes,
            flop_per_s,
            weight_bytes_per_s,
            flop_share_of_ceiling: flop_per_s / ceilings.flop_per_s,
            bytes_share_of_ceiling: weight_bytes_per_s / ceilings.bytes_per_s,
            floor_s,
            binds,
            share_of_floor: floor_s / time.wall_s,
            peak_bytes,
        }
    }

    /// Returns `of()`, or `-` if there is no floor, because loading only moves data.
    pub(super) fn floored(&self, of: impl FnOnce() -> String) -> String {
        if self.floor_s > 0.0 { of() } else { "-".to_owned() }
    }

    /// Returns the same measurement against other ceilings.
    pub(super) fn against(&self, ceilings: Ceilings) -> Self {
        let Floor { seconds: floor_s, binds } = ceilings.floor(self.flop, self.weight_bytes);
        Self {
            flop_share_of_ceiling: self.flop_per_s / ceilings.flop_per_s,
            bytes_share_of_ceiling: self.weight_bytes_per_s / ceilings.bytes_per_s,
            floor_s,
            binds,
            share_of_floor: floor_s / self.time.wall_s,
            ..self.clone()
        }
    }
}

pub(super) struct Run {
    pub(super) unit: String,
    pub(super) cost: Cost,
    pub(super) time: Time,
    pub(super) rate: Box<dyn Fn(Time) -> Rate>,
}

pub(super) fn per_second(count: usize, unit: &'static str) -> Box<dyn Fn(Time) -> Rate> {
    Box::new(move |time| Rate::new(count as f64 / time.wall_s, unit))
}

pub(super) fn noise<B: Backend>(shape: [usize; 3], device: &B::Device) -> Tensor<B, 3> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

fn text_encoder<B: Backend>(place: &Place<B>) -> Result<Run> {
    let config = presets::text_encoder()?;
    let device = &place.device;
    let model = cast(qwen3::Model::<B>::init(&config, device), place.dtype);
    let ids = Tensor::<B, 2, Int>::zeros([1, CAPTION_TOKENS], device);
    let time = measure::time(|| model.forward(ids.clone()), || measure::wait::<B>(device));
    let cost = cost::qwen3(&config, 1, CAPTION_TOKENS, 0);
    let rate = per_second(CAPTION_TOKENS, "tokens/s");
    Ok(Run { unit: format!("{CAPTION_TOKENS} tokens"), cost, time, rate })
}

fn condition<B: Backend>(config: &acestep::Config, place: &Place<B>) -> Run {
    let device = &place.device;
    let model = cast(Conditioner::<B>::init(config, device), place.dtype);
    let text = |length| Packed::whole(noise([1, length, config.text_hidden_dim], device));
    let inputs = ConditionInputs {
        text: text(CAPTION_TOKENS),
        lyrics: text(LYRIC_TOKENS),
        timbre: noise([1, config.timbre_fix_frame, config.timbre_hidden_dim], device),
        timbre_item: vec![0],
    };
    let time = measure::time(|| model.forward(inputs.clone()), || measure::wait::<B>(device));
    let tokens = CAPTION_TOKENS + LYRIC_TOKENS + 1;
    let unit = format!("{LYRIC_TOKENS} lyric tokens, {} frames", config.timbre_fix_frame);
    let cost = cost::condition(config, CAPTION_TOKENS, LYRIC_TOKENS);
    Run { unit, cost, time, rate: per_second(tokens, "positions/s") }
}

fn codes<B: Backend>(config: &acestep::Config, song: Song, place: &Place<B>) -> Run {
    let device = &place.device;
    let model = cast(AudioCodec::<B>::init(config, device), place.dtype);
    let count = song.frames().div_ceil(config.pool_window_size);
    let codes: Vec<u32> = (0..count as u32).map(|i| i * 7919 % model.fsq().codes()).collect();
    let batch = [codes];
    let time = measure::time(|| model.decode(&batch, device), || measure::wait::<B>(device));
    let cost = cost::codes(config, count);
    Run { unit: format!("{count} codes"), cost, time, rate: per_second(count, "codes/s") }
}

fn dit<B: Backend>(config: &acestep::Config, song: Song, place: &Place<B>) -> Run {
    let device = &place.device;
    let model = cast(Dit::<B>::init(config, device), place.dtype);
    let (frames, channels) = (song.frames(), config.audio_acoustic_hidden_dim);
    let batch = song.rows();
    let heard = CAPTION_TOKENS + LYRIC_TOKENS + 1;
    let width = config.encoder_shape().hidden();
    let condition = model.attend_to(noise([batch, heard, width], device));
    let x = noise([batch, frames, channels], device);
    let context = noise([batch, frames, 2 * channels], device);
    let t = vec![0.5; batch];
    let step = || model.forward(x.clone(), context.clone(), [&t, &t], &condition);
    let time = measure::time(step, || measure::wait::<B>(device));
    Run {
        unit: format!("1 step, {} positions x {batch}", frames.div_ceil(config.patch_size)),
        cost: cost::dit(config, batch, frames, heard),
        time,
        rate: Box::new(|time| Rate::new(time.wall_s * 1e3, "ms/step")),
    }
}
