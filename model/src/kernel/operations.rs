//! The table of the operations that have kernels, and the macros that read it.
//!
//! A row is the signature of an operation, its reference, and the shapes of its results:
//!
//! ```text
//! /// Documentation of the method.
//! fn name(x: Float, bias: Maybe, stride: usize) -> Float {
//!     primitive(reference::name(x, bias, stride))
//! } as [like(&x)]
//! ```
//!
//! | type in a row | type in the method | type in the body |
//! |---|---|---|
//! | `Float` | `FloatTensor<Self>` | `Tensor<Self, D>` |
//! | `Maybe` | `Option<FloatTensor<Self>>` | `Option<Tensor<Self, D>>` |
//! | `Ints` | `IntTensor<Self>` | `Tensor<Self, D, Int>` |
//! | `Flags` | `Option<BoolTensor<Self>>` | `Option<Tensor<Self, D, Bool>>` |
//! | `Map` | weight and bias: `(Float, Maybe)` | weight and bias: [`Map`](super::Map) |
//! | `[Float; N]` | array of `Float` | array of `Float` |
//! | `[T]` | `&[T]` | `&[T]` |
//! | any other | itself | itself |
//!
//! Every row becomes a method of [`Backend`](super::Backend); the body of the row is its default.
//! An implementation of `Backend` states a method in one line:
//!
//! ```text
//! kernel! { name = path::of::a::function }       // the method calls this function
//! kernel! { f32 name = path::of::a::function }   // the same if all floats are f32, else the row's body: flex.rs
//! kernel! { record name }                        // the method records the operation: cube/fusion.rs
//! ```
//!
//! Only a row with `as` can be recorded. It gives the shape and type of each result. Its functions
//! are those of `cube/fusion.rs`.

