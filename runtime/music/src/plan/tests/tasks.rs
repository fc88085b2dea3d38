//! Tasks with a source song.

use std::{ops::Range, sync::Arc};

use super::*;
use crate::{
    exchange::Array3,
    plan::{Added, MaskMode, Task},
    sounds::{Sound, Sounds},
};

/// A constant sound of this length.
fn given(seconds: f64) -> Sounds {
    let samples = (seconds * 48_000.0) as usize;
    let audio = Audio { channels: vec![vec![0.5; samples]; 2], sample_rate: 48_000 };
    Sounds { source: Some(Sound::Audio(Arc::new(audio))), references: vec![] }
}

#[test]
fn own_times_of_an_edit_end_at_zero_whatever_they_say() {
    let edit = request_of(
        r#"{"timesteps": [0.97, 0.5, 0.2], "flow_edit_morph": true,
            "flow_edit_source_caption": "rain"}"#,
    );
    let (plan, notices) = planned(&edit, base(), 10.0);
    assert_eq!((plan.sampling.timesteps, plan.sampling.terminal), (vec![0.97, 0.5, 0.2], 0.0));
    let text = "an edit ends at time 0: a step from 0.2 is added";
    assert_eq!(notices.last().map(String::as_str), Some(text), "{notices:?}");
    assert!(!notices.iter().any(|notice| notice.contains("sampling stops")));
}

/// The edit is the difference of the texts, so equal ones must stay equal.
#[test]
fn the_lyrics_of_both_sides_of_an_edit_lose_their_time_stamps() {
    let edit = request_of(
        r#"{"flow_edit_morph": true, "lyrics": "[00:01.00]hello",
            "flow_edit_source_lyrics": "[00:01.00]hello"}"#,
    );
    let (plan, _) = planned(&edit, base(), 10.0);
    let edit = plan.edit.expect("an edit");
    assert_eq!((&*plan.words.lyrics, &*edit.source_lyrics), ("hello", "hello"));
    assert_eq!(edit.lyric_prompt, plan.words.lyric_prompt);
}

