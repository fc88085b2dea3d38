//! Audio encoding gives the latents and codes of the reference, in tiles or as a whole.

use std::{cell::RefCell, f64::consts::TAU};

use acestep_engine::{
    Error, Event, Observe, Residency, Stage, Unobserved, audio::Audio, host::to_host,
    tiling::Tiling,
};
use acestep_model::{Checkpoint, oobleck::Encoder};
use acestep_music::{
    Networks, SongError,
    flow::noise::NoiseSource,
    stage,
    tokenize::{codes_of, codes_of_latents, latents_of},
    vae::encode,
};
use acestep_tests::{Cpu, DEVICE, Golden, largest_difference, place, turbo};
use burn::tensor::{Tensor, TensorData};

const HOP: usize = 1920;

/// Ten times the rounding of the reference (see the goldens' README: 9.1e-6 for a peak of 5.9).
const FLOAT_NOISE: f32 = 9.1e-5;

fn encoder() -> Encoder<Cpu> {
    turbo().vae_encoder(&place()).expect("the built-in VAE")
}

fn noise(samples: usize) -> Tensor<Cpu, 3> {
    let values = NoiseSource::default().initial_noise(5, samples, 2);
    Tensor::from_data(TensorData::new(values, [1, 2, samples]), &DEVICE) * 0.2
}

fn tiled(encoder: &Encoder<Cpu>, sound: Tensor<Cpu, 3>, chunk: usize, overlap: usize) -> Vec<f32> {
    let tiling = Tiling { chunk, overlap };
    let folder = turbo();
    let config = &folder.configs().vae;
    to_host(encode(encoder, sound, None, config, tiling, &Unobserved).expect("a tiling"))
}

#[test]
fn any_overlap_from_seven_frames_gives_the_whole_encode() {
    let encoder = encoder();
    // The last 1000 samples affect the last frames, but have no frame of their own.
    for samples in [24 * HOP, 25 * HOP + 1000] {
        let whole = tiled(&encoder, noise(samples), 100, 0);
        assert_eq!(whole.len(), 16 * (samples / HOP));
        for (chunk, overlap) in [(20, 7), (22, 9), (24, 8)] {
            let tiles = tiled(&encoder, noise(samples), chunk, overlap);
            let change = largest_difference(whole.iter().zip(&tiles));
            assert!(change < FLOAT_NOISE, "{samples} samples, {chunk}, {overlap}: {change}");
        }
    }
}

/// Golden: `vae_tiled`. Its overlap of two frames is too short to give the untiled result.
///
/// So tiles must be cut at the same frames as upstream.
#[test]
fn tiles_are_upstreams_tiles() {
    let golden = Golden::open("a/vae_tiled.safetensors");
    let encoder = encoder();
    for case in ["enc0", "enc1"] {
        let (shape, wave) = golden.f32(&format!("{case}.wave"));
        let sound: Tensor<Cpu, 3> =
            Tensor::from_data(TensorData::new(wave, [shape[0], shape[1], shape[2]]), &DEVICE);
        let latents = tiled(&encoder, sound.clone(), 8, 2);
        let (shape, mean) = golden.f32(&format!("{case}.mean")); // [1, C, T]
        let expected = transposed(&mean, shape[1], shape[2]);
        assert_eq!(latents.len(), expected.len());
        let change = largest_difference(expected.iter().zip(&latents));
        assert!(change < FLOAT_NOISE, "{case}: {change}");
        // The comparison would detect another cut.
        let whole = tiled(&encoder, sound, 100, 0);
        assert!(largest_difference(expected.iter().zip(&whole)) > 10.0 * FLOAT_NOISE);
    }
}

fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|c| (0..rows).map(move |r| values[r * columns + c])).collect()
}

