//! Attention in bf16 on Hopper's matrix units: one pass over the keys, as in
//! [`super::super::attention`].
//!
//! Limits: bf16, heads of 128 values, no padding among the keys, and at least one key for every
//! query.
//!
//! The fastest of [`Tiles`] on an H200 and one alternative, in microseconds:
//!
//! | heads | key heads | queries | keys | window | fastest    | time  | other   |
//! |-------|-----------|---------|------|--------|------------|-------|---------|
//! | 16    | 8         | 3000    | 3000 |        | 192 by 80  | 113.4 | 115.8   |
//! | 32    | 8         | 1500    | 1500 |        | 192 by 80  | 58.9  | 63.8    |
//! | 16    | 8         | 3000    | 238  |        | 192 by 80  | 17.3  |         |
//! | 16    | 8         | 750     | 750  |        | 128 by 128 | 13.3  | 14.6    |
//! | 16    | 8         | 750     | 238  |        | 64 by 64   | 7.3   |         |
//! | 16    | 8         | 750     | 750  | 128    | 64 by 64   | 8.4   | 9.4     |
//! | 16    | 8         | 3000    | 3000 | 128    | 64 by 64   | 25.0  | 29.1    |

use burn::tensor::DType;
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};

use super::{
    super::Visibility, HOPPER, MAPPED_3, Source, is_hopper, is_mappable, launch, map,
    multiprocessors, wgmma, words,
};

/// The body of the kernel.
const BODY: &str = include_str!("attention.cu");

/// Width of a head, and threads per group: see `attention.cu`.
const WIDTH: usize = 128;
const GROUP: usize = 128;
/// Tiles of keys, and of values, in flight at a time.
const STAGES: usize = 2;
/// With fewer queries nearly all rows of a block would be empty.
const LEAST_QUERIES: usize = 16;
/// Columns that the copy engine reads at once: half of a head.
const COLUMNS: usize = 64;

/// The sizes of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Tiles {
    /// Groups of 64 queries per block.
    groups: usize,
    /// Keys per tile.
    keys: usize,
    /// Resident blocks per multiprocessor.
    resident: usize,
}

impl Tiles {
    /// Reads the keys the fewest times. Only long songs have a block for every multiprocessor.
    const LARGE: Self = Self { groups: 3, keys: 80, resident: 1 };
    /// Two groups multiply in alternation.
    const MIDDLE: Self = Self { groups: 2, keys: 128, resident: 1 };
    /// Least overhead at the edges of a window, and the most blocks.
    const SMALL: Self = Self { groups: 1, keys: 64, resident: 2 };

    fn rows(&self) -> usize {
        self.groups * 64
    }

    /// Returns the number of blocks for `stacks` heads.
    fn blocks(&self, stacks: usize, queries: usize) -> usize {
        stacks * queries.div_ceil(self.rows())
    }

    /// Returns the fastest sizes by the table above. The bounds lie between the measured cases.
    fn of(
        stacks: usize,
        [queries, keys]: [usize; 2],
        visibility: Visibility,
        multiprocessors: usize,
    ) -> Self {
        /// Up to this reach, a block of 128 queries multiplies at least a tenth more than two
        /// blocks of 64.
        const NARROW: usize = 256;
        const FEW_KEYS: usize = 512;
        match visibility {
            Visibility::Window(reach) if reach <= NARROW => Self::SMALL,
            _ if Self::LARGE.blocks(stacks, queries) >= multiprocessors => Self::LARGE,
            _ if keys <= FEW_KEYS => Self::SMALL,
            _ => Self::MIDDLE,
        }
    }
}

impl Source for Tiles {
    const NAME: &'static str = "attention";

    fn text(&self) -> String {
        let Self { groups, keys, resident } = self;
        let threads = self.threads();
        let (scores, values) = (wgmma(*keys), wgmma_values());
        format!(
            "{HOPPER}
{scores}
{values}
{BODY}
extern \"C\" __global__ void __launch_bounds__({threads}, {resident}) attention(
    const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,
    {MAPPED_3} bf16* output, const __grid_constant__ AttentionArgs args) {{
  attention_tiles<{groups}, {keys}>(q, k, v, output, args);
}}
"
        )
    }

    fn threads(&self) -> u32 {
        (self.groups * GROUP + GROUP) as u32
    }

    fn shared_bytes(&self) -> usize {
        let rows = self.rows() + 2 * STAGES * self.keys;
        let barriers = (1 + 4 * STAGES) * 8;
        // The tiles begin at the next multiple of 1024.
        rows * WIDTH * DType::BF16.size() + barriers + 1024
    }
}

