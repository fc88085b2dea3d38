//! The change of one weight: its tensors in the file, how they are multiplied, what is added.

use std::collections::BTreeMap;

use super::{
    AdapterError,
    delta::{self, Lengths},
    key::{Role, Side},
    settings::Settings,
};
use crate::{Error, Tensors};

/// The changes of one weight.
#[derive(Debug, Clone)]
pub(super) struct Module {
    /// What the file calls the module.
    pub(super) name: String,
    product: Product,
    /// DoRA's lengths: a tensor's name, and how they are meant.
    lengths: Option<(String, Dora)>,
    /// `[out, in]`, what follows the first size flattened.
    pub(super) shape: [usize; 2],
    pub(super) rank: Option<usize>,
    pub(super) alpha: Option<f64>,
    /// `alpha / rank`.
    factor: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Dora {
    Peft,
    Lycoris { of_columns: bool },
}

/// Names of the tensors whose product is the change.
#[derive(Debug, Clone)]
enum Product {
    Lora { down: String, up: String, rank: usize },
    Lokr([Half; 2]),
    Loha([[String; 2]; 2], usize),
}

/// One side of a Kronecker product.
#[derive(Debug, Clone)]
struct Half {
    /// One tensor, or two and the size between them.
    tensors: Parts,
    shape: [usize; 2],
}

#[derive(Debug, Clone)]
enum Parts {
    Whole(String),
    Of(String, String, usize),
}

impl Module {
    /// From the tensors of module `name`, by their roles.
    ///
    /// # Errors
    /// [`AdapterError::Broken`].
    pub(super) fn new(
        name: &str,
        group: &BTreeMap<Role, String>,
        tensors: &Tensors,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let path = tensors.path().to_owned();
        let broken = |reason: String| {
            let (path, module) = (path.clone(), name.to_owned());
            Error::from(AdapterError::Broken { path, module, reason })
        };
        let (product, shape, rank) = Product::new(group, tensors).map_err(broken)?;
        let alpha = match group.get(&Role::Alpha) {
            // torch makes whole numbers of Python's.
            Some(tensor) => match tensors.number(tensor)?.filter(|alpha| alpha.is_finite()) {
                Some(alpha) => Some(alpha),
                None => return Err(broken("its alpha is not one number".to_owned())),
            },
            None => None,
        };
        let scale = settings.scale(name, rank, alpha).map_err(broken)?;
        let lengths = lengths(group, tensors, shape).map_err(broken)?;
        Ok(Self {
            name: name.to_owned(),
            product,
            lengths,
            shape,
            rank,
            alpha: scale.alpha,
            factor: scale.factor,
        })
    }

    /// `LoRA`, `LoKr` or `LoHa`.
    pub(super) fn kind(&self) -> &'static str {
        self.product.kind()
    }

    /// Whether DoRA gives it lengths.
    pub(super) fn has_lengths(&self) -> bool {
        self.lengths.is_some()
    }

    /// The tensors that the change is made of.
    pub(super) fn tensors(&self) -> impl Iterator<Item = &str> {
        let names: Vec<&str> = match &self.product {
            Product::Lora { down, up, .. } => vec![down, up],
            Product::Lokr(halves) => halves
                .iter()
                .flat_map(|half| match &half.tensors {
                    Parts::Whole(name) => vec![name.as_str()],
                    Parts::Of(left, right, _) => vec![left.as_str(), right.as_str()],
                })
                .collect(),
            Product::Loha(pairs, _) => pairs.iter().flatten().map(String::as_str).collect(),
        };
        names.into_iter().chain(self.lengths.as_ref().map(|(name, _)| name.as_str()))
    }

    /// What is added to `weight`, row-major as the module's shape, at the user's scale `user`.
    ///
    /// # Errors
    /// If the file has been cut since it was opened.
    pub(super) fn change(
        &self,
        tensors: &Tensors,
        weight: &[f32],
        user: f64,
    ) -> Result<Vec<f32>, Error> {
        let outer = match self.lengths {
            Some((_, Dora::Lycoris { .. })) => 1.0,
            _ => user,
        };
        let mut delta =
            self.product.values(tensors, self.shape[1], (self.factor * outer) as f32)?;
        if let Some((name, dora)) = &self.lengths {
            let how = match *dora {
                Dora::Peft => Lengths::Peft,
                Dora::Lycoris { of_columns } => Lengths::Lycoris { of_columns, user },
            };
            delta::decompose(weight, &mut delta, self.shape[1], &tensors.values(name)?, how);
        }
        Ok(delta)
    }
}

