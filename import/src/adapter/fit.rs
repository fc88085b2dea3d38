//! An adapter on one model: maps its modules to parameters, and collects notices.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Mutex, PoisonError},
};

use super::{
    Adapter, AdapterError,
    delta::energy,
    file::counted,
    fused,
    module::Module,
    place::{self, ModuleRows},
    target::{LAYERS_BEYOND, Targets},
};
use crate::{Error, error::NameList};

/// Width of a layer that only the released XL models have.
pub(super) const WIDTH_OF_XL: usize = 2560;
/// Width of a layer of the other released models. An XL model also has it somewhere, because its
/// condition is as wide as in the other models.
pub(super) const WIDTH_OF_2B: usize = 2048;

/// An adapter on a model.
#[derive(Debug)]
pub struct Fitted {
    adapter: Adapter,
    scale: f64,
    /// Paths of parameters to their changes.
    places: HashMap<String, ModuleRows>,
    /// Number of the network's weights that an adapter could change.
    targets: usize,
    /// Modules that the model does not have, and the network that they seem to belong to.
    unmatched: Vec<(String, &'static str)>,
    /// Parameters to the sums of squares of the change and of the weight. Filled when they are
    /// read.
    measured: Mutex<BTreeMap<String, [f64; 2]>>,
}

impl Fitted {
    /// Fits `adapter` with the user's `scale` to the parameters of the transformer of `model`.
    pub(super) fn new(
        adapter: Adapter,
        scale: f64,
        model: &str,
        targets: &Targets,
    ) -> Result<Self, AdapterError> {
        let path = || adapter.path().to_owned();
        let mut places = HashMap::new();
        let mut unmatched = Vec::new();
        for (place, module) in adapter.list().iter().enumerate() {
            let Some(found) = targets.find(&module.name, module.parameter) else {
                if targets.is_mixed(&module.name) {
                    return Err(fused::mixed(path(), &module.name));
                }
                unmatched.push((module.title(), targets.other(&module.name)));
                continue;
            };
            let shape = place::stacked_shape(&found);
            if !module.fits(&shape) {
                return Err(AdapterError::WrongShape {
                    path: path(),
                    module: module.title(),
                    likely: likely(&shape, &module.shape),
                    expected: shape,
                    found: module.shape.clone(),
                });
            }
            for (target, place) in place::split(place, module, &found) {
                if let Some(other) = places.insert(target, place) {
                    return Err(AdapterError::Twice {
                        path: path(),
                        first: adapter.list()[other.module].title(),
                        second: module.title(),
                    });
                }
            }
        }
        refuse_unknown(&adapter, targets)?;
        if places.is_empty() {
            let names = unmatched.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            return Err(AdapterError::NoMatch {
                path: path(),
                model: model.to_owned(),
                count: counted(names.len(), "module"),
                names: NameList(names),
                what: of(&unmatched),
            });
        }
        // No transformer of the family has the same widths and more layers. These modules belong to
        // a language model, whose modules have the same names.
        if let Some((module, _)) = unmatched.iter().find(|(_, what)| *what == LAYERS_BEYOND) {
            return Err(AdapterError::NotAnAdapter {
                path: path(),
                reason: format!(
                    "`{module}` is of a layer that {model} does not have, while its widths fit: it is \
                     one of a language model, most likely"
                ),
                remedy: "adapters change the diffusion transformer alone: merge it into its language \
                         model where it was trained, and pass that as `lm_model`",
            });
        }
        let is_product = |module: &Module| module.is_product();
        let targets = match adapter.list().iter().all(is_product) {
            true => targets.matrices(),
            false => targets.all(),
        };
        let measured = Mutex::default();
        Ok(Self { adapter, scale, places, targets, unmatched, measured })
    }

    /// Returns the adapter.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// Returns its file.
    pub fn path(&self) -> &Path {
        self.adapter.path()
    }

    /// Returns the user's scale: 1 = as trained, 0 = no effect.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Returns the number of weights that it changes, and the number that it could change.
    pub fn matched(&self) -> (usize, usize) {
        (self.places.len(), self.targets)
    }

    /// Returns the number of its modules that the model does not have.
    pub fn unmatched(&self) -> usize {
        self.unmatched.len()
    }

    /// Returns the relative size of the change, `|D| / |W|`, over all changed weights together.
    /// `None` until all of them were read.
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