/// Returns the CUDA C++ of one `wgmma` that adds the product of the weights of 16 keys, in
/// registers, and their values.
fn wgmma_values() -> String {
    let registers = WIDTH / 2;
    let list =
        |item: &dyn Fn(usize) -> String| (0..registers).map(item).collect::<Vec<_>>().join(", ");
    let (names, sums) = (list(&|i| format!("%{i}")), list(&|i| format!("\"+f\"(d[{i}])")));
    let [a0, a1, a2, a3, b] = [0, 1, 2, 3, 4].map(|i| registers + i);
    format!(
        "__device__ __forceinline__ void wgmma_values(float (&d)[{registers}], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {{
  asm volatile(\"wgmma.mma_async.sync.aligned.m64n{WIDTH}k16.f32.bf16.bf16 \"
               \"{{{names}}}, {{%{a0}, %{a1}, %{a2}, %{a3}}}, %{b}, 1, 1, 1, 1;\\n\"
               : {sums} : \"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3), \"l\"(b));
}}
"
    )
}

/// True if the kernel for Hopper supports these: queries, keys and values, of the shapes of
/// [`attention`](crate::kernel::attention()). `keys` are flags of real keys.
pub fn takes_attention<R: CubeRuntime>(
    [q, k, v]: [&CubeTensor<R>; 3],
    keys: Option<&CubeTensor<R>>,
    visibility: Visibility,
) -> bool {
    let [queries, seen] = [q, k].map(|x| x.meta.shape()[2]);
    // A query that sees no key must get the mean of all values, but the kernel would return zeros.
    let can_see = match visibility {
        Visibility::Full | Visibility::Causal { .. } => seen > 0,
        Visibility::Window(reach) => queries <= seen.saturating_add(reach),
        // The kernel lacks this rule.
        Visibility::CausalWindow { .. } => false,
    };
    is_hopper(&q.client)
        && [q, k, v].into_iter().all(|x| x.dtype == DType::BF16 && x.meta.num_elements() > 0)
        && q.meta.shape()[3] == WIDTH
        && keys.is_none()
        && queries >= LEAST_QUERIES
        && can_see
}

/// Writes `softmax(q k^T / sqrt(D)) v` to `output`.
///
/// # Shapes
/// - `q`: `[B, heads, Lq, 128]`, `k`, `v`: `[B, kv_heads, Lk, 128]`
/// - `output`: `[B, Lq, heads, 128]`, contiguous
pub(in super::super) fn attention<R: CubeRuntime>(
    qkv: [CubeTensor<R>; 3],
    visibility: Visibility,
    output: &CubeTensor<R>,
) {
    let [q, k, v] = qkv.map(|x| if is_mappable(&x) { x } else { into_contiguous(x) });
    let [batch, heads, queries, _] = q.meta.shape().dims();
    let [_, kv_heads, keys, _] = k.meta.shape().dims();
    let client = &output.client;
    let stacks = batch * heads;
    let tiles = Tiles::of(stacks, [queries, keys], visibility, multiprocessors(client));
    // No tensor has more positions, and sums of two such numbers do not overflow.
    let number = |n: usize| n.min(1 << 29);
    let (sight, near) = match visibility {
        Visibility::Full => (0, 0),
        Visibility::Causal { first } => (1, number(first)),
        Visibility::Window(reach) => (2, number(reach)),
        Visibility::CausalWindow { .. } => unreachable!("not taken, see `takes_attention`"),
    };
    let sizes = [batch, heads, kv_heads, queries, keys, sight, near].map(|n| n as i32);
    let scale = (WIDTH as f32).powf(-0.5);
    // `AttentionArgs` of `attention.cu`.
    let args = words(&[&sizes[..], &[scale.to_bits() as i32]].concat());
    let tile = |rows: usize| [1, 1, rows, COLUMNS];
    let maps =
        vec![map(&q, &tile(tiles.rows())), map(&k, &tile(tiles.keys)), map(&v, &tile(tiles.keys))];
    let blocks = tiles.blocks(stacks, queries);
    launch(client, tiles, blocks, maps, vec![output.handle.clone().binding()], args);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measured_are_the_fastest() {
        let of = |heads, sizes, visibility| Tiles::of(heads, sizes, visibility, 132);
        let full = |heads, sizes| of(heads, sizes, Visibility::Full);
        assert_eq!(full(16, [3000, 3000]), Tiles::LARGE);
        assert_eq!(full(32, [1500, 1500]), Tiles::LARGE);
        assert_eq!(full(16, [3000, 238]), Tiles::LARGE);
        assert_eq!(full(16, [750, 750]), Tiles::MIDDLE);
        assert_eq!(full(16, [750, 238]), Tiles::SMALL);
        for length in [750, 3000] {
            assert_eq!(of(16, [length; 2], Visibility::Window(128)), Tiles::SMALL);
        }
    }
}
