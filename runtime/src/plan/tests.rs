use super::*;
use crate::{
    flow::{dcw::DcwMode, solver::SdeTimes},
    prompt,
};

fn turbo() -> ModelInfo {
    ModelInfo {
        name: "turbo".into(),
        is_turbo: true,
        channels: 64,
        hop: 1920,
        sample_rate: 48_000,
        frames_per_code: 5,
        timbre_frames: 750,
        codes: 64_000,
    }
}

fn base() -> ModelInfo {
    ModelInfo { name: "base".into(), is_turbo: false, ..turbo() }
}

/// A request that gives rise to no notice.
fn request() -> Request {
    Request {
        caption: Some("calm piano".into()),
        duration: Some(10.0),
        seed: Some(vec![7]),
        ..Request::default()
    }
}

fn resolve(request: Request, model: ModelInfo) -> (Plan, Vec<String>) {
    let (plan, notices) = Plan::resolve(&request, &model).expect("a plan");
    (plan, notices.into_iter().map(|notice| notice.0).collect())
}

fn refusal(request: Request) -> String {
    Plan::resolve(&request, &base()).expect_err("a refusal").to_string()
}

#[test]
fn turbo_takes_eight_steps_of_shift_3_without_guidance() {
    let (plan, notices) = resolve(request(), turbo());
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!((plan.steps(), plan.timesteps[1], plan.terminal), (8, 0.954_545_44, 0.0));
    assert_eq!(plan.shift, Some(3.0));
    assert_eq!(plan.guidance, None);
    assert_eq!(plan.solver, Solver::Euler);
    assert_eq!((plan.loudness, plan.fades), (Loudness::Peak(-1.0), (0.0, 0.0)));
    assert_eq!((plan.frames, plan.padded_frames, plan.samples()), (250, 250, 480_000));
    assert_eq!(plan.seeds, [7]);
}

#[test]
fn a_solver_has_upstreams_two_names_or_acestep_cpps_one() {
    let named = |infer_method: Option<&str>, sampler_mode: Option<&str>, solver: Option<&str>| {
        let request = Request {
            infer_method: infer_method.map(Into::into),
            sampler_mode: sampler_mode.map(Into::into),
            solver: solver.map(Into::into),
            ..request()
        };
        let solver = |model| resolve(request.clone(), model).0.solver;
        (solver(turbo()), solver(base()))
    };
    let both = |solver| (solver, solver);
    let sde = (Solver::Sde(SdeTimes::Schedule), Solver::Sde(SdeTimes::Even));
    assert_eq!(named(Some("ode"), Some("euler"), None), both(Solver::Euler));
    assert_eq!(named(None, Some("heun"), None), both(Solver::Heun));
    assert_eq!(named(Some("sde"), None, None), sde);
    assert_eq!(named(None, None, Some("euler")), both(Solver::Euler));
    assert_eq!(named(Some("sde"), None, Some("sde")), both(Solver::Sde(SdeTimes::Schedule)));
    assert_eq!(named(Some("ode"), None, Some("dpm3m")), both(Solver::Dpm3m));
    assert_eq!(named(None, Some("euler"), Some("stork4")), both(Solver::Stork4));
    let two = |infer_method: Option<&str>, sampler_mode: Option<&str>, solver: &str| {
        refusal(Request {
            infer_method: infer_method.map(Into::into),
            sampler_mode: sampler_mode.map(Into::into),
            solver: Some(solver.into()),
            ..request()
        })
    };
    let expected = "`--solver dpm3m` and `--sampler-mode heun` name two solvers; use one of them";
    assert_eq!(two(None, Some("heun"), "dpm3m"), expected);
    let expected = "`--solver euler` and `--infer-method sde` name two solvers; use one of them";
    assert_eq!(two(Some("sde"), None, "euler"), expected);
    assert_eq!(
        two(None, None, "rk4"),
        "`--solver rk4` cannot be used: use euler or sde or dpm3m or stork4"
    );
}

#[test]
fn settings_of_the_sampler_without_effect_are_said() {
    let said = |request: Request| resolve(request, base()).1;
    let sde = Request {
        infer_method: Some("sde".into()),
        sampler_mode: Some("heun".into()),
        ..request()
    };
    assert_eq!(said(sde), ["sampler_mode heun has no effect with infer_method sde"]);
    let substeps = |solver: Option<&str>, n| {
        said(Request { solver: solver.map(Into::into), stork_substeps: Some(n), ..request() })
    };
    assert_eq!(substeps(Some("stork4"), 10), Vec::<String>::new());
    assert!(substeps(Some("stork4"), 20)[0].contains("the exact integral"));
    assert!(substeps(None, 20)[0].contains("it belongs to the solver stork4"));
    let retake = Request { retake_seed: Some(vec![1]), ..request() };
    assert_eq!(said(retake), ["retake_seed has no effect without retake_variance"]);
    let both =
        |mode: &str| Request { use_adg: Some(true), guidance_mode: Some(mode.into()), ..request() };
    assert_eq!(said(both("cfg")), ["use_adg has no effect: guidance_mode cfg is given"]);
    assert_eq!(said(both("adg_w_norm")), Vec::<String>::new());
}

