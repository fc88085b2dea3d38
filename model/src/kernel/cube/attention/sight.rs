//! Visibility by position in a kernel: the rule is a part of its source, the numbers are arguments.

use burn_cubecl::CubeRuntime;
use cubecl::prelude::*;

use crate::kernel::Visibility;

/// [`Visibility`] without its numbers, which do not change the kernel source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Sight {
    Full,
    Causal,
    /// A window to both sides, or a causal one.
    Window,
}

/// The numbers of a rule: `query` sees `key` iff `key <= query + near` and
/// `query + shift < key + width`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) near: u32,
    pub(super) shift: u32,
    pub(super) width: u32,
}

impl Bounds {
    /// Returns the numbers as arguments of a kernel.
    pub(super) fn launch<R: CubeRuntime>(self) -> ReachLaunch<R> {
        ReachLaunch::new(self.near, self.shift, self.width)
    }
}

/// [`Bounds`] in a kernel.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Reach {
    near: u32,
    shift: u32,
    width: u32,
}

impl Sight {
    /// Returns the rule and its numbers.
    pub(super) fn of(visibility: Visibility) -> (Self, Bounds) {
        // No tensor has more positions, and sums of three such numbers do not overflow.
        let number = |n: usize| n.min(1 << 29) as u32;
        let bounds = |near, shift, width| Bounds {
            near: number(near),
            shift: number(shift),
            width: number(width),
        };
        match visibility {
            Visibility::Full => (Self::Full, bounds(0, 0, usize::MAX)),
            Visibility::Causal { first } => (Self::Causal, bounds(first, 0, usize::MAX)),
            Visibility::Window(reach) => (Self::Window, bounds(reach, 0, reach.saturating_add(1))),
            Visibility::CausalWindow { first, width } => {
                (Self::Window, bounds(first, first, width.max(1)))
            }
        }
    }
}

/// Returns true if `query` sees `key` by position.
#[cube]
pub(super) fn sees(query: usize, key: usize, reach: &Reach, #[comptime] sight: Sight) -> bool {
    match comptime!(sight) {
        Sight::Full => true.runtime(),
        Sight::Causal => key <= query + reach.near as usize,
        Sight::Window => {
            key <= query + reach.near as usize
                && query + (reach.shift as usize) < key + reach.width as usize
        }
    }
}

// ANCHOR: window
/// Returns the first key that any query from `first` on sees.
#[cube]
pub(super) fn keys_from(first: usize, reach: &Reach, #[comptime] sight: Sight) -> usize {
    match comptime!(sight) {
        Sight::Full | Sight::Causal => 0usize.runtime(),
        Sight::Window => {
            let end = first + reach.shift as usize + 1;
            end - min(end, reach.width as usize)
        }
    }
}

/// Returns the end of the keys, out of `keys`, that queries up to `last` see.
#[cube]
pub(super) fn keys_until(
    last: usize,
    reach: &Reach,
    keys: usize,
    #[comptime] sight: Sight,
) -> usize {
    match comptime!(sight) {
        Sight::Full => keys,
        Sight::Causal | Sight::Window => min(keys, last + reach.near as usize + 1),
    }
}
// ANCHOR_END: window
