mod other_programs;

use super::*;

#[test]
fn an_empty_request_is_an_empty_object() {
    assert_eq!(Request::default().to_json(), "{}\n");
}

#[test]
fn a_saved_request_is_read_back_without_a_word() {
    let (request, notices) = read(
        r#"{"caption": "calm piano, \"rain\"", "bpm": 90, "duration": 12.5, "instrumental": true,
            "timesteps": [1, 0.5, 0], "seed": 18446744073709551615, "audio_codes": [0, 63999],
            "rng": "philox:256", "thinking": false, "lm_model": "lm-4b", "lm_mode": "inspire",
            "lm_temperature": 0, "lm_cfg_scale": 2.5, "lm_top_k": 40, "lm_top_p": 0,
            "lm_repetition_penalty": 1.1, "lm_negative_prompt": "noise",
            "lm_seed": 18446744073709551615, "use_cot_metas": false, "use_cot_caption": true,
            "use_cot_language": false, "use_constrained_decoding": false,
            "lm_prompt_style": "closed"}"#,
    );
    assert_eq!((request.keys().len(), notices.len()), (23, 0));
    let json = request.to_json();
    assert!(json.contains("\"seed\": 18446744073709551615"), "{json}");
    assert!(json.contains("\"audio_codes\": \"0,63999\""), "{json}");
    assert_eq!(read(&json), (request, vec![]));
}

fn read(json: &str) -> (Request, Vec<String>) {
    let (request, notices) = Request::from_json(json).expect(json);
    (request, notices.into_iter().map(|notice| notice.0).collect())
}

fn refusal(json: &str) -> (String, Option<String>) {
    let error = Request::from_json(json).expect_err(json);
    (error.to_string(), error.hint())
}