#[test]
fn guidance_has_upstreams_names() {
    let mode = |request: Request| resolve(request, base()).0.guidance.expect("guided").mode;
    for (name, expected) in [
        ("apg", GuidanceMode::Apg),
        ("apg_classic", GuidanceMode::Apg),
        ("cfg", GuidanceMode::Cfg),
        ("adg", GuidanceMode::Adg),
        ("adg_w_norm", GuidanceMode::AdgWithNorm),
        ("adg_wo_clip", GuidanceMode::AdgWithoutClip),
    ] {
        assert_eq!(mode(Request { guidance_mode: Some(name.into()), ..request() }), expected);
    }
    assert_eq!(mode(Request { use_adg: Some(true), ..request() }), GuidanceMode::Adg);
    let named = Request { use_adg: Some(true), guidance_mode: Some("cfg".into()), ..request() };
    assert_eq!(mode(named), GuidanceMode::Cfg);
    let (plan, notices) = resolve(Request { use_adg: Some(true), ..request() }, turbo());
    assert_eq!(plan.guidance, None);
    assert!(notices[0].contains("--guidance-mode adg is not used"), "{notices:?}");
}

/// Upstream's defaults with `dcw_enabled`, acestep.cpp's with a strength alone.
#[test]
fn the_correction_is_off_unless_either_programs_way_asks_for_it() {
    let dcw = |change: &dyn Fn(&mut Request)| {
        let mut request = request();
        change(&mut request);
        let (plan, notices) = resolve(request, turbo());
        (plan.dcw, notices.len())
    };
    let with = |mode, scaler, high_scaler| (Some(Dcw { mode, scaler, high_scaler }), 1);
    assert_eq!(dcw(&|_| ()), (None, 0));
    assert_eq!(dcw(&|r| r.dcw_mode = Some("low".into())), (None, 1));
    assert_eq!(dcw(&|r| r.dcw_wavelet = Some("haar".into())), (None, 1));
    // As acestep.cpp writes its defaults.
    let defaults = |r: &mut Request| {
        (r.dcw_mode, r.dcw_scaler, r.dcw_high_scaler) = (Some("low".into()), Some(0.0), Some(0.0));
    };
    assert_eq!(dcw(&defaults), (None, 0));
    assert_eq!(dcw(&|r| r.dcw_enabled = Some(true)), with(DcwMode::Double, 0.05, 0.02));
    assert_eq!(dcw(&|r| r.dcw_scaler = Some(0.1)), with(DcwMode::Low, 0.1, 0.0));
    let off = |r: &mut Request| (r.dcw_enabled, r.dcw_scaler) = (Some(false), Some(0.1));
    assert_eq!(dcw(&off), (None, 0));
    let own = |r: &mut Request| {
        (r.dcw_enabled, r.dcw_mode, r.dcw_scaler) = (Some(true), Some("high".into()), Some(0.0));
    };
    assert_eq!(dcw(&own), (None, 1));
    // The strength of another mode: the correction, and a word.
    let other = |r: &mut Request| (r.dcw_scaler, r.dcw_high_scaler) = (Some(0.1), Some(0.2));
    assert_eq!(dcw(&other).1, 2);
    assert_eq!(dcw(&|r| r.dcw_high_scaler = Some(0.2)), (None, 2));
    // acestep.cpp corrects no stochastic steps, upstream does.
    let sde = |r: &mut Request| (r.solver, r.dcw_scaler) = (Some("sde".into()), Some(0.1));
    assert_eq!(dcw(&sde), (None, 1));
    let sde = |r: &mut Request| (r.solver, r.dcw_enabled) = (Some("sde".into()), Some(true));
    assert_eq!(dcw(&sde), with(DcwMode::Double, 0.05, 0.02));
    let db4 = Request { dcw_enabled: Some(true), dcw_wavelet: Some("db4".into()), ..request() };
    assert_eq!(
        refusal(db4),
        "`--dcw-wavelet db4` cannot be used: of the wavelets only haar is built"
    );
}

#[test]
fn a_retake_is_the_same_noise_turned_to_another() {
    let retake = |variance, seeds: Option<Vec<u64>>| Request {
        duration: Some(6.0),
        retake_variance: Some(variance),
        retake_seed: seeds,
        batch_size: Some(2),
        ..request()
    };
    let (plain, _) = resolve(retake(0.0, None), turbo());
    let (other, _) = resolve(Request { seed: Some(vec![40]), ..retake(0.0, None) }, turbo());
    let (half, notices) = resolve(retake(0.5, Some(vec![40])), turbo());
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!(half.retake, Some(Retake { seeds: vec![40, 41], variance: 0.5 }));
    let expected = (plain.initial_noise(1)[5] + other.initial_noise(1)[5]) * 0.5f32.sqrt();
    assert!((half.initial_noise(1)[5] - expected).abs() < 1e-6);
    let (drawn, _) = resolve(retake(0.5, None), turbo());
    assert_eq!(drawn.retake.expect("a retake").seeds.len(), 2);
    let three = refusal(retake(0.5, Some(vec![1, 2, 3])));
    assert_eq!(three, "`--retake-seed` has 3 seeds, but there are 2 songs");
}

/// Of turbo's eight times the last three begin at 9/14 and below.
#[test]
fn a_kept_source_leaves_fewer_steps() {
    let request = Request {
        audio_codes: Some(vec![vec![5; 50]]),
        cover_noise_strength: Some(0.4),
        audio_cover_strength: Some(0.5),
        duration: None,
        ..request()
    };
    let (plan, notices) = resolve(request.clone(), turbo());
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!((plan.timesteps.len(), plan.steps(), plan.cover_steps()), (8, 3, 1));
    assert_eq!(plan.sampling().steps[0].t, 9.0 / 14.0);
    let alone = Request { audio_codes: None, duration: Some(10.0), ..request };
    let (plan, notices) = resolve(Request { audio_cover_strength: None, ..alone }, turbo());
    assert_eq!((plan.steps(), plan.cover_noise_strength), (8, 0.0));
    assert_eq!(notices, ["cover_noise_strength has no effect: there is no source to start from"]);
}

