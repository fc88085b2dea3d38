use acestep_import::Network;
use burn::{
    backend::Autodiff,
    module::{ModuleMapper, Param},
    tensor::TensorData,
};
use burn_flex::Flex;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;

use super::*;
use crate::{random::normal, release::tensors_of};

type Learning = Autodiff<Flex>;

const OPTIMIZER: OptimizerConfig = OptimizerConfig {
    steps: 3,
    rate: 1e-2,
    warm_up: 1,
    last: 1.0,
    betas: [0.9, 0.999],
    decay: 0.0,
    longest: 1e-3,
    average: 0.0,
};

/// Returns a network with the same random weights in every run: all tests share Burn's generator.
fn seeded<M: Module<Learning>>(network: M) -> M {
    network.map(&mut Drawn(Pcg64::seed_from_u64(1)))
}

/// Draws all parameters that are neither zeros nor ones.
struct Drawn(Pcg64);

impl ModuleMapper<Learning> for Drawn {
    fn map_float<const D: usize>(
        &mut self,
        param: Param<Tensor<Learning, D>>,
    ) -> Param<Tensor<Learning, D>> {
        let (sizes, device) = (param.dims(), param.device());
        let old: Vec<f32> = param.val().into_data().to_vec().expect("f32");
        if old.iter().all(|x| *x == old[0]) {
            return param;
        }
        // As the networks do it: matrices have unit gain.
        let std = if D == 1 { 0.02 } else { (sizes[D - 1] as f32).powf(-0.5) };
        let new = normal(&mut self.0, old.len()).into_iter().map(|x| std * x).collect();
        let new = TensorData::new::<f32, _>(new, sizes);
        param.map(|_| Tensor::<Learning, D>::from_data(new, &device).require_grad())
    }
}

#[test]
fn a_network_that_was_only_used_can_learn() {
    type Map<B> = acestep_model::nn::Linear<B>;
    let device = Default::default();
    let used = Map::<burn_flex::Flex>::init(3, 2, &device).no_grad();
    let gradient = |map: Map<Learning>| {
        let loss = map.forward(Tensor::<Learning, 2>::ones([1, 3], &device)).sum();
        let gradients = GradientsParams::from_grads(loss.backward(), &map);
        let mut length =
            Length::<Learning> { gradients: &gradients, square: 0.0, _backend: Default::default() };
        map.visit(&mut length);
        length.square
    };
    assert_eq!(gradient(Map::from_inner(used.clone())), 0.0);
    // Three weights for each of two outputs; each gradient is one.
    assert_eq!(gradient(awake(used)), 6.0);
}

#[test]
fn parts_at_once_and_one_after_the_other_teach_what_their_mean_does() {
    let device = Default::default();
    let map = seeded(acestep_model::nn::Linear::<Learning>::init(3, 2, &device));
    let loss = |item: f32, map: &acestep_model::nn::Linear<Learning>| {
        let x = Tensor::<Learning, 2>::from_data([[1.0, item, -2.0]], &device);
        let loss = (map.forward(x) - item).square().sum();
        (loss.clone(), loss.into_scalar())
    };
    let weights = |map: &acestep_model::nn::Linear<Learning>| -> Vec<f32> {
        map.forward(Tensor::eye(3, &device)).into_data().to_vec().expect("f32")
    };
    let start = weights(&map);
    let learners = || Learner::new(map.clone(), OPTIMIZER);
    let [mut whole, mut at_once, mut in_turn] = [learners(), learners(), learners()];
    for step in 0..3 {
        let items = [step as f32, 2.5, -1.0];
        let all = items.map(|item| loss(item, &whole.model).0);
        let length = whole.learn(&(Tensor::cat(all.to_vec(), 0).mean()));
        let (near, losses) = at_once.learn_from_all(items.to_vec(), Some(DType::F32), loss);
        let (also_near, same_losses) = in_turn.learn_from_all(items.to_vec(), None, loss);
        assert_eq!((near, losses), (also_near, same_losses));
        assert!((near / length - 1.0).abs() < 1e-5, "{near} for {length}");
    }
    let [whole, at_once, in_turn] = [whole, at_once, in_turn].map(|of| weights(&of.model));
    assert_eq!(at_once, in_turn);
    let apart = whole.iter().zip(&at_once).map(|(a, b)| (a - b).abs());
    assert!(apart.fold(0.0, f32::max) < 1e-5);
    assert_ne!(whole, start);
}

