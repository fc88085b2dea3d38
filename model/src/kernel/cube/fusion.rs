//! Our operations under Burn's fusion, which records operations and runs them later.
//!
//! Every operation that has a kernel is forwarded by name: one that is forgotten here would run as
//! plain operations without a word.

use std::{fmt, sync::Arc};

use burn::tensor::{
    DType, Shape, TensorMetadata,
    ops::{BoolTensor, FloatTensor, IntTensor},
};
use burn_fusion::{
    Fusion, FusionBackend, FusionRuntime, FusionTensor,
    stream::{Operation, OperationStreams},
};
use burn_ir::{CustomOpIr, HandleContainer, OperationIr, OperationOutput, TensorIr};

use super::{
    super::{Backend, Geometry, Slot, Visibility, primitive, tensor},
    matrix, matvec,
};

type Recorded<B> = FusionTensor<<B as FusionBackend>::FusionRuntime>;
type Handles<B> =
    HandleContainer<<<B as FusionBackend>::FusionRuntime as FusionRuntime>::FusionHandle>;
type Run<B, const N: usize> =
    dyn Fn(&mut Handles<B>, &[TensorIr]) -> [FloatTensor<B>; N] + Send + Sync;

/// An operation waiting for its turn.
struct Custom<B: FusionBackend, const N: usize> {
    description: CustomOpIr,
    run: Arc<Run<B, N>>,
}

impl<B: FusionBackend, const N: usize> fmt::Debug for Custom<B, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Custom").field(&self.description.id).finish()
    }
}

impl<B: FusionBackend, const N: usize> Operation<B::FusionRuntime> for Custom<B, N> {
    fn execute(&self, handles: &mut Handles<B>) {
        let outputs = (self.run)(handles, &self.description.inputs);
        for (tensor, output) in self.description.outputs.iter().zip(outputs) {
            handles.register_float_tensor::<B>(&tensor.id, output);
        }
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
    let [output] = record_many::<B, 1>(name, inputs, [(shape, dtype)], move |handles, inputs| {
        [run(handles, inputs)]
    });
    output
}

/// [`record`] of an operation that gives a tensor for each shape and type of `outputs`.
fn record_many<B: FusionBackend, const N: usize>(
    name: &'static str,
    inputs: Vec<Recorded<B>>,
    outputs: [(Shape, DType); N],
    run: impl Fn(&mut Handles<B>, &[TensorIr]) -> [FloatTensor<B>; N] + Send + Sync + 'static,
) -> [Recorded<B>; N] {
    let client = inputs[0].client.clone();
    let streams = OperationStreams::with_inputs(&inputs);
    let outputs =
        outputs.map(|(shape, dtype)| TensorIr::uninit(client.create_empty_handle(), shape, dtype));
    let inputs: Vec<TensorIr> = inputs.into_iter().map(FusionTensor::into_ir).collect();
    let description = CustomOpIr::new(name, &inputs, &outputs);
    let custom = Custom::<B, N> { description: description.clone(), run: Arc::new(run) };
    client.register(streams, OperationIr::Custom(description), custom).outputs()
}

/// The float tensors of all inputs.
fn floats<B: FusionBackend, const N: usize>(
    handles: &mut Handles<B>,
    inputs: &[TensorIr],
) -> [FloatTensor<B>; N] {
    std::array::from_fn(|i| handles.get_float_tensor::<B>(&inputs[i]))
}

/// Inputs whose last may be absent.
fn with_bias<T, const N: usize>(inputs: [T; N], bias: Option<T>) -> Vec<T> {
    inputs.into_iter().chain(bias).collect()
}

impl<B: FusionBackend + Backend + matrix::Cuts> Backend for Fusion<B> {
    fn ada_norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
        shift: FloatTensor<Self>,
        scale: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (shape, dtype) = (x.shape(), x.dtype());
        let inputs = vec![x, weight, shift, scale];
        record::<B>("ada_norm", inputs, shape, dtype, move |handles, inputs| {
            let [x, weight, shift, scale] = floats::<B, 4>(handles, inputs);
            B::ada_norm(x, weight, epsilon, shift, scale)
        })
    }

    fn add_snake(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        alpha: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 2] {
        let output = (x.shape(), x.dtype());
        let inputs = vec![x, y, alpha, beta];
        record_many::<B, 2>("add_snake", inputs, [output.clone(), output], |handles, inputs| {
            let [x, y, alpha, beta] = floats::<B, 4>(handles, inputs);
            B::add_snake(x, y, alpha, beta)
        })
    }

    fn cache_write(
        cache: FloatTensor<Self>,
        new: FloatTensor<Self>,
        slots: &[Slot],
    ) -> FloatTensor<Self> {
        let (shape, dtype) = (cache.shape(), cache.dtype());
        let slots = slots.to_vec();
        record::<B>("cache_write", vec![cache, new], shape, dtype, move |handles, inputs| {
            let [cache, new] = floats::<B, 2>(handles, inputs);
            B::cache_write(cache, new, &slots)
        })
    }

