//! Compares each file of a set by its row in the family's table.

use acestep_engine::{
    BackendWork, Device,
    device::{free, panics},
    host::to_host,
};
use acestep_model::{Backend, Place};
use anyhow::{Context, Result};
use burn::tensor::{DType, Tensor};

use crate::{
    Host,
    families::{self, GoldenSource, Tensors, Texts},
    golden::{
        case::Case,
        ledger::{Ledger, Tell},
        message::Done,
        page::Page,
        sheet::Sheet,
        tolerance::Bounds,
    },
};

/// The reason for skipping a file without a row.
const UNKNOWN: &str = "this version does not know this file";

/// The reason for skipping a file of rules that need no network. Their tests are beside their code.
const LOGIC: &str = "no network is in it: the tests of the source code compare it";

/// Computes a whole set.
pub(crate) struct Verify<'a> {
    pub(crate) source: &'a GoldenSource,
    pub(crate) host: &'a dyn Host,
    pub(crate) tell: &'a Tell<'a>,
    /// The cases that are already finished.
    pub(crate) known: &'a Done,
}

impl BackendWork for Verify<'_> {
    type Output = Result<Vec<Case>>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let still_works = || still_works::<B>(&place.device);
        let ledger = Ledger::new(self.known, self.tell, self.host, &still_works);
        let set = &self.source.set;
        let (tensors, texts) = (families::tensors::<B>(set), families::texts::<B>(set));
        for file in set.names().filter(|file| !ledger.knows_file(file)) {
            let of_file = match file.strip_suffix(".safetensors") {
                Some(kind) => {
                    let row = tensors.iter().find(|row| row.is_of(kind));
                    self.tensors(file, row, &ledger, &place)
                }
                None => {
                    let name = file.rsplit('/').next().unwrap_or(file);
                    let row = texts.iter().find(|row| row.file == name);
                    self.text(file, row, &ledger, &place)
                }
            };
            of_file.with_context(|| format!("cannot verify {file}"))?;
            ledger.end_file(file);
        }
        Ok(ledger.finish()?)
    }
}

/// True if a device still computes after some of its work has failed.
fn still_works<B: Backend>(device: &B::Device) -> bool {
    free::<B>(device);
    let doubled = || to_host(Tensor::<B, 1>::from_floats([1.5], device) * 2.0);
    panics::caught(doubled).is_ok_and(|doubled| doubled == [3.0])
}

impl Verify<'_> {
    /// Computes it on a device. The stored values are f32, except for some cases, which set the type
    /// themselves.
    pub(crate) fn run_on(self, device: Device) -> Result<Vec<Case>> {
        device.run(DType::F32, self)?
    }

    fn tensors<B: Backend>(
        &self,
        file: &str,
        row: Option<&Tensors<B>>,
        ledger: &Ledger<'_>,
        place: &Place<B>,
    ) -> Result<()> {
        let golden = self.source.set.tensors(file)?;
        let Some(&Tensors { component, bounds, compare, .. }) = row else {
            let none = Bounds { of: &[], bf16: 0.0 };
            return Sheet::new(&golden, "unknown", none, ledger).fill(|_| Ok(()));
        };
        Sheet::new(&golden, component, bounds, ledger)
            .fill(|sheet| compare(sheet, self.source, place))
    }

    fn text<B: Backend>(
        &self,
        file: &str,
        row: Option<&Texts<B>>,
        ledger: &Ledger<'_>,
        place: &Place<B>,
    ) -> Result<()> {
        let content = self.source.set.json(file)?;
        let Some(&Texts { component, compare, .. }) = row else {
            let (component, why) = match file.starts_with("logic/") {
                true => ("logic", LOGIC),
                false => ("unknown", UNKNOWN),
            };
            Page::new(file, component, ledger).skip_entries(&content, why);
            return Ok(());
        };
        let page = Page::new(file, component, ledger);
        let work = || compare(page, &content, self.source, place);
        if let Err(why) = ledger.attempt(file, component, vec![], work)? {
            page.fail("the rest", &why);
        }
        Ok(())
    }
}
