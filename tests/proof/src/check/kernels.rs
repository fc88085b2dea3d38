//! Compares every operation with a kernel, on the device, with the CPU's f32 result from the same
//! rounded inputs.

mod operation;
mod ready;
mod sweep;

use acestep_engine::{Device, device::dtype::name};
use acestep_model::{Backend, Place};
use anyhow::Result;
use burn::tensor::DType;
use sweep::{Extent, SWEEP};

use self::operation::Operation;
use crate::{
    measure::clock,
    rows::{Item, Kernel, Line, Tell},
};

/// Types to compare in, the likeliest of a released model first.
const TYPES: [DType; 3] = [DType::BF16, DType::F32, DType::F16];

/// Returns the shapes to compare, each in every type of the device; then those to time, because a
/// reference is tuned for seconds before it is timed.
pub(crate) fn items(quick: bool) -> Vec<Item> {
    let item = |name| Item { name, group: 0 };
    let compared = chosen(quick).map(|operation| item(title(operation)));
    let timed = timed(quick).map(|operation| item(format!("time of {}", title(operation))));
    compared.chain(timed).collect()
}

/// Returns the operations to time.
fn timed(quick: bool) -> impl Iterator<Item = Operation> {
    chosen(quick).filter(|operation| SWEEP.contains(&(Extent::Released, *operation)))
}

fn title(operation: Operation) -> String {
    format!("{} {}", operation.name(), operation.shape())
}

fn chosen(quick: bool) -> impl Iterator<Item = Operation> {
    let wanted = move |extent| !quick || extent == Extent::Quick;
    SWEEP.iter().filter(move |(extent, _)| wanted(*extent)).map(|&(_, operation)| operation)
}

/// Compares or times one shape.
///
/// # Errors
/// If the CPU cannot compute: then there is no reference.
pub(crate) fn run<B: Backend>(
    index: usize,
    quick: bool,
    device: &B::Device,
    tell: &Tell,
) -> Result<()> {
    let Some(operation) = chosen(quick).nth(index) else {
        let timed = timed(quick).nth(index - chosen(quick).count());
        timed.into_iter().for_each(|operation| time::<B>(operation, device, tell));
        return Ok(());
    };
    for dtype in TYPES {
        if !B::supports_dtype(device, dtype) {
            // Report it only once.
            if index == 0 {
                tell(Line::Skipped(format!("everything in {}: the device lacks it", name(dtype))));
            }
            continue;
        }
        let expected = Device::Cpu.run(DType::F32, OnProcessor { operation, rounding: dtype })?;
        let place = Place::<B> { device: device.clone(), dtype };
        let ready = operation.ready(&place, dtype);
        let got = (ready.front)().into_host();
        tell(Line::Kernel(Kernel {
            operation: operation.name().to_owned(),
            shape: operation.shape(),
            dtype: name(dtype).to_owned(),
            error: error(&expected, &got),
            tolerance: operation.tolerance(dtype),
            kernel_s: None,
            reference_s: None,
        }));
    }
    Ok(())
}

/// Times one shape and its reference.
fn time<B: Backend>(operation: Operation, device: &B::Device, tell: &Tell) {
    for dtype in TYPES.into_iter().filter(|&dtype| B::supports_dtype(device, dtype)) {
        let ready = operation.ready(&Place::<B> { device: device.clone(), dtype }, dtype);
        let bytes = (ready.front)().count() * dtype.size();
        for (is_reference, way) in [(false, &ready.front), (true, &ready.reference)] {
            tell(Line::Timed {
                operation: operation.name().to_owned(),
                shape: operation.shape(),
                dtype: name(dtype).to_owned(),
                is_reference,
                seconds: clock::short(way, || clock::wait::<B>(device), bytes),
            });
        }
    }
}

/// The operation as plain operations on the CPU, in f32.
struct OnProcessor {
    operation: Operation,
    rounding: DType,
}

impl acestep_engine::BackendWork for OnProcessor {
    type Output = (Vec<usize>, Vec<f32>);

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let ready = self.operation.ready(&place, self.rounding);
        (ready.reference)().into_host()
    }
}

/// Returns the largest difference as a share of the largest expected value; `None` for another
/// shape or a result that is not finite.
fn error(expected: &(Vec<usize>, Vec<f32>), got: &(Vec<usize>, Vec<f32>)) -> Option<f64> {
    let ((shape, expected), (own_shape, got)) = (expected, got);
    if shape != own_shape || expected.len() != got.len() {
        return None;
    }
    let largest = expected.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
    let differences = expected.iter().zip(got).map(|(a, b)| (a - b).abs());
    // `f32::max` would ignore a NaN; in this order it is the largest.
    let worst = differences.max_by(f32::total_cmp).unwrap_or(0.0);
    worst.is_finite().then(|| f64::from(worst) / f64::from(largest.max(f32::MIN_POSITIVE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f32]) -> (Vec<usize>, Vec<f32>) {
        (vec![values.len()], values.to_vec())
    }

    #[test]
    fn an_error_is_a_share_of_the_largest_value() {
        assert_eq!(error(&of(&[1.0, -4.0]), &of(&[1.5, -4.0])), Some(0.125));
        assert_eq!(error(&of(&[0.0]), &of(&[0.0])), Some(0.0));
    }

    #[test]
    fn what_is_not_finite_or_has_another_shape_has_no_error_to_measure() {
        assert_eq!(error(&of(&[1.0, 2.0, 3.0]), &of(&[1.0, f32::NAN, 3.0])), None);
        assert_eq!(error(&of(&[1.0]), &of(&[f32::INFINITY])), None);
        assert_eq!(error(&of(&[1.0]), &of(&[1.0, 1.0])), None);
        assert_eq!(error(&(vec![1, 2], vec![0.0; 2]), &(vec![2, 1], vec![0.0; 2])), None);
    }

    #[test]
    fn a_quick_run_takes_only_quick_shapes() {
        let (all, quick) = (items(false), items(true).len());
        assert_eq!(all.len(), SWEEP.len() + timed(false).count());
        assert_eq!(timed(true).count(), 0);
        assert!(0 < quick && quick < SWEEP.len() / 2, "{quick} of {}", SWEEP.len());
        // Every comparison comes before the first time.
        assert_eq!(all[SWEEP.len()].name, "time of rms_norm 2 x 1024");
        assert!(all[..SWEEP.len()].iter().all(|item| !item.name.starts_with("time of")));
    }
}
