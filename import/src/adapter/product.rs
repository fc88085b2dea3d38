//! The change of one weight before DoRA: its tensors, and how they are multiplied.

use std::{collections::BTreeMap, ops::Range};

use super::{
    delta,
    key::{Role, Side},
};
use crate::{Error, Tensors};

/// The change of one weight, by the matrices that it is computed from.
#[derive(Debug, Clone)]
pub(super) enum Product {
    Lora(Matrix),
    Lokr([Matrix; 2]),
    Loha([Matrix; 2]),
    /// The tensor that is the change itself.
    Difference(String),
}

/// A product, with the shape and rank of its tensors.
#[derive(Debug)]
pub(super) struct Shaped {
    pub(super) product: Product,
    /// `[out, in]` with the later sizes flattened; for a difference its own shape.
    pub(super) shape: Vec<usize>,
    pub(super) rank: Option<usize>,
}

/// A matrix of the file: a tensor, or the product of two, which have the rank as inner size.
#[derive(Debug, Clone)]
pub(super) struct Matrix {
    names: Vec<String>,
    shape: [usize; 2],
    rank: Option<usize>,
}

pub(super) fn shape_of(tensors: &Tensors, name: &str) -> Vec<usize> {
    // The name comes from the file itself.
    tensors.shape(name).map(<[usize]>::to_vec).unwrap_or_default()
}

/// Returns the shape with all sizes but the first flattened.
fn flat(tensors: &Tensors, name: &str) -> Result<[usize; 2], String> {
    match &shape_of(tensors, name)[..] {
        shape @ [] | shape @ [_] => Err(format!("`{name}` is {shape:?}, not a matrix")),
        [rows, rest @ ..] => Ok([*rows, rest.iter().product()]),
    }
}

impl Matrix {
    fn whole(tensors: &Tensors, name: &str) -> Result<Self, String> {
        let shape = shape_of(tensors, name);
        let shape = <[usize; 2]>::try_from(shape)
            .map_err(|shape| format!("`{name}` is {shape:?}, not a matrix"))?;
        Ok(Self { names: vec![name.to_owned()], shape, rank: None })
    }

    fn product(tensors: &Tensors, left: &str, right: &str) -> Result<Self, String> {
        let (a, b) = (flat(tensors, left)?, flat(tensors, right)?);
        if a[1] != b[0] || a[1] == 0 {
            return Err(format!("`{left}` {a:?} and `{right}` {b:?} cannot be multiplied"));
        }
        let names = vec![left.to_owned(), right.to_owned()];
        Ok(Self { names, shape: [a[0], b[1]], rank: Some(a[1]) })
    }

    /// Returns `rows` of the matrix times `scale`, row-major.
    fn values(
        &self,
        tensors: &Tensors,
        rows: &Range<usize>,
        scale: f32,
    ) -> Result<Vec<f32>, Error> {
        let width = self.rank.unwrap_or(self.shape[1]);
        let first = of_rows(tensors.values(&self.names[0])?, rows, width);
        let Some(second) = self.names.get(1) else { return Ok(first) };
        Ok(delta::product(&first, &tensors.values(second)?, width, self.shape[1], scale))
    }

    fn all(&self, tensors: &Tensors) -> Result<Vec<f32>, Error> {
        self.values(tensors, &(0..self.shape[0]), 1.0)
    }
}

