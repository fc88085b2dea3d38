//! Layers that more than one network uses, one per file.

mod archive;
mod attention;
mod cache;
mod conv;
mod layer;
mod linear;
mod low_rank;
mod mlp;
mod norm;
#[cfg(all(test, feature = "cpu"))]
mod rng;
mod rope;
mod snake;
mod stack;
mod timestep;
mod weight;

pub(crate) use archive::Archive;
pub use archive::ForeignState;
pub use attention::{Attention, KeysValues};
pub(crate) use cache::STEP;
pub use cache::{Cache, Past};
pub use conv::{Conv1d, ConvState, ConvTranspose1d};
pub use layer::{Context, Layer, LayerShape, LayerSpec};
pub use linear::{Embedding, Linear, LookupTable};
pub use low_rank::{Dropout, LowRank};
pub use mlp::{Activation, Mlp};
pub(crate) use norm::Norm;
pub use norm::{NormKind, RmsNorm};
pub use rope::Rope;
pub use snake::{HalfSnake, Snake, SnakeBeta};
pub(crate) use stack::{Positions, forward_cached};
pub(crate) use timestep::rounded;
pub use timestep::{TimestepEmbedding, scaled_time, timestep_sinusoid};
pub use weight::{WeightParam, quantizing, set_q8_words};

use burn::{
    module::{Initializer, Param},
    tensor::{Int, Tensor, TensorData},
};

use crate::{Backend, Place, kernel::LayerWeights};

/// Returns a parameter with random values of standard deviation `std`, allocated on first use.
///
/// Networks are built with it, then filled from a checkpoint or benchmarked as they are.
pub(crate) fn random<B: Backend, const D: usize>(
    shape: [usize; D],
    std: f64,
    device: &B::Device,
) -> Param<Tensor<B, D>> {
    // Tests have the same weights in every run.
    #[cfg(all(test, feature = "cpu"))]
    return crate::testing::param(shape, std, device);
    #[cfg(not(all(test, feature = "cpu")))]
    Initializer::Normal { mean: 0.0, std }.init(shape, device)
}

/// Returns random weights of a matrix, a table or a filter, see [`random`].
pub(crate) fn random_weight<B: Backend, const D: usize>(
    shape: [usize; D],
    std: f64,
    device: &B::Device,
) -> WeightParam<B, D> {
    WeightParam::Plain(random(shape, std, device))
}

/// Returns the device and type of `x`, for tensors that are used together with it.
pub(crate) fn place_of<B: Backend, const D: usize>(x: &Tensor<B, D>) -> Place<B> {
    Place { device: x.device(), dtype: x.dtype() }
}

/// Returns ids as a tensor of `rows` rows of equal length, one row after the other.
///
/// # Panics
/// No rows, or ids that do not fill them.
///
/// # Shapes
/// - output: `[rows, ids / rows]`
pub(crate) fn ids_in_rows<B: Backend>(
    ids: impl IntoIterator<Item = u32>,
    rows: usize,
    device: &B::Device,
) -> Tensor<B, 2, Int> {
    let ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
    let shape = [rows, ids.len() / rows];
    Tensor::from_data(TensorData::new(ids, shape), device)
}

/// Returns a parameter of ones, also lazy.
pub(crate) fn ones<B: Backend, const D: usize>(
    shape: [usize; D],
    device: &B::Device,
) -> Param<Tensor<B, D>> {
    Initializer::Ones.init(shape, device)
}
