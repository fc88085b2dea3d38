//! The custom operations for Burn's fusion backend, which records operations and runs them later.
//!
//! Every operation with a kernel must be forwarded here by name. A missing one would silently run
//! as plain operations.

use std::{fmt, sync::Arc};

use burn::tensor::{
    DType, Shape, Tensor, TensorMetadata,
    ops::{BoolTensor, FloatTensor, IntTensor},
};
use burn_fusion::{
    Fusion, FusionBackend, FusionRuntime, FusionTensor,
    stream::{Operation, OperationStreams},
};
use burn_ir::{CustomOpIr, HandleContainer, OperationIr, TensorIr};

use super::{
    super::{Backend, CachedLayer, ConvGeometry, Reading, Slot, Visibility, primitive, tensor},
    decode::{self, Decodes, Decoding, TENSORS},
    matrix, matvec,
};

type Recorded<B> = FusionTensor<<B as FusionBackend>::FusionRuntime>;
type Handles<B> =
    HandleContainer<<<B as FusionBackend>::FusionRuntime as FusionRuntime>::FusionHandle>;
type Run<B> = dyn Fn(&mut Handles<B>, &[TensorIr]) -> Vec<FloatTensor<B>> + Send + Sync;

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
        let outputs = (self.run)(handles, &self.description.inputs);
        for (tensor, output) in self.description.outputs.iter().zip(outputs) {
            handles.register_float_tensor::<B>(&tensor.id, output);
        }
    }
}

/// Records an operation on `inputs` that returns one tensor of `shape` and `dtype`.
///
/// `run` is called later with the descriptions of the inputs, in order.
fn record<B: FusionBackend>(
    name: &'static str,
    inputs: Vec<Recorded<B>>,
    shape: Shape,
    dtype: DType,
    run: impl Fn(&mut Handles<B>, &[TensorIr]) -> FloatTensor<B> + Send + Sync + 'static,
) -> Recorded<B> {
    let run = move |handles: &mut Handles<B>, inputs: &[TensorIr]| vec![run(handles, inputs)];
    record_all::<B>(name, inputs, vec![(shape, dtype)], run).remove(0)
}

/// [`record`] of an operation that returns one tensor per shape and type in `outputs`.
fn record_all<B: FusionBackend>(
    name: &'static str,
    inputs: Vec<Recorded<B>>,
    outputs: Vec<(Shape, DType)>,
    run: impl Fn(&mut Handles<B>, &[TensorIr]) -> Vec<FloatTensor<B>> + Send + Sync + 'static,
) -> Vec<Recorded<B>> {
    let client = inputs[0].client.clone();
    let streams = OperationStreams::with_inputs(&inputs);
    let output = |(shape, dtype)| TensorIr::uninit(client.create_empty_handle(), shape, dtype);
    let outputs: Vec<TensorIr> = outputs.into_iter().map(output).collect();
    let inputs: Vec<TensorIr> = inputs.into_iter().map(FusionTensor::into_ir).collect();
    let description = CustomOpIr::new(name, &inputs, &outputs);
    let custom = Custom::<B> { description: description.clone(), run: Arc::new(run) };
    client.register(streams, OperationIr::Custom(description), custom)
}

/// Returns the float tensors of all inputs.
fn floats<B: FusionBackend, const N: usize>(
    handles: &mut Handles<B>,
    inputs: &[TensorIr],
) -> [FloatTensor<B>; N] {
    std::array::from_fn(|i| handles.get_float_tensor::<B>(&inputs[i]))
}

/// Returns the output shape of a convolution.
fn convolved<T: TensorMetadata>(x: &T, weight: &T, geometry: ConvGeometry) -> Shape {
    let ([batch, _, samples], [channels, _, taps]) = (x.shape().dims(), weight.shape().dims());
    [batch, channels, geometry.outputs(samples, taps)].into()
}

/// Returns the inputs followed by the bias, if there is one.
fn with_bias<T, const N: usize>(inputs: [T; N], bias: Option<T>) -> Vec<T> {
    inputs.into_iter().chain(bias).collect()
}

impl<B: FusionBackend + Decodes + matrix::Products> Decodes for Fusion<B> {
    fn decodes(device: &Self::Device, decoding: &Decoding) -> bool {
        B::decodes(device, decoding)
    }

    fn decode(
        x: FloatTensor<Self>,
        rope: [FloatTensor<Self>; 2],
        layers: Vec<[FloatTensor<Self>; TENSORS]>,
        decoding: Decoding,
    ) -> Vec<FloatTensor<Self>> {
        let of = |tensor: &FloatTensor<Self>| (tensor.shape(), tensor.dtype());
        let mut outputs = vec![of(&x)];
        outputs.extend(layers.iter().flat_map(|layer| layer[TENSORS - 2..].iter().map(of)));
        let inputs = std::iter::once(x).chain(rope).chain(layers.into_iter().flatten()).collect();
        record_all::<B>("decode", inputs, outputs, move |handles, inputs| {
            let [x, cos, sin] = floats::<B, 3>(handles, inputs);
            let layers =
                inputs[3..].chunks(TENSORS).map(|layer| floats::<B, TENSORS>(handles, layer));
            let layers = layers.collect();
            B::decode(x, [cos, sin], layers, decoding.clone())
        })
    }
}

