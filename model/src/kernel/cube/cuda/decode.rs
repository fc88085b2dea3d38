//! One token of a language model through all layers in one launch: see `decode.cu`.
//!
//! Limits: bf16, heads of 128 values, up to four query heads per key head, up to four sequences,
//! contiguous tensors.

use burn::tensor::DType;
use burn_cubecl::{
    CubeRuntime, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::client::ComputeClient;

use super::{HOPPER, Source, is_hopper, launch, multiprocessors, words};
use crate::kernel::cube::decode::{Decoding, TENSORS};

/// The body of the kernel.
const BODY: &str = include_str!("decode.cu");

/// The same values as in `decode.cu`.
const THREADS: usize = 512;
const WARPS: usize = THREADS / 32;
const WIDTH: usize = 128;
const STEP: usize = 16;
const TILE: usize = 8 * (10 * 32 + 16);
const GAP: usize = 8;

/// Keys per block before more blocks share the work.
const KEYS: usize = 256;

/// Layers per launch: a kernel's parameters have 4096 bytes, and a pointer takes eight.
const LAYERS: usize = 36;

/// Maximum bytes of static shared memory of the kernel.
const STATIC: usize = 6 * 1024;

/// The sizes of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Sizes {
    hidden: usize,
    inner: usize,
    heads: usize,
    kv_heads: usize,
    rows: usize,
    layers: usize,
    blocks: usize,
    slots: usize,
}

impl Sizes {
    /// Returns sizes for `layers` layers, with as many tiles in flight as fit in shared memory;
    /// `None` if two do not fit.
    fn new(decoding: &Decoding, layers: usize, blocks: usize, room: usize) -> Option<Self> {
        let Decoding { hidden, inner, heads, kv_heads, .. } = *decoding;
        let rows = decoding.positions.len();
        let sizes = Self { hidden, inner, heads, kv_heads, rows, layers, blocks, slots: 0 };
        (2..=8)
            .rev()
            .map(|slots| Self { slots, ..sizes })
            .find(|sizes| sizes.shared_bytes() + STATIC <= room)
    }

    fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Returns the number of blocks that can share the keys of a key head.
    fn splits(&self) -> usize {
        self.blocks / (self.rows * self.kv_heads)
    }

    /// Returns rows and terms of the weights of each phase.
    fn phases(&self) -> [(usize, usize); 4] {
        let Self { hidden, inner, heads, kv_heads, .. } = *self;
        let mixed = heads * WIDTH;
        let made = mixed + 2 * kv_heads * WIDTH;
        [(made, hidden), (hidden, mixed), (inner, hidden), (hidden, inner)]
    }

    /// Returns the maximum number of partial sums per block in a phase, as divided by `share_of` in
    /// `decode.cu`.
    fn sums(&self) -> usize {
        let of = |(phase, (rows, terms)): (usize, (usize, usize))| {
            let most = |count: usize| {
                let groups = count.div_ceil(8) * if phase == 2 { 2 } else { 1 };
                let cost = |slices: &usize| {
                    groups.div_ceil(WARPS / slices) * (terms / STEP).div_ceil(*slices)
                };
                let slices = [1, 2, 4, 8, 16].into_iter().min_by_key(cost).unwrap_or(1);
                groups * 8 * self.rows * slices
            };
            most(rows / self.blocks).max(most(rows.div_ceil(self.blocks)))
        };
        self.phases().into_iter().enumerate().map(of).max().unwrap_or(0)
    }

    /// Returns the size of the memory that blocks share, in f32 values.
    fn scratch(&self) -> usize {
        let [(made, _), (_, mixed), _, _] = self.phases();
        let parts = self.rows * self.kv_heads * self.splits() * self.group() * (WIDTH + 2);
        // The last two are bf16.
        self.rows * (self.hidden + made) + parts + (self.rows * (mixed + self.inner)).div_ceil(2)
    }
}

impl Source for Sizes {
    const NAME: &'static str = "decode";

