//! What is done when a network's numbers leave the range of its type.
//!
//! f16 ends at 65504, and networks that were trained in bf16 do not know that: upstream's language
//! model and transformer are known to give NaN in f16. The networks themselves keep the sum of their
//! layers finite ([`keep_finite`](acestep_model::kernel::keep_finite)); where that does not help, the
//! stage is done again in f32.

use acestep_model::{Backend, Place};
use burn::tensor::DType;

use crate::{
    Error,
    device::{
        Site, dtype,
        memory::{bytes_of, usable},
    },
    error::Notice,
    observe::{Event, Observe},
};

/// Does the work of a stage in `place`, and once more in f32 if its result is not finite and the
/// place was of a narrower type.
///
/// `who` is the network, as a noun phrase; `widened` is told the new place before the second time,
/// and can refuse it.
///
/// # Errors
/// Those of `work` and of `widened`; [`Error::NotFinite`] and [`Error::Scores`] know the type that
/// was used first.
pub(crate) fn repeated_in_f32<B: Backend, T>(
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

/// Refuses to put `parameters` of `who` into memory in f32 where they are known not to fit; `others`
/// are the bytes of what stays there. Half of it fitted, which says nothing of the whole.
///
/// # Errors
/// [`Error::NoRoomForF32`]
pub(crate) fn check_room(
    who: &'static str,
    dtype: DType,
    parameters: u64,
    others: u64,
    site: &Site,
) -> Result<(), Error> {
    let Some(free) = site.room.free else { return Ok(()) };
    let needed = others + parameters * bytes_of(DType::F32);
    if needed <= usable(free) {
        return Ok(());
    }
    let device = site.device.to_string();
    Err(Error::NoRoomForF32 { who, dtype, needed, free, device })
}

/// What a person is told of it.
pub fn notice(who: &str, dtype: DType) -> Notice {
    Notice(format!(
        "{who} overflowed in {} and was run again in f32: pass --dtype f32 to start so",
        dtype::name(dtype)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, memory::Room};

    #[test]
    fn what_is_known_not_to_fit_in_f32_is_refused_before_it_is_read() {
        let check = |free| {
            let room = Room { free, ..Room::default() };
            let site = Site { device: Device::Cuda(0), room };
            check_room("the diffusion transformer", DType::F16, 2_000_000_000, 500_000_000, &site)
        };
        assert!(check(None).is_ok());
        assert!(check(Some(10_000_000_000)).is_ok());
        let error = check(Some(9_000_000_000)).expect_err("too little");
        assert_eq!(
            error.to_string(),
            "the diffusion transformer overflowed in f16, and in f32 it would need 8.50 GB of \
             memory, but cuda:0 has 9.00 GB, not all of which can be used"
        );
        assert!(error.hint().is_some_and(|hint| hint.contains("--dtype bf16")));
    }
}
