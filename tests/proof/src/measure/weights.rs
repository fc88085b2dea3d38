//! Random weights of a network whose speed is measured.

use acestep_model::{Backend, Place, kept_as, nn::quantizing};
use burn::{
    module::{Module, ModuleMapper, Param, ParamId},
    tensor::{DType, Int, Tensor, TensorData},
};
use half::bf16;
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use rayon::prelude::*;

/// Parameters of at least so many values are made on all cores: Burn makes them on one, which takes half a minute for
/// a large network.
const LARGE: usize = 1 << 18;

/// Values that a core makes at a time.
const PIECE: usize = 1 << 14;

/// Initialises `module` in `dtype`, by the rule of [`kept_as`]. Large parameters get random values, the others
/// Burn's initial ones. At most one parameter is in memory in a wider type.
pub(crate) fn random_weights<B: Backend, M: Module<B>>(module: M, dtype: DType) -> M {
    let random = || module.map(&mut RandomWeights { dtype, path: Vec::new(), made: 0 });
    if dtype == DType::I8 { quantizing(random) } else { random() }
}

/// Returns values from -1 to 1 in the type that networks of `place` compute in.
pub(crate) fn random<B: Backend, const D: usize>(
    shape: [usize; D],
    place: &Place<B>,
) -> Tensor<B, D> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
    Tensor::from_data(TensorData::new(values, shape), (&place.device, place.computes_in()))
}

/// Returns ids or codes below `most`.
pub(crate) fn codes<B: Backend>(
    shape: [usize; 2],
    most: usize,
    device: &B::Device,
) -> Tensor<B, 2, Int> {
    let count: usize = shape.iter().product();
    let values: Vec<i32> = (0..count).map(|i| (i * 37 % most) as i32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

struct RandomWeights {
    dtype: DType,
    /// Names and types of the layers on the path to the parameter.
    path: Vec<[String; 2]>,
    /// The number of large parameters so far, so that each has values of its own.
    made: u64,
}

impl<B: Backend> ModuleMapper<B> for RandomWeights {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let [name, layer] = self.path.last().cloned().unwrap_or_default();
        let kept = kept_as::<B>(&name, &layer, self.dtype);
        let shape = param.lazy_shape();
        if param.is_initialized() || shape.num_elements() < LARGE {
            return param.map(|weight| match kept {
                // Quantised after this, by the weight itself.
                DType::I8 => weight,
                float => weight.cast(float),
            });
        }
        let device = param.lazy_device();
        self.made += 1;
        // A sum of products has about the size of a factor, as in a trained network.
        let most = 1.0 / (shape.num_elements() as f32 / shape[0] as f32).sqrt();
        let (count, shape) = (shape.num_elements(), shape.to_vec());
        let tensor = match kept {
            DType::BF16 | DType::I8 => {
                let values = values(self.made, count, |value| bf16::from_f32(value * most));
                Tensor::from_data(TensorData::new(values, shape), (&device, DType::BF16))
            }
            float => {
                let values = values(self.made, count, |value| value * most);
                let wide: Tensor<B, D> =
                    Tensor::from_data(TensorData::new(values, shape), (&device, DType::F32));
                wide.cast(float)
            }
        };
        Param::initialized(ParamId::new(), tensor)
    }

    fn enter_module(&mut self, name: &str, layer: &str) {
        self.path.push([name, layer].map(str::to_owned));
    }

    fn exit_module(&mut self, _name: &str, _layer: &str) {
        self.path.pop();
    }
}

/// Returns `count` values of parameter `number`, each made by `value` of a number from -1 to 1.
fn values<T: Copy + Default + Send>(
    number: u64,
    count: usize,
    value: impl Fn(f32) -> T + Sync,
) -> Vec<T> {
    let mut values = vec![T::default(); count];
    values.par_chunks_mut(PIECE).enumerate().for_each(|(piece, values)| {
        let mut random = SmallRng::seed_from_u64(number << 32 | piece as u64);
        values.iter_mut().for_each(|to| *to = value(random.random_range(-1.0..1.0)));
    });
    values
}

#[cfg(test)]
mod tests {
    use acestep_model::{cast, nn::Linear};
    use burn::module::ModuleVisitor;
    use burn_flex::Flex;

    use super::*;

    /// Types and shapes of parameters.
    #[derive(Debug, Default, PartialEq)]
    struct Seen(Vec<(DType, Vec<usize>)>);

    impl<B: Backend> ModuleVisitor<B> for Seen {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            self.0.push((param.val().dtype(), param.shape().to_vec()));
        }

        fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<B, D, Int>>) {
            self.0.push((param.val().dtype(), param.shape().to_vec()));
        }
    }

    #[test]
    fn parameters_have_the_types_and_shapes_of_a_network_that_is_converted() {
        for dtype in [DType::F32, DType::BF16, DType::F16, DType::I8] {
            let network = || {
                [600, 8].map(|out| Linear::<Flex>::init_with_bias(512, out, &Default::default()))
            };
            let [mut ours, mut expected] = [Seen::default(), Seen::default()];
            random_weights(network(), dtype).visit(&mut ours);
            cast(network(), dtype).visit(&mut expected);
            assert_eq!(ours, expected);
            assert_eq!(ours.0.len(), 4);
        }
    }

    #[test]
    fn random_values_fill_the_range_evenly_and_differ_from_parameter_to_parameter() {
        let made = values(1, 3 * PIECE + 5, f64::from);
        assert_eq!(made.len(), 3 * PIECE + 5);
        assert!(made.iter().all(|value| (-1.0..1.0).contains(value)));
        let count = made.len() as f64;
        let mean = made.iter().sum::<f64>() / count;
        let square = made.iter().map(|value| value * value).sum::<f64>() / count;
        assert!(mean.abs() < 0.01 && (square - 1.0 / 3.0).abs() < 0.01, "{mean} {square}");
        assert_ne!(made[..PIECE], made[PIECE..2 * PIECE]);
        assert_ne!(made, values(2, 3 * PIECE + 5, f64::from));
    }
}