    fn text(&self) -> String {
        let Self { hidden, inner, heads, kv_heads, rows, layers, blocks, slots } = self;
        let (splits, sums) = (self.splits(), self.sums());
        let names: Vec<String> = (0..layers * TENSORS).map(|i| format!("p{i}")).collect();
        let parameters =
            names.iter().map(|name| format!("bf16* {name}")).collect::<Vec<_>>().join(", ");
        let table: String = names
            .iter()
            .enumerate()
            .map(|(i, name)| format!("    table[{i}] = (u64){name};\n"))
            .collect();
        format!(
            "#define HIDDEN {hidden}
#define INNER {inner}
#define HEADS {heads}
#define KV_HEADS {kv_heads}
#define ROWS {rows}
#define LAYERS {layers}
#define BLOCKS {blocks}
#define SPLITS {splits}
#define SLOTS {slots}
#define SUMS {sums}
{HOPPER}
{BODY}
extern \"C\" __global__ void __launch_bounds__(THREADS, 1) decode(
    bf16* x_in, bf16* cos, bf16* sin, bf16* x_out, float* scratch, u32* counters, {parameters},
    const __grid_constant__ DecodeArgs args) {{
  extern __shared__ __align__(1024) char shared[];
  __shared__ u64 table[LAYERS * TENSORS];
  if (threadIdx.x == 0) {{
{table}  }}
  __syncthreads();
  decode_layers(table, x_in, cos, sin, x_out, scratch, counters, args, shared);
}}
"
        )
    }

    fn threads(&self) -> u32 {
        THREADS as u32
    }

    fn shared_bytes(&self) -> usize {
        let widest = self.phases().into_iter().map(|(_, terms)| terms).max().unwrap_or(0);
        let values = self.rows * (widest + GAP) * 2;
        let mixed = ((self.group() + 2) * WIDTH + WARPS * self.group() * (WIDTH + 2)) * 4;
        let tiles = WARPS * self.slots * TILE;
        tiles + values.max(mixed).next_multiple_of(128) + self.sums() * 4
    }
}

/// Returns the number of multiprocessors of a device, and the bytes of shared memory per block.
fn room<R: CubeRuntime>(client: &ComputeClient<R>) -> (usize, usize) {
    (multiprocessors(client), client.properties().hardware.max_shared_memory_size)
}

/// True if [`decode_layers`] supports such a step.
pub(in super::super) fn takes_layers<R: CubeRuntime>(
    client: &ComputeClient<R>,
    decoding: &Decoding,
) -> bool {
    let &Decoding { hidden, inner, heads, kv_heads, width, dtype, .. } = decoding;
    let rows = decoding.positions.len();
    let (blocks, shared) = room(client);
    is_hopper(client)
        && dtype == DType::BF16
        && width == WIDTH
        && (1..=4).contains(&rows)
        && [1, 2, 4].contains(&(heads / kv_heads))
        && [hidden, inner].into_iter().all(|size| size.is_multiple_of(STEP))
        && rows * kv_heads <= blocks
        && Sizes::new(decoding, 1, blocks, shared).is_some()
}