#[test]
fn smoothing_and_the_adjustment_of_latents_are_off_at_upstreams_zeros() {
    let zeros = Request {
        velocity_norm_threshold: Some(0.0),
        velocity_ema_factor: Some(0.0),
        latent_shift: Some(0.0),
        latent_rescale: Some(1.0),
        ..request()
    };
    let (plan, _) = resolve(zeros, base());
    assert_eq!(plan.smoothing, Smoothing::default());
    assert_eq!((plan.latent_rescale, plan.latent_shift), (1.0, 0.0));
    let set =
        Request { velocity_norm_threshold: Some(2.0), velocity_ema_factor: Some(0.1), ..request() };
    let (plan, _) = resolve(set, base());
    let expected = Smoothing { norm_threshold: Some(2.0), ema_factor: Some(0.1) };
    assert_eq!((plan.smoothing, plan.sampling().smoothing), (expected, expected));
}

#[test]
fn base_takes_fifty_steps_with_projected_guidance_of_7() {
    let (plan, notices) = resolve(request(), base());
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!((plan.steps(), plan.timesteps[1], plan.terminal), (50, 0.98, 0.0));
    assert_eq!(plan.shift, Some(1.0));
    let expected = Guidance { scale: 7.0, mode: GuidanceMode::Apg, interval: (0.0, 1.0) };
    assert_eq!(plan.guidance, Some(expected));
}

#[test]
fn a_guidance_of_1_is_none() {
    let (plan, _) = resolve(Request { guidance_scale: Some(1.0), ..request() }, base());
    assert_eq!(plan.guidance, None);
}

#[test]
fn what_turbo_does_not_use_is_said() {
    let asked = Request {
        inference_steps: Some(20),
        guidance_scale: Some(4.5),
        shift: Some(2.4),
        ..request()
    };
    let (plan, notices) = resolve(asked, turbo());
    assert_eq!((plan.timesteps[1], plan.shift), ((14.0f64 / 15.0) as f32, Some(2.0)));
    assert_eq!(
        notices,
        [
            "turbo always takes its own 8 steps; --inference-steps 20 is not used",
            "turbo knows the shifts 1, 2 and 3; 2.4 counts as 2",
            "turbo is distilled to need no guidance; --guidance-scale 4.5 is not used",
        ]
    );
}

#[test]
fn the_prompts_state_what_was_asked() {
    let asked = Request {
        lyrics: Some("la".into()),
        bpm: Some(83),
        keyscale: Some("G major".into()),
        timesignature: Some("4".into()),
        duration: Some(33.7),
        vocal_language: Some("FR".into()),
        ..request()
    };
    let (plan, _) = resolve(asked, turbo());
    assert_eq!(
        plan.caption_prompt,
        "# Instruction\nFill the audio semantic mask based on the given conditions:\n\n\
         # Caption\ncalm piano\n\n# Metas\n- bpm: 83\n- timesignature: 4\n- keyscale: G major\n\
         - duration: 33 seconds\n<|endoftext|>\n"
    );
    assert_eq!(plan.lyric_prompt, "# Languages\nfr\n\n# Lyric\nla<|endoftext|>");
}

#[test]
fn every_duration_from_1_to_60_seconds_has_its_frames_and_samples() {
    for ms in (1000u64..=60_000).step_by(333) {
        let asked = Request { duration: Some(ms as f64 / 1000.0), ..request() };
        let (plan, _) = resolve(asked, turbo());
        let frames = (ms * 25 / 1000) as usize;
        assert_eq!((plan.frames, plan.samples()), (frames, frames * 1920), "{ms} ms");
        assert_eq!(plan.padded_frames, frames.max(128));
    }
}

#[test]
fn without_a_duration_it_is_half_a_minute_and_that_is_said() {
    let (plan, notices) = resolve(Request { duration: None, ..request() }, turbo());
    assert_eq!((plan.duration_s, plan.frames), (30.0, 750));
    assert_eq!(notices, ["no duration given, making 30 s"]);
}

/// The request behind acestep.cpp's reference run: 434 codes and 88 s give 86.8 s.
#[test]
fn codes_win_over_the_duration() {
    let asked =
        Request { audio_codes: Some(vec![vec![5; 434]]), duration: Some(88.0), ..request() };
    let (plan, notices) = resolve(asked, turbo());
    assert_eq!((plan.duration_s, plan.frames, plan.samples()), (86.8, 2170, 4_166_400));
    assert_eq!(notices, ["the audio codes decide the length: 86.8 s instead of 88 s"]);
    assert!(plan.has_codes() && !plan.is_cover());
    assert_eq!(plan.instruction, prompt::COVER);
    assert!(plan.caption_prompt.contains("- duration: 88 seconds\n"));
}

#[test]
fn codes_alone_decide_the_length_without_a_word() {
    let asked = Request { audio_codes: Some(vec![vec![5; 50]]), duration: None, ..request() };
    let (plan, notices) = resolve(asked, turbo());
    assert_eq!(plan.frames, 250);
    assert!(plan.caption_prompt.contains("- duration: 10 seconds\n"));
    assert!(notices.is_empty());
}

