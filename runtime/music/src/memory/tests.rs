use acestep_engine::{
    Device,
    device::memory::{self, MemoryInfo, bytes_of_weights},
};
use burn::tensor::DType;

use super::*;

const HALF: Widths = Widths { weight: DType::BF16, number: 2 };
const WIDE: Widths = Widths { weight: DType::F32, number: 4 };
const GPU: Device = Device::Cuda(0);

/// The released VAE.
fn vae_config() -> oobleck::Config {
    let text = r#"{
        "audio_channels": 2, "encoder_hidden_size": 128, "decoder_channels": 128,
        "decoder_input_channels": 64, "channel_multiples": [1, 2, 4, 8, 16],
        "downsampling_ratios": [2, 4, 4, 6, 10], "sampling_rate": 48000
    }"#;
    oobleck::Config::from_json(text).expect("a configuration")
}

/// The tiny diffusion model.
fn turbo_config() -> acestep::Config {
    let text =
        include_str!("../../../../tests/goldens/checkpoints_a/acestep-v15-turbo/config.json");
    acestep::Config::from_json(text).expect("a configuration")
}

#[test]
fn the_vae_needs_what_its_last_stage_holds() {
    let tiling = Tiling { chunk: 100, overlap: 16 };
    let need = super::vae(&vae_config(), 10, 2, 1000, tiling, GPU, HALF);
    // Cores of 68 frames, and nine on each side.
    let widest = 128 * 86 * 1920 * 2 * 2;
    let sound = 2 * 1000 * 1920 * 2 * 4;
    assert_eq!(need.work, 4 * widest + 2 * sound);
    assert_eq!((need.weights, need.largest), (20, 2 * widest));
    // A song shorter than a tile needs only memory for its own length.
    let short = super::vae(&vae_config(), 10, 1, 50, tiling, GPU, WIDE);
    assert_eq!(short.largest, 2 * 128 * 50 * 1920 * 4);
}

/// 250 frames: 256 channels of 60,000 samples in two slices, with 16 more on each side, that become 128 channels of
/// eight times as many. In tiles, 402 frames: 96,480 samples in four slices. 2000 frames: 480,000 in 16.
#[test]
fn on_a_cpu_the_vae_needs_what_a_slice_holds_and_what_is_cut() {
    let work = |songs, frames, tiling| {
        super::vae(&vae_config(), 10, songs, frames, tiling, Device::Cpu, WIDE).work
    };
    let sounds = |frames: u64| 2 * 2 * frames * 1920 * 4;
    let short = 4 * (256 * 60_000 + 3 * 128 * 8 * 30_032) + sounds(250);
    assert_eq!(work(1, 250, Tiling::default()), short);
    assert_eq!(work(3, 250, Tiling::default()), 3 * short);
    let long = 4 * (256 * 96_480 + 3 * 128 * 8 * 24_152) + sounds(6000);
    assert_eq!(work(1, 6000, Tiling::default()), long);
    let whole = Tiling { chunk: 2000, overlap: 64 };
    assert_eq!(work(1, 2000, whole), 4 * 3 * 256 * 480_000 + sounds(2000));
}

/// Tiles of 650 frames, and seven on each side.
#[test]
fn the_encoder_of_the_vae_needs_what_its_first_stage_holds() {
    let need = |device| super::vae_encoder(&vae_config(), 10, 2250, Tiling::ENCODE, device, WIDE);
    let (widest, sound) = (128 * 664 * 1920 * 4, 2 * 2250 * 1920 * 4);
    assert_eq!(need(GPU).work, 4 * widest + sound);
    assert_eq!((need(GPU).weights, need(GPU).largest), (40, 2 * widest));
    assert_eq!(need(Device::Cpu).work, 2 * widest + 2 * sound);
}

/// Ten minutes: 7500 patches, 300 tokens, three heads of two layers; a map is 9 MB.
#[test]
fn alignment_needs_pictures_twice_and_the_stream_of_every_layer_it_goes_through() {
    let config = turbo_config();
    let heads = [Heads { layer: 1, heads: vec![0] }, Heads { layer: 2, heads: vec![1, 2] }];
    let need = super::alignment(&config, 10, &heads, 15_000, 300, WIDE);
    let song = super::diffusion(&config, 10, 1, 15_000, 300, WIDE);
    let streams = 3 * 7500 * config.hidden_size as u64 * 4;
    assert_eq!(need.work, song.work + streams + 8 * 9_000_000);
    assert_eq!((need.weights, need.cache), (song.weights, song.cache));
    assert_eq!(need.largest, song.largest.max(18_000_000));
    // One network; the language model is not loaded at the same time.
    let lifetime = Lifetime::Stage;
    let judge = MemoryNeed { stage: stage::SCORE, weights: 1, lifetime, ..song };
    assert_eq!(memory::peak(&[song, need, judge], true), need.total());
}

#[test]
fn tiles_are_halved_until_they_fit() {
    let choose = |room: MemoryInfo| {
        let need = |tiling| super::vae(&vae_config(), 0, 1, 6000, tiling, GPU, WIDE);
        memory::tiling(Tiling::default(), 6000, &room, 0, need)
    };
    assert_eq!(choose(MemoryInfo::default()), Tiling::default());
    let free = |gigabytes: u64| MemoryInfo { free: Some(gigabytes << 30), ..MemoryInfo::default() };
    assert_eq!(choose(free(16)), Tiling::default());
    assert_eq!(choose(free(2)), Tiling::default());
    assert_eq!(choose(free(1)), Tiling { chunk: 256, overlap: 64 });
    // lavapipe: no tensor above 128 MiB.
    let room = MemoryInfo { largest: Some(128 << 20), ..MemoryInfo::default() };
    assert_eq!(choose(room), Tiling { chunk: 64, overlap: 16 });
    // Even if nothing fits, tiles keep an overlap.
    assert_eq!(choose(MemoryInfo { free: Some(0), ..room }), Tiling { chunk: 64, overlap: 16 });
}

#[test]
fn int8_has_a_scale_for_each_32_in_the_two_networks_that_keep_it() {
    assert_eq!(bytes_of_weights(3200, DType::I8), 3200 + 100 * 4);
    let widths = Widths { weight: DType::I8, number: 4 };
    let tiling = Tiling { chunk: 100, overlap: 16 };
    assert_eq!(super::vae(&vae_config(), 3200, 1, 50, tiling, GPU, widths).weights, 6400);
    let config = turbo_config();
    assert_eq!(super::diffusion(&config, 3200, 1, 100, 10, widths).weights, 3600);
    assert_eq!(super::conditioner(&config, 3200, 10, widths).weights, 6400);
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
    let need = super::language_model(&config, 0, 2, 1000, HALF);
    assert_eq!(need.cache, 2 * 28 * 8 * 128 * 1000 * 2 * 2);
    assert_eq!(need.largest, 217_204 * 1024 * 2);
}