    /// Returns the notices to print before its use, one sentence each.
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
                NameList(names)
            ));
        }
        said.extend(self.of_several());
        if self.scale == 0.0 {
            said.push(format!("the adapter `{name}` has the scale 0: it changes nothing"));
        }
        said.extend(self.without_alpha());
        said
    }

    /// Returns the notice about modules that combine several of the model's modules.
    fn of_several(&self) -> Option<String> {
        let (count, first, order) = place::of_several(self.places.values())?;
        let (are, have) = if count == 1 { ("is", "its") } else { ("are each", "their") };
        Some(format!(
            "{} of the adapter `{}` {are} several of the model's in one, as `{}`; {have} rows are taken \
             for those of {order}, in this order",
            counted(count, "module"),
            self.path().display(),
            self.adapter.list()[first].title(),
        ))
    }

    /// Returns the notice about modules without an alpha.
    fn without_alpha(&self) -> Option<String> {
        let name = self.path().display();
        let products = || self.adapter.list().iter().filter(|module| module.is_product());
        let without = products().filter(|module| module.alpha.is_none()).count();
        match products().count() {
            _ if without == 0 => None,
            all if without == all => Some(format!(
                "the adapter `{name}` does not say its alpha: it works as if that were its rank"
            )),
            all => Some(format!(
                "the adapter `{name}` does not say the alpha of {without} of its {all} modules: there \
                 it works as if that were the rank"
            )),
        }
    }

    /// True if it changes the parameter at `path`.
    pub(super) fn changes(&self, path: &str) -> bool {
        self.place(path).is_some()
    }

    /// Returns the change, if any, of the parameter at `path` with the values `weight`, and records
    /// its size. `read` returns the values of other parameters.
    pub(super) fn change_of(
        &self,
        path: &str,
        weight: &[f32],
        read: Read<'_>,
    ) -> Result<Option<Vec<f32>>, Error> {
        let Some((ModuleRows { rows, sharing, .. }, module)) = self.place(path) else {
            return Ok(None);
        };
        let whole = || {
            let mut all = Vec::new();
            sharing.iter().try_for_each(|path| read(path).map(|values| all.extend(values)))?;
            Ok(all)
        };
        let change = module.change(self.adapter.tensors(), (weight, rows), whole, self.scale)?;
        self.measured().insert(path.to_owned(), [energy(&change), energy(weight)]);
        Ok(Some(change))
    }

    /// Returns the change of the parameter at `path`. None at scale 0, even with DoRA's magnitudes.
    fn place(&self, path: &str) -> Option<(&ModuleRows, &Module)> {
        let place = self.places.get(path).filter(|_| self.scale != 0.0)?;
        Some((place, self.adapter.list().get(place.module)?))
    }

    fn measured(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, [f64; 2]>> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the values of the parameter at a path.
pub(super) type Read<'a> = &'a dyn Fn(&str) -> Result<Vec<f32>, Error>;

/// Returns for example `the text encoder and the conditioner`.
fn of(unmatched: &[(String, &'static str)]) -> String {
    let mut names: Vec<_> = unmatched.iter().map(|(_, other)| *other).collect();
    names.sort_unstable();
    names.dedup();
    names.join(" and ")
}

/// Returns the likely reason of different shapes.
fn likely(expected: &[usize], found: &[usize]) -> &'static str {
    let has = |shape: &[usize], width| shape.contains(&width);
    if has(expected, WIDTH_OF_2B) && has(found, WIDTH_OF_XL) {
        ": it was trained on an XL model, and this is one of 2B"
    } else if has(expected, WIDTH_OF_XL) && has(found, WIDTH_OF_2B) {
        ": it was trained on a model of 2B, and this is an XL one"
    } else if expected.len() == 2 && *found == [expected[1], expected[0]] {
        ": it is for the weight laid on its side"
    } else {
        ""
    }
}

/// Refuses unknown tensors of the model's modules. Without them the song would differ, and a
/// replaced module (PEFT's `modules_to_save`) cannot be scaled.
fn refuse_unknown(adapter: &Adapter, targets: &Targets) -> Result<(), AdapterError> {
    let names: Vec<_> =
        adapter.unknown().filter(|tensor| targets.has(tensor)).map(str::to_owned).collect();
    let (are, such) = match names.len() {
        0 => return Ok(()),
        1 => ("is", "is one"),
        _ => ("are", "are"),
    };
    let what = format!(
        "{} of the model's modules that {are} no change of a known kind, as PEFT's \
         `modules_to_save` {such}: {}",
        counted(names.len(), "tensor"),
        NameList(names)
    );
    Err(AdapterError::NotSupported { path: adapter.path().to_owned(), what })
}
