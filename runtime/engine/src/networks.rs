//! Networks in memory: one at a time, or all that were loaded; and the runner of their stages.

use std::{any::Any, cell::RefCell, fmt, rc::Rc, time::Instant};

use acestep_model::{Backend, CheckpointError, Place};
use burn::{module::Module, tensor::DType};

use crate::{
    Error,
    allocator::KeepFreed,
    device::{DeviceTarget, dtype::of_others, memory::bytes_of_weights, recovery},
    progress::{Event, Observe, Stage, StageReporter, WhileUnchanged, check},
    retry,
    tiling::Tiling,
};

/// The lifetime of networks in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residency {
    /// Only while it is used: one network at a time.
    WhileUsed,
    /// Until another network is used: one at a time, but many runs share one load.
    LastUsed,
    /// From the first use to the end.
    Kept,
}

/// A network. A model family defines its networks as constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkSpec {
    /// A noun phrase for messages, e.g. `the VAE`.
    pub name: &'static str,
    /// The stage that the network is loaded for.
    pub stage: Stage,
    /// The types that its weights may have.
    pub types: WeightTypes,
}

/// The types that the weights of a network may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightTypes {
    /// All types; its matrices may be int8.
    All,
    /// Floats. If int8 is chosen, they are in [`of_others`].
    Floats,
    /// f32, whichever type is chosen: the reference never computes it in a narrower one.
    F32,
}

impl WeightTypes {
    /// Returns the type of the weights if `chosen` is chosen for a run.
    pub fn of(self, chosen: DType) -> DType {
        match self {
            Self::All => chosen,
            Self::Floats => of_others(chosen),
            Self::F32 => DType::F32,
        }
    }
}

/// The state of one network.
struct Slot {
    network: NetworkSpec,
    dtype: DType,
    /// The number of parameters when it was last loaded; 0 before.
    parameters: u64,
    kept: Option<Rc<dyn Any>>,
}

/// The networks that are in memory on one device.
pub struct NetworkCache<'a, B: Backend> {
    place: Place<B>,
    target: DeviceTarget,
    residency: Residency,
    is_unchanged: Box<dyn Fn() -> Result<(), CheckpointError> + 'a>,
    slots: RefCell<Vec<Slot>>,
}

impl<B: Backend> fmt::Debug for NetworkCache<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkCache")
            .field("target", &self.target)
            .field("residency", &self.residency)
            .finish_non_exhaustive()
    }
}

impl<'a, B: Backend> NetworkCache<'a, B> {
    /// Keeps networks in `place`. Nothing is loaded yet.
    ///
    /// `is_unchanged` returns an error if a file of the networks changed since it was opened.
    pub fn new(
        place: Place<B>,
        residency: Residency,
        is_unchanged: impl Fn() -> Result<(), CheckpointError> + 'a,
    ) -> Self {
        let target = DeviceTarget::of::<B>(&place.device);
        let is_unchanged = Box::new(is_unchanged);
        Self { place, target, residency, is_unchanged, slots: RefCell::default() }
    }

    /// Sets the float type of one network.
    pub fn set_dtype(&mut self, network: NetworkSpec, dtype: DType) {
        self.in_slot(network, |slot| slot.dtype = dtype);
    }

    /// Treats failures as on `target`.
    pub fn set_target(&mut self, target: DeviceTarget) {
        self.target = target;
    }

    /// The lifetime of networks in memory.
    pub fn residency(&self) -> Residency {
        self.residency
    }

    /// The device and its memory, which decide how failures are handled.
    pub fn target(&self) -> &DeviceTarget {
        &self.target
    }

    /// The backend's device.
    pub fn device(&self) -> &B::Device {
        &self.place.device
    }

    /// The device and type of a network when it is loaded.
    pub fn place(&self, network: NetworkSpec) -> Place<B> {
        let dtype = self.in_slot(network, |slot| slot.dtype);
        Place { device: self.place.device.clone(), dtype }
    }

    fn in_slot<T>(&self, network: NetworkSpec, work: impl FnOnce(&mut Slot) -> T) -> T {
        let mut slots = self.slots.borrow_mut();
        let index = slots.iter().position(|slot| slot.network == network).unwrap_or_else(|| {
            let dtype = network.types.of(self.place.dtype);
            slots.push(Slot { network, dtype, parameters: 0, kept: None });
            slots.len() - 1
        });
        work(&mut slots[index])
    }

