//! The comparisons of one file of tensors: computed values and stored values.

use std::{collections::BTreeSet, fmt::Arguments};

use acestep_engine::host::to_host;
use acestep_model::{Backend, CheckpointError, Place, Tap};
use anyhow::Result;
use burn::tensor::{DType, Int, Tensor, TensorData};

use super::{
    Differs, Lacks,
    case::Case,
    ledger::Ledger,
    set::Golden,
    tolerance::{self, Bounds},
};
use crate::Error;

/// The cases of one file of tensors, filled one by one.
pub(crate) struct Sheet<'a> {
    /// The stored tensors.
    pub(crate) golden: &'a Golden,
    component: &'static str,
    bounds: Bounds,
    done: BTreeSet<String>,
    ledger: &'a Ledger<'a>,
}

impl<'a> Sheet<'a> {
    pub(crate) fn new(
        golden: &'a Golden,
        component: &'static str,
        bounds: Bounds,
        ledger: &'a Ledger<'a>,
    ) -> Self {
        Self { golden, component, bounds, done: BTreeSet::new(), ledger }
    }

    /// Marks tensors as inputs, which are not cases.
    pub(crate) fn inputs(&mut self, is_input: impl Fn(&str) -> bool) {
        let names = self.golden.names().filter(|name| is_input(name)).map(str::to_owned);
        self.done.extend(names);
    }

    /// Compares a tensor within the stored tensor's tolerance.
    pub(crate) fn close<B: Backend, const D: usize>(&mut self, name: &str, ours: Tensor<B, D>) {
        let shape = ours.dims();
        self.close_values(name, &shape, &to_host(ours));
    }

    /// Compares values within the stored tensor's tolerance; does nothing if `name` is not stored.
    pub(crate) fn close_values(&mut self, name: &str, shape: &[usize], ours: &[f32]) {
        let allowed = tolerance::of(self.golden, name, self.bounds);
        self.compare(name, shape, ours.iter().map(|&x| f64::from(x)), allowed);
    }

    /// Compares a bf16 result of a network with the reference's bf16 result by the relative RMS
    /// error, because the sums of both are rounded differently.
    pub(crate) fn near<B: Backend, const D: usize>(&mut self, name: &str, ours: Tensor<B, D>) {
        let (shape, tolerance) = (ours.dims(), self.bounds.bf16);
        let relative_rms = |theirs: &[f32]| {
            let square = |x: f32| f64::from(x).powi(2);
            let error: f64 = to_host(ours).iter().zip(theirs).map(|(a, b)| square(a - b)).sum();
            let all: f64 = theirs.iter().copied().map(square).sum();
            (error / all).sqrt()
        };
        self.judge(name, &shape, tolerance, relative_rms, |case| &mut case.relative_rms);
    }

    /// Compares integers. All must be equal.
    pub(crate) fn exact(&mut self, name: &str, shape: &[usize], ours: &[i64]) {
        self.compare(name, shape, ours.iter().map(|&x| x as f64), 0.0);
    }

    /// Compares a mask, all of whose flags must be equal.
    pub(crate) fn exact_mask(&mut self, name: &str, ours: &[Vec<bool>]) {
        let shape = [ours.len(), ours.first().map_or(0, Vec::len)];
        let flags: Vec<i64> = ours.iter().flatten().map(|&flag| flag.into()).collect();
        self.exact(name, &shape, &flags);
    }

    fn compare(
        &mut self,
        name: &str,
        shape: &[usize],
        ours: impl Iterator<Item = f64>,
        tolerance: f64,
    ) {
        let max_abs = |theirs: &[f32]| {
            let differences = ours.zip(theirs).map(|(a, &b)| (a - f64::from(b)).abs());
            // `f64::max` would ignore a NaN; in this order it is the largest.
            differences.max_by(f64::total_cmp).unwrap_or(0.0)
        };
        self.judge(name, shape, tolerance, max_abs, |case| &mut case.max_abs);
    }

