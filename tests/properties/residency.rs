//! Networks that stay loaded give the same song, and are loaded once.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use acestep_engine::{
    Device, Error, Event, Observe, Residency, Unobserved,
    device::{DeviceTarget, memory::MemoryInfo},
};
use acestep_import::Network;
use acestep_music::{
    Array3, Networks, Plan, Sound, Sounds,
    align::Extras,
    generate,
    pipeline::{PlanRun, generate_all, prepare, prepare_all},
    stage,
};
use acestep_tests::{Altered, Change, Cpu, covering, info, place, plan, request, turbo};
use burn::module::Module;

/// Counts how often a network is loaded.
struct Counted(Cell<usize>);

impl Change for Counted {
    fn network<M: Module<Cpu>>(&self, _part: Network, network: M) -> M {
        self.0.set(self.0.get() + 1);
        network
    }
}

/// A song from codes needs five networks: text encoder, conditioner, codec, transformer, decoder.
#[test]
fn kept_networks_are_read_once_and_sing_the_same_song() {
    let model = Altered::new(Counted(Cell::new(0)));
    let plan = plan(&covering(), &model.model);

    let fresh = Networks::<Cpu>::new(&model, place(), Residency::WhileUsed);
    let song = generate(&plan, &fresh, &Unobserved).expect("a song");
    assert_eq!(generate(&plan, &fresh, &Unobserved).expect("a song"), song);
    assert_eq!(model.change.0.replace(0), 10);

    let kept = Networks::<Cpu>::new(&model, place(), Residency::Kept);
    assert_eq!(generate(&plan, &kept, &Unobserved).expect("a song"), song);
    assert_eq!(generate(&plan, &kept, &Unobserved).expect("a song"), song);
    assert_eq!(model.change.0.get(), 5);
}

/// Three requests need five networks, and each is loaded once.
///
/// Two of the requests have the same prompt, which is encoded once.
#[test]
fn many_songs_read_each_network_once_and_are_what_they_are_alone() {
    let coded = |seed, caption: &str| {
        covering().with(|r| {
            r.noise.seed = Some(vec![seed]);
            r.words.caption = Some(caption.into());
        })
    };
    let model = Altered::new(Counted(Cell::new(0)));
    let plans = [coded(7, "rain"), coded(8, "rain"), coded(7, "sun")]
        .map(|request| plan(&request, &model.model));
    let fresh = Networks::<Cpu>::new(&model, place(), Residency::WhileUsed);
    let alone = plans.each_ref().map(|plan| generate(plan, &fresh, &Unobserved).expect("a song"));
    model.change.0.set(0);

    let last = Networks::<Cpu>::new(&model, place(), Residency::LastUsed);
    let read = Cell::new(0);
    let observer = Readings(&read);
    let plans = plans.each_ref();
    let runs = plans.map(|plan| PlanRun { plan, extras: Extras::default(), observe: &observer });
    let prepared = prepare_all(&runs, &last);
    assert_eq!(read.get(), 2, "of three prompts two are the same");
    let mut songs = Vec::new();
    generate_all(&runs, &last, prepared, |i, made| {
        assert_eq!(i, songs.len());
        songs.push(made?.all_songs()?);
        Ok::<_, Error>(())
    })
    .expect("songs");
    assert_eq!(songs, alone);
    assert_eq!(model.change.0.get(), 5);
}

/// An edit has two prompts, so two runs of the text encoder and two of the conditioner.
#[test]
fn an_edit_reads_each_network_once() {
    let model = Altered::new(Counted(Cell::new(0)));
    let of = info(&model.model);
    let source = Array3::new([1, 50, of.channels], vec![0.5; 50 * of.channels]);
    let source = Some(Sound::latents(source, &of).expect("latents of the model"));
    let request = request().with(|r| {
        r.words.duration = None;
        r.source.task_type = Some("text2music".into());
        r.edit.flow_edit_morph = Some(true);
        r.edit.flow_edit_source_caption = Some("drums".into());
    });
    let sounds = Sounds { source, references: vec![] };
    let (plan, _) = Plan::with_sounds(&request, &of, &sounds).expect("a valid request");
    let networks = Networks::<Cpu>::new(&model, place(), Residency::LastUsed);
    assert!(prepare(&plan, &networks, &Unobserved).expect("inputs").edited.is_some());
    assert_eq!(model.change.0.get(), 2);
}

/// Counts runs of the text encoder.
struct Readings<'a>(&'a Cell<usize>);