/// DoRA's lengths among the tensors of a module.
fn lengths(
    group: &BTreeMap<Role, String>,
    tensors: &Tensors,
    [rows, columns]: [usize; 2],
) -> Result<Option<(String, Dora)>, String> {
    let (name, is_peft) = match (group.get(&Role::Magnitude), group.get(&Role::DoraScale)) {
        (None, None) => return Ok(None),
        (Some(name), None) => (name, true),
        (None, Some(name)) => (name, false),
        (Some(_), Some(_)) => return Err("it has DoRA's lengths twice".to_owned()),
    };
    let shape = shape_of(tensors, name);
    let is_rows = matches!(&shape[..], [first, rest @ ..]
        if *first == rows && rest.iter().all(|&size| size == 1));
    let dora = match (is_peft, &shape[..]) {
        (true, _) if is_rows || shape == [1, rows] => Dora::Peft,
        (false, _) if is_rows => Dora::Lycoris { of_columns: false },
        (false, [1, width]) if *width == columns => Dora::Lycoris { of_columns: true },
        _ => {
            return Err(format!("DoRA's lengths are {shape:?} for a weight {:?}", [rows, columns]));
        }
    };
    Ok(Some((name.clone(), dora)))
}

fn shape_of(tensors: &Tensors, name: &str) -> Vec<usize> {
    // It is one of the file's own names.
    tensors.shape(name).map(<[usize]>::to_vec).unwrap_or_default()
}

/// Rows, and everything else as columns.
fn matrix(tensors: &Tensors, name: &str) -> Result<[usize; 2], String> {
    match &shape_of(tensors, name)[..] {
        shape @ [] | shape @ [_] => Err(format!("`{name}` is {shape:?}, not a matrix")),
        [rows, rest @ ..] => Ok([*rows, rest.iter().product()]),
    }
}

/// The shape of the product of two, and the size between them.
fn joined(tensors: &Tensors, left: &str, right: &str) -> Result<([usize; 2], usize), String> {
    let (a, b) = (matrix(tensors, left)?, matrix(tensors, right)?);
    if a[1] != b[0] || a[1] == 0 {
        return Err(format!("`{left}` {a:?} and `{right}` {b:?} cannot be multiplied"));
    }
    Ok(([a[0], b[1]], a[1]))
}