    /// Reports the error that `measure` finds in `field`, or none if shapes differ or it is not finite.
    /// Does nothing if `name` is not stored.
    fn judge(
        &mut self,
        name: &str,
        shape: &[usize],
        tolerance: f64,
        measure: impl FnOnce(&[f32]) -> f64,
        field: fn(&mut Case) -> &mut Option<f64>,
    ) {
        if !self.golden.has(name) {
            return;
        }
        let theirs = match self.golden.floats(name) {
            Ok(theirs) => theirs,
            Err(unreadable) => return self.skip(name, &unreadable.to_string()),
        };
        let same_shape = self.golden.shape(name).is_ok_and(|stored| stored == shape);
        let error = Some(measure(&theirs)).filter(|error| same_shape && error.is_finite());
        let pass = Some(error.is_some_and(|error| error <= tolerance));
        let mut case = Case { tolerance: Some(tolerance), pass, ..self.case(name) };
        *field(&mut case) = error;
        self.push(case);
    }

    /// Reports a stored output as not run.
    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        if self.golden.has(name) && !self.done.contains(name) {
            self.push(self.case(name).skipped(why));
        }
    }

    /// Reports every unreported case whose name passes `test` as not run.
    pub(crate) fn skip_all(&mut self, why: &str, test: impl Fn(&str) -> bool) {
        for name in self.golden.names().filter(|name| test(name)) {
            self.skip(name, why);
        }
    }

    /// Reports every unreported case whose name passes `test` as failed.
    fn fail_all(&mut self, why: &str, test: impl Fn(&str) -> bool) {
        for name in self.left(test) {
            self.push(self.case(&name).failed(why));
        }
    }

    /// The unreported cases whose name passes `test`.
    fn left(&self, test: impl Fn(&str) -> bool) -> Vec<String> {
        let left = self.golden.names().filter(|&name| test(name) && !self.done.contains(name));
        left.map(str::to_owned).collect()
    }

    /// Computes the cases stored under `prefix`. If the goldens lack something for them, the rest
    /// is skipped with the reason. If computing fails, or its error is [`Differs`], they fail. If the
    /// program or a checkpoint lacks something, that is an error.
    pub(crate) fn attempt(
        &mut self,
        prefix: &str,
        compute: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.attempt_in(prefix, false, compute)
    }

    fn attempt_in(
        &mut self,
        prefix: &str,
        in_bf16: bool,
        compute: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        // The bf16 outputs of a case are computed separately.
        let is_own = |name: &str| name.starts_with(prefix) && name.ends_with("_bf16") == in_bf16;
        let (ledger, file) = (self.ledger, &self.golden.file);
        let left = self.left(is_own);
        if ledger.knows(file, left.iter().map(String::as_str)) {
            self.done.extend(left);
            return Ok(());
        }
        let why = match ledger.attempt(file, self.component, left, || compute(self)) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(why)) => why,
            Err(error) if error.is::<Differs>() => error.to_string(),
            Err(error) if is_of_goldens(&error) => {
                self.skip_all(&format!("the goldens lack something: {error:#}"), is_own);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // All may be compared already.
        if self.left(is_own).is_empty() {
            self.push(self.case(prefix.trim_end_matches('.')).failed(&why));
        }
        self.fail_all(&why, is_own);
        Ok(())
    }

    /// Computes every case `x` for which a tensor `x` + `suffix` is stored; see [`Self::attempt`].
    pub(crate) fn each(
        &mut self,
        suffix: &str,
        mut compute: impl FnMut(&mut Self, &str) -> Result<()>,
    ) -> Result<()> {
        for case in self.golden.tags(suffix) {
            let in_bf16 = suffix.ends_with("_bf16");
            self.attempt_in(&format!("{case}."), in_bf16, |sheet| compute(sheet, &case))?;
        }
        Ok(())
    }

    /// Computes the whole file with `compute`. Cases that it did not name are unknown and skipped.
    pub(crate) fn fill(mut self, compute: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let (ledger, golden, component) = (self.ledger, self.golden, self.component);
        let whole = || match compute(&mut self) {
            Err(error) if error.is::<Lacks>() => {
                self.skip_all(&error.to_string(), |_| true);
                Ok(())
            }
            other => other,
        };
        if let Err(why) = ledger.attempt(&golden.file, component, vec![], whole)? {
            self.fail_all(&why, |_| true);
        }
        self.skip_all("bf16 is not computed on this device", |name| name.ends_with("_bf16"));
        self.skip_all("this version does not know this case", |_| true);
        Ok(())
    }

    fn case(&self, name: &str) -> Case {
        Case::new(&self.golden.file, name, self.component)
    }

    fn push(&mut self, case: Case) {
        self.done.insert(case.case.clone());
        self.ledger.add(case);
    }
}

