//! Memory needs of a request by stage, and available memory: computed before anything is loaded.
//!
//! Weights and caches are exact. Work memory is an estimate: the tensors that are alive at a
//! stage's widest point, with attention that stores no score matrix.

use acestep_model::{
    Backend, Place,
    acestep::{self, Heads},
    oobleck, qwen3,
};
use burn::tensor::DType;

use super::{Device, Listing, dtype::of_others};
use crate::{Error, observe::Stage, vae::Tiling};

/// Tokens of an answer that are scored at once; each has one score per token of the vocabulary.
pub(crate) const SCORED_AT_ONCE: usize = 32;

/// Memory needs of one stage, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryNeed {
    /// The stage.
    pub stage: Stage,
    /// The weights of its network.
    pub weights: u64,
    /// Temporary tensors.
    pub work: u64,
    /// Cached keys and values.
    pub cache: u64,
    /// The largest single tensor.
    pub largest: u64,
}

/// Memory of a device, in bytes; `None` if unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryInfo {
    /// Memory available now.
    pub free: Option<u64>,
    /// Maximum memory, including memory in use and swap space.
    pub total: Option<u64>,
    /// Maximum size of one tensor.
    pub largest: Option<u64>,
}

impl MemoryInfo {
    /// Returns a GPU's memory at the first query. Later allocations of this program are not
    /// subtracted, because they are part of what it asks for. Memory of a CPU is not queried.
    pub fn of(device: Device) -> Self {
        match device {
            Device::Cpu => Self::default(),
            Device::Cuda(index) => {
                let cuda = Listing::of(device).cuda.unwrap_or_default();
                let free = cuda.cards.get(index).map(|card| card.free_bytes);
                Self { free, ..Self::default() }
            }
            Device::Wgpu(index) => {
                let adapters = Listing::of(device).wgpu.unwrap_or_default();
                let adapter = adapters.get(index);
                Self {
                    free: adapter.and_then(|adapter| adapter.free_bytes),
                    total: adapter.and_then(|adapter| adapter.total_bytes),
                    largest: adapter.map(|adapter| adapter.largest_bytes),
                }
            }
        }
    }
}

/// Returns the bytes per value.
pub fn bytes_of(dtype: DType) -> u64 {
    dtype.size() as u64
}

/// Returns the bytes of `count` weights stored as `dtype`.
pub fn bytes_of_weights(count: u64, dtype: DType) -> u64 {
    match dtype {
        // 32 weights share an f32 scale.
        DType::I8 => count / 8 * 9,
        float => count * bytes_of(float),
    }
}

/// Sizes of weights and of activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Widths {
    /// The type of the weights. Biases and norms may be wider, but are too few to count.
    pub weight: DType,
    /// Bytes per activation value.
    pub number: u64,
}

impl Widths {
    /// Returns the widths of a network at `place`.
    pub fn at<B: Backend>(place: &Place<B>) -> Self {
        Self { weight: place.dtype, number: bytes_of(B::computes_in(place.dtype)) }
    }

    /// Uses `dtype` for weights and activations.
    pub fn all(dtype: DType) -> Self {
        Self { weight: dtype, number: bytes_of(dtype) }
    }

    /// Returns the bytes of a language model's or a diffusion transformer's weights.
    pub fn weights(self, count: u64) -> u64 {
        bytes_of_weights(count, self.weight)
    }

    /// Returns the bytes of another network's weights: see [`of_others`].
    pub fn weights_of_others(self, count: u64) -> u64 {
        bytes_of_weights(count, of_others(self.weight))
    }
}

impl MemoryNeed {
    /// Returns the sum of weights, work and cache.
    pub fn total(&self) -> u64 {
        self.weights + self.work + self.cache
    }

    /// Computes the needs of a Qwen3 trunk that reads `tokens` at once.
    pub fn text_encoder(
        config: &qwen3::Config,
        parameters: u64,
        tokens: usize,
        widths: Widths,
    ) -> Self {
        let shape = Layers {
            hidden: config.hidden_size,
            intermediate: config.intermediate_size,
            heads: config.num_attention_heads * config.head_dim,
        };
        Self {
            stage: Stage::TextEncoder,
            weights: widths.weights_of_others(parameters),
            work: shape.work(tokens, widths.number),
            cache: 0,
            largest: widths.weights_of_others(table(config)),
        }
    }

    /// Computes the needs of the condition encoders for `tokens` tokens in total.
    pub fn conditioner(
        config: &acestep::Config,
        parameters: u64,
        tokens: usize,
        widths: Widths,
    ) -> Self {
        let shape =
            Layers::of(config, config.encoder_hidden_size, config.encoder_intermediate_size);
        let work = shape.work(tokens, widths.number);
        Self {
            stage: Stage::Condition,
            weights: widths.weights_of_others(parameters),
            work,
            cache: 0,
            largest: shape.widest(tokens, widths.number),
        }
    }

