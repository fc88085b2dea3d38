//! Work that a device may fail at for lack of memory, and that is then tried in smaller pieces.
//!
//! How the backends of cards report it (CubeCL 0.10): an allocation that fails ends the task on the
//! device's own thread in a panic, which is caught there; the tensor stays without memory, and
//! whoever reads a result that depends on it is told so, by an error or by a panic of its own. So
//! success is only known once the values have been read. A program's panic hook is called for such a panic, though
//! it is mended or becomes an error: a hook had better keep what it hears until a panic reaches `main`, and
//! pass it on to [`panics::hear`](super::panics::hear), which is where the reason is found.
//!
//! A Vulkan driver that refuses memory, in place of the backend's own limits, takes the device with
//! it for the rest of the process: then smaller pieces fail too, and the error says what to change.

use acestep_model::Backend;

use super::{Device, Fault, panics};
use crate::{
    Error,
    observe::{Event, Observe, Stage},
    vae::Tiling,
};

/// Does `work`, and turns a panic in it into [`Error::DeviceFailed`] if it was on a card. A processor
/// that has no memory left does not come back from it: there a panic is a bug, and stays one.
///
/// # Errors
/// Those of `work`.
pub(crate) fn attempt<T>(
    device: Device,
    stage: Stage,
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    if !device.is_card() {
        return work();
    }
    panics::caught(work).unwrap_or_else(|why| {
        let (device, stage) = (device.to_string(), stage.name().into());
        Err(Error::DeviceFailed { device, stage, why })
    })
}

/// Does `work`, which is cut into tiles, and where a card fails at it, perhaps for lack of memory, again in
/// tiles of half the size, and so on. `free` gives the card's unused memory back before that.
///
/// # Errors
/// Those of `work`; [`Error::DeviceFailed`] where the smallest tiles did not help either.
pub(crate) fn in_tiles<T>(
    device: Device,
    stage: Stage,
    frames: usize,
    mut tiling: Tiling,
    observe: &dyn Observe,
    free: impl Fn(),
    mut work: impl FnMut(Tiling) -> Result<T, Error>,
) -> Result<T, Error> {
    loop {
        match (attempt(device, stage, || work(tiling)), tiling.smaller(frames)) {
            (Err(Error::DeviceFailed { why, .. }), Some(smaller))
                if Fault::of(&why).may_need_less() =>
            {
                tiling = smaller;
                observe.event(Event::Again { stage, frames: tiling.chunk, why });
                free();
            }
            (result, _) => return result,
        }
    }
}

/// Gives back what `device` keeps of memory that is no longer used, once it is done with what was asked of it.
pub fn free<B: Backend>(device: &B::Device) {
    if !Device::behind::<B>(device).is_card() {
        return;
    }
    // Tensors that were let go of still wait in a queue with the work before them. What fails in it
    // has been said to whoever read a result, or will be to whoever reads the next.
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

    const CARD: Device = Device::Cuda(1);

    #[test]
    fn a_panic_becomes_an_error_and_an_error_stays_one() {
        let fine = attempt(CARD, Stage::Vae, || Ok(1));
        assert_eq!(fine.expect("it went well"), 1);
        let cancelled = attempt::<()>(CARD, Stage::Vae, || Err(Error::Cancelled));
        assert!(matches!(cancelled, Err(Error::Cancelled)));
        let failed = attempt::<()>(CARD, Stage::Vae, || panic!("no memory\nat all"));
        let message = failed.expect_err("it panicked").to_string();
        assert_eq!(message, "cuda:1 failed in the VAE stage: no memory: at all");
    }

    #[test]
    fn on_the_processor_a_panic_stays_a_bug() {
        let work = || attempt::<()>(Device::Cpu, Stage::Vae, || panic!("a wheel came off"));
        assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
    }

    /// Writes down what was tried again, and why.
    #[derive(Default)]
    struct Diary(RefCell<Vec<(usize, String)>>);

    impl Observe for Diary {
        fn event(&self, event: Event) {
            if let Event::Again { frames, why, .. } = event {
                self.0.borrow_mut().push((frames, why));
            }
        }
    }

    /// Tiles that `work` got, and what was told, of a song of `frames` on a card with room for
    /// `room` of them at once.
    fn tried(frames: usize, room: usize) -> (Result<usize, String>, Vec<usize>, Vec<usize>) {
        let (diary, freed, tiles) = (Diary::default(), Cell::new(0), RefCell::default());
        let free = || freed.set(freed.get() + 1);
        let work = |tiling: Tiling| {
            let at_once = tiling.chunk.min(frames);
            RefCell::<Vec<_>>::borrow_mut(&tiles).push(at_once);
            assert!(at_once <= room, "no room for {at_once}");
            Ok(at_once)
        };
        let result = in_tiles(CARD, Stage::Vae, frames, Tiling::default(), &diary, free, work);
        let told = diary.0.into_inner();
        assert_eq!(told.len(), freed.get());
        for (_, why) in &told {
            assert!(why.starts_with("no room for"), "{why}");
        }
        let told = told.into_iter().map(|(frames, _)| frames).collect();
        (result.map_err(|error| error.to_string()), tiles.into_inner(), told)
    }

    #[test]
    fn tiles_are_halved_until_the_card_has_room_and_no_work_is_done_twice() {
        assert_eq!(tried(6000, 512), (Ok(512), vec![512], vec![]));
        assert_eq!(tried(6000, 200), (Ok(128), vec![512, 256, 128], vec![256, 128]));
        // A song that is shorter than a tile: a smaller tile that still holds it is the same work.
        assert_eq!(tried(200, 100), (Ok(100), vec![200, 100], vec![100]));
        let (result, tiles, _) = tried(150, 10);
        assert_eq!(tiles, [150, 75]);
        assert_eq!(result, Err("cuda:1 failed in the VAE stage: no room for 75".into()));
    }

    #[test]
    fn a_kernel_that_does_not_compile_is_not_tried_again_in_smaller_tiles() {
        let (diary, tries) = (Diary::default(), Cell::new(0));
        let work = |_| -> Result<(), Error> {
            tries.set(tries.get() + 1);
            panic!("ComputePipeline with 'conv1d' label is invalid")
        };
        let result = in_tiles(CARD, Stage::Vae, 6000, Tiling::default(), &diary, || (), work);
        let error = result.expect_err("it failed");
        assert_eq!((tries.get(), diary.0.take().len()), (1, 0));
        assert!(error.to_string().ends_with("ComputePipeline with 'conv1d' label is invalid"));
        assert!(!error.hint().expect("a remedy").contains("memory"));
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
        let device = super::super::wgpu::device(0, Device::Wgpu(0)).expect("a card");
        let sum = |bytes: usize| {
            let x = Tensor::<B, 1>::ones([bytes / 4], &device) + 1.0;
            let data = x.slice([0..4]).into_data();
            Ok(data.to_vec::<f32>().expect("f32"))
        };
        let card = Device::Wgpu(0);
        assert!(attempt(card, Stage::Vae, || sum(2 * most)).is_err());
        let small = attempt(card, Stage::Vae, || sum(1 << 20)).expect("it fits");
        assert_eq!(small, [2.0; 4]);
    }
}
