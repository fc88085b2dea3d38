use acestep_engine::Notice;

use super::*;
use crate::lm::prompt::PromptStyle;

fn request_of(json: &str) -> Request {
    Request::from_json(json).expect(json).0
}

fn resolve(request: &Request) -> (LmSettings, Vec<Notice>) {
    let mut notices = Vec::new();
    let settings = request.language.plan(&request.words, &[7, 8], &mut notices).expect("settings");
    (settings, notices)
}

fn refusal(request: Request) -> String {
    let error =
        request.language.plan(&request.words, &[7], &mut Vec::new()).expect_err("a refusal");
    error.to_string()
}

#[test]
fn the_defaults_are_upstreams() {
    let expected = LmSettings {
        temperature: 0.85,
        cfg_scale: 2.0,
        top_k: None,
        top_p: Some(0.9),
        repetition_penalty: 1.0,
        negative_prompt: None,
        cot_metas: true,
        cot_caption: true,
        cot_language: true,
        constrained: true,
        prompt_style: PromptStyle::Open,
        max_tokens: None,
        max_seq: 8192,
        seeds: vec![7, 8],
    };
    assert_eq!(resolve(&Request::default()), (expected, vec![]));
}

#[test]
fn what_means_nothing_is_none() {
    for (top_k, top_p, negative) in [(0, 0.0, ""), (0, 1.0, " NO USER INPUT ")] {
        let request = Request::default().with(|r| {
            r.language.lm_top_k = Some(top_k);
            r.language.lm_top_p = Some(top_p);
            r.language.lm_negative_prompt = Some(negative.into());
        });
        let (settings, notices) = resolve(&request);
        assert_eq!((settings.top_k, settings.top_p, notices), (None, None, vec![]));
        assert_eq!(settings.negative_prompt, None);
    }
}

#[test]
fn a_seed_of_its_own_counts_up() {
    let request = Request::default().with(|r| r.language.lm_seed = Some(u64::MAX));
    assert_eq!(resolve(&request).0.seeds, [u64::MAX, 0]);
}

/// acestep.cpp puts any non-empty text into the user's turn.
#[test]
fn a_negative_prompt_is_every_text_in_the_style_of_acestep_cpp() {
    for (text, kept) in [("NO USER INPUT", Some("NO USER INPUT")), (" ", Some(" ")), ("", None)] {
        let request = Request::default().with(|r| {
            r.language.lm_negative_prompt = Some(text.into());
            r.language.lm_prompt_style = Some("acestep.cpp".into());
        });
        let settings = request.language.plan(&request.words, &[1], &mut vec![]).expect("valid");
        assert_eq!(settings.negative_prompt.as_deref(), kept, "{text:?}");
    }
}

#[test]
fn a_negative_prompt_without_guidance_is_said() {
    let asked = |scale| {
        Request::default().with(|r| {
            r.language.lm_negative_prompt = Some("noise".into());
            r.language.lm_cfg_scale = Some(scale);
        })
    };
    assert_eq!(resolve(&asked(1.0)).1.len(), 1);
    let (settings, notices) = resolve(&asked(2.5));
    assert_eq!((settings.cfg_scale, notices), (2.5, vec![]));
    assert_eq!(settings.negative_prompt.as_deref(), Some("noise"));
}