    /// Computes the needs of the diffusion transformer for `frames` latent frames and `rows` rows
    /// (songs, doubled by guidance). Keys and values of the condition's `tokens` are cached for
    /// every layer.
    pub fn diffusion(
        config: &acestep::Config,
        parameters: u64,
        rows: usize,
        frames: usize,
        tokens: usize,
        widths: Widths,
    ) -> Self {
        let shape = Layers::of(config, None, None);
        let patches = rows * frames.div_ceil(config.patch_size.max(1));
        let keys = config.num_key_value_heads * config.head_dim;
        let cache = 2 * product(&[config.num_hidden_layers, keys, tokens, rows]) * widths.number;
        Self {
            stage: Stage::Diffusion,
            weights: widths.weights(parameters),
            work: shape.work(patches, widths.number),
            cache,
            largest: shape.widest(patches, widths.number),
        }
    }

    /// Computes the needs of the attention maps of some `heads` of the diffusion transformer, for a
    /// condition of `tokens` and a finished song of `frames` latent frames.
    pub fn alignment(
        config: &acestep::Config,
        parameters: u64,
        heads: &[Heads],
        frames: usize,
        tokens: usize,
        widths: Widths,
    ) -> Self {
        let song = Self::diffusion(config, parameters, 1, frames, tokens, widths);
        let patches = frames.div_ceil(config.patch_size.max(1));
        // An f32 map of each head and its transposed copy; before that, the scores of one layer.
        let look = product(&[patches, tokens]) * 4;
        let all: usize = heads.iter().map(|of| of.heads.len()).sum();
        let most = heads.iter().map(|of| of.heads.len()).max().unwrap_or(0);
        // Inputs of all layers up to the last one with maps.
        let layers = heads.iter().map(|of| of.layer + 1).max().unwrap_or(0);
        let entering = product(&[layers, patches, config.hidden_size]) * widths.number;
        Self {
            stage: Stage::Alignment,
            work: song.work + entering + (2 * all + most) as u64 * look,
            largest: song.largest.max(most as u64 * look),
            ..song
        }
    }

    /// Computes the needs of a language model for `rows` rows of at most `positions` tokens.
    pub fn language_model(
        config: &qwen3::Config,
        parameters: u64,
        rows: usize,
        positions: usize,
        widths: Widths,
    ) -> Self {
        /// A prompt is read in pieces of about this many tokens.
        const PIECE: usize = 512;
        let shape = Layers {
            hidden: config.hidden_size,
            intermediate: config.intermediate_size,
            heads: config.num_attention_heads * config.head_dim,
        };
        let keys = config.num_key_value_heads * config.head_dim;
        let one = product(&[keys, positions, rows]) * widths.number;
        let scores = product(&[config.vocab_size, rows]) * 4;
        Self {
            stage: Stage::LmCodes,
            weights: widths.weights(parameters),
            work: shape.work(PIECE.min(positions), widths.number) + 2 * scores,
            cache: 2 * config.num_hidden_layers as u64 * one,
            largest: widths.weights(table(config)).max(one),
        }
    }

    /// Computes the needs of a language model that scores songs, with at most `positions` tokens of
    /// prompt and answer.
    pub fn judge(
        config: &qwen3::Config,
        parameters: u64,
        positions: usize,
        widths: Widths,
    ) -> Self {
        let reader = Self::language_model(config, parameters, 1, positions, widths);
        let scores = product(&[config.vocab_size, SCORED_AT_ONCE]) * 4;
        Self { stage: Stage::Score, work: reader.work + 2 * scores, ..reader }
    }

    /// Computes the needs of the VAE encoder for `frames` frames, `tiling.chunk` of them at a time.
    pub fn vae_encoder(
        config: &oobleck::Config,
        parameters: u64,
        frames: usize,
        tiling: Tiling,
        widths: Widths,
    ) -> Self {
        // The first stage is the widest: every sample with the encoder's first width.
        let samples = tiling.chunk.min(frames) * config.hop();
        let widest = product(&[config.encoder_hidden_size, samples]) * widths.number;
        let sound = product(&[config.audio_channels, frames * config.hop()]) * 4;
        Self {
            stage: Stage::VaeEncoder,
            weights: widths.weights_of_others(parameters),
            // Mirrors the decoder; the sound is stored in one piece.
            work: 4 * widest + sound,
            cache: 0,
            largest: (2 * widest).max(sound),
        }
    }