impl Observe for Readings<'_> {
    fn event(&self, event: Event) {
        if matches!(event, Event::Finished { stage: stage::TEXT_ENCODER, .. }) {
            self.0.set(self.0.get() + 1);
        }
    }
}

/// The second of three requests fails.
#[test]
fn a_song_that_fails_stops_no_other() {
    let model = turbo();
    let good = plan(&request(), &model);
    let mut bad = good.clone();
    bad.sampling.timesteps[0] = f32::NAN;
    let plans = [&good, &bad, &good];
    let networks = Networks::<Cpu>::new(&model, place(), Residency::LastUsed);
    let runs = plans.map(|plan| PlanRun { plan, extras: Extras::default(), observe: &Unobserved });
    let prepared = prepare_all(&runs, &networks);
    let mut made = Vec::new();
    generate_all(&runs, &networks, prepared, |_, rendered| {
        made.push(rendered.and_then(|it| it.all_songs()).map_err(|error| error.to_string()));
        Ok::<_, Error>(())
    })
    .expect("nothing ends the run");
    assert!(made[1].as_ref().is_err_and(|why| why.starts_with("the diffusion transformer gave")));
    assert!(made[0].is_ok() && made[0] == made[2]);
}

/// A file that is overwritten once the diffusion transformer was read.
struct Overwritten(Cell<bool>);

impl Change for Overwritten {
    fn network<M: Module<Cpu>>(&self, part: Network, network: M) -> M {
        self.0.set(self.0.get() || part == Network::Dit);
        network
    }

    fn unchanged(&self) -> Result<(), acestep_import::Error> {
        let (path, how) = ("model.safetensors".into(), "was written to".to_owned());
        match self.0.get() {
            false => Ok(()),
            true => Err(acestep_import::Error::Changed { path, how }),
        }
    }
}

/// The network uses its file in place, so that what it computed is of two files; no step more is taken.
#[test]
fn a_file_that_changes_while_its_network_is_at_work_ends_the_song() {
    #[derive(Default)]
    struct Steps(Cell<usize>);
    impl Observe for Steps {
        fn event(&self, event: Event) {
            if let Event::Advanced { stage: stage::DIFFUSION, done, .. } = event {
                self.0.set(self.0.get().max(done));
            }
        }
    }
    for dtype in [burn::tensor::DType::F32, burn::tensor::DType::BF16] {
        let model = Altered::new(Overwritten(Cell::new(false)));
        let plan = plan(&request(), &model.model);
        let place = acestep_model::Place { dtype, ..place() };
        let networks = Networks::<Cpu>::new(&model, place, Residency::WhileUsed);
        let steps = Steps::default();
        let error = generate(&plan, &networks, &steps).expect_err("it has changed");
        assert!(matches!(error, Error::Checkpoint(_)), "{error:?}");
        let text = with_causes(&error);
        assert!(text.contains("`model.safetensors` was written to while it was in use"), "{text}");
        assert!(steps.0.get() <= 1, "{} steps", steps.0.get());
    }
}

/// An error with its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A network that does not fit into the device's memory.
struct Refused(Network);

impl Change for Refused {
    fn network<M: Module<Cpu>>(&self, part: Network, network: M) -> M {
        assert!(part != self.0, "can't allocate the {part}");
        network
    }
}

#[test]
fn a_card_without_room_for_a_network_is_an_error_and_a_processor_that_panics_a_bug() {
    for (part, stage) in [
        (Network::TextEncoder, "text encoder"),
        (Network::Conditioner, "condition"),
        (Network::AudioCodec, "audio codes"),
        (Network::Dit, "diffusion"),
        (Network::VaeDecoder, "VAE"),
    ] {
        let model = Altered::new(Refused(part));
        let plan = plan(&covering(), &model.model);
        let song = |device| {
            let target = DeviceTarget { device, memory: MemoryInfo::default() };
            let networks = Networks::<Cpu>::new(&model, place(), Residency::WhileUsed).at(target);
            generate(&plan, &networks, &Unobserved)
        };
        let error = song(Device::Cuda(3)).expect_err("no room");
        assert!(matches!(error, Error::DeviceFailed { .. }), "{error}");
        let message = format!("cuda:3 failed in the {stage} stage: can't allocate the {part}");
        assert_eq!(error.to_string(), message);
        assert!(catch_unwind(AssertUnwindSafe(|| song(Device::Cpu))).is_err(), "{part}");
    }
}
