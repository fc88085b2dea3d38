//! A seed determines the song.

use acestep_music::Request;
use acestep_tests::{difference, plan, request, songs, turbo};

#[test]
fn the_same_seed_gives_the_same_samples_bit_for_bit() {
    let model = turbo();
    for infer_method in ["ode", "sde"] {
        let request = request().with(|r| r.sampler.infer_method = Some(infer_method.into()));
        let first = songs(&plan(&request, &model), &model).expect("a song");
        let second = songs(&plan(&request, &model), &turbo()).expect("a song");
        assert_eq!(first, second, "{infer_method}");
        assert_eq!(first[0].seed, 7);
    }
}

#[test]
fn another_seed_solver_or_generator_gives_another_song() {
    let model = turbo();
    let of = |request: Request| {
        songs(&plan(&request, &model), &model).expect("a song").pop().expect("one")
    };
    let song = of(request());
    let others = [
        request().with(|r| r.noise.seed = Some(vec![8])),
        request().with(|r| r.sampler.infer_method = Some("sde".into())),
        request().with(|r| r.noise.rng = Some("mt19937".into())),
    ];
    for other in others {
        let change = difference(&song, &of(other.clone()));
        assert!(change > 0.05, "{other:?} changes the song by {change}");
    }
}

#[test]
fn a_song_without_a_seed_can_be_made_again_from_the_seed_it_says() {
    let model = turbo();
    let drawn = songs(&plan(&request().with(|r| r.noise.seed = None), &model), &model);
    let drawn = drawn.expect("a song").pop().expect("one");
    let again = request().with(|r| r.noise.seed = Some(vec![drawn.seed]));
    assert_eq!(songs(&plan(&again, &model), &model).expect("a song"), [drawn]);
}