#[test]
fn the_default_instruction_gives_way_to_codes_and_an_own_one_does_not() {
    let with = |instruction: &str| {
        let instruction = Some(instruction.to_owned());
        let asked = Request { audio_codes: Some(vec![vec![5; 50]]), instruction, ..request() };
        resolve(asked, turbo()).0.instruction
    };
    assert_eq!(with(prompt::TEXT_TO_MUSIC), prompt::COVER);
    assert_eq!(with("Hum it"), "Hum it");
}

#[test]
fn a_cover_strength_below_1_brings_a_second_prompt() {
    let asked = Request {
        audio_codes: Some(vec![vec![5; 50]]),
        audio_cover_strength: Some(0.3),
        ..request()
    };
    let (plan, _) = resolve(asked, turbo());
    assert_eq!(plan.cover_steps(), 2);
    assert!(plan.non_cover_prompt.expect("a prompt").contains(prompt::TEXT_TO_MUSIC));
    assert!(plan.caption_prompt.contains(prompt::COVER));
    assert_eq!(resolve(request(), turbo()).0.non_cover_prompt, None);
}

/// In f32 the strength 0.7 would be a hair less, and 50 steps of it 34.
#[test]
fn a_cover_strength_is_not_rounded_on_its_way() {
    let asked = Request {
        audio_codes: Some(vec![vec![5; 50]]),
        audio_cover_strength: Some(0.7),
        ..request()
    };
    assert_eq!(resolve(asked, base()).0.cover_steps(), 35);
}

#[test]
fn codes_beyond_the_models_own_codebook_count_as_its_last() {
    let asked = || Request {
        audio_codes: Some(vec![vec![3, 64_000, 99, u32::MAX]]),
        duration: None,
        ..request()
    };
    let (plan, notices) = resolve(asked(), turbo());
    assert_eq!(plan.codes, [[3, 63_999, 99, 63_999]]);
    assert_eq!(notices, ["2 of 4 audio codes were above 63999 and count as 63999"]);
    let (plan, notices) = resolve(asked(), ModelInfo { codes: 64, ..turbo() });
    assert_eq!(plan.codes, [[3, 63, 63, 63]]);
    assert_eq!(notices, ["3 of 4 audio codes were above 63 and count as 63"]);
}

#[test]
fn several_outlines_are_as_many_songs() {
    let asked = |songs: usize, batch_size, seed: Vec<u64>| Request {
        audio_codes: Some(vec![vec![5; 10]; songs]),
        duration: None,
        batch_size,
        seed: Some(seed),
        ..request()
    };
    let songs = |request| {
        let plan = resolve(request, turbo()).0;
        (plan.codes.len(), plan.codes_per_song(), plan.seeds)
    };
    assert_eq!(songs(asked(3, None, vec![7])), (3, 10, vec![7, 8, 9]));
    assert_eq!(songs(asked(2, Some(2), vec![7])), (2, 10, vec![7, 8]));
    assert_eq!(songs(asked(2, None, vec![4, 9])), (2, 10, vec![4, 9]));
    // One for all.
    assert_eq!(songs(asked(1, Some(2), vec![7])), (1, 10, vec![7, 8]));
    let none = Request { audio_codes: Some(vec![vec![], vec![]]), ..request() };
    assert_eq!(songs(none), (0, 0, vec![7]));
}

#[test]
fn lyrics_that_cannot_be_sung_in_time_are_said() {
    let asked = Request { lyrics: Some("la ".repeat(50)), ..request() };
    let (_, notices) = resolve(asked, turbo());
    assert_eq!(
        notices,
        ["the lyrics take 12 s even if they are rapped fast, but the song has 10 s: not all of \
             them will be sung"]
    );
    let asked = Request { lyrics: Some("la ".repeat(45)), ..request() };
    assert_eq!(resolve(asked, turbo()).1, Vec::<String>::new());
}

#[test]
fn tiles_that_are_cut_or_can_be_heard_are_said() {
    let with = |chunk, overlap, duration| {
        let asked = Request {
            vae_chunk: Some(chunk),
            vae_overlap: Some(overlap),
            duration: Some(duration),
            ..request()
        };
        let (plan, notices) = resolve(asked, turbo());
        (plan.tiling.chunk, plan.tiling.overlap, notices)
    };
    let fit = "a VAE overlap of 64 frames does not fit into chunks of 100; it counts as 32";
    assert_eq!(with(100, 64, 10.0), (100, 32, vec![fit.to_owned()]));
    let heard = "a VAE overlap of 8 frames can be heard where chunks meet; one of 9 cannot";
    assert_eq!(with(100, 8, 10.0), (100, 8, vec![heard.to_owned()]));
    assert_eq!(with(100, 9, 10.0), (100, 9, vec![]));
    // One chunk has nothing to meet.
    assert_eq!(with(250, 0, 10.0), (250, 0, vec![]));
}

#[test]
fn a_batch_counts_its_seeds_up_and_a_list_is_taken_as_it_is() {
    let seeds = |seed: Option<Vec<u64>>, batch_size| {
        resolve(Request { seed, batch_size, ..request() }, turbo()).0.seeds
    };
    assert_eq!(seeds(Some(vec![41]), Some(3)), [41, 42, 43]);
    assert_eq!(seeds(Some(vec![u64::MAX]), Some(2)), [u64::MAX, 0]);
    assert_eq!(seeds(Some(vec![9, 4]), None), [9, 4]);
    let drawn = seeds(None, Some(2));
    assert_eq!(drawn[1], drawn[0] + 1);
    assert!(drawn[0] <= u64::from(u32::MAX));
}

