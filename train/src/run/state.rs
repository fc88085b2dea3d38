//! The saved state of a training run.

use std::{
    fs::{self, File, TryLockError},
    io::{self, BufRead, BufReader, Read as _, Write},
    path::{Path, PathBuf},
};

use acestep_engine::files::{self, Existing, write_whole};
use burn::{
    module::{AutodiffModule, Module},
    tensor::backend::AutodiffBackend,
};
use serde::{Deserialize, Serialize};

use super::{TrainingRun, digest};
use crate::{
    Error,
    learner::{Learner, OptimizerConfig},
};

/// The file of the state.
const STATE: &str = "state.bin";

/// The first line of a saved state.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) step: usize,
    seed: u64,
    of: String,
    optimizer_config: OptimizerConfig,
    /// Seconds of training so far.
    seconds: f64,
    /// Sizes of the blobs that follow: weights, averaged weights and optimizer, in bytes.
    sizes: [usize; 3],
    /// SHA-256 of the step, the sizes and all three blobs.
    checksum: String,
}

impl TrainingRun {
    /// True if `folder` has the state of a run that was stopped before its last step.
    pub fn is_stopped(folder: &Path) -> bool {
        let mut line = Vec::new();
        let read = files::open(&folder.join(STATE))
            .and_then(|file| BufReader::new(file).read_until(b'\n', &mut line));
        let header = read.ok().and_then(|_| serde_json::from_slice::<Header>(&line).ok());
        header.is_some_and(|of| of.step < of.optimizer_config.steps)
    }

    /// Creates the folder and locks it against other processes, until the result is dropped.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Write`].
    pub fn lock(&self) -> Result<File, Error> {
        let path = self.folder.clone();
        let open = || {
            fs::create_dir_all(&path)?;
            File::create(path.join("lock"))
        };
        match open().map(|file| (file.try_lock(), file)) {
            Err(source) => Err(Error::Write { path, source }),
            Ok((Err(TryLockError::WouldBlock), _)) => Err(Error::Busy { path }),
            // Some file systems have no locks.
            Ok((Ok(()) | Err(TryLockError::Error(_)), file)) => Ok(file),
        }
    }

    fn state_path(&self) -> PathBuf {
        self.folder.join(STATE)
    }

    /// Restores the learner from the folder's state, if there is one. Also returns its seconds.
    pub(super) fn start<B: AutodiffBackend, M: AutodiffModule<B>>(
        &self,
        learner: Learner<B, M>,
        device: &B::Device,
    ) -> Result<(Learner<B, M>, f64), Error>
    where
        M::InnerModule: Module<B::InnerBackend>,
    {
        let Some((Header { step, seconds, sizes, .. }, bytes)) = self.state()? else {
            return Ok((learner, 0.0));
        };
        let mut rest = bytes.as_slice();
        let blobs = sizes.map(|size| {
            let (blob, after) = rest.split_at(size);
            rest = after;
            blob.to_vec()
        });
        let learner =
            learner.restore(blobs, step, device).map_err(|error| self.bad(&error.to_string()))?;
        Ok((learner, seconds))
    }