impl Product {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Lora(_) => "LoRA",
            Self::Lokr(_) => "LoKr",
            Self::Loha(_) => "LoHa",
            Self::Difference(_) => "differences",
        }
    }

    /// Builds the change of a module's weight from its tensors, if there is one.
    pub(super) fn of_weight(
        group: &BTreeMap<Role, String>,
        tensors: &Tensors,
    ) -> Result<Option<Shaped>, String> {
        let any = |is: fn(&Role) -> bool| group.keys().any(is);
        let kinds = [
            ("a LoRA", any(|role| matches!(role, Role::Down | Role::Up))),
            ("a LoKr", any(|role| matches!(role, Role::Kron(_) | Role::KronPart(..)))),
            ("a LoHa", any(|role| matches!(role, Role::Hada(..)))),
            ("a whole difference", any(|role| *role == Role::Difference)),
        ];
        let found: Vec<_> = kinds.iter().filter(|(_, is)| *is).map(|(kind, _)| *kind).collect();
        if found.len() > 1 {
            return Err(format!("it is {} at once", found.join(" and ")));
        }
        let get = |role: Role, what: &str| {
            group.get(&role).map(String::as_str).ok_or_else(|| format!("its {what} is missing"))
        };
        let (product, shape, rank) = match kinds.map(|(_, is)| is) {
            [true, ..] => {
                let down = get(Role::Down, "lora_A (lora_down)")?;
                let up = get(Role::Up, "lora_B (lora_up)")?;
                let matrix = Matrix::product(tensors, up, down)?;
                let (shape, rank) = (matrix.shape, matrix.rank);
                (Self::Lora(matrix), shape, rank)
            }
            [_, true, ..] => {
                let first = side(group, tensors, Side::First, "lokr_w1")?;
                let second = side(group, tensors, Side::Second, "lokr_w2")?;
                let rank = match (first.rank, second.rank) {
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
                (Self::Lokr([first, second]), shape, rank)
            }
            [_, _, true, _] => {
                let pair = |side: Side, n: u8| {
                    let left = get(Role::Hada(side, Side::First), &format!("hada_w{n}_a"))?;
                    let right = get(Role::Hada(side, Side::Second), &format!("hada_w{n}_b"))?;
                    Matrix::product(tensors, left, right)
                };
                let pairs = [pair(Side::First, 1)?, pair(Side::Second, 2)?];
                let [(shape, rank), other] = [0, 1].map(|i| (pairs[i].shape, pairs[i].rank));
                if other != (shape, rank) {
                    return Err(format!(
                        "its products are {shape:?} of rank {} and {:?} of rank {}",
                        rank.unwrap_or_default(),
                        other.0,
                        other.1.unwrap_or_default()
                    ));
                }
                (Self::Loha(pairs), shape, rank)
            }
            [_, _, _, true] => return Ok(Self::difference(group, Role::Difference, tensors)),
            _ => return Ok(None),
        };
        Ok(Some(Shaped { product, shape: shape.to_vec(), rank }))
    }

    /// Builds the change of a module's bias from its tensors, if there is one.
    pub(super) fn of_bias(group: &BTreeMap<Role, String>, tensors: &Tensors) -> Option<Shaped> {
        Self::difference(group, Role::BiasDifference, tensors)
    }

    fn difference(group: &BTreeMap<Role, String>, role: Role, tensors: &Tensors) -> Option<Shaped> {
        let name = group.get(&role)?;
        let product = Self::Difference(name.clone());
        Some(Shaped { product, shape: shape_of(tensors, name), rank: None })
    }

    pub(super) fn tensors(&self) -> Vec<&str> {
        let names: Vec<&String> = match self {
            Self::Lora(matrix) => matrix.names.iter().collect(),
            Self::Lokr(sides) | Self::Loha(sides) => {
                sides.iter().flat_map(|side| &side.names).collect()
            }
            Self::Difference(name) => vec![name],
        };
        names.into_iter().map(String::as_str).collect()
    }

    /// Returns `rows` of the product times `scale`, row-major, each with `columns` values.
    pub(super) fn values(
        &self,
        tensors: &Tensors,
        columns: usize,
        rows: &Range<usize>,
        scale: f32,
    ) -> Result<Vec<f32>, Error> {
        Ok(match self {
            Self::Lora(matrix) => matrix.values(tensors, rows, scale)?,
            Self::Lokr([first, second]) => {
                let widths = (first.shape[1], second.shape[1]);
                let (first, second) = (first.all(tensors)?, second.all(tensors)?);
                delta::kronecker(&first, &second, widths, rows, scale)
            }
            Self::Loha([first, second]) => {
                let mut result = first.values(tensors, rows, 1.0)?;
                delta::hadamard(&mut result, &second.values(tensors, rows, 1.0)?, scale);
                result
            }
            Self::Difference(name) => {
                let mut values = of_rows(tensors.values(name)?, rows, columns);
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

/// Returns one factor of a Kronecker product.
fn side(
    group: &BTreeMap<Role, String>,
    tensors: &Tensors,
    side: Side,
    what: &str,
) -> Result<Matrix, String> {
    let part = |which: Side| group.get(&Role::KronPart(side, which));
    match (group.get(&Role::Kron(side)), part(Side::First), part(Side::Second)) {
        (Some(whole), None, None) => Matrix::whole(tensors, whole),
        (None, Some(left), Some(right)) => Matrix::product(tensors, left, right),
        (None, None, None) => Err(format!("its {what} is missing")),
        (None, ..) => Err(format!("one half of its {what} is missing")),
        (Some(_), ..) => Err(format!("its {what} is there twice, whole and as a product")),
    }
}