/// What is asked of guidance, and cannot be, is said.
#[test]
fn guidance_that_is_not_there_has_no_interval() {
    let asked = |scale| Request {
        cfg_interval_end: Some(0.5),
        guidance_scale: scale,
        guidance_mode: Some("cfg".into()),
        ..request()
    };
    let said = |request, model: ModelInfo| {
        let (plan, notices) = resolve(request, model);
        assert_eq!(plan.guidance, None);
        notices
    };
    let of_turbo = said(asked(None), turbo());
    assert!(of_turbo[0].ends_with("no guidance; its interval is not used"), "{of_turbo:?}");
    let of_base = said(asked(Some(1.0)), base());
    assert_eq!(of_base, ["guidance_scale 1 is no guidance: its mode and interval have no effect"]);
    assert_eq!(said(Request { guidance_scale: Some(1.0), ..request() }, base()), [""; 0]);
}

#[test]
fn own_times_of_base_end_where_they_say_and_of_turbo_snap() {
    let asked = || Request { timesteps: Some(vec![0.97, 0.5, 0.2]), ..request() };
    let (plan, notices) = resolve(asked(), base());
    assert_eq!((plan.timesteps, plan.terminal, plan.shift), (vec![0.97, 0.5], 0.2, None));
    assert!(notices[0].starts_with("sampling stops at time 0.2"), "{notices:?}");
    let (plan, notices) = resolve(asked(), turbo());
    assert_eq!(plan.timesteps, [0.954_545_44, 0.5, 0.222_222_22]);
    assert_eq!(
        notices,
        ["turbo knows 20 times, of which the nearest are used: 0.9545, 0.5000, 0.2222"]
    );
}

#[test]
fn each_value_out_of_range_is_refused_with_option_value_and_range() {
    let r = request;
    for (asked, message) in [
        (
            Request { bpm: Some(29), ..r() },
            "`--bpm 29` is out of range: a whole number from 30 to 300",
        ),
        (
            Request { duration: Some(f64::NAN), ..r() },
            "`--duration NaN` is out of range: above 0, at most 600",
        ),
        (
            Request { duration: Some(-1.0), ..r() },
            "`--duration -1` is out of range: above 0, at most 600",
        ),
        (
            Request { duration: Some(0.01), ..r() },
            "`--duration 0.01` is out of range: at least one latent frame, 0.04 s",
        ),
        (
            Request { inference_steps: Some(0), ..r() },
            "`--inference-steps 0` is out of range: a whole number from 1 to 200",
        ),
        (
            Request { guidance_scale: Some(f64::INFINITY), ..r() },
            "`--guidance-scale inf` is out of range: 1 to 30",
        ),
        (Request { shift: Some(0.0), ..r() }, "`--shift 0` is out of range: above 0, at most 100"),
        (
            Request { batch_size: Some(9), ..r() },
            "`--batch-size 9` is out of range: a whole number from 1 to 8",
        ),
        (
            Request { normalization_db: Some(1.0), ..r() },
            "`--normalization-db 1` is out of range: -60 to 0",
        ),
        (
            Request { vae_chunk: Some(0), ..r() },
            "`--vae-chunk 0` is out of range: a whole number from 1 to 1000000",
        ),
        (
            Request { vae_overlap: Some(-1), ..r() },
            "`--vae-overlap -1` is out of range: a whole number from 0 to 1000000",
        ),
        (
            Request { infer_method: Some("heun".into()), ..r() },
            "`--infer-method heun` cannot be used: use ode or sde",
        ),
        (
            Request { velocity_ema_factor: Some(1.5), ..r() },
            "`--velocity-ema-factor 1.5` is out of range: 0 to 1",
        ),
        (
            Request { retake_variance: Some(-0.1), ..r() },
            "`--retake-variance -0.1` is out of range: 0 to 1",
        ),
        (
            Request { latent_rescale: Some(0.0), ..r() },
            "`--latent-rescale 0` is out of range: above 0, at most 10",
        ),
        (
            Request { stork_substeps: Some(149), ..r() },
            "`--stork-substeps 149` is out of range: a whole number from 1 to 148",
        ),
        (
            Request { dcw_mode: Some("all".into()), ..r() },
            "`--dcw-mode all` cannot be used: use low or high or double or pix",
        ),
        (
            Request { timesteps: Some(vec![0.5, 0.9]), ..r() },
            "`--timesteps 0.5,0.9` cannot be used: each time must be below the one before it",
        ),
        (
            Request { timesteps: Some(vec![1.5]), ..r() },
            "`--timesteps 1.5` is out of range: 0 to 1",
        ),
        (
            Request { audio_codes: Some(vec![vec![1; 3001]]), ..r() },
            "`--audio-codes (3001 codes)` is out of range: at most 600 seconds of them",
        ),
        (
            Request { audio_codes: Some(vec![vec![1, 2], vec![3]]), ..r() },
            "audio codes: 2 for song 1, but 1 for song 2; songs made together are of one length",
        ),
        (
            Request { audio_codes: Some(vec![vec![], vec![3]]), ..r() },
            "audio codes: 0 for song 1, but 1 for song 2; songs made together are of one length",
        ),
        (
            Request { audio_codes: Some(vec![vec![1]; 2]), batch_size: Some(3), ..r() },
            "there are audio codes for 2 songs, but 3 are made",
        ),
        (
            Request { audio_codes: Some(vec![vec![1]; 2]), seed: Some(vec![1, 2, 3]), ..r() },
            "there are audio codes for 2 songs, but 3 are made",
        ),
        (
            Request { audio_codes: Some(vec![vec![1]; 2]), batch_size: Some(1), ..r() },
            "there are audio codes for 2 songs, but 1 is made",
        ),
        (
            Request { audio_codes: Some(vec![vec![1]; 9]), ..r() },
            "`--audio-codes (of 9 songs)` is out of range: at most 8",
        ),
        (
            Request { lyrics: Some(" ".repeat(1_000_001)), ..r() },
            "`--lyrics (1000001 characters)` is out of range: at most 1000000 characters",
        ),
        (
            Request { seed: Some(vec![1, 2]), batch_size: Some(3), ..r() },
            "`--seed` has 2 seeds, but `--batch-size` is 3",
        ),
        (
            Request { vocal_language: Some("klingon".into()), ..r() },
            "`--vocal-language klingon` is not a language the model knows",
        ),
        (
            Request { task_type: Some("repaint".into()), ..r() },
            "`--task-type repaint` needs a song to start from",
        ),
        (
            Request { instrumental: Some(true), lyrics: Some("la".into()), ..r() },
            "`--instrumental` and lyrics exclude each other",
        ),
        (
            Request { caption: Some("  ".into()), lyrics: Some("\n".into()), ..r() },
            "there is nothing to sing or play: caption and lyrics are both empty",
        ),
        (
            Request { rng: Some("dice".into()), ..r() },
            "`--rng dice` cannot be used: use philox, philox:THREADS (H100: philox:270336) or mt19937",
        ),
    ] {
        assert_eq!(refusal(asked), message);
    }
}