    /// The folder's state, if there is one: its header and the complete blobs.
    pub(super) fn state(&self) -> Result<Option<(Header, Vec<u8>)>, Error> {
        let path = self.state_path();
        let mut bytes = Vec::new();
        match files::open(&path).and_then(|mut file| file.read_to_end(&mut bytes)) {
            Ok(_) => (),
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Read { path, source }),
        }
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let end = end.ok_or_else(|| self.bad("no state of a training run"))?;
        let header: Header = serde_json::from_slice(&bytes[..end])
            .map_err(|_| self.bad("no state of a training run"))?;
        if header.seed != self.seed
            || header.optimizer_config != self.optimizer_config
            || header.of != self.of
        {
            let mut others = others(&header.of, &self.of);
            let (old, new) = (&header.optimizer_config, &self.optimizer_config);
            for (name, is_other) in [
                ("the seed", header.seed != self.seed),
                ("the number of steps", old.steps != new.steps),
                ("the learning rate", old.rate != new.rate),
                // It depends on the number of steps.
                ("the warm-up", old.steps == new.steps && old.warm_up != new.warm_up),
            ] {
                others.extend(is_other.then(|| name.to_owned()));
            }
            let others = match others.is_empty() {
                true => String::new(),
                false => format!(" (changed: {})", others.join(", ")),
            };
            return Err(self.bad(&format!(
                "of a training run with another seed, other settings or other data{others}; remove it to \
                 start again"
            )));
        }
        let rest = bytes.split_off(end + 1);
        let size = header.sizes.iter().try_fold(0_usize, |sum, &size| sum.checked_add(size));
        if size != Some(rest.len()) {
            return Err(self.bad("it is cut short"));
        }
        if checksum(header.step, header.sizes, [rest.as_slice()]) != header.checksum {
            return Err(self.bad("it is damaged"));
        }
        Ok(Some((header, rest)))
    }

    fn bad(&self, reason: &str) -> Error {
        Error::State { path: self.state_path(), reason: reason.to_owned() }
    }

    pub(super) fn save<B: AutodiffBackend, M: AutodiffModule<B>>(
        &self,
        learner: &Learner<B, M>,
        seconds: f64,
    ) -> Result<(), Error>
    where
        M::InnerModule: Module<B::InnerBackend>,
    {
        let path = self.state_path();
        let bad = |error: &dyn std::fmt::Display| Error::State {
            path: path.clone(),
            reason: error.to_string(),
        };
        let blobs = learner.state().map_err(|error| bad(&error))?;
        let sizes = [0, 1, 2].map(|i: usize| blobs[i].len());
        let (step, seed, optimizer_config) =
            (learner.step(), self.seed, self.optimizer_config.clone());
        let checksum = checksum(step, sizes, blobs.iter().map(Vec::as_slice));
        let of = self.of.clone();
        let header = Header { step, seed, of, optimizer_config, seconds, sizes, checksum };
        let header = serde_json::to_string(&header).map_err(|error| bad(&error))?;
        write_whole(&path, Existing::Replace, |file| {
            writeln!(file, "{header}")?;
            blobs.iter().try_for_each(|blob| file.write_all(blob))
        })?;
        Ok(())
    }
}

/// Returns the checksum of a state. Wrong sizes would divide the blobs elsewhere.
fn checksum<'a>(
    step: usize,
    sizes: [usize; 3],
    blobs: impl IntoIterator<Item = &'a [u8]>,
) -> String {
    digest([format!("{step} {sizes:?} {}", digest(blobs)).as_bytes()])
}

/// The largest number of names of facts to list.
const LISTED: usize = 8;

/// Names of facts that are only in one of two lists, in their order.
fn others(old: &str, new: &str) -> Vec<String> {
    let facts = |of: &str| of.lines().map(str::to_owned).collect::<Vec<_>>();
    let (old, new) = (facts(old), facts(new));
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        let new = these.iter().filter(|fact| !those.contains(fact));
        // Older states have lines without a name.
        new.filter_map(|fact| Some(fact.split_once(": ")?.0.to_owned())).collect()
    };
    let mut names = only(&new, &old);
    for gone in only(&old, &new) {
        if !names.contains(&gone) {
            names.push(format!("{gone} is gone"));
        }
    }
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::others;

    #[test]
    fn what_is_another_is_named() {
        let old = "rank: 8\nsound of `a.wav`: 1\ntexts of `a.wav`: 2\nsound of `b.wav`: 3";
        let new = "rank: 8\nsound of `a.wav`: 9\ntexts of `a.wav`: 2\nsound of `c.wav`: 3";
        let names = ["sound of `a.wav`", "sound of `c.wav`", "sound of `b.wav` is gone"];
        assert_eq!(others(old, new), names);
        assert_eq!(others(old, old), [""; 0]);
        assert_eq!(others("turbo F32 8", "turbo F32 9"), [""; 0]);
        let many: String = (0..20).map(|i| format!("song {i}: x\n")).collect();
        let names = others("", &many);
        assert_eq!((names.len(), names[8].as_str()), (9, "12 more"));
    }
}
