//! The decoder: latents to audio.
//!
//! Five stages, each a snake, a transposed convolution and three residual units of dilation 1, 3
//! and 9: 1 frame becomes 10, 60, 240, 960, 1920 samples. The output is not bounded.
//!
//! Checkpoint: `decoder.*` of the VAE.

use burn::{
    module::Module,
    tensor::{DType, Tensor},
};

use super::{
    Config,
    residual::{ResidualUnit, resampling, residual_units, same},
};
use crate::{
    Backend, NoTap, Tap,
    nn::{Conv1d, ConvTranspose1d, Snake},
};

impl Config {
    /// Returns one side of the decoder's receptive field in latent frames, 9 in the released models.
    /// The samples of a frame depend on this number of frames before it and after it.
    pub fn decoder_reach(&self) -> usize {
        reach(self.downsampling_ratios.iter().copied()) + 3
    }

    /// Returns the channels and samples of the largest tensors of [`Decoder::forward_in_slices`] for one item
    /// of `latents` latent frames: the one that is cut into slices, and a slice after the last block.
    pub fn sliced(&self, latents: usize, frames: usize) -> [[usize; 2]; 2] {
        let sliced = SLICED.min(self.downsampling_ratios.len());
        let (last, first) = self.downsampling_ratios.split_at(sliced);
        let [rate, hop]: [usize; 2] = [first, last].map(|ratios| ratios.iter().product());
        let samples = latents * rate;
        let slice = slice_length(samples, frames * rate) + 2 * reach(last.iter().copied());
        let channels = self.decoder_channels * self.channel_multiples[sliced - 1];
        [[channels, samples], [self.decoder_channels, slice.min(samples) * hop]]
    }
}

/// Returns the length of slices of equal size, each of at most `most` samples.
fn slice_length(samples: usize, most: usize) -> usize {
    samples.div_ceil(samples.div_ceil(most).max(1))
}

/// Returns one side of the receptive field of the last blocks and the layers after them, in samples of
/// their input. Takes the ratios of the blocks, the last one first.
fn reach(ratios: impl Iterator<Item = usize>) -> usize {
    // Filters of seven taps, one in each unit of a stage.
    let units = 3 * (1 + 3 + 9);
    // From the last layer to the first: the samples that are needed beyond those of the frame. A
    // sample of a transposed convolution depends on the inputs `n / ratio - 2 < q <= n / ratio`,
    // where `n` is its index plus `ratio / 2`.
    ratios.fold(3, |after, ratio| (after + units - 1 + ratio / 2) / ratio + 1)
}

/// Blocks that [`Decoder::forward_in_slices`] computes slice by slice. Their tensors are the largest: each
/// has as many values as one of the sound's length and the last block's width.
const SLICED: usize = 2;

/// The decoder.
#[derive(Module, Debug)]
pub struct Decoder<B: Backend> {
    conv1: Conv1d<B>,
    block: Vec<DecoderBlock<B>>,
    snake1: Snake<B>,
    conv2: Conv1d<B>,
}

#[derive(Module, Debug)]
struct DecoderBlock<B: Backend> {
    snake1: Snake<B>,
    conv_t1: ConvTranspose1d<B>,
    res_unit1: ResidualUnit<B>,
    res_unit2: ResidualUnit<B>,
    res_unit3: ResidualUnit<B>,
}

