//! Retries a stage in f32 if a network overflows its float type.
//!
//! f16 ends at 65504, but the networks were trained in bf16: upstream's language model and
//! transformer are known to give NaN in f16. The networks themselves keep their residual sums
//! finite ([`keep_finite`](acestep_model::kernel::keep_finite)); if that does not help, the stage
//! is repeated in f32.

use acestep_model::{Backend, Place};
use burn::tensor::DType;

use crate::{
    Error,
    device::{
        DeviceTarget, dtype,
        memory::{bytes_of, usable},
    },
    error::Notice,
    progress::{Event, Observe},
};

/// Runs the work of a stage in `place`, and again in f32 if its result is not finite and the float
/// type of `place` is narrower.
///
/// `who` is the network, as a noun phrase. `widened` is called with the new place before the second
/// run, and can prevent it with an error.
///
/// # Errors
/// The errors of `work` and `widened`; [`Error::NotFinite`] and [`Error::Scores`] contain the float
/// type of the first run.
pub fn repeated_in_f32<B: Backend, T>(
    who: &'static str,
    place: &Place<B>,
    observe: &dyn Observe,
    widened: impl FnOnce(&Place<B>) -> Result<(), Error>,
    mut work: impl FnMut(&Place<B>) -> Result<T, Error>,
) -> Result<T, Error> {
    match work(place) {
        Err(error) if place.dtype != DType::F32 && error.is_overflow() => {
            let wide = Place::f32(place.device.clone());
            widened(&wide)?;
            observe.event(Event::Overflowed { who, dtype: place.dtype });
            work(&wide).map_err(|error| error.after(place.dtype))
        }
        result => result,
    }
}

/// Returns an error if `parameters` of `who` in f32 do not fit into memory; `others` are the bytes
/// that stay there. The narrower weights did fit, but this does not prove that f32 fits.
///
/// # Errors
/// [`Error::NoRoomForF32`]
pub fn check_room(
    who: &'static str,
    dtype: DType,
    parameters: u64,
    others: u64,
    target: &DeviceTarget,
) -> Result<(), Error> {
    let Some(free) = target.memory.free else { return Ok(()) };
    let needed = others + parameters * bytes_of(DType::F32);
    if needed <= usable(free) {
        return Ok(());
    }
    let device = target.device.to_string();
    Err(Error::NoRoomForF32 { who, dtype, needed, free, device })
}

/// Returns the notice for the user.
pub fn notice(who: &str, dtype: DType) -> Notice {
    Notice(format!(
        "{who} overflowed in {} and was run again in f32: pass `dtype: f32` to start so",
        dtype::name(dtype)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, memory::MemoryInfo};

    #[test]
    fn what_is_known_not_to_fit_in_f32_is_refused_before_it_is_read() {
        let check = |free| {
            let memory = MemoryInfo { free, ..MemoryInfo::default() };
            let target = DeviceTarget { device: Device::Cuda(0), memory };
            check_room("the diffusion transformer", DType::F16, 2_000_000_000, 500_000_000, &target)
        };
        assert!(check(None).is_ok());
        assert!(check(Some(10_000_000_000)).is_ok());
        let error = check(Some(9_000_000_000)).expect_err("too little");
        assert_eq!(
            error.to_string(),
            "the diffusion transformer overflowed in f16, and in f32 it would need 8.50 GB of \
             memory, but cuda:0 has 9.00 GB, not all of which can be used"
        );
        assert!(error.hint().is_some_and(|hint| hint.contains("`dtype: bf16`")));
    }
}
