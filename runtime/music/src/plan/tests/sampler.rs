//! Steps, solvers, guidance, smoothing and correction.

use super::*;

#[test]
fn turbo_takes_eight_steps_of_shift_3_without_guidance() {
    let (plan, notices) = resolve(request(), turbo());
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!(
        (plan.steps(), plan.sampling.timesteps[1], plan.sampling.terminal),
        (8, 0.954_545_44, 0.0)
    );
    assert_eq!(plan.sampling.shift, Some(3.0));
    assert_eq!(plan.sampling.guidance, None);
    assert_eq!(plan.sampler.solver, Solver::Euler);
    assert_eq!((plan.output.loudness, plan.output.fades()), (Loudness::Peak(-1.0), (0.0, 0.0)));
    assert_eq!(
        (plan.length.frames, plan.length.padded_frames, plan.samples()),
        (250, 250, 480_000)
    );
    assert_eq!(plan.noise.seeds, [7]);
}

#[test]
fn a_solver_has_upstreams_two_names_or_acestep_cpps_one() {
    use Solver::{Dpm3m, Euler, Heun, Stork4};
    let (of_schedule, even) = (Solver::Sde(SdeTimes::Schedule), Solver::Sde(SdeTimes::Even));
    for (json, of_turbo, of_base) in [
        (r#"{"infer_method": "ode", "sampler_mode": "euler"}"#, Euler, Euler),
        (r#"{"sampler_mode": "heun"}"#, Heun, Heun),
        (r#"{"infer_method": "sde"}"#, of_schedule, even),
        (r#"{"solver": "euler"}"#, Euler, Euler),
        (r#"{"infer_method": "sde", "solver": "sde"}"#, of_schedule, of_schedule),
        (r#"{"infer_method": "ode", "solver": "dpm3m"}"#, Dpm3m, Dpm3m),
        (r#"{"sampler_mode": "euler", "solver": "stork4"}"#, Stork4, Stork4),
    ] {
        let solver = |model| resolve(request_of(json), model).0.sampler.solver;
        assert_eq!((solver(turbo()), solver(base())), (of_turbo, of_base), "{json}");
    }
    for (solver, other) in [("dpm3m", "sampler_mode: heun"), ("euler", "infer_method: sde")] {
        let (key, value) = other.split_once(": ").expect("a setting");
        let message = refusal(request_of(&json!({ "solver": solver, key: value }).to_string()));
        let expected =
            format!("`solver: {solver}` and `{other}` name two solvers; use one of them");
        assert_eq!(message, expected);
    }
    assert_eq!(
        refusal(request_of(r#"{"solver": "rk4"}"#)),
        "`solver: rk4` cannot be used: use euler, sde, dpm3m or stork4"
    );
}

#[test]
fn settings_of_the_sampler_without_effect_are_said() {
    let said = |request: Request| resolve(request, base()).1;
    let sde = request_of(r#"{"infer_method": "sde", "sampler_mode": "heun"}"#);
    assert_eq!(said(sde), ["`sampler_mode: heun` has no effect with `infer_method: sde`"]);
    let substeps = |solver: Option<&str>, n| {
        said(request().with(|r| {
            r.sampler.solver = solver.map(Into::into);
            r.sampler.stork_substeps = Some(n);
        }))
    };
    assert_eq!(substeps(Some("stork4"), 10), Vec::<String>::new());
    assert!(substeps(Some("stork4"), 20)[0].contains("the exact integral"));
    assert!(substeps(None, 20)[0].contains("it belongs to the solver stork4"));
    let retake = request_of(r#"{"retake_seed": [1]}"#);
    assert_eq!(said(retake), ["`retake_seed` has no effect without `retake_variance`"]);
    let both = |mode: &str| {
        request().with(|r| {
            r.sampling.use_adg = Some(true);
            r.sampling.guidance_mode = Some(mode.into());
        })
    };
    assert_eq!(said(both("cfg")), ["`use_adg` has no effect: `guidance_mode: cfg` is given"]);
    assert_eq!(said(both("adg_w_norm")), Vec::<String>::new());
}

#[test]
fn guidance_has_upstreams_names() {
    let mode =
        |request: Request| resolve(request, base()).0.sampling.guidance.expect("guided").mode;
    for (name, expected) in [
        ("apg", GuidanceMode::Apg),
        ("apg_classic", GuidanceMode::Apg),
        ("cfg", GuidanceMode::Cfg),
        ("adg", GuidanceMode::Adg),
        ("adg_w_norm", GuidanceMode::AdgWithNorm),
        ("adg_wo_clip", GuidanceMode::AdgWithoutClip),
    ] {
        assert_eq!(
            mode(request().with(|r| r.sampling.guidance_mode = Some(name.into()))),
            expected
        );
    }
    assert_eq!(mode(request_of(r#"{"use_adg": true}"#)), GuidanceMode::Adg);
    let named = request_of(r#"{"use_adg": true, "guidance_mode": "cfg"}"#);
    assert_eq!(mode(named), GuidanceMode::Cfg);
    // Upstream `generate_audio`: beside `use_adg` its default gives way, `apg` does not.
    let ticked = request_of(r#"{"use_adg": true, "guidance_variant": "apg_classic"}"#);
    assert_eq!(mode(ticked.clone()), GuidanceMode::Adg);
    for (name, expected) in [("apg_classic", GuidanceMode::Adg), ("apg", GuidanceMode::Apg)] {
        let named = ticked.clone().with(|r| r.sampling.guidance_mode = Some(name.into()));
        assert_eq!(mode(named), expected, "{name}");
    }
    let (plan, notices) = resolve(request_of(r#"{"use_adg": true}"#), turbo());
    assert_eq!(plan.sampling.guidance, None);
    assert!(notices[0].contains("`guidance_mode: adg` is not used"), "{notices:?}");
}

/// Upstream's defaults with `dcw_enabled`, acestep.cpp's with only a strength.
#[test]
fn the_correction_is_off_unless_either_programs_way_asks_for_it() {
    let dcw = |request| {
        let (plan, notices) = resolve(request, turbo());
        (plan.sampler.dcw, notices.len())
    };
    let with = |mode, scaler, high_scaler| Some(Dcw { mode, scaler, high_scaler });
    let upstreams = with(DcwMode::Double, 0.05, 0.02);
    for (json, expected, notices) in [
        ("{}", None, 0),
        (r#"{"dcw_mode": "low"}"#, None, 1),
        (r#"{"dcw_wavelet": "haar"}"#, None, 1),
        // acestep.cpp's defaults.
        (r#"{"dcw_mode": "low", "dcw_scaler": 0, "dcw_high_scaler": 0}"#, None, 0),
        (r#"{"dcw_enabled": true}"#, upstreams, 1),
        (r#"{"dcw_scaler": 0.1}"#, with(DcwMode::Low, 0.1, 0.0), 1),
        (r#"{"dcw_enabled": true, "dcw_mode": "high", "dcw_scaler": 0}"#, None, 1),
        // The strength of another mode: the correction is on, with a second notice.
        (r#"{"dcw_scaler": 0.1, "dcw_high_scaler": 0.2}"#, with(DcwMode::Low, 0.1, 0.2), 2),
        (r#"{"dcw_high_scaler": 0.2}"#, None, 2),
        // acestep.cpp does not correct stochastic steps, upstream does.
        (r#"{"solver": "sde", "dcw_scaler": 0.1}"#, None, 1),
        (r#"{"solver": "sde", "dcw_enabled": true}"#, upstreams, 1),
    ] {
        assert_eq!(dcw(request_of(json)), (expected, notices), "{json}");
    }
    // A request file with both is read without the strength.
    let off = request().with(|r| {
        (r.sampler.dcw_enabled, r.sampler.dcw_scaler) = (Some(false), Some(0.1));
    });
    assert_eq!(dcw(off), (None, 0));
    assert_eq!(
        refusal(request_of(r#"{"dcw_enabled": true, "dcw_wavelet": "db4"}"#)),
        "`dcw_wavelet: db4` cannot be used: of the wavelets only haar is built"
    );
}

#[test]
fn a_retake_is_the_same_noise_turned_to_another() {
    let retake = |variance, seeds: Option<Vec<u64>>| {
        request().with(|r| {
            r.words.duration = Some(6.0);
            r.noise.retake_variance = Some(variance);
            r.noise.retake_seed = seeds;
            r.noise.batch_size = Some(2);
        })
    };
    let (plain, _) = resolve(retake(0.0, None), turbo());
    let (other, _) = resolve(retake(0.0, None).with(|r| r.noise.seed = Some(vec![40])), turbo());
    let (half, notices) = resolve(retake(0.5, Some(vec![40])), turbo());
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!(half.noise.retake, Some(Retake { seeds: vec![40, 41], variance: 0.5 }));
    let expected = (plain.initial_noise(1)[5] + other.initial_noise(1)[5]) * 0.5f32.sqrt();
    assert!((half.initial_noise(1)[5] - expected).abs() < 1e-6);
    let (drawn, _) = resolve(retake(0.5, None), turbo());
    assert_eq!(drawn.noise.retake.expect("a retake").seeds.len(), 2);
    let three = refusal(retake(0.5, Some(vec![1, 2, 3])));
    assert_eq!(
        three,
        "`retake_seed` has 3 seeds, but there are 2 songs: give one seed, or one for each"
    );
}

/// The last three of turbo's eight times are 9/14 and below.
#[test]
fn a_kept_source_leaves_fewer_steps() {
    let request = request().with(|r| {
        r.source.audio_codes = Some(vec![vec![5; 50]]);
        r.source.cover_noise_strength = Some(0.4);
        r.source.audio_cover_strength = Some(0.5);
        r.words.duration = None;
    });
    let (plan, notices) = resolve(request.clone(), turbo());
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!((plan.sampling.timesteps.len(), plan.steps(), plan.cover_steps()), (8, 3, 1));
    assert_eq!(plan.steps_to_take().steps[0].t, 9.0 / 14.0);
    let alone = request.with(|r| {
        r.source.audio_codes = None;
        r.words.duration = Some(10.0);
    });
    let (plan, notices) = resolve(alone.with(|r| r.source.audio_cover_strength = None), turbo());
    assert_eq!((plan.steps(), plan.source.cover_noise_strength), (8, 0.0));
    assert_eq!(notices, ["`cover_noise_strength` has no effect: there is no source to start from"]);
}

#[test]
fn smoothing_and_the_adjustment_of_latents_are_off_at_upstreams_zeros() {
    let zeros = request_of(
        r#"{"velocity_norm_threshold": 0, "velocity_ema_factor": 0, "latent_shift": 0,
            "latent_rescale": 1}"#,
    );
    let (plan, _) = resolve(zeros, base());
    assert_eq!(plan.sampler.smoothing, Smoothing::default());
    assert_eq!((plan.output.latent_rescale, plan.output.latent_shift), (1.0, 0.0));
    let set = request_of(r#"{"velocity_norm_threshold": 2, "velocity_ema_factor": 0.1}"#);
    let (plan, _) = resolve(set, base());
    let expected = Smoothing { norm_threshold: Some(2.0), ema_factor: Some(0.1) };
    assert_eq!((plan.sampler.smoothing, plan.steps_to_take().smoothing), (expected, expected));
}

#[test]
fn base_takes_fifty_steps_with_projected_guidance_of_7() {
    let (plan, notices) = resolve(request(), base());
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!((plan.steps(), plan.sampling.timesteps[1], plan.sampling.terminal), (50, 0.98, 0.0));
    assert_eq!(plan.sampling.shift, Some(1.0));
    let expected = Guidance { scale: 7.0, mode: GuidanceMode::Apg, interval: (0.0, 1.0) };
    assert_eq!(plan.sampling.guidance, Some(expected));
}

#[test]
fn a_model_may_say_which_guidance_it_is_made_for() {
    let small = || ModelInfo { guidance_scale: 4.0, ..base() };
    let scale = |asked| {
        let (plan, _) = resolve(request().with(|r| r.sampling.guidance_scale = asked), small());
        plan.sampling.guidance.map(|guidance| guidance.scale)
    };
    assert_eq!([scale(None), scale(Some(6.0)), scale(Some(1.0))], [Some(4.0), Some(6.0), None]);
    let (plan, _) = resolve(request(), ModelInfo { is_turbo: true, ..small() });
    assert_eq!(plan.sampling.guidance, None);
}

/// Settings of guidance without effect cause a notice.
#[test]
fn guidance_that_is_not_there_has_no_interval() {
    let asked = |scale| {
        request().with(|r| {
            r.sampling.cfg_interval_end = Some(0.5);
            r.sampling.guidance_scale = scale;
            r.sampling.guidance_mode = Some("cfg".into());
        })
    };
    let said = |request, model: ModelInfo| {
        let (plan, notices) = resolve(request, model);
        assert_eq!(plan.sampling.guidance, None);
        notices
    };
    let of_turbo = said(asked(None), turbo());
    assert!(of_turbo[0].ends_with("no guidance; its interval is not used"), "{of_turbo:?}");
    let of_base = said(asked(Some(1.0)), base());
    assert_eq!(
        of_base,
        ["`guidance_scale: 1` is no guidance: its mode and interval have no effect"]
    );
    assert_eq!(said(request_of(r#"{"guidance_scale": 1}"#), base()), [""; 0]);
}

#[test]
fn own_times_of_base_end_where_they_say_and_of_turbo_snap() {
    let asked = || request_of(r#"{"timesteps": [0.97, 0.5, 0.2]}"#);
    let (plan, notices) = resolve(asked(), base());
    assert_eq!(
        (plan.sampling.timesteps, plan.sampling.terminal, plan.sampling.shift),
        (vec![0.97, 0.5], 0.2, None)
    );
    assert!(notices[0].starts_with("sampling stops at time 0.2"), "{notices:?}");
    let (plan, notices) = resolve(asked(), turbo());
    assert_eq!(plan.sampling.timesteps, [0.954_545_44, 0.5, 0.222_222_22]);
    assert_eq!(
        notices,
        ["turbo knows 20 times; the nearest ones are used: 0.9545, 0.5000, 0.2222"]
    );
}