/// Calls `$then!` with all rows.
macro_rules! operations {
    ($then:ident) => {
        $then! {

        // Products.

        /// Returns `x W^T`, the matrix product of [`linear`](super::linear), in the type of `x`.
        ///
        /// # Shapes
        /// - `x`: `[rows, in]`, `weight`: `[out, in]`, output: `[rows, out]`
        fn product(x: Float, weight: Float) -> Float {
            primitive(reference::product(x, weight))
        }

        /// [`gated_linear`](super::gated_linear) of rows.
        ///
        /// # Shapes
        /// - `x`: `[rows, in]`, `gate`, `up`: `[out, in]`, output: `[rows, out]`
        fn gated_product(x: Float, gate: Float, up: Float) -> Float {
            primitive(super::products::reference_gated(x, gate.into(), up.into()))
        }

        /// See [`linear_added`](super::linear_added), which also keeps its result finite.
        fn product_added(residual: Float, gate: Maybe, x: Float, weight: Float) -> Float {
            primitive(super::products::reference_added(residual, gate, x, weight.into()))
        }

        /// See [`batched_product`](super::batched_product).
        fn batched_product(left: Float, right: Float) -> Float {
            primitive(reference::batched_product(left, right))
        } as [multiplied(&left, &right)]

        // Norms, gates and positions.

        // ANCHOR: row
        /// [`rms_norm`](super::rms_norm) of rows.
        ///
        /// # Shapes
        /// - `x`, output: `[rows, H]`, `weight`: `[H]`
        fn rms_norm(x: Float, weight: Float, epsilon: f64) -> Float {
            primitive(reference::rms_norm::<Self, 2>(x, weight, epsilon))
        } as [like(&x)]
        // ANCHOR_END: row

        /// [`layer_norm`](super::layer_norm) of rows.
        ///
        /// # Shapes
        /// - `x`, output: `[rows, H]`, `weight`, `bias`: `[H]`
        fn layer_norm(x: Float, weight: Float, bias: Maybe, epsilon: f64) -> Float {
            primitive(reference::layer_norm::<Self, 2>(x, weight, bias, epsilon))
        }

        /// See [`ada_norm`](super::ada_norm).
        fn ada_norm(x: Float, weight: Float, epsilon: f64, shift: Float, scale: Float) -> Float {
            primitive(reference::ada_norm(x, weight, epsilon, shift, scale))
        } as [like(&x)]

        /// See [`add_gated`](super::add_gated), which also keeps its result finite.
        fn add_gated(x: Float, gate: Float, y: Float) -> Float {
            primitive(reference::add_gated(x, gate, y))
        }

        /// See [`norm_rotate`](super::norm_rotate).
        fn norm_rotate(x: Float, weight: Float, epsilon: f64, cos: Float, sin: Float) -> Float {
            primitive(reference::norm_rotate(x, weight, epsilon, cos, sin))
        } as [heads_first(&x)]

        /// See [`rotate`](super::rotate).
        fn rotate(x: Float, cos: Float, sin: Float) -> Float {
            primitive(reference::rotate(x, cos, sin))
        }

        /// [`swiglu`](super::swiglu) of rows.
        ///
        /// # Shapes
        /// - `gate`, `up`, output: `[rows, H]`
        fn swiglu(gate: Float, up: Float) -> Float {
            primitive(reference::swiglu::<Self, 2>(gate, up))
        } as [like(&gate)]

        /// [`gelu`](super::gelu) of rows.
        ///
        /// # Shapes
        /// - `x`, output: `[rows, H]`
        fn gelu(x: Float) -> Float {
            primitive(reference::gelu::<Self, 2>(x))
        }

        /// [`gelu_tanh`](super::gelu_tanh) of rows.
        ///
        /// # Shapes
        /// - `x`, output: `[rows, H]`
        fn gelu_tanh(x: Float) -> Float {
            primitive(reference::gelu_tanh::<Self, 2>(x))
        }

        /// [`elu`](super::elu) of rows.
        ///
        /// # Shapes
        /// - `x`, output: `[rows, H]`
        fn elu(x: Float) -> Float {
            primitive(reference::elu::<Self, 2>(x))
        }

        // Attention and its cache.

        /// See [`attention`](super::attention); `keys` is [`Mask::keys`].
        fn attention(q: Float, k: Float, v: Float, keys: Flags, visibility: Visibility) -> Float {
            primitive(reference::attention(q, k, v, &Mask { visibility, keys }))
        } as [like(&q)]

        /// See [`cache_write`](super::cache_write).
        fn cache_write(cache: Float, new: Float, slots: [Slot]) -> Float {
            primitive(reference::cache_write(cache, new, slots))
        } as [like(&cache)]

        // Codes and sound.

        /// See [`code_tokens`](super::code_tokens).
        fn code_tokens(
            codes: Ints,
            levels: [u32],
            project: Map,
            embed: Map,
            places: Float,
        ) -> Float {
            primitive(reference::code_tokens(codes, levels, project, embed, places))
        } as [windows(&codes, &places)]

        /// See [`draw`](super::draw).
        fn draw(logits: Float, exponentials: Float, temperature: f32, top_k: usize) -> Ints {
            reference::draw(logits, exponentials, temperature, top_k).into_primitive()
        } as [one_id(&logits)]

        /// See [`snake`](super::snake).
        fn snake(x: Float, alpha: Float, beta: Float) -> Float {
            primitive(reference::snake(x, alpha, beta))
        } as [like(&x)]

        /// See [`add_snake`](super::add_snake).
        fn add_snake(x: Float, y: Float, alpha: Float, beta: Float) -> [Float; 2] {
            reference::add_snake(x, y, alpha, beta).map(primitive)
        } as [like(&x), like(&x)]

        /// See [`half_snake`](super::half_snake).
        fn half_snake(x: Float, alpha: Float) -> Float {
            primitive(reference::half_snake(x, alpha))
        }

        /// See [`conv1d`](super::conv1d).
        fn conv1d(x: Float, weight: Float, bias: Maybe, geometry: ConvGeometry) -> Float {
            primitive(reference::conv1d(x, weight, bias, geometry))
        } as [convolved(&x, &weight, geometry)]

        /// [`conv1d`](super::conv1d), then [`snake`](super::snake).
        fn conv1d_snake(
            x: Float,
            weight: Float,
            bias: Maybe,
            geometry: ConvGeometry,
            wave: [Float; 2],
        ) -> Float {
            let [alpha, beta] = wave;
            primitive(super::snake(super::conv1d(x, weight, bias, geometry), alpha, beta))
        } as [convolved(&x, &weight, geometry)]

        /// [`conv1d`](super::conv1d), then [`add_snake`](super::add_snake) with `residual`.
        fn conv1d_add_snake(
            residual: Float,
            x: Float,
            weight: Float,
            bias: Maybe,
            geometry: ConvGeometry,
            wave: [Float; 2],
        ) -> [Float; 2] {
            let [alpha, beta] = wave;
            let y = super::conv1d(x, weight, bias, geometry);
            super::add_snake(residual, y, alpha, beta).map(primitive)
        } as [like(&residual), like(&residual)]

        /// See [`conv_transpose1d`](super::conv_transpose1d).
        fn conv_transpose1d(
            x: Float,
            weight: Float,
            bias: Maybe,
            geometry: ConvGeometry,
        ) -> Float {
            primitive(reference::conv_transpose1d(x, weight, bias, geometry))
        } as [spread(&x, &weight, geometry)]

        /// See [`moments`](super::moments).
        fn moments(x: Float, weights: Float, least: f32) -> [Float; 2] {
            reference::moments(x, weights, least).map(primitive)
        } as [over_time(&x), over_time(&x)]

        // Gradients. Each returns one gradient per tensor that has one, in the order of arguments.

        /// See [`reference::product_gradients`].
        fn product_gradients(
            x: Float,
            weight: Float,
            gradient: Float,
            wanted: [bool; 2],
        ) -> [Maybe; 2] {
            reference::product_gradients(x, weight, gradient, wanted).map(|of| of.map(primitive))
        }

        /// See [`reference::rms_norm_gradients`].
        fn rms_norm_gradients(
            x: Float,
            weight: Float,
            epsilon: f64,
            gradient: Float,
        ) -> [Float; 2] {
            let (of_x, of_weight) = reference::rms_norm_gradients(x, weight, epsilon, gradient);
            [primitive(of_x), primitive(of_weight)]
        }

        /// See [`reference::ada_norm_gradients`]; returns the gradients of input, weight, shift and
        /// scale.
        fn ada_norm_gradients(
            x: Float,
            weight: Float,
            epsilon: f64,
            scale: Float,
            gradient: Float,
        ) -> [Float; 4] {
            let (of_x, of_weight, [of_shift, of_scale]) =
                reference::ada_norm_gradients(x, weight, epsilon, scale, gradient);
            [primitive(of_x), primitive(of_weight), primitive(of_shift), primitive(of_scale)]
        }

        /// See [`reference::add_gated_gradients`].
        fn add_gated_gradients(gate: Float, y: Float, gradient: Float) -> [Float; 2] {
            reference::add_gated_gradients(gate, y, gradient).map(primitive)
        }

        /// See [`reference::swiglu_gradients`].
        fn swiglu_gradients(gate: Float, up: Float, gradient: Float) -> [Float; 2] {
            reference::swiglu_gradients(gate, up, gradient).map(primitive)
        }

        /// See [`reference::attention_gradients`].
        fn attention_gradients(
            inputs: [Float; 3],
            keys: Flags,
            visibility: Visibility,
            gradient: Float,
        ) -> [Float; 3] {
            let mask = Mask { visibility, keys };
            reference::attention_gradients(inputs, &mask, gradient).map(primitive)
        }

        /// See [`reference::snake_gradients`].
        fn snake_gradients(x: Float, alpha: Float, beta: Float, gradient: Float) -> [Float; 3] {
            reference::snake_gradients(x, alpha, beta, gradient).map(primitive)
        }

        /// See [`reference::filter_gradient`].
        fn filter_gradient(
            x: Float,
            gradient: Float,
            taps: usize,
            geometry: ConvGeometry,
        ) -> Float {
            primitive(reference::filter_gradient(x, gradient, taps, geometry))
        }

        }
    };
}

