//! Networks in bf16 and f16 give the results of f32, up to rounding.
//!
//! A stage that overflows is run again in f32.

use std::cell::RefCell;

use acestep_engine::{
    Device, Error, Event, Observe, Residency,
    device::{DeviceTarget, memory::MemoryInfo},
    host::to_host,
    retry,
};
use acestep_import::{LanguageModelDir, open_tiny_language_model};
use acestep_model::{
    Checkpoint, LanguageCheckpoint, Place,
    acestep::{ConditionInputs, Padded},
};
use acestep_music::{
    Network, Networks, Request, Song, flow::noise::NoiseSource, generate, lm::compose::compose,
};
use acestep_tests::{Altered, Cpu, DEVICE, Scaled, covering, place, plan, turbo};
use burn::tensor::{DType, Int, Tensor, TensorData};

use crate::language::{AlteredLanguage, with_greedy_plan};

fn narrow(dtype: DType) -> Place<Cpu> {
    Place { dtype, ..place() }
}

/// Returns reproducible values of any shape.
fn values(seed: u64, shape: [usize; 3]) -> Tensor<Cpu, 3> {
    let values = NoiseSource::default().initial_noise(seed, shape[0] * shape[1], shape[2]);
    Tensor::from_data(TensorData::new(values, shape), &DEVICE)
}

fn ids(length: usize) -> Tensor<Cpu, 2, Int> {
    let ids: Vec<i32> = (0..length as i32).map(|i| i * 7 % 400).collect();
    Tensor::from_data(TensorData::new(ids, [1, length]), &DEVICE)
}

/// Returns the RMS of the difference, relative to the RMS of `expected`.
fn relative(ours: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(ours.len(), expected.len());
    let square = |x: f32| f64::from(x).powi(2);
    let error: f64 = ours.iter().zip(expected).map(|(a, b)| square(a - b)).sum();
    (error / expected.iter().map(|&x| square(x)).sum::<f64>()).sqrt()
}

/// Asserts that results in bf16 and f16 are within `bounds`, `[bf16, f16]`, of the f32 result.
///
/// They must not be equal either: then they would have been computed in f32.
fn assert_near(what: &str, bounds: [f64; 2], run: impl Fn(&Place<Cpu>) -> Tensor<Cpu, 3>) {
    let wide = run(&place());
    assert_eq!(wide.dtype(), DType::F32, "{what}");
    let wide = to_host(wide);
    for (dtype, bound) in [DType::BF16, DType::F16].into_iter().zip(bounds) {
        let ours = run(&narrow(dtype));
        assert_eq!(ours.dtype(), DType::F32, "{what} in {dtype:?}");
        let error = relative(&to_host(ours), &wide);
        assert!(error > 1e-5 && error < bound, "{what} in {dtype:?}: {error:.2e}, bound {bound}");
    }
}

#[test]
fn the_text_encoder() {
    // Weights are kept in the requested dtype, independent of the dtype of the computation.
    for dtype in [DType::BF16, DType::F16] {
        let encoder = turbo().text_encoder(&narrow(dtype)).expect("built in");
        assert_eq!(encoder.dtype(), dtype);
    }
    assert_near("hidden states", [0.02, 0.003], |place| {
        turbo().text_encoder(place).expect("built in").forward(ids(21))
    });
}

#[test]
fn the_conditioner() {
    let inputs = || ConditionInputs {
        text: Padded::whole(values(1, [1, 9, 48])),
        lyrics: Padded::whole(values(2, [1, 23, 48])),
        timbre: values(3, [1, 30, 16]),
        timbre_item: vec![0],
    };
    assert_near("condition", [0.02, 0.003], |place| {
        turbo().conditioner(place).expect("built in").forward(inputs()).hidden
    });
}

/// The time 0.5 becomes 500 after scaling, which is exact in every dtype; most others are rounded.
#[test]
fn the_transformer() {
    assert_near("velocity", [0.03, 0.004], velocity);
}

fn velocity(place: &Place<Cpu>) -> Tensor<Cpu, 3> {
    let dit = turbo().dit(place).expect("built in");
    let condition = dit.attend_to(values(3, [1, 11, 64]));
    let (xt, context) = (values(1, [1, 31, 16]), values(2, [1, 31, 32]));
    dit.forward(xt, context, [&[0.5], &[0.5]], &condition)
}

