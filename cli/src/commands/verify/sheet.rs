//! The comparisons of one file: what was computed beside what is stored.

use std::{collections::BTreeSet, fmt::Arguments};

use acestep_model::{Backend, Place, Tap};
use acestep_runtime::host::to_host;
use anyhow::Result;
use burn::tensor::{DType, Tensor};
use serde::Serialize;

use super::{golden::Golden, tolerance};

/// One stored output and what became of it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Case {
    /// The file it is stored in.
    pub(crate) file: String,
    /// Its name there.
    pub(crate) case: String,
    /// The part of the program it tests.
    pub(crate) component: &'static str,
    /// The largest difference; absent if there was none to measure.
    pub(crate) max_abs: Option<f64>,
    /// The root of the mean square of the difference over that of what is stored: how results of a
    /// narrow float type are compared, in place of the largest difference.
    pub(crate) relative_rms: Option<f64>,
    /// The most of it that is allowed; 0 = exact.
    pub(crate) tolerance: Option<f64>,
    /// `None` = not run.
    pub(crate) pass: Option<bool>,
    /// Why it was not run.
    pub(crate) skipped: Option<String>,
}

impl Case {
    /// Whether a network computes it in bf16, where the device can; times that are only rounded to
    /// bf16 are computed in f32.
    pub(crate) fn is_in_bf16(&self) -> bool {
        self.case.strip_suffix("_bf16").is_some_and(|name| !["t", "t1000"].contains(&name))
    }
}

/// The cases of one file of tensors, filled one by one.
#[derive(Debug)]
pub(super) struct Sheet<'a> {
    /// What is compared with.
    pub(super) golden: &'a Golden,
    component: &'static str,
    done: BTreeSet<String>,
    cases: Vec<Case>,
}

impl<'a> Sheet<'a> {
    pub(super) fn new(golden: &'a Golden, component: &'static str) -> Self {
        Self { golden, component, done: BTreeSet::new(), cases: Vec::new() }
    }

    /// Names tensors that are inputs and no cases.
    pub(super) fn inputs(&mut self, is_input: impl Fn(&str) -> bool) {
        let names = self.golden.names().filter(|name| is_input(name)).map(str::to_owned);
        self.done.extend(names);
    }

    /// Compares a tensor within the stored tensor's tolerance.
    pub(super) fn close<B: Backend, const D: usize>(&mut self, name: &str, ours: Tensor<B, D>) {
        let shape = ours.dims();
        self.close_values(name, &shape, &to_host(ours));
    }

    /// Compares values within the stored tensor's tolerance; a name that is not stored is no case.
    pub(super) fn close_values(&mut self, name: &str, shape: &[usize], ours: &[f32]) {
        let allowed = tolerance::of(self.golden, name);
        self.compare(name, shape, ours.iter().map(|&x| f64::from(x)), allowed);
    }

    /// Compares a result of a network in bf16 with what the reference gives in bf16: not number by
    /// number, as the sums of both are rounded differently.
    pub(super) fn near<B: Backend, const D: usize>(&mut self, name: &str, ours: Tensor<B, D>) {
        let theirs = match self.golden.floats(name) {
            Ok(theirs) => theirs,
            Err(unreadable) => return self.skip(name, &unreadable.to_string()),
        };
        let same_shape = self.golden.shape(name).is_ok_and(|stored| stored == ours.dims());
        let tolerance = tolerance::of_bf16(self.golden);
        let square = |x: f32| f64::from(x).powi(2);
        let error: f64 = to_host(ours).iter().zip(&theirs).map(|(a, b)| square(a - b)).sum();
        let all: f64 = theirs.iter().copied().map(square).sum();
        let relative = (error / all).sqrt();
        let relative_rms = (same_shape && relative.is_finite()).then_some(relative);
        self.push(Case {
            relative_rms,
            tolerance: Some(tolerance),
            pass: Some(relative_rms.is_some_and(|error| error <= tolerance)),
            ..self.case(name)
        });
    }

    /// Compares whole numbers, all of which must be equal.
    pub(super) fn exact(&mut self, name: &str, shape: &[usize], ours: &[i64]) {
        self.compare(name, shape, ours.iter().map(|&x| x as f64), 0.0);
    }

