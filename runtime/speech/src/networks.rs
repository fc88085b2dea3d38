//! The networks of a checkpoint of any family, each loaded when it is needed.
//!
//! The struct is not in the engine: each family adds methods, and Rust allows that only in the struct's crate.

use std::{fmt, ops::Deref, rc::Rc};

use acestep_engine::{
    Error, Residency, SharedRef,
    host::to_host,
    networks::{NetworkCache, NetworkSpec},
};
use acestep_model::{Backend, CheckpointError, Place};
use burn::{module::Module, tensor::Tensor};

/// Defines the type `Networks` of a family. A row defines the constant of a network and the method that returns
/// it, which has the name of a method of the family's `Checkpoint`:
///
/// ```text
/// CONSTANT = "the name in messages", STAGE, WeightTypes => method: Type<B>;
/// ```
///
/// With `, beside OTHER` before the semicolon, the checkpoint's method also takes the precision that suits the
/// type of the network `OTHER`.
macro_rules! family_networks {
    ($(
        $(#[$about:meta])*
        $network:ident = $name:literal, $stage:ident, $types:ident => $method:ident: $type:ty
            $(, beside $other:ident)?;
    )+) => {
        $(
            $(#[$about])*
            pub const $network: acestep_engine::networks::NetworkSpec =
                acestep_engine::networks::NetworkSpec {
                    name: $name,
                    stage: stage::$stage,
                    types: acestep_engine::networks::WeightTypes::$types,
                };
        )+

        /// The networks of a checkpoint.
        pub type Networks<'a, B> = $crate::networks::Networks<'a, B, dyn Checkpoint<B> + 'a>;

        impl<B: acestep_model::Backend> $crate::networks::Unchanged for dyn Checkpoint<B> + '_ {
            fn unchanged(&self) -> Result<(), acestep_model::CheckpointError> {
                Files::unchanged(self)
            }
        }

        impl<B: acestep_model::Backend> Networks<'_, B> {
            $(
                #[doc = concat!("Returns ", $name, ".")]
                ///
                /// # Errors
                /// [`acestep_engine::Error::Checkpoint`].
                pub fn $method(&self) -> Result<std::rc::Rc<$type>, acestep_engine::Error> {
                    self.read($network, |files, place| {
                        files.$method(place $(, Precision::beside(self.place($other).dtype))?)
                    })
                }
            )+
        }
    };
}
pub(crate) use family_networks;

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
    checkpoint: SharedRef<'a, C>,
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
        Self::of(SharedRef::Borrowed(checkpoint), place)
    }

    /// As [`Self::new`], with a checkpoint that the networks share.
    pub fn of(checkpoint: SharedRef<'a, C>, place: Place<B>) -> Self {
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
        network: NetworkSpec,
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
