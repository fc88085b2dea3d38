//! Tasks with a source or reference song.

use std::f64::consts::TAU;

use acestep_engine::{
    Residency, Unobserved,
    audio::{Audio, loudness::peak},
    host::to_host,
};
use acestep_import::AceStep;
use acestep_music::{
    Networks, Plan, Request, Song, SongError,
    exchange::Array3,
    pipeline::{denoise, prepare},
    sounds::{Sound, Sounds},
    tokenize::{codes_of, latents_of},
};
use acestep_tests::{Cpu, base, difference, info, largest_difference, place, songs, turbo};

const RATE: u32 = 48_000;

/// Returns a beating chord that gets louder towards the end.
fn song(seconds: f64) -> Audio {
    let samples = (seconds * f64::from(RATE)) as usize;
    let sample = |i: usize, hertz: f64| {
        let t = i as f64 / f64::from(RATE);
        let tone = (TAU * hertz * t).sin() + (TAU * (hertz * 1.5 + 0.7) * t).sin();
        (0.1 + 0.2 * t / seconds) * tone
    };
    let channel = |hertz: f64| (0..samples).map(|i| sample(i, hertz) as f32).collect();
    Audio { channels: vec![channel(220.0), channel(277.0)], sample_rate: RATE }
}

fn given(model: &AceStep, audio: &Audio) -> Sounds {
    let source = Sound::from_audio(audio, &info(model), &Unobserved).expect("a sound");
    Sounds { source: Some(source), references: vec![] }
}

fn asked(task: &str) -> Request {
    Request::default().with(|r| {
        r.source.task_type = Some(task.into());
        r.words.caption = Some("a calm piano melody, rain".into());
        r.words.lyrics = Some("[Verse]\nIt rains on the roof".into());
        r.noise.seed = Some(vec![7]);
    })
}

fn plan_of(request: &Request, model: &AceStep, sounds: &Sounds) -> Plan {
    Plan::with_sounds(request, &info(model), sounds).expect("a valid request").0
}

fn made(request: &Request, model: &AceStep, sounds: &Sounds) -> Song {
    songs(&plan_of(request, model, sounds), model).expect("a song").remove(0)
}

/// Outside the region every sample equals the source bit for bit; inside, almost none does.
#[test]
fn a_repaint_leaves_the_rest_as_it_is() {
    let model = turbo();
    let source = song(6.03);
    let sounds = given(&model, &source);
    for mode in ["balanced", "conservative", "aggressive"] {
        let request = asked("repaint").with(|r| {
            r.repaint.repainting_start = Some(2.013);
            r.repaint.repainting_end = Some(4.2);
            r.repaint.repaint_mode = Some(mode.into());
        });
        let song = made(&request, &model, &sounds).audio;
        // The last samples, too few for a latent frame, are kept too.
        assert_eq!(song.samples(), source.samples());
        let region = 96_624..201_600;
        for (ours, theirs) in song.channels.iter().zip(&source.channels) {
            assert_eq!(ours[..region.start], theirs[..region.start], "{mode}");
            assert_eq!(ours[region.end..], theirs[region.end..], "{mode}");
            let pairs = ours[region.clone()].iter().zip(&theirs[region.clone()]);
            let same = pairs.filter(|(a, b)| a == b).count();
            assert!(same < 100, "{mode}: {same}");
        }
    }
}

#[test]
fn what_is_added_before_and_after_a_song_leaves_it_as_it_is() {
    let model = turbo();
    let source = song(5.5);
    let sounds = given(&model, &source);
    let before = asked("repaint").with(|r| {
        r.repaint.repainting_start = Some(-1.0);
        r.repaint.repainting_end = Some(0.0);
    });
    let longer = made(&before, &model, &sounds).audio;
    assert_eq!(longer.samples(), 48_000 + source.samples());
    assert_eq!(longer.channels[0][48_000..], source.channels[0]);
    assert!(longer.channels[0][..48_000].iter().any(|&x| x.abs() > 1e-3));

    let after = asked("repaint").with(|r| {
        r.repaint.repainting_start = Some(5.5);
        r.repaint.repainting_end = Some(7.0);
    });
    let longer = made(&after, &model, &sounds).audio;
    assert_eq!(longer.channels[1][..source.samples()], source.channels[1]);
    // 7 s are whole frames of 40 ms.
    assert_eq!(longer.samples(), 336_000);
}

/// The region ends with the last whole frame; the last 20 ms are too short for a frame.
#[test]
fn a_repaint_to_the_end_ends_with_the_last_whole_frame() {
    let model = turbo();
    let source = song(5.22);
    let request = asked("repaint").with(|r| r.repaint.repainting_start = Some(3.0));
    let song = made(&request, &model, &given(&model, &source)).audio;
    assert_eq!(song.samples(), 130 * 1920);
    assert_eq!(song.channels[0][..144_000], source.channels[0][..144_000]);
    let last = song.samples() - 1;
    assert_ne!(song.channels[0][last], source.channels[0][last]);
}