#[test]
fn each_value_out_of_range_names_option_value_and_range() {
    let r = Request::default;
    for (key, value, range) in [
        ("lm_temperature", "2.1", "0 to 2"),
        ("lm_cfg_scale", "0.5", "1 to 10"),
        ("lm_top_k", "-2", "a whole number from 0 to 1000000"),
        ("lm_top_p", "1.1", "0 to 1"),
        ("lm_repetition_penalty", "0", "0.1 to 2"),
        ("bpm", "1000", "a whole number from 30 to 300"),
        ("duration", "1000000000", "above 0, at most 600"),
    ] {
        let message = refusal(request_of(&format!(r#"{{"{key}": {value}}}"#)));
        assert_eq!(message, format!("`{key}: {value}` is out of range: {range}"));
    }
    for (asked, message) in [
        (
            r().with(|r| r.language.lm_temperature = Some(f64::NAN)),
            "`lm_temperature: NaN` is out of range: 0 to 2",
        ),
        (
            request_of(r#"{"lm_prompt_style": "ajar"}"#),
            "`lm_prompt_style: ajar` cannot be used: use open, closed, upstream or acestep.cpp",
        ),
        (
            r().with(|r| r.words.lyrics = Some("x".repeat(1_000_001))),
            "`lyrics: (1000001 characters)` is out of range: at most 1000000 characters",
        ),
    ] {
        assert_eq!(refusal(asked), message);
    }
    let bounded = |tokens, seq| resolve(&r()).0.bounded(tokens, seq);
    assert_eq!(
        bounded(Some(0), None).expect_err("none").to_string(),
        "`max_tokens: 0` is out of range: a whole number from 1 to 1000000"
    );
    assert_eq!(
        bounded(None, Some(1)).expect_err("too few").to_string(),
        "`max_seq: 1` is out of range: a whole number from 128 to 1000000"
    );
    let settings = bounded(Some(5), Some(4096)).expect("bounds");
    assert_eq!((settings.max_tokens, settings.max_seq), (Some(5), 4096));
}

#[test]
fn who_thinks_is_upstreams_rule() {
    use Thinking::{Codes, Metadata, Off};
    let r = |thinking| Request::default().with(|r| r.language.thinking = thinking);
    let codes = |thinking| r(thinking).with(|r| r.source.audio_codes = Some(vec![vec![1]]));
    let caption = |thinking, cot| r(thinking).with(|r| r.language.use_cot_caption = Some(cot));
    let mode = |thinking, mode: &str| r(thinking).with(|r| r.language.lm_mode = Some(mode.into()));
    for (request, released, tiny) in [
        (r(None), Codes, Off),
        (r(Some(true)), Codes, Codes),
        (r(Some(false)), Off, Off),
        (codes(None), Off, Off),
        (codes(Some(true)), Off, Off),
        (caption(Some(false), true), Metadata, Metadata),
        (caption(Some(false), false), Off, Off),
        (caption(None, true), Codes, Off),
        (mode(Some(false), "inspire"), Metadata, Metadata),
        (mode(Some(false), "generate"), Off, Off),
        (mode(None, "format"), Codes, Off),
    ] {
        assert_eq!(Thinking::of(&request, false), released, "{request:?}");
        assert_eq!(Thinking::of(&request, true), tiny, "{request:?}");
    }
    let empty = r(None).with(|r| r.source.audio_codes = Some(vec![vec![], vec![]]));
    assert_eq!(Thinking::of(&empty, false), Codes);
}

#[test]
fn the_mode_goes_before_what_is_left_open() {
    let sung = request_of(r#"{"lyrics": "la"}"#);
    assert_eq!(lm_mode(&sung).expect("a mode"), LmMode::Plan);
    let mode = |mode: &str| lm_mode(&sung.clone().with(|r| r.language.lm_mode = Some(mode.into())));
    assert_eq!(mode("generate").expect("a mode"), LmMode::Plan);
    assert_eq!(mode("inspire").expect("a mode"), LmMode::Inspire);
    assert_eq!(mode("format").expect("a mode"), LmMode::Format);
    assert_eq!(
        mode("dream").expect_err("no mode").to_string(),
        "the request's `lm_mode` is `dream`, but it must be one of generate, inspire, format"
    );
}

#[test]
fn several_songs_need_one_length() {
    let check = |request: &Request, seeds: &[u64], mode| {
        let settings =
            request.language.plan(&request.words, seeds, &mut Vec::new()).expect("settings");
        settings.check_lengths(request, &mode).is_ok()
    };
    let free = request_of(r#"{"use_constrained_decoding": false}"#);
    assert!(check(&free, &[1], LmMode::Plan));
    assert!(!check(&free, &[1, 2], LmMode::Plan));
    let open = request_of(r#"{"use_cot_metas": false}"#);
    assert!(check(&open, &[1], LmMode::Plan));
    assert!(!check(&open, &[1, 2], LmMode::Plan));
    assert!(check(&open, &[1, 2], LmMode::Inspire));
    let given = open.with(|r| r.words.duration = Some(10.0));
    assert!(check(&given, &[1, 2], LmMode::Plan));
    let lasting = |seconds| Request::default().with(|r| r.words.duration = Some(seconds));
    assert!(check(&lasting(0.2), &[1], LmMode::Plan));
    assert!(!check(&lasting(0.19), &[1], LmMode::Plan));
}