impl<B: Backend> Decoder<B> {
    /// Creates a decoder of the configured size.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let stages = config.stages(config.decoder_channels);
        let widest = stages.last().map_or(config.decoder_channels, |&(_, wide, _)| wide);
        let block = |&(narrow, wide, ratio): &(usize, usize, usize)| DecoderBlock {
            snake1: Snake::init(wide, device),
            conv_t1: ConvTranspose1d::init_with_bias(
                [wide, narrow],
                2 * ratio,
                resampling(ratio),
                device,
            ),
            res_unit1: ResidualUnit::init(narrow, 1, device),
            res_unit2: ResidualUnit::init(narrow, 3, device),
            res_unit3: ResidualUnit::init(narrow, 9, device),
        };
        let latents = [config.decoder_input_channels, widest];
        Self {
            conv1: Conv1d::init_with_bias(latents, 7, same(7), device),
            block: stages.iter().rev().map(block).collect(),
            snake1: Snake::init(config.decoder_channels, device),
            conv2: Conv1d::init(
                [config.decoder_channels, config.audio_channels],
                7,
                same(7),
                device,
            ),
        }
    }

    /// Returns the decoder with filters prepacked by
    /// [`kernel::pack_filter`](crate::kernel::pack_filter), for decoding only. The result cannot be
    /// cast or saved.
    pub fn prepacked(self) -> Self {
        Self {
            conv1: self.conv1.prepacked(),
            block: self.block.into_iter().map(DecoderBlock::prepacked).collect(),
            snake1: self.snake1,
            conv2: self.conv2.prepacked(),
        }
    }

    /// # Shapes
    /// - `latents`: `[B, C, T]`
    /// - output: `[B, 2, 1920 T]`
    pub fn forward(&self, latents: Tensor<B, 3>) -> Tensor<B, 3> {
        self.forward_tapped(latents, &mut NoTap)
    }

    /// [`Self::forward`] that taps `conv1`, `block.i` and the parts of each block.
    pub fn forward_tapped(&self, latents: Tensor<B, 3>, tap: &mut impl Tap<B>) -> Tensor<B, 3> {
        let x = self.begin(latents, self.block.len(), tap);
        self.end(x, self.block.len(), tap)
    }

    /// [`Self::forward`], with at most `frames` latent frames at a time in the last blocks, which need a
    /// fraction of the memory then. On a CPU the result is equal to the bit.
    ///
    /// # Shapes
    /// As [`Self::forward`].
    ///
    /// # Panics
    /// A `frames` of 0.
    pub fn forward_in_slices(&self, latents: Tensor<B, 3>, frames: usize) -> Tensor<B, 3> {
        let whole = self.block.len().saturating_sub(SLICED);
        let (first, last) = self.block.split_at(whole);
        let ratio = |block: &DecoderBlock<B>| block.conv_t1.stride();
        let [rate, hop]: [usize; 2] =
            [first, last].map(|blocks| blocks.iter().map(ratio).product());
        let reach = reach(last.iter().rev().map(ratio));
        let x = self.begin(latents, whole, &mut NoTap);
        let samples = x.dims()[2];
        let length = slice_length(samples, frames * rate);
        let slice = |start: usize| {
            let end = (start + length).min(samples);
            let window = start.saturating_sub(reach)..(end + reach).min(samples);
            let seen = x.clone().narrow(2, window.start, window.len());
            let sound = self.end(seen, whole, &mut NoTap);
            sound.narrow(2, (start - window.start) * hop, (end - start) * hop)
        };
        Tensor::cat((0..samples).step_by(length).map(slice).collect(), 2)
    }

    // ANCHOR: decode
    /// Returns the snake before a block. It is fused into the last sum before that block.
    fn snake(&self, block: usize) -> &Snake<B> {
        self.block.get(block).map_or(&self.snake1, |block| &block.snake1)
    }

    /// Computes to the end of `blocks` blocks.
    fn begin(&self, latents: Tensor<B, 3>, blocks: usize, tap: &mut impl Tap<B>) -> Tensor<B, 3> {
        let x = self.conv1.enter(latents);
        tap.tap(format_args!("conv1"), &x);
        (0..blocks).fold(self.snake(0).forward(x), |x, index| {
            self.block[index].forward(x, self.snake(index + 1), index, tap)
        })
    }

    /// Computes from the end of `blocks` blocks to the sound.
    fn end(&self, x: Tensor<B, 3>, blocks: usize, tap: &mut impl Tap<B>) -> Tensor<B, 3> {
        let x = (blocks..self.block.len())
            .fold(x, |x, index| self.block[index].forward(x, self.snake(index + 1), index, tap));
        self.conv2.forward(x).cast(DType::F32)
    }
    // ANCHOR_END: decode
}

