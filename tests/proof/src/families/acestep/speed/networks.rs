//! Text encoder, condition encoder, audio codes and diffusion transformer.

use acestep_model::{
    Backend, Place,
    acestep::{AudioCodec, ConditionInputs, Conditioner, Dit, Padded},
    qwen3,
};
use anyhow::Result;
use burn::tensor::{Distribution, Int, Tensor};

use super::{
    cost,
    sizes::{Sizes, text_encoder_config},
};
use crate::measure::{
    Rate, Run,
    clock::{self, wait},
    weights::random_weights,
};

/// Tokens of a typical caption prompt and lyric prompt (from a published request).
pub(crate) const CAPTION_TOKENS: usize = 70;
pub(crate) const LYRIC_TOKENS: usize = 167;

pub(crate) fn noise<B: Backend>(shape: [usize; 3], device: &B::Device) -> Tensor<B, 3> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

/// Measures the text encoder: caption tokens to hidden states.
pub(crate) fn text_encoder<B: Backend>(place: &Place<B>) -> Result<Run> {
    let (config, device) = (text_encoder_config()?, &place.device);
    let model = random_weights(qwen3::Model::<B>::init(&config, device), place.dtype);
    let ids = Tensor::<B, 2, Int>::zeros([1, CAPTION_TOKENS], device);
    let time = clock::time(|| model.forward(ids.clone()), || wait::<B>(device));
    Ok(Run {
        unit: format!("{CAPTION_TOKENS} tokens"),
        cost: cost::qwen3(&config, 1, CAPTION_TOKENS, 0),
        time,
        rate: Rate::per_second(CAPTION_TOKENS, "tokens/s", time),
    })
}

/// Measures the condition encoder: lyrics, timbre and caption to one condition.
pub(crate) fn condition<B: Backend>(sizes: Sizes, place: &Place<B>) -> Result<Run> {
    let (config, device) = (sizes.config()?, &place.device);
    let model = random_weights(Conditioner::<B>::init(&config, device), place.dtype);
    let text = |length| Padded::whole(noise([1, length, config.text_hidden_dim], device));
    let inputs = ConditionInputs {
        text: text(CAPTION_TOKENS),
        lyrics: text(LYRIC_TOKENS),
        timbre: noise([1, config.timbre_fix_frame, config.timbre_hidden_dim], device),
        timbre_item: vec![0],
    };
    let time = clock::time(|| model.forward(inputs.clone()), || wait::<B>(device));
    Ok(Run {
        unit: format!("{LYRIC_TOKENS} lyric tokens, {} frames", config.timbre_fix_frame),
        cost: cost::condition(&config, CAPTION_TOKENS, LYRIC_TOKENS),
        time,
        rate: Rate::per_second(CAPTION_TOKENS + LYRIC_TOKENS + 1, "positions/s", time),
    })
}

/// Measures audio codes to latent hints.
pub(crate) fn codes<B: Backend>(sizes: Sizes, frames: usize, place: &Place<B>) -> Result<Run> {
    let (config, device) = (sizes.config()?, &place.device);
    let model = random_weights(AudioCodec::<B>::init(&config, device), place.dtype);
    let count = frames.div_ceil(config.pool_window_size);
    let codes: Vec<u32> = (0..count as u32).map(|i| i * 7919 % model.fsq().codes()).collect();
    let batch = [codes];
    let time = clock::time(|| model.decode(&batch, device), || wait::<B>(device));
    Ok(Run {
        unit: format!("{count} codes"),
        cost: cost::codes(&config, count),
        time,
        rate: Rate::per_second(count, "codes/s", time),
    })
}

/// Measures one step of the diffusion transformer.
pub(crate) fn dit<B: Backend>(sizes: Sizes, frames: usize, place: &Place<B>) -> Result<Run> {
    let (config, device) = (sizes.config()?, &place.device);
    let model = random_weights(Dit::<B>::init(&config, device), place.dtype);
    let channels = config.audio_acoustic_hidden_dim;
    let batch = sizes.rows();
    let heard = CAPTION_TOKENS + LYRIC_TOKENS + 1;
    let width = config.encoder_shape().hidden();
    let condition = model.attend_to(noise([batch, heard, width], device));
    let x = noise([batch, frames, channels], device);
    let context = noise([batch, frames, 2 * channels], device);
    let t = vec![0.5; batch];
    let step = || model.forward(x.clone(), context.clone(), [&t, &t], &condition);
    let time = clock::time(step, || wait::<B>(device));
    Ok(Run {
        unit: format!("1 step, {} positions x {batch}", frames.div_ceil(config.patch_size)),
        cost: cost::dit(&config, batch, frames, heard),
        time,
        rate: Rate::new(time.wall_s * 1e3, "ms/step"),
    })
}
