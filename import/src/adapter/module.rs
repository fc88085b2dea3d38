//! The change of one parameter: its tensors in the file, its scale and its values.

use std::{borrow::Cow, collections::BTreeMap, ops::Range};

use super::{
    AdapterError,
    delta::{self, Lengths},
    key::Role,
    product::{Product, Shaped, of_rows, shape_of},
    settings::{Scale, Settings},
};
use crate::{Error, Tensors};

/// The change of one parameter of a module.
#[derive(Debug, Clone)]
pub(super) struct Module {
    /// The module's name in the file.
    pub(super) name: String,
    pub(super) parameter: Parameter,
    product: Product,
    /// DoRA's magnitudes: a tensor's name, and the variant.
    magnitudes: Option<(String, Lengths)>,
    /// `[out, in]` with the later sizes flattened; for a difference its own shape.
    pub(super) shape: Vec<usize>,
    pub(super) rank: Option<usize>,
    pub(super) alpha: Option<f64>,
    /// `alpha / rank`; 1 for a difference.
    factor: f64,
}

/// The changed parameter of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    /// Its weight, as a matrix or flattened to one.
    Matrix,
    /// Its weight of any shape, or the parameter that has the module's own name.
    Any,
    Bias,
}

impl Module {
    /// Builds the changes of weight and bias of module `name` from its tensors, by their roles.
    pub(super) fn of_group(
        name: &str,
        group: &BTreeMap<Role, String>,
        tensors: &Tensors,
        settings: &Settings,
    ) -> Result<Vec<Self>, Error> {
        let path = tensors.path().to_owned();
        let broken = |reason: String| {
            let (path, module) = (path.clone(), name.to_owned());
            Error::from(AdapterError::Broken { path, module, reason })
        };
        for tensor in group.values() {
            let shape = shape_of(tensors, tensor);
            if shape.contains(&0) {
                return Err(broken(format!("`{tensor}` is {shape:?}: it is empty")));
            }
        }
        let weight = Product::of_weight(group, tensors).map_err(broken)?;
        let bias = Product::of_bias(group, tensors);
        let with = |whole: Shaped, parameter| Self {
            name: name.to_owned(),
            parameter,
            product: whole.product,
            magnitudes: None,
            shape: whole.shape,
            rank: whole.rank,
            alpha: None,
            factor: 1.0,
        };
        let mut found = Vec::new();
        let mut is_product = false;
        if let Some(whole) = weight {
            let parameter = match whole.product {
                Product::Difference(_) => Parameter::Any,
                _ => Parameter::Matrix,
            };
            is_product = parameter == Parameter::Matrix;
            let mut module = with(whole, parameter);
            if is_product {
                let alpha = alpha(group, tensors)?.transpose().map_err(broken)?;
                let Scale { factor, alpha } =
                    settings.scale(name, module.rank, alpha).map_err(broken)?;
                (module.factor, module.alpha) = (factor, alpha);
                module.magnitudes = magnitudes(group, tensors, &module.shape).map_err(broken)?;
            }
            found.push(module);
        }
        found.extend(bias.map(|whole| with(whole, Parameter::Bias)));
        let has_magnitudes =
            [Role::Magnitude, Role::DoraScale].iter().any(|of| group.contains_key(of));
        if found.is_empty() || (has_magnitudes && !is_product) {
            return Err(broken("it has no change beside its alpha or magnitudes".to_owned()));
        }
        Ok(found)
    }

