use super::*;
use crate::test_goldens::golden_f32;

const GOLDEN_SEEDS: [u64; 3] = [0, 42, 1_234_567_890_123];

/// Goldens: `torch.rand` with a CPU generator.
#[test]
fn uniforms_equal_torch_on_the_cpu_bit_for_bit() {
    for seed in GOLDEN_SEEDS {
        let golden = golden_f32("rng/rng.safetensors", &format!("rand.seed{seed}.n32"));
        assert_eq!(mt19937_uniforms(seed, 32), golden, "seed {seed}");
    }
}

/// Goldens: `torch.randn` with a CPU generator. Below 16 elements it computes in f64 and every
/// bit is equal. From 16 on it uses f32 polynomials for logarithm, sine and cosine, while ours
/// are rounded from f64. Measured difference: at most 2 units in the last place.
#[test]
fn mt19937_noise_equals_torch_on_the_cpu() {
    for seed in GOLDEN_SEEDS {
        for n in [5usize, 15, 16, 17, 100, 1600] {
            let golden = golden_f32("rng/rng.safetensors", &format!("randn.seed{seed}.n{n}"));
            let ours = NoiseSource::Mt19937.initial_noise(seed, n, 1);
            assert_eq!(ours.len(), golden.len());
            let steps = |(a, b): (&f32, &f32)| a.to_bits().abs_diff(b.to_bits());
            let worst = ours.iter().zip(&golden).map(steps).max();
            assert!(worst <= Some(if n < BLOCK { 0 } else { 2 }), "seed {seed}, n {n}: {worst:?}");
        }
    }
}

/// Random123's known-answer test for philox4x32-10 (`kat_vectors`).
#[test]
fn philox_gives_the_published_answers() {
    assert_eq!(philox4x32_10([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(
        philox4x32_10([u32::MAX; 4], [u32::MAX; 2]),
        [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
    );
}

/// Values that acestep.cpp prints next to PyTorch's on a GPU: seed 42, `[2170, 64]`, bf16.
#[test]
fn philox_noise_of_seed_42_begins_as_on_the_gpu() {
    let noise = NoiseSource::default().initial_noise(42, 2170, 64);
    let printed: Vec<String> = noise[..4].iter().map(|x| format!("{x:.6}")).collect();
    assert_eq!(printed, ["0.194336", "2.156250", "-0.171875", "0.847656"]);
}

#[test]
fn a_song_that_fits_into_the_threads_does_not_depend_on_their_number() {
    let free = NoiseSource::default().initial_noise(7, 100, 64);
    let h100 = NoiseSource::Philox { threads: Some(270_336) }.initial_noise(7, 100, 64);
    assert_eq!(free, h100);
}

/// With G threads, element G is the second component of thread 0, element 4 G its second draw.
#[test]
fn a_longer_song_takes_other_components_and_counters() {
    let few = philox_normals_of(7, 1100, Some(256), 0);
    let free = philox_normals_of(7, 1100, None, 0);
    assert_eq!(few[..256], free[..256]);
    assert_ne!(few[256..], free[256..]);
    let bits = philox4x32_10([0, 0, 0, 0], [7, 0]);
    let rounded = |x: f32| bf16::from_f32(x).to_f32();
    assert_eq!(few[256], rounded(box_muller_pair(bits[0], bits[1])[1]));
    assert_eq!(few[512], rounded(box_muller_pair(bits[2], bits[3])[0]));
    assert_eq!(few[768], rounded(box_muller_pair(bits[2], bits[3])[1]));
    let second = philox4x32_10([1, 0, 5, 0], [7, 0]);
    assert_eq!(few[1029], rounded(box_muller_pair(second[0], second[1])[0]));
}

#[test]
fn the_high_half_of_a_seed_counts_for_philox_only() {
    let (low, high) = (5, 5 | 1 << 40);
    let draw = |source: NoiseSource, seed| source.initial_noise(seed, 4, 8);
    assert_ne!(draw(NoiseSource::default(), low), draw(NoiseSource::default(), high));
    assert_eq!(draw(NoiseSource::Mt19937, low), draw(NoiseSource::Mt19937, high));
}

#[test]
fn noise_has_mean_zero_and_variance_one() {
    for source in [NoiseSource::default(), NoiseSource::Mt19937] {
        let noise = source.initial_noise(3, 1000, 64);
        let n = noise.len() as f64;
        let mean = noise.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let variance = noise.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / n;
        assert!(mean.abs() < 0.012 && (variance - 1.0).abs() < 0.025, "{mean} {variance}");
    }
}

#[test]
fn step_noise_is_the_initial_noise_of_the_following_seeds() {
    let source = NoiseSource::default();
    assert_eq!(source.step_noise(10, 0, 3, 4), source.initial_noise(11, 3, 4));
    assert_eq!(source.step_noise(u64::MAX, 1, 3, 4), source.initial_noise(1, 3, 4));
}

#[test]
fn names_are_read_back_as_they_are_printed() {
    for name in ["philox", "philox:270336", "mt19937"] {
        assert_eq!(name.parse::<NoiseSource>().expect("a name").to_string(), name);
    }
    for name in ["", "philox:", "philox:0", "philox:-1", "mt", "mt19937:4", "Philox"] {
        assert!(name.parse::<NoiseSource>().is_err(), "{name}");
    }
}
