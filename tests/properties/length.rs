//! A song has exactly the requested length: `floor(25 seconds)` frames of 1920 samples.

use acestep_engine::{Residency, Unobserved};
use acestep_model::{Configs, oobleck};
use acestep_music::{Networks, Plan, Request, generate};
use acestep_tests::{Altered, Change, Cpu, DEVICE, info, place, plan, request, turbo};
use burn::{module::Module as _, tensor::backend::Backend as _};

fn lasting(seconds: f64) -> Request {
    request().with(|r| r.words.duration = Some(seconds))
}

/// Returns durations and their frames. Milliseconds as integers make the expectation exact.
fn odd_lengths() -> impl Iterator<Item = (f64, usize)> {
    // Steps of 0.333 and 0.27 s cover every hundredth and most fractions of a frame.
    let milliseconds = (1000u64..=60_000).step_by(333).chain((1000..=60_000).step_by(270));
    let whole_seconds = (1..=60).map(|second| 1000 * second);
    milliseconds.chain(whole_seconds).map(|ms| (ms as f64 / 1000.0, (ms * 25 / 1000) as usize))
}

#[test]
fn every_duration_up_to_a_minute_is_planned_to_the_frame() {
    let info = info(&turbo());
    for (seconds, frames) in odd_lengths() {
        let (plan, _) = Plan::resolve(&lasting(seconds), &info).expect("a valid duration");
        assert_eq!((plan.length.frames, plan.samples()), (frames, frames * 1920), "{seconds} s");
        assert_eq!(plan.length.padded_frames, frames.max(128), "{seconds} s");
    }
}

/// Computed by hand: 1.5 x 25 = 37.5, 1.96 x 25 = 49, 2.04 x 25 = 51, 3.7 x 25 = 92.5.
#[test]
fn known_durations_have_known_frames() {
    let model = turbo();
    for (seconds, frames) in
        [(1.0, 25), (1.5, 37), (1.96, 49), (2.04, 51), (3.7, 92), (5.12, 128), (0.04, 1)]
    {
        assert_eq!(plan(&lasting(seconds), &model).length.frames, frames, "{seconds} s");
    }
}

/// Replaces the decoder by one with a single channel, so that a minute of sound is fast.
struct Slim(Configs);

impl Slim {
    fn new() -> Self {
        let mut configs = turbo().configs().clone();
        configs.vae.decoder_channels = 1;
        configs.vae.channel_multiples = vec![1; configs.vae.downsampling_ratios.len()];
        Self(configs)
    }
}

impl Change for Slim {
    fn configs<'a>(&'a self, _own: &'a Configs) -> &'a Configs {
        &self.0
    }

    fn vae_decoder(&self, _own: oobleck::Decoder<Cpu>) -> oobleck::Decoder<Cpu> {
        // The only draw of these tests from Burn's generator: another decoder may be silent.
        Cpu::seed(&DEVICE, 0);
        oobleck::Decoder::init(&self.0.vae, &DEVICE).to_device(&DEVICE)
    }
}

/// Lengths from 1 to 60 s in steps of 1.97 s: whole and fractional frames, one and several tiles.
#[test]
fn every_length_up_to_a_minute_is_rendered_to_the_sample() {
    let slim = Altered::new(Slim::new());
    let networks = Networks::<Cpu>::new(&slim, place(), Residency::Kept);
    for centiseconds in (100u64..=6000).step_by(197) {
        let seconds = centiseconds as f64 / 100.0;
        let one_step = lasting(seconds).with(|r| r.sampling.timesteps = Some(vec![1.0]));
        let song =
            &generate(&plan(&one_step, &slim.model), &networks, &Unobserved).expect("a song")[0];
        let samples = (centiseconds * 25 / 100) as usize * 1920;
        assert!(song.audio.channels.iter().all(|c| c.len() == samples), "{seconds} s");
    }
}
