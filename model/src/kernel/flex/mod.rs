//! The processor's own kernels, on Flex: what its generic operations do slowly.

mod cache;
mod product;

use burn::tensor::ops::FloatTensor;
use burn_flex::Flex;

use super::{Backend, Slot};

impl Backend for Flex {
    fn product(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        product::product(x, weight)
    }

    fn cache_write(
        cache: FloatTensor<Self>,
        new: FloatTensor<Self>,
        slots: &[Slot],
    ) -> FloatTensor<Self> {
        cache::cache_write(cache, new, slots)
    }
}
