//! The change of one weight before DoRA: its tensors, and how they are multiplied.

use std::{collections::BTreeMap, ops::Range};

use super::{
    delta,
    key::{Role, Side},
};
use crate::{Error, Tensors};

/// Names of the tensors whose product is the change.
#[derive(Debug, Clone)]
pub(super) enum Product {
    Lora {
        down: String,
        up: String,
        rank: usize,
    },
    Lokr([Half; 2]),
    Loha([[String; 2]; 2], usize),
    /// The change itself.
    Difference(String),
}

/// A product, with the shape and rank of its tensors.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) product: Product,
    /// `[out, in]` with the later sizes flattened; for a difference its own shape.
    pub(super) shape: Vec<usize>,
    pub(super) rank: Option<usize>,
}

/// One factor of a Kronecker product.
#[derive(Debug, Clone)]
pub(super) struct Half {
    /// One tensor, or two and their inner size.
    tensors: Parts,
    shape: [usize; 2],
}

#[derive(Debug, Clone)]
enum Parts {
    Whole(String),
    Of(String, String, usize),
}

pub(super) fn shape_of(tensors: &Tensors, name: &str) -> Vec<usize> {
    // The name comes from the file itself.
    tensors.shape(name).map(<[usize]>::to_vec).unwrap_or_default()
}

/// Returns the shape with all sizes but the first flattened.
fn matrix(tensors: &Tensors, name: &str) -> Result<[usize; 2], String> {
    match &shape_of(tensors, name)[..] {
        shape @ [] | shape @ [_] => Err(format!("`{name}` is {shape:?}, not a matrix")),
        [rows, rest @ ..] => Ok([*rows, rest.iter().product()]),
    }
}

/// Returns the shape of the product of two matrices, and their inner size.
fn joined(tensors: &Tensors, left: &str, right: &str) -> Result<([usize; 2], usize), String> {
    let (a, b) = (matrix(tensors, left)?, matrix(tensors, right)?);
    if a[1] != b[0] || a[1] == 0 {
        return Err(format!("`{left}` {a:?} and `{right}` {b:?} cannot be multiplied"));
    }
    Ok(([a[0], b[1]], a[1]))
}

