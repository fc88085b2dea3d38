//! Networks that stay loaded sing the same song, and are read once.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use acestep_import::Part;
use acestep_runtime::{
    Device, Error, Parts, Request, Residency, Unobserved,
    device::{Site, memory::Room},
    generate,
};
use acestep_tests::{Altered, Change, Cpu, place, plan, request};
use burn::module::Module;

/// Counts how often a network is read.
struct Counted(Cell<usize>);

impl Change for Counted {
    fn network<M: Module<Cpu>>(&self, _part: Part, network: M) -> M {
        self.0.set(self.0.get() + 1);
        network
    }
}

/// A song from codes needs five networks: text encoder, conditioner, codec, transformer, decoder.
#[test]
fn kept_networks_are_read_once_and_sing_the_same_song() {
    let request = Request { audio_codes: Some(vec![vec![17; 10]]), duration: None, ..request() };
    let model = Altered::new(Counted(Cell::new(0)));
    let plan = plan(&request, &model.model);

    let fresh = Parts::<Cpu, _>::new(&model, place(), Residency::WhileUsed);
    let song = generate(&plan, &fresh, &Unobserved).expect("a song");
    assert_eq!(generate(&plan, &fresh, &Unobserved).expect("a song"), song);
    assert_eq!(model.change.0.replace(0), 10);

    let kept = Parts::<Cpu, _>::new(&model, place(), Residency::Kept);
    assert_eq!(generate(&plan, &kept, &Unobserved).expect("a song"), song);
    assert_eq!(generate(&plan, &kept, &Unobserved).expect("a song"), song);
    assert_eq!(model.change.0.get(), 5);
}

/// A network that the device has no room for.
struct Refused(Part);

impl Change for Refused {
    fn network<M: Module<Cpu>>(&self, part: Part, network: M) -> M {
        assert!(part != self.0, "can't allocate the {part}");
        network
    }
}

#[test]
fn a_card_without_room_for_a_network_is_an_error_and_a_processor_that_panics_a_bug() {
    let request = Request { audio_codes: Some(vec![vec![17; 10]]), duration: None, ..request() };
    for (part, stage) in [
        (Part::TextEncoder, "text encoder"),
        (Part::Conditioner, "condition"),
        (Part::AudioCodec, "audio codes"),
        (Part::Dit, "diffusion"),
        (Part::VaeDecoder, "VAE"),
    ] {
        let model = Altered::new(Refused(part));
        let plan = plan(&request, &model.model);
        let song = |device| {
            let site = Site { device, room: Room::default() };
            let parts = Parts::<Cpu, _>::new(&model, place(), Residency::WhileUsed).at(site);
            generate(&plan, &parts, &Unobserved)
        };
        let error = song(Device::Cuda(3)).expect_err("no room");
        assert!(matches!(error, Error::DeviceFailed { .. }), "{error}");
        let message = format!("cuda:3 failed in the {stage} stage: can't allocate the {part}");
        assert_eq!(error.to_string(), message);
        assert!(catch_unwind(AssertUnwindSafe(|| song(Device::Cpu))).is_err(), "{part}");
    }
}
