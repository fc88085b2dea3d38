//! The cases of a run, each reported when it is finished; a failed case does not end the run.

use std::{
    cell::{Cell, RefCell},
    io,
};

use acestep_engine::device::panics;
use anyhow::Result;

use super::{
    case::Case,
    message::{Done, Message},
};
use crate::{Error, Host};

/// Receives messages about cases that begin or finish.
pub(crate) type Tell<'a> = dyn Fn(&Message) -> io::Result<()> + 'a;

/// The cases so far.
pub(crate) struct Ledger<'a> {
    cases: RefCell<Vec<Case>>,
    /// The cases that an earlier process has finished.
    known: &'a Done,
    tell: &'a Tell<'a>,
    host: &'a dyn Host,
    /// The error that ended reporting.
    deaf: Cell<Option<io::Error>>,
    /// Frees memory of a device after a failure and checks that it still computes.
    still_works: &'a dyn Fn() -> bool,
    is_gone: Cell<bool>,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(
        known: &'a Done,
        tell: &'a Tell<'a>,
        host: &'a dyn Host,
        still_works: &'a dyn Fn() -> bool,
    ) -> Self {
        let (deaf, is_gone) = (Cell::new(None), Cell::new(false));
        Self { cases: RefCell::default(), known, tell, host, deaf, still_works, is_gone }
    }

    fn say(&self, message: &Message) {
        if let Err(error) = (self.tell)(message) {
            self.deaf.set(Some(error));
        }
    }

    /// Adds a case and reports it.
    pub(crate) fn add(&self, case: Case) {
        if !self.known.has(&case.file, &case.case) {
            self.say(&Message::Case(case.clone()));
            self.cases.borrow_mut().push(case);
        }
    }

    /// True if an earlier process has finished all these cases of a file.
    pub(crate) fn knows<'n>(&self, file: &str, mut cases: impl Iterator<Item = &'n str>) -> bool {
        !self.known.is_empty() && cases.all(|case| self.known.has(file, case))
    }

    /// True if an earlier process has finished the whole file.
    pub(crate) fn knows_file(&self, file: &str) -> bool {
        self.known.has_file(file)
    }

    /// Reports that a file is finished.
    pub(crate) fn end_file(&self, file: &str) {
        self.say(&Message::File(file.to_owned()));
    }

    /// Computes some cases of a file, unless the run is to end.
    ///
    /// # Errors
    /// The error that ends the run. The inner error is why this work failed: by a panic or by an
    /// error of its own.
    pub(crate) fn attempt(
        &self,
        file: &str,
        component: &str,
        cases: Vec<String>,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<Result<(), String>> {
        use acestep_engine::Error::{Cancelled, Checkpoint};

        let (file, component) = (file.to_owned(), component.to_owned());
        self.say(&Message::Begin { file, component, cases });
        if let Some(error) = self.deaf.take() {
            return Err(Error::Output(error).into());
        }
        if self.host.is_cancelled() {
            return Err(Cancelled.into());
        }
        if self.is_gone.get() {
            return Err(Error::DeviceGone.into());
        }
        let why = match panics::caught(work) {
            Ok(Ok(())) => return Ok(Ok(())),
            Ok(Err(error)) => match error.chain().find_map(|cause| cause.downcast_ref()) {
                None | Some(Cancelled | Checkpoint(_)) => return Err(error),
                Some(of_work) => of_work.to_string(),
            },
            Err(panic) => format!("it panicked: {panic}"),
        };
        self.is_gone.set(!(self.still_works)());
        Ok(Err(why))
    }

    /// Returns all cases.
    ///
    /// # Errors
    /// If a case could not be reported.
    pub(crate) fn finish(self) -> Result<Vec<Case>, Error> {
        self.deaf.take().map_or(Ok(self.cases.into_inner()), |error| Err(Error::Output(error)))
    }
}

#[cfg(test)]
mod tests {
    use acestep_engine::Error::{self as EngineError, Cancelled};
    use acestep_music::SongError;
    use anyhow::anyhow;

    use super::*;
    use crate::host::QUIET;

    fn attempt(
        ledger: &Ledger<'_>,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<Result<(), String>> {
        ledger.attempt("file", "noise", vec!["a".into()], work)
    }

    #[test]
    fn a_failure_of_the_work_is_a_reason_and_one_of_the_run_an_end() {
        let known = Done::default();
        let ledger = Ledger::new(&known, &|_| Ok(()), &QUIET, &|| true);
        let panic = attempt(&ledger, || panic!("a wheel\ncame off")).expect("the run goes on");
        assert_eq!(panic, Err("it panicked: a wheel: came off".into()));
        let silent = || {
            Err(anyhow::Error::from(EngineError::from(SongError::SilentSource)).context("a case"))
        };
        assert_eq!(attempt(&ledger, silent).expect("it goes on"), Err("it is silent".into()));
        assert_eq!(attempt(&ledger, || Ok(())).expect("it goes on"), Ok(()));
        assert!(attempt(&ledger, || Err(Cancelled.into())).is_err());
        assert!(attempt(&ledger, || Err(anyhow!("no such file"))).is_err());
    }

    #[test]
    fn after_a_failure_that_took_the_device_along_nothing_is_tried_on_it() {
        let known = Done::default();
        let ledger = Ledger::new(&known, &|_| Ok(()), &QUIET, &|| false);
        assert!(attempt(&ledger, || Ok(())).expect("it goes on").is_ok());
        assert!(attempt(&ledger, || panic!("lost")).expect("it is told").is_err());
        let error = attempt(&ledger, || panic!("it was to end")).expect_err("it is gone");
        assert!(matches!(error.downcast_ref(), Some(Error::DeviceGone)));
    }

    #[test]
    fn what_is_finished_is_not_told_again() {
        let of = |name: &str| Case::new("file", name, "noise");
        let mut known = Done::default();
        known.note(&Message::Case(of("a")));
        let told = RefCell::new(Vec::new());
        let tell = |message: &Message| {
            told.borrow_mut().push(message.clone());
            Ok(())
        };
        let ledger = Ledger::new(&known, &tell, &QUIET, &|| true);
        ledger.add(of("a"));
        ledger.add(of("b"));
        assert!(ledger.knows("file", ["a"].into_iter()));
        assert!(!ledger.knows("file", ["a", "b"].into_iter()));
        assert!(!ledger.knows("another", ["a"].into_iter()));
        assert_eq!(told.take(), [Message::Case(of("b"))]);
    }

    #[test]
    fn a_run_that_nobody_listens_to_ends() {
        let tell = |message: &Message| match message {
            Message::Case(case) if case.case == "b" => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(()),
        };
        let known = Done::default();
        let ledger = Ledger::new(&known, &tell, &QUIET, &|| true);
        ledger.add(Case::new("file", "a", "noise"));
        assert!(attempt(&ledger, || Ok(())).is_ok());
        ledger.add(Case::new("file", "b", "noise"));
        assert!(attempt(&ledger, || panic!("it was to end")).is_err());
        assert_eq!(ledger.finish().expect("it was told").len(), 2);
    }
}
