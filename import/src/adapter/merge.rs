//! Adapters on the weights of one model, and the sum.
//!
//! Each adapter's change is computed from the checkpoint's own weight, and the changes are added:
//! `W' = W + (D1 + D2 + ..)` in f32, rounded once to the type of the network. So their order means
//! nothing but the last bit, and DoRA, whose change depends on the weight, sees the same weight
//! wherever it stands.
//!
//! acestep.cpp rounds the factors of a LoRA and each change to bf16 first, as PEFT does with a
//! network in bf16. Here nothing is rounded before the sum: that costs no time, and small changes
//! arrive better.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use burn::tensor::{DType, TensorData};
use half::{bf16, f16};

use super::{Adapter, AdapterError, Fitted, target::Targets};
use crate::{Error, safetensors::is_beyond_f16};

/// Adapters that fit a model, each with the user's scale.
#[derive(Debug, Default)]
pub struct Adapters {
    list: Vec<Fitted>,
    /// Parameters of the network to what became of them, once they were read.
    rounded: Mutex<BTreeMap<String, Rounded>>,
}

/// How much of all changes is left in a narrow type.
#[derive(Debug, Clone, Copy)]
struct Rounded {
    /// The change before rounding times that after it, and times itself.
    products: [f64; 2],
}

impl Adapters {
    /// Fits `adapters`, each with its scale, to the parameters, path and shape, of the transformer
    /// of `model`.
    ///
    /// # Errors
    /// [`AdapterError::NoMatch`], [`AdapterError::WrongShape`], [`AdapterError::Twice`].
    pub(crate) fn fit(
        adapters: Vec<(Adapter, f64)>,
        model: &str,
        parameters: impl IntoIterator<Item = (String, Vec<usize>)>,
    ) -> Result<Self, Error> {
        let targets = Targets::new(parameters);
        let list = adapters
            .into_iter()
            .map(|(adapter, scale)| Fitted::new(adapter, scale, model, &targets))
            .collect::<Result<_, _>>()?;
        Ok(Self { list, rounded: Mutex::default() })
    }

    /// Each of them, in the order in which they were given.
    pub fn list(&self) -> &[Fitted] {
        &self.list
    }

    /// Whether the parameter at `path` is changed.
    pub(crate) fn change(&self, path: &str) -> bool {
        self.list.iter().any(|fitted| fitted.changes(path))
    }

    /// `weight`, the values of the parameter at `path` in f32, with all changes, as `dtype`.
    ///
    /// # Errors
    /// If a value does not fit into `dtype`, or a file has been cut since it was opened.
    pub(crate) fn merge(
        &self,
        path: &str,
        weight: TensorData,
        dtype: DType,
    ) -> Result<TensorData, Error> {
        let shape = weight.shape.clone();
        let mut weight = weight.to_vec::<f32>().expect("it was read as f32");
        let mut sum: Option<Vec<f32>> = None;
        for fitted in &self.list {
            let Some(change) = fitted.change_of(path, &weight)? else { continue };
            match &mut sum {
                None => sum = Some(change),
                Some(sum) => sum.iter_mut().zip(change).for_each(|(x, y)| *x += y),
            }
        }
        let sum = sum.unwrap_or_default();
        let mut rounded = Rounded { products: [0.0; 2] };
        for (w, &change) in weight.iter_mut().zip(&sum) {
            // Minus zero plus zero would be another number.
            if change == 0.0 {
                continue;
            }
            let with = *w + change;
            if dtype != DType::F32 {
                let arrived = f64::from(as_type(with, dtype)) - f64::from(as_type(*w, dtype));
                rounded.products[0] += f64::from(change) * arrived;
                rounded.products[1] += f64::from(change).powi(2);
            }
            *w = with;
        }
        if !weight.iter().all(|w| w.is_finite()) {
            return Err(AdapterError::NotFiniteTogether { tensor: path.to_owned() }.into());
        }
        if dtype == DType::F16 && weight.iter().copied().any(is_beyond_f16) {
            return Err(AdapterError::BeyondF16 { tensor: path.to_owned() }.into());
        }
        self.rounded().insert(path.to_owned(), rounded);
        let data = TensorData::new(weight, shape);
        Ok(if dtype == DType::F32 { data } else { data.convert_dtype(dtype) })
    }

    /// How much of the changes arrived in the network, 1 = all: bf16 and f16 round small ones
    /// away. `None` before it was read, if nothing changes, or in f32.
    pub fn arrived(&self) -> Option<f64> {
        let [with, own] = self
            .rounded()
            .values()
            .fold([0.0; 2], |sum, of| [sum[0] + of.products[0], sum[1] + of.products[1]]);
        (own > 0.0).then(|| with / own)
    }

    fn rounded(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Rounded>> {
        self.rounded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn as_type(value: f32, dtype: DType) -> f32 {
    match dtype {
        DType::BF16 => bf16::from_f32(value).to_f32(),
        DType::F16 => f16::from_f32(value).to_f32(),
        _ => value,
    }
}

/// Shared by those who read the network's parameters.
pub(crate) type Shared = Arc<Adapters>;
