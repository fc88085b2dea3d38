//! Initial noise, drawn on the host so that a seed gives the same song on every device.
//!
//! Two generators of PyTorch are reproduced:
//! - Philox4x32-10 as `torch.randn(.., device="cuda", dtype=bfloat16)` draws it: counter-based,
//!   one subsequence per GPU thread, Box-Muller, rounded to bf16.
//! - mt19937 as `torch.randn` draws f32 on the CPU, in blocks of 16.
//!
//! Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"; ATen
//! `DistributionTemplates.h` (CPU and CUDA) and cuRAND's `curand_normal4`.

mod stream;

use std::{f64::consts::TAU, str::FromStr};

use acestep_engine::{Error, nearest, sampling::uniform53};
use half::bf16;
use rand_mt::Mt;
pub use stream::NoiseStream;

/// The generator of the noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoiseSource {
    /// As PyTorch on an NVIDIA GPU, rounded to bf16.
    Philox {
        /// Maximum number of threads that PyTorch starts, a property of the GPU. Elements beyond it
        /// come from other counters. `None` = as many threads as elements, so the song does not
        /// depend on a GPU; it equals every GPU's noise up to that GPU's number of threads.
        threads: Option<u64>,
    },
    /// As PyTorch on a CPU in f32, from the low 32 bits of the seed.
    Mt19937,
}

impl Default for NoiseSource {
    fn default() -> Self {
        Self::Philox { threads: None }
    }
}

impl NoiseSource {
    /// Returns the noise at the start of a song, row-major.
    ///
    /// # Shapes
    /// output: `[frames, channels]`
    pub fn initial_noise(&self, seed: u64, frames: usize, channels: usize) -> Vec<f32> {
        match *self {
            Self::Philox { threads } => philox_normals_of(seed, frames * channels, threads, 0),
            Self::Mt19937 => mt19937_normals_of(&mut Mt::new(seed as u32), frames * channels),
        }
    }

    /// Returns the noise that an SDE adds after a step: the initial noise of `seed + step + 1`.
    ///
    /// Upstream draws it unseeded; this rule is from acestep.cpp.
    ///
    /// # Shapes
    /// output: `[frames, channels]`
    pub fn step_noise(&self, seed: u64, step: usize, frames: usize, channels: usize) -> Vec<f32> {
        self.initial_noise(seed.wrapping_add(step as u64).wrapping_add(1), frames, channels)
    }
}

impl serde::Serialize for NoiseSource {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl std::fmt::Display for NoiseSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Philox { threads: None } => f.write_str("philox"),
            Self::Philox { threads: Some(threads) } => write!(f, "philox:{threads}"),
            Self::Mt19937 => f.write_str("mt19937"),
        }
    }
}

impl FromStr for NoiseSource {
    type Err = Error;

    /// Reads `philox`, `philox:THREADS` or `mt19937`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::BadValue {
            field: "rng",
            value: acestep_engine::error::shortened(text),
            why: "use philox, philox:THREADS (H100: philox:270336) or mt19937".into(),
            near: nearest(text, ["philox", "mt19937"]).map(str::to_owned),
        };
        match text.split_once(':') {
            None if text == "philox" => Ok(Self::Philox { threads: None }),
            None if text == "mt19937" => Ok(Self::Mt19937),
            Some(("philox", threads)) => match threads.parse() {
                Ok(threads) if threads > 0 => Ok(Self::Philox { threads: Some(threads) }),
                _ => Err(bad()),
            },
            _ => Err(bad()),
        }
    }
}