#[test]
fn the_audio_codec() {
    let codes = [vec![17, 4, 300, 511]];
    assert_near("latents of codes", [0.02, 0.003], |place| {
        turbo().audio_codec(place).expect("built in").decode(&codes, &DEVICE)
    });
    assert_near("pooled latents", [0.02, 0.003], |place| {
        let codec = turbo().audio_codec(place).expect("built in");
        codec.tokenizer().pool(values(1, [1, 13, 16]), values(2, [1, 5, 16]))
    });
}

#[test]
fn the_vae() {
    assert_near("sound", [0.06, 0.008], |place| {
        let latents = values(1, [1, 7, 16]).swap_dims(1, 2);
        turbo().vae_decoder(place).expect("built in").forward(latents)
    });
    assert_near("latents", [0.06, 0.008], |place| {
        let sound = values(1, [1, 2 * 1920 * 3, 1]).reshape([1, 2, 1920 * 3]) * 0.3;
        turbo().vae_encoder(place).expect("built in").forward(sound).mean
    });
}

#[test]
fn the_language_model_and_its_cache() {
    let language = open_tiny_language_model().expect("built in");
    assert_near("scores", [0.03, 0.004], |place| scores(&language, place));
}

/// Returns the scores after a prompt and a step of two rows with one cache.
fn scores(language: &LanguageModelDir, place: &Place<Cpu>) -> Tensor<Cpu, 3> {
    let model = language.language_model(place).expect("built in");
    let mut cache = language.config().cache(2, 20, place);
    model.read(&[1, 2, 3, 4, 5, 6, 7], 0, &mut cache, &DEVICE);
    cache.copy_row(0, 1);
    let hidden = model.step(&[8, 9], 0..2, &mut cache, &DEVICE);
    model.scores(hidden, &[0..400, 500..600]).unsqueeze()
}

/// In int8 mode, only the weight matrices of these two networks are int8; activations are f32.
#[test]
fn the_networks_that_are_kept_in_int8() {
    let error = |run: &dyn Fn(&Place<Cpu>) -> Tensor<Cpu, 3>| {
        let wide = to_host(run(&place()));
        [DType::I8, DType::BF16].map(|dtype| relative(&to_host(run(&narrow(dtype))), &wide))
    };
    let [velocity, in_bf16] = error(&velocity);
    assert!(velocity > in_bf16 && velocity < 0.03, "{velocity:.2e}, bf16 {in_bf16:.2e}");
    let language = open_tiny_language_model().expect("built in");
    let [scores, in_bf16] = error(&|place| {
        assert_eq!(language.language_model(place).expect("built in").dtype(), place.dtype);
        scores(&language, place)
    });
    assert!(scores > in_bf16 && scores < 0.03, "{scores:.2e}, bf16 {in_bf16:.2e}");
}

/// Records overflows.
#[derive(Default)]
struct Watch(RefCell<Vec<String>>);

impl Observe for Watch {
    fn event(&self, event: Event) {
        if let Event::Overflowed { who, dtype } = event {
            self.0.borrow_mut().push(retry::notice(who, dtype).0);
        }
    }
}

#[test]
fn a_song_is_made_in_every_type() {
    let model = turbo();
    let plan = plan(&covering(), &model);
    let song = |dtype| {
        let networks = Networks::<Cpu>::new(&model, narrow(dtype), Residency::WhileUsed);
        let watch = Watch::default();
        let song = generate(&plan, &networks, &watch).expect("a song").remove(0);
        assert_eq!(watch.0.take(), Vec::<String>::new(), "{dtype:?}");
        song.audio.channels.concat()
    };
    let wide = song(DType::F32);
    // In bf16 most timesteps are rounded, as in the reference.
    for (dtype, least, most) in
        [(DType::F16, 1e-5, 0.05), (DType::BF16, 0.05, 0.3), (DType::I8, 0.05, 0.3)]
    {
        let error = relative(&song(dtype), &wide);
        assert!(error > least && error < most, "{dtype:?}: {error:.2e}");
    }
}

/// Returns a request for a second of a song from codes, in one step.
fn short() -> Request {
    covering().with(|r| {
        r.source.audio_codes = Some(vec![vec![17; 5]]);
        r.sampling.timesteps = Some(vec![1.0]);
    })
}

