//! Memory needs of a request by stage, and available memory: computed before anything is loaded.
//!
//! Weights and caches are exact. Work memory is an estimate: the tensors that are alive at a
//! stage's widest point, with attention that stores no score matrix.

use acestep_model::{Backend, Place};
use burn::tensor::DType;

use super::{Device, Listing, dtype::of_others};
use crate::{Error, progress::Stage, tiling::Tiling};

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
    /// The lifetime of the weights if networks are kept.
    pub lifetime: Lifetime,
}

/// The lifetime of a stage's weights if networks are kept in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Until the end of the run.
    Run,
    /// An earlier stage loads the same network, which counts once.
    Shared,
    /// Only this stage: no other network is in memory meanwhile.
    Stage,
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
    /// subtracted, because they are part of the needs that it is compared with. Memory of a CPU is not queried.
    pub fn of(device: Device) -> Self {
        match device {
            Device::Cpu => Self::default(),
            Device::Cuda(index) => {
                let cuda = Listing::of(device).cuda.unwrap_or_default();
                let free = cuda.gpus.get(index).map(|gpu| gpu.free_bytes);
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

    /// Returns the bytes of weights that may be int8.
    pub fn weights(self, count: u64) -> u64 {
        bytes_of_weights(count, self.weight)
    }

    /// Returns the bytes of `count` weights that may be int8, except `tables` of them: tables whose rows are
    /// only looked up keep the type of other weights. Of tables `in_place`, in their file, few rows are read.
    pub fn weights_and_tables(self, count: u64, tables: u64, in_place: bool) -> u64 {
        let read = if in_place { 0 } else { tables };
        self.weights(count.saturating_sub(tables)) + self.weights_of_others(read)
    }

    /// Returns the bytes of other weights: see [`of_others`].
    pub fn weights_of_others(self, count: u64) -> u64 {
        bytes_of_weights(count, of_others(self.weight))
    }
}

impl MemoryNeed {
    /// Returns the sum of weights, work and cache.
    pub fn total(&self) -> u64 {
        self.weights + self.work + self.cache
    }
}

/// The sizes of a stack of transformer layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerSizes {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward block.
    pub intermediate: usize,
    /// Width of all queries.
    pub heads: usize,
}

impl LayerSizes {
    /// Returns the bytes of residual stream, its norm, queries, keys, values and their product, or
    /// of the feed-forward block's gate, value and product.
    pub fn work(&self, positions: usize, bytes: u64) -> u64 {
        let attention = 4 * self.hidden + 4 * self.heads;
        let feed_forward = 3 * self.hidden + 3 * self.intermediate;
        product(&[positions, attention.max(feed_forward)]) * bytes
    }

    /// Returns the largest tensor: a weight matrix or an activation.
    pub fn widest(&self, positions: usize, bytes: u64) -> u64 {
        product(&[self.intermediate, self.hidden.max(positions)]) * bytes
    }
}

/// Returns the product of sizes.
pub fn product(sizes: &[usize]) -> u64 {
    sizes.iter().map(|&size| size as u64).product()
}

/// Returns the peak memory. Networks are loaded one at a time, or `kept` for their [`Lifetime`].
pub fn peak(needs: &[MemoryNeed], kept: bool) -> u64 {
    if !kept {
        return needs.iter().map(MemoryNeed::total).max().unwrap_or(0);
    }
    let (alone, together): (Vec<&MemoryNeed>, Vec<&MemoryNeed>) =
        needs.iter().partition(|need| need.lifetime == Lifetime::Stage);
    let networks = together.iter().filter(|need| need.lifetime == Lifetime::Run);
    let weights: u64 = networks.map(|need| need.weights).sum();
    let work = together.iter().map(|need| need.work + need.cache).max().unwrap_or(0);
    let alone = alone.iter().map(|need| need.total()).max().unwrap_or(0);
    (weights + work).max(alone)
}

/// Changes `needs` for a run whose network of [`Lifetime::Stage`] stays in memory too. If no stage uses one,
/// another one of `resident` bytes is there.
pub fn keep_all(needs: &mut [MemoryNeed], resident: u64) {
    let mut lifetime = Lifetime::Run;
    for need in needs.iter_mut().filter(|need| need.lifetime == Lifetime::Stage) {
        need.lifetime = lifetime;
        lifetime = Lifetime::Shared;
    }
    if lifetime == Lifetime::Run
        && let Some(need) = needs.iter_mut().find(|need| need.lifetime == Lifetime::Run)
    {
        need.weights += resident;
    }
}

/// Returns the largest tiling, at most `largest` and halved as often as needed, with which a
/// stage fits into `room` for `frames` frames; the smallest one if none fits. `need` returns the
/// needs of the stage for a tiling.
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
pub fn usable(free: u64) -> u64 {
    free / 10 * 9
}

/// Returns an error if the needs cannot fit.
///
/// Free memory is the limit if the device reports it. Without a GPU, the limit is all memory
/// including swap space, and work memory does not count.
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
            stage: need.stage.name.into(),
            needed: need.largest,
            most,
            device: device.into(),
        });
    }
    let stage = needs.iter().max_by_key(|need| need.total()).map(|need| need.stage.name);
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
    use crate::progress::Unit;

    fn need(name: &'static str, weights: u64, work: u64) -> MemoryNeed {
        let stage = Stage { name, unit: Unit::Step };
        MemoryNeed { stage, weights, work, cache: 0, largest: weights, lifetime: Lifetime::Run }
    }

    #[test]
    fn the_peak_is_the_largest_stage_or_all_networks_that_are_kept() {
        let needs = [
            MemoryNeed { lifetime: Lifetime::Stage, ..need("codes", 100, 1) },
            need("text encoder", 10, 1),
            need("diffusion", 50, 7),
            need("VAE", 5, 30),
        ];
        assert_eq!(peak(&needs, false), 101);
        assert_eq!(peak(&needs[1..], false), 57);
        assert_eq!(peak(&needs[1..], true), 65 + 30);
        assert_eq!(peak(&needs, true), 101);
        // The network of the codes stays, or another one of 100 bytes.
        let mut all = [needs[0], needs[0], needs[1], needs[2], needs[3]];
        keep_all(&mut all, 7);
        assert_eq!(peak(&all, true), 100 + 65 + 30);
        keep_all(&mut all[2..], 100);
        assert_eq!(peak(&all[2..], true), 100 + 65 + 30);
        let shared = MemoryNeed { lifetime: Lifetime::Shared, ..need("alignment", 50, 40) };
        assert_eq!(peak(&[needs[2], shared], true), 50 + 40);
    }

    #[test]
    fn what_cannot_fit_is_refused_with_what_is_needed_and_what_there_is() {
        let needs = [need("diffusion", 50, 7), need("VAE", 5, 30)];
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
}