#[test]
fn an_edit_goes_with_covers_and_with_no_other_task_of_a_source() {
    let edit = |name| task(name, r#"{"flow_edit_morph": true, "flow_edit_source_caption": "x"}"#);
    for name in ["cover", "cover-nofsq"] {
        let (plan, _) = planned(&edit(name), base(), 10.0);
        assert_eq!((plan.source.task.name(), plan.edit.is_some()), (name, true));
    }
    let refused = refused(&edit("repaint"), base(), &given(10.0));
    assert!(refused.contains("not with `repaint`"), "{refused}");
}

fn refused(request: &Request, model: ModelInfo, sounds: &Sounds) -> String {
    Plan::with_sounds(request, &model, sounds).expect_err("a refusal").to_string()
}

/// A request for the task `name` with these keys, as long as its source.
fn task(name: &str, keys: &str) -> Request {
    let (given, _) = Request::from_json(keys).expect(keys);
    request_of(keys).with(|r| {
        r.source.task_type = Some(name.into());
        r.words.duration = given.words.duration;
    })
}

/// A repaint from `start` to `end`.
fn repaint(start: f64, end: f64) -> Request {
    task("repaint", "{}").with(|r| {
        r.repaint.repainting_start = Some(start);
        r.repaint.repainting_end = Some(end);
    })
}

fn frames(plan: &Plan) -> Option<Range<usize>> {
    plan.repaint.region.as_ref().map(|region| region.frames.clone())
}

fn planned(request: &Request, model: ModelInfo, seconds: f64) -> (Plan, Vec<String>) {
    let (plan, notices) = Plan::with_sounds(request, &model, &given(seconds)).expect("a plan");
    (plan, notices.into_iter().map(|notice| notice.0).collect())
}

#[test]
fn the_source_decides_the_length_and_the_prompt_states_it() {
    let asked = task("cover", r#"{"duration": 30}"#);
    let (plan, notices) = planned(&asked, turbo(), 7.97);
    assert_eq!((plan.source.task, plan.length.frames, plan.samples()), (Task::Cover, 199, 382_080));
    assert!(
        plan.words.caption_prompt.contains("# Instruction\nGenerate audio semantic tokens based")
    );
    assert!(plan.words.caption_prompt.contains("- duration: 7 seconds\n"));
    assert_eq!(notices, ["the source decides the length: 7.97 s instead of 30 s"]);
    assert!(plan.source.is_cover() && plan.output.loudness == Loudness::Peak(-1.0));
    let (plan, _) = planned(&task("cover_nofsq", "{}"), turbo(), 7.97);
    assert!(plan.source.task == Task::CoverNofsq && !plan.source.is_cover());
    assert!(plan.source.instruction.starts_with("Generate audio semantic tokens"));
}

/// Golden `e2e.repaint`: 1.2 s to 3.4 s of 5.3 s are frames 30 to 85.
#[test]
fn a_region_is_cut_to_whole_frames() {
    let (plan, notices) = planned(&repaint(1.2, 3.4), turbo(), 5.3);
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!((plan.length.frames, plan.length.padded_frames), (132, 132));
    let (seam, source) = plan.seam().expect("a region in a song");
    assert_eq!((seam.region, seam.source_start), (57_600..163_200, 0));
    assert_eq!((seam.ramp, source.samples()), (1200, 254_400));
    let region = plan.repaint.region.expect("a region");
    assert_eq!(region.frames, 30..85);
    // 12.5 rounds to even.
    let transition = Transition { injection_ratio: 0.5, crossfade_frames: 12, crossfade_s: 0.025 };
    assert_eq!(region.transition, transition);
    assert_eq!(plan.source.instruction, crate::prompt::REPAINT);
    // A kept part keeps its loudness.
    assert_eq!(plan.output.loudness, Loudness::AsIs);
}

#[test]
fn a_region_beyond_the_ends_makes_the_song_longer() {
    let (plan, _) = planned(&repaint(-2.5, 0.0), turbo(), 6.0);
    assert_eq!(plan.repaint.added, Added { before: 120_000, after: 0 });
    assert_eq!((plan.length.frames, plan.length.duration_s), (212, 8.5));
    assert_eq!(frames(&plan), Some(0..62));
    assert_eq!(plan.seam().map(|(seam, _)| seam.region), Some(0..120_000));
    assert!(plan.words.caption_prompt.contains("- duration: 6 seconds\n"));

    let (plan, notices) = planned(&repaint(6.0, 9.0), turbo(), 6.0);
    assert_eq!(plan.repaint.added, Added { before: 0, after: 144_000 });
    assert_eq!(frames(&plan), Some(150..225));
    assert_eq!(notices, Vec::<String>::new());
    let (_, notices) = planned(&repaint(7.0, 9.0), turbo(), 6.0);
    assert!(notices[0].starts_with("the region begins 1.00 s after the end of the source"));
}

#[test]
fn a_repaint_without_a_region_makes_everything_anew_and_says_so() {
    let (plan, notices) = planned(&task("repaint", "{}"), turbo(), 6.0);
    assert_eq!(frames(&plan), Some(0..150));
    assert!(notices[0].starts_with("the whole song is generated"), "{notices:?}");
    // Nothing is kept, so the default loudness applies.
    assert_eq!(plan.output.loudness, Loudness::Peak(-1.0));
    assert_eq!(
        refused(&repaint(3.0, 2.0), turbo(), &given(6.0)),
        "the region ends at 2 s, but begins at 3 s: let `repainting_end` lie behind \
         `repainting_start`"
    );
    let error = refused(&repaint(-10.0, 599.9), turbo(), &given(6.0));
    assert_eq!(error, "the song would be 609.9 s long, but 600 s is the most");
}

#[test]
fn a_region_has_a_frame_at_least_and_an_end_that_is_one() {
    let refused = |start, end| refused(&repaint(start, end), turbo(), &given(5.5));
    assert!(refused(1.0, 1.001).starts_with("from 1 s to 1.001 s there is no whole latent frame"));
    // The last whole frame ends at 5.48 s.
    assert!(refused(5.48, 5.5).contains("no whole latent frame"));
    for first in 0..137 {
        let (start, end) = (f64::from(first) / 25.0, f64::from(first + 1) / 25.0);
        let (plan, _) = planned(&repaint(start, end), turbo(), 5.5);
        let first = first as usize;
        assert_eq!(frames(&plan), Some(first..first + 1), "from {start} s to {end} s");
    }
    assert!(refused(1.0, -2.0).starts_with("`repainting_end: -2` is out of range"));
    assert!(refused(1.0, f64::NAN).starts_with("`repainting_end: NaN` is out of range"));
    // An end beyond the last whole frame is no error.
    let asked = task("repaint", r#"{"repainting_start": 1.16}"#);
    let (plan, _) = planned(&asked, turbo(), 5.5);
    assert_eq!(frames(&plan), Some(29..137));
    assert_eq!(plan.output_samples(), 137 * 1920);
    let asked = task("repaint", r#"{"repainting_end": 5.48}"#);
    assert_eq!(planned(&asked, turbo(), 5.5).0.output_samples(), 264_000);
}

#[test]
fn settings_of_a_repaint_are_checked_and_said_whatever_the_task() {
    refused(&task("cover", r#"{"repaint_mode": "bogus"}"#), turbo(), &given(6.0));
    let asked = task("cover", r#"{"repaint_strength": 0.9}"#);
    let (_, notices) = planned(&asked, turbo(), 6.0);
    assert_eq!(notices, ["how a repaint meets its surroundings has no effect on `cover`"]);
}

#[test]
fn modes_of_a_repaint_are_upstreams() {
    let of = |mode: &str, strength: f64| {
        let asked = task("repaint", "{}").with(|r| {
            r.repaint.repaint_mode = Some(mode.into());
            r.repaint.repaint_strength = Some(strength);
            r.repaint.repaint_latent_crossfade_frames = Some(7);
            r.repaint.repaint_wav_crossfade_sec = Some(0.2);
            r.repaint.repainting_end = Some(1.0);
        });
        let (plan, notices) = planned(&asked, turbo(), 6.0);
        let Transition { injection_ratio, crossfade_frames, crossfade_s } =
            plan.repaint.region.expect("a region").transition;
        ((injection_ratio, crossfade_frames, crossfade_s), notices.len())
    };
    // Neither the strength nor the widths have an effect.
    assert_eq!(of("conservative", 0.1), ((1.0, 25, 0.05), 2));
    assert_eq!(of("aggressive", 0.1), ((0.0, 0, 0.0), 2));
    assert_eq!(of("balanced", 1.0), ((0.0, 0, 0.0), 1));
    assert_eq!(of("balanced", 0.0), ((1.0, 25, 0.05), 1));
    assert_eq!(of("custom", 0.25), ((0.75, 7, 0.2), 0));
}

#[test]
fn tracks_need_a_base_model_a_source_and_a_name() {
    let asked = task("extract", r#"{"track_name": "Drums"}"#);
    assert_eq!(
        refused(&asked, turbo(), &given(6.0)),
        "turbo cannot do `extract`: only base and sft models were trained for it"
    );
    assert_eq!(
        refused(&asked, base(), &Sounds::default()),
        "`task_type: extract` needs a song to start from"
    );
    assert_eq!(
        refused(&task("lego", "{}"), base(), &given(6.0)),
        "`task_type: lego` needs the name of a track"
    );
    let (plan, notices) = planned(&asked, base(), 6.0);
    assert_eq!(plan.source.instruction, "Extract the DRUMS track from the audio:");
    assert!(notices.is_empty() && plan.repaint.region.is_none());
    let spaced = asked.clone().with(|r| r.source.track_name = Some("backing vocals".into()));
    let instruction = planned(&spaced, base(), 6.0).0.source.instruction;
    assert_eq!(instruction, "Extract the BACKING_VOCALS track from the audio:");
    let odd = asked.with(|r| r.source.track_name = Some("theremin".into()));
    assert!(planned(&odd, base(), 6.0).1[0].contains("does not know the track `theremin`"));
    let both = task("complete", r#"{"track_name": "drums | bass"}"#);
    let (plan, notices) = planned(&both, base(), 6.0);
    assert_eq!(plan.source.instruction, "Complete the input track with DRUMS | BASS:");
    assert_eq!(notices, Vec::<String>::new());
}

#[test]
fn lego_has_a_region_only_if_it_is_asked_for() {
    let asked = task("lego", r#"{"track_name": "bass"}"#);
    let whole = asked.clone().with(|r| r.repaint = repaint(0.0, -1.0).repaint);
    assert_eq!(planned(&whole, base(), 6.0).0.repaint.region, None);
    let part = asked.with(|r| r.repaint.repainting_end = Some(2.0));
    let (plan, _) = planned(&part, base(), 6.0);
    assert_eq!(frames(&plan), Some(0..50));
}

#[test]
fn codes_win_over_a_source_and_go_with_no_region() {
    let coded =
        |name: &str| task(name, "{}").with(|r| r.source.audio_codes = Some(vec![vec![7; 10]]));
    let (plan, notices) = planned(&coded("cover"), turbo(), 6.0);
    assert!(plan.source.sound.is_none() && plan.source.has_codes() && plan.length.frames == 50);
    assert_eq!(notices, ["the source is not used: there are audio codes, which win"]);
    let error = Plan::with_sounds(&coded("repaint"), &turbo(), &given(6.0));
    assert!(matches!(error, Err(Error::Conflict(_))));
}

#[test]
fn text2music_takes_no_source_and_says_so() {
    let asked = task("text2music", r#"{"duration": 10}"#);
    let (plan, notices) = planned(&asked, turbo(), 6.0);
    assert!(plan.source.sound.is_none() && plan.length.frames == 250);
    assert!(notices[0].starts_with("the source is not used: text2music takes none"));
    let unknown = asked.with(|r| r.source.task_type = Some("remix".into()));
    let error = Plan::resolve(&unknown, &turbo()).expect_err("no task").to_string();
    assert!(error.starts_with("`task_type: remix` cannot be used: use text2music"), "{error}");
}

#[test]
fn auto_of_upstreams_files_is_explicit() {
    for (name, mode) in [
        ("auto", MaskMode::Explicit),
        ("explicit", MaskMode::Explicit),
        ("ones", MaskMode::Ones),
        ("twos", MaskMode::Twos),
    ] {
        let asked = request().with(|r| r.repaint.chunk_mask_mode = Some(name.into()));
        assert_eq!(resolve(asked, turbo()).0.repaint.mask_mode, mode);
    }
}

#[test]
fn latents_are_a_source_without_a_seam() {
    let latents = Array3::new([1, 200, 64], vec![0.5; 200 * 64]);
    let source = Sound::latents(latents, &turbo()).expect("turbo's");
    let sounds = Sounds { source: Some(source), references: vec![] };
    let asked = task("repaint", r#"{"repainting_start": 4}"#);
    let (plan, _) = Plan::with_sounds(&asked, &turbo(), &sounds).expect("a plan");
    assert_eq!((plan.length.frames, plan.seam()), (200, None));
    assert_eq!(plan.repaint.region.map(|region| region.frames), Some(100..200));
    let other = Array3::new([1, 2, 8], vec![0.5; 16]);
    assert!(Sound::latents(other, &turbo()).is_err());
}
