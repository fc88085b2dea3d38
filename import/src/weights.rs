//! A directory with a configuration and the weights of some networks.

use std::{path::Path, sync::Arc};

use acestep_model::{Backend, Place};
use burn::module::Module;

use crate::{
    Directory, Error, Origin, PartSize, Tensors,
    adapter::Shared,
    apply::{self, unused_tensors},
    names::TensorNames,
};

/// A directory, its parsed configuration and its mapped weights.
#[derive(Debug)]
pub(crate) struct WeightsDir<C> {
    directory: Directory,
    config: C,
    tensors: Arc<Tensors>,
}

impl<C> WeightsDir<C> {
    /// Maps the weights of `directory`, which must be exactly the tensors of `networks` and
    /// `unused`. `what` is the noun for messages.
    ///
    /// # Errors
    /// If a file is missing or cut, or has tensors that no network uses.
    pub(crate) fn open(
        directory: Directory,
        config: C,
        what: &'static str,
        networks: &[TensorNames],
        unused: &[String],
    ) -> Result<Self, Error> {
        let tensors = Tensors::open(&directory)?;
        Self::of(directory, config, tensors, what, (networks, unused))
    }

    /// [`Self::open`] with tensors that were read already.
    ///
    /// # Errors
    /// As [`Self::open`].
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
        Ok(Self { directory, config, tensors })
    }

    /// Returns the parsed `config.json`.
    pub(crate) fn config(&self) -> &C {
        &self.config
    }

    /// Returns the directory.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the tensors.
    pub(crate) fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    /// Returns its files of weights.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.tensors.files()
    }

    /// Returns the format of its files and the types of its weights.
    pub(crate) fn origin(&self) -> Origin {
        Origin::of(&self.directory, &self.tensors)
    }

    /// Checks that its files have not changed since they were opened: networks use them in place.
    pub(crate) fn unchanged(&self) -> Result<(), Error> {
        self.tensors.unchanged()
    }

    /// Returns the number of parameters and file bytes of the network with these `names`.
    ///
    /// # Errors
    /// None after a successful opening, which checks the same.
    pub(crate) fn size(&self, names: &TensorNames) -> Result<PartSize, Error> {
        apply::size(&self.tensors, names)
    }

    /// Fills `module` with the tensors of the network with these `names`.
    ///
    /// # Errors
    /// Names the tensors that are missing, unused, unreadable, or of another shape or type.
    pub(crate) fn load<B: Backend, M: Module<B>>(
        &self,
        module: M,
        names: &TensorNames,
        place: &Place<B>,
        adapters: Option<&Shared>,
    ) -> Result<M, Error> {
        apply::load(module, &self.tensors, names, place.dtype, adapters)
    }

    /// Compares the headers with `module`, the network with these `names`.
    ///
    /// # Errors
    /// Names the tensors that are missing, unused, or of another shape or type.
    pub(crate) fn compare<B: Backend, M: Module<B>>(
        &self,
        module: &M,
        names: &TensorNames,
    ) -> Result<(), Error> {
        apply::compare(module, &self.tensors, names)
    }
}