impl<B: FusionBackend + Decodes + matrix::Products> Backend for Fusion<B> {
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
        let outputs = vec![output.clone(), output];
        let mut pair = record_all::<B>("add_snake", inputs, outputs, |handles, inputs| {
            let [x, y, alpha, beta] = floats::<B, 4>(handles, inputs);
            B::add_snake(x, y, alpha, beta).into()
        })
        .into_iter();
        std::array::from_fn(|_| pair.next().expect("a sum and its snake"))
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

    fn cached_layers(
        x: Tensor<Self, 3>,
        layers: &mut dyn Iterator<Item = CachedLayer<'_, Self>>,
        reading: &Reading<'_, Self>,
    ) -> Tensor<Self, 3> {
        decode::cached_layers(x, layers, reading)
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
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        let (shape, dtype) = (convolved(&x, &weight, geometry), x.dtype());
        let inputs = with_bias([x, weight], bias);
        record::<B>("conv1d", inputs, shape, dtype, move |handles, inputs| {
            let [x, weight] = floats::<B, 2>(handles, inputs);
            let bias = inputs.get(2).map(|bias| handles.get_float_tensor::<B>(bias));
            <B as Backend>::conv1d(x, weight, bias, geometry)
        })
    }

    fn conv1d_snake(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
        [alpha, beta]: [FloatTensor<Self>; 2],
    ) -> FloatTensor<Self> {
        let (shape, dtype) = (convolved(&x, &weight, geometry), x.dtype());
        let inputs = with_bias([x, weight, alpha, beta], bias);
        record::<B>("conv1d_snake", inputs, shape, dtype, move |handles, inputs| {
            let [x, weight, alpha, beta] = floats::<B, 4>(handles, inputs);
            let bias = inputs.get(4).map(|bias| handles.get_float_tensor::<B>(bias));
            B::conv1d_snake(x, weight, bias, geometry, [alpha, beta])
        })
    }

    fn conv1d_add_snake(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
        [alpha, beta]: [FloatTensor<Self>; 2],
    ) -> [FloatTensor<Self>; 2] {
        let output = (residual.shape(), residual.dtype());
        let inputs = with_bias([residual, x, weight, alpha, beta], bias);
        let run = move |handles: &mut Handles<B>, inputs: &[TensorIr]| {
            let [residual, x, weight, alpha, beta] = floats::<B, 5>(handles, inputs);
            let bias = inputs.get(5).map(|bias| handles.get_float_tensor::<B>(bias));
            B::conv1d_add_snake(residual, x, weight, bias, geometry, [alpha, beta]).into()
        };
        let outputs = vec![output.clone(), output];
        let mut pair = record_all::<B>("conv1d_add_snake", inputs, outputs, run).into_iter();
        std::array::from_fn(|_| pair.next().expect("a sum and its snake"))
    }

    fn conv_transpose1d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        let ([batch, _, frames], [_, channels, taps]) = (x.shape().dims(), weight.shape().dims());
        let samples = geometry.transposed_outputs(frames, taps);
        let (shape, dtype) = ([batch, channels * geometry.groups, samples].into(), x.dtype());
        let inputs = with_bias([x, weight], bias);
        record::<B>("conv_transpose1d", inputs, shape, dtype, move |handles, inputs| {
            let [x, weight] = floats::<B, 2>(handles, inputs);
            let bias = inputs.get(2).map(|bias| handles.get_float_tensor::<B>(bias));
            <B as Backend>::conv_transpose1d(x, weight, bias, geometry)
        })
    }

    fn gated_product(
        x: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        up: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        if !B::has_product(x.client.device(), x.dtype()) {
            return Self::swiglu(Self::product(x.clone(), gate), Self::product(x, up));
        }
        let (shape, dtype) = ([x.shape()[0], gate.shape()[0]].into(), x.dtype());
        record::<B>("gated_product", vec![x, gate, up], shape, dtype, |handles, inputs| {
            let [x, gate, up] = floats::<B, 3>(handles, inputs);
            B::gated_product(x, gate, up)
        })
    }

    fn product_added(
        residual: FloatTensor<Self>,
        gate: Option<FloatTensor<Self>>,
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        if !B::has_product(x.client.device(), x.dtype()) {
            let gate = gate.map(tensor);
            return primitive(super::super::products::reference_added::<Self>(
                tensor(residual),
                gate,
                tensor(x),
                tensor(weight),
            ));
        }
        let (shape, dtype) = (residual.shape(), residual.dtype());
        let inputs = [residual, x, weight].into_iter().chain(gate).collect();
        record::<B>("product_added", inputs, shape, dtype, |handles, inputs| {
            let [residual, x, weight] = floats::<B, 3>(handles, inputs);
            let gate = inputs.get(3).map(|gate| handles.get_float_tensor::<B>(gate));
            B::product_added(residual, gate, x, weight)
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
        let is_ours = B::has_product(x.client.device(), x.dtype());
        if matrix::is_tuned() && !is_ours && !matvec::is_for(x.shape()[0]) {
            // Left to Burn, which may fuse the next operations into the product.
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
