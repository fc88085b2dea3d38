//! The state of a network as a list of tensors on the host, to keep it in a file.
//!
//! A state visits its tensors in a fixed order, once to write them and once to read them.

use std::collections::VecDeque;

use burn::tensor::{Tensor, TensorData};

use super::Cache;
use crate::{Backend, Place};

/// The list was written by another network or is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tensors are not those of this network's state")]
pub struct ForeignState;

/// A list of tensors that is written or read.
#[derive(Debug)]
pub(crate) enum Archive<'a, B: Backend> {
    Write(Vec<TensorData>),
    Read { tensors: VecDeque<TensorData>, place: &'a Place<B> },
}

impl<'a, B: Backend> Archive<'a, B> {
    /// Returns the tensors that `visit` writes.
    pub(crate) fn write(
        visit: impl FnOnce(&mut Self) -> Result<(), ForeignState>,
    ) -> Vec<TensorData> {
        let mut archive = Self::Write(Vec::new());
        visit(&mut archive).expect("writing has no errors");
        match archive {
            Self::Write(tensors) => tensors,
            Self::Read { .. } => Vec::new(),
        }
    }

    /// Lets `visit` read `tensors`, and checks that it read every one.
    pub(crate) fn read(
        tensors: Vec<TensorData>,
        place: &'a Place<B>,
        visit: impl FnOnce(&mut Self) -> Result<(), ForeignState>,
    ) -> Result<(), ForeignState> {
        let mut archive = Self::Read { tensors: tensors.into(), place };
        visit(&mut archive)?;
        match archive {
            Self::Read { tensors, .. } if !tensors.is_empty() => Err(ForeignState),
            Self::Read { .. } | Self::Write(_) => Ok(()),
        }
    }

    /// Visits the past of a convolution, which has `dims`; it is `None` if it has no samples.
    pub(crate) fn past(
        &mut self,
        tensor: &mut Option<Tensor<B, 3>>,
        dims: [usize; 3],
    ) -> Result<(), ForeignState> {
        let is_empty = dims[2] == 0;
        match self {
            Self::Write(tensors) => tensors.extend(tensor.as_ref().map(Tensor::to_data)),
            Self::Read { .. } if is_empty => *tensor = None,
            Self::Read { .. } => *tensor = Some(self.next(dims)?),
        }
        Ok(())
    }

    /// Reads the next tensor, which must have `dims`.
    fn next<const D: usize>(&mut self, dims: [usize; D]) -> Result<Tensor<B, D>, ForeignState> {
        let Self::Read { tensors, place } = self else { return Err(ForeignState) };
        let data = tensors.pop_front().ok_or(ForeignState)?;
        let dtype = place.computes_in();
        match data.shape[..] == dims[..] && data.dtype == dtype {
            true => Ok(Tensor::from_data(data, (&place.device, dtype))),
            false => Err(ForeignState),
        }
    }

    /// Visits row 0 of a cache, which may become larger if it `grows`.
    pub(crate) fn cache(&mut self, cache: &mut Cache<B>, grows: bool) -> Result<(), ForeignState> {
        match self {
            Self::Write(tensors) => {
                let [dropped, length] = [cache.dropped(0), cache.length(0)];
                tensors.push(TensorData::from([dropped as i64, length as i64]));
                let content = cache.row(0).into_iter().flatten();
                tensors.extend(content.map(|tensor| tensor.to_data()));
            }
            Self::Read { tensors, .. } => {
                let dropped = tensors.pop_front().ok_or(ForeignState)?;
                let dropped = dropped.to_vec::<i64>().map_err(|_| ForeignState)?;
                let [dropped, length] = dropped[..] else { return Err(ForeignState) };
                let whole = |number| usize::try_from(number).map_err(|_| ForeignState);
                let (dropped, length) = (whole(dropped)?, whole(length)?);
                let dims = cache.dims_of_row(length);
                let content = dims.iter().map(|&dims| Ok([self.next(dims)?, self.next(dims)?]));
                let content = content.collect::<Result<Vec<_>, ForeignState>>()?;
                match grows {
                    true => cache.grow(length),
                    false if length > cache.capacity() => return Err(ForeignState),
                    false => (),
                }
                cache.set_row_from(0, content, dropped);
            }
        }
        Ok(())
    }
}
