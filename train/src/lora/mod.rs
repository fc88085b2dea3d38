//! LoRA: a small addition to a diffusion transformer, learned from a few songs.
//!
//! Songs become latents and their texts conditions once; then only the addition learns, while the
//! model stays as it is. It is written as a PEFT adapter, which every engine of these models reads.
//!
//! Source: upstream `acestep/training`; Hu et al. 2021, arXiv:2106.09685.

mod dataset;
mod export;
mod lesson;
mod sidecar;
mod song;
mod twins;

use acestep_model::{Backend, acestep::Dit, nn::LowRank};
use burn::{
    module::Module,
    tensor::{DType, Tensor, TensorData},
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

pub use dataset::{Entry, read};
pub use export::write;
pub use lesson::{Lessons, Times};
pub use song::{Common, Song, prepare};
pub use twins::twins;

/// What is learned.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Width of the thin matrices.
    pub rank: usize,
    /// How much they count: `alpha / rank`.
    pub alpha: f64,
    /// Names of the maps that are added to: `q_proj`.
    pub targets: Vec<String>,
}

/// The maps of a layer that can be added to.
pub const TARGETS: [&str; 7] =
    ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

/// All that is added to a transformer.
#[derive(Module, Debug)]
pub struct Addition<B: Backend> {
    maps: Vec<LowRank<B>>,
    #[module(skip)]
    paths: Vec<String>,
}

impl<B: Backend> Addition<B> {
    /// Nothing yet: the second of each two matrices is zero, the first random.
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

    /// The transformer with what has been learned.
    pub fn added_to(&self, dit: &Dit<B>) -> Dit<B> {
        let mut dit = dit.clone();
        let mut own = self.paths.iter().zip(&self.maps).peekable();
        for (path, map) in dit.linears() {
            if let Some((_, low_rank)) = own.next_if(|(of, _)| **of == path) {
                map.adapt(Some(low_rank.clone()));
            }
        }
        dit
    }

    /// The maps by their paths.
    pub fn maps(&self) -> impl Iterator<Item = (&str, &LowRank<B>)> {
        self.paths.iter().map(String::as_str).zip(&self.maps)
    }
}

#[cfg(test)]
mod tests;