/// Twenty rows, so that bf16 uses the product for many rows. All weights learn, including matrices,
/// and their gradients differ by no more than bf16 rounding.
#[test]
fn matrices_in_bf16_teach_nearly_what_those_in_f32_do() {
    let device = Default::default();
    let map = seeded(acestep_model::nn::Linear::<Learning>::init_with_bias(40, 24, &device));
    let mut random = Pcg64::seed_from_u64(2);
    let x: Vec<f32> = (0..20 * 40).map(|_| random.random()).collect();
    let x = Tensor::<Learning, 2>::from_data(TensorData::new(x, [20, 40]), &device);
    // Each value separately: in a sum, a weight and a bias may move by equal amounts in opposite
    // directions.
    let numbers = |map: &acestep_model::nn::Linear<Learning>| -> Vec<f32> {
        tensors_of(map, Network::Dit).into_values().flat_map(|of| of.values).collect()
    };
    let start = numbers(&map);
    assert_eq!(start.len(), 40 * 24 + 24);
    let loss = |shift: f32, map: &acestep_model::nn::Linear<Learning>| {
        ((map.forward(x.clone()) - shift).square().mean(), ())
    };
    let optimizer_config = OptimizerConfig { longest: 1e3, ..OPTIMIZER };
    let learned = [DType::F32, DType::BF16].map(|dtype| {
        let mut learner = Learner::new(map.clone(), optimizer_config.clone());
        let (length, _) = learner.learn_from_all(vec![0.5, 1.0], Some(dtype), loss);
        (length, numbers(&learner.model))
    });
    let [(wide, exact), (narrow, ours)] = learned;
    assert!(wide != narrow && (narrow / wide - 1.0).abs() < 0.01, "{narrow} for {wide}");
    // The first step of AdamW has equal size for every weight; only the gradient's sign counts.
    let same = |((a, b), old): &((&f32, &f32), &f32)| (**a > **old) == (**b > **old);
    let count = exact.iter().zip(&ours).zip(&start).filter(same).count();
    assert!(count > start.len() * 98 / 100, "{count} of {}", start.len());
    assert!(ours.iter().zip(&start).all(|(new, old)| new != old));
}

/// Losses and gradient norms of three steps of a small language model.
#[cfg(feature = "wgpu")]
struct ThreeSteps<'a>(&'a [Vec<u8>; 3]);

#[cfg(feature = "wgpu")]
impl acestep_engine::BackendWork for ThreeSteps<'_> {
    type Output = Vec<f32>;

    fn run<B: acestep_model::Backend>(self, place: acestep_model::Place<B>) -> Vec<f32> {
        type Learning<B> = burn::backend::Autodiff<B>;
        let device = place.device;
        let learner = Learner::new(small::<Learning<B>>(&device), OPTIMIZER);
        let mut learner = learner.restore(self.0.clone(), 0, &device).expect("a state");
        let step = |step: usize| {
            let ids = [[1 + step as i32, 5, 9, 2, 7]];
            let ids = Tensor::<Learning<B>, 2, burn::tensor::Int>::from_data(ids, &device);
            let scores = burn::tensor::activation::log_softmax(learner.model.forward(ids), 2);
            let loss = scores.narrow(2, 3, 1).mean() * -1.0;
            let nats = loss.clone().into_data().iter::<f32>().next().expect("a loss");
            [nats, learner.learn(&loss)]
        };
        let learned = (0..3).flat_map(step).collect();
        // Wait for the last step: a software driver may crash if the process ends during its work.
        B::sync(&device).expect("a device");
        learned
    }
}

#[cfg(feature = "wgpu")]
fn small<B: acestep_model::Backend>(device: &B::Device) -> acestep_model::qwen3::Causal<B> {
    let text =
        include_str!("../../../tests/goldens/checkpoints_a/Qwen3-Embedding-0.6B/config.json");
    let config = acestep_model::qwen3::Config::from_json(text).expect("sizes");
    acestep_model::qwen3::Causal::init(&config, device)
}

/// A GPU resumes from a state of the CPU and computes the same steps.
#[cfg(feature = "wgpu")]
#[test]
fn a_card_learns_what_the_processor_does() {
    use acestep_engine::{Device, Engine};
    let start = Learner::<Learning, _>::new(seeded(small(&Default::default())), OPTIMIZER);
    let state = start.state().expect("a state");
    let on = |device| {
        let engine = Engine { device, dtype: burn::tensor::DType::F32 };
        engine.run(ThreeSteps(&state)).expect("a device")
    };
    let (expected, learned) = (on(Device::Cpu), on(Device::Wgpu(0)));
    assert!(expected[4] < expected[0], "it learns: {expected:?}");
    for (a, b) in learned.iter().zip(&expected) {
        assert!((a / b - 1.0).abs() < 1e-4, "{learned:?} for {expected:?}");
    }
}

#[test]
fn the_rate_rises_in_a_line_and_falls_in_half_a_cosine() {
    let optimizer_config =
        OptimizerConfig { steps: 110, rate: 2.0, warm_up: 10, last: 0.1, ..OPTIMIZER };
    assert_eq!(optimizer_config.rate_at(0), 0.2);
    assert_eq!(optimizer_config.rate_at(9), 2.0);
    assert_eq!(optimizer_config.rate_at(10), 2.0);
    assert!((optimizer_config.rate_at(60) - 1.1).abs() < 1e-9);
    assert!((optimizer_config.rate_at(110) - 0.2).abs() < 1e-9);
}
