//! The networks of a checkpoint of any family, each loaded when it is needed.
//!
//! The struct is not in the engine: each family adds methods, and Rust allows that only in the struct's crate.

use std::{fmt, ops::Deref, rc::Rc};

use acestep_engine::{
    Error, Lent, Residency,
    host::to_host,
    networks::{Network, NetworkCache},
};
use acestep_model::{Backend, CheckpointError, Place};
use burn::{module::Module, tensor::Tensor};

/// A checkpoint of any family.
pub trait Unchanged {
    /// Checks that the files of the networks did not change since they were opened.
    ///
    /// # Errors
    /// A file that was changed or cannot be read any more.
    fn unchanged(&self) -> Result<(), CheckpointError>;
}

/// The networks of a checkpoint `C` on a device. Stages run through the [`NetworkCache`] to which this
/// dereferences.
pub struct Networks<'a, B: Backend, C: ?Sized> {
    checkpoint: Lent<'a, C>,
    cache: NetworkCache<'a, B>,
}

impl<B: Backend, C: ?Sized> fmt::Debug for Networks<'_, B, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cache.fmt(f)
    }
}

impl<'a, B: Backend, C: ?Sized> Deref for Networks<'a, B, C> {
    type Target = NetworkCache<'a, B>;

    fn deref(&self) -> &Self::Target {
        &self.cache
    }
}

impl<'a, B: Backend, C: Unchanged + ?Sized + 'a> Networks<'a, B, C> {
    /// All networks in `place`. Nothing is loaded yet. Loaded networks stay in memory, because they
    /// work in turn.
    pub fn new(checkpoint: &'a C, place: Place<B>) -> Self {
        Self::of(Lent::Borrowed(checkpoint), place)
    }

    /// As [`Self::new`], with a checkpoint that the networks share.
    pub fn of(checkpoint: Lent<'a, C>, place: Place<B>) -> Self {
        let files = checkpoint.clone();
        let cache = NetworkCache::new(place, Residency::Kept, move || files.unchanged());
        Self { checkpoint, cache }
    }

    /// The checkpoint.
    pub fn checkpoint(&self) -> &C {
        &self.checkpoint
    }

    /// Returns a network, which `read` reads from the checkpoint if it is not in memory.
    pub(crate) fn read<T: Module<B> + 'static>(
        &self,
        network: Network,
        read: impl FnOnce(&C, &Place<B>) -> Result<T, CheckpointError>,
    ) -> Result<Rc<T>, Error> {
        self.load(network, |place| read(self.checkpoint(), place))
    }
}

/// Copies a matrix to the host, a list for each row.
pub(crate) fn rows_of<B: Backend>(x: Tensor<B, 2>) -> Vec<Vec<f32>> {
    let width = x.dims()[1];
    to_host(x).chunks(width.max(1)).map(<[f32]>::to_vec).collect()
}