    /// Returns `LoRA`, `LoKr`, `LoHa` or `differences`.
    pub(super) fn kind(&self) -> &'static str {
        self.product.kind()
    }

    /// Returns the name of the changed parameter, as the file spells it.
    pub(super) fn title(&self) -> String {
        match self.parameter {
            Parameter::Matrix | Parameter::Any => self.name.clone(),
            Parameter::Bias => format!("{}.bias", self.name),
        }
    }

    /// True if it is a product, which has a scale, and not a difference.
    pub(super) fn is_product(&self) -> bool {
        self.parameter == Parameter::Matrix
    }

    pub(super) fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// True if it fits a parameter of `shape`.
    pub(super) fn fits(&self, shape: &[usize]) -> bool {
        if let (true, [rows, rest @ ..]) = (self.is_product(), shape) {
            return self.shape == [*rows, rest.iter().product()];
        }
        // A vector may be stored as a matrix with one column.
        let sizes = |shape: &[usize]| -> Vec<usize> {
            shape.iter().copied().filter(|&size| size != 1).collect()
        };
        sizes(&self.shape) == sizes(shape)
    }

    /// True if it has DoRA's magnitudes.
    pub(super) fn has_magnitudes(&self) -> bool {
        self.magnitudes.is_some()
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = &str> {
        let magnitudes = self.magnitudes.as_ref().map(|(name, _)| name.as_str());
        self.product.tensors().into_iter().chain(magnitudes)
    }

    /// True if it changes nothing at any user scale: its alpha makes every product 0, and it has no
    /// magnitudes.
    pub(super) fn is_silent(&self) -> bool {
        self.is_product() && self.factor as f32 == 0.0 && !self.has_magnitudes()
    }

    /// Returns the change of `weight`, the `rows` of the module (row-major), at the user's scale
    /// `user`. Column magnitudes need all rows, which `whole` reads.
    pub(super) fn change(
        &self,
        tensors: &Tensors,
        (weight, rows): (&[f32], &Range<usize>),
        whole: impl FnOnce() -> Result<Vec<f32>, Error>,
        user: f64,
    ) -> Result<Vec<f32>, Error> {
        let outer = match self.magnitudes {
            Some((_, Lengths::Lycoris { .. })) => 1.0,
            _ => user,
        };
        let [all, rest @ ..] = &self.shape[..] else {
            // A scalar.
            return self.product.values(tensors, 1, &(0..1), (self.factor * outer) as f32);
        };
        let columns = rest.iter().product();
        let product = |rows: &Range<usize>| {
            self.product.values(tensors, columns, rows, (self.factor * outer) as f32)
        };
        let Some((name, how)) = &self.magnitudes else { return product(rows) };
        let magnitudes = tensors.values(name)?;
        let of_columns = *how == Lengths::Lycoris { of_columns: true };
        if !of_columns {
            let mut delta = product(rows)?;
            let magnitudes = &magnitudes[rows.clone()];
            delta::decompose(weight, &mut delta, columns, magnitudes, *how, user);
            return Ok(delta);
        }
        let weight = match rows.len() < *all {
            true => Cow::Owned(whole()?),
            false => Cow::Borrowed(weight),
        };
        let mut delta = product(&(0..*all))?;
        delta::decompose(&weight, &mut delta, columns, &magnitudes, *how, user);
        Ok(of_rows(delta, rows, columns))
    }
}

/// Returns the module's own alpha, if it has one. The inner error is for an invalid value.
fn alpha(
    group: &BTreeMap<Role, String>,
    tensors: &Tensors,
) -> Result<Option<Result<f64, String>>, Error> {
    let Some(tensor) = group.get(&Role::Alpha) else { return Ok(None) };
    // torch stores Python's integers as integer tensors.
    let alpha = tensors.number(tensor)?.filter(|alpha| alpha.is_finite());
    Ok(Some(alpha.ok_or_else(|| "its alpha is not one number".to_owned())))
}

/// Returns DoRA's magnitudes among the tensors of a module.
fn magnitudes(
    group: &BTreeMap<Role, String>,
    tensors: &Tensors,
    weight: &[usize],
) -> Result<Option<(String, Lengths)>, String> {
    let (name, is_peft) = match (group.get(&Role::Magnitude), group.get(&Role::DoraScale)) {
        (None, None) => return Ok(None),
        (Some(name), None) => (name, true),
        (None, Some(name)) => (name, false),
        (Some(_), Some(_)) => return Err("it has DoRA's magnitudes twice".to_owned()),
    };
    let shape = shape_of(tensors, name);
    let of_rows = |rows: usize| {
        matches!(&shape[..], [first, rest @ ..]
            if *first == rows && rest.iter().all(|&size| size == 1))
    };
    let how = match (is_peft, &shape[..], weight) {
        (true, _, &[rows, _]) if of_rows(rows) || shape == [1, rows] => Lengths::Peft,
        (false, _, &[rows, _]) if of_rows(rows) => Lengths::Lycoris { of_columns: false },
        (false, &[1, width], &[_, columns]) if width == columns => {
            Lengths::Lycoris { of_columns: true }
        }
        // A convolution has one length per input channel, whose weights are adjacent columns.
        (false, &[1, inputs, ref taps @ ..], &[_, columns])
            if !taps.is_empty()
                && taps.iter().all(|&size| size == 1)
                && columns.is_multiple_of(inputs) =>
        {
            Lengths::Lycoris { of_columns: true }
        }
        _ => return Err(format!("DoRA's magnitudes are {shape:?} for a weight {weight:?}")),
    };
    Ok(Some((name.clone(), how)))
}
