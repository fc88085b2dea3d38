//! The custom operations for Burn's fusion backend, which records operations and runs them later.
//!
//! Every operation with a kernel on GPUs must be recorded here by name. A missing one would silently
//! run as plain operations.

use std::{fmt, sync::Arc};

use burn::tensor::{
    DType, Shape, Tensor, TensorMetadata,
    ops::{BoolTensor, FloatTensor, IntTensor},
};
use burn_fusion::{
    Fusion, FusionBackend, FusionRuntime, FusionTensor,
    stream::{Operation, OperationStreams},
};
use burn_ir::{CustomOpIr, HandleContainer, OperationIr, TensorHandle, TensorIr};

use super::{
    super::{
        Backend, CachedLayer, ConvGeometry, NewTokens, Slot, Visibility, primitive, products,
        tensor,
    },
    decode::{self, Decodes, Decoding, TENSORS},
    device, matvec,
};

type Recorded<B> = FusionTensor<<B as FusionBackend>::FusionRuntime>;
type Handles<B> =
    HandleContainer<<<B as FusionBackend>::FusionRuntime as FusionRuntime>::FusionHandle>;
type Run<B> = dyn Fn(&mut Given<'_, B>) -> Vec<FloatTensor<B>> + Send + Sync;

/// A recorded operation.
struct Custom<B: FusionBackend> {
    description: CustomOpIr,
    run: Arc<Run<B>>,
}

impl<B: FusionBackend> fmt::Debug for Custom<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Custom").field(&self.description.id).finish()
    }
}

impl<B: FusionBackend> Operation<B::FusionRuntime> for Custom<B> {
    fn execute(&self, handles: &mut Handles<B>) {
        let outputs = (self.run)(&mut Given { handles, inputs: &self.description.inputs });
        for (tensor, output) in self.description.outputs.iter().zip(outputs) {
            handles.register_float_tensor::<B>(&tensor.id, output);
        }
    }
}

/// The inputs of an operation that is recorded.
struct Inputs<B: FusionBackend>(Vec<Recorded<B>>);

impl<B: FusionBackend> Default for Inputs<B> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<B: FusionBackend> Inputs<B> {
    /// Adds a tensor and returns its index, for [`Given`].
    fn add(&mut self, tensor: Recorded<B>) -> usize {
        self.0.push(tensor);
        self.0.len() - 1
    }

    /// Records an operation that returns tensors of these shapes and types. `run` is called later.
    fn record<const N: usize>(
        self,
        name: &'static str,
        outputs: [(Shape, DType); N],
        run: impl Fn(&mut Given<'_, B>) -> [FloatTensor<B>; N] + Send + Sync + 'static,
    ) -> [Recorded<B>; N] {
        let run = move |given: &mut Given<'_, B>| run(given).into();
        let mut outputs = self.record_all(name, outputs.into(), run).into_iter();
        std::array::from_fn(|_| outputs.next().expect("a tensor per output"))
    }

    /// [`Self::record`] of any number of results.
    fn record_all(
        self,
        name: &'static str,
        outputs: Vec<(Shape, DType)>,
        run: impl Fn(&mut Given<'_, B>) -> Vec<FloatTensor<B>> + Send + Sync + 'static,
    ) -> Vec<Recorded<B>> {
        let inputs = self.0;
        let client = inputs[0].client.clone();
        let streams = OperationStreams::with_inputs(&inputs);
        let output = |(shape, dtype)| TensorIr::uninit(client.create_empty_handle(), shape, dtype);
        let outputs: Vec<TensorIr> = outputs.into_iter().map(output).collect();
        let inputs: Vec<TensorIr> = inputs.into_iter().map(FusionTensor::into_ir).collect();
        let description = CustomOpIr::new(name, &inputs, &outputs);
        let custom = Custom::<B> { description: description.clone(), run: Arc::new(run) };
        client.register(streams, OperationIr::Custom(description), custom)
    }
}

/// The inputs of a recorded operation when it runs, by their index.
struct Given<'a, B: FusionBackend> {
    handles: &'a mut Handles<B>,
    inputs: &'a [TensorIr],
}

impl<B: FusionBackend> Given<'_, B> {
    fn float(&mut self, index: usize) -> FloatTensor<B> {
        self.handles.get_float_tensor::<B>(&self.inputs[index])
    }

    fn ints(&mut self, index: usize) -> IntTensor<B> {
        self.handles.get_int_tensor::<B>(&self.inputs[index])
    }

    fn flags(&mut self, index: usize) -> BoolTensor<B> {
        self.handles.get_bool_tensor::<B>(&self.inputs[index])
    }
}

// The parts of `kernel! { record name }`, by the types of the table in `kernel/operations.rs`.

/// The shapes and types of the results.
macro_rules! outputs {
    ($shapes:expr) => {
        $shapes
    };
    () => {
        compile_error!("the row of this operation gives no shapes, so it cannot be recorded")
    };
}