/// Applies all layers to one token of each sequence.
///
/// Returns the output of the last layer, `[rows, 1, H]`, then the updated caches, two per layer.
pub(in super::super) fn decode_layers<R: CubeRuntime>(
    x: CubeTensor<R>,
    rope: [CubeTensor<R>; 2],
    layers: Vec<[CubeTensor<R>; TENSORS]>,
    decoding: &Decoding,
) -> Vec<CubeTensor<R>> {
    let client = x.client.clone();
    let (blocks, shared) = room(&client);
    let [cos, sin] = rope.map(into_contiguous);
    let mut x = into_contiguous(x);
    let layers: Vec<[CubeTensor<R>; TENSORS]> = layers
        .into_iter()
        .map(|tensors| {
            let mut of_layer = tensors.into_iter().enumerate().map(|(i, tensor)| {
                // A shared cache must not change for its other owner.
                let is_shared = i >= TENSORS - 2 && !tensor.can_mut();
                let tensor = into_contiguous(tensor);
                if is_shared { tensor.copy() } else { tensor }
            });
            std::array::from_fn(|_| of_layer.next().expect("as many as there were"))
        })
        .collect();
    for part in layers.chunks(LAYERS) {
        let sizes = Sizes::new(decoding, part.len(), blocks, shared).expect("asked for before");
        let empty = |count: usize, dtype| {
            empty_device_contiguous_dtype(client.clone(), x.device.clone(), [count].into(), dtype)
        };
        let mut output = empty(x.meta.num_elements(), DType::BF16);
        output.meta = x.meta.clone();
        let scratch: CubeTensor<R> = empty(sizes.scratch(), DType::F32);
        // A flag per block, and a ticket per key head of each sequence.
        let counters = vec![0u8; 4 * (blocks + sizes.rows * sizes.kv_heads)];
        let counters = client.create_from_slice(&counters);
        let own = |tensor: &CubeTensor<R>| tensor.handle.clone().binding();
        let mut buffers: Vec<_> = [&x, &cos, &sin, &output, &scratch].map(own).into();
        buffers.push(counters.binding());
        buffers.extend(part.iter().flatten().map(own));
        launch(&client, sizes, blocks, Vec::new(), buffers, args(decoding, &sizes));
        x = output;
    }
    let caches = layers.into_iter().flat_map(|tensors| tensors.into_iter().skip(TENSORS - 2));
    std::iter::once(x).chain(caches).collect()
}

/// Returns the `DecodeArgs` of `decode.cu`.
fn args(decoding: &Decoding, sizes: &Sizes) -> Vec<u64> {
    let longest = decoding.positions.iter().copied().max().unwrap_or(0);
    let splits = longest.div_ceil(KEYS).clamp(1, sizes.splits());
    let epsilon = (decoding.epsilon as f32).to_bits() as i32;
    let mut numbers =
        vec![decoding.first_row as i32, decoding.capacity as i32, splits as i32, epsilon];
    numbers.extend(decoding.positions.iter().map(|&position| position as i32));
    words(&numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoding([hidden, inner, heads]: [usize; 3], rows: usize) -> Decoding {
        Decoding {
            hidden,
            inner,
            heads,
            kv_heads: 8,
            width: WIDTH,
            dtype: DType::BF16,
            capacity: 2048,
            first_row: 0,
            positions: vec![331; rows],
            epsilon: 1e-6,
        }
    }

    /// The three released models in the 227 KiB of an H100's block, with one, two and four
    /// sequences.
    #[test]
    fn released_models_fit() {
        for (model, layers) in
            [([1024, 3072, 16], 28), ([2048, 6144, 16], 28), ([2560, 9728, 32], 36)]
        {
            for rows in [1, 2, 4] {
                let sizes = Sizes::new(&decoding(model, rows), layers, 132, 227 << 10);
                let sizes = sizes.expect("there is room");
                assert!(sizes.slots >= if rows == 4 { 2 } else { 4 }, "{sizes:?}");
            }
        }
    }

    /// Two sequences of the 4B model on 132 blocks: 73 or 74 gates and ups are 20 groups of 8. In
    /// four slices of 160 steps each takes 5 rounds of 40; fewer slices are slower.
    #[test]
    fn sums_of_the_largest_phase_have_room() {
        let sizes = Sizes::new(&decoding([2560, 9728, 32], 2), 36, 132, 227 << 10);
        assert_eq!(sizes.expect("there is room").sums(), 20 * 8 * 2 * 4);
    }

    #[test]
    fn a_long_cache_is_shared_by_blocks() {
        let splits = |position| {
            let mut decoding = decoding([2560, 9728, 32], 2);
            decoding.positions = vec![3, position];
            let sizes = Sizes::new(&decoding, 36, 132, 227 << 10).expect("there is room");
            args(&decoding, &sizes)[1] as u32
        };
        assert_eq!([0, 256, 257, 2000, 40_000].map(splits), [1, 1, 2, 8, 8]);
    }
}