/// Returns the source of the goldens' covers: a sine plus eight constant steps, 5.3 s.
fn source() -> Audio {
    const SAMPLES: usize = 254_400;
    let (shape, steps) = Golden::open("a/e2e.safetensors").f32("srcwav_steps");
    assert_eq!(shape, [2, 8]);
    let channel = |steps: &[f32]| {
        let value = |i: usize| {
            // In f32 like the reference: rounding of the phase is 5e-4 at 6000 radians.
            let phase = (TAU * 180.0) as f32 * (i as f32 / 48_000.0);
            0.4 * f64::from(phase).sin() as f32 + steps[i / (SAMPLES / 8 + 1)]
        };
        (0..SAMPLES).map(value).collect()
    };
    Audio { channels: steps.chunks(8).map(channel).collect(), sample_rate: 48_000 }
}

/// Golden: `e2e`, case `cover`.
///
/// Its source latents are the encoded sound, and its context is decoded from the sound's codes.
#[test]
fn a_sound_has_the_latents_and_codes_of_the_reference() {
    let golden = Golden::open("a/e2e.safetensors");
    let model = turbo();
    let networks = Networks::<Cpu>::new(&model, place(), Residency::WhileUsed);
    let latents = latents_of(&source(), &networks, &Unobserved).expect("latents");
    assert_eq!(latents.dims(), [1, 132, 16]);
    let (shape, expected) = golden.f32("cover.src_latents");
    assert_eq!(shape, [1, 64, 16]);
    let change = largest_difference(expected.iter().zip(&to_host(latents)));
    assert!(change < FLOAT_NOISE, "{change}");

    let codes = codes_of(&source(), &networks, &Unobserved).expect("codes");
    assert_eq!(codes.len(), 27, "132 frames and three of silence");
    let hints = networks.audio_codec().expect("a codec").decode(&[codes], &DEVICE);
    let (shape, context) = golden.f32("cover.context_latents");
    assert_eq!(shape, [1, 48, 32]);
    let expected: Vec<f32> = context.chunks(32).flat_map(|row| row[..16].to_vec()).collect();
    let change = largest_difference(expected.iter().zip(&to_host(hints)));
    assert!(change < 5e-5, "another code would be far off: {change}");
}

/// Golden: `audio_tokenizer`.
#[test]
fn latents_have_the_codes_of_the_reference() {
    let golden = Golden::open("a/audio_tokenizer.safetensors");
    let model = turbo();
    let networks = Networks::<Cpu>::new(&model, place(), Residency::Kept);
    // 40 frames, and 33, which are padded with silence.
    for case in ["tok0", "tok2"] {
        let (shape, values) = golden.f32(&format!("{case}.latents"));
        let latents = Tensor::from_data(TensorData::new(values, [1, shape[1], shape[2]]), &DEVICE);
        let codes = codes_of_latents(latents, &networks, &Unobserved).expect("codes");
        let expected = golden.i64(&format!("{case}.indices"));
        assert_eq!(codes.iter().map(|&c| i64::from(c)).collect::<Vec<_>>(), expected, "{case}");
    }
}

/// Uses more codes than one pass computes, and a last code with fewer frames.
#[test]
fn codes_do_not_depend_on_how_many_are_made_at_once() {
    let model = turbo();
    let networks = Networks::<Cpu>::new(&model, place(), Residency::Kept);
    let frames = 2 * 2500 + 3;
    let values = NoiseSource::default().initial_noise(3, frames, 16);
    let latents: Tensor<Cpu, 3> =
        Tensor::from_data(TensorData::new(values, [1, frames, 16]), &DEVICE);
    let codes = codes_of_latents(latents.clone(), &networks, &Unobserved).expect("codes");
    let codec = networks.audio_codec().expect("a codec");
    let silence = networks.silence_latent().expect("silence");
    let (_, whole) = codec.tokenizer().forward(latents, silence);
    let whole: Vec<u32> = to_host(whole.float()).into_iter().map(|code| code as u32).collect();
    assert_eq!(codes, whole);
    assert_eq!(codes.len(), 1001);
    assert!(codes.iter().all(|&code| (code as usize) < codec.fsq().codes() as usize));
}