/// Kept part of an argument: the index of a tensor, or a copy of a value.
macro_rules! kept {
    ([Float; $count:literal] $x:ident, $inputs:ident) => {
        $x.map(|x| $inputs.add(x))
    };
    (Map $x:ident, $inputs:ident) => {
        ($inputs.add($x.0), $x.1.map(|x| $inputs.add(x)))
    };
    (Float $x:ident, $inputs:ident) => {
        $inputs.add($x)
    };
    (Ints $x:ident, $inputs:ident) => {
        $inputs.add($x)
    };
    (Maybe $x:ident, $inputs:ident) => {
        $x.map(|x| $inputs.add(x))
    };
    (Flags $x:ident, $inputs:ident) => {
        $x.map(|x| $inputs.add(x))
    };
    ([$of:ty] $x:ident, $inputs:ident) => {
        $x.to_vec()
    };
    ($value:tt $x:ident, $inputs:ident) => {
        $x
    };
}

/// The argument again, when the operation runs.
macro_rules! given {
    ([Float; $count:literal] $x:ident, $given:ident) => {
        $x.map(|x| $given.float(x))
    };
    (Map $x:ident, $given:ident) => {
        ($given.float($x.0), $x.1.map(|x| $given.float(x)))
    };
    (Float $x:ident, $given:ident) => {
        $given.float($x)
    };
    (Ints $x:ident, $given:ident) => {
        $given.ints($x)
    };
    (Maybe $x:ident, $given:ident) => {
        $x.map(|x| $given.float(x))
    };
    (Flags $x:ident, $given:ident) => {
        $x.map(|x| $given.flags(x))
    };
    ([$of:ty] $x:ident, $given:ident) => {
        &$x
    };
    ($value:tt $x:ident, $given:ident) => {
        $x
    };
}

/// The results as an array.
macro_rules! results {
    (Float $result:expr) => {
        [$result]
    };
    (Ints $result:expr) => {
        [as_float::<B>($result)]
    };
    ([Float; $count:literal] $results:expr) => {
        $results
    };
}

/// Returns ids as a tensor of the type that results are registered in. The handle keeps its own type.
fn as_float<B: FusionBackend>(ids: IntTensor<B>) -> FloatTensor<B> {
    let shape = ids.shape();
    B::float_tensor(TensorHandle { handle: B::int_tensor_handle(ids), shape })
}

/// The results as the method returns them.
macro_rules! result {
    (Float $outputs:ident) => {{
        let [output] = $outputs;
        output
    }};
    (Ints $outputs:ident) => {
        result!(Float $outputs)
    };
    ([Float; $count:literal] $outputs:ident) => {
        $outputs
    };
}

// The shapes of the table in `kernel/operations.rs`.

fn like<T: TensorMetadata>(x: &T) -> (Shape, DType) {
    (x.shape(), x.dtype())
}

/// A product of batches of matrices.
fn multiplied<T: TensorMetadata>(left: &T, right: &T) -> (Shape, DType) {
    let ([batch, heads, rows, _], [.., columns]) =
        (left.shape().dims::<4>(), right.shape().dims::<4>());
    ([batch, heads, rows, columns].into(), left.dtype())
}

/// A convolution.
fn convolved<T: TensorMetadata>(x: &T, weight: &T, geometry: ConvGeometry) -> (Shape, DType) {
    let ([batch, _, samples], [channels, _, taps]) = (x.shape().dims(), weight.shape().dims());
    ([batch, channels, geometry.outputs(samples, taps)].into(), x.dtype())
}

/// A transposed convolution.
fn spread<T: TensorMetadata>(x: &T, weight: &T, geometry: ConvGeometry) -> (Shape, DType) {
    let ([batch, _, frames], [_, channels, taps]) = (x.shape().dims(), weight.shape().dims());
    let samples = geometry.transposed_outputs(frames, taps);
    ([batch, channels * geometry.groups, samples].into(), x.dtype())
}

/// One value for each channel.
fn over_time<T: TensorMetadata>(x: &T) -> (Shape, DType) {
    let [batch, channels, _] = x.shape().dims();
    ([batch, channels, 1].into(), x.dtype())
}

/// `[B, L, heads, D]` as `[B, heads, L, D]`.
fn heads_first<T: TensorMetadata>(x: &T) -> (Shape, DType) {
    let [batch, length, heads, width] = x.shape().dims();
    ([batch, heads, length, width].into(), x.dtype())
}

/// An id for each row.
fn one_id<T: TensorMetadata>(x: &T) -> (Shape, DType) {
    let [rows, _] = x.shape().dims();
    ([rows, 1].into(), DType::I32)
}

/// A window of tokens per code.
fn windows<T: TensorMetadata>(codes: &T, places: &T) -> (Shape, DType) {
    let ([count], [window, width]) = (codes.shape().dims(), places.shape().dims());
    ([count, window, width].into(), places.dtype())
}