    /// Computes the needs of the VAE decoder for `batch` songs of `frames`, `tiling.chunk` at a
    /// time.
    pub fn vae(
        config: &oobleck::Config,
        parameters: u64,
        batch: usize,
        frames: usize,
        tiling: Tiling,
        widths: Widths,
    ) -> Self {
        // The last stage is the widest: every sample with the decoder's last width.
        let samples = tiling.chunk.min(frames) * config.hop();
        let widest = product(&[config.decoder_channels, samples, batch]) * widths.number;
        let sound = product(&[config.audio_channels, frames * config.hop(), batch]) * 4;
        Self {
            stage: Stage::Vae,
            weights: widths.weights_of_others(parameters),
            // Input, sum, and two temporaries; then the sound in tiles and in one piece.
            work: 4 * widest + 2 * sound,
            cache: 0,
            // A transposed convolution's products before their sum.
            largest: (2 * widest).max(sound),
        }
    }
}

/// A stack of transformer layers.
struct Layers {
    hidden: usize,
    intermediate: usize,
    heads: usize,
}

impl Layers {
    fn of(config: &acestep::Config, hidden: Option<usize>, intermediate: Option<usize>) -> Self {
        Self {
            hidden: hidden.unwrap_or(config.hidden_size),
            intermediate: intermediate.unwrap_or(config.intermediate_size),
            heads: config.num_attention_heads * config.head_dim,
        }
    }

    /// Returns the bytes of residual stream, its norm, queries, keys, values and their product, or
    /// of the feed-forward block's gate, value and product.
    fn work(&self, positions: usize, bytes: u64) -> u64 {
        let attention = 4 * self.hidden + 4 * self.heads;
        let feed_forward = 3 * self.hidden + 3 * self.intermediate;
        product(&[positions, attention.max(feed_forward)]) * bytes
    }

    /// Returns the largest tensor: a weight matrix or an activation.
    fn widest(&self, positions: usize, bytes: u64) -> u64 {
        product(&[self.intermediate, self.hidden.max(positions)]) * bytes
    }
}

fn table(config: &qwen3::Config) -> u64 {
    product(&[config.vocab_size, config.hidden_size])
}

fn product(sizes: &[usize]) -> u64 {
    sizes.iter().map(|&size| size as u64).product()
}

/// Returns the peak memory. Networks are loaded one at a time, or `kept` after their stage. The
/// language model is freed before the song's networks are loaded, and is loaded again after them.
pub fn peak(needs: &[MemoryNeed], kept: bool) -> u64 {
    if !kept {
        return needs.iter().map(MemoryNeed::total).max().unwrap_or(0);
    }
    let is_language = |stage| matches!(stage, Stage::LmText | Stage::LmCodes | Stage::Score);
    let (language, song): (Vec<&MemoryNeed>, Vec<&MemoryNeed>) =
        needs.iter().partition(|need| is_language(need.stage));
    // Both stages use the same network, whose weights count once.
    let networks = song.iter().filter(|need| need.stage != Stage::Alignment);
    let weights: u64 = networks.map(|need| need.weights).sum();
    let work = song.iter().map(|need| need.work + need.cache).max().unwrap_or(0);
    let alone = language.iter().map(|need| need.total()).max().unwrap_or(0);
    (weights + work).max(alone)
}

/// Returns the largest tiling, at most `largest` and halved as often as needed, with which the VAE
/// fits into `room` for `frames` frames; the smallest one if none fits. `need` is [`MemoryNeed::vae`] or
/// [`MemoryNeed::vae_encoder`] for a tiling.
pub fn tiling(
    largest: Tiling,
    frames: usize,
    room: &MemoryInfo,
    others: u64,
    need: impl Fn(Tiling) -> MemoryNeed,
) -> Tiling {
    let mut tiling = largest;
    let fits = |tiling: Tiling| {
        let need = need(tiling);
        room.free.is_none_or(|free| others + need.total() <= usable(free))
            && room.largest.is_none_or(|largest| need.largest <= largest)
    };
    while !fits(tiling) {
        match tiling.smaller(frames) {
            Some(smaller) => tiling = smaller,
            None => break,
        }
    }
    tiling
}

/// Returns the usable part of free memory: the backend keeps freed pages and allocates in steps.
pub(crate) fn usable(free: u64) -> u64 {
    free / 10 * 9
}