impl Product {
    fn kind(&self) -> &'static str {
        match self {
            Self::Lora { .. } => "LoRA",
            Self::Lokr(_) => "LoKr",
            Self::Loha(..) => "LoHa",
        }
    }

    /// From the tensors of a module to the product, its shape, its rank.
    fn new(
        group: &BTreeMap<Role, String>,
        tensors: &Tensors,
    ) -> Result<(Self, [usize; 2], Option<usize>), String> {
        let is_lora = |role: &Role| matches!(role, Role::Down | Role::Up);
        let is_lokr = |role: &Role| matches!(role, Role::Kron(_) | Role::KronPart(..));
        let is_loha = |role: &Role| matches!(role, Role::Hada(..));
        let any = |is: &dyn Fn(&Role) -> bool| group.keys().any(is);
        let get = |role: Role, what: &str| {
            group.get(&role).cloned().ok_or_else(|| format!("its {what} is missing"))
        };
        match [any(&is_lora), any(&is_lokr), any(&is_loha)] {
            [true, false, false] => {
                let down = get(Role::Down, "lora_A (lora_down)")?;
                let up = get(Role::Up, "lora_B (lora_up)")?;
                let (shape, rank) = joined(tensors, &up, &down)?;
                Ok((Self::Lora { down, up, rank }, shape, Some(rank)))
            }
            [false, true, false] => {
                let first = Half::new(group, tensors, Side::First, "lokr_w1")?;
                let second = Half::new(group, tensors, Side::Second, "lokr_w2")?;
                let rank = match (first.rank(), second.rank()) {
                    (Some(a), Some(b)) if a != b => {
                        return Err(format!("its sides have the ranks {a} and {b}"));
                    }
                    (first, second) => second.or(first),
                };
                let shape = [0, 1].map(|i| first.shape[i] * second.shape[i]);
                Ok((Self::Lokr([first, second]), shape, rank))
            }
            [false, false, true] => {
                let pair = |side: Side, n: u8| {
                    let left = get(Role::Hada(side, Side::First), &format!("hada_w{n}_a"))?;
                    let right = get(Role::Hada(side, Side::Second), &format!("hada_w{n}_b"))?;
                    joined(tensors, &left, &right).map(|product| ([left, right], product))
                };
                let (first, (shape, rank)) = pair(Side::First, 1)?;
                let (second, other) = pair(Side::Second, 2)?;
                if other != (shape, rank) {
                    return Err(format!(
                        "its products are {shape:?} of rank {rank} and {:?} of rank {}",
                        other.0, other.1
                    ));
                }
                Ok((Self::Loha([first, second], rank), shape, Some(rank)))
            }
            [false, false, false] => Err("it has no change beside its alpha or lengths".to_owned()),
            _ => Err("it is a LoRA, a LoKr and a LoHa at once".to_owned()),
        }
    }

    /// The product times `scale`, `[out, columns]`.
    fn values(&self, tensors: &Tensors, columns: usize, scale: f32) -> Result<Vec<f32>, Error> {
        let read = |name: &str| tensors.values::<f32>(name);
        Ok(match self {
            Self::Lora { down, up, rank } => {
                delta::product(&read(up)?, &read(down)?, *rank, columns, scale)
            }
            Self::Lokr([first, second]) => {
                let widths = (first.shape[1], second.shape[1]);
                delta::kronecker(&first.values(tensors)?, &second.values(tensors)?, widths, scale)
            }
            Self::Loha([first, second], rank) => {
                let one = |[left, right]: &[String; 2]| -> Result<_, Error> {
                    Ok(delta::product(&read(left)?, &read(right)?, *rank, columns, 1.0))
                };
                let mut result = one(first)?;
                delta::hadamard(&mut result, &one(second)?, scale);
                result
            }
        })
    }
}

impl Half {
    fn new(
        group: &BTreeMap<Role, String>,
        tensors: &Tensors,
        side: Side,
        what: &str,
    ) -> Result<Self, String> {
        let part = |which: Side| group.get(&Role::KronPart(side, which));
        match (group.get(&Role::Kron(side)), part(Side::First), part(Side::Second)) {
            (Some(whole), None, None) => {
                let shape = shape_of(tensors, whole);
                let [rows, columns] = shape[..] else {
                    return Err(format!("`{whole}` is {shape:?}, not a matrix"));
                };
                Ok(Self { tensors: Parts::Whole(whole.clone()), shape: [rows, columns] })
            }
            (None, Some(left), Some(right)) => {
                let (shape, rank) = joined(tensors, left, right)?;
                Ok(Self { tensors: Parts::Of(left.clone(), right.clone(), rank), shape })
            }
            (None, None, None) => Err(format!("its {what} is missing")),
            (None, ..) => Err(format!("one half of its {what} is missing")),
            (Some(_), ..) => Err(format!("its {what} is there twice, whole and as a product")),
        }
    }

    fn rank(&self) -> Option<usize> {
        match self.tensors {
            Parts::Whole(_) => None,
            Parts::Of(_, _, rank) => Some(rank),
        }
    }

    fn values(&self, tensors: &Tensors) -> Result<Vec<f32>, Error> {
        match &self.tensors {
            Parts::Whole(name) => tensors.values(name),
            Parts::Of(left, right, rank) => {
                let (left, right) = (tensors.values(left)?, tensors.values(right)?);
                Ok(delta::product(&left, &right, *rank, self.shape[1], 1.0))
            }
        }
    }
}
