//! The operations and shapes that are compared.
//!
//! Add a line to compare one more. A software driver runs `Quick` shapes in moments. `Edge` shapes
//! do not fill a vector, a cube or a tile, or fill them exactly. `Released` shapes are those of the
//! released networks, and only they are timed.

use acestep_model::kernel::Visibility::{Causal, Full, Window};

use super::operation::{
    Attention, Hidden,
    Operation::{self, *},
};

/// Purpose of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Quick,
    Edge,
    Released,
}
use Extent::{Edge, Quick, Released};

/// Attention without padding.
const fn seen(sizes: [usize; 6], visibility: acestep_model::kernel::Visibility) -> Operation {
    padded(sizes, visibility, Hidden::Nothing)
}

/// Attention with padding.
const fn padded(
    [batch, heads, kv_heads, queries, keys, width]: [usize; 6],
    visibility: acestep_model::kernel::Visibility,
    hidden: Hidden,
) -> Operation {
    Attend(Attention { batch, heads, kv_heads, queries, keys, width, visibility, hidden })
}

/// The sweep, in the order of the run.
#[rustfmt::skip]
pub(crate) const SWEEP: &[(Extent, Operation)] = &[
    // [rows, width]
    (Quick,    RmsNorm([3, 5])),
    (Quick,    RmsNorm([33, 128])),
    (Edge,     RmsNorm([1, 1])),
    (Edge,     RmsNorm([300, 96])),
    (Edge,     RmsNorm([2, 2560])),
    (Released, RmsNorm([2, 1024])),
    (Released, RmsNorm([1125, 2048])),
    (Released, RmsNorm([3000, 2560])),
    // [batch, length, width]
    (Quick,    AdaNorm([2, 7, 64])),
    (Edge,     AdaNorm([1, 1, 3])),
    (Edge,     AdaNorm([3, 65, 320])),
    (Released, AdaNorm([1, 1125, 2048])),
    (Released, AdaNorm([2, 1125, 2048])),
    (Released, AdaNorm([1, 3000, 2560])),
    // [batch, length, heads, width]; with length 1 each item of the batch has its own position
    (Quick,    NormRotate([2, 5, 3, 16])),
    (Quick,    NormRotate([2, 1, 4, 128])),
    (Edge,     NormRotate([1, 1, 1, 2])),
    (Edge,     NormRotate([3, 129, 5, 128])),
    (Released, NormRotate([2, 1, 16, 128])),
    (Released, NormRotate([1, 1125, 16, 128])),
    (Released, NormRotate([1, 3000, 32, 128])),
    // [rows, width]
    (Quick,    Swiglu([3, 5])),
    (Quick,    Swiglu([17, 96])),
    (Edge,     Swiglu([1, 1])),
    (Edge,     Swiglu([1025, 130])),
    (Released, Swiglu([2, 3072])),
    (Released, Swiglu([1125, 6144])),
    (Released, Swiglu([3000, 9728])),
    // [batch, channels, samples]
    (Quick,    Snake([2, 3, 17])),
    (Edge,     Snake([1, 1, 1])),
    (Edge,     Snake([2, 130, 1023])),
    (Released, Snake([1, 2048, 448])),
    (Released, Snake([1, 512, 26_880])),
    (Released, Snake([1, 128, 430_080])),
    // [batch, channels, samples]
    (Quick,    AddSnake([2, 3, 17])),
    (Edge,     AddSnake([1, 1, 1])),
    (Edge,     AddSnake([2, 130, 1023])),
    (Released, AddSnake([1, 1024, 4480])),
    (Released, AddSnake([1, 512, 26_880])),
    (Released, AddSnake([1, 128, 430_080])),
    // [batch, in, out, samples, stride], with filters of twice the stride as in the decoder
    (Quick,    ConvTranspose([1, 4, 3, 9, 2])),
    (Edge,     ConvTranspose([2, 5, 7, 1, 10])),
    (Edge,     ConvTranspose([1, 33, 17, 65, 6])),
    (Edge,     ConvTranspose([1, 64, 64, 130, 4])),
    (Edge,     ConvTranspose([1, 16, 16, 129, 3])),
    (Released, ConvTranspose([1, 2048, 1024, 64, 10])),
    (Released, ConvTranspose([1, 1024, 512, 640, 6])),
    (Released, ConvTranspose([1, 512, 256, 3840, 4])),
    (Released, ConvTranspose([1, 256, 128, 15_360, 4])),
    (Released, ConvTranspose([1, 128, 128, 61_440, 2])),
    // [batch, in, out, samples, taps, dilation], with padding that keeps the length
    (Edge,     Conv([1, 3, 5, 17, 7, 9])),
    (Edge,     Conv([2, 16, 16, 65, 1, 1])),
    (Released, Conv([1, 1024, 1024, 640, 7, 3])),
    (Released, Conv([1, 128, 128, 61_440, 7, 9])),
    (Released, Conv([1, 128, 128, 61_440, 1, 1])),
    // [codes, channels of the codebook, window, width]
    (Quick,    CodeTokens([3, 24, 5, 16])),
    (Edge,     CodeTokens([1, 5, 3, 7])),
    (Edge,     CodeTokens([33, 130, 5, 65])),
    (Released, CodeTokens([150, 2048, 5, 2048])),
    (Released, CodeTokens([1200, 2048, 5, 2048])),
    // [rows, ids, ids that are kept]
    (Quick,    Draw([3, 65, 5])),
    (Edge,     Draw([1, 1, 1])),
    (Edge,     Draw([2, 257, 0])),
    (Released, Draw([1, 2048, 50])),
    (Released, Draw([4, 2048, 50])),
    // [rows of the cache, heads, capacity, width, new rows, new positions]
    (Quick,    CacheWrite([2, 2, 9, 16, 2, 1])),
    (Edge,     CacheWrite([3, 2, 70, 128, 1, 33])),
    (Released, CacheWrite([2, 8, 1024, 128, 2, 1])),
    (Released, CacheWrite([2, 8, 1024, 128, 1, 256])),
    // [layers, hidden, inner, heads, key heads, width of a head, sequences, position]
    (Quick,    CachedLayers([2, 32, 48, 4, 2, 16, 2, 5])),
    (Edge,     CachedLayers([1, 48, 80, 2, 1, 128, 3, 19])),
    (Edge,     CachedLayers([2, 1024, 3072, 16, 8, 128, 1, 0])),
    (Edge,     CachedLayers([2, 1024, 3072, 16, 8, 128, 2, 331])),
    (Edge,     CachedLayers([2, 2048, 6144, 16, 8, 128, 2, 40])),
    (Edge,     CachedLayers([1, 2560, 9728, 32, 8, 128, 4, 700])),
    (Released, CachedLayers([1, 2560, 9728, 32, 8, 128, 2, 1500])),
    // [rows, in, out]
    (Edge,     Product([1, 1, 1])),
    (Edge,     Product([3, 130, 65])),
    (Edge,     Product([2, 1024, 513])),
    (Edge,     Product([65, 257, 129])),
    (Released, Product([1, 1024, 3072])),
    (Released, Product([2, 1024, 3072])),
    (Released, Product([2, 3072, 1024])),
    (Released, Product([2, 1024, 64_001])),
    (Released, Product([2, 2560, 9728])),
    (Released, Product([375, 2048, 2048])),
    (Released, Product([1125, 2048, 6144])),
    // The CPU takes longest for these.
    // [batch, heads, key heads, queries, keys, width of a head]
    (Quick,    seen([1, 2, 1, 9, 9, 16], Full)),
    (Quick,    seen([2, 4, 2, 37, 37, 16], Window(5))),
    (Quick,    seen([1, 2, 2, 1, 33, 16], Causal { first: 32 })),
    (Quick,    padded([2, 2, 1, 19, 19, 16], Full, Hidden::End)),
    (Edge,     seen([1, 4, 2, 1, 1, 128], Full)),
    (Edge,     seen([1, 4, 2, 70, 131, 128], Full)),
    (Edge,     seen([2, 4, 4, 64, 64, 128], Causal { first: 0 })),
    (Edge,     seen([1, 16, 8, 65, 321, 128], Causal { first: 256 })),
    (Edge,     seen([1, 4, 2, 300, 300, 128], Window(128))),
    (Edge,     seen([1, 4, 2, 300, 300, 128], Window(0))),
    (Edge,     seen([3, 16, 8, 1, 1001, 128], Causal { first: 1000 })),
    (Edge,     seen([2, 6, 2, 50, 50, 64], Window(7))),
    (Edge,     padded([2, 4, 2, 131, 131, 128], Full, Hidden::End)),
    (Edge,     padded([2, 4, 2, 131, 131, 128], Window(20), Hidden::Start)),
    (Edge,     padded([2, 4, 2, 40, 40, 128], Full, Hidden::SecondItem)),
    (Released, seen([1, 16, 8, 70, 70, 128], Causal { first: 0 })),
    (Released, seen([1, 16, 8, 256, 256, 128], Causal { first: 0 })),
    (Released, seen([1, 16, 8, 1, 1000, 128], Causal { first: 999 })),
    (Released, seen([2, 16, 8, 1, 1000, 128], Causal { first: 999 })),
    (Released, seen([2, 32, 8, 1, 4000, 128], Causal { first: 3999 })),
    (Released, seen([1, 16, 8, 375, 375, 128], Full)),
    (Released, seen([1, 16, 8, 375, 375, 128], Window(128))),
    (Released, seen([1, 16, 8, 1125, 1125, 128], Full)),
    (Released, seen([1, 16, 8, 1125, 1125, 128], Window(128))),
    (Released, seen([1, 16, 8, 1125, 238, 128], Full)),
    (Released, seen([2, 16, 8, 1125, 1125, 128], Full)),
    (Released, seen([1, 16, 8, 3000, 3000, 128], Full)),
    (Released, seen([1, 32, 8, 3000, 3000, 128], Window(128))),
    (Released, padded([1, 16, 8, 512, 512, 128], Window(128), Hidden::End)),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a quick shape, an operation would not be tested on machines without a GPU. The
    /// exceptions here have no kernel of their own and compile slowly.
    #[test]
    fn every_kind_has_shapes_of_each_extent() {
        let mut kinds: Vec<&str> = SWEEP.iter().map(|(_, operation)| operation.name()).collect();
        kinds.dedup();
        let mut once = kinds.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), kinds.len(), "shapes of a kind stand together");
        for kind in kinds {
            let has = |extent| {
                SWEEP.iter().any(|(own, operation)| *own == extent && operation.name() == kind)
            };
            assert!(has(Edge) && has(Released), "{kind}");
            assert!(has(Quick) != ["conv1d", "product"].contains(&kind), "{kind}");
        }
    }
}
