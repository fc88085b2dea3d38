//! A parameter that may be packed: the weights of a matrix, a table or a convolution.
//!
//! Burn's visitors and mappers see a plain weight as the float parameter that it is. They see the
//! words of a packed weight as integers, and cannot change them.

use std::cell::{Cell, RefCell};

use burn::{
    module::{
        AutodiffModule, Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault,
        ModuleMapper, ModuleVisitor, Param, ParamId,
    },
    tensor::{DType, Int, Tensor, TensorData, backend::AutodiffBackend},
};

use crate::{
    Backend,
    kernel::{self, Packed, Packing, Weight},
};

/// A [`Weight`] as a parameter of a layer.
#[derive(Debug, Clone)]
pub enum WeightParam<B: Backend, const D: usize> {
    /// A float parameter; it may be initialised on first use.
    Plain(Param<Tensor<B, D>>),
    /// The weights of the float parameter that had this id.
    Packed(ParamId, Packed<B, D>),
}

impl<B: Backend, const D: usize> From<Weight<B, D>> for WeightParam<B, D> {
    fn from(weight: Weight<B, D>) -> Self {
        match weight {
            Weight::Plain(weight) => Self::Plain(Param::from_tensor(weight)),
            Weight::Packed(packed) => Self::Packed(ParamId::new(), packed),
        }
    }
}

impl<B: Backend, const D: usize> WeightParam<B, D> {
    /// Returns the value for an operation.
    pub(crate) fn val(&self) -> Weight<B, D> {
        match self {
            Self::Plain(param) => Weight::Plain(param.val()),
            Self::Packed(_, packed) => Weight::Packed(packed.clone()),
        }
    }

    /// Returns the shape in the checkpoint; initialises nothing.
    pub(crate) fn dims(&self) -> [usize; D] {
        match self {
            Self::Plain(param) => param.lazy_shape().dims(),
            Self::Packed(_, packed) => packed.dims(),
        }
    }

    /// Returns the type of the weights; int8 is `I8`.
    pub(crate) fn dtype(&self) -> DType {
        match self {
            Self::Plain(param) => param.val().dtype(),
            Self::Packed(_, packed) => packed.dtype(),
        }
    }

    /// Packs a plain weight by `pack`; returns a packed one unchanged.
    fn packed(self, pack: impl FnOnce(Tensor<B, D>) -> Weight<B, D>) -> Self {
        let Self::Plain(param) = self else { return self };
        let (id, tensor, mapper) = param.consume();
        match pack(tensor) {
            Weight::Plain(tensor) => Self::Plain(Param::from_mapped_value(id, tensor, mapper)),
            Weight::Packed(packed) => Self::Packed(id, packed),
        }
    }
}

impl<B: Backend> WeightParam<B, 3> {
    /// Prepacks the filter of a convolution, see [`kernel::pack_filter`].
    pub(crate) fn prepacked(self, packing: Packing) -> Self {
        self.packed(|weight| kernel::pack_filter(weight, packing))
    }
}

thread_local! {
    /// True while [`quantizing`] runs.
    static QUANTIZES: Cell<bool> = const { Cell::new(false) };
    /// The words of the weight that a mapper is giving a value.
    static WORDS: RefCell<Option<TensorData>> = const { RefCell::new(None) };
}

/// Sets the words in int8 of the weight that a mapper is giving a value, within [`quantizing`]. The
/// weight takes them and is not quantised, so the mapper may give it any value of its shape.
pub fn set_q8_words(words: TensorData) {
    WORDS.set(Some(words));
}

/// Runs `work`, which maps modules. Every matrix and table that a mapper gives a value is quantised
/// to int8 at once, so at most one of them is in memory in its wide type.
///
/// A mapper of Burn returns float tensors only, and int8 weights are none. So the mapper cannot
/// say that a weight is to be int8, and this function says it to all weights of the thread.
///
/// # Panics
/// If `B` of the module does not compute with int8 weights.
pub fn quantizing<R>(work: impl FnOnce() -> R) -> R {
    /// Ends it even if `work` panics.
    struct Ended(bool);
    impl Drop for Ended {
        fn drop(&mut self) {
            QUANTIZES.set(self.0);
            WORDS.take();
        }
    }
    let _ended = Ended(QUANTIZES.replace(true));
    work()
}