#[test]
fn a_mono_song_at_another_rate_has_five_codes_a_second() {
    let model = turbo();
    let networks = Networks::<Cpu>::new(&model, place(), Residency::WhileUsed);
    let sine = (0..44_100).map(|i| (TAU * 330.0 * f64::from(i) / 22_050.0).sin() as f32 * 0.3);
    let audio = Audio { channels: vec![sine.collect()], sample_rate: 22_050 };
    assert_eq!(codes_of(&audio, &networks, &Unobserved).expect("codes").len(), 10);
}

#[test]
fn less_than_a_frame_is_too_short_and_a_frame_is_not() {
    let model = turbo();
    let networks = Networks::<Cpu>::new(&model, place(), Residency::WhileUsed);
    let audio = |samples| Audio { channels: vec![vec![0.1; samples]; 2], sample_rate: 48_000 };
    for samples in [0, 1919] {
        let error = codes_of(&audio(samples), &networks, &Unobserved).expect_err("too short");
        assert!(matches!(error.family(), Some(SongError::TooShort { .. })), "{error}");
    }
    let error = codes_of(&audio(960), &networks, &Unobserved).expect_err("too short");
    let text = "0.020 s of sound are too short to listen to: one frame is 0.040 s";
    assert_eq!(error.to_string(), text);
    assert_eq!(codes_of(&audio(1920), &networks, &Unobserved).expect("codes").len(), 1);
}

#[test]
fn a_value_that_is_nan_is_an_error_and_no_code() {
    let model = turbo();
    let networks = Networks::<Cpu>::new(&model, place(), Residency::WhileUsed);
    let mut audio = Audio { channels: vec![vec![0.1; 9600]; 2], sample_rate: 48_000 };
    audio.channels[0][4000] = f32::NAN;
    let error = codes_of(&audio, &networks, &Unobserved).expect_err("NaN");
    assert!(error.to_string().starts_with("the VAE encoder gave"), "{error}");
}

/// A stage and its progress (done, total); `None` when it is finished.
type Entry = (Stage, Option<(usize, usize)>);

/// Records events, and cancels at a given stage.
struct Diary {
    events: RefCell<Vec<Entry>>,
    stop_at: Option<Stage>,
}

impl Observe for Diary {
    fn event(&self, event: Event) {
        let entry = match event {
            Event::Loading(stage) => (stage, Some((0, 0))),
            Event::Advanced { stage, done, total } => (stage, Some((done, total))),
            Event::Finished { stage, .. } => (stage, None),
            Event::Overflowed { who, .. } => panic!("{who} does not overflow in f32"),
            Event::Again { stage, .. } => panic!("{stage:?} fits"),
            Event::Noticed(notice) => panic!("{notice}"),
        };
        self.events.borrow_mut().push(entry);
    }

    fn cancelled(&self) -> bool {
        self.events.borrow().last().is_some_and(|&(stage, _)| Some(stage) == self.stop_at)
    }
}

#[test]
fn both_stages_are_told_and_either_can_be_stopped() {
    let model = turbo();
    let networks = Networks::<Cpu>::new(&model, place(), Residency::Kept);
    let audio = Audio { channels: vec![vec![0.1; 4800]; 2], sample_rate: 48_000 };
    let diary = |stop_at| Diary { events: RefCell::default(), stop_at };
    let watched = diary(None);
    codes_of(&audio, &networks, &watched).expect("codes");
    let told = |stage| [Some((0, 0)), Some((0, 1)), Some((1, 1)), None].map(|what| (stage, what));
    let expected = [told(stage::VAE_ENCODER), told(stage::CODES)].concat();
    assert_eq!(*watched.events.borrow(), expected);
    for stage in [stage::VAE_ENCODER, stage::CODES] {
        let result = codes_of(&audio, &networks, &diary(Some(stage)));
        assert!(matches!(result, Err(Error::Cancelled)), "{stage:?}");
    }
}
