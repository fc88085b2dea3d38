//! The state of a network as a list of tensors on the host, to keep it in a file.
//!
//! A state visits its tensors in a fixed order, once to write them and once to read them.

use std::collections::VecDeque;

use burn::tensor::{Tensor, TensorData};

use super::Cache;
use crate::Backend;

/// The list was written by another network or is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tensors are not those of this network's state")]
pub struct ForeignState;

/// A list of tensors that is written or read.
#[derive(Debug)]
pub(crate) enum Archive<'a, B: Backend> {
    Write(Vec<TensorData>),
    Read { tensors: VecDeque<TensorData>, device: &'a B::Device },
}

impl<B: Backend> Archive<'_, B> {
    /// Returns the tensors that were written.
    pub(crate) fn written(self) -> Vec<TensorData> {
        match self {
            Self::Write(tensors) => tensors,
            Self::Read { .. } => Vec::new(),
        }
    }

    /// Checks that every tensor was read.
    pub(crate) fn finish(self) -> Result<(), ForeignState> {
        match self {
            Self::Read { tensors, .. } if !tensors.is_empty() => Err(ForeignState),
            Self::Read { .. } | Self::Write(_) => Ok(()),
        }
    }

    /// Visits a tensor that may be absent.
    pub(crate) fn optional<const D: usize>(
        &mut self,
        tensor: &mut Option<Tensor<B, D>>,
    ) -> Result<(), ForeignState> {
        match self {
            Self::Write(tensors) => tensors.push(match tensor {
                Some(tensor) => tensor.to_data(),
                None => TensorData::new(Vec::<f32>::new(), [0]),
            }),
            Self::Read { tensors, device } => {
                let data = tensors.pop_front().ok_or(ForeignState)?;
                let dtype = data.dtype;
                *tensor = match data.shape.len() {
                    1 if data.shape.num_elements() == 0 => None,
                    rank if rank == D && dtype.is_float() => {
                        Some(Tensor::from_data(data, (*device, dtype)))
                    }
                    _ => return Err(ForeignState),
                };
            }
        }
        Ok(())
    }

    /// Visits row 0 of a cache.
    pub(crate) fn cache(&mut self, cache: &mut Cache<B>) -> Result<(), ForeignState> {
        match self {
            Self::Write(tensors) => {
                tensors.push(TensorData::from([cache.dropped(0) as i64]));
                let content = cache.row(0).into_iter().flatten();
                tensors.extend(content.map(|tensor| tensor.to_data()));
            }
            Self::Read { tensors, .. } => {
                let dropped = tensors.pop_front().ok_or(ForeignState)?;
                let dropped = dropped.to_vec::<i64>().map_err(|_| ForeignState)?;
                let [dropped] = dropped[..] else { return Err(ForeignState) };
                let dropped = usize::try_from(dropped).map_err(|_| ForeignState)?;
                let layers = cache.layers();
                let mut content = Vec::with_capacity(layers);
                for _ in 0..layers {
                    let (mut k, mut v) = (None, None);
                    self.optional(&mut k)?;
                    self.optional(&mut v)?;
                    content.push([k.ok_or(ForeignState)?, v.ok_or(ForeignState)?]);
                }
                if !cache.takes(&content) {
                    return Err(ForeignState);
                }
                cache.set_row_from(0, content, dropped);
            }
        }
        Ok(())
    }
}
