//! Work that may fail for lack of memory and is then tried again in smaller tiles.
//!
//! The backends of GPUs (CubeCL 0.10) report failures late. A failed allocation panics on the
//! device's own thread, which catches it, and the tensor stays without memory. Reading a result
//! that depends on it fails with an error or another panic. So success is certain only after the
//! values have been read. A program's panic hook is called for such a panic, although the panic is
//! handled. So the hook should keep messages until a panic reaches `main`, and pass them to
//! [`panics::record`](super::panics::record), which finds the reason.
//!
//! If a Vulkan driver refuses memory (not the backend's own limits), the device is lost for the
//! rest of the process. Then smaller tiles fail too, and the error has a remedy.

use acestep_model::Backend;

use super::{Device, GpuFault, panics};
use crate::{
    Error,
    progress::{Event, Stage, StageReporter},
    tiling::Tiling,
};

/// Runs `work`. On a GPU, a panic in it becomes [`Error::DeviceFailed`]. On the CPU a lack of
/// memory ends the process, so a panic is a bug and stays one.
///
/// # Errors
/// The errors of `work`.
pub fn catch<T>(
    device: Device,
    stage: Stage,
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    if !device.is_gpu() {
        return work();
    }
    panics::caught(work).unwrap_or_else(|why| {
        let (device, stage) = (device.to_string(), stage.name.into());
        Err(Error::DeviceFailed { device, stage, why })
    })
}

/// Runs `work` in tiles. If a GPU fails, perhaps for lack of memory, runs it again with tiles of
/// half the size, and so on. `free` releases the GPU's unused memory before each retry.
///
/// # Errors
/// The errors of `work`; [`Error::DeviceFailed`] if the smallest tiles fail too.
pub fn in_tiles<T>(
    device: Device,
    frames: usize,
    mut tiling: Tiling,
    steps: &StageReporter<'_>,
    free: impl Fn(),
    mut work: impl FnMut(Tiling) -> Result<T, Error>,
) -> Result<T, Error> {
    loop {
        match (catch(device, steps.stage, || work(tiling)), tiling.smaller(frames)) {
            (Err(Error::DeviceFailed { why, .. }), Some(smaller))
                if GpuFault::of(&why).may_need_less() =>
            {
                tiling = smaller;
                let (stage, frames) = (steps.stage, tiling.chunk);
                steps.observe.event(Event::Again { stage, frames, why });
                free();
            }
            (result, _) => return result,
        }
    }
}