impl Product {
    /// Returns the name of this kind of change.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Lora { .. } => "LoRA",
            Self::Lokr(_) => "LoKr",
            Self::Loha(..) => "LoHa",
            Self::Difference(_) => "differences",
        }
    }

    /// Builds the change of a module's weight from its tensors, if there is one.
    ///
    /// # Errors
    /// The missing or contradictory part.
    pub(super) fn of_weight(
        group: &BTreeMap<Role, String>,
        tensors: &Tensors,
    ) -> Result<Option<Whole>, String> {
        let is_lora = |role: &Role| matches!(role, Role::Down | Role::Up);
        let is_lokr = |role: &Role| matches!(role, Role::Kron(_) | Role::KronPart(..));
        let is_loha = |role: &Role| matches!(role, Role::Hada(..));
        let any = |is: &dyn Fn(&Role) -> bool| group.keys().any(is);
        let get = |role: Role, what: &str| {
            group.get(&role).cloned().ok_or_else(|| format!("its {what} is missing"))
        };
        let kinds = [
            ("a LoRA", any(&is_lora)),
            ("a LoKr", any(&is_lokr)),
            ("a LoHa", any(&is_loha)),
            ("a whole difference", group.contains_key(&Role::Difference)),
        ];
        let found: Vec<_> = kinds.iter().filter(|(_, is)| *is).map(|(kind, _)| *kind).collect();
        if found.len() > 1 {
            return Err(format!("it is {} at once", found.join(" and ")));
        }
        let of_matrix = |product, shape: [usize; 2], rank| {
            Ok(Some(Whole { product, shape: shape.to_vec(), rank }))
        };
        match kinds.map(|(_, is)| is) {
            [true, ..] => {
                let down = get(Role::Down, "lora_A (lora_down)")?;
                let up = get(Role::Up, "lora_B (lora_up)")?;
                let (shape, rank) = joined(tensors, &up, &down)?;
                of_matrix(Self::Lora { down, up, rank }, shape, Some(rank))
            }
            [_, true, ..] => {
                let first = Half::new(group, tensors, Side::First, "lokr_w1")?;
                let second = Half::new(group, tensors, Side::Second, "lokr_w2")?;
                let rank = match (first.rank(), second.rank()) {
                    (Some(a), Some(b)) if a != b => {
                        return Err(format!("its sides have the ranks {a} and {b}"));
                    }
                    (first, second) => second.or(first),
                };
                let size = |i: usize| {
                    let (a, b) = (first.shape[i], second.shape[i]);
                    a.checked_mul(b)
                        .ok_or_else(|| format!("its sides of {a} and {b} are too large"))
                };
                let shape = [size(0)?, size(1)?];
                of_matrix(Self::Lokr([first, second]), shape, rank)
            }
            [_, _, true, _] => {
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
                of_matrix(Self::Loha([first, second], rank), shape, Some(rank))
            }
            [_, _, _, true] => {
                let name = get(Role::Difference, "difference")?;
                let shape = shape_of(tensors, &name);
                Ok(Some(Whole { product: Self::Difference(name), shape, rank: None }))
            }
            _ => Ok(None),
        }
    }

    /// Builds the change of a module's bias from its tensors, if there is one.
    pub(super) fn of_bias(group: &BTreeMap<Role, String>, tensors: &Tensors) -> Option<Whole> {
        let name = group.get(&Role::BiasDifference)?;
        let product = Self::Difference(name.clone());
        Some(Whole { product, shape: shape_of(tensors, name), rank: None })
    }

    /// Returns the names of its tensors.
    pub(super) fn tensors(&self) -> Vec<&str> {
        match self {
            Self::Lora { down, up, .. } => vec![down, up],
            Self::Lokr(halves) => halves
                .iter()
                .flat_map(|half| match &half.tensors {
                    Parts::Whole(name) => vec![name.as_str()],
                    Parts::Of(left, right, _) => vec![left.as_str(), right.as_str()],
                })
                .collect(),
            Self::Loha(pairs, _) => pairs.iter().flatten().map(String::as_str).collect(),
            Self::Difference(name) => vec![name],
        }
    }

    /// Returns `rows` of the product times `scale`, row-major, each with `columns` values.
    ///
    /// # Errors
    /// If the file has been cut since it was opened.
    pub(super) fn values(
        &self,
        tensors: &Tensors,
        columns: usize,
        rows: &Range<usize>,
        scale: f32,
    ) -> Result<Vec<f32>, Error> {
        let read = |name: &str| tensors.values::<f32>(name);
        Ok(match self {
            Self::Lora { down, up, rank } => delta::product(
                &of_rows(read(up)?, rows, *rank),
                &read(down)?,
                *rank,
                columns,
                scale,
            ),
            Self::Lokr([first, second]) => {
                let widths = (first.shape[1], second.shape[1]);
                let (first, second) = (first.values(tensors)?, second.values(tensors)?);
                delta::kronecker(&first, &second, widths, rows, scale)
            }
            Self::Loha([first, second], rank) => {
                let one = |[left, right]: &[String; 2]| -> Result<_, Error> {
                    let left = of_rows(read(left)?, rows, *rank);
                    Ok(delta::product(&left, &read(right)?, *rank, columns, 1.0))
                };
                let mut result = one(first)?;
                delta::hadamard(&mut result, &one(second)?, scale);
                result
            }
            Self::Difference(name) => {
                let mut values = of_rows(read(name)?, rows, columns);
                values.iter_mut().for_each(|x| *x *= scale);
                values
            }
        })
    }
}

/// Returns `rows` of `values`, each with `width` values.
pub(super) fn of_rows(mut values: Vec<f32>, rows: &Range<usize>, width: usize) -> Vec<f32> {
    values.truncate(rows.end * width);
    values.split_off(rows.start * width)
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
