mod refusals;
mod sampler;
mod tasks;

use acestep_engine::audio::loudness::Loudness;
use serde_json::json;

use super::*;
use crate::{
    flow::{
        dcw::{Dcw, DcwMode},
        smoothing::Smoothing,
        solver::SdeTimes,
    },
    prompt,
    request::Noise,
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
        guidance_scale: 7.0,
    }
}

fn base() -> ModelInfo {
    ModelInfo { name: "base".into(), is_turbo: false, ..turbo() }
}

/// A request that causes no notice.
fn request() -> Request {
    request_of("{}")
}

/// The same with other keys, as in a request file; null = not given.
fn request_of(keys: &str) -> Request {
    let mut object = crate::request::object(keys).expect(keys);
    let usual = [("caption", json!("calm piano")), ("duration", json!(10)), ("seed", json!(7))];
    for (key, value) in usual {
        object.entry(key).or_insert(value);
    }
    Request::from_object(object).expect(keys).0
}

/// A request with `count` codes for one song.
fn with_codes(count: usize, keys: &str) -> Request {
    request_of(keys).with(|r| r.source.audio_codes = Some(vec![vec![5; count]]))
}

fn resolve(request: Request, model: ModelInfo) -> (Plan, Vec<String>) {
    let (plan, notices) = Plan::resolve(&request, &model).expect("a plan");
    (plan, notices.into_iter().map(|notice| notice.0).collect())
}

fn refusal(request: Request) -> String {
    Plan::resolve(&request, &base()).expect_err("a refusal").to_string()
}

/// As in acestep.cpp, diffusers, and upstream since April 2026. The second of 20 times is
/// `2.4 * 0.95 / (1 + 1.4 * 0.95)`.
#[test]
fn turbo_takes_the_steps_and_the_shift_that_are_asked_for_and_no_guidance() {
    let asked = request_of(r#"{"inference_steps": 20, "guidance_scale": 4.5, "shift": 2.4}"#);
    let (plan, notices) = resolve(asked.clone(), turbo());
    assert_eq!(
        (plan.steps(), plan.sampling.timesteps[1], plan.sampling.shift),
        (20, (2.28f64 / 2.33) as f32, Some(2.4))
    );
    assert_eq!(
        notices,
        [
            "turbo is distilled to 8 steps; `inference_steps: 20` is used as asked",
            "turbo is distilled to need no guidance; `guidance_scale: 4.5` is not used",
        ]
    );
    assert_eq!(resolve(plan.to_request(&asked), turbo()).0.sampling, plan.sampling);
}

#[test]
fn the_prompts_state_what_was_asked() {
    let asked = request_of(
        r#"{"lyrics": "la", "bpm": 83, "keyscale": "G major", "timesignature": "4",
            "duration": 33.7, "vocal_language": "FR"}"#,
    );
    let (plan, _) = resolve(asked, turbo());
    assert_eq!(
        plan.words.caption_prompt,
        "# Instruction\nFill the audio semantic mask based on the given conditions:\n\n\
         # Caption\ncalm piano\n\n# Metas\n- bpm: 83\n- timesignature: 4\n- keyscale: G major\n\
         - duration: 33 seconds\n<|endoftext|>\n"
    );
    assert_eq!(plan.words.lyric_prompt, "# Languages\nfr\n\n# Lyric\nla<|endoftext|>");
}

#[test]
fn a_prompt_as_a_caption_is_unwrapped_and_that_is_said() {
    let caption = "# Instruction\nx\n\n# Caption\ncalm\n\n# Metas\n- bpm: 9\n".to_owned();
    let (plan, notices) = resolve(request().with(|r| r.words.caption = Some(caption)), turbo());
    assert!(plan.words.caption_prompt.contains("\n# Caption\ncalm\n\n# Metas\n- bpm: N/A\n"));
    assert_eq!(notices, ["the caption is a whole prompt: its section `# Caption` is read alone"]);
}

