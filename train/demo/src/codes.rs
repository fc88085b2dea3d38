//! Training of the audio codes.
//!
//! Eleven bits per fifth of a second cannot encode the latents. Most of the latents' values are
//! phases, which are inaudible but dominate the squared error. So the codes are trained to predict
//! a [transcription](crate::sheet): a linear map reads it from the decoded codes. The map is
//! discarded after training; notes and strokes stay readable from the codes. Gradients pass the
//! rounding unchanged. The codebook is implied by its levels, so no commitment loss is needed.
//!
//! Source: Mentzer et al. 2023, arXiv:2309.15505 (codes).

use acestep_model::{
    acestep::{AudioCodec, Config},
    nn::Linear,
};
use burn::{
    module::Module,
    tensor::{Tensor, TensorData, backend::AutodiffBackend},
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::sheet::{KINDS, NUMBERS};

/// The trained networks.
#[derive(Module, Debug)]
pub struct Scribe<B: acestep_model::Backend> {
    /// Converts latents to codes and back.
    pub codec: AudioCodec<B>,
    /// Predicts the transcription from the features before quantisation.
    pub ear: Linear<B>,
    /// Predicts the transcription from the decoded codes.
    pub pen: Linear<B>,
}

impl<B: acestep_model::Backend> Scribe<B> {
    /// Returns a randomly initialised model.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let numbers = config.pool_window_size * config.audio_acoustic_hidden_dim;
        Self {
            codec: AudioCodec::init(config, device),
            ear: Linear::init_with_bias(config.encoder_shape().hidden(), NUMBERS, device),
            pen: Linear::init_with_bias(numbers, NUMBERS, device),
        }
    }
}

/// A training piece.
#[derive(Debug, Clone)]
pub struct Written {
    /// `[T, C]`
    pub latents: Vec<f32>,
    /// `[moments, NUMBERS]`
    pub sheet: Vec<f32>,
}

/// Training data and constants of all steps.
pub struct Moments<'a> {
    /// All pieces.
    pub pieces: &'a [Written],
    /// Frames and channels of a moment's latents.
    pub shape: [usize; 2],
    /// Total variance of the values of each kind.
    pub spread: [f32; 3],
}

impl<'a> Moments<'a> {
    /// Measures the variance of the pieces.
    pub fn new(pieces: &'a [Written], shape: [usize; 2]) -> Self {
        let moments = || pieces.iter().flat_map(|piece| piece.sheet.chunks_exact(NUMBERS));
        let count = moments().count().max(1) as f32;
        let (mut sum, mut squares) = ([0.0f32; NUMBERS], [0.0f32; NUMBERS]);
        for moment in moments() {
            for (place, number) in moment.iter().enumerate() {
                sum[place] += number / count;
                squares[place] += number * number / count;
            }
        }
        let mut first = 0;
        let spread = KINDS.map(|end| {
            let of = (first..end).map(|place| squares[place] - sum[place] * sum[place]).sum();
            first = end;
            of
        });
        Self { pieces, shape, spread }
    }

    /// Returns the unexplained share of the variance of each kind over `count` moments: first
    /// predicted from the codes, then from the features before quantisation. `[1]` each.
    pub fn unknown<B>(
        &self,
        model: &Scribe<B>,
        count: usize,
        seed: u64,
        device: &B::Device,
    ) -> [[Tensor<B, 1>; 3]; 2]
    where
        B: AutodiffBackend + acestep_model::Backend,
    {
        let mut random = Pcg64::seed_from_u64(seed);
        let [frames, channels] = self.shape;
        let mut latents: Vec<f32> = Vec::with_capacity(count * frames * channels);
        let mut sheets: Vec<f32> = Vec::with_capacity(count * NUMBERS);
        for _ in 0..count {
            let piece = &self.pieces[random.random_range(0..self.pieces.len())];
            let moment = random.random_range(0..piece.sheet.len() / NUMBERS);
            let size = frames * channels;
            latents.extend(&piece.latents[moment * size..][..size]);
            sheets.extend(&piece.sheet[moment * NUMBERS..][..NUMBERS]);
        }
        let latents = TensorData::new(latents, [count, frames, channels]);
        let latents = Tensor::<B, 3>::from_data(latents, device);
        let sheets = Tensor::<B, 2>::from_data(TensorData::new(sheets, [count, NUMBERS]), device);
        let (tokenizer, detokenizer) = (model.codec.tokenizer(), model.codec.detokenizer());
        let heard = tokenizer.pool(latents.clone(), latents);
        let vectors = tokenizer.quantizer().forward_straight(heard.clone());
        let kept = detokenizer.forward(vectors).reshape([count as i32, -1]);
        let unknown = |written: Tensor<B, 2>| {
            let errors = (written - sheets.clone()).square();
            let (mut first, mut kind) = (0, 0);
            KINDS.map(|end| {
                let of = errors.clone().narrow(1, first, end - first).sum();
                let share = of.div_scalar(count as f32 * self.spread[kind].max(1e-9));
                (first, kind) = (end, kind + 1);
                share
            })
        };
        [unknown(model.pen.forward(kept)), unknown(model.ear.forward(heard.squeeze_dim(1)))]
    }
}

#[cfg(test)]
mod tests {
    use burn::{backend::Autodiff, optim::GradientsParams};
    use burn_flex::Flex;

    use super::*;
    use crate::demo::Sizes;

    type B = Autodiff<Flex>;

    /// Four moments of silence; a note sounds in the first, and strokes are in two.
    fn written() -> Written {
        let mut sheet = vec![0.0; 4 * NUMBERS];
        for (moment, place) in [(0, 3), (0, 63), (2, 63)] {
            sheet[moment * NUMBERS + place] = 1.0;
        }
        Written { latents: vec![0.1; 4 * 40 * 8], sheet }
    }

    #[test]
    fn what_varies_is_measured_kind_by_kind() {
        let pieces = [written()];
        let [harmony, bass, rhythm] = Moments::new(&pieces, [40, 8]).spread;
        // A quarter and a half of the moments: p (1 - p).
        assert_eq!([harmony, bass, rhythm], [0.1875, 0.0, 0.25]);
    }

    #[test]
    fn hearing_is_learned_through_the_rounding() {
        let (pieces, device) = ([written()], Default::default());
        let moments = Moments::new(&pieces, [40, 8]);
        let model = Scribe::<B>::init(&Sizes::demo().expect("sizes").dit, &device);
        let taught = |which: usize| {
            let unknown = moments.unknown(&model, 6, 1, &device)[which].clone();
            let [harmony, _, rhythm] = unknown;
            GradientsParams::from_grads((harmony + rhythm).backward(), &model).len()
        };
        let [codes, ear] = [taught(0), taught(1)];
        let all = burn::module::list_param_ids(&model).len();
        // All weights but the ear's get gradients from the codes.
        assert_eq!(codes, all - 2);
        // Features before quantisation depend on neither the codebook nor the layers after it.
        assert!(ear < codes, "{ear} of {codes}");
    }
}
