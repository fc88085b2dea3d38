//! Shuffles between the lanes of a row, on a driver in software.

use acestep_model::kernel::variants::{shuffles, with_shuffles};
use burn_wgpu::{WgpuDevice, WgpuRuntime};
use cubecl::prelude::*;

/// Otherwise the tests with shuffles would test nothing.
#[test]
fn a_driver_in_software_can_be_asked_to_shuffle() {
    let client = WgpuRuntime::client(&WgpuDevice::DefaultDevice);
    assert!(with_shuffles(|| shuffles(&client, 4)));
}