    /// Returns a network. `read` loads it if it is not in memory.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] with the error of `read`.
    pub fn load<T: Module<B> + 'static>(
        &self,
        network: NetworkSpec,
        read: impl FnOnce(&Place<B>) -> Result<T, CheckpointError>,
    ) -> Result<Rc<T>, Error> {
        let kept = self.in_slot(network, |slot| slot.kept.clone());
        if let Some(kept) = kept.and_then(|kept| kept.downcast().ok()) {
            return Ok(kept);
        }
        if self.residency == Residency::LastUsed {
            self.slots.borrow_mut().iter_mut().for_each(|slot| slot.kept = None);
            self.free();
        }
        let loaded = {
            // A weight is often read, converted and packed: three tensors of its size.
            let _kept = KeepFreed::new();
            Rc::new(read(&self.place(network)).map_err(Error::Checkpoint)?)
        };
        self.in_slot(network, |slot| {
            slot.parameters = loaded.num_params() as u64;
            if self.residency != Residency::WhileUsed {
                slot.kept = Some(loaded.clone());
            }
        });
        Ok(loaded)
    }

    /// Runs a stage that uses one network: checks for cancellation, measures the time, repeats the
    /// work in f32 if its result is not finite in a narrow type (the network then stays in f32),
    /// and sends the events except [`Event::Advanced`].
    ///
    /// The [`StageReporter`] that `work` gets also cancel it if a file of the networks changes. `work` must
    /// load the network itself, drop it, and read its results: only then it is certain that the
    /// device did not fail.
    ///
    /// # Errors
    /// The errors of `work`; [`Error::Checkpoint`] if a file changed meanwhile;
    /// [`Error::DeviceFailed`] if a GPU fails; [`Error::NoRoomForF32`]; [`Error::Cancelled`].
    pub fn stage<T>(
        &self,
        stage: Stage,
        network: NetworkSpec,
        observe: &dyn Observe,
        mut work: impl FnMut(&StageReporter<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        check(observe)?;
        let start = Instant::now();
        // Frees the memory of earlier stages, which a GPU keeps in blocks of their sizes.
        self.free();
        let place = self.place(network);
        let widened = |wide: &Place<B>| {
            let own = self.in_slot(network, |slot| {
                (slot.dtype, slot.kept) = (wide.dtype, None);
                slot.parameters
            });
            self.free();
            let room =
                retry::check_room(network.name, place.dtype, own, self.kept_bytes(), &self.target);
            if room.is_err() {
                // Later work of these networks begins in the type that fits.
                self.in_slot(network, |slot| slot.dtype = place.dtype);
            }
            room
        };
        let made = retry::repeated_in_f32(network.name, &place, observe, widened, |_| {
            let is_unchanged = &|| (self.is_unchanged)().is_ok();
            let observe = &WhileUnchanged { observe, is_unchanged };
            observe.event(Event::Loading(stage));
            let made = self.catch(stage, || work(&StageReporter { stage, observe }));
            // Check this first: a changed file may be the reason of a cancellation or of NaN
            // values.
            (self.is_unchanged)().map_err(Error::Checkpoint)?;
            made
        })?;
        observe.event(Event::Finished { stage, elapsed: start.elapsed() });
        Ok(made)
    }

    /// Runs work without a network, such as copying values to the device.
    ///
    /// # Errors
    /// The errors of `work`; [`Error::DeviceFailed`] if a GPU fails.
    pub fn catch<T>(
        &self,
        stage: Stage,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        recovery::catch(self.target.device, stage, work)
    }

    /// Runs the work of a stage in tiles: see [`recovery::in_tiles`].
    ///
    /// # Errors
    /// The errors of `work`; [`Error::DeviceFailed`] if the smallest tiles fail too.
    pub fn in_tiles<T>(
        &self,
        frames: usize,
        tiling: Tiling,
        steps: &StageReporter<'_>,
        work: impl FnMut(Tiling) -> Result<T, Error>,
    ) -> Result<T, Error> {
        recovery::in_tiles(self.target.device, frames, tiling, steps, || self.free(), work)
    }

    /// Releases unused memory of the device.
    pub fn free(&self) {
        recovery::free::<B>(&self.place.device);
    }

    /// Bytes of the networks that are kept in memory.
    fn kept_bytes(&self) -> u64 {
        let slots = self.slots.borrow();
        let kept = slots.iter().filter(|slot| slot.kept.is_some());
        kept.map(|slot| bytes_of_weights(slot.parameters, slot.dtype)).sum()
    }
}