#[test]
fn an_instrumental_has_its_marker_and_empty_lyrics_stay_empty() {
    let (plan, _) = resolve(Request { instrumental: Some(true), ..request() }, turbo());
    assert_eq!(plan.lyrics, "[Instrumental]");
    assert_eq!(resolve(request(), turbo()).0.lyrics, "");
}

#[test]
fn long_texts_and_odd_keys_are_said_but_taken() {
    let asked =
        Request { caption: Some("x".repeat(512)), keyscale: Some("C dorian".into()), ..request() };
    let (plan, notices) = resolve(asked, turbo());
    assert_eq!(plan.metas.keyscale.as_deref(), Some("C dorian"));
    assert_eq!(
        notices,
        [
            "the caption of 512 characters may be too long: the model reads 256 tokens",
            "the key `C dorian` does not look like `F# minor` or `C major`; the model gets it as it is",
        ]
    );
}

#[test]
fn one_request_and_seed_is_one_plan() {
    assert_eq!(resolve(request(), base()), resolve(request(), base()));
}

mod tasks {
    use std::sync::Arc;

    use super::*;
    use crate::{
        exchange::Array3,
        plan::{Added, MaskMode, Task},
        sounds::{Sound, Sounds},
    };

    /// So many seconds of something.
    fn given(seconds: f64) -> Sounds {
        let samples = (seconds * 48_000.0) as usize;
        let audio = Audio { channels: vec![vec![0.5; samples]; 2], sample_rate: 48_000 };
        Sounds { source: Some(Sound::Audio(Arc::new(audio))), references: vec![] }
    }

    #[test]
    fn own_times_of_an_edit_end_at_zero_whatever_they_say() {
        let edit = Request {
            timesteps: Some(vec![0.97, 0.5, 0.2]),
            flow_edit_morph: Some(true),
            flow_edit_source_caption: Some("rain".into()),
            ..request()
        };
        let (plan, notices) = Plan::with_sounds(&edit, &base(), &given(10.0)).expect("a plan");
        assert_eq!((plan.timesteps, plan.terminal), (vec![0.97, 0.5, 0.2], 0.0));
        let text = "an edit ends at time 0: a step from 0.2 is added";
        assert_eq!(notices.last(), Some(&Notice(text.into())), "{notices:?}");
        assert!(!notices.iter().any(|notice| notice.0.contains("sampling stops")));
    }

    fn task(name: &str) -> Request {
        Request { task_type: Some(name.into()), duration: None, ..request() }
    }

    fn planned(request: &Request, model: ModelInfo, seconds: f64) -> (Plan, Vec<String>) {
        let (plan, notices) = Plan::with_sounds(request, &model, &given(seconds)).expect("a plan");
        (plan, notices.into_iter().map(|notice| notice.0).collect())
    }

    #[test]
    fn the_source_decides_the_length_and_the_prompt_states_it() {
        let asked = Request { duration: Some(30.0), ..task("cover") };
        let (plan, notices) = planned(&asked, turbo(), 7.97);
        assert_eq!((plan.task, plan.frames, plan.samples()), (Task::Cover, 199, 382_080));
        assert!(
            plan.caption_prompt.contains("# Instruction\nGenerate audio semantic tokens based")
        );
        assert!(plan.caption_prompt.contains("- duration: 7 seconds\n"));
        assert_eq!(notices, ["the source decides the length: 7.97 s instead of 30 s"]);
        assert!(plan.is_cover() && plan.loudness == Loudness::Peak(-1.0));
        let (plan, _) = planned(&task("cover_nofsq"), turbo(), 7.97);
        assert!(plan.task == Task::CoverNofsq && !plan.is_cover());
        assert!(plan.instruction.starts_with("Generate audio semantic tokens"));
    }