impl<B: Backend, const D: usize> Module<B> for WeightParam<B, D> {
    type Record = Param<Tensor<B, D>>;

    fn collect_devices(&self, mut devices: Devices<B>) -> Devices<B> {
        match self {
            Self::Plain(param) => param.collect_devices(devices),
            Self::Packed(_, packed) => {
                let device = packed.words().device();
                if !devices.contains(&device) {
                    devices.push(device);
                }
                devices
            }
        }
    }

    fn fork(self, device: &B::Device) -> Self {
        match self {
            Self::Plain(param) => Self::Plain(param.fork(device)),
            packed @ Self::Packed(..) => packed.to_device(device),
        }
    }

    fn to_device(self, device: &B::Device) -> Self {
        match self {
            Self::Plain(param) => Self::Plain(param.to_device(device)),
            Self::Packed(id, packed) => {
                Self::Packed(id, packed.moved(|words| words.to_device(device)))
            }
        }
    }

    fn num_params(&self) -> usize {
        self.dims().iter().product()
    }

    fn visit<V: ModuleVisitor<B>>(&self, visitor: &mut V) {
        match self {
            Self::Plain(param) => param.visit(visitor),
            Self::Packed(id, packed) => {
                visitor.visit_int(&Param::<Tensor<B, 2, Int>>::initialized(
                    *id,
                    packed.words().clone(),
                ));
            }
        }
    }

    fn map<M: ModuleMapper<B>>(self, mapper: &mut M) -> Self {
        let Self::Plain(param) = self else { return self };
        let param = mapper.map_float(param);
        // A parameter that is not initialised has got no value, because the mapper failed.
        let is_quantized = D == 2 && QUANTIZES.get() && param.is_initialized();
        let words = WORDS.take();
        match is_quantized {
            true => Self::Plain(param).packed(|weight| match words {
                Some(words) => kernel::q8_from_words(words, weight.dims(), &weight.device()),
                None => kernel::quantize_q8(weight),
            }),
            false => Self::Plain(param),
        }
    }

    fn load_record(self, record: Self::Record) -> Self {
        match self {
            Self::Plain(param) => Self::Plain(param.load_record(record)),
            Self::Packed(..) => Self::Plain(record),
        }
    }

    /// # Panics
    /// If the weight is packed: packed weights are not saved.
    fn into_record(self) -> Self::Record {
        match self {
            Self::Plain(param) => param.into_record(),
            Self::Packed(..) => panic!("packed weights are not saved"),
        }
    }
}

impl<B, const D: usize> AutodiffModule<B> for WeightParam<B, D>
where
    B: Backend + AutodiffBackend,
    B::InnerBackend: Backend,
{
    type InnerModule = WeightParam<B::InnerBackend, D>;

    fn valid(&self) -> Self::InnerModule {
        match self {
            Self::Plain(param) => WeightParam::Plain(param.valid()),
            Self::Packed(id, packed) => {
                WeightParam::Packed(*id, packed.clone().moved(Tensor::inner))
            }
        }
    }

    fn from_inner(module: Self::InnerModule) -> Self {
        match module {
            WeightParam::Plain(param) => Self::Plain(Param::from_inner(param)),
            WeightParam::Packed(id, packed) => Self::Packed(id, packed.moved(Tensor::from_inner)),
        }
    }
}

impl<B: Backend, const D: usize> ModuleDisplayDefault for WeightParam<B, D> {
    fn content(&self, content: Content) -> Option<Content> {
        match self {
            Self::Plain(param) => param.content(content),
            Self::Packed(_, packed) => {
                let text = format!("packed, {:?}, shape: {:?}", packed.dtype(), packed.dims());
                content.add_formatted(&text).optional()
            }
        }
    }
}

impl<B: Backend, const D: usize> ModuleDisplay for WeightParam<B, D> {}

#[cfg(all(test, feature = "cpu"))]
mod tests;