/// The type of an argument or a result in the method.
macro_rules! kind {
    (Float) => { burn::tensor::ops::FloatTensor<Self> };
    (Maybe) => { Option<burn::tensor::ops::FloatTensor<Self>> };
    (Ints) => { burn::tensor::ops::IntTensor<Self> };
    (Flags) => { Option<burn::tensor::ops::BoolTensor<Self>> };
    (Map) => { (kind!(Float), kind!(Maybe)) };
    ([Float; $count:literal]) => { [kind!(Float); $count] };
    ([Maybe; $count:literal]) => { [kind!(Maybe); $count] };
    ([$of:ty]) => { &[$of] };
    ($other:ty) => { $other };
}

/// The value of an argument in the body of a row.
macro_rules! wrapped {
    (Float $x:ident) => {
        tensor::<Self, _>($x)
    };
    (Maybe $x:ident) => {
        $x.map(tensor::<Self, _>)
    };
    (Ints $x:ident) => {
        Tensor::<Self, _, burn::tensor::Int>::from_primitive($x)
    };
    (Flags $x:ident) => {
        $x.map(Tensor::<Self, _, burn::tensor::Bool>::from_primitive)
    };
    (Map $x:ident) => {
        (super::Weight::Plain(tensor::<Self, _>($x.0)), $x.1.map(tensor::<Self, _>))
    };
    ([Float; $count:literal] $x:ident) => {
        $x.map(tensor::<Self, _>)
    };
    ($other:tt $x:ident) => {
        $x
    };
}