    fn code_tokens(
        codes: IntTensor<Self>,
        levels: &[u32],
        project: (FloatTensor<Self>, Option<FloatTensor<Self>>),
        embed: (FloatTensor<Self>, Option<FloatTensor<Self>>),
        places: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let ([count], [window, width]) = (codes.shape().dims(), places.shape().dims());
        let (shape, dtype) = ([count, window, width].into(), places.dtype());
        let levels = levels.to_vec();
        let biased = [project.1.is_some(), embed.1.is_some()];
        let mut inputs = vec![codes, places, project.0, embed.0];
        inputs.extend(project.1);
        inputs.extend(embed.1);
        record::<B>("code_tokens", inputs, shape, dtype, move |handles, inputs| {
            let codes = handles.get_int_tensor::<B>(&inputs[0]);
            let [places, project, embed] = floats::<B, 3>(handles, &inputs[1..]);
            let mut biases = inputs[4..].iter();
            let [inner, outer] = biased.map(|biased| {
                let bias = if biased { biases.next() } else { None };
                bias.map(|bias| handles.get_float_tensor::<B>(bias))
            });
            B::code_tokens(codes, &levels, (project, inner), (embed, outer), places)
        })
    }

    fn conv1d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: Geometry,
    ) -> FloatTensor<Self> {
        let ([batch, _, samples], [channels, _, taps]) = (x.shape().dims(), weight.shape().dims());
        let Geometry { stride, padding, dilation } = geometry;
        let outputs = (samples + 2 * padding - dilation * (taps - 1) - 1) / stride + 1;
        let (shape, dtype) = ([batch, channels, outputs].into(), x.dtype());
        let inputs = with_bias([x, weight], bias);
        record::<B>("conv1d", inputs, shape, dtype, move |handles, inputs| {
            let [x, weight] = floats::<B, 2>(handles, inputs);
            let bias = inputs.get(2).map(|bias| handles.get_float_tensor::<B>(bias));
            <B as Backend>::conv1d(x, weight, bias, geometry)
        })
    }

    fn conv_transpose1d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: Geometry,
    ) -> FloatTensor<Self> {
        let ([batch, _, frames], [_, channels, taps]) = (x.shape().dims(), weight.shape().dims());
        let samples = (frames.max(1) - 1) * geometry.stride + taps - 2 * geometry.padding;
        let (shape, dtype) = ([batch, channels, samples].into(), x.dtype());
        let inputs = with_bias([x, weight], bias);
        record::<B>("conv_transpose1d", inputs, shape, dtype, move |handles, inputs| {
            let [x, weight] = floats::<B, 2>(handles, inputs);
            let bias = inputs.get(2).map(|bias| handles.get_float_tensor::<B>(bias));
            <B as Backend>::conv_transpose1d(x, weight, bias, geometry)
        })
    }

    fn norm_rotate(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let ([batch, length, heads, width], dtype) = (x.shape().dims(), x.dtype());
        let shape = [batch, heads, length, width].into();
        let inputs = vec![x, weight, cos, sin];
        record::<B>("norm_rotate", inputs, shape, dtype, move |handles, inputs| {
            let [x, weight, cos, sin] = floats::<B, 4>(handles, inputs);
            B::norm_rotate(x, weight, epsilon, cos, sin)
        })
    }

    fn product(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        let is_cut = x.dtype() == DType::F32 && B::cuts_f32(x.client.device());
        if matrix::is_tuned() && !is_cut && !matvec::is_for(x.shape()[0]) {
            // Left to Burn, which may do in one what follows the product.
            let [x, weight] = [x, weight].map(tensor::<Self, 2>);
            return primitive(x.matmul(weight.transpose()));
        }
        let (shape, dtype) = ([x.shape()[0], weight.shape()[0]].into(), x.dtype());
        record::<B>("product", vec![x, weight], shape, dtype, |handles, inputs| {
            let [x, weight] = floats::<B, 2>(handles, inputs);
            B::product(x, weight)
        })
    }

    // ANCHOR: record
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
    // ANCHOR_END: record

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

    fn snake(
        x: FloatTensor<Self>,
        alpha: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (shape, dtype) = (x.shape(), x.dtype());
        record::<B>("snake", vec![x, alpha, beta], shape, dtype, |handles, inputs| {
            let [x, alpha, beta] = floats::<B, 3>(handles, inputs);
            B::snake(x, alpha, beta)
        })
    }

    fn swiglu(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self> {
        let (shape, dtype) = (gate.shape(), gate.dtype());
        record::<B>("swiglu", vec![gate, up], shape, dtype, |handles, inputs| {
            let [gate, up] = floats::<B, 2>(handles, inputs);
            B::swiglu(gate, up)
        })
    }
}