#[test]
fn a_model_is_read_from_every_key_and_spelling() {
    let model = |key: &str, name: &str| read(&format!(r#"{{"{key}": "{name}"}}"#)).0.compute.model;
    for (key, name) in [
        ("model", "base"),
        ("model", "models/own-Q8_0"),
        ("dit_model", "acestep-v15-turbo"),
        ("model_name", "xl-sft"),
        ("synth_model", "acestep-v15-xl-turbo-BF16.gguf"),
        ("synth_model", "/m/acestep-v15-base-Q4_K_M.gguf"),
        ("synth_model", "acestep-v15-turbo-shift3.gguf"),
    ] {
        assert_eq!(model(key, name).as_deref(), Some(name), "{key}");
    }
    assert_eq!(model("synth_model", "acestep-v15-sft-BF16").as_deref(), Some("acestep-v15-sft"));
    assert_eq!((model("synth_model", ""), model("lm_model", "acestep-5Hz-lm-4B")), (None, None));
}

#[test]
fn the_size_of_a_language_model_is_no_quantisation() {
    for (written, model) in [
        ("acestep-5Hz-lm-4B-Q8_0.gguf", "acestep-5Hz-lm-4B-Q8_0.gguf"),
        ("acestep-5Hz-lm-4B-BF16", "acestep-5Hz-lm-4B"),
        ("acestep-5Hz-lm-4B.gguf", "acestep-5Hz-lm-4B.gguf"),
        ("acestep-5Hz-lm-0.6B", "acestep-5Hz-lm-0.6B"),
        ("/m/acestep-5Hz-lm-1.7B-Q4_K_M.gguf", "/m/acestep-5Hz-lm-1.7B-Q4_K_M.gguf"),
        ("lm-4b", "lm-4b"),
        ("models/own-Q8_0", "models/own-Q8_0"),
    ] {
        for key in ["lm_model", "lm_model_path"] {
            let (request, notices) = read(&format!(r#"{{"{key}": "{written}"}}"#));
            assert_eq!(request.language.lm_model.as_deref(), Some(model));
            assert_eq!(notices, Vec::<String>::new());
        }
    }
}

#[test]
fn what_becomes_the_condition_is_told_from_the_rest_by_its_keys() {
    let (request, _) =
        read(r#"{"caption": "x", "bpm": 90, "instrumental": true, "seed": 1, "duration": 3}"#);
    assert_eq!(request.keys(), ["caption", "instrumental", "bpm", "duration", "seed"]);
    assert_eq!(request.without_condition().keys(), ["duration", "seed"]);
    let (request, _) = read(r#"{"caption": "x", "thinking": true, "lm_top_k": 5, "lm_seed": 1}"#);
    assert_eq!(request.without_language_model().keys(), ["caption"]);
}

#[test]
fn other_names_nested_metadata_and_camel_case_are_understood() {
    let (request, _) = read(
        r#"{"prompt": "x", "language": "ja", "audioDuration": "12.5", "key_scale": "N/A",
            "time_signature": 4, "metas": {"bpm": "120", "keyscale": "A minor", "duration": 3}}"#,
    );
    assert_eq!(request.words.caption.as_deref(), Some("x"));
    assert_eq!(request.words.vocal_language.as_deref(), Some("ja"));
    assert_eq!(request.words.timesignature.as_deref(), Some("4"));
    assert_eq!((request.words.duration, request.words.bpm), (Some(12.5), Some(120)));
    assert_eq!(request.words.keyscale.as_deref(), Some("A minor"));
}

#[test]
fn codes_come_in_three_spellings() {
    for json in [
        r#"{"audio_codes": "<|audio_code_7|><|audio_code_9|>"}"#,
        r#"{"audio_codes": "7,9"}"#,
        r#"{"audio_codes": [7, 9]}"#,
    ] {
        assert_eq!(read(json).0.source.audio_codes, Some(vec![vec![7, 9]]), "{json}");
    }
    let (request, notices) = read(r#"{"audio_codes": "<|audio_code_64000|>"}"#);
    assert_eq!((request.source.audio_codes, notices), (Some(vec![vec![64_000]]), vec![]));
    assert!(Request::from_json(r#"{"audio_codes": [1, 2.5]}"#).is_err());
    assert!(Request::from_json(r#"{"audio_codes": ["1,x"]}"#).is_err());
}

#[test]
fn several_songs_have_a_list_of_codes_each() {
    let expected = Some(vec![vec![17, 4], vec![3, 5]]);
    for json in [
        r#"{"audio_codes": ["17,4", "3,5"]}"#,
        r#"{"audio_codes": [[17, 4], [3, 5]]}"#,
        r#"{"audio_codes": ["<|audio_code_17|><|audio_code_4|>", "3,5"]}"#,
    ] {
        assert_eq!(read(json).0.source.audio_codes, expected, "{json}");
    }
    let json = Request::default().with(|r| r.source.audio_codes = expected).to_json();
    assert_eq!(json, "{\n  \"audio_codes\": [\n    \"17,4\",\n    \"3,5\"\n  ]\n}\n");
    for nothing in [r#"[]"#, r#"[""]"#, r#"["", ""]"#, r#""""#, "[[]]"] {
        let json = format!(r#"{{"audio_codes": {nothing}}}"#);
        assert_eq!(read(&json).0.source.audio_codes, None, "{json}");
    }
    assert!(Request::from_json(r#"{"audio_codes": ["1", true]}"#).is_err());
}

#[test]
fn seeds_come_as_number_text_or_list() {
    for (json, seeds) in [
        (r#"{"seed": 42}"#, Some(vec![42])),
        (r#"{"seed": 42.0}"#, Some(vec![42])),
        (r#"{"seed": "1, 2"}"#, Some(vec![1, 2])),
        (r#"{"seeds": [3, 4]}"#, Some(vec![3, 4])),
        (r#"{"seed": "-1"}"#, None),
        (r#"{"seed": "-1, -1"}"#, None),
        (r#"{"seed": null}"#, None),
        (r#"{"seed": 18446744073709551615}"#, Some(vec![u64::MAX])),
    ] {
        assert_eq!(read(json).0.noise.seed, seeds, "{json}");
    }
    for json in [r#"{"seed": 1.5}"#, r#"{"seed": -2}"#, r#"{"seed": "1,x"}"#, r#"{"seed": 1e30}"#] {
        assert!(Request::from_json(json).is_err(), "{json}");
    }
}

/// Upstream's `"128k"` equals acestep.cpp's 128; `output_format` equals `audio_format`.
#[test]
fn what_is_written_is_read_in_both_spellings() {
    let mp3 = Request::default().with(|r| {
        r.output.audio_format = Some("mp3".into());
        (r.output.mp3_bitrate, r.output.mp3_sample_rate) = (Some(192), Some(44_100));
    });
    for json in [
        r#"{"audio_format": "mp3", "mp3_bitrate": "192k", "mp3_sample_rate": 44100}"#,
        r#"{"output_format": "mp3", "mp3_bitrate": 192, "mp3_sample_rate": "44100"}"#,
    ] {
        assert_eq!(read(json).0, mp3, "{json}");
    }
    let loud = Request::default().with(|r| {
        (r.output.lufs, r.output.fade_in_duration) = (Some(-14.0), Some(0.5));
        r.output.peak_clip = Some(0);
    });
    assert_eq!(read(r#"{"lufs": -14, "fade_in_duration": 0.5, "peak_clip": 0}"#).0, loud);
}

#[test]
fn what_would_change_the_sound_and_is_not_built_is_an_error() {
    let (error, hint) = refusal(r#"{"global_caption": "a whole album"}"#);
    assert!(error.contains("`global_caption` \"a whole album\""), "{error}");
    assert!(hint.expect("a hint").contains("leave it out"));
    assert!(refusal(r#"{"guidance_params": {"eta": 0.1}}"#).0.contains("`guidance_params`"));
    // Empty, as upstream writes them, they ask for nothing.
    let empty = read(r#"{"global_caption": "", "guidance_params": null}"#);
    assert_eq!(empty, (Request::default(), vec![]));
}

/// Upstream always writes the strengths, and the model decides if they are used.
#[test]
fn strengths_of_a_correction_that_is_off_are_not_read() {
    let off = r#"{"dcw_enabled": false, "dcw_scaler": 0.05, "dcw_mode": "double"}"#;
    let expected = Request::default().with(|r| r.sampler.dcw_enabled = Some(false));
    assert_eq!(read(off), (expected, vec![]));
    let (request, notices) = read(r#"{"dcw_enabled": null, "dcw_scaler": 0.05}"#);
    assert_eq!(request, Request::default());
    assert!(notices[0].contains("upstream has on for turbo"), "{notices:?}");
    assert_eq!(read(r#"{"dcw_scaler": 0.05}"#).0.sampler.dcw_scaler, Some(0.05));
}

#[test]
fn an_unknown_key_names_the_nearest_one() {
    assert_eq!(
        refusal(r#"{"inference_step": 4}"#),
        (
            "the request has an unknown key `inference_step`".into(),
            Some("did you mean `inference_steps`?".into())
        )
    );
    let hint = refusal(r#"{"xyzzy": 4}"#).1.expect("what to do");
    assert!(hint.starts_with("take it out"), "{hint}");
}

#[test]
fn a_value_of_the_wrong_kind_names_its_key() {
    for (json, message) in [
        (r#"{"bpm": "fast"}"#, "the request's `bpm` is \"fast\", but it must be a number"),
        (r#"{"caption": 3}"#, "the request's `caption` is 3, but it must be a text"),
        (
            r#"{"instrumental": "maybe"}"#,
            "the request's `instrumental` is \"maybe\", but it must be true or false",
        ),
        (r#"{"duration": [1]}"#, "the request's `duration` is [1], but it must be a number"),
        (r#"{"lm_seed": [1, 2]}"#, "the request's `lm_seed` is [1,2], but it must be one seed"),
        (
            r#"{"lm_mode": "dream"}"#,
            "the request's `lm_mode` is \"dream\", but it must be one of generate, inspire, format",
        ),
        (r#"{"shift": "NaN"}"#, "the request's `shift` is \"NaN\", but it must be a number"),
        (r#"{"metas": 3}"#, "the request's `metas` is 3, but it must be an object"),
    ] {
        assert_eq!(refusal(json).0, message);
    }
    for text in ["", "[1]", "{", "\"x\"", "{\"bpm\": 1} trailing"] {
        assert!(refusal(text).0.starts_with("the request is not a JSON object: "), "{text}");
    }
}

#[test]
fn only_zero_and_minus_one_mean_decide_yourself() {
    let (request, _) = read(r#"{"duration": -1, "bpm": 0, "shift": "0", "inference_steps": -1}"#);
    assert_eq!(request, Request::default());
    let (request, notices) = read(r#"{"duration": -7, "bpm": -120.9, "vae_overlap": "9.0"}"#);
    assert_eq!((request.words.duration, request.words.bpm), (Some(-7.0), Some(-120)));
    assert_eq!(notices, ["`bpm: -120.9` is no whole number: it counts as -120"]);
}

/// Spellings of upstream's server and of acestep.cpp.
#[test]
fn sounds_and_tracks_are_read_in_every_spelling() {
    let (request, notices) = read(
        r#"{"task_type": "lego", "srcAudioPath": "a.wav", "ref_audio": ["b.mp3", "c.mp3"],
            "track": "drums", "track_classes": "vocals | bass, drums", "repainting_start": -2,
            "repainting_end": 7.5, "repaint_mode": "Conservative", "seeds": [3, 9]}"#,
    );
    let texts = |all: &[&str]| Some(all.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
    assert_eq!(request.source.src_audio.as_deref(), Some("a.wav"));
    assert_eq!(request.source.reference_audio, texts(&["b.mp3", "c.mp3"]));
    assert_eq!(request.source.track_name.as_deref(), Some("drums"));
    assert_eq!(request.noise.seed, Some(vec![3, 9]));
    assert_eq!(request.source.track_classes, texts(&["vocals", "bass", "drums"]));
    assert_eq!(
        (request.repaint.repainting_start, request.repaint.repainting_end),
        (Some(-2.0), Some(7.5))
    );
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!(Request::from_json(&request.to_json()).expect("readable").0, request);
}

/// Two spellings or repeated keys with different values are refused, also in nested objects.
#[test]
fn what_is_said_twice_is_said_alike() {
    let refused = |json: &str| refusal(json).0;
    assert_eq!(
        refused(r#"{"caption": "rain", "prompt": "snow"}"#),
        "the request has `caption` \"rain\" and `prompt` \"snow\", which mean the same: leave one out"
    );
    assert_eq!(
        refused(r#"{"bpm": 100, "bpm": 120}"#),
        "the request has `bpm` twice, 100 and 120: leave one out"
    );
    let wishes = refused(r#"{"desc": "rain", "sampleQuery": "snow"}"#);
    assert!(wishes.contains("`desc` \"rain\" and `sampleQuery` \"snow\""), "{wishes}");
    let within = refused(r#"{"metas": {"bpm": 90, "keyscale": "C", "bpm": 91}}"#);
    assert_eq!(within, "the request has `bpm` twice, 90 and 91: leave one out");
    assert!(
        refused(r#"{"metas": "{\"bpm\": 90, \"tempo\": 91}"}"#).contains("`bpm` 90 and `tempo` 91")
    );
    let (request, _) = Request::from_json(
        r#"{"caption": "rain", "prompt": "rain", "bpm": 100, "bpm": 100, "tempo": 0, "lyrics": ""}"#,
    )
    .expect("the same");
    assert_eq!((request.words.caption.as_deref(), request.words.bpm), (Some("rain"), Some(100)));
}

#[test]
fn a_field_has_one_value_under_both_of_its_names() {
    let renamed = |json: &str| {
        let mut fields = object(json).expect("an object");
        rename(&mut fields, "topk", "top_k").map(|()| Value::Object(fields).to_string())
    };
    for json in [
        r#"{"topk": 5}"#,
        r#"{"topk": 5, "top_k": 5}"#,
        r#"{"topk": 5, "top_k": null}"#,
        r#"{"topk": null, "top_k": 5}"#,
        r#"{"topk": "", "top_k": 5}"#,
    ] {
        assert_eq!(renamed(json).expect("one value"), r#"{"top_k":5}"#, "{json}");
    }
    let error = renamed(r#"{"topk": 5, "top_k": 6}"#).expect_err("two values").to_string();
    assert_eq!(error, "the request has `topk` 5 and `top_k` 6, which mean the same: leave one out");
}

#[test]
fn a_number_that_would_be_cut_to_nothing_is_named_as_it_was_written() {
    let error = Request::from_json(r#"{"bpm": 0.4}"#).expect_err("no tempo").to_string();
    assert!(error.contains("`bpm` is 0.4, but it must be a whole number"), "{error}");
}