/// Waits for the work on `device` and releases its unused memory.
pub fn free<B: Backend>(device: &B::Device) {
    if !Device::of_backend::<B>(device).is_gpu() {
        return;
    }
    // Dropped tensors wait in a queue behind earlier work. A failure of that work has been reported
    // to the reader of its result, or the next reader will get it.
    let _ = panics::caught(|| {
        let _ = B::sync(device);
        B::memory_cleanup(device);
    });
    panics::forget();
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        panic::{AssertUnwindSafe, catch_unwind},
    };

    use super::*;
    use crate::progress::Unit;

    const CARD: Device = Device::Cuda(1);
    const VAE: Stage = Stage { name: "VAE", unit: Unit::Tile };

    #[test]
    fn a_panic_becomes_an_error_and_an_error_stays_one() {
        let fine = catch(CARD, VAE, || Ok(1));
        assert_eq!(fine.expect("it went well"), 1);
        let cancelled = catch::<()>(CARD, VAE, || Err(Error::Cancelled));
        assert!(matches!(cancelled, Err(Error::Cancelled)));
        let failed = catch::<()>(CARD, VAE, || panic!("no memory\nat all"));
        let message = failed.expect_err("it panicked").to_string();
        assert_eq!(message, "cuda:1 failed in the VAE stage: no memory: at all");
    }

    #[test]
    fn on_the_processor_a_panic_stays_a_bug() {
        let work = || catch::<()>(Device::Cpu, VAE, || panic!("a wheel came off"));
        assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
    }

    /// The result, the tiles that `work` got, and the tiles of retry events, for a song of `frames`
    /// on a GPU with memory for `room` frames at once.
    fn tried(frames: usize, room: usize) -> (Result<usize, String>, Vec<usize>, Vec<usize>) {
        let (told, freed, tiles) = (RefCell::default(), Cell::new(0), RefCell::default());
        let tell = |event: Event| {
            let Event::Again { frames, why, .. } = event else { panic!("{event:?}") };
            assert!(why.starts_with("no room for"), "{why}");
            RefCell::<Vec<_>>::borrow_mut(&told).push(frames);
        };
        let free = || freed.set(freed.get() + 1);
        let work = |tiling: Tiling| {
            let at_once = tiling.chunk.min(frames);
            RefCell::<Vec<_>>::borrow_mut(&tiles).push(at_once);
            assert!(at_once <= room, "no room for {at_once}");
            Ok(at_once)
        };
        let steps = StageReporter { stage: VAE, observe: &tell };
        let result = in_tiles(CARD, frames, Tiling::default(), &steps, free, work);
        let told = told.into_inner();
        assert_eq!(told.len(), freed.get());
        (result.map_err(|error| error.to_string()), tiles.into_inner(), told)
    }

    #[test]
    fn tiles_are_halved_until_the_card_has_room_and_no_work_is_done_twice() {
        assert_eq!(tried(6000, 512), (Ok(512), vec![512], vec![]));
        assert_eq!(tried(6000, 200), (Ok(128), vec![512, 256, 128], vec![256, 128]));
        // The song is shorter than a tile; smaller tiles that still hold it would be the same work.
        assert_eq!(tried(200, 100), (Ok(100), vec![200, 100], vec![100]));
        let (result, tiles, _) = tried(150, 10);
        assert_eq!(tiles, [150, 75]);
        assert_eq!(result, Err("cuda:1 failed in the VAE stage: no room for 75".into()));
    }

    #[test]
    fn a_kernel_that_does_not_compile_is_not_tried_again_in_smaller_tiles() {
        let (told, tries) = (Cell::new(0), Cell::new(0));
        let tell = |_: Event| told.set(told.get() + 1);
        let work = |_| -> Result<(), Error> {
            tries.set(tries.get() + 1);
            panic!("ComputePipeline with 'conv1d' label is invalid")
        };
        let steps = StageReporter { stage: VAE, observe: &tell };
        let result = in_tiles(CARD, 6000, Tiling::default(), &steps, || (), work);
        let error = result.expect_err("it failed");
        assert_eq!((tries.get(), told.get()), (1, 0));
        assert!(error.to_string().ends_with("ComputePipeline with 'conv1d' label is invalid"));
        assert!(!error.hint().expect("a remedy").contains("memory"));
    }

    /// Needs a driver, which may be a software driver: `--ignored` runs it.
    #[cfg(feature = "wgpu")]
    #[test]
    #[ignore = "needs a driver of Vulkan or Metal"]
    fn a_card_that_refused_a_tensor_goes_on_with_smaller_ones() {
        use burn::tensor::Tensor;
        type B = burn_wgpu::Wgpu<f32, i32>;
        let adapter = super::super::listing::wgpu().and_then(|all| all.into_iter().next());
        let most = adapter.expect("a driver").largest_bytes as usize;
        let device = super::super::wgpu::device(0, Device::Wgpu(0)).expect("a gpu");
        let sum = |bytes: usize| {
            let x = Tensor::<B, 1>::ones([bytes / 4], &device) + 1.0;
            let data = x.narrow(0, 0, 4).into_data();
            Ok(data.to_vec::<f32>().expect("f32"))
        };
        let gpu = Device::Wgpu(0);
        assert!(catch(gpu, VAE, || sum(2 * most)).is_err());
        let small = catch(gpu, VAE, || sum(1 << 20)).expect("it fits");
        assert_eq!(small, [2.0; 4]);
    }
}
