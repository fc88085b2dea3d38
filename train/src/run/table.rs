//! The table of losses of a training run.

use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use acestep_engine::files::{self, Existing, write_whole};

use crate::{Error, curves};

/// The means over some steps; after a stop within a row, over the steps since then.
#[derive(Debug, Clone, Copy)]
pub struct Row<const N: usize> {
    /// Steps so far.
    pub step: usize,
    /// All steps of the run.
    pub steps: usize,
    /// Seconds of training since the beginning, without pauses.
    pub seconds: f64,
    /// The learning rate of the last of these steps.
    pub rate: f64,
    /// The mean norm of the gradients.
    pub gradient: f32,
    /// The recorded values, such as parts of the loss.
    pub parts: [f32; N],
}

impl<const N: usize> Default for Row<N> {
    fn default() -> Self {
        Self { step: 0, steps: 0, seconds: 0.0, rate: 0.0, gradient: 0.0, parts: [0.0; N] }
    }
}

/// `losses.csv`.
pub(super) struct Table {
    path: PathBuf,
}

impl Table {
    /// Creates a table, or cuts an existing one to the rows of the first `step` steps.
    pub(super) fn open(path: &Path, names: &[&str], step: usize) -> Result<Self, Error> {
        let heading = format!("step,seconds,rate,gradient,{}", names.join(","));
        let kept = match files::read(path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                return Err(Error::Read { path: path.to_owned(), source });
            }
            Ok(bytes) if step > 0 => String::from_utf8_lossy(&bytes)
                .lines()
                .skip(1)
                .filter(|row| {
                    let first = row.split(',').next().and_then(|step| step.parse::<usize>().ok());
                    first.is_some_and(|of| of <= step)
                })
                .map(|row| format!("{row}\n"))
                .collect(),
            _ => String::new(),
        };
        // The rows stay if the disk is full.
        write_whole(path, Existing::Replace, |file| write!(file, "{heading}\n{kept}"))?;
        Ok(Self { path: path.to_owned() })
    }

    pub(super) fn add<const N: usize>(&mut self, row: &Row<N>) -> Result<(), Error> {
        let Row { step, seconds, rate, gradient, parts, .. } = row;
        let parts: String = parts.iter().map(|part| format!(",{part:.6}")).collect();
        let line = format!("{step},{seconds:.1},{rate:.3e},{gradient:.4}{parts}\n");
        let append =
            || OpenOptions::new().append(true).open(&self.path)?.write_all(line.as_bytes());
        append().map_err(|source| Error::Write { path: self.path.clone(), source })
    }

    /// Draws the table as a picture beside it.
    pub(super) fn draw(&self) -> Result<(), Error> {
        let text = fs::read_to_string(&self.path)
            .map_err(|source| Error::Read { path: self.path.clone(), source })?;
        let folder = self.path.parent().and_then(Path::file_name).unwrap_or_default();
        let Some(picture) = curves::draw(&folder.to_string_lossy(), &text)? else { return Ok(()) };
        let path = self.path.with_extension("png");
        fs::write(&path, picture).map_err(|source| Error::Write { path, source })
    }
}
