//! LoRA: a small addition to a diffusion transformer, learned from a few songs.
//!
//! Songs become latents and their texts conditions once; then only the addition learns, while the
//! model stays as it is. It is written as a PEFT adapter, which every engine of these models reads.
//!
//! Source: upstream `acestep/training`; Hu et al. 2021, arXiv:2106.09685.

mod dataset;
mod export;
mod lesson;
mod song;

use acestep_model::{Backend, acestep::Dit, nn::LowRank};
use burn::module::Module;

pub use dataset::{Entry, read};
pub use export::write;
pub use lesson::{Lessons, Times};
pub use song::{Common, Song, prepare};

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
    /// Nothing yet.
    pub fn init(dit: &mut Dit<B>, shape: &Shape, device: &B::Device) -> Self {
        let is_target = |path: &str| {
            let name = path.rsplit('.').next().unwrap_or_default();
            shape.targets.iter().any(|target| target == name)
        };
        let scale = shape.alpha / shape.rank as f64;
        let (paths, maps) = dit
            .linears()
            .into_iter()
            .filter(|(path, _)| is_target(path))
            .map(|(path, map)| (path, LowRank::init(map.widths(), shape.rank, scale, device)))
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