    /// Golden `e2e.repaint`: 1.2 s to 3.4 s of 5.3 s are frames 30 to 85.
    #[test]
    fn a_region_is_cut_to_whole_frames() {
        let asked =
            Request { repainting_start: Some(1.2), repainting_end: Some(3.4), ..task("repaint") };
        let (plan, notices) = planned(&asked, turbo(), 5.3);
        assert_eq!(notices, Vec::<String>::new());
        assert_eq!((plan.frames, plan.padded_frames), (132, 132));
        let (seam, source) = plan.seam().expect("a region in a song");
        assert_eq!((seam.region, seam.source_start), (57_600..163_200, 0));
        assert_eq!((seam.ramp, source.samples()), (1200, 254_400));
        let region = plan.region.expect("a region");
        assert_eq!(region.frames, 30..85);
        // 12.5 is halfway: to the even neighbour.
        let repaint = Repaint { injection_ratio: 0.5, crossfade_frames: 12, crossfade_s: 0.025 };
        assert_eq!(region.repaint, repaint);
        assert_eq!(plan.instruction, crate::prompt::REPAINT);
        // What stays keeps its loudness.
        assert_eq!(plan.loudness, Loudness::AsIs);
    }

    #[test]
    fn a_region_beyond_the_ends_makes_the_song_longer() {
        let asked =
            Request { repainting_start: Some(-2.5), repainting_end: Some(0.0), ..task("repaint") };
        let (plan, _) = planned(&asked, turbo(), 6.0);
        assert_eq!(plan.added, Added { before: 120_000, after: 0 });
        assert_eq!((plan.frames, plan.duration_s), (212, 8.5));
        assert_eq!(plan.region.as_ref().map(|region| region.frames.clone()), Some(0..62));
        assert_eq!(plan.seam().map(|(seam, _)| seam.region), Some(0..120_000));
        assert!(plan.caption_prompt.contains("- duration: 6 seconds\n"));

        let asked =
            Request { repainting_start: Some(6.0), repainting_end: Some(9.0), ..task("repaint") };
        let (plan, notices) = planned(&asked, turbo(), 6.0);
        assert_eq!(plan.added, Added { before: 0, after: 144_000 });
        assert_eq!(plan.region.as_ref().map(|region| region.frames.clone()), Some(150..225));
        assert_eq!(notices, Vec::<String>::new());
        let asked = Request { repainting_start: Some(7.0), ..asked };
        let (_, notices) = planned(&asked, turbo(), 6.0);
        assert!(notices[0].starts_with("the region begins 1.00 s after the end of the source"));
    }

    #[test]
    fn a_repaint_without_a_region_makes_everything_anew_and_says_so() {
        let (plan, notices) = planned(&task("repaint"), turbo(), 6.0);
        assert_eq!(plan.region.as_ref().map(|region| region.frames.clone()), Some(0..150));
        assert!(notices[0].starts_with("the whole song is made anew"), "{notices:?}");
        // Nothing stays, so nothing has a loudness to keep.
        assert_eq!(plan.loudness, Loudness::Peak(-1.0));
        let asked =
            Request { repainting_start: Some(3.0), repainting_end: Some(2.0), ..task("repaint") };
        let error = Plan::with_sounds(&asked, &turbo(), &given(6.0)).expect_err("no region");
        assert_eq!(error.to_string(), "the region ends at 2 s, but begins at 3 s");
        let asked = Request { repainting_end: Some(599.9), ..task("repaint") };
        let asked = Request { repainting_start: Some(-10.0), ..asked };
        let error = Plan::with_sounds(&asked, &turbo(), &given(6.0)).expect_err("too long");
        assert_eq!(error.to_string(), "the song would be 609.9 s long, but 600 s is the most");
    }

    #[test]
    fn a_region_has_a_frame_at_least_and_an_end_that_is_one() {
        let refused = |start: f64, end: f64| {
            let asked = Request {
                repainting_start: Some(start),
                repainting_end: Some(end),
                ..task("repaint")
            };
            Plan::with_sounds(&asked, &turbo(), &given(5.5)).expect_err("no region").to_string()
        };
        assert!(
            refused(1.0, 1.001).starts_with("from 1 s to 1.001 s there is no whole latent frame")
        );
        // The last whole frame ends at 5.48 s.
        assert!(refused(5.48, 5.5).contains("no whole latent frame"));
        assert!(refused(1.0, -2.0).starts_with("`--repainting-end -2` is out of range"));
        assert!(refused(1.0, f64::NAN).starts_with("`--repainting-end NaN` is out of range"));
        // Of what cannot be heard in the result nothing is refused.
        let asked = Request { repainting_start: Some(1.16), ..task("repaint") };
        let (plan, _) = planned(&asked, turbo(), 5.5);
        assert_eq!(plan.region.as_ref().map(|region| region.frames.clone()), Some(29..137));
        assert_eq!(plan.heard_samples(), 137 * 1920);
        let asked = Request { repainting_end: Some(5.48), ..task("repaint") };
        assert_eq!(planned(&asked, turbo(), 5.5).0.heard_samples(), 264_000);
    }

    #[test]
    fn settings_of_a_repaint_are_checked_and_said_whatever_the_task() {
        let asked = Request { repaint_mode: Some("bogus".into()), ..task("cover") };
        assert!(Plan::with_sounds(&asked, &turbo(), &given(6.0)).is_err());
        let asked = Request { repaint_strength: Some(0.9), ..task("cover") };
        let (_, notices) = planned(&asked, turbo(), 6.0);
        assert_eq!(notices, ["how a repaint meets its surroundings has no effect on `cover`"]);
    }

