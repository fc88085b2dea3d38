//! Work that a device may fail at for lack of memory, and that is then tried in smaller pieces.
//!
//! How the backends of cards report it (CubeCL 0.10): an allocation that fails ends the task on the
//! device's own thread in a panic, which is caught there; the tensor stays without memory, and
//! whoever reads a result that depends on it is told so, by an error or by a panic of its own. So
//! success is only known once the values have been read, and a program's panic hook is asked to keep
//! quiet meanwhile: see [`is_on`].
//!
//! A Vulkan driver that refuses memory, in place of the backend's own limits, takes the device with
//! it for the rest of the process: then smaller pieces fail too, and the error says what to change.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::{Error, observe::Stage};

static TRIALS: AtomicUsize = AtomicUsize::new(0);

/// Whether a panic on any thread may be part of something that is tried again, and is reported as an
/// error if it fails for good: a panic hook should not print it.
pub fn is_on() -> bool {
    TRIALS.load(Ordering::SeqCst) > 0
}

/// Does `work`, and turns a panic in it into [`Error::DeviceFailed`].
///
/// # Errors
/// Those of `work`.
pub(crate) fn attempt<T>(
    device: &str,
    stage: Stage,
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    TRIALS.fetch_add(1, Ordering::SeqCst);
    let result = catch_unwind(AssertUnwindSafe(work));
    TRIALS.fetch_sub(1, Ordering::SeqCst);
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
        Err(Error::DeviceFailed {
            device: device.into(),
            stage: stage.name().into(),
            why: first_line(text),
        })
    })
}

/// A backend's error may hold a whole kernel.
fn first_line(text: &str) -> String {
    const MOST: usize = 300;
    text.lines().next().unwrap_or_default().chars().take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_and_an_error_stays_one() {
        assert!(!is_on());
        let fine = attempt("cuda", Stage::Vae, || {
            assert!(is_on());
            Ok(1)
        });
        assert_eq!(fine.expect("it went well"), 1);
        let cancelled = attempt::<()>("cuda", Stage::Vae, || Err(Error::Cancelled));
        assert!(matches!(cancelled, Err(Error::Cancelled)));
        let failed = attempt::<()>("cuda", Stage::Vae, || panic!("no memory\nat all"));
        let message = failed.expect_err("it panicked").to_string();
        assert_eq!(message, "cuda failed in the VAE stage: no memory");
        assert!(!is_on());
    }

    /// Needs a driver, be it a program: `--ignored` runs it.
    #[cfg(feature = "wgpu")]
    #[test]
    #[ignore = "needs a driver of Vulkan or Metal"]
    fn a_card_that_refused_a_tensor_goes_on_with_smaller_ones() {
        use burn::tensor::Tensor;
        type B = burn_wgpu::Wgpu<f32, i32>;
        let adapter = super::super::listing::wgpu().and_then(|all| all.into_iter().next());
        let most = adapter.expect("a driver").largest_bytes as usize;
        let device = super::super::wgpu::device(0, super::super::Device::Wgpu(0)).expect("a card");
        let sum = |bytes: usize| {
            let x = Tensor::<B, 1>::ones([bytes / 4], &device) + 1.0;
            let data = x.slice([0..4]).into_data();
            Ok(data.to_vec::<f32>().expect("f32"))
        };
        assert!(attempt("wgpu", Stage::Vae, || sum(2 * most)).is_err());
        let small = attempt("wgpu", Stage::Vae, || sum(1 << 20)).expect("it fits");
        assert_eq!(small, [2.0; 4]);
    }
}
