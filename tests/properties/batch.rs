//! A song does not depend on the other songs of its batch.

use acestep_import::AceStep;
use acestep_music::Request;
use acestep_tests::{base, difference, plan, request, songs, turbo};

/// Bound of rounding differences, which depend on the size of a matrix product.
///
/// Another song differs by 0.1 or more.
const FLOAT_NOISE: f32 = 3e-5;

fn a_batch_of_three_is_three_songs(request: &Request, model: &AceStep) {
    let batch = request.clone().with(|r| {
        r.noise.seed = Some(vec![7]);
        r.noise.batch_size = Some(3);
    });
    let batch = songs(&plan(&batch, model), model).expect("three songs");
    assert_eq!(batch.iter().map(|song| song.seed).collect::<Vec<_>>(), [7, 8, 9]);
    for song in &batch {
        let alone = request.clone().with(|r| r.noise.seed = Some(vec![song.seed]));
        let alone = songs(&plan(&alone, model), model).expect("a song");
        let change = difference(&alone[0], song);
        assert!(change < FLOAT_NOISE, "seed {}: {change}", song.seed);
    }
    assert!(difference(&batch[0], &batch[1]) > 0.05);
}

#[test]
fn a_batch_of_turbo_is_what_its_songs_are_alone() {
    a_batch_of_three_is_three_songs(&request(), &turbo());
}

#[test]
fn a_stochastic_batch_is_what_its_songs_are_alone() {
    let request = request().with(|r| r.sampler.infer_method = Some("sde".into()));
    a_batch_of_three_is_three_songs(&request, &turbo());
}

/// With guidance the transformer's batch is twice as large, and guidance keeps the previous step.
#[test]
fn a_guided_batch_is_what_its_songs_are_alone() {
    let request = request().with(|r| r.sampling.inference_steps = Some(3));
    a_batch_of_three_is_three_songs(&request, &base());
}

#[test]
fn a_list_of_seeds_gives_each_song_its_own() {
    let model = turbo();
    let listed = request().with(|r| r.noise.seed = Some(vec![9, 7]));
    let listed = songs(&plan(&listed, &model), &model).expect("two songs");
    let alone = songs(&plan(&request(), &model), &model).expect("a song");
    assert!(difference(&alone[0], &listed[1]) < FLOAT_NOISE);
    assert_eq!(listed[0].seed, 9);
}
