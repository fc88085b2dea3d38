//! Flow-edit compared with plain sampling.
//!
//! If the window is closed or one step long, plain sampling gives the expected result.

use std::cell::Cell;

use acestep_engine::{Residency, Unobserved};
use acestep_import::AceStep;
use acestep_music::{
    Networks,
    flow::{
        self, Sampling, SamplingStart, Tracks,
        edit::{Edit, Side, Window},
        noise::NoiseSource,
        schedule::{self, Schedule},
        solver::Solver,
    },
    pipeline::prepare,
};
use acestep_tests::{Cpu, DEVICE, base, largest_difference, place, plan, request, turbo};
use burn::tensor::{Tensor, TensorData};

type Latents = Tensor<Cpu, 3>;

/// Bound of rounding differences: sums of a few numbers of size 1 in another order.
const FLOAT_NOISE: f32 = 2e-5;

/// A model, a song, and conditions for two descriptions.
struct Scene {
    model: AceStep,
    song: Latents,
    source: Tracks<Cpu>,
    target: Tracks<Cpu>,
}

fn noise(seed: u64, like: [usize; 3]) -> Latents {
    let values = NoiseSource::default().initial_noise(seed, like[1], like[2]);
    Tensor::from_data(TensorData::new(values, like), &DEVICE)
}

impl Scene {
    fn new(model: AceStep) -> Self {
        let tracks = |caption: &str| {
            let request = request().with(|r| r.words.caption = Some(caption.into()));
            let networks = Networks::<Cpu>::new(&model, place(), Residency::WhileUsed);
            prepare(&plan(&request, &model), &networks, &Unobserved).expect("conditioning").tracks
        };
        let (source, target) = (tracks("a calm piano"), tracks("a loud brass band"));
        let [_, frames, twice] = source.first.context.dims();
        let song = noise(99, [1, frames, twice / 2]) * 0.7;
        Self { model, song, source, target }
    }

    fn noise(&self, seed: u64) -> Latents {
        noise(seed, self.song.dims())
    }

    fn sampled(
        &self,
        tracks: &Tracks<Cpu>,
        start: SamplingStart<Cpu>,
        schedule: &Schedule,
    ) -> Latents {
        let networks = Networks::<Cpu>::new(&self.model, place(), Residency::WhileUsed);
        let dit = networks.dit().expect("a transformer");
        let sampling = Sampling::new(schedule, Solver::Euler, self.model.is_turbo());
        let none = |_| unreachable!("no step draws");
        flow::sample(&dit, tracks, start, &sampling, none, &Unobserved).expect("latents")
    }

    /// Edits the song from `source` to `target`, with the noise of each seed in turn.
    fn edited(
        &self,
        [source, target]: [&Tracks<Cpu>; 2],
        window: (f64, f64, usize),
        schedule: &Schedule,
        seeds: &[u64],
    ) -> Latents {
        let networks = Networks::<Cpu>::new(&self.model, place(), Residency::WhileUsed);
        let side = |tracks: &Tracks<Cpu>| Side {
            track: tracks.first.clone(),
            steering: tracks.steering.clone(),
        };
        let edit = Edit {
            song: self.song.clone(),
            source: side(source),
            target: side(target),
            window: Window { n_min: window.0, n_max: window.1, n_avg: window.2 },
        };
        let drawn = Cell::new(0);
        let draw = || self.noise(seeds[drawn.replace(drawn.get() + 1)]);
        let sampling = Sampling::new(schedule, Solver::Euler, self.model.is_turbo());
        let dit = networks.dit().expect("a transformer");
        let edited = flow::edit::edit(&dit, &edit, &sampling, draw, &Unobserved);
        assert_eq!(drawn.get(), seeds.len(), "draws");
        edited.expect("latents")
    }
}

fn apart(a: &Latents, b: &Latents) -> f32 {
    let values = |x: &Latents| x.to_data().to_vec::<f32>().expect("f32");
    largest_difference(values(a).iter().zip(&values(b)))
}

#[test]
fn a_song_edited_to_what_it_is_stays_as_it_is() {
    let scene = Scene::new(base());
    let same = [&scene.source, &scene.source];
    let edited = scene.edited(same, (0.0, 1.0, 1), &schedule::base(3, 1.0), &[1, 2, 3]);
    assert_eq!(apart(&edited, &scene.song), 0.0);
    let never = [&scene.source, &scene.target];
    let edited = scene.edited(never, (1.0, 1.0, 1), &schedule::base(3, 1.0), &[]);
    assert_eq!(apart(&edited, &scene.song), 0.0);
}

/// In one step from time 1 to 0 the noised source is pure noise.
///
/// So the song changes by the difference of the samples of the two descriptions.
#[test]
fn one_step_moves_the_song_by_the_difference_of_two_samples() {
    for model in [base(), turbo()] {
        let scene = Scene::new(model);
        let (sides, once) = ([&scene.source, &scene.target], schedule::base(1, 1.0));
        let sampled = |tracks, seed| scene.sampled(tracks, scene.noise(seed).into(), &once);
        let moved = |seed| sampled(&scene.target, seed) - sampled(&scene.source, seed);
        let edited = scene.edited(sides, (0.0, 1.0, 1), &once, &[1]);
        let expected = scene.song.clone() + moved(1);
        assert!(apart(&edited, &expected) < FLOAT_NOISE, "{}", apart(&edited, &expected));
        assert!(apart(&edited, &scene.song) > 0.01);
        let edited = scene.edited(sides, (0.0, 1.0, 2), &once, &[1, 2]);
        let expected = scene.song.clone() + (moved(1) + moved(2)) * 0.5;
        assert!(apart(&edited, &expected) < FLOAT_NOISE, "{}", apart(&edited, &expected));
    }
}

#[test]
fn after_a_closed_window_the_target_is_sampled_from_the_noised_song() {
    let scene = Scene::new(base());
    let (sides, schedule) = ([&scene.source, &scene.target], schedule::base(4, 3.0));
    let anew = scene.edited(sides, (0.0, 0.0, 1), &schedule, &[5]);
    let expected = scene.sampled(&scene.target, scene.noise(5).into(), &schedule);
    assert!(apart(&anew, &expected) < FLOAT_NOISE, "{}", apart(&anew, &expected));

    let half = scene.edited(sides, (0.5, 0.5, 1), &schedule, &[5]);
    let rest = Schedule { timesteps: schedule.timesteps[2..].to_vec(), terminal: 0.0 };
    let source = Some(scene.song.clone());
    let start = SamplingStart { noise: scene.noise(5), source, region: None };
    let expected = scene.sampled(&scene.target, start, &rest);
    assert!(apart(&half, &expected) < FLOAT_NOISE, "{}", apart(&half, &expected));
}

/// Projected guidance keeps the previous step; two equal draws of noise must act like one.
#[test]
fn guidance_moves_on_once_a_step_however_many_noises_it_draws() {
    let scene = Scene::new(base());
    let (sides, schedule) = ([&scene.source, &scene.target], schedule::base(3, 1.0));
    let once = scene.edited(sides, (0.0, 1.0, 1), &schedule, &[1, 2, 3]);
    let twice = scene.edited(sides, (0.0, 1.0, 2), &schedule, &[1, 1, 2, 2, 3, 3]);
    assert!(apart(&once, &twice) < FLOAT_NOISE, "{}", apart(&once, &twice));
}
