//! The operations: sizes, results, tolerances.

use acestep_engine::host::to_host;
use acestep_model::{Backend, kernel::Visibility};
use burn::tensor::{DType, Tensor};

/// An operation and its sizes; [`super::sweep`] explains the numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Operation {
    RmsNorm([usize; 2]),
    AdaNorm([usize; 3]),
    NormRotate([usize; 4]),
    Swiglu([usize; 2]),
    Attend(Attention),
    Snake([usize; 3]),
    AddSnake([usize; 3]),
    ConvTranspose([usize; 5]),
    Conv([usize; 6]),
    CacheWrite([usize; 6]),
    Product([usize; 3]),
    CodeTokens([usize; 4]),
    Draw([usize; 3]),
    CachedLayers([usize; 8]),
}

/// The sizes of attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Attention {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    pub(crate) width: usize,
    pub(crate) visibility: Visibility,
    pub(crate) hidden: Hidden,
}

/// Keys that are padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hidden {
    Nothing,
    /// The last ones; the number grows with each item.
    End,
    /// The first ones; the number grows with each item.
    Start,
    /// All keys of the second item, so that its queries see nothing.
    SecondItem,
}

/// The result of an operation, of any rank.
pub(crate) enum Output<B: Backend> {
    Two(Tensor<B, 2>),
    Three(Tensor<B, 3>),
    Four(Tensor<B, 4>),
    /// Two results of one shape.
    Pair([Tensor<B, 3>; 2]),
}

impl<B: Backend> Output<B> {
    /// Returns the shape and the values.
    pub(crate) fn into_host(self) -> (Vec<usize>, Vec<f32>) {
        match self {
            Self::Two(x) => (x.dims().into(), to_host(x)),
            Self::Three(x) => (x.dims().into(), to_host(x)),
            Self::Four(x) => (x.dims().into(), to_host(x)),
            Self::Pair([x, y]) => {
                ([x.dims(), y.dims()].concat(), [to_host(x), to_host(y)].concat())
            }
        }
    }

    /// Returns the number of values.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Two(x) => x.dims().iter().product(),
            Self::Three(x) => x.dims().iter().product(),
            Self::Four(x) => x.dims().iter().product(),
            Self::Pair(pair) => pair.iter().map(|x| x.dims().iter().product::<usize>()).sum(),
        }
    }
}

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RmsNorm(_) => "rms_norm",
            Self::AdaNorm(_) => "ada_norm",
            Self::NormRotate(_) => "norm_rotate",
            Self::Swiglu(_) => "swiglu",
            Self::Attend(_) => "attention",
            Self::Snake(_) => "snake",
            Self::AddSnake(_) => "add_snake",
            Self::ConvTranspose(_) => "conv_transpose1d",
            Self::Conv(_) => "conv1d",
            Self::CacheWrite(_) => "cache_write",
            Self::Product(_) => "product",
            Self::CodeTokens(_) => "code_tokens",
            Self::Draw(_) => "draw",
            Self::CachedLayers(_) => "cached_layers",
        }
    }

    /// Returns the shape such as `2 x 8 x 1000`, with the mask of attention.
    pub(crate) fn shape(self) -> String {
        let by =
            |sizes: &[usize]| sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
        match self {
            Self::RmsNorm(sizes) | Self::Swiglu(sizes) => by(&sizes),
            Self::AdaNorm(sizes) | Self::Product(sizes) | Self::Draw(sizes) => by(&sizes),
            Self::Snake(sizes) | Self::AddSnake(sizes) => by(&sizes),
            Self::NormRotate(sizes) | Self::CodeTokens(sizes) => by(&sizes),
            Self::ConvTranspose(sizes) => by(&sizes),
            Self::Conv(sizes) | Self::CacheWrite(sizes) => by(&sizes),
            Self::CachedLayers(sizes) => by(&sizes),
            Self::Attend(a) => {
                let sees = match a.visibility {
                    Visibility::Full => "full".to_owned(),
                    Visibility::Causal { first } => format!("causal from {first}"),
                    Visibility::Window(reach) => format!("window {reach}"),
                    Visibility::CausalWindow { first, width } => {
                        format!("causal window {width} from {first}")
                    }
                };
                let hides = match a.hidden {
                    Hidden::Nothing => "",
                    Hidden::End => ", end hidden",
                    Hidden::Start => ", start hidden",
                    Hidden::SecondItem => ", second item hidden",
                };
                let heads = format!("{}/{}", a.heads, a.kv_heads);
                let Attention { batch, queries, keys, width, .. } = a;
                format!("{batch} x {heads} x {queries} x {keys} x {width}, {sees}{hides}")
            }
        }
    }

    /// Returns the tolerance of a result in `dtype` to f32 on the CPU, as a share of its largest
    /// value. It covers the rounding of inputs and outputs, and in f32 the order of long sums.
    pub(crate) fn tolerance(self, dtype: DType) -> f64 {
        match (self, dtype) {
            // Values or ids, which are equal.
            (Self::CacheWrite(_) | Self::Draw(_), _) => 0.0,
            // Rounding between the operations adds up over the layers.
            (Self::CachedLayers(_), DType::F16) => 8e-3,
            (Self::CachedLayers(_), DType::BF16) => 4e-2,
            (Self::CachedLayers(_), _) => 5e-5,
            // Four and eight times half a unit in the last place.
            (_, DType::F16) => 2e-3,
            (_, DType::BF16) => 1.6e-2,
            (Self::Attend(_) | Self::Product(_) | Self::Conv(_) | Self::ConvTranspose(_), _) => {
                1e-5
            }
            _ => 5e-6,
        }
    }
}
