//! Audio codes determine the outline of a song.

use acestep_music::Request;
use acestep_tests::{difference, plan, request, songs, turbo};

/// Returns codes from the whole range of the codebook.
fn codes(count: u32) -> Vec<u32> {
    (0..count).map(|i| i * 7919 % 64_000).collect()
}

fn covering(count: u32, strength: f64) -> Request {
    let audio_codes = Some(vec![codes(count)]);
    request().with(|r| {
        r.source.audio_codes = audio_codes;
        r.source.audio_cover_strength = Some(strength);
        r.words.duration = None;
    })
}

#[test]
fn codes_win_over_the_duration() {
    let model = turbo();
    for (count, samples) in [(1, 9600), (11, 105_600), (27, 259_200)] {
        let request = covering(count, 1.0).with(|r| r.words.duration = Some(40.0));
        let plan = plan(&request, &model);
        assert_eq!(plan.samples(), samples, "{count} codes");
        let song = &songs(&plan, &model).expect("a song")[0];
        assert_eq!(song.audio.samples(), samples, "{count} codes");
    }
}

#[test]
fn other_codes_give_another_song() {
    let model = turbo();
    let with = |audio_codes| {
        let request = covering(10, 1.0).with(|r| r.source.audio_codes = Some(vec![audio_codes]));
        songs(&plan(&request, &model), &model).expect("a song").pop().expect("one")
    };
    let backwards = codes(10).into_iter().rev().collect();
    assert!(difference(&with(codes(10)), &with(backwards)) > 0.01);
}

/// Rounding depends on the size of a matrix product. Songs of other codes differ by 0.01 or more.
#[test]
fn songs_of_a_batch_with_codes_of_their_own_are_what_they_are_alone() {
    let model = turbo();
    let outlines = [codes(10), codes(10).into_iter().rev().collect()];
    for strength in [1.0, 0.5] {
        let make = |lists: &[Vec<u32>], seed| {
            let audio_codes = Some(lists.to_vec());
            let request = covering(10, strength).with(|r| {
                r.source.audio_codes = audio_codes;
                r.noise.seed = Some(vec![seed]);
            });
            songs(&plan(&request, &model), &model).expect("songs")
        };
        let batch = make(&outlines, 7);
        assert_eq!(batch.iter().map(|song| song.seed).collect::<Vec<_>>(), [7, 8]);
        for (codes, song) in outlines.iter().zip(&batch) {
            let alone = make(std::slice::from_ref(codes), song.seed);
            let change = difference(&alone[0], song);
            assert!(change < 3e-5, "seed {}: {change}", song.seed);
        }
    }
}

/// At strength 0.5, four of eight steps follow the codes; at strength 0, none.
#[test]
fn the_strength_is_the_share_of_steps_that_follow_the_codes() {
    let model = turbo();
    let steps: Vec<_> =
        [0.0, 0.5, 0.99, 1.0].map(|s| plan(&covering(10, s), &model).cover_steps()).into();
    assert_eq!(steps, [0, 4, 7, 8]);
    let song = |strength| {
        let plan = plan(&covering(10, strength), &model);
        songs(&plan, &model).expect("a song").pop().expect("one")
    };
    let (none, half, all) = (song(0.0), song(0.5), song(1.0));
    for (a, b) in [(&none, &half), (&half, &all), (&none, &all)] {
        assert!(difference(a, b) > 0.01, "{}", difference(a, b));
    }
}
