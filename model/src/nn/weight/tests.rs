use burn_flex::Flex;

use super::*;
use crate::{
    cast::cast,
    kernel::ConvGeometry,
    nn::{Conv1d, Linear},
    testing::values,
};

/// Multiplies all floats.
struct Multiply(f32);

impl ModuleMapper<Flex> for Multiply {
    fn map_float<const D: usize>(
        &mut self,
        param: Param<Tensor<Flex, D>>,
    ) -> Param<Tensor<Flex, D>> {
        param.map(|x| x * self.0)
    }
}

/// Numbers of float and integer parameters.
#[derive(Default)]
struct Kinds([usize; 2]);

impl ModuleVisitor<Flex> for Kinds {
    fn visit_float<const D: usize>(&mut self, _: &Param<Tensor<Flex, D>>) {
        self.0[0] += 1;
    }

    fn visit_int<const D: usize>(&mut self, _: &Param<Tensor<Flex, D, Int>>) {
        self.0[1] += 1;
    }
}

fn kinds(module: &impl Module<Flex>) -> [usize; 2] {
    let mut kinds = Kinds::default();
    module.visit(&mut kinds);
    kinds.0
}

/// The matrix is int8 afterwards, the bias is not.
#[test]
fn a_weight_in_int8_is_counted_and_no_mapper_changes_it() {
    let device = Default::default();
    let map = cast(Linear::<Flex>::init_with_bias(200, 9, &device), DType::I8);
    assert_eq!((map.dtype(), map.widths()), (DType::I8, [200, 9]));
    assert_eq!((Module::num_params(&map), kinds(&map)), (200 * 9 + 9, [1, 1]));
    let x = || Tensor::<Flex, 3>::ones([1, 2, 200], &device);
    let y = values(map.forward(x()));
    // Only the bias is multiplied by zero.
    let without = values(map.clone().map(&mut Multiply(0.0)).forward(x()));
    let bias: Vec<f32> = y.iter().zip(&without).map(|(y, without)| y - without).collect();
    assert!(without.iter().all(|y| *y != 0.0), "{without:?}");
    assert!(bias[..9].iter().zip(&bias[9..]).all(|(a, b)| (a - b).abs() < 1e-6), "{bias:?}");
}

#[test]
fn matrices_are_quantised_only_meanwhile() {
    let init = || Linear::<Flex>::init(40, 3, &Default::default());
    let within = quantizing(|| init().map(&mut Multiply(1.0)));
    let failed = std::panic::catch_unwind(|| quantizing(|| panic!("a mapper fails")));
    assert!(failed.is_err());
    assert_eq!([kinds(&within), kinds(&init().map(&mut Multiply(1.0)))], [[0, 1], [1, 0]]);
}

/// The words that are set are taken once; another value of the mapper changes nothing.
#[test]
fn words_that_were_kept_are_taken_in_place_of_a_value() {
    struct Kept(TensorData);
    impl ModuleMapper<Flex> for Kept {
        fn map_float<const D: usize>(
            &mut self,
            param: Param<Tensor<Flex, D>>,
        ) -> Param<Tensor<Flex, D>> {
            set_q8_words(self.0.clone());
            param.map(|weight| weight * 0.0)
        }
    }
    let plain = Linear::<Flex>::init(200, 9, &Default::default());
    let Weight::Packed(packed) = kernel::quantize_q8(plain.weight().plain().expect("one")) else {
        panic!("int8")
    };
    let words = packed.words().clone().into_data();
    assert_eq!((words.shape.to_vec(), words.dtype), (vec![9, 72], DType::U32));
    let x = || Tensor::<Flex, 3>::ones([1, 2, 200], &Default::default());
    let expected = values(cast(plain.clone(), DType::I8).forward(x()));
    let kept = quantizing(|| plain.clone().map(&mut Kept(words)));
    assert_eq!(values(kept.forward(x())), expected);
    let later = quantizing(|| plain.map(&mut Multiply(1.0)));
    assert_eq!(values(later.forward(x())), expected);
}

/// As after loading. It counts the weights of the checkpoint, not the words.
#[test]
fn a_prepacked_filter_is_counted_and_packed_once() {
    let geometry = ConvGeometry { padding: [3; 2], ..Default::default() };
    let conv = Conv1d::<Flex>::init_with_bias([5, 13], 7, geometry, &Default::default());
    let x = || Tensor::<Flex, 3>::ones([1, 5, 40], &Default::default());
    let plain = values(conv.forward(x()));
    let packed = conv.prepacked();
    assert_eq!((Module::num_params(&packed), kinds(&packed)), (5 * 13 * 7 + 13, [1, 1]));
    assert_eq!(values(packed.forward(x())), plain);
    assert_eq!(values(packed.prepacked().forward(x())), plain);
}