impl<B: FusionBackend + Decodes> Decodes for Fusion<B> {
    fn has_product(device: &Self::Device, dtype: DType) -> bool {
        B::has_product(device, dtype)
    }

    fn decodes(device: &Self::Device, decoding: &Decoding) -> bool {
        B::decodes(device, decoding)
    }

    fn decode(
        x: FloatTensor<Self>,
        rope: [FloatTensor<Self>; 2],
        layers: Vec<[FloatTensor<Self>; TENSORS]>,
        decoding: Decoding,
    ) -> Vec<FloatTensor<Self>> {
        let mut outputs = vec![like(&x)];
        outputs.extend(layers.iter().flat_map(|layer| layer[TENSORS - 2..].iter().map(like)));
        let count = layers.len();
        let mut inputs = Inputs::<B>::default();
        let first = std::iter::once(x).chain(rope);
        first.chain(layers.into_iter().flatten()).for_each(|tensor| {
            inputs.add(tensor);
        });
        inputs.record_all("decode", outputs, move |given| {
            let [x, cos, sin] = [0, 1, 2].map(|index| given.float(index));
            let layer = |layer| std::array::from_fn(|i| given.float(3 + layer * TENSORS + i));
            B::decode(x, [cos, sin], (0..count).map(layer).collect(), decoding.clone())
        })
    }
}

impl<B: FusionBackend + Decodes> Backend for Fusion<B> {
    const MOST_SEPARATE_ROWS: usize = B::MOST_SEPARATE_ROWS;
    const DRAWS: bool = B::DRAWS;

    // ANCHOR: record
    kernel! { record rms_norm }
    kernel! { record ada_norm }
    kernel! { record norm_rotate }
    kernel! { record swiglu }
    // ANCHOR_END: record
    kernel! { record batched_product }
    kernel! { record attention }
    kernel! { record cache_write }
    kernel! { record code_tokens }
    kernel! { record draw }
    kernel! { record snake }
    kernel! { record add_snake }
    kernel! { record conv1d }
    kernel! { record conv1d_snake }
    kernel! { record conv1d_add_snake }
    kernel! { record conv_transpose1d }
    // Burn fuses these reductions into a kernel that cannot be launched (Burn 0.21); recorded, they
    // are left alone.
    kernel! { record moments }

    fn product(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        let is_ours = B::has_product(x.client.device(), x.dtype());
        if device::is_tuned() && !is_ours && !matvec::is_for(x.shape()[0]) {
            // Left to Burn, which may fuse the next operations into the product.
            let [x, weight] = [x, weight].map(tensor::<Self, 2>);
            return primitive(x.matmul(weight.transpose()));
        }
        let outputs = [([x.shape()[0], weight.shape()[0]].into(), x.dtype())];
        let mut inputs = Inputs::<B>::default();
        let [x, weight] = [x, weight].map(|tensor| inputs.add(tensor));
        let [y] = inputs.record("product", outputs, move |given| {
            [B::product(given.float(x), given.float(weight))]
        });
        y
    }

    fn gated_product(
        x: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        up: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        if !B::has_product(x.client.device(), x.dtype()) {
            return Self::swiglu(Self::product(x.clone(), gate), Self::product(x, up));
        }
        let outputs = [([x.shape()[0], gate.shape()[0]].into(), x.dtype())];
        let mut inputs = Inputs::<B>::default();
        let [x, gate, up] = [x, gate, up].map(|tensor| inputs.add(tensor));
        let [y] = inputs.record("gated_product", outputs, move |given| {
            [B::gated_product(given.float(x), given.float(gate), given.float(up))]
        });
        y
    }

    fn product_added(
        residual: FloatTensor<Self>,
        gate: Option<FloatTensor<Self>>,
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        if !B::has_product(x.client.device(), x.dtype()) {
            let (gate, weight) = (gate.map(tensor), tensor::<Self, 2>(weight).into());
            return primitive(products::reference_added::<Self>(
                tensor(residual),
                gate,
                tensor(x),
                weight,
            ));
        }
        let outputs = [like(&residual)];
        let mut inputs = Inputs::<B>::default();
        let [residual, x, weight] = [residual, x, weight].map(|tensor| inputs.add(tensor));
        let gate = gate.map(|gate| inputs.add(gate));
        let [y] = inputs.record("product_added", outputs, move |given| {
            let gate = gate.map(|gate| given.float(gate));
            [B::product_added(given.float(residual), gate, given.float(x), given.float(weight))]
        });
        y
    }

    fn cached_layers(
        x: Tensor<Self, 3>,
        layers: &mut dyn Iterator<Item = CachedLayer<'_, Self>>,
        new_tokens: &NewTokens<'_, Self>,
    ) -> Tensor<Self, 3> {
        decode::cached_layers(x, layers, new_tokens)
    }
}