    #[test]
    fn modes_of_a_repaint_are_upstreams() {
        let of = |mode: &str, strength: f64| {
            let asked = Request {
                repaint_mode: Some(mode.into()),
                repaint_strength: Some(strength),
                repaint_latent_crossfade_frames: Some(7),
                repaint_wav_crossfade_sec: Some(0.2),
                repainting_end: Some(1.0),
                ..task("repaint")
            };
            let (plan, notices) = planned(&asked, turbo(), 6.0);
            let Repaint { injection_ratio, crossfade_frames, crossfade_s } =
                plan.region.expect("a region").repaint;
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
        let asked = Request { track_name: Some("Drums".into()), ..task("extract") };
        let refused = |request: &Request, model: ModelInfo, sounds: &Sounds| {
            Plan::with_sounds(request, &model, sounds).expect_err("a refusal").to_string()
        };
        assert_eq!(
            refused(&asked, turbo(), &given(6.0)),
            "turbo cannot do `extract`: only base and sft models were trained for it"
        );
        assert_eq!(
            refused(&asked, base(), &Sounds::default()),
            "`--task-type extract` needs a song to start from"
        );
        assert_eq!(
            refused(&task("lego"), base(), &given(6.0)),
            "`--task-type lego` needs the name of a track"
        );
        let (plan, notices) = planned(&asked, base(), 6.0);
        assert_eq!(plan.instruction, "Extract the DRUMS track from the audio:");
        assert!(notices.is_empty() && plan.region.is_none());
        let spaced = Request { track_name: Some("backing vocals".into()), ..asked.clone() };
        let instruction = planned(&spaced, base(), 6.0).0.instruction;
        assert_eq!(instruction, "Extract the BACKING_VOCALS track from the audio:");
        let odd = Request { track_name: Some("theremin".into()), ..asked };
        assert!(planned(&odd, base(), 6.0).1[0].contains("does not know the track `theremin`"));
        let both = Request { track_name: Some("drums | bass".into()), ..task("complete") };
        let (plan, notices) = planned(&both, base(), 6.0);
        assert_eq!(plan.instruction, "Complete the input track with DRUMS | BASS:");
        assert_eq!(notices, Vec::<String>::new());
    }

    #[test]
    fn lego_has_a_region_only_if_it_is_asked_for() {
        let asked = Request { track_name: Some("bass".into()), ..task("lego") };
        let whole =
            Request { repainting_start: Some(0.0), repainting_end: Some(-1.0), ..asked.clone() };
        assert_eq!(planned(&whole, base(), 6.0).0.region, None);
        let part = Request { repainting_end: Some(2.0), ..asked };
        let (plan, _) = planned(&part, base(), 6.0);
        assert_eq!(plan.region.map(|region| region.frames), Some(0..50));
    }

    #[test]
    fn codes_win_over_a_source_and_go_with_no_region() {
        let coded = |name: &str| Request { audio_codes: Some(vec![vec![7; 10]]), ..task(name) };
        let (plan, notices) = planned(&coded("cover"), turbo(), 6.0);
        assert!(plan.source.is_none() && plan.has_codes() && plan.frames == 50);
        assert_eq!(notices, ["the source is not used: there are audio codes, which win"]);
        let error = Plan::with_sounds(&coded("repaint"), &turbo(), &given(6.0));
        assert!(matches!(error, Err(Error::Conflict(_))));
    }

    #[test]
    fn text2music_takes_no_source_and_says_so() {
        let asked = Request { duration: Some(10.0), ..task("text2music") };
        let (plan, notices) = planned(&asked, turbo(), 6.0);
        assert!(plan.source.is_none() && plan.frames == 250);
        assert!(notices[0].starts_with("the source is not used: text2music takes none"));
        let unknown = Request { task_type: Some("remix".into()), ..asked };
        let error = Plan::resolve(&unknown, &turbo()).expect_err("no task").to_string();
        assert!(error.starts_with("`--task-type remix` cannot be used: use text2music"), "{error}");
    }

    #[test]
    fn auto_of_upstreams_files_is_explicit() {
        for (name, mode) in [
            ("auto", MaskMode::Explicit),
            ("explicit", MaskMode::Explicit),
            ("ones", MaskMode::Ones),
            ("twos", MaskMode::Twos),
        ] {
            let asked = Request { chunk_mask_mode: Some(name.into()), ..request() };
            assert_eq!(resolve(asked, turbo()).0.mask_mode, mode);
        }
    }

    #[test]
    fn latents_are_a_source_without_a_seam() {
        let latents = Array3::new([1, 200, 64], vec![0.5; 200 * 64]);
        let source = Sound::latents(latents, &turbo()).expect("turbo's");
        let sounds = Sounds { source: Some(source), references: vec![] };
        let asked = Request { repainting_start: Some(4.0), ..task("repaint") };
        let (plan, _) = Plan::with_sounds(&asked, &turbo(), &sounds).expect("a plan");
        assert_eq!((plan.frames, plan.seam()), (200, None));
        assert_eq!(plan.region.map(|region| region.frames), Some(100..200));
        let other = Array3::new([1, 2, 8], vec![0.5; 16]);
        assert!(Sound::latents(other, &turbo()).is_err());
    }
}
