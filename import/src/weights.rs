//! A directory with a configuration and the weights of some networks.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use acestep_model::{Backend, Place};
use burn::{module::Module, tensor::DType};

use crate::{
    Directory, Error, Origin, PartSize, Tensors,
    adapter::Shared,
    apply::{self, unused_tensors},
    names::TensorNames,
    quantized::{self, Quantized},
};

/// Defines the methods `path`, `origin` and `files` of a model of speech, which has two [`WeightsDir`] as its
/// fields `model` and `codec`.
macro_rules! answered_by_model_and_codec {
    ($of:ty) => {
        impl $of {
            /// Returns the path of the model's directory or file.
            pub fn path(&self) -> &std::path::Path {
                self.model.directory().root()
            }

            /// Returns the format of the model's files and the types of its weights.
            pub fn origin(&self) -> $crate::Origin {
                self.model.origin()
            }

            /// Returns every file of weights.
            pub fn files(&self) -> Vec<std::path::PathBuf> {
                let all = self.model.files().chain(self.codec.files());
                let mut files: Vec<_> = all.map(std::path::Path::to_owned).collect();
                // Both may be in one file.
                files.dedup();
                files
            }
        }
    };
}
pub(crate) use answered_by_model_and_codec;

/// Defines the methods that the trait `Files` has in every family. They stand in its `impl` for a model with the
/// fields `name`, `model` and `codec`.
macro_rules! files_of_speech {
    ($config:ty, $codec_config:ty) => {
        fn name(&self) -> &str {
            &self.name
        }

        fn config(&self) -> &$config {
            self.model.config()
        }

        fn codec_config(&self) -> &$codec_config {
            self.codec.config()
        }

        fn unchanged(&self) -> Result<(), acestep_model::CheckpointError> {
            self.model.unchanged()?;
            Ok(self.codec.unchanged()?)
        }
    };
}
pub(crate) use files_of_speech;

/// Returns the value in `cell`, which `make` makes on the first call.
pub(crate) fn once<T>(
    cell: &OnceLock<T>,
    make: impl FnOnce() -> Result<T, Error>,
) -> Result<&T, Error> {
    match cell.get() {
        Some(value) => Ok(value),
        None => make().map(|value| cell.get_or_init(|| value)),
    }
}

/// A directory, its parsed configuration and its mapped weights.
#[derive(Debug)]
pub struct WeightsDir<C> {
    directory: Directory,
    config: C,
    tensors: Arc<Tensors>,
    /// Changes of weights, for the network that they belong to.
    pub(crate) adapters: Option<Shared>,
    /// Files of quantised matrices that networks use.
    quantized: Mutex<Vec<Arc<Quantized>>>,
}

impl<C> WeightsDir<C> {
    /// Maps the weights of `directory`, which must be exactly the tensors of `networks` and
    /// `unused`. `what` is the noun for messages.
    pub(crate) fn open_for(
        directory: Directory,
        config: C,
        what: &'static str,
        networks: &[TensorNames],
        unused: &[String],
    ) -> Result<Self, Error> {
        let tensors = Tensors::open(&directory)?;
        Self::of(directory, config, tensors, what, (networks, unused))
    }

    /// [`Self::open_for`] with tensors that were read already.
    pub(crate) fn of(
        directory: Directory,
        config: C,
        mut tensors: Tensors,
        what: &'static str,
        (networks, unused): (&[TensorNames], &[String]),
    ) -> Result<Self, Error> {
        unused.iter().for_each(|name| tensors.leave_out(name));
        let tensors = Arc::new(tensors);
        let known = |name: &str| networks.iter().any(|names| names.path_of(name).is_some());
        let unknown: Vec<_> =
            tensors.names().filter(|name| !known(name)).map(str::to_owned).collect();
        if !unknown.is_empty() {
            return Err(unused_tensors(&tensors, what, unknown));
        }
        networks.iter().try_for_each(|names| apply::sources(&tensors, names).map(drop))?;
        Ok(Self { directory, config, tensors, adapters: None, quantized: Mutex::default() })
    }

    /// Returns the parsed `config.json`.
    pub fn config(&self) -> &C {
        &self.config
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    /// Returns its files of weights.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.tensors.files()
    }

    /// Returns the format of its files and the types of its weights.
    pub fn origin(&self) -> Origin {
        Origin::of(&self.directory, &self.tensors)
    }

    /// Checks that its files have not changed since they were opened: networks use them in place.
    ///
    /// # Errors
    /// [`Error::Changed`], [`Error::Io`].
    pub fn unchanged(&self) -> Result<(), Error> {
        let quantized = self.quantized.lock().unwrap_or_else(PoisonError::into_inner);
        quantized.iter().try_for_each(|quantized| quantized.unchanged())?;
        self.tensors.unchanged()
    }

    /// True if its files of weights are still at their paths: no other one has replaced them.
    pub fn is_current(&self) -> bool {
        self.tensors.is_current()
    }

    /// Returns the number of parameters and file bytes of the network with these `names`.
    pub(crate) fn size(&self, names: &TensorNames) -> Result<PartSize, Error> {
        apply::size(&self.tensors, names)
    }

    /// Fills `module` with the tensors of the network with these `names`.
    pub(crate) fn load<B: Backend, M: Module<B>>(
        &self,
        module: M,
        names: &TensorNames,
        place: &Place<B>,
        adapters: Option<&Shared>,
    ) -> Result<M, Error> {
        let quantized = match (place.dtype, &self.directory) {
            (DType::I8, Directory::Disk(_) | Directory::Foreign(_)) => self.quantized(names)?,
            _ => None,
        };
        apply::load(module, &self.tensors, names, place.dtype, adapters, quantized.as_ref())
    }

    /// Opens the file of the quantised matrices of the network with these `names`, if there is one.
    fn quantized(&self, names: &TensorNames) -> Result<Option<Arc<Quantized>>, Error> {
        let Some(opened) = Quantized::open(&self.tensors, names)? else { return Ok(None) };
        let opened = Arc::new(opened);
        let mut all = self.quantized.lock().unwrap_or_else(PoisonError::into_inner);
        // Networks that were loaded before and are gone need no check.
        all.retain(|quantized| quantized.is_in_use());
        all.push(opened.clone());
        Ok(Some(opened))
    }

    /// Writes the matrices of `module`, the network with these `names`, in int8 beside its weights.
    /// Returns the path. `advanced` gets the numbers of written and of all matrices; false ends it.
    pub(crate) fn write_quantized<B: Backend, M: Module<B>>(
        &self,
        module: &M,
        names: &TensorNames,
        device: &B::Device,
        advanced: &dyn Fn(usize, usize) -> bool,
    ) -> Result<PathBuf, Error> {
        if let Directory::Embedded(name, _) = &self.directory {
            return Err(Error::NoPlace { name: (*name).to_owned() });
        }
        let matrices = apply::matrices(module, &self.tensors, names)?;
        let advanced = |done| advanced(done, matrices.len());
        quantized::write::<B>(&self.tensors, names, &matrices, device, &advanced)
    }

    /// Compares the headers with `module`, the network with these `names`.
    pub(crate) fn compare<B: Backend, M: Module<B>>(
        &self,
        module: &M,
        names: &TensorNames,
    ) -> Result<(), Error> {
        apply::compare(module, &self.tensors, names)
    }
}
