//! Weights of a matrix, an embedding table or a convolution.
//!
//! A backend may keep weights in a form of its own: int8, or words in the order in which its kernel
//! reads them. Such weights are no float tensor. Only the functions of [`super`] read them.

use std::ops::Range;

use burn::tensor::{DType, Int, Tensor, TensorData};

use super::{Backend, primitive};

/// Weights as an operation receives them.
#[derive(Debug, Clone)]
pub enum Weight<B: Backend, const D: usize> {
    /// A float tensor in the checkpoint's layout.
    Plain(Tensor<B, D>),
    /// Words that only kernels of `B` read.
    Packed(Packed<B, D>),
}

/// Weights in a form of their backend.
#[derive(Debug, Clone)]
pub struct Packed<B: Backend, const D: usize> {
    /// Words of 32 bits: `[rows, words of a row]`, or of a filter as its backend keeps them.
    pub(super) words: Tensor<B, 2, Int>,
    /// Shape of the weights in the checkpoint.
    pub(super) shape: [usize; D],
    pub(super) form: Form,
}

/// The form of packed weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// int8 with scales, see [`quantize_q8`].
    Q8,
    /// The filter of a convolution, see [`pack_filter`].
    Filter {
        /// The type in which it is multiplied.
        dtype: DType,
        packing: Packing,
    },
}

/// The packing of a filter, see [`pack_filter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    /// Stride of the convolution.
    pub stride: usize,
    /// True for a transposed convolution.
    pub is_transposed: bool,
    /// The precision of the products and their sums.
    pub precision: Precision,
}

/// The precision of a convolution with a packed filter, in the words of PyTorch's
/// `set_float32_matmul_precision`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// The same as with plain weights, to the bit.
    InOrder,
    /// Sums may have another order than with plain weights, which is faster on some CPUs.
    Highest,
    /// A weight in f32, and its input, may also be the sum of two bf16, where that is faster. Of their 24 bits
    /// this keeps 16.
    High,
}

impl Precision {
    /// Returns the precision of a network in f32 beside networks of this type.
    pub fn beside(dtype: DType) -> Self {
        if dtype == DType::F32 { Self::Highest } else { Self::High }
    }
}

impl<B: Backend, const D: usize> From<Tensor<B, D>> for Weight<B, D> {
    fn from(weight: Tensor<B, D>) -> Self {
        Self::Plain(weight)
    }
}

impl<B: Backend, const D: usize> From<Packed<B, D>> for Weight<B, D> {
    fn from(weight: Packed<B, D>) -> Self {
        Self::Packed(weight)
    }
}

impl<B: Backend, const D: usize> Weight<B, D> {
    /// Returns the shape in the checkpoint.
    pub fn dims(&self) -> [usize; D] {
        match self {
            Self::Plain(weight) => weight.dims(),
            Self::Packed(weight) => weight.shape,
        }
    }

    /// Returns the type of the weights; int8 is `I8`.
    pub fn dtype(&self) -> DType {
        match self {
            Self::Plain(weight) => weight.dtype(),
            Self::Packed(weight) => weight.dtype(),
        }
    }

    /// Returns the tensor, if the weights are not packed.
    pub fn plain(self) -> Option<Tensor<B, D>> {
        match self {
            Self::Plain(weight) => Some(weight),
            Self::Packed(_) => None,
        }
    }
}

impl<B: Backend> Weight<B, 2> {
    /// Returns some rows of a matrix, without a copy if the backend supports views.
    pub fn rows(self, rows: Range<usize>) -> Self {
        let (start, count) = (rows.start, rows.len());
        match self {
            Self::Plain(weight) => Self::Plain(weight.narrow(0, start, count)),
            Self::Packed(Packed { words, shape: [_, width], form }) => {
                let words = words.narrow(0, start, count);
                Self::Packed(Packed { words, shape: [count, width], form })
            }
        }
    }
}

impl<B: Backend, const D: usize> Packed<B, D> {
    /// Returns the shape in the checkpoint.
    pub fn dims(&self) -> [usize; D] {
        self.shape
    }

    /// Returns the type of the weights; int8 is `I8`.
    pub fn dtype(&self) -> DType {
        match self.form {
            Form::Q8 => DType::I8,
            Form::Filter { dtype, .. } => dtype,
        }
    }

    /// Returns the words: `[rows, words of a row]`, or of a filter as its backend keeps them.
    pub fn words(&self) -> &Tensor<B, 2, Int> {
        &self.words
    }

    /// Applies `change` to the words; it must not change their values.
    pub(crate) fn moved<A: Backend>(
        self,
        change: impl FnOnce(Tensor<B, 2, Int>) -> Tensor<A, 2, Int>,
    ) -> Packed<A, D> {
        Packed { words: change(self.words), shape: self.shape, form: self.form }
    }

    /// The body of an operation on a backend without a kernel for packed weights.
    ///
    /// # Panics
    /// Always: such a backend packs no weights.
    pub(super) fn unread(&self) -> ! {
        panic!("{} has no kernel for packed weights", std::any::type_name::<B>())
    }
}

/// Quantises a matrix or table to int8: 32 adjacent values of a row share a scale, which maps the
/// largest magnitude to 127.
///
/// # Panics
/// If `B` does not compute with int8 weights, or `weight` is not a matrix.
///
/// # Shapes
/// - `weight`, output: `[out, in]`
pub fn quantize_q8<B: Backend, const D: usize>(weight: Tensor<B, D>) -> Weight<B, D> {
    let shape = weight.dims();
    assert!(D == 2, "{shape:?} is not the shape of a matrix");
    let words = Tensor::from_primitive(B::quantize_q8(primitive(weight)));
    Weight::Packed(Packed { words, shape, form: Form::Q8 })
}

/// Returns weights of the shape `shape` whose words [`quantize_q8`] made before. Words that are mapped
/// stay where they are.
///
/// # Panics
/// If `B` does not compute with int8 weights, or the words are not those of such weights.
///
/// # Shapes
/// - `words`: `[out, words]`, of the type `U32`, see [`Backend::q8_words`]
/// - output: `[out, in]`
pub fn q8_from_words<B: Backend, const D: usize>(
    words: TensorData,
    shape: [usize; D],
    device: &B::Device,
) -> Weight<B, D> {
    assert!(D == 2, "{shape:?} is not the shape of a matrix");
    let expected = [shape[0], B::q8_words(shape[1])];
    let found: Vec<_> = words.shape.iter().copied().collect();
    assert!(words.dtype == DType::U32 && found == expected, "words of another matrix");
    let words = Tensor::from_primitive(B::q8_from_words(words, device));
    Weight::Packed(Packed { words, shape, form: Form::Q8 })
}

/// Prepacks the filter of a convolution, once and not in every call, if the backend's kernel reads
/// packed filters. [`super::conv1d`], [`super::fused_conv1d`] and [`super::residual_units`] read the result, or
/// [`super::conv_transpose1d`] if it is transposed.
///
/// # Shapes
/// - `weight`, output: `[out, in, k]`, or `[in, out, k]` if it is transposed
pub fn pack_filter<B: Backend>(weight: Tensor<B, 3>, packing: Packing) -> Weight<B, 3> {
    let form = Form::Filter { dtype: weight.dtype(), packing };
    match B::pack_filter(primitive(weight.clone()), packing) {
        Some(words) => {
            let (words, shape) = (Tensor::from_primitive(words), weight.dims());
            Weight::Packed(Packed { words, shape, form })
        }
        None => Weight::Plain(weight),
    }
}
