//! Frames of codes, each a list of one code per codebook: to samples, and their checks.

use acestep_engine::{Error, audio::loudness::require_finite, host::to_host};
use acestep_model::Backend;
use burn::tensor::{Int, Tensor, TensorData};

/// Decodes frames with equally many codes by `decode`, which gets them as `[groups, frames]`.
pub(crate) fn decoded<B: Backend>(
    frames: &[Vec<u32>],
    device: &B::Device,
    decode: impl FnOnce(Tensor<B, 2, Int>) -> Tensor<B, 1> + Send,
) -> Result<Vec<f32>, Error> {
    let groups = frames.first().map_or(0, Vec::len);
    let of_group = |group: usize| frames.iter().map(move |frame| frame[group] as i32);
    let codes: Vec<i32> = (0..groups).flat_map(of_group).collect();
    let data = TensorData::new(codes, [groups, frames.len()]);
    let codes = Tensor::<B, 2, Int>::from_data(data, device);
    let samples = to_host(B::on_pool(|| decode(codes)));
    require_finite("the codec decoder", &samples)?;
    Ok(samples)
}

/// Checks that every frame has `groups` codes below `codes`.
pub(crate) fn check(frames: &[Vec<u32>], groups: usize, codes: usize) -> Result<(), String> {
    let fits = |frame: &Vec<u32>| {
        frame.len() == groups && frame.iter().all(|&code| (code as usize) < codes)
    };
    match frames.iter().all(fits) {
        true => Ok(()),
        false => Err(format!("its codes are not {groups} below {codes} in each frame")),
    }
}
