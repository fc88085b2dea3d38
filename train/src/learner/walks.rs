//! Visitors and mappers over all weights of a network.

use std::collections::HashMap;

use burn::{
    module::{AutodiffModule, ModuleMapper, ModuleVisitor, Param, ParamId},
    optim::GradientsParams,
    tensor::{
        DType, Tensor, TensorPrimitive,
        backend::{AutodiffBackend, Backend},
    },
};

/// Converts a loaded network to a trainable one: all its weights get gradients, which inference
/// networks do not have.
pub fn awake<B: AutodiffBackend, M: AutodiffModule<B>>(network: M::InnerModule) -> M {
    M::from_inner(network).map(&mut Awake)
}

/// Casts the matrices of linear layers, except those of the timestep embedding. The type of these
/// sets the rounding of timesteps, and training on rounded timesteps covers no others.
pub(super) struct CastLinears {
    pub(super) dtype: DType,
    /// Types of the modules on the path to the parameter.
    pub(super) path: Vec<String>,
}

impl<B: Backend> ModuleMapper<B> for CastLinears {
    fn enter_module(&mut self, _name: &str, layer: &str) {
        self.path.push(layer.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _layer: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let is_map = self.path.last().is_some_and(|layer| layer == "Struct:Linear");
        let is_of_time = self.path.iter().any(|layer| layer == "Struct:TimestepEmbedding");
        if D != 2 || !is_map || is_of_time {
            return param;
        }
        let (id, value, mapper) = param.consume();
        Param::from_mapped_value(id, value.cast(self.dtype), mapper)
    }
}

struct Awake;

impl<B: AutodiffBackend> ModuleMapper<B> for Awake {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let (id, value, mapper) = param.consume();
        Param::from_mapped_value(id, value.require_grad(), mapper)
    }
}

/// Sums the squares of all gradients.
pub(super) struct Length<'a, B> {
    pub(super) gradients: &'a GradientsParams,
    pub(super) square: f64,
    pub(super) _backend: std::marker::PhantomData<B>,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for Length<'_, B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if let Some(gradient) = self.gradients.get::<B::InnerBackend, D>(param.id) {
            let values = gradient.square().sum().into_data().convert::<f32>();
            self.square += values.iter::<f32>().map(f64::from).sum::<f64>();
        }
    }
}

/// Scales all gradients.
pub(super) struct Shorten<'a, B> {
    pub(super) gradients: &'a mut GradientsParams,
    pub(super) factor: f32,
    pub(super) _backend: std::marker::PhantomData<B>,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for Shorten<'_, B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if let Some(gradient) = self.gradients.remove::<B::InnerBackend, D>(param.id) {
            self.gradients.register(param.id, gradient * self.factor);
        }
    }
}

/// All weights of a network, by their id.
pub(super) struct Weights<B: Backend>(pub(super) HashMap<ParamId, TensorPrimitive<B>>);

impl<B: Backend> ModuleVisitor<B> for Weights<B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.0.insert(param.id, param.val().into_primitive());
    }
}

/// Moves weights towards the given weights.
pub(super) struct Mean<B: Backend> {
    pub(super) weights: HashMap<ParamId, TensorPrimitive<B>>,
    pub(super) keep: f64,
}

impl<B: Backend> ModuleMapper<B> for Mean<B> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let (id, old, mapper) = param.consume();
        let new = match self.weights.remove(&id) {
            Some(weight) => old * self.keep + Tensor::from_primitive(weight) * (1.0 - self.keep),
            None => old,
        };
        Param::from_mapped_value(id, new, mapper)
    }
}
