//! Tiled decoding gives the same sound as decoding in one pass.

use std::cell::RefCell;

use acestep_engine::{
    AudioChunk, Event, Observe, Residency, Unobserved,
    audio::loudness::prevent_clipping,
    host::{audio_from_sound, to_host},
    tiling::Tiling,
};
use acestep_model::{Checkpoint, oobleck::Decoder};
use acestep_music::{
    Networks,
    flow::noise::NoiseSource,
    pipeline::{decode_songs, denoise, prepare},
    vae::decode,
};
use acestep_tests::{Cpu, DEVICE, largest_difference, place, plan, request, turbo};
use burn::tensor::{Tensor, TensorData};

const CHANNELS: usize = 16;
const HOP: usize = 1920;

/// Bound of rounding differences. The peak is about 6, its rounding 1e-5 (see the goldens' README).
const FLOAT_NOISE: f32 = 2e-5;

fn latents(frames: usize) -> Tensor<Cpu, 3> {
    let values = NoiseSource::default().initial_noise(11, frames, CHANNELS);
    Tensor::from_data(TensorData::new(values, [1, frames, CHANNELS]), &DEVICE)
}

fn decoder() -> Decoder<Cpu> {
    turbo().vae_decoder(&place()).expect("the built-in VAE")
}

fn tiled(decoder: &Decoder<Cpu>, frames: usize, chunk: usize, overlap: usize) -> Vec<f32> {
    let tiling = Tiling { chunk, overlap };
    let folder = turbo();
    let config = &folder.configs().vae;
    to_host(decode(decoder, latents(frames), config, tiling, &Unobserved).expect("a tiling"))
}

#[test]
fn any_overlap_from_sixteen_frames_gives_the_whole_decode() {
    let decoder = decoder();
    // The first has a tile for every frame.
    let tilings = [(33, 16), (40, 16), (48, 17), (64, 16), (64, 24), (75, 31)];
    for (frames, tilings) in [(49, &tilings[..]), (101, &tilings[1..])] {
        let whole = tiled(&decoder, frames, frames, 0);
        assert_eq!(whole.len(), 2 * frames * HOP);
        for &(chunk, overlap) in tilings {
            let change =
                largest_difference(whole.iter().zip(&tiled(&decoder, frames, chunk, overlap)));
            assert!(change < FLOAT_NOISE, "{frames} frames, {chunk}, {overlap}: {change}");
        }
    }
}

/// A sample depends on nine frames on either side: an overlap of nine is enough, eight is not.
#[test]
fn an_overlap_below_the_reach_of_the_filters_is_heard() {
    let decoder = decoder();
    let whole = tiled(&decoder, 45, 45, 0);
    let change = |overlap| {
        largest_difference(whole.iter().zip(&tiled(&decoder, 45, 2 * overlap + 9, overlap)))
    };
    assert!(change(9) < FLOAT_NOISE, "{}", change(9));
    assert!(change(8) > 10.0 * FLOAT_NOISE, "{}", change(8));
}

#[test]
fn one_frame_and_a_chunk_of_one_frame_decode() {
    let decoder = decoder();
    assert_eq!(tiled(&decoder, 1, 512, 64).len(), 2 * HOP);
    assert_eq!(tiled(&decoder, 5, 1, 64).len(), 2 * 5 * HOP);
}

/// A listener, with the parts so far and the number of tiles that were reported after each.
#[derive(Default)]
struct Listener {
    heard: RefCell<Vec<Vec<f32>>>,
    ends: RefCell<Vec<(usize, usize)>>,
}

impl Observe for Listener {
    fn event(&self, event: Event) {
        if let Event::Advanced { done, .. } = event {
            let samples = self.heard.borrow().first().map_or(0, Vec::len);
            self.ends.borrow_mut().push((done, samples));
        }
    }

    fn listens(&self) -> bool {
        true
    }

    fn sound(&self, chunk: AudioChunk<'_>) {
        let mut heard = self.heard.borrow_mut();
        heard.resize(chunk.channels.len(), Vec::new());
        for (all, new) in heard.iter_mut().zip(chunk.channels) {
            assert_eq!(all.len(), chunk.start);
            all.extend(new);
        }
    }
}

/// 101 frames in tiles of 40 with 16 on each side: thirteen cores of 8 frames, the last of 5.
#[test]
fn a_listener_hears_each_tile_before_the_next_one_and_changes_no_sample() {
    let decoder = decoder();
    let (frames, tiling) = (101, Tiling { chunk: 40, overlap: 16 });
    let two = Tensor::cat(vec![latents(frames), latents(frames).neg()], 0);
    let decoded = |observe: &dyn Observe| {
        to_host(
            decode(&decoder, two.clone(), &turbo().configs().vae, tiling, observe)
                .expect("a tiling"),
        )
    };
    let listener = Listener::default();
    let all = decoded(&listener);
    assert!(all == decoded(&Unobserved));
    let (heard, first) = (listener.heard.take(), &all[..2 * frames * HOP]);
    assert!(heard.concat() == first, "the first of two songs");
    let ends: Vec<_> = (0..=13).map(|done| (done, (done * 8).min(frames) * HOP)).collect();
    assert_eq!(listener.ends.take(), ends);
}

/// One second: 25 of 128 frames are heard, and nine more are decoded.
#[test]
fn padding_that_is_not_decoded_changes_no_sample() {
    let model = turbo();
    let asked = request().with(|r| {
        r.words.duration = Some(1.0);
        r.output.enable_normalization = Some(false);
    });
    let plan = plan(&asked, &model);
    let networks = Networks::<Cpu>::new(&model, place(), Residency::Kept);
    let prepared = prepare(&plan, &networks, &Unobserved).expect("prepared");
    let latents = denoise(&plan, &networks, prepared, &Unobserved).expect("latents");
    assert_eq!(latents.dims()[1], 128);
    let network = networks.vae_decoder().expect("the built-in VAE");
    let sound =
        decode(&network, latents.clone(), &model.configs().vae, Tiling::default(), &Unobserved);
    let mut whole = audio_from_sound(sound.expect("a tiling"), 48_000).remove(0);
    whole.crop(25 * HOP);
    prevent_clipping(&mut whole);

    let listener = Listener::default();
    let song = decode_songs(&plan, &networks, latents, &listener).expect("a song").remove(0);
    assert!(song.expect("it can be heard").audio == whole);
    assert_eq!(listener.heard.take()[0].len(), (25 + 9) * HOP);
}
