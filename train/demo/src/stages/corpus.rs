//! Stage of the corpus: pieces as latents.

use acestep_demo::corpus::{Corpus, Example};
use acestep_model::{Backend, Place};
use burn::tensor::Tensor;

use super::{Setting, report};

/// Reads the corpus, and creates missing parts first; `None` if stopped meanwhile.
pub(super) fn read<B: Backend>(
    setting: &Setting<'_>,
    place: &Place<B>,
) -> anyhow::Result<Option<Vec<Example>>> {
    let encoder = setting.vae()?.encoder(place)?;
    let start = std::time::Instant::now();
    let mut made = |count: usize| {
        let seconds = start.elapsed().as_secs_f64();
        report(&format!("{count} of {} pieces, {seconds:.0} s", setting.pieces));
        !(setting.stop)()
    };
    let of = Corpus {
        folder: &setting.folder.join("corpus"),
        seed: setting.seed,
        count: setting.pieces,
        latents: &setting.encoder()?.digest()?[..8],
    };
    let at_once = !setting.device.is_gpu();
    Ok(of.read_or_make(&encoder, &place.device, at_once, &mut made)?)
}

/// Returns latents of silence for the longest pieces: `[T, C]`. The end of the encoded silence is
/// left out, because it differs from the rest.
pub(super) fn silence<B: Backend>(
    setting: &Setting<'_>,
    place: &Place<B>,
) -> anyhow::Result<Vec<f32>> {
    let vae = setting.vae()?;
    let encoder = vae.encoder(place)?;
    // 30 seconds are encoded, and 20 are kept.
    let samples = 30 * vae.config().sampling_rate as usize;
    let sound = Tensor::zeros([1, vae.config().audio_channels, samples], &place.device);
    let mean = encoder.forward(sound).mean.swap_dims(1, 2); // [1, T, C]
    let frames = mean.dims()[1] * 2 / 3;
    let mean = mean.narrow(1, 0, frames);
    Ok(mean.into_data().iter::<f32>().collect())
}
