//! Networks that stay loaded sing the same song, and are read once.

use std::cell::Cell;

use acestep_import::Part;
use acestep_runtime::{Parts, Request, Residency, Unobserved, generate};
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