#[test]
fn without_a_duration_it_is_half_a_minute_and_that_is_said() {
    let (plan, notices) = resolve(request_of(r#"{"duration": null}"#), turbo());
    assert_eq!((plan.length.duration_s, plan.length.frames), (30.0, 750));
    assert_eq!(notices, ["no duration given, making 30 s"]);
}

/// The request of acestep.cpp's reference run: 434 codes and 88 s give 86.8 s.
#[test]
fn codes_win_over_the_duration() {
    let (plan, notices) = resolve(with_codes(434, r#"{"duration": 88}"#), turbo());
    assert_eq!(
        (plan.length.duration_s, plan.length.frames, plan.samples()),
        (86.8, 2170, 4_166_400)
    );
    assert_eq!(notices, ["the audio codes decide the length: 86.8 s instead of 88 s"]);
    assert!(plan.source.has_codes() && !plan.source.is_cover());
    assert_eq!(plan.source.instruction, prompt::COVER);
    assert!(plan.words.caption_prompt.contains("- duration: 88 seconds\n"));
}

#[test]
fn codes_alone_decide_the_length_without_a_word() {
    let (plan, notices) = resolve(with_codes(50, r#"{"duration": null}"#), turbo());
    assert_eq!(plan.length.frames, 250);
    assert!(plan.words.caption_prompt.contains("- duration: 10 seconds\n"));
    assert!(notices.is_empty());
}

#[test]
fn the_default_instruction_gives_way_to_codes_and_an_own_one_does_not() {
    let with = |instruction: &str| {
        let asked = with_codes(50, &json!({ "instruction": instruction }).to_string());
        resolve(asked, turbo()).0.source.instruction
    };
    assert_eq!(with(prompt::TEXT_TO_MUSIC), prompt::COVER);
    assert_eq!(with("Hum it"), "Hum it");
}

#[test]
fn a_cover_strength_below_1_brings_a_second_prompt() {
    let (plan, _) = resolve(with_codes(50, r#"{"audio_cover_strength": 0.3}"#), turbo());
    assert_eq!(plan.cover_steps(), 2);
    assert!(plan.words.non_cover_prompt.expect("a prompt").contains(prompt::TEXT_TO_MUSIC));
    assert!(plan.words.caption_prompt.contains(prompt::COVER));
    assert_eq!(resolve(request(), turbo()).0.words.non_cover_prompt, None);
}

/// In f32 the strength 0.7 would be slightly less, and give 34 of 50 steps.
#[test]
fn a_cover_strength_is_not_rounded_on_its_way() {
    let asked = with_codes(50, r#"{"audio_cover_strength": 0.7}"#);
    assert_eq!(resolve(asked, base()).0.cover_steps(), 35);
}

#[test]
fn codes_beyond_the_models_own_codebook_count_as_its_last() {
    let asked = || {
        let codes = vec![vec![3, 64_000, 99, u32::MAX]];
        request_of(r#"{"duration": null}"#).with(|r| r.source.audio_codes = Some(codes))
    };
    let (plan, notices) = resolve(asked(), turbo());
    assert_eq!(plan.source.codes, [[3, 63_999, 99, 63_999]]);
    assert_eq!(notices, ["2 of 4 audio codes were above 63999 and count as 63999"]);
    let (plan, notices) = resolve(asked(), ModelInfo { codes: 64, ..turbo() });
    assert_eq!(plan.source.codes, [[3, 63, 63, 63]]);
    assert_eq!(notices, ["3 of 4 audio codes were above 63 and count as 63"]);
}

#[test]
fn several_outlines_are_as_many_songs() {
    let asked = |songs: usize, batch_size, seed: Vec<u64>| {
        request().with(|r| {
            r.source.audio_codes = Some(vec![vec![5; 10]; songs]);
            r.words.duration = None;
            r.noise.batch_size = batch_size;
            r.noise.seed = Some(seed);
        })
    };
    let songs = |request| {
        let plan = resolve(request, turbo()).0;
        (plan.source.codes.len(), plan.source.codes_per_song(), plan.noise.seeds)
    };
    assert_eq!(songs(asked(3, None, vec![7])), (3, 10, vec![7, 8, 9]));
    assert_eq!(songs(asked(2, Some(2), vec![7])), (2, 10, vec![7, 8]));
    assert_eq!(songs(asked(2, None, vec![4, 9])), (2, 10, vec![4, 9]));
    // One list for all songs.
    assert_eq!(songs(asked(1, Some(2), vec![7])), (1, 10, vec![7, 8]));
    let none = request().with(|r| r.source.audio_codes = Some(vec![vec![], vec![]]));
    assert_eq!(songs(none), (0, 0, vec![7]));
}

#[test]
fn lyrics_that_cannot_be_sung_in_time_are_said() {
    let asked = request().with(|r| r.words.lyrics = Some("la ".repeat(50)));
    let (_, notices) = resolve(asked, turbo());
    assert_eq!(
        notices,
        ["the lyrics take 12 s even if they are rapped fast, but the song has 10 s: not all of \
             them will be sung"]
    );
    let asked = request().with(|r| r.words.lyrics = Some("la ".repeat(45)));
    assert_eq!(resolve(asked, turbo()).1, Vec::<String>::new());
}

#[test]
fn tiles_that_are_cut_or_can_be_heard_are_said() {
    let with = |chunk: u32, overlap: u32, duration: f64| {
        let asked =
            json!({ "vae_chunk": chunk, "vae_overlap": overlap, "duration": duration }).to_string();
        let asked = request_of(&asked);
        let (plan, notices) = resolve(asked, turbo());
        (plan.tiling.chunk, plan.tiling.overlap, notices)
    };
    let fit = "a VAE overlap of 64 frames does not fit into chunks of 100; it counts as 32";
    assert_eq!(with(100, 64, 10.0), (100, 32, vec![fit.to_owned()]));
    let heard = "a VAE overlap of 8 frames can be heard where chunks meet; one of 9 cannot";
    assert_eq!(with(100, 8, 10.0), (100, 8, vec![heard.to_owned()]));
    assert_eq!(with(100, 9, 10.0), (100, 9, vec![]));
    // A single chunk meets no other.
    assert_eq!(with(250, 0, 10.0), (250, 0, vec![]));
}

#[test]
fn a_batch_counts_its_seeds_up_and_a_list_is_taken_as_it_is() {
    let seeds = |seed: Option<Vec<u64>>, batch_size| {
        let asked = Noise { seed, batch_size, ..Noise::default() };
        resolve(Request { noise: asked, ..request() }, turbo()).0.noise.seeds
    };
    assert_eq!(seeds(Some(vec![41]), Some(3)), [41, 42, 43]);
    assert_eq!(seeds(Some(vec![u64::MAX]), Some(2)), [u64::MAX, 0]);
    assert_eq!(seeds(Some(vec![9, 4]), None), [9, 4]);
    let drawn = seeds(None, Some(2));
    assert_eq!(drawn[1], drawn[0] + 1);
    assert!(drawn[0] <= u64::from(u32::MAX));
}

#[test]
fn an_instrumental_has_its_marker_and_empty_lyrics_stay_empty() {
    let (plan, _) = resolve(request_of(r#"{"instrumental": true}"#), turbo());
    assert_eq!(plan.words.lyrics, "[Instrumental]");
    assert_eq!(resolve(request(), turbo()).0.words.lyrics, "");
}

#[test]
fn long_texts_and_odd_keys_are_said_but_taken() {
    let asked = request().with(|r| {
        r.words.caption = Some("x".repeat(512));
        r.words.keyscale = Some("C dorian".into());
    });
    let (plan, notices) = resolve(asked, turbo());
    assert_eq!(plan.words.metas.keyscale.as_deref(), Some("C dorian"));
    assert_eq!(
        notices,
        [
            "the caption of 512 characters may be too long: the model reads 256 tokens",
            "the key `C dorian` does not look like `F# minor` or `C major`; the model gets it as it is",
        ]
    );
}

/// A saved request decides every value: shift and steps of turbo, times, guidance, noise, sound.
#[test]
fn the_request_of_a_plan_makes_it_again() {
    let word = |text: &str| Some(text.to_owned());
    for (asked, model) in [
        (Request { noise: Noise::default(), ..request() }, turbo()),
        (request_of(r#"{"shift": 1.7}"#), base()),
        (request_of(r#"{"timesteps": [1, 0.6, 0]}"#), base()),
        (request_of(r#"{"use_adg": true}"#), base()),
        (request().with(|r| r.sampler.infer_method = word("sde")), base()),
        (request().with(|r| r.sampler.solver = word("dpm3m")), turbo()),
        (request().with(|r| r.sampler.dcw_enabled = Some(true)), turbo()),
        (request_of(r#"{"retake_variance": 0.3}"#), turbo()),
        (request().with(|r| r.source.audio_codes = Some(vec![vec![5; 50]; 2])), turbo()),
        (request_of(r#"{"enable_normalization": false}"#), turbo()),
        (request_of(r#"{"lufs": -14.1}"#), turbo()),
        (request_of(r#"{"vae_chunk": 100}"#), turbo()),
        (request().with(|r| r.words.lyrics = word("la\r\nla")), turbo()),
    ] {
        let (plan, _) = resolve(asked.clone(), model.clone());
        let saved = plan.to_request(&asked);
        assert_eq!(resolve(saved, model).0, plan, "{asked:?}");
    }
}

/// `json!` alone would write 0.05 of an f32 as 0.05000000074505806.
#[test]
fn the_json_of_a_plan_has_the_keys_of_a_request_and_short_numbers() {
    let asked = request().with(|r| {
        r.sampler.dcw_enabled = Some(true);
        r.noise.retake_variance = Some(0.3);
        r.noise.retake_seed = Some(vec![9]);
        r.output.lufs = Some(-14.1);
        r.output.fade_in_duration = Some(0.05 * (1.0 - 0.7));
    });
    let json = resolve(asked, turbo()).0.to_json();
    let dcw = json!({"mode": "double", "scaler": 0.05, "high_scaler": 0.02});
    for (key, expected) in [
        ("caption", json!("calm piano")),
        ("task_type", json!("text2music")),
        ("duration", json!(10.0)),
        ("frames", json!(250)),
        ("audio_codes", json!(0)),
        ("cover_steps", json!(null)),
        ("inference_steps", json!(8)),
        ("infer_method", json!("ode")),
        ("solver", json!("euler")),
        ("dcw", dcw),
        ("retake", json!({"variance": 0.3, "seeds": [9]})),
        ("rng", json!("philox")),
        ("lufs", json!(-14.1)),
        ("fade_in_duration", json!(0.05 * (1.0 - 0.7))),
        ("normalization_db", json!(null)),
        ("vae_chunk", json!(512)),
        ("flow_edit", json!(null)),
        ("region", json!(null)),
    ] {
        assert_eq!(json[key], expected, "{key}");
    }
}
