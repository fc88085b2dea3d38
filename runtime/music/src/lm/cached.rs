//! A language model that stays in memory between requests.

use std::cell::RefCell;

use acestep_engine::SharedRef;
use acestep_model::{
    Backend, CheckpointError, LanguageCheckpoint, LanguageFiles, Place, Tokenizer, qwen3,
};
use burn::tensor::DType;

/// A checkpoint that loads its network only once and then keeps it.
///
/// If another float type is requested, the network is loaded again and the first one is dropped.
pub struct CachedModel<'a, B: Backend> {
    checkpoint: SharedRef<'a, dyn LanguageCheckpoint<B> + 'a>,
    model: RefCell<Option<(DType, qwen3::Causal<B>)>>,
}

impl<'a, B: Backend> CachedModel<'a, B> {
    /// Loads nothing yet.
    pub fn new(checkpoint: &'a dyn LanguageCheckpoint<B>) -> Self {
        Self::of(SharedRef::Borrowed(checkpoint))
    }

    /// As [`Self::new`], with a checkpoint that is shared.
    pub fn of(checkpoint: SharedRef<'a, dyn LanguageCheckpoint<B> + 'a>) -> Self {
        Self { checkpoint, model: RefCell::new(None) }
    }
}

impl<B: Backend> LanguageFiles for CachedModel<'_, B> {
    fn config(&self) -> &qwen3::Config {
        self.checkpoint.config()
    }

    fn tokenizer(&self) -> Result<&dyn Tokenizer, CheckpointError> {
        self.checkpoint.tokenizer()
    }

    fn unchanged(&self) -> Result<(), CheckpointError> {
        self.checkpoint.unchanged()
    }
}

impl<B: Backend> LanguageCheckpoint<B> for CachedModel<'_, B> {
    fn language_model(&self, place: &Place<B>) -> Result<qwen3::Causal<B>, CheckpointError> {
        let mut cached = self.model.borrow_mut();
        if let Some((_, model)) = cached.as_ref().filter(|(dtype, _)| *dtype == place.dtype) {
            // The weights are shared, not copied.
            return Ok(model.clone());
        }
        // Drop the old network first: there may not be enough memory for two.
        *cached = None;
        let model = self.checkpoint.language_model(place)?;
        *cached = Some((place.dtype, model.clone()));
        Ok(model)
    }
}

#[cfg(test)]
mod tests {
    use burn_flex::{Flex, FlexDevice};

    use super::*;
    use crate::test_goldens::Language;

    #[test]
    fn it_is_read_once_for_each_type_that_follows_another() {
        let checkpoint = Language::new(true);
        let cached = CachedModel::<Flex>::new(&checkpoint);
        let ask = |dtype| {
            cached.language_model(&Place { device: FlexDevice, dtype }).expect("a model");
            checkpoint.reads.get()
        };
        assert_eq!([DType::F32, DType::F32, DType::BF16, DType::BF16].map(ask), [1, 1, 2, 2]);
        assert_eq!(ask(DType::F32), 3);
    }
}
