//! Matrix products and convolutions of bf16 on Hopper's matrix units.
//!
//! `y[b, m, n] = sum x[b, m + shift + t step, c] w[n, (t, c)]` over taps `t` and channels `c`. A
//! product has one tap. A channels-last convolution has several shifted rows of `x`. A transposed
//! convolution has columns for each phase of its stride. There is no gather step and no autotuning
//! for a song: the sizes determine the tiles.
//!
//! Limits: bf16, rows and channels aligned to 16 bytes; for convolutions a stride of 1; for
//! transposed ones no dilation, and a number of taps that is a multiple of the stride.

use burn::tensor::{DType, Shape};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::zspace::{Strides, metadata::Metadata};

use super::{
    super::rows::empty, HOPPER, MAPPED_3, Source, is_hopper, is_mappable, launch, map,
    multiprocessors, wgmma, words,
};

mod conv;

pub use conv::takes_conv;
pub(in super::super) use conv::{
    conv_transpose1d, conv1d, conv1d_add_snake, conv1d_snake, takes_snake,
};

/// The body of the kernel.
const BODY: &str = include_str!("product.cu");

/// Terms per step, and threads per group: see `product.cu`.
const TERMS: usize = 64;
const GROUP: usize = 128;

/// Operations on a sum before it is written, numbered as in the kernel source.
const BIAS: u32 = 1;
const RESIDUAL: u32 = 2;
const GATE: u32 = 4;
const SNAKE: u32 = 8;
const BOTH: u32 = 16;
const SWIGLU: u32 = 32;

/// The sizes of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Tiles {
    /// Rows per tile, 64 for each group that multiplies.
    rows: usize,
    /// Columns per tile.
    columns: usize,
    /// Tiles of terms in flight at a time.
    stages: usize,
    /// Blocks that share the weights of their columns.
    cluster: usize,
    /// Operations after the sum.
    after: u32,
}

impl Tiles {
    const fn new(rows: usize, columns: usize, stages: usize, cluster: usize) -> Self {
        Self { rows, columns, stages, cluster, after: 0 }
    }

    /// All candidates.
    const ALL: [Self; 8] = [
        Self::new(128, 256, 4, 2),
        Self::new(128, 192, 5, 2),
        Self::new(192, 128, 5, 2),
        Self::new(128, 128, 6, 2),
        Self::new(128, 96, 7, 2),
        Self::new(128, 64, 8, 2),
        Self::new(64, 128, 8, 1),
        Self::new(64, 64, 12, 1),
    ];

    /// Returns the output columns per tile: with SwiGLU a tile has half gates and half ups.
    fn outputs(&self) -> usize {
        if self.after & SWIGLU == 0 { self.columns } else { self.columns / 2 }
    }

    /// Returns the number of output tiles, in clusters.
    fn count(&self, problem: &Problem) -> usize {
        let rows = problem.rows.div_ceil(self.rows * self.cluster);
        problem.batch * rows * problem.columns.div_ceil(self.outputs())
    }

    /// Estimates the time of a product in cycles of a multiprocessor. Each round of tiles has its
    /// steps, and a start and an end in which nothing is multiplied.
    fn cycles(&self, problem: &Problem, multiprocessors: usize) -> usize {
        /// Bytes of tiles that arrive per cycle.
        const ARRIVING: usize = 50;
        const AROUND: usize = 2500;
        let rounds = self.count(problem).div_ceil(multiprocessors / self.cluster);
        // 2048 multiplications per cycle.
        let multiplied = self.rows * self.columns * TERMS / 2048;
        let brought = (self.rows + self.columns / self.cluster) * TERMS * 2 / ARRIVING;
        rounds * (problem.steps() * multiplied.max(brought) + AROUND)
    }

    /// Returns the fastest tiles for a problem.
    fn of(problem: &Problem, after: u32, multiprocessors: usize) -> Self {
        let all = Self::ALL.into_iter().map(|tiles| Self { after, ..tiles });
        // A quad of lanes writes 32 columns at a time.
        let able = all.filter(|tiles| tiles.outputs().is_multiple_of(32));
        let quickest = able.min_by_key(|tiles| tiles.cycles(problem, multiprocessors));
        quickest.expect("there are some")
    }
}

impl Source for Tiles {
    const NAME: &'static str = "product";

    fn text(&self) -> String {
        let Self { rows, columns, stages, cluster, after } = self;
        let threads = self.threads();
        let (wgmma, cluster_dims) = (
            wgmma(*columns),
            if *cluster > 1 {
                format!("__cluster_dims__({cluster}, 1, 1) ")
            } else {
                String::new()
            },
        );
        format!(
            "{HOPPER}
{wgmma}
{BODY}
extern \"C\" __global__ void {cluster_dims}__launch_bounds__({threads}, 1) product(
    const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w,
    const __grid_constant__ TensorMap u, {MAPPED_3} bf16* y, bf16* y2, bf16* bias, bf16* residual,
    bf16* gate, bf16* alpha, bf16* beta, const __grid_constant__ ProductArgs args) {{
  ProductTensors tensors = {{y, y2, bias, residual, gate, alpha, beta}};
  product_tiles<{rows}, {columns}, {stages}, {cluster}, {after}>(x, w, u, tensors, args);
}}
"
        )
    }

    fn threads(&self) -> u32 {
        (self.rows / 64 * GROUP + GROUP) as u32
    }

    fn shared_bytes(&self) -> usize {
        let ring = self.stages * (self.rows + self.columns) * TERMS * 2;
        let (barriers, per_column) = (self.stages * 2 * 8, 4 * self.columns * 4);
        // The ring begins at the next multiple of 1024.
        ring + barriers + per_column + 1024
    }
}