/// True if the goldens lack something: the error is not from the program, a checkpoint, the device
/// or standard output.
fn is_of_goldens(error: &anyhow::Error) -> bool {
    let is_ours = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<acestep_import::Error>()
            || cause.is::<acestep_engine::Error>()
            || cause.is::<Error>()
    };
    !error.chain().any(is_ours)
}

/// A network, or the engine's error for a checkpoint that does not have it.
pub(crate) fn loaded<T>(network: Result<T, CheckpointError>) -> Result<T> {
    network.map_err(|error| acestep_engine::Error::Checkpoint(error).into())
}

/// Whole numbers as a tensor on a device.
pub(crate) fn ids<B: Backend>(
    values: &[i64],
    shape: [usize; 2],
    device: &B::Device,
) -> Tensor<B, 2, Int> {
    let values: Vec<i32> = values.iter().map(|&id| id as i32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// The same place in bf16, if its device supports it.
pub(crate) fn in_bf16<B: Backend>(place: &Place<B>) -> Option<Place<B>> {
    let device = place.device.clone();
    B::supports_dtype(&device, DType::BF16).then_some(Place { device, dtype: DType::BF16 })
}

/// Compares activations of a network, stored under a prefix.
pub(crate) struct Activations<'s, 'a> {
    pub(crate) sheet: &'s mut Sheet<'a>,
    pub(crate) prefix: String,
}

impl<B: Backend> Tap<B> for Activations<'_, '_> {
    fn tap<const D: usize>(&mut self, name: Arguments<'_>, activation: &Tensor<B, D>) {
        let name = format!("{}.{name}", self.prefix);
        self.sheet.close(&name, activation.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use safetensors::{Dtype, tensor::TensorView};

    use super::*;
    use crate::{
        golden::{message::Done, set::Set},
        host::QUIET,
    };

    /// 0x0101 is 257, 0xfffe is -2: the samples of Dia2's server are of this type.
    #[test]
    fn results_that_must_be_equal_and_are_not_fail_also_after_the_last_comparison() {
        let view = || TensorView::new(Dtype::I16, vec![2], &[1, 1, 0xfe, 0xff]).expect("numbers");
        let bytes = safetensors::serialize([("a.x", view()), ("b.x", view())], None);
        let files = BTreeMap::from([("file".to_owned(), bytes.expect("safetensors"))]);
        let golden = Set::new(files).expect("a set").tensors("file").expect("a file");
        let known = Done::default();
        let ledger = Ledger::new(&known, &|_| Ok(()), &QUIET, &|| true);
        let mut sheet = Sheet::new(&golden, "noise", tolerance::bounds(&[], 0.0), &ledger);
        let differs = || Err(Differs("other codes".to_owned()).into());
        let compared = sheet.attempt("a.", |sheet| {
            sheet.exact("a.x", &[2], &[257, -2]);
            differs()
        });
        compared.expect("the run goes on");
        sheet.attempt("b.", |_| differs()).expect("the run goes on");
        let cases = ledger.finish().expect("told");
        let found: Vec<_> = cases.iter().map(|case| (&*case.case, case.pass)).collect();
        assert_eq!(found, [("a.x", Some(true)), ("a", Some(false)), ("b.x", Some(false))]);
    }
}
