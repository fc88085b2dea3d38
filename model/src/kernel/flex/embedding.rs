//! Lookup in an embedding table.

use burn::tensor::{DType, TensorMetadata};
use burn_flex::{Flex, FlexTensor};

use super::{
    super::{primitive, reference, tensor},
    eight,
};

/// Kernel of [`super::super::Backend::embedding`]; of an int8 table only the requested rows are
/// converted.
pub(super) fn embedding(weight: FlexTensor, ids: FlexTensor) -> FlexTensor {
    let ids = burn::tensor::Tensor::from_primitive(ids);
    if weight.dtype() != DType::I8 {
        return primitive(reference::embedding::<Flex>(tensor(weight), ids));
    }
    let [batch, length] = ids.dims();
    let rows: Vec<usize> = ids.into_data().iter::<i64>().map(|id| id as usize).collect();
    let [count, width] = [0, 1].map(|axis| weight.shape()[axis]);
    assert!(rows.iter().all(|&row| row < count), "a token is none of the table's {count}");
    let found = eight::widened(&weight, rows.into_iter());
    primitive(tensor::<Flex, 2>(found).reshape([batch, length, width]))
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Int, Tensor};

    use super::*;
    use crate::kernel;

    #[test]
    fn rows_of_eight_bits_are_those_of_the_widened_table() {
        let table = super::super::tests::random([50, 200]);
        let eight = kernel::quantize_q8(table);
        let wide: Tensor<Flex, 2> = tensor(eight::widened(&primitive(eight.clone()), 0..50));
        let ids = Tensor::<Flex, 2, Int>::from_ints([[3, 49, 0], [3, 7, 8]], &Default::default());
        let expected = kernel::embedding(wide, ids.clone()).into_data();
        assert_eq!(kernel::embedding(eight, ids).into_data(), expected);
    }
}
