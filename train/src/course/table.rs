//! What a course writes of its losses.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use crate::{Error, curves};

/// The means of some steps; after a stop in the middle of a row, of those since.
#[derive(Debug, Clone, Copy)]
pub struct Row<const N: usize> {
    /// Steps that were taken.
    pub step: usize,
    /// Of how many.
    pub steps: usize,
    /// Seconds since the beginning, pauses left out.
    pub seconds: f64,
    /// The rate of the last of them.
    pub rate: f64,
    /// How long gradients were.
    pub gradient: f32,
    /// Parts of the loss.
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
    /// Begins a table, or cuts one to the rows of the first `step` steps.
    pub(super) fn open(path: &Path, names: &[&str], step: usize) -> Result<Self, Error> {
        let heading = format!("step,seconds,rate,gradient,{}", names.join(","));
        let kept = match fs::read_to_string(path) {
            Ok(text) if step > 0 => text
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
        fs::write(path, format!("{heading}\n{kept}"))
            .map_err(|source| Error::Write { path: path.to_owned(), source })?;
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

    /// Writes the picture of it beside it.
    pub(super) fn draw(&self) -> Result<(), Error> {
        let text = fs::read_to_string(&self.path)
            .map_err(|source| Error::Read { path: self.path.clone(), source })?;
        let folder = self.path.parent().and_then(Path::file_name).unwrap_or_default();
        let Some(picture) = curves::draw(&folder.to_string_lossy(), &text)? else { return Ok(()) };
        let path = self.path.with_extension("png");
        fs::write(&path, picture).map_err(|source| Error::Write { path, source })
    }
}
