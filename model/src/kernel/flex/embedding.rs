//! Lookup in an int8 embedding table.

use burn_flex::{Flex, FlexTensor};

use super::{
    super::{primitive, tensor},
    eight::Q8,
};

/// Kernel of [`super::super::Backend::packed_embedding`]; only the requested rows are converted.
pub(super) fn packed_embedding(weight: Q8, ids: FlexTensor) -> FlexTensor {
    let ids = burn::tensor::Tensor::<Flex, 2, burn::tensor::Int>::from_primitive(ids);
    let [batch, length] = ids.dims();
    let rows: Vec<usize> = ids.into_data().iter::<i64>().map(|id| id as usize).collect();
    let [count, width] = weight.dims();
    assert!(rows.iter().all(|&row| row < count), "a token is none of the table's {count}");
    let found = weight.widened(rows.into_iter());
    primitive(tensor::<Flex, 2>(found).reshape([batch, length, width]))
}

#[cfg(test)]
mod tests {
    use crate::kernel::flex::level::tests::at_every_level;
    use burn::tensor::{Int, Tensor};

    use super::{super::matrix::Matrix, *};
    use crate::kernel;

    #[test]
    fn rows_of_eight_bits_are_those_of_the_widened_table() {
        at_every_level(|| {
            let table = super::super::tests::random([50, 200]);
            let eight = kernel::quantize_q8::<Flex, 2>(table);
            let Matrix::Q8(rows) = eight.clone().into() else { panic!("a table in int8") };
            let wide: Tensor<Flex, 2> = tensor(rows.widened(0..50));
            let ids =
                Tensor::<Flex, 2, Int>::from_ints([[3, 49, 0], [3, 7, 8]], &Default::default());
            let expected = kernel::embedding(wide, ids.clone()).into_data();
            assert_eq!(kernel::embedding(eight, ids).into_data(), expected);
        });
    }
}