/// Returns an error if the needs cannot fit.
///
/// Free memory is the limit if the device reports it. Without a GPU, the limit is all memory
/// including swap space, and only weights count.
///
/// # Errors
/// [`Error::OutOfMemory`], [`Error::TensorTooLarge`]
pub fn check(
    needs: &[MemoryNeed],
    kept: bool,
    room: &MemoryInfo,
    device: &str,
) -> Result<(), Error> {
    if let Some(most) = room.largest
        && let Some(need) = needs.iter().find(|need| need.largest > most)
    {
        return Err(Error::TensorTooLarge {
            stage: need.stage.name().into(),
            needed: need.largest,
            most,
            device: device.into(),
        });
    }
    let stage = needs.iter().max_by_key(|need| need.total()).map(|need| need.stage.name());
    let refuse = |needed, free| {
        Err(Error::OutOfMemory {
            stage: stage.unwrap_or_default().into(),
            needed,
            free,
            device: device.into(),
        })
    };
    let needed = peak(needs, kept);
    match (room.free, room.total) {
        (Some(free), _) if needed > usable(free) => refuse(needed, free),
        (None, Some(total)) => {
            let weights = |need: &MemoryNeed| MemoryNeed { work: 0, ..*need };
            let alone: Vec<_> = needs.iter().map(weights).collect();
            let needed = peak(&alone, kept);
            if needed > total { refuse(needed, total) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Widths = Widths { weight: DType::BF16, number: 2 };

    fn need(stage: Stage, weights: u64, work: u64) -> MemoryNeed {
        MemoryNeed { stage, weights, work, cache: 0, largest: weights }
    }

    /// The released VAE.
    fn vae() -> oobleck::Config {
        let text = r#"{
            "audio_channels": 2, "encoder_hidden_size": 128, "decoder_channels": 128,
            "decoder_input_channels": 64, "channel_multiples": [1, 2, 4, 8, 16],
            "downsampling_ratios": [2, 4, 4, 6, 10], "sampling_rate": 48000
        }"#;
        oobleck::Config::from_json(text).expect("a configuration")
    }

    #[test]
    fn the_vae_needs_what_its_last_stage_holds() {
        let tiling = Tiling { chunk: 100, overlap: 16 };
        let need = MemoryNeed::vae(&vae(), 10, 2, 1000, tiling, HALF);
        let widest = 128 * 100 * 1920 * 2 * 2;
        let sound = 2 * 1000 * 1920 * 2 * 4;
        assert_eq!(need.work, 4 * widest + 2 * sound);
        assert_eq!((need.weights, need.largest), (20, 2 * widest));
        // A song shorter than a tile needs only memory for its own length.
        let short = MemoryNeed::vae(&vae(), 10, 1, 50, tiling, Widths::all(DType::F32));
        assert_eq!(short.largest, 2 * 128 * 50 * 1920 * 4);
    }

    /// 30 s per tile; a song of a minute and a half takes three tiles.
    #[test]
    fn the_encoder_of_the_vae_needs_what_its_first_stage_holds() {
        let need =
            MemoryNeed::vae_encoder(&vae(), 10, 2250, Tiling::ENCODE, Widths::all(DType::F32));
        let (widest, sound) = (128 * 750 * 1920 * 4, 2 * 2250 * 1920 * 4);
        assert_eq!(need.work, 4 * widest + sound);
        assert_eq!((need.weights, need.largest), (40, 2 * widest));
    }

    /// Ten minutes: 7500 patches, 300 tokens, three heads of two layers; a map is 9 MB.
    #[test]
    fn alignment_needs_pictures_twice_and_the_stream_of_every_layer_it_goes_through() {
        let text =
            include_str!("../../../tests/goldens/checkpoints_a/acestep-v15-turbo/config.json");
        let config = acestep::Config::from_json(text).expect("a configuration");
        let heads = [Heads { layer: 1, heads: vec![0] }, Heads { layer: 2, heads: vec![1, 2] }];
        let need = MemoryNeed::alignment(&config, 10, &heads, 15_000, 300, Widths::all(DType::F32));
        let song = MemoryNeed::diffusion(&config, 10, 1, 15_000, 300, Widths::all(DType::F32));
        let streams = 3 * 7500 * config.hidden_size as u64 * 4;
        assert_eq!(need.work, song.work + streams + 8 * 9_000_000);
        assert_eq!((need.weights, need.cache), (song.weights, song.cache));
        assert_eq!(need.largest, song.largest.max(18_000_000));
        // One network; the language model is not loaded at the same time.
        let judge = MemoryNeed { stage: Stage::Score, weights: 1, ..song };
        assert_eq!(peak(&[song, need, judge], true), need.total());
    }

    #[test]
    fn tiles_are_halved_until_they_fit() {
        let choose = |room: MemoryInfo| {
            let need =
                |tiling| MemoryNeed::vae(&vae(), 0, 1, 6000, tiling, Widths::all(DType::F32));
            tiling(Tiling::default(), 6000, &room, 0, need)
        };
        assert_eq!(choose(MemoryInfo::default()), Tiling::default());
        let free =
            |gigabytes: u64| MemoryInfo { free: Some(gigabytes << 30), ..MemoryInfo::default() };
        assert_eq!(choose(free(16)), Tiling::default());
        assert_eq!(choose(free(2)), Tiling { chunk: 256, overlap: 64 });
        // lavapipe: no tensor above 128 MiB.
        let room = MemoryInfo { largest: Some(128 << 20), ..MemoryInfo::default() };
        assert_eq!(choose(room), Tiling { chunk: 64, overlap: 16 });
        // Even if nothing fits, tiles keep an overlap.
        assert_eq!(choose(MemoryInfo { free: Some(0), ..room }), Tiling { chunk: 64, overlap: 16 });
    }

    #[test]
    fn the_peak_is_the_largest_stage_or_all_networks_that_are_kept() {
        let needs = [
            need(Stage::LmCodes, 100, 1),
            need(Stage::TextEncoder, 10, 1),
            need(Stage::Diffusion, 50, 7),
            need(Stage::Vae, 5, 30),
        ];
        assert_eq!(peak(&needs, false), 101);
        assert_eq!(peak(&needs[1..], false), 57);
        assert_eq!(peak(&needs[1..], true), 65 + 30);
        assert_eq!(peak(&needs, true), 101);
    }

    #[test]
    fn what_cannot_fit_is_refused_with_what_is_needed_and_what_there_is() {
        let needs = [need(Stage::Diffusion, 50, 7), need(Stage::Vae, 5, 30)];
        let refused = |room: MemoryInfo, kept| match check(&needs, kept, &room, "cuda:0") {
            Err(Error::OutOfMemory { stage, needed, free, .. }) => Some((stage, needed, free)),
            Err(other) => panic!("{other}"),
            Ok(()) => None,
        };
        let free = |free| MemoryInfo { free: Some(free), ..MemoryInfo::default() };
        assert_eq!(refused(free(70), false), None);
        assert_eq!(refused(free(60), false), Some(("diffusion".into(), 57, 60)));
        assert_eq!(refused(free(70), true), Some(("diffusion".into(), 85, 70)));
        // Free memory of a CPU is not queried, and work memory can be swapped to disk.
        let total = |total| MemoryInfo { total: Some(total), ..MemoryInfo::default() };
        assert_eq!(refused(total(50), false), None);
        assert_eq!(refused(total(49), false), Some(("diffusion".into(), 50, 49)));
        assert_eq!(refused(MemoryInfo::default(), true), None);
        let room = MemoryInfo { largest: Some(49), ..MemoryInfo::default() };
        let error = check(&needs, false, &room, "wgpu:0").expect_err("too large");
        assert!(
            error.to_string().starts_with("the diffusion stage needs a tensor of 50 B"),
            "{error}"
        );
    }

    #[test]
    fn eight_bits_have_a_scale_for_each_32_in_the_two_networks_that_keep_them() {
        assert_eq!(bytes_of_weights(3200, DType::I8), 3200 + 100 * 4);
        let widths = Widths { weight: DType::I8, number: 4 };
        let tiling = Tiling { chunk: 100, overlap: 16 };
        assert_eq!(MemoryNeed::vae(&vae(), 3200, 1, 50, tiling, widths).weights, 6400);
        let text =
            include_str!("../../../tests/goldens/checkpoints_a/acestep-v15-turbo/config.json");
        let config = acestep::Config::from_json(text).expect("a configuration");
        assert_eq!(MemoryNeed::diffusion(&config, 3200, 1, 100, 10, widths).weights, 3600);
        assert_eq!(MemoryNeed::conditioner(&config, 3200, 10, widths).weights, 6400);
    }

    /// Layers, heads and widths of the released 0.6B model.
    #[test]
    fn a_cache_is_keys_and_values_of_every_layer() {
        let text = r#"{
            "vocab_size": 217204, "hidden_size": 1024, "intermediate_size": 3072,
            "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
            "head_dim": 128, "rope_theta": 1000000, "rms_norm_eps": 1e-6,
            "tie_word_embeddings": true
        }"#;
        let config = qwen3::Config::from_json(text).expect("a configuration");
        let need = MemoryNeed::language_model(&config, 0, 2, 1000, HALF);
        assert_eq!(need.cache, 2 * 28 * 8 * 128 * 1000 * 2 * 2);
        assert_eq!(need.largest, 217_204 * 1024 * 2);
    }
}