/// Returns the song of a model with one scaled network in `dtype`, and the overflow notices.
///
/// All other networks are in f32.
fn louder(network: Network, factor: f32, dtype: DType) -> (Result<Vec<Song>, Error>, Vec<String>) {
    let model = Altered::new(Scaled { network, factor });
    let networks = Networks::<Cpu>::new(&model, place(), Residency::Kept).with(network, dtype);
    let plan = plan(&short(), &model.model);
    let watch = Watch::default();
    let songs = generate(&plan, &networks, &watch);
    let told = watch.0.take();
    if songs.is_ok() && dtype != DType::F32 {
        // The network stays in f32 after the retry, so the next song has no notice.
        let next = generate(&plan, &networks, &watch).expect("a song");
        assert_eq!(
            (Some(next), watch.0.take()),
            (songs.as_ref().ok().cloned(), vec![]),
            "{network}"
        );
    }
    (songs, told)
}

/// Weights times 100 make the gated units exceed 65504.
///
/// For the consecutive convolutions of the VAE, a factor of 4 is enough.
#[test]
fn a_stage_that_overflows_in_f16_is_done_again_in_f32_and_says_so() {
    for (network, factor, who) in [
        (Network::TextEncoder, 100.0, "the text encoder"),
        (Network::Conditioner, 100.0, "the conditioner"),
        (Network::AudioCodec, 100.0, "the audio codec"),
        (Network::Dit, 100.0, "the diffusion transformer"),
        (Network::VaeDecoder, 4.0, "the VAE decoder"),
    ] {
        let (songs, told) = louder(network, factor, DType::F16);
        let notice = format!(
            "{who} overflowed in f16 and was run again in f32: pass `dtype: f32` to start so"
        );
        assert_eq!(told, [notice], "{network}");
        let (expected, told) = louder(network, factor, DType::F32);
        assert_eq!(told, Vec::<String>::new(), "{network}");
        assert_eq!(songs.expect("a song"), expected.expect("a song"), "{network}");
    }
}

/// The tiny transformer has 278 thousand parameters.
#[test]
fn a_stage_is_not_done_again_where_its_network_has_no_room_in_f32() {
    let model = Altered::new(Scaled { network: Network::Dit, factor: 100.0 });
    let plan = plan(&short(), &model.model);
    let song = |free| {
        let memory = MemoryInfo { free: Some(free), ..MemoryInfo::default() };
        let networks = Networks::<Cpu>::new(&model, place(), Residency::WhileUsed)
            .with(Network::Dit, DType::F16)
            .at(DeviceTarget { device: Device::Cuda(0), memory });
        let watch = Watch::default();
        let made = generate(&plan, &networks, &watch).map(drop);
        // The next song begins in the type that fits, and has no room for f32 either.
        let again = generate(&plan, &networks, &watch).map(drop);
        assert_eq!(again.is_ok(), made.is_ok());
        (made, watch.0.take().len())
    };
    assert!(matches!(song(1_000_000_000), (Ok(()), 1)));
    let (error, told) = song(1_000_000);
    let error = error.expect_err("no room");
    assert!(matches!(error, Error::NoRoomForF32 { dtype: DType::F16, .. }), "{error}");
    assert_eq!(told, 0);
}

#[test]
fn what_f32_does_not_mend_is_an_error_that_knows_the_type() {
    let (songs, told) = louder(Network::Dit, f32::NAN, DType::BF16);
    let error = songs.expect_err("no numbers");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(error.to_string().starts_with("the diffusion transformer gave"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("`dtype: f32`")), "{:?}", error.hint());
}

#[test]
fn a_language_model_that_overflows_is_asked_again_in_f32() {
    let composed = |dtype| {
        let language = AlteredLanguage::scaled(100.0);
        let watch = Watch::default();
        let composed = with_greedy_plan(|asked| compose(asked, &language, &narrow(dtype), &watch));
        (composed.map(|composed| composed.text).map_err(|error| error.to_string()), watch.0.take())
    };
    let (wide, told) = composed(DType::F32);
    assert_eq!(told, Vec::<String>::new());
    let (narrow, told) = composed(DType::F16);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("the language model overflowed in f16"), "{told:?}");
    assert_eq!(narrow, wide);
}
