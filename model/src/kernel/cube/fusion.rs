//! Our operations under Burn's fusion, which records operations and runs them later.
//!
//! Every operation that has a kernel is forwarded by name: one that is forgotten here would run as
//! plain operations without a word.

use std::{fmt, sync::Arc};

use burn::tensor::{
    DType, Shape, TensorMetadata,
    ops::{BoolTensor, FloatTensor},
};
use burn_fusion::{
    Fusion, FusionBackend, FusionRuntime, FusionTensor,
    stream::{Operation, OperationStreams},
};
use burn_ir::{CustomOpIr, HandleContainer, OperationIr, OperationOutput, TensorIr};

use super::super::{Backend, Visibility};

type Recorded<B> = FusionTensor<<B as FusionBackend>::FusionRuntime>;
type Handles<B> =
    HandleContainer<<<B as FusionBackend>::FusionRuntime as FusionRuntime>::FusionHandle>;
type Run<B> = dyn Fn(&mut Handles<B>, &[TensorIr]) -> FloatTensor<B> + Send + Sync;

/// An operation waiting for its turn.
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
        let output = (self.run)(handles, &self.description.inputs);
        handles.register_float_tensor::<B>(&self.description.outputs[0].id, output);
    }
}

/// Records an operation of `inputs` that gives one tensor of `shape` and `dtype`.
///
/// `run` is called later with the inputs' descriptions, in their order.
fn record<B: FusionBackend>(
    name: &'static str,
    inputs: Vec<Recorded<B>>,
    shape: Shape,
    dtype: DType,
    run: impl Fn(&mut Handles<B>, &[TensorIr]) -> FloatTensor<B> + Send + Sync + 'static,
) -> Recorded<B> {
    let client = inputs[0].client.clone();
    let streams = OperationStreams::with_inputs(&inputs);
    let output = TensorIr::uninit(client.create_empty_handle(), shape, dtype);
    let inputs: Vec<TensorIr> = inputs.into_iter().map(FusionTensor::into_ir).collect();
    let description = CustomOpIr::new(name, &inputs, &[output]);
    let custom = Custom::<B> { description: description.clone(), run: Arc::new(run) };
    client.register(streams, OperationIr::Custom(description), custom).output()
}

/// The float tensors of all inputs.
fn floats<B: FusionBackend, const N: usize>(
    handles: &mut Handles<B>,
    inputs: &[TensorIr],
) -> [FloatTensor<B>; N] {
    std::array::from_fn(|i| handles.get_float_tensor::<B>(&inputs[i]))
}

impl<B: FusionBackend + Backend> Backend for Fusion<B> {
    fn rms_norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let (shape, dtype) = (x.shape(), x.dtype());
        record::<B>("rms_norm", vec![x, weight], shape, dtype, move |handles, inputs| {
            let [x, weight] = floats::<B, 2>(handles, inputs);
            B::rms_norm(x, weight, epsilon)
        })
    }

    fn attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        keys: Option<BoolTensor<Self>>,
        visibility: Visibility,
    ) -> FloatTensor<Self> {
        let (shape, dtype) = (q.shape(), q.dtype());
        let inputs = [q, k, v].into_iter().chain(keys).collect();
        record::<B>("attention", inputs, shape, dtype, move |handles, inputs| {
            let [q, k, v] = floats::<B, 3>(handles, inputs);
            let keys = inputs.get(3).map(|keys| handles.get_bool_tensor::<B>(keys));
            <B as Backend>::attention(q, k, v, keys, visibility)
        })
    }
}