/// The sizes of a product, and the place of its results.
#[derive(Debug, Clone, Copy)]
struct Problem {
    batch: usize,
    /// Rows of an item of `y`, as the sums are counted.
    rows: usize,
    columns: usize,
    /// Terms per tap.
    channels: usize,
    taps: usize,
    /// The row of `x` for the first tap of row 0, and the distance to the row of the next tap.
    shift: i32,
    step: i32,
    /// Number of columns after which the bias repeats.
    period: usize,
    /// Distance of the gates of consecutive items, in values.
    gate_step: usize,
    /// Values per item of `y`, and the offset of row 0; values outside are not written.
    item_size: usize,
    offset: i64,
}

impl Problem {
    /// Returns the product of `batch` items of `rows` rows, whose results are contiguous.
    fn of([batch, rows, channels]: [usize; 3], columns: usize) -> Self {
        Self {
            batch,
            rows,
            columns,
            channels,
            taps: 1,
            shift: 0,
            step: 0,
            period: columns,
            gate_step: 0,
            item_size: rows * columns,
            offset: 0,
        }
    }

    fn steps(&self) -> usize {
        self.taps * self.channels.div_ceil(TERMS)
    }

    /// Returns the `ProductArgs` of `product.cu`.
    fn args(&self) -> Vec<u64> {
        let n = |size: usize| size as i32;
        let mut args = words(&[
            n(self.batch),
            n(self.rows),
            n(self.columns),
            n(self.channels),
            n(self.taps),
            self.shift,
            self.step,
            n(self.period),
            n(self.gate_step),
            0,
        ]);
        args.extend([self.columns as u64, self.item_size as u64, self.offset as u64]);
        args
    }
}

/// Operations after a sum.
struct After<R: CubeRuntime> {
    bias: Option<CubeTensor<R>>,
    residual: Option<CubeTensor<R>>,
    gate: Option<CubeTensor<R>>,
    /// Weights of the ups; the main weights are then the gates.
    ups: Option<CubeTensor<R>>,
    /// Alpha and beta of a snake.
    snake: Option<[CubeTensor<R>; 2]>,
    /// Output of the snake, if its input is wanted too.
    both: Option<CubeTensor<R>>,
}

impl<R: CubeRuntime> After<R> {
    fn bias(bias: Option<CubeTensor<R>>) -> Self {
        let bias = bias.map(into_contiguous);
        Self { bias, residual: None, gate: None, ups: None, snake: None, both: None }
    }

    fn code(&self) -> u32 {
        let of = |tensor: &Option<CubeTensor<R>>, code| if tensor.is_some() { code } else { 0 };
        of(&self.bias, BIAS)
            | of(&self.residual, RESIDUAL)
            | of(&self.gate, GATE)
            | of(&self.ups, SWIGLU)
            | of(&self.both, BOTH)
            | if self.snake.is_some() { SNAKE } else { 0 }
    }
}

/// Computes `problem` into `y`. `x`: `[B, rows, C]`, `weight`: `[N, taps C]`, both mappable.
fn compute<R: CubeRuntime>(
    x: &CubeTensor<R>,
    weight: &CubeTensor<R>,
    after: &After<R>,
    y: &CubeTensor<R>,
    problem: Problem,
) {
    let client = &x.client;
    let multiprocessors = multiprocessors(client);
    let tiles = Tiles::of(&problem, after.code(), multiprocessors);
    let clusters = tiles.count(&problem).min(multiprocessors / tiles.cluster);
    let tile = if after.ups.is_some() { tiles.columns / 2 } else { tiles.columns / tiles.cluster };
    let maps = vec![
        map(x, &[1, tiles.rows, TERMS]),
        map(weight, &[tile, TERMS]),
        map(after.ups.as_ref().unwrap_or(weight), &[tile, TERMS]),
    ];
    // The kernel does not use the parameter of a missing tensor.
    let own = |x: Option<&CubeTensor<R>>| x.unwrap_or(y).handle.clone().binding();
    let own_of = |tensor: &Option<CubeTensor<R>>| own(tensor.as_ref());
    let mut buffers = vec![own(None)];
    buffers.extend([&after.both, &after.bias, &after.residual, &after.gate].map(own_of));
    buffers.extend([0, 1].map(|i| own(after.snake.as_ref().map(|snake| &snake[i]))));
    launch(client, tiles, clusters * tiles.cluster, maps, buffers, problem.args());
}

