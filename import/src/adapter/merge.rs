//! Adapters on the weights of one model: which module changes which weight, and the sum.
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
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use burn::tensor::{DType, TensorData};
use half::{bf16, f16};

use super::{
    Adapter, AdapterError,
    delta::energy,
    file::counted,
    module::Module,
    target::{LAYERS_BEYOND, Targets},
};
use crate::{Error, error::Names, safetensors::is_beyond_f16};

/// Adapters that fit a model, each with the user's scale.
#[derive(Debug, Default)]
pub struct Adapters {
    list: Vec<Fitted>,
    /// Parameters of the network to what became of them, once they were read.
    rounded: Mutex<BTreeMap<String, Rounded>>,
}

/// An adapter on a model.
#[derive(Debug)]
pub struct Fitted {
    adapter: Adapter,
    scale: f64,
    /// Paths of parameters to the place in the adapter's list of modules.
    places: HashMap<String, usize>,
    /// Weights of the network that could be changed.
    targets: usize,
    /// Modules that the model does not have, and what they seem to be of.
    unmatched: Vec<(String, &'static str)>,
    /// Parameters to the sums of squares of the change and of the weight, once they were read.
    measured: Mutex<BTreeMap<String, [f64; 2]>>,
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
        self.list.iter().any(|fitted| fitted.module(path).is_some())
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
            let Some(module) = fitted.module(path) else { continue };
            let change = module.change(fitted.adapter.tensors(), &weight, fitted.scale)?;
            fitted.measured().insert(path.to_owned(), [energy(&change), energy(&weight)]);
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

impl Fitted {
    fn new(
        adapter: Adapter,
        scale: f64,
        model: &str,
        targets: &Targets,
    ) -> Result<Self, AdapterError> {
        let path = || adapter.path().to_owned();
        let mut places = HashMap::new();
        let mut unmatched = Vec::new();
        for (place, module) in adapter.list().iter().enumerate() {
            let Some((target, shape)) = targets.find(&module.name) else {
                unmatched.push((module.name.clone(), targets.other(&module.name)));
                continue;
            };
            if [shape[0], shape[1..].iter().product()] != module.shape {
                return Err(AdapterError::WrongShape {
                    path: path(),
                    module: module.name.clone(),
                    expected: shape.to_vec(),
                    found: module.shape,
                    likely: likely(shape, module.shape),
                });
            }
            if let Some(other) = places.insert(format!("{target}.weight"), place) {
                let first = adapter.list()[other].name.clone();
                return Err(AdapterError::Twice {
                    path: path(),
                    first,
                    second: module.name.clone(),
                });
            }
        }
        if places.is_empty() {
            let names = unmatched.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            return Err(AdapterError::NoMatch {
                path: path(),
                model: model.to_owned(),
                count: counted(names.len(), "module"),
                names: Names(names),
                what: of(&unmatched),
            });
        }
        // No transformer of the family has the same widths and more layers: these are a language
        // model's, whose modules have the same names.
        if let Some((module, _)) = unmatched.iter().find(|(_, what)| *what == LAYERS_BEYOND) {
            return Err(AdapterError::NotAnAdapter {
                path: path(),
                reason: format!(
                    "`{module}` is of a layer that {model} does not have, while its widths fit: it is \
                     one of a language model, most likely"
                ),
            });
        }
        let (targets, measured) = (targets.len(), Mutex::default());
        Ok(Self { adapter, scale, places, targets, unmatched, measured })
    }

    /// The adapter.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        self.adapter.path()
    }

    /// The user's scale: 1 = as it was trained, 0 = not at all.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// How many weights it changes, and how many there are that one could.
    pub fn matched(&self) -> (usize, usize) {
        (self.places.len(), self.targets)
    }

    /// How many of its modules the model does not have.
    pub fn unmatched(&self) -> usize {
        self.unmatched.len()
    }

    /// The length of the change by that of the weights it changes, once they were read: `|D| / |W|`,
    /// all of them as one long row.
    pub fn change(&self) -> Option<f64> {
        if self.scale == 0.0 {
            return Some(0.0);
        }
        let measured = self.measured();
        if measured.len() < self.places.len() {
            return None;
        }
        let sum = |i: usize| measured.values().map(|of| of[i]).sum::<f64>();
        let (change, weight) = (sum(0), sum(1));
        Some(if change == 0.0 { 0.0 } else { (change / weight).sqrt() })
    }

    /// What is worth saying before it is used, one sentence each.
    pub fn notices(&self) -> Vec<String> {
        let mut said = self.adapter.unused();
        let name = self.path().display();
        if !self.unmatched.is_empty() {
            let names = self.unmatched.iter().map(|(name, _)| name.clone()).collect();
            let (are, have, seem) = match self.unmatched.len() {
                1 => ("is", "it", "it seems"),
                _ => ("are", "them", "they seem"),
            };
            said.push(format!(
                "{} of the adapter `{name}` {are} not used, the model does not have {have}; {seem} to \
                 be of {}: {}",
                counted(self.unmatched.len(), "module"),
                of(&self.unmatched),
                Names(names)
            ));
        }
        if self.scale == 0.0 {
            said.push(format!("the adapter `{name}` has the scale 0: it changes nothing"));
        }
        if self.adapter.alphas().is_none() {
            said.push(format!(
                "the adapter `{name}` does not say its alpha: it works as if that were its rank"
            ));
        }
        said
    }

    /// What changes the parameter at `path`; at scale 0 nothing does, whatever DoRA's lengths are.
    fn module(&self, path: &str) -> Option<&Module> {
        let place = self.places.get(path).filter(|_| self.scale != 0.0)?;
        self.adapter.list().get(*place)
    }

    fn measured(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, [f64; 2]>> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `the text encoder and the conditioner`
fn of(unmatched: &[(String, &'static str)]) -> String {
    let mut names: Vec<_> = unmatched.iter().map(|(_, other)| *other).collect();
    names.sort_unstable();
    names.dedup();
    names.join(" and ")
}

/// Why the shapes may differ.
fn likely(expected: &[usize], found: [usize; 2]) -> &'static str {
    /// Hidden sizes of the released transformers, 2B and XL.
    const WIDTHS: [usize; 2] = [2048, 2560];
    let has = |shape: &[usize], width| shape.contains(&width);
    match WIDTHS {
        [small, xl] if has(expected, small) && has(&found, xl) => {
            ": it was trained on an XL model, and this is one of 2B"
        }
        [small, xl] if has(expected, xl) && has(&found, small) => {
            ": it was trained on a model of 2B, and this is an XL one"
        }
        _ if expected.len() == 2 && found == [expected[1], expected[0]] => {
            ": it is for the weight laid on its side"
        }
        _ => "",
    }
}

/// Shared by those who read the network's parameters.
pub(crate) type Shared = Arc<Adapters>;
