//! Several adapters on the weights of one model, and their sum.
//!
//! Each adapter's change is computed from the checkpoint's own weight, and the changes are added:
//! `W' = W + (D1 + D2 + ..)` in f32, rounded once to the type of the network. Their order therefore
//! changes at most the last bit, and DoRA, whose change depends on the weight, sees the same weight
//! at any position.
//!
//! acestep.cpp rounds the factors of a LoRA and each change to bf16 first, as PEFT does for a
//! network in bf16. Here nothing is rounded before the sum: this costs no time and keeps small
//! changes better.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use burn::tensor::{DType, TensorData};
use half::{bf16, f16};

use super::{Adapter, AdapterError, Fitted, fit::Read, target::Targets};
use crate::{Error, safetensors::is_beyond_f16};

/// Adapters that fit a model, each with the user's scale.
#[derive(Debug, Default)]
pub struct Adapters {
    list: Vec<Fitted>,
    /// Parameters of the network to the change before rounding times the change after it, and times
    /// itself. Filled when they are read.
    rounded: Mutex<BTreeMap<String, [f64; 2]>>,
}

impl Adapters {
    /// Fits `adapters`, each with its scale, to the parameters (path and shape) of the transformer
    /// of `model`.
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

    /// Returns the adapters in the order in which they were given.
    pub fn list(&self) -> &[Fitted] {
        &self.list
    }

    /// True if an adapter changes the parameter at `path`.
    pub(crate) fn change(&self, path: &str) -> bool {
        self.list.iter().any(|fitted| fitted.changes(path))
    }

    /// Returns `weight` (f32 values of the parameter at `path`) with all changes, as `dtype`.
    /// `read` returns the values of other parameters.
    ///
    /// # Errors
    /// If a value does not fit into `dtype`, or a file has been cut since it was opened; errors of
    /// `read`.
    pub(crate) fn merge(
        &self,
        path: &str,
        weight: TensorData,
        dtype: DType,
        read: Read<'_>,
    ) -> Result<TensorData, Error> {
        let shape = weight.shape.clone();
        let mut weight = weight.to_vec::<f32>().expect("it was read as f32");
        let mut sum: Option<Vec<f32>> = None;
        for fitted in &self.list {
            let Some(change) = fitted.change_of(path, &weight, read)? else { continue };
            match &mut sum {
                None => sum = Some(change),
                Some(sum) => sum.iter_mut().zip(change).for_each(|(x, y)| *x += y),
            }
        }
        let sum = sum.unwrap_or_default();
        let width = shape.last().copied().unwrap_or(1);
        let before = (dtype != DType::F32).then(|| as_type(&weight, width, dtype));
        for (w, &change) in weight.iter_mut().zip(&sum) {
            // -0 + 0 would give +0.
            if change != 0.0 {
                *w += change;
            }
        }
        let mut products = [0.0; 2];
        if let Some(before) = before {
            let after = as_type(&weight, width, dtype);
            for ((before, after), change) in before.iter().zip(&after).zip(&sum) {
                let arrived = f64::from(*after) - f64::from(*before);
                products[0] += f64::from(*change) * arrived;
                products[1] += f64::from(*change).powi(2);
            }
        }
        if !weight.iter().all(|w| w.is_finite()) {
            return Err(AdapterError::NotFiniteTogether { tensor: path.to_owned() }.into());
        }
        if dtype == DType::F16 && weight.iter().copied().any(is_beyond_f16) {
            return Err(AdapterError::BeyondF16 { tensor: path.to_owned() }.into());
        }
        self.rounded().insert(path.to_owned(), products);
        let data = TensorData::new(weight, shape);
        // The network rounds to int8 when it is filled.
        Ok(match dtype {
            DType::F32 | DType::I8 => data,
            narrow => data.convert_dtype(narrow),
        })
    }

    /// Returns the share of the changes that remains in the network, 1 = all: rounding to bf16, f16
    /// and int8 removes small ones. `None` before the weights were read, if nothing changes, or in
    /// f32.
    pub fn remaining(&self) -> Option<f64> {
        let [with, own] =
            self.rounded().values().fold([0.0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]]);
        (own > 0.0).then(|| with / own)
    }

    fn rounded(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, [f64; 2]>> {
        self.rounded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns rows of `width` after rounding to `dtype`.
fn as_type(values: &[f32], width: usize, dtype: DType) -> Vec<f32> {
    match dtype {
        DType::BF16 => values.iter().map(|&value| bf16::from_f32(value).to_f32()).collect(),
        DType::F16 => values.iter().map(|&value| f16::from_f32(value).to_f32()).collect(),
        DType::I8 => {
            values.chunks(width).flat_map(|row| row.chunks(BLOCK)).flat_map(eight).collect()
        }
        _ => values.to_vec(),
    }
}

/// Values that share one scale, see [`acestep_model::kernel::quantize_q8`].
const BLOCK: usize = 32;

fn eight(block: &[f32]) -> impl Iterator<Item = f32> {
    let step = block.iter().fold(0.0f32, |most, x| most.max(x.abs())) / 127.0;
    let round = move |x: &f32| if step > 0.0 { (x / step).round_ties_even() * step } else { 0.0 };
    block.iter().map(round)
}

/// Adapters shared by all readers of the network's parameters.
pub(crate) type Shared = Arc<Adapters>;
