//! Training of one network: AdamW, a learning rate with warm-up and decay, gradient clipping, and a
//! running mean of the weights, which is the final result.
//!
//! Source: Loshchilov and Hutter 2017, arXiv:1711.05101 (AdamW); Polyak and Juditsky 1992
//! (averages).

use std::{collections::HashMap, f64::consts::PI};

use burn::{
    module::{AutodiffModule, Module},
    optim::{
        AdamW, AdamWConfig, GradientsAccumulator, GradientsParams, Optimizer,
        adaptor::OptimizerAdaptor,
    },
    record::{BinBytesRecorder, FullPrecisionSettings, Recorder, RecorderError},
    tensor::{DType, Tensor, backend::AutodiffBackend},
};
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;
mod walks;

pub use walks::awake;
use walks::{CastLinears, Length, Mean, Shorten, Weights};

/// Optimizer configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OptimizerConfig {
    /// Total number of steps.
    pub steps: usize,
    /// Learning rate after the warm-up.
    pub rate: f64,
    /// Steps of the warm-up.
    pub warm_up: usize,
    /// Final learning rate, relative to `rate`.
    pub last: f64,
    /// Decay rates of the means of the gradient and of its square.
    pub betas: [f32; 2],
    /// Weight decay.
    pub decay: f32,
    /// Maximum norm of the whole gradient.
    pub longest: f32,
    /// Decay rate of the mean of the weights.
    pub average: f64,
}

impl OptimizerConfig {
    /// Returns the learning rate of a step, counted from 0: linear up, then half a cosine down.
    pub fn rate_at(&self, step: usize) -> f64 {
        if step < self.warm_up {
            return self.rate * (step + 1) as f64 / self.warm_up as f64;
        }
        let left = self.steps.saturating_sub(self.warm_up).max(1);
        let done = ((step - self.warm_up) as f64 / left as f64).min(1.0);
        self.rate * (self.last + (1.0 - self.last) * 0.5 * (1.0 + (PI * done).cos()))
    }
}

/// A network with its training state.
pub struct Learner<B: AutodiffBackend, M: AutodiffModule<B>> {
    /// The network in training.
    pub model: M,
    averaged: M::InnerModule,
    optimizer: OptimizerAdaptor<AdamW, M, B>,
    optimizer_config: OptimizerConfig,
    step: usize,
}

/// Steps between two updates of the mean.
const AVERAGED_EVERY: usize = 4;

