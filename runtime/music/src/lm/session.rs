//! Loads a language model for one task.

use std::{cell::Cell, time::Instant};

use acestep_engine::{
    Error,
    device::{DeviceTarget, recovery},
    progress::{Event, Observe, Stage, WhileUnchanged, check},
    retry,
};
use acestep_model::{Backend, LanguageCheckpoint, Place};
use burn::module::Module;

use super::{
    constrain::Grammar, generate::Writer, sample::Sampler, settings::LmSettings,
    vocabulary::Vocabulary,
};
use crate::request::length::MOST_SECONDS;

/// Loads the model, runs `work` with it, and drops it. If its logits overflow, runs `work` once
/// more in f32.
///
/// # Errors
/// [`Error::Checkpoint`] if the model cannot be read or its file changes, [`Error::DeviceFailed`]
/// if a GPU fails, [`Error::NoRoomForF32`], and the errors of `work`.
pub(super) fn open<B: Backend, T>(
    language: &dyn LanguageCheckpoint<B>,
    place: &Place<B>,
    settings: &LmSettings,
    stage: Stage,
    observe: &dyn Observe,
    work: impl FnMut(&Writer<'_, B>) -> Result<T, Error>,
) -> Result<T, Error> {
    open_at(DeviceTarget::of::<B>(&place.device), language, place, settings, stage, observe, work)
}

/// As [`open`], but failures are treated as on `target`.
fn open_at<B: Backend, T>(
    target: DeviceTarget,
    language: &dyn LanguageCheckpoint<B>,
    place: &Place<B>,
    settings: &LmSettings,
    stage: Stage,
    observe: &dyn Observe,
    mut work: impl FnMut(&Writer<'_, B>) -> Result<T, Error>,
) -> Result<T, Error> {
    check(observe)?;
    let start = Instant::now();
    observe.event(Event::Loading(stage));
    let tokenizer = language.tokenizer().map_err(Error::checkpoint)?;
    let vocabulary = Vocabulary::new(tokenizer).map_err(Error::checkpoint)?;
    let grammar = Grammar::new(&vocabulary, MOST_SECONDS as u32).map_err(Error::checkpoint)?;
    let sampler = Sampler {
        temperature: settings.temperature,
        top_k: settings.top_k,
        top_p: settings.top_p,
        repetition_penalty: settings.repetition_penalty,
    };
    let parameters = Cell::new(0);
    let mut write = |place: &Place<B>| {
        let model = language.language_model(place).map_err(Error::checkpoint)?;
        parameters.set(model.num_params() as u64);
        check(observe)?;
        work(&Writer {
            loading: start.elapsed(),
            model: &model,
            config: language.config(),
            place,
            grammar: &grammar,
            sampler,
            max_seq: settings.max_seq,
            observe: &WhileUnchanged { observe, is_unchanged: &|| language.unchanged().is_ok() },
        })
    };
    let who = super::NAME;
    let widened = |wide: &Place<B>| {
        recovery::free::<B>(&wide.device);
        retry::check_room(who, place.dtype, parameters.get(), 0, &target)
    };
    let written = retry::repeated_in_f32(who, place, observe, widened, |place| {
        let written = recovery::catch(target.device, stage, || write(place));
        // Check this first: a changed file may be the reason of a cancellation or of NaN logits.
        language.unchanged().map_err(Error::checkpoint)?;
        written
    });
    // Free its memory for the song's networks.
    recovery::free::<B>(&place.device);
    written
}

#[cfg(test)]
mod tests {
    use std::panic;

    use acestep_engine::{
        device::{Device, memory::MemoryInfo},
        progress::Unobserved,
    };
    use burn::tensor::DType;
    use burn_flex::{Flex, FlexDevice};

    use super::*;
    use crate::{
        lm::sample::ScoreError,
        stage,
        test_goldens::{Language, settings},
    };

    fn opened(
        target: DeviceTarget,
        dtype: DType,
        fits: bool,
        work: impl FnMut(&Writer<'_, Flex>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let place = Place { device: FlexDevice, dtype };
        let (language, stage) = (Language::new(fits), stage::LM_CODES);
        open_at(target, &language, &place, &settings(&[1]), stage, &Unobserved, work)
    }

    fn target(device: Device, free: Option<u64>) -> DeviceTarget {
        DeviceTarget { device, memory: MemoryInfo { free, ..MemoryInfo::default() } }
    }

    #[test]
    fn a_card_that_fails_at_the_language_model_is_an_error_with_a_remedy() {
        let gpu = target(Device::Cuda(0), None);
        let error = opened(gpu, DType::F32, false, |_| Ok(())).expect_err("no room");
        assert_eq!(error.to_string(), "cuda:0 failed in the codes stage: can't allocate 1 byte");
        let hint = error.hint().expect("a remedy");
        for remedy in ["`dtype: bf16`", "`duration`", "smaller model", "close other programs"] {
            assert!(hint.contains(remedy), "{remedy}: {hint}");
        }
        let error = opened(gpu, DType::F32, true, |_| panic!("no room")).expect_err("it failed");
        assert!(matches!(error, Error::DeviceFailed { .. }), "{error}");
    }

    #[test]
    fn a_processor_that_panics_at_it_is_a_bug() {
        let failed = panic::catch_unwind(|| {
            opened(target(Device::Cpu, None), DType::F32, false, |_| Ok(()))
        });
        assert!(failed.is_err());
    }

    #[test]
    fn it_is_not_asked_again_in_f32_where_there_is_no_room_for_that() {
        let asked = Cell::new(0);
        let overflows = |writer: &Writer<'_, Flex>| {
            asked.set(asked.get() + 1);
            let source = ScoreError::NotANumber { token: 0 };
            Err(Error::Scores { step: 0, dtype: writer.place.dtype, source, had: String::new() })
        };
        let error = opened(target(Device::Cuda(0), Some(1)), DType::F16, true, overflows);
        assert!(matches!(error, Err(Error::NoRoomForF32 { free: 1, .. })), "{error:?}");
        assert_eq!(asked.replace(0), 1);
        // With enough memory it runs again, and the error has the requested type.
        let error = opened(target(Device::Cuda(0), Some(1 << 30)), DType::F16, true, overflows);
        assert!(matches!(error, Err(Error::Scores { dtype: DType::F16, .. })), "{error:?}");
        assert_eq!(asked.get(), 2);
    }
}
