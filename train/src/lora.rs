//! LoRA: trains a small adapter of a diffusion transformer with a few songs.
//!
//! Songs are encoded to latents and their texts to conditions once. Then only the adapter is
//! trained, while the model is frozen. It is written as a PEFT adapter, which all engines of these
//! models read.
//!
//! Source: upstream `acestep/training`; Hu et al. 2021, arXiv:2106.09685.

mod dataset;
mod dataset_file;
mod examples;
mod export;
mod learn;
mod sidecar;
mod song;
mod table;
mod twins;

use acestep_model::{
    Backend,
    acestep::Dit,
    nn::{Dropout, LowRank},
};
use burn::{
    module::Module,
    tensor::{DType, Tensor, TensorData},
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::run::seed_of;

pub use dataset::{DatasetSong, read};
pub use examples::{Examples, Timesteps};
pub use export::write;
pub use learn::{Losses, TrainingSettings, check_dtype, learn};
pub use song::{Common, TrainingSong, prepare};

/// Settings of an adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// The rank of the low-rank matrices.
    pub rank: usize,
    /// Determines the scale of the adapter: `alpha / rank`.
    pub alpha: f64,
    /// Probability that a step of the training ignores a value of the adapter's input.
    pub dropout: f64,
    /// Names of the adapted linear layers, such as `q_proj`.
    pub targets: Vec<String>,
}

/// The linear layers of a transformer layer that can be adapted.
pub const TARGETS: [&str; 7] =
    ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

/// The adapter of a transformer.
#[derive(Module, Debug)]
pub struct Addition<B: Backend> {
    maps: Vec<LowRank<B>>,
    #[module(skip)]
    paths: Vec<String>,
}

impl<B: Backend> Addition<B> {
    /// A new adapter without effect: in each pair the first matrix is random, the second is zero.
    pub fn init(dit: &mut Dit<B>, shape: &Shape, seed: u64, device: &B::Device) -> Self {
        let is_target = |path: &str| {
            let name = path.rsplit('.').next().unwrap_or_default();
            shape.targets.iter().any(|target| target == name)
        };
        let (rank, scale) = (shape.rank, shape.alpha / shape.rank as f64);
        let mut random = Pcg64::seed_from_u64(seed);
        let mut low_rank = |[input, output]: [usize; 2]| {
            let bound = (input as f32).powf(-0.5);
            let values = (0..rank * input).map(|_| random.random_range(-bound..bound)).collect();
            let values = TensorData::new::<f32, _>(values, [rank, input]);
            let place = (device, DType::F32);
            LowRank::new(
                Tensor::from_data(values, place),
                Tensor::zeros([output, rank], place),
                scale,
            )
        };
        let (paths, maps) = dit
            .linears()
            .into_iter()
            .filter(|(path, _)| is_target(path))
            .map(|(path, map)| (path, low_rank(map.widths())))
            .unzip();
        Self { maps, paths }
    }

    /// The transformer with the adapter, whose inputs have `dropout`, at other places in each layer.
    pub fn added_to(&self, dit: &Dit<B>, dropout: Option<Dropout>) -> Dit<B> {
        let mut dit = dit.clone();
        let mut own = self.paths.iter().zip(&self.maps).peekable();
        for (index, (path, map)) in dit.linears().into_iter().enumerate() {
            if let Some((_, low_rank)) = own.next_if(|(of, _)| **of == path) {
                let dropout = dropout.map(|of| Dropout { seed: seed_of(of.seed, index), ..of });
                map.adapt(Some(low_rank.clone().with_dropout(dropout)));
            }
        }
        dit
    }

    /// The low-rank matrices, each with the path of its layer.
    pub fn maps(&self) -> impl Iterator<Item = (&str, &LowRank<B>)> {
        self.paths.iter().map(String::as_str).zip(&self.maps)
    }
}

#[cfg(test)]
mod tests;