/// A source of latents has no samples to keep, but its latents outside the region are kept.
#[test]
fn a_repaint_of_latents_keeps_the_latents_around_it() {
    let model = turbo();
    let networks = Networks::<Cpu>::new(&model, place(), Residency::WhileUsed);
    let latents = latents_of(&song(6.0), &networks, &Unobserved).expect("latents");
    let latents = Array3::new(latents.dims(), to_host(latents));
    let channels = latents.shape[2];
    let source = Sound::latents(latents.clone(), &info(&model)).expect("the model's");
    let sounds = Sounds { source: Some(source), references: vec![] };
    let request = asked("repaint").with(|r| {
        r.repaint.repainting_start = Some(2.0);
        r.repaint.repainting_end = Some(4.0);
        r.repaint.repaint_mode = Some("custom".into());
        r.repaint.repaint_latent_crossfade_frames = Some(5);
    });
    let hard = request.clone().with(|r| r.repaint.repaint_mode = Some("aggressive".into()));
    for (request, kept, changed) in [(request, [45, 105], [47, 102]), (hard, [50, 100], [50, 99])] {
        let plan = plan_of(&request, &model, &sounds);
        let prepared = prepare(&plan, &networks, &Unobserved).expect("a start");
        let made = to_host(denoise(&plan, &networks, prepared, &Unobserved).expect("latents"));
        let frame = |values: &[f32], i: usize| values[i * channels..(i + 1) * channels].to_vec();
        for i in (0..kept[0]).chain(kept[1]..150) {
            assert_eq!(frame(&made, i), frame(&latents.data, i), "frame {i}");
        }
        for i in [changed[0], 50, 75, 99, changed[1]] {
            assert_ne!(frame(&made, i), frame(&latents.data, i), "frame {i}");
        }
    }
}

/// A cover is conditioned on the codes of its source, so giving the codes makes the same song.
#[test]
fn a_cover_is_the_song_of_its_sources_codes() {
    let model = turbo();
    let source = song(6.0);
    let cover = made(&asked("cover"), &model, &given(&model, &source));
    let networks = Networks::<Cpu>::new(&model, place(), Residency::WhileUsed);
    let codes = codes_of(&source, &networks, &Unobserved).expect("codes");
    let request = asked("text2music").with(|r| r.source.audio_codes = Some(vec![codes]));
    let coded = made(&request, &model, &Sounds::default());
    assert!(difference(&cover, &coded) < 1e-4, "{}", difference(&cover, &coded));
    // Latents contain more information than codes.
    let closer = made(&asked("cover-nofsq"), &model, &given(&model, &source));
    assert!(difference(&cover, &closer) > 0.01);
}

/// If no step follows the source, only its length and the instruction remain.
#[test]
fn a_cover_of_strength_0_hears_nothing_of_its_source() {
    let model = turbo();
    let request = asked("cover").with(|r| r.source.audio_cover_strength = Some(0.0));
    let one = made(&request, &model, &given(&model, &song(6.0)));
    let mut other = song(6.0);
    other.channels.reverse();
    let two = made(&request, &model, &given(&model, &other));
    assert_eq!(one, two);
    let strong = request.with(|r| r.source.audio_cover_strength = Some(0.5));
    let followed = made(&strong, &model, &given(&model, &song(6.0)));
    assert!(difference(&one, &followed) > 0.01);
}

#[test]
fn a_reference_changes_the_sound_and_two_are_both_heard() {
    let model = turbo();
    let reference = |hertz: f64| {
        let channel: Vec<f32> =
            (0..96_000).map(|i| (0.4 * (TAU * hertz * f64::from(i) / 48e3).sin()) as f32).collect();
        let audio = Audio { channels: vec![channel], sample_rate: RATE };
        Sound::reference(&audio, &info(&model), &Unobserved).expect("a sound")
    };
    let request = asked("text2music").with(|r| r.words.duration = Some(2.0));
    let with =
        |references: Vec<Sound>| made(&request, &model, &Sounds { source: None, references });
    let (none, low, high) =
        (with(vec![]), with(vec![reference(110.0)]), with(vec![reference(3e3)]));
    let both = with(vec![reference(110.0), reference(3e3)]);
    for (one, other) in [(&none, &low), (&low, &high), (&low, &both), (&high, &both)] {
        assert!(difference(one, other) > 1e-4);
    }
    assert_eq!(low, with(vec![reference(110.0)]));
}