    /// Compares a mask, all of whose flags must be equal.
    pub(super) fn exact_mask(&mut self, name: &str, ours: &[Vec<bool>]) {
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
        if !self.golden.has(name) {
            return;
        }
        let theirs = match self.golden.floats(name) {
            Ok(theirs) => theirs,
            Err(unreadable) => return self.skip(name, &unreadable.to_string()),
        };
        let same_shape = self.golden.shape(name).is_ok_and(|stored| stored == shape);
        // `max` would swallow a NaN.
        let worst = ours
            .zip(&theirs)
            .map(|(a, &b)| (a - f64::from(b)).abs())
            .fold(0.0, |m, d| if f64::is_nan(m) || d <= m { m } else { d });
        let max_abs = (same_shape && worst.is_finite()).then_some(worst);
        self.push(Case {
            max_abs,
            tolerance: Some(tolerance),
            pass: Some(max_abs.is_some_and(|worst| worst <= tolerance)),
            ..self.case(name)
        });
    }

    /// Reports a stored output as not run.
    pub(super) fn skip(&mut self, name: &str, why: &str) {
        if self.golden.has(name) && !self.done.contains(name) {
            self.push(Case { skipped: Some(why.to_owned()), ..self.case(name) });
        }
    }

    /// Reports everything whose name the test accepts, and is not reported yet, as not run.
    pub(super) fn skip_all(&mut self, why: &str, test: impl Fn(&str) -> bool) {
        for name in self.golden.names().filter(|name| test(name)) {
            self.skip(name, why);
        }
    }

    /// Computes what is stored under `prefix`. What the goldens lack for it makes the rest of these
    /// cases skipped, with the reason; what the program or a checkpoint lacks is an error.
    pub(super) fn attempt(
        &mut self,
        prefix: &str,
        compute: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let Err(error) = compute(self) else { return Ok(()) };
        let ours = |cause: &(dyn std::error::Error + 'static)| {
            cause.is::<acestep_import::Error>() || cause.is::<acestep_runtime::Error>()
        };
        if error.chain().any(ours) {
            return Err(error);
        }
        let why = format!("the goldens lack something: {error:#}");
        self.skip_all(&why, |name| name.starts_with(prefix));
        Ok(())
    }

    /// Computes every case `x` for which a tensor `x` + `suffix` is stored; see [`Self::attempt`].
    pub(super) fn each(
        &mut self,
        suffix: &str,
        mut compute: impl FnMut(&mut Self, &str) -> Result<()>,
    ) -> Result<()> {
        for case in self.golden.tags(suffix) {
            self.attempt(&format!("{case}."), |sheet| compute(sheet, &case))?;
        }
        Ok(())
    }

    /// All cases; what nobody named is not known to this version.
    pub(super) fn finish(mut self) -> Vec<Case> {
        self.skip_all("bf16 is not computed on this device", |name| name.ends_with("_bf16"));
        self.skip_all("this version does not know this case", |_| true);
        self.cases
    }

    fn case(&self, name: &str) -> Case {
        Case {
            file: self.golden.file.clone(),
            case: name.to_owned(),
            component: self.component,
            max_abs: None,
            relative_rms: None,
            tolerance: None,
            pass: None,
            skipped: None,
        }
    }

    fn push(&mut self, case: Case) {
        self.done.insert(case.case.clone());
        self.cases.push(case);
    }
}

/// The same place in bf16, where its device can compute in that.
pub(super) fn in_bf16<B: Backend>(place: &Place<B>) -> Option<Place<B>> {
    let device = place.device.clone();
    B::supports_dtype(&device, DType::BF16).then_some(Place { device, dtype: DType::BF16 })
}

/// Compares activations as a network shows them, under a prefix.
pub(super) struct Activations<'s, 'a> {
    pub(super) sheet: &'s mut Sheet<'a>,
    pub(super) prefix: String,
}

impl<B: Backend> Tap<B> for Activations<'_, '_> {
    fn tap<const D: usize>(&mut self, name: Arguments<'_>, activation: &Tensor<B, D>) {
        let name = format!("{}.{name}", self.prefix);
        self.sheet.close(&name, activation.clone());
    }
}