impl<B: Backend> DecoderBlock<B> {
    fn prepacked(self) -> Self {
        Self {
            snake1: self.snake1,
            conv_t1: self.conv_t1.prepacked(),
            res_unit1: self.res_unit1.prepacked(),
            res_unit2: self.res_unit2.prepacked(),
            res_unit3: self.res_unit3.prepacked(),
        }
    }

    /// Computes from the output of `snake1` to the output of `next`, the snake that follows.
    fn forward(
        &self,
        x: Tensor<B, 3>,
        next: &Snake<B>,
        index: usize,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 3> {
        tap.tap(format_args!("block.{index}.snake1"), &x);
        let x = self.conv_t1.forward(x);
        tap.tap(format_args!("block.{index}.conv_t1"), &x);
        let units = [&self.res_unit1, &self.res_unit2, &self.res_unit3];
        residual_units(units, next, x, |unit, x| match unit {
            // The sum of the last unit is the output of the block.
            2 => tap.tap(format_args!("block.{index}"), x),
            _ => tap.tap(format_args!("block.{index}.res_unit{}", unit + 1), x),
        })
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use std::ops::Range;

    use burn_flex::Flex;

    use super::{super::config::tests::config, *};
    use crate::{cast, testing::random};

    /// Released models, by hand: 3 after the last stage, then (3 + 39) / 2 + 1 = 22,
    /// (22 + 40) / 4 + 1 = 16, (16 + 40) / 4 + 1 = 15, (15 + 41) / 6 + 1 = 10, (10 + 43) / 10 + 1 = 6,
    /// and 3 of the first filter. The demo: 3, then 11, 9, 6, and 3.
    #[test]
    fn a_sample_depends_on_nine_frames_on_each_side() {
        assert_eq!(config(&[2, 4, 4, 6, 10], 1).decoder_reach(), 9);
        assert_eq!(config(&[4, 6, 10], 1).decoder_reach(), 9);
    }

    /// 50 frames are one slice without neighbours; each of its samples becomes eight.
    #[test]
    fn the_largest_tensors_are_the_one_that_is_cut_and_a_slice() {
        let mut released = config(&[2, 4, 4, 6, 10], 128);
        released.channel_multiples = vec![1, 2, 4, 8, 16];
        assert_eq!(released.sliced(50, 128), [[256, 12_000], [128, 96_000]]);
        assert_eq!(released.sliced(0, 128), [[256, 0], [128, 0]]);
        assert_eq!(config(&[2, 4], 10).sliced(100, 128), [[10, 100], [10, 800]]);
    }

    #[test]
    fn frames_beyond_the_reach_change_no_bit() {
        for (ratios, channels) in [(&[2, 4, 4, 6, 10][..], 4), (&[2, 4][..], 24)] {
            let config = config(ratios, channels);
            let (frames, reach, hop) = (3, config.decoder_reach(), config.hop());
            let all = frames + reach + 70;
            let latents = random([2, 4, all]);
            for dtype in [DType::F32, DType::BF16] {
                let plain = cast(Decoder::<Flex>::init(&config, &Default::default()), dtype);
                for decoder in [plain.clone(), plain.prepacked()] {
                    // The frames from `core` on, decoded from the frames of `window`.
                    let of = |core: usize, window: Range<usize>| {
                        let seen = latents.clone().narrow(2, window.start, window.len());
                        let sound = decoder.forward(seen);
                        sound.narrow(2, (core - window.start) * hop, frames * hop).into_data()
                    };
                    let last = all - frames;
                    for (core, window) in [(0, 0..frames + reach), (last, last - reach..all)] {
                        assert!(of(core, window) == of(core, 0..all), "{ratios:?} {dtype:?}");
                    }
                    let whole = decoder.forward(latents.clone()).into_data();
                    for frames in [1, 7, 32, 100] {
                        let slices = decoder.forward_in_slices(latents.clone(), frames);
                        assert!(slices.into_data() == whole, "{ratios:?} {dtype:?} {frames}");
                    }
                }
            }
        }
    }
}
