//! Released results of a stage, and their identification by digest.

use std::{
    fs,
    path::{Path, PathBuf},
};

use acestep_train::{
    release::read_tensors,
    run::{TrainingRun, digest},
};
use anyhow::Context;

/// Tensors of a released file, to which other stages may add their own.
pub(super) struct Product {
    /// The file.
    pub(super) file: PathBuf,
    /// Prefixes of the tensor names.
    pub(super) names: &'static [&'static str],
}

impl Product {
    /// Selects the encoder of an autoencoder, which defines the latents.
    pub(super) fn encoder(file: PathBuf) -> Self {
        Self { file, names: &["encoder."] }
    }

    /// Selects the encoder and decoder of audio codes.
    pub(super) fn codes(file: PathBuf) -> Self {
        Self { file, names: &["tokenizer.", "detokenizer."] }
    }

    /// Selects all tensors of a file.
    pub(super) fn whole(file: PathBuf) -> Self {
        Self { file, names: &[""] }
    }

    /// Returns the SHA-256 of the values; networks trained with this product depend on it.
    pub(super) fn digest(&self) -> anyhow::Result<String> {
        let tensors = read_tensors(&self.file)?;
        let is_of_it = |name: &str| self.names.iter().any(|start| name.starts_with(start));
        let values: Vec<u8> = tensors
            .iter()
            .filter(|(name, _)| is_of_it(name))
            .flat_map(|(_, tensor)| &tensor.values)
            .flat_map(|x| x.to_le_bytes())
            .collect();
        Ok(digest([values.as_slice()]))
    }

    /// True if `training` is finished, and its released tensors are unchanged. It must not be
    /// released again then: computed again, the values may differ in their last bits from those
    /// that other networks were trained with, and other stages may have added tensors to the file.
    pub(super) fn is_of(&self, training: &TrainingRun) -> anyhow::Result<bool> {
        Ok(self.is_noted(&training.folder)? && training.is_finished()?)
    }

    /// True if the tensors equal those that were noted in a training run's folder.
    pub(super) fn is_noted(&self, folder: &Path) -> anyhow::Result<bool> {
        let noted = fs::read_to_string(folder.join(NOTE)).unwrap_or_default();
        Ok(!noted.is_empty() && self.file.is_file() && noted == self.digest()?)
    }

    /// Writes the digest beside the state of `training`, as its released result.
    pub(super) fn is_now_of(&self, training: &TrainingRun) -> anyhow::Result<()> {
        let note = training.folder.join(NOTE);
        let written = fs::write(&note, self.digest()?);
        written.with_context(|| format!("{}: cannot be written", note.display()))
    }
}

/// File name of the digest, beside a training run's state.
const NOTE: &str = "released";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use acestep_model::nn::Linear;
    use acestep_train::{
        learner::OptimizerConfig,
        release::{Tensors, Values, write_tensors},
        run::StepLoss,
    };
    use burn::{backend::Autodiff, tensor::Tensor};
    use burn_flex::Flex;

    use super::*;

    fn training(folder: &Path) -> TrainingRun {
        let (betas, save_every) = ([0.9, 0.99], Duration::from_secs(3600));
        let (rate, longest, last, decay, average) = (0.1, 1.0, 0.1, 0.0, 0.9);
        let optimizer_config =
            OptimizerConfig { steps: 1, rate, warm_up: 1, last, betas, decay, longest, average };
        let (folder, of) = (folder.to_owned(), "a test".to_owned());
        TrainingRun { folder, seed: 1, of, optimizer_config, save_every, at_once: None }
    }

    fn write(file: &Path, codes: f32, other: f32) {
        let one = |x: f32| Values { shape: vec![1], values: vec![x] };
        let tensors = [("tokenizer.a", codes), ("detokenizer.b", codes), ("decoder.c", other)];
        let tensors: Tensors =
            tensors.into_iter().map(|(name, x)| (name.to_owned(), one(x))).collect();
        write_tensors(file, &tensors).expect("a file");
    }

    #[test]
    fn a_product_is_known_again_whatever_others_add_to_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let product = Product::codes(folder.path().join("model.safetensors"));
        let training = training(folder.path());
        let is_of = || product.is_of(&training).expect("files");
        assert!(!is_of(), "nothing is there");
        write(&product.file, 1.0, 1.0);
        assert!(!is_of(), "nothing was learned");
        let start = Linear::<Autodiff<Flex>>::init(1, 1, &Default::default());
        let step_loss = |_: usize, model: &Linear<_>| {
            let x = Tensor::<Autodiff<Flex>, 2>::ones([1, 1], &Default::default());
            StepLoss { loss: model.forward(x).square().mean(), parts: [0.0] }
        };
        training
            .run::<Autodiff<Flex>, _, 1>(start, ["error"], 1, step_loss, &mut |_| {}, &|| false)
            .expect("a training run");
        assert!(!is_of(), "learned and not released: what lies there may be older");
        product.is_now_of(&training).expect("a note");
        assert!(is_of());
        write(&product.file, 1.0, 2.0);
        assert!(is_of(), "others may differ");
        write(&product.file, 2.0, 1.0);
        assert!(!is_of(), "another one");
    }
}