impl<B: AutodiffBackend, M: AutodiffModule<B>> Learner<B, M>
where
    M::InnerModule: Module<B::InnerBackend>,
{
    /// Starts with an untrained network.
    pub fn new(model: M, optimizer_config: OptimizerConfig) -> Self {
        let optimizer = AdamWConfig::new()
            .with_beta_1(optimizer_config.betas[0])
            .with_beta_2(optimizer_config.betas[1])
            .with_epsilon(1e-8)
            .with_weight_decay(optimizer_config.decay)
            .init();
        let averaged = model.valid();
        Self { model, averaged, optimizer, optimizer_config, step: 0 }
    }

    /// Returns the number of completed steps.
    pub fn step(&self) -> usize {
        self.step
    }

    /// True if all steps are completed.
    pub fn is_done(&self) -> bool {
        self.step >= self.optimizer_config.steps
    }

    /// Returns the mean of the weights.
    pub fn averaged(&self) -> M::InnerModule {
        self.averaged.clone()
    }

    /// Makes a step from a loss, `[1]`, and returns the norm of its gradient.
    pub fn learn(&mut self, loss: &Tensor<B, 1>) -> f32 {
        self.follow(GradientsParams::from_grads(loss.backward(), &self.model))
    }

    /// Makes a step from the mean of the losses, each `[1]`, that `loss` computes from each of
    /// `items`. Returns the norm of the gradient, and the other results of `loss`.
    ///
    /// `at_once` computes all items in parallel, each on its share of the cores with a copy of the
    /// weights. Matrices of the copies have this type: in bf16 products take half the time on a CPU
    /// that supports it. The trained weights stay in f32. In this mode all weights are trained,
    /// even frozen ones. `None` is for GPUs, which one item keeps busy: items are computed one
    /// after the other, with the memory of one.
    pub fn learn_from_all<T: Send, R: Send>(
        &mut self,
        items: Vec<T>,
        at_once: Option<DType>,
        loss: impl Fn(T, &M) -> (Tensor<B, 1>, R) + Sync,
    ) -> (f32, Vec<R>) {
        let Some(dtype) = at_once else { return self.learn_in_turn(items, loss) };
        let share = 1.0 / items.len() as f64;
        let mut sum = GradientsAccumulator::<M>::new();
        let threads = (rayon::current_num_threads() / items.len().max(1)).max(1);
        let of_one = |item: T, weights: M::InnerModule| {
            // A graph of its own, because backward passes on a shared one would wait for each
            // other.
            let model: M = awake(weights.map(&mut CastLinears { dtype, path: vec![] }));
            let (loss, rest) = loss(item, &model);
            (GradientsParams::from_grads((loss * share).backward(), &model), rest)
        };
        // Its own thread pool, because sharing work between items costs more than it gains.
        let of_one = |item: T, weights: M::InnerModule| match rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
        {
            Ok(pool) => pool.install(|| of_one(item, weights)),
            Err(_) => of_one(item, weights),
        };
        let mut rests = Vec::with_capacity(items.len());
        // Separate threads, because a waiting thread of the pool would take other work.
        std::thread::scope(|scope| {
            let threads: Vec<_> = items
                .into_iter()
                .map(|item| (item, self.model.valid()))
                .map(|(item, weights)| scope.spawn(|| of_one(item, weights)))
                .collect();
            for thread in threads {
                let (gradients, rest) =
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                sum.accumulate(&self.model, gradients);
                rests.push(rest);
            }
        });
        (self.follow(sum.grads()), rests)
    }

    /// As [`learn_from_all`](Self::learn_from_all), one item after the other.
    pub fn learn_in_turn<T, R>(
        &mut self,
        items: Vec<T>,
        mut loss: impl FnMut(T, &M) -> (Tensor<B, 1>, R),
    ) -> (f32, Vec<R>) {
        let share = 1.0 / items.len() as f64;
        let mut sum = GradientsAccumulator::<M>::new();
        let of_one = |item: T| {
            let (loss, rest) = loss(item, &self.model);
            let gradients = (loss * share).backward();
            sum.accumulate(&self.model, GradientsParams::from_grads(gradients, &self.model));
            rest
        };
        let rests = items.into_iter().map(of_one).collect();
        (self.follow(sum.grads()), rests)
    }

    fn follow(&mut self, gradients: GradientsParams) -> f32 {
        let mut length =
            Length::<B> { gradients: &gradients, square: 0.0, _backend: Default::default() };
        self.model.visit(&mut length);
        let length = length.square.sqrt() as f32;
        let mut gradients = gradients;
        if length.is_finite() && length > self.optimizer_config.longest {
            let factor = self.optimizer_config.longest / length;
            let mut shorten =
                Shorten::<B> { gradients: &mut gradients, factor, _backend: Default::default() };
            self.model.visit(&mut shorten);
        }
        // Skip the step if the gradient is NaN or infinite; the next step has other data.
        if length.is_finite() {
            let rate = self.optimizer_config.rate_at(self.step);
            self.model = self.optimizer.step(rate, self.model.clone(), gradients);
        }
        self.step += 1;
        if self.step.is_multiple_of(AVERAGED_EVERY) || self.is_done() {
            self.average();
        }
        length
    }

    fn average(&mut self) {
        // The first means give the new weights a larger share: 9 / (10 + n) for mean n.
        let counted = self.step as f64 / AVERAGED_EVERY as f64;
        let keep = self.optimizer_config.average.powi(AVERAGED_EVERY as i32);
        let keep = keep.min((1.0 + counted) / (10.0 + counted));
        let mut weights = Weights::<B::InnerBackend>(HashMap::new());
        self.model.valid().visit(&mut weights);
        self.averaged = self.averaged.clone().map(&mut Mean { weights: weights.0, keep });
    }

    /// Returns the complete state, to resume training later.
    ///
    /// # Errors
    /// If it cannot be serialised.
    pub fn state(&self) -> Result<[Vec<u8>; 3], RecorderError> {
        let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
        let model = Recorder::<B>::record(&recorder, self.model.clone().into_record(), ())?;
        let averaged = self.averaged.clone().into_record();
        let averaged = Recorder::<B::InnerBackend>::record(&recorder, averaged, ())?;
        let optimizer = Recorder::<B>::record(&recorder, self.optimizer.to_record(), ())?;
        Ok([model, averaged, optimizer])
    }

    /// Resumes from a state after `step` steps.
    ///
    /// # Errors
    /// If the state is of another network.
    pub fn restore(
        self,
        [model, averaged, optimizer]: [Vec<u8>; 3],
        step: usize,
        device: &B::Device,
    ) -> Result<Self, RecorderError> {
        let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
        let model = self.model.load_record(Recorder::<B>::load(&recorder, model, device)?);
        let averaged = Recorder::<B::InnerBackend>::load(&recorder, averaged, device)?;
        let averaged = self.averaged.load_record(averaged);
        let optimizer = Recorder::<B>::load(&recorder, optimizer, device)?;
        let optimizer = self.optimizer.load_record(optimizer);
        Ok(Self { model, averaged, optimizer, step, ..self })
    }
}