/// True if the kernel for Hopper supports these: `x`: `[rows, in]`, `weight`: `[out, in]`.
pub fn takes_product<R: CubeRuntime>(x: &CubeTensor<R>, weight: &CubeTensor<R>) -> bool {
    is_hopper(&x.client)
        && [x, weight].into_iter().all(|x| x.dtype == DType::BF16)
        && x.meta.shape()[1].is_multiple_of(8)
        && x.meta.num_elements() > 0
        && weight.meta.num_elements() > 0
}

/// True if [`product_added`] supports these.
pub(in super::super) fn takes_added<R: CubeRuntime>(
    residual: &CubeTensor<R>,
    gate: Option<&CubeTensor<R>>,
    x: &CubeTensor<R>,
    weight: &CubeTensor<R>,
) -> bool {
    let [_, positions, terms] = x.meta.shape().dims();
    is_hopper(&x.client)
        && [Some(residual), gate, Some(x), Some(weight)]
            .into_iter()
            .flatten()
            .all(|x| x.dtype == DType::BF16)
        // Few rows use another kernel, which reads the weights once.
        && positions > 4
        && terms.is_multiple_of(8)
        && weight.meta.shape()[0].is_multiple_of(8)
        && x.meta.num_elements() * weight.meta.num_elements() > 0
}

/// Computes `x W^T`.
///
/// # Shapes
/// - `x`: `[rows, in]`, `weight`: `[out, in]`, output: `[rows, out]`
pub(in super::super) fn product<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
) -> CubeTensor<R> {
    let [rows, _] = x.meta.shape().dims();
    let y = product_and(by_items(x, 1), weight, After::bias(None));
    let columns = y.meta.shape()[2];
    flat(y, [rows, columns])
}

/// Computes `silu(x G^T) (x U^T)`.
///
/// # Shapes
/// - `x`: `[rows, in]`, `gate`, `up`: `[out, in]`, output: `[rows, out]`
pub(in super::super) fn gated_product<R: CubeRuntime>(
    x: CubeTensor<R>,
    gate: CubeTensor<R>,
    up: CubeTensor<R>,
) -> CubeTensor<R> {
    let [rows, _] = x.meta.shape().dims();
    let after = After { ups: Some(readable(up)), ..After::bias(None) };
    let y = product_and(by_items(x, 1), gate, after);
    let columns = y.meta.shape()[2];
    flat(y, [rows, columns])
}

/// Computes `residual + gate (x W^T)`, or without a gate `residual + x W^T`. The number of outputs
/// must be a multiple of eight.
///
/// # Shapes
/// - `residual`, output: `[B, P, out]`, `gate`: `[B, 1, out]` or `[1, 1, out]`
/// - `x`: `[B, P, in]`, `weight`: `[out, in]`
pub(in super::super) fn product_added<R: CubeRuntime>(
    residual: CubeTensor<R>,
    gate: Option<CubeTensor<R>>,
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
) -> CubeTensor<R> {
    let whole = |gate: CubeTensor<R>| {
        if gate.meta.strides()[2] == 1 { gate } else { into_contiguous(gate) }
    };
    let residual = Some(into_contiguous(residual));
    let after = After { residual, gate: gate.map(whole), ..After::bias(None) };
    product_and(readable(x), weight, after)
}

/// Views rows as `items` items of equal size.
fn by_items<R: CubeRuntime>(x: CubeTensor<R>, items: usize) -> CubeTensor<R> {
    let mut x = readable(x);
    let ([rows, width], stride) = (x.meta.shape().dims(), x.meta.strides()[0]);
    let rows = rows / items;
    x.meta = Box::new(Metadata::new(
        Shape::from([items, rows, width]),
        Strides::from([rows * stride, stride, 1].as_slice()),
    ));
    x
}

/// Computes a product with `after`. `x`: `[B, rows, in]`, mappable; output: `[B, rows, out]`.
fn product_and<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    after: After<R>,
) -> CubeTensor<R> {
    let weight = readable(weight);
    let (sizes, columns) = (x.meta.shape().dims(), weight.meta.shape()[0]);
    let y = empty(&x, [sizes[0], sizes[1], columns]);
    let gate_step = after
        .gate
        .as_ref()
        .map_or(0, |gate| if gate.meta.shape()[0] == 1 { 0 } else { gate.meta.strides()[0] });
    let problem = Problem { gate_step, ..Problem::of(sizes, columns) };
    compute(&x, &weight, &after, &y, problem);
    y
}

/// Returns a tensor that the copy engine can read.
fn readable<R: CubeRuntime>(x: CubeTensor<R>) -> CubeTensor<R> {
    if is_mappable(&x) {
        return x;
    }
    let x = into_contiguous(x);
    // A view may be contiguous but not aligned.
    if is_mappable(&x) { x } else { x.copy() }
}

/// Returns a contiguous tensor with another shape.
fn flat<R: CubeRuntime, const D: usize>(mut x: CubeTensor<R>, shape: [usize; D]) -> CubeTensor<R> {
    let mut strides = [1; D];
    for axis in (1..D).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    x.meta = Box::new(Metadata::new(Shape::from(shape), Strides::from(strides.as_slice())));
    x
}
