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
    error::Notice,
    observe::{Event, Observe},
};

/// Does the work of a stage in `place`, and once more in f32 if its result is not finite and the
/// place was of a narrower type.
///
/// `who` is the network, as a noun phrase; `widened` is told the new place before the second time.
///
/// # Errors
/// Those of `work`; [`Error::NotFinite`] knows the type that was used first.
pub(crate) fn repeated_in_f32<B: Backend, T>(
    who: &'static str,
    place: &Place<B>,
    observe: &dyn Observe,
    widened: impl FnOnce(&Place<B>),
    mut work: impl FnMut(&Place<B>) -> Result<T, Error>,
) -> Result<T, Error> {
    match work(place) {
        Err(error) if place.dtype != DType::F32 && error.is_overflow() => {
            observe.event(Event::Overflowed { who, dtype: place.dtype });
            let wide = Place::f32(place.device.clone());
            widened(&wide);
            work(&wide).map_err(|error| error.after(place.dtype))
        }
        result => result,
    }
}

/// What a person is told of it.
pub fn notice(who: &str, dtype: DType) -> Notice {
    Notice(format!(
        "{who} overflowed in {} and was run again in f32: pass --dtype f32 to start so",
        dtype.name()
    ))
}