/// Writes the methods of [`Backend`](super::Backend).
macro_rules! methods {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $kind:tt),* $(,)?) -> $out:tt $body:block $(as $shapes:tt)?
    )*) => {
        $(
            $(#[$doc])*
            fn $name($($arg: kind!($kind)),*) -> kind!($out) {
                $(let $arg = wrapped!($kind $arg);)*
                $body
            }
        )*
    };
}

/// Writes the macro `kernel!`, with three arms per row.
macro_rules! kernels {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $kind:tt),* $(,)?) -> $out:tt $body:block $(as $shapes:tt)?
    )*) => {
        /// The method of one operation in an implementation of `Backend`.
        #[allow(unused_macros, reason = "a build may have no backend")]
        macro_rules! kernel {
            $(
                ($name = $by:expr) => {
                    fn $name($($arg: kind!($kind)),*) -> kind!($out) {
                        ($by)($($arg),*)
                    }
                };
                (f32 $name = $by:expr) => {
                    fn $name($($arg: kind!($kind)),*) -> kind!($out) {
                        if [$(is_f32!($kind $arg)),*].into_iter().all(|is_f32| is_f32) {
                            return ($by)($($arg),*);
                        }
                        $(let $arg = wrapped!($kind $arg);)*
                        $body
                    }
                };
                (record $name) => {
                    fn $name($($arg: kind!($kind)),*) -> kind!($out) {
                        let outputs = outputs!($($shapes)?);
                        let mut inputs = Inputs::<B>::default();
                        $(let $arg = kept!($kind $arg, inputs);)*
                        let outputs = inputs.record(stringify!($name), outputs, move |given| {
                            $(let $arg = given!($kind $arg, given);)*
                            results!($out <B as Backend>::$name($($arg),*))
                        });
                        result!($out outputs)
                    }
                };
            )*
        }
    };
}

operations! { kernels }