/// Ten rounds of Philox4x32.
fn philox4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    let wide_product = |a: u32, b: u32| {
        let product = u64::from(a) * u64::from(b);
        ((product >> 32) as u32, product as u32)
    };
    for _ in 0..10 {
        let (hi0, lo0) = wide_product(0xD251_1F53, counter[0]);
        let (hi1, lo1) = wide_product(0xCD9E_8D57, counter[2]);
        counter = [hi1 ^ counter[1] ^ key[0], lo1, hi0 ^ counter[3] ^ key[1], lo0];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

/// Box-Muller as `curand_normal4`: two uniforms give `s sin v` and `s cos v`.
///
/// The uniforms are rounded to f32 as on the GPU. Logarithm and sine are computed in f64, because
/// libraries differ in the last bit of theirs, and the result is rounded to bf16 anyway.
fn box_muller_pair(x: u32, y: u32) -> [f32; 2] {
    const INVERSE: f32 = 2.328_306_4e-10; // 2^-32
    const INVERSE_TAU: f32 = INVERSE * 6.283_185_5;
    // Fused multiply-add with one rounding, as nvcc emits it.
    let uniform = |bits: u32, scale: f32| {
        (f64::from(bits as f32) * f64::from(scale) + f64::from(scale / 2.0)) as f32
    };
    let radius = (-2.0 * f64::from(uniform(x, INVERSE)).ln()).sqrt();
    let (sin, cos) = f64::from(uniform(y, INVERSE_TAU)).sin_cos();
    [(radius * sin) as f32, (radius * cos) as f32]
}

/// PyTorch's grid-stride loop, unrolled by four: thread `k` of `G` writes component `i` of its
/// `j`-th draw to element `4 G j + G i + k`. Each thread has already made `draws` draws.
fn philox_normals_of(seed: u64, n: usize, threads: Option<u64>, draws: u64) -> Vec<f32> {
    let key = [seed as u32, (seed >> 32) as u32];
    let threads = threads.unwrap_or(n as u64).max(1);
    let element = |e: u64| {
        let (draw, rest) = (e / (4 * threads), e % (4 * threads));
        let (component, thread) = (rest / threads, rest % threads);
        let draw = draw + draws;
        let counter = [draw as u32, (draw >> 32) as u32, thread as u32, (thread >> 32) as u32];
        let bits = philox4x32_10(counter, key);
        let normals = match component {
            0 | 1 => box_muller_pair(bits[0], bits[1]),
            _ => box_muller_pair(bits[2], bits[3]),
        };
        bf16::from_f32(normals[(component % 2) as usize]).to_f32()
    };
    (0..n as u64).map(element).collect()
}

/// Elements per block of ATen's vectorised fill.
const BLOCK: usize = 16;

fn mt19937_normals_of(generator: &mut Mt, n: usize) -> Vec<f32> {
    if n < BLOCK {
        return scalar_normals(generator, n);
    }
    let mut data: Vec<f32> = (0..n).map(|_| uniform24(generator)).collect();
    let whole = n - n % BLOCK;
    data[..whole].chunks_exact_mut(BLOCK).for_each(fill_block);
    if whole < n {
        // ATen redraws the last 16 elements, over those of the previous block.
        let tail = &mut data[n - BLOCK..];
        tail.iter_mut().for_each(|value| *value = uniform24(generator));
        fill_block(tail);
    }
    data
}

/// Returns uniform numbers in `[0, 1)` as `torch.rand` draws them in f32 on a CPU.
pub fn mt19937_uniforms(seed: u64, count: usize) -> Vec<f32> {
    let mut generator = Mt::new(seed as u32);
    (0..count).map(|_| uniform24(&mut generator)).collect()
}

/// Draws a 24-bit uniform number in `[0, 1)`, as `torch.rand` in f32.
fn uniform24(generator: &mut Mt) -> f32 {
    (generator.next_u32() & 0xFF_FFFF) as f32 / (1 << 24) as f32
}

/// Converts 16 uniforms to normals: the first eight are radii, the last eight angles.
fn fill_block(block: &mut [f32]) {
    let (radii, angles) = block.split_at_mut(BLOCK / 2);
    for (first, second) in radii.iter_mut().zip(angles) {
        // 1 - u avoids the logarithm of zero.
        let radius = (-2.0 * f64::from(1.0 - *first).ln()).sqrt();
        // ATen multiplies in f32.
        let angle = f64::from(TAU as f32 * *second);
        (*first, *second) = ((radius * angle.cos()) as f32, (radius * angle.sin()) as f32);
    }
}

/// ATen's scalar path for fewer than 16 elements: f64 with 53-bit uniforms.
fn scalar_normals(generator: &mut Mt, n: usize) -> Vec<f32> {
    let mut uniform53 = || uniform53(generator.next_u32(), generator.next_u32());
    let mut normals = Vec::with_capacity(n + 1);
    while normals.len() < n {
        let (angle, radius) = (TAU * uniform53(), (-2.0 * (-uniform53()).ln_1p()).sqrt());
        normals.extend([(radius * angle.cos()) as f32, (radius * angle.sin()) as f32]);
    }
    normals.truncate(n);
    normals
}

#[cfg(test)]
mod tests;