#[test]
fn a_silent_source_and_a_silent_reference_are_refused() {
    let silent = Audio { channels: vec![vec![0.0; 96_000]], sample_rate: RATE };
    let model = turbo();
    let error = Sound::from_audio(&silent, &info(&model), &Unobserved).expect_err("silence");
    assert!(matches!(error.family(), Some(SongError::SilentSource)));
    // The reference is not silent as a whole, but the excerpts that are used are.
    let mut odd = vec![0.0; 200 * 48_000];
    odd[100 * 48_000..][..48_000].fill(0.5);
    let odd = Audio { channels: vec![odd], sample_rate: RATE };
    let error = Sound::reference(&odd, &info(&model), &Unobserved).expect_err("silence");
    assert!(matches!(error.family(), Some(SongError::SilentSource)));
}

/// Each song has one step, because a base model is slow.
#[test]
fn the_tasks_of_base_models_hear_their_source_and_their_track() {
    let model = base();
    let source = song(5.2);
    let sounds = given(&model, &source);
    let with = |task: &str, track: &str| {
        let request = asked(task).with(|r| {
            r.sampling.inference_steps = Some(1);
            r.source.track_name = Some(track.into());
        });
        made(&request, &model, &sounds)
    };
    let all = [with("lego", "drums"), with("extract", "drums"), with("complete", "drums")];
    for (i, one) in all.iter().enumerate() {
        assert_eq!(one.audio.samples(), 130 * 1920);
        assert!(all[..i].iter().all(|other| difference(one, other) > 1e-4));
    }
    assert!(difference(&all[1], &with("extract", "vocals")) > 1e-4);
    let part = asked("lego").with(|r| {
        r.sampling.inference_steps = Some(1);
        r.source.track_name = Some("drums".into());
        r.repaint.repainting_start = Some(1.0);
        r.repaint.repainting_end = Some(2.0);
    });
    let part = made(&part, &model, &sounds).audio;
    assert_eq!(part.channels[0][..48_000], source.channels[0][..48_000]);
    assert_eq!(part.channels[0][96_000..], source.channels[0][96_000..]);
}

/// An edit to the same description changes nothing.
///
/// An edit to another description changes the song; fewer edited steps change it less.
#[test]
fn an_edit_to_the_same_words_changes_nothing() {
    let model = turbo();
    let networks = Networks::<Cpu>::new(&model, place(), Residency::LastUsed);
    let source = song(5.2);
    let sounds = given(&model, &source);
    let request = asked("text2music").with(|r| {
        r.edit.flow_edit_morph = Some(true);
        r.edit.flow_edit_source_caption = Some("a calm piano melody, rain".into());
        r.edit.flow_edit_source_lyrics = Some("[Verse]\nIt rains on the roof".into());
    });
    let edited = |request: &Request| {
        let plan = plan_of(request, &model, &sounds);
        assert_eq!(plan.length.frames, 130);
        let prepared = prepare(&plan, &networks, &Unobserved).expect("a start");
        to_host(denoise(&plan, &networks, prepared, &Unobserved).expect("latents"))
    };
    let Some(Sound::Audio(heard)) = &sounds.source else { panic!("a sound") };
    let latents = to_host(latents_of(heard, &networks, &Unobserved).expect("latents"));
    let change = |other: &[f32]| largest_difference(latents.iter().zip(other));
    let same = change(&edited(&request));
    assert!(same < 1e-5, "{same}");
    let other = request.with(|r| r.words.caption = Some("fast techno".into()));
    let (all, few) = (
        change(&edited(&other)),
        change(&edited(&other.clone().with(|r| r.edit.flow_edit_n_min = Some(0.75)))),
    );
    assert!(few > 1e-3 && few < all, "{few} {all}");
    // The context is the song's latents, its codes or silence.
    let with = |task: &str| edited(&other.clone().with(|r| r.source.task_type = Some(task.into())));
    let [whole, coded, silent] = ["cover-nofsq", "cover", "text2music"].map(with);
    assert!(whole != coded && whole != silent && coded != silent);
}

/// Two songs of a batch differ only inside the region.
#[test]
fn a_batch_of_repaints_shares_its_source() {
    let model = turbo();
    let source = song(5.2);
    let request = asked("repaint").with(|r| {
        r.repaint.repainting_start = Some(1.0);
        r.repaint.repainting_end = Some(3.0);
        r.noise.batch_size = Some(2);
    });
    let plan = plan_of(&request, &model, &given(&model, &source));
    let both = songs(&plan, &model).expect("songs");
    let [one, two] = &both[..] else { panic!("two songs") };
    assert_eq!(one.audio.channels[0][144_000..], two.audio.channels[0][144_000..]);
    let inside = |song: &Song| song.audio.channels[0][60_000..130_000].to_vec();
    assert!(largest_difference(inside(one).iter().zip(&inside(two))) > 0.01);
    assert!(peak(&one.audio) <= 1.0);
}
