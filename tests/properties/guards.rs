//! Broken weights lead to an error that names the stage, never to a file.

use std::cell::Cell;

use acestep_engine::{Error, Event, Observe, Residency, Stage, Unobserved, audio::loudness};
use acestep_import::Network;
use acestep_music::{
    Networks, generate,
    pipeline::{decode_songs, denoise, prepare},
    stage,
};
use acestep_tests::{Altered, Change, Cpu, Scaled, covering, place, plan, request, songs, turbo};
use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::Tensor,
};

fn broken(network: Network, factor: f32) -> Altered<Scaled> {
    Altered::new(Scaled { network, factor })
}

#[test]
fn weights_that_are_nan_name_the_stage() {
    for (part, stage) in [
        (Network::TextEncoder, "the text encoder"),
        (Network::Conditioner, "the conditioner"),
        (Network::AudioCodec, "the detokenizer of audio codes"),
        (Network::Dit, "the diffusion transformer"),
        (Network::VaeDecoder, "the VAE"),
    ] {
        let model = broken(part, f32::NAN);
        let error = songs(&plan(&covering(), &model.model), &model).expect_err("not a song");
        let named = matches!(&error, Error::NotFinite { stage: named, .. } if named == stage);
        assert!(named, "{part}: {error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("weights")), "{part}");
    }
}

/// The song needs no codec, so the codec is not loaded.
#[test]
fn a_network_that_is_not_needed_may_be_broken() {
    let model = broken(Network::AudioCodec, f32::NAN);
    assert!(songs(&plan(&request(), &model.model), &model).is_ok());
}

#[test]
fn a_silent_decoder_is_an_error_and_not_a_silent_file() {
    let model = broken(Network::VaeDecoder, 0.0);
    let error = songs(&plan(&request(), &model.model), &model).expect_err("silence");
    assert!(matches!(error, Error::Silent { .. }), "{error}");
    assert_eq!(error.to_string(), "the VAE gave silence: rms 0.0e0, peak 0.0e0");
}

/// Sets the biases of the VAE decoder to 0, so that latents of 0 become silence.
struct Unbiased;

impl ModuleMapper<Cpu> for Unbiased {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<Cpu, D>>) -> Param<Tensor<Cpu, D>> {
        if D == 1 { param.map(|bias| bias * 0.0) } else { param }
    }
}

impl Change for Unbiased {
    fn network<M: Module<Cpu>>(&self, part: Network, network: M) -> M {
        if part == Network::VaeDecoder { network.map(&mut Self) } else { network }
    }
}

#[test]
fn a_song_that_cannot_be_used_does_not_lose_the_others_of_its_batch() {
    let model = Altered::new(Unbiased);
    let three = request().with(|r| r.noise.seed = Some(vec![7, 8, 9]));
    let plan = plan(&three, &model.model);
    let networks = Networks::<Cpu>::new(&model, place(), Residency::Kept);
    let prepared = prepare(&plan, &networks, &Unobserved).expect("prepared");
    let latents = denoise(&plan, &networks, prepared, &Unobserved).expect("latents");
    let [_, frames, channels] = latents.dims();
    let made = |factors: [f32; 3]| {
        let song = |index: usize| latents.clone().narrow(0, index, 1) * factors[index];
        let batch = Tensor::cat((0..3).map(song).collect(), 0);
        decode_songs(&plan, &networks, batch, &Unobserved)
    };
    let told = made([0.0, f32::NAN, 1.0]).expect("a song").into_iter().map(|song| match song {
        Ok(song) => format!("{}: {:.3}", song.seed, loudness::peak(&song.audio)),
        Err(error) => error.to_string(),
    });
    // A song at the default loudness, -1 dB, has a peak of 0.891.
    let expected = [
        "the VAE gave silence: rms 0.0e0, peak 0.0e0".to_owned(),
        format!(
            "the diffusion transformer gave {} values that are not finite, the first at 0",
            frames * channels
        ),
        "9: 0.891".to_owned(),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    // Without any song, the batch is an error.
    let error = made([0.0, f32::NAN, 0.0]).expect_err("no song");
    assert!(matches!(error, Error::Silent { .. }), "{error}");
}

/// Cancels the run as soon as a stage starts.
struct StopAt {
    stage: Stage,
    reached: Cell<bool>,
}

impl Observe for StopAt {
    fn event(&self, event: Event) {
        if matches!(event, Event::Loading(stage) if stage == self.stage) {
            self.reached.set(true);
        }
    }

    fn cancelled(&self) -> bool {
        self.reached.get()
    }
}

#[test]
fn whoever_watches_can_stop_at_every_stage_but_leaves_no_song() {
    let model = turbo();
    let plan = plan(&covering(), &model);
    for stage in [stage::TEXT_ENCODER, stage::CONDITION, stage::CODES, stage::DIFFUSION, stage::VAE]
    {
        let watch = StopAt { stage, reached: Cell::new(false) };
        let result =
            generate(&plan, &Networks::<Cpu>::new(&model, place(), Residency::WhileUsed), &watch);
        assert!(matches!(result, Err(Error::Cancelled)), "{stage:?}");
        assert!(watch.reached.get(), "{stage:?}");
    }
}
