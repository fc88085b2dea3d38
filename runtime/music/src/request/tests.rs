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

#[test]
fn several_seeds_are_a_list() {
    let request = Request::default().with(|r| r.noise.seed = Some(vec![3, 9]));
    assert_eq!(Request::from_json(&request.to_json()).expect("readable").0, request);
}

const ANOTHER_PROMPT: &str = "the request is one of acestep.cpp, whose language model reads another \
                              prompt: unless you give `lm_prompt_style: acestep.cpp`, it is read \
                              with this program's";

fn read(json: &str) -> (Request, Vec<String>) {
    let (request, notices) = Request::from_json(json).expect(json);
    (request, notices.into_iter().map(|notice| notice.0).collect())
}

fn refusal(json: &str) -> (String, Option<String>) {
    let error = Request::from_json(json).expect_err(json);
    (error.to_string(), error.hint())
}

/// The format of acestep.cpp's examples for its synthesizer alone.
#[test]
fn a_file_of_acestep_cpp_is_read_unchanged() {
    let (request, notices) = read(
        r#"{"lm_model": "acestep-5Hz-lm-4B-Q8_0.gguf", "synth_model": "acestep-v15-sft-Q8_0.gguf",
            "caption": "Warm pads", "lyrics": "", "bpm": 90, "duration": 180, "keyscale": "C minor",
            "timesignature": "4", "vocal_language": "en", "inference_steps": 50,
            "guidance_scale": 1.0, "shift": 1.0}"#,
    );
    let expected = Request::default().with(|r| {
        r.words.caption = Some("Warm pads".into());
        r.words.bpm = Some(90);
        r.words.duration = Some(180.0);
        r.words.keyscale = Some("C minor".into());
        r.words.timesignature = Some("4".into());
        r.words.vocal_language = Some("en".into());
        r.sampling.inference_steps = Some(50);
        r.sampling.guidance_scale = Some(1.0);
        r.sampling.shift = Some(1.0);
        r.compute.model = Some("acestep-v15-sft-Q8_0.gguf".into());
        r.language.lm_model = Some("acestep-5Hz-lm-4B-Q8_0.gguf".into());
    });
    assert_eq!(request, expected);
    assert_eq!(notices, [ANOTHER_PROMPT]);
}

/// The notice appears only if the language model runs and no prompt style is given.
#[test]
fn whose_prompt_a_request_of_acestep_cpp_is_read_with_is_said() {
    for (json, said) in [
        (r#"{"lm_batch_size": 1}"#, &[ANOTHER_PROMPT][..]),
        (r#"{"synth_batch_size": 1, "thinking": true}"#, &[ANOTHER_PROMPT]),
        (r#"{"synth_batch_size": 1, "thinking": false}"#, &[]),
        (r#"{"synth_batch_size": 1, "audio_codes": "1,2"}"#, &[]),
        (r#"{"synth_batch_size": 1, "lm_prompt_style": "acestep.cpp"}"#, &[]),
        (r#"{"batch_size": 1}"#, &[]),
    ] {
        assert_eq!(read(json).1, said, "{json}");
    }
}

#[test]
fn a_model_is_read_from_every_key_and_spelling() {
    for (json, model) in [
        (r#"{"model": "base"}"#, Some("base")),
        (r#"{"model": "models/own-Q8_0"}"#, Some("models/own-Q8_0")),
        (r#"{"dit_model": "acestep-v15-turbo"}"#, Some("acestep-v15-turbo")),
        (r#"{"model_name": "xl-sft"}"#, Some("xl-sft")),
        (
            r#"{"synth_model": "acestep-v15-xl-turbo-BF16.gguf"}"#,
            Some("acestep-v15-xl-turbo-BF16.gguf"),
        ),
        (
            r#"{"synth_model": "/m/acestep-v15-base-Q4_K_M.gguf"}"#,
            Some("/m/acestep-v15-base-Q4_K_M.gguf"),
        ),
        (
            r#"{"synth_model": "acestep-v15-turbo-shift3.gguf"}"#,
            Some("acestep-v15-turbo-shift3.gguf"),
        ),
        (r#"{"synth_model": ""}"#, None),
        (r#"{"synth_model": "acestep-v15-sft-BF16"}"#, Some("acestep-v15-sft")),
        (r#"{"lm_model": "acestep-5Hz-lm-4B"}"#, None),
    ] {
        assert_eq!(read(json).0.compute.model.as_deref(), model, "{json}");
    }
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

/// Every key that acestep.cpp writes, with its default.
#[test]
fn acestep_cpps_defaults_ask_for_nothing_but_its_loudness_and_format() {
    let (request, notices) = read(
        r#"{"caption": "", "lyrics": "", "bpm": 0, "duration": 0, "keyscale": "",
            "timesignature": "", "vocal_language": "", "lm_batch_size": 1, "synth_batch_size": 1,
            "seed": -1, "lm_temperature": 0.85, "lm_cfg_scale": 2.0, "lm_top_p": 0.9, "lm_top_k": 0,
            "lm_negative_prompt": "", "lm_seed": -1, "use_cot_caption": true, "audio_codes": "",
            "inference_steps": 0, "guidance_scale": 0, "shift": 0, "dcw_scaler": 0,
            "dcw_high_scaler": 0, "dcw_mode": "low", "audio_cover_strength": 1,
            "cover_noise_strength": 0, "repainting_start": 0, "repainting_end": -1,
            "latent_shift": 0, "latent_rescale": 1, "custom_timesteps": "", "task_type": "",
            "track": "", "solver": "euler", "stork_substeps": 10, "lm_mode": "generate",
            "output_format": "wav16", "synth_model": "", "lm_model": "", "adapter": "",
            "adapter_scale": 1, "vae": "", "peak_clip": 10, "mp3_bitrate": 128}"#,
    );
    let (expected, _) = read(
        r#"{"batch_size": 1, "audio_cover_strength": 1, "repainting_start": 0, "repainting_end": -1,
            "cover_noise_strength": 0, "solver": "euler", "stork_substeps": 10, "dcw_scaler": 0,
            "dcw_high_scaler": 0, "dcw_mode": "low", "latent_shift": 0, "latent_rescale": 1,
            "peak_clip": 10, "audio_format": "wav16", "mp3_bitrate": 128, "lm_mode": "generate",
            "lm_temperature": 0.85, "lm_cfg_scale": 2, "lm_top_p": 0.9, "use_cot_caption": true}"#,
    );
    assert_eq!(expected.keys().len(), 20);
    assert_eq!((request, notices), (expected, vec![ANOTHER_PROMPT.to_owned()]));
}

/// A dump of upstream's `GenerationParams` with default values.
#[test]
fn upstreams_defaults_are_read_without_a_word() {
    let (request, notices) = read(
        r#"{"task_type": "text2music",
            "instruction": "Fill the audio semantic mask based on the given conditions:",
            "reference_audio": null, "src_audio": null, "audio_codes": "", "caption": "x",
            "global_caption": "", "lyrics": "", "instrumental": false, "vocal_language": "unknown",
            "bpm": null, "keyscale": "", "timesignature": "", "duration": -1.0,
            "enable_normalization": true, "normalization_db": -1.0, "fade_in_duration": 0.0,
            "fade_out_duration": 0.0, "latent_shift": 0.0, "latent_rescale": 1.0,
            "inference_steps": 8, "seed": -1, "guidance_scale": 7.0, "use_adg": false,
            "cfg_interval_start": 0.0, "cfg_interval_end": 1.0, "shift": 1.0,
            "infer_method": "ode", "sampler_mode": "euler", "velocity_norm_threshold": 0.0,
            "velocity_ema_factor": 0.0, "timesteps": null, "repainting_start": 0.0,
            "repainting_end": -1, "chunk_mask_mode": "auto", "repaint_latent_crossfade_frames": 10,
            "repaint_wav_crossfade_sec": 0.0, "repaint_mode": "balanced", "repaint_strength": 0.5,
            "audio_cover_strength": 1.0, "cover_noise_strength": 0.0, "retake_seed": null,
            "retake_variance": 0.0, "flow_edit_morph": false, "flow_edit_n_avg": 1,
            "thinking": true, "lm_temperature": 0.85, "lm_cfg_scale": 2.0, "lm_top_k": 0,
            "lm_top_p": 0.9, "lm_negative_prompt": "NO USER INPUT", "use_cot_metas": true,
            "use_cot_caption": true, "use_cot_language": true, "use_cot_lyrics": false,
            "use_constrained_decoding": true, "cot_bpm": null, "cot_caption": ""}"#,
    );
    assert_eq!((request.words.bpm, request.words.duration, request.noise.seed), (None, None, None));
    assert_eq!(
        (request.sampling.guidance_scale, request.sampling.inference_steps),
        (Some(7.0), Some(8))
    );
    assert_eq!(
        (request.language.thinking, request.language.use_cot_metas),
        (Some(true), Some(true))
    );
    assert_eq!(request.language.lm_negative_prompt.as_deref(), Some("NO USER INPUT"));
    assert_eq!(request.language.lm_top_k, None);
    assert_eq!(notices, Vec::<String>::new());
}

/// Fields of the server that differ from the class.
#[test]
fn a_request_to_upstreams_server_is_read() {
    let (request, notices) = read(
        r#"{"prompt": "x", "thinking": false, "lm_cfg_scale": 2.5, "lm_top_k": -1,
            "lm_backend": "vllm", "constrainedDecoding": false, "cot_language": false,
            "parallel_thinking": true, "use_format": false, "sample_mode": false,
            "lm_seed": "-1", "is_format_caption": true}"#,
    );
    let expected = Request::default().with(|r| {
        r.words.caption = Some("x".into());
        r.language.thinking = Some(false);
        r.language.lm_cfg_scale = Some(2.5);
        r.language.use_constrained_decoding = Some(false);
        r.language.use_cot_language = Some(false);
    });
    assert_eq!((request, notices), (expected, vec![]));
}

#[test]
fn a_wish_is_a_caption_for_the_language_model_to_write() {
    for (json, caption, mode) in [
        (r#"{"description": "a love song"}"#, Some("a love song"), Some("inspire")),
        (r#"{"desc": "a", "instrumental": true}"#, Some("a"), Some("inspire")),
        (r#"{"query": "a", "lm_mode": "format"}"#, Some("a"), Some("format")),
        (r#"{"sampleQuery": "a", "use_format": true}"#, Some("a"), Some("inspire")),
        (r#"{"prompt": "a", "sample_mode": true}"#, Some("a"), Some("inspire")),
        (r#"{"prompt": "a", "format": "true"}"#, Some("a"), Some("format")),
        (r#"{"description": " ", "caption": "a"}"#, Some("a"), None),
        (r#"{"sample_mode": true, "format": true}"#, None, Some("inspire")),
    ] {
        let (request, notices) = read(json);
        assert_eq!(
            (request.words.caption.as_deref(), request.language.lm_mode.as_deref()),
            (caption, mode)
        );
        assert_eq!(notices, Vec::<String>::new(), "{json}");
    }
    let (request, notices) = read(r#"{"description": "a", "caption": "b"}"#);
    assert_eq!((request.words.caption.as_deref(), request.language.lm_mode), (Some("b"), None));
    assert_eq!(notices, ["the request's `description` is not read: there is a caption already"]);
}

#[test]
fn what_the_language_model_has_decided_before_is_no_request() {
    let (request, notices) =
        read(r#"{"cot_bpm": 90, "cot_caption": "x", "cot_vocal_language": "en", "cot_lyrics": 1}"#);
    assert_eq!((request, notices), (Request::default(), vec![]));
}

#[test]
fn what_the_language_model_does_not_do_here_is_said() {
    for (json, notice) in [
        (
            r#"{"use_cot_lyrics": true}"#,
            "the request's `use_cot_lyrics` has no effect: upstream has not built it either",
        ),
        (
            r#"{"full_analysis_only": true}"#,
            "the request's `full_analysis_only` true is not read; choose with `understand`",
        ),
    ] {
        assert_eq!(read(json), (Request::default(), vec![notice.to_owned()]));
    }
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
        (r#"{"seed": null}"#, None),
        (r#"{"seed": 18446744073709551615}"#, Some(vec![u64::MAX])),
    ] {
        assert_eq!(read(json).0.noise.seed, seeds, "{json}");
    }
    for json in [r#"{"seed": 1.5}"#, r#"{"seed": -2}"#, r#"{"seed": "1,x"}"#, r#"{"seed": 1e30}"#] {
        assert!(Request::from_json(json).is_err(), "{json}");
    }
}

/// acestep.cpp drops the last of its times and ends at 0; upstream uses the list unchanged.
#[test]
fn acestep_cpps_times_end_at_zero() {
    assert_eq!(
        read(r#"{"custom_timesteps": "1,0.5,0.2"}"#).0.sampling.timesteps,
        Some(vec![1.0, 0.5, 0.0])
    );
    assert_eq!(
        read(r#"{"timesteps": [1, 0.5, 0.2]}"#).0.sampling.timesteps,
        Some(vec![1.0, 0.5, 0.2])
    );
}

#[test]
fn songs_of_the_language_model_and_of_the_synthesizer_multiply() {
    assert_eq!(read(r#"{"lm_batch_size": 2, "synth_batch_size": 3}"#).0.noise.batch_size, Some(6));
    assert_eq!(read(r#"{"lm_batch_size": 2}"#).0.noise.batch_size, Some(2));
}

/// Upstream's `"128k"` equals acestep.cpp's 128; `output_format` equals `audio_format`.
#[test]
fn what_is_written_is_read_in_both_spellings() {
    let ours = |json| read(json).0;
    for json in [
        r#"{"audio_format": "mp3", "mp3_bitrate": "192k", "mp3_sample_rate": 44100}"#,
        r#"{"output_format": "mp3", "mp3_bitrate": 192, "mp3_sample_rate": "44100"}"#,
    ] {
        let request = ours(json);
        assert_eq!(request.output.audio_format.as_deref(), Some("mp3"), "{json}");
        assert_eq!(
            (request.output.mp3_bitrate, request.output.mp3_sample_rate),
            (Some(192), Some(44_100))
        );
    }
    let request = ours(r#"{"lufs": -14, "fade_in_duration": 0.5, "peak_clip": 0}"#);
    assert_eq!((request.output.lufs, request.output.peak_clip), (Some(-14.0), Some(0)));
    assert_eq!(
        (request.output.fade_in_duration, request.output.fade_out_duration),
        (Some(0.5), None)
    );
}

#[test]
fn what_would_change_the_sound_and_is_not_built_is_an_error() {
    let (error, hint) = refusal(r#"{"global_caption": "a whole album"}"#);
    assert!(error.contains("`global_caption` \"a whole album\""), "{error}");
    assert!(hint.expect("a hint").contains("leave it out"));
    // Empty, as upstream writes it, it asks for nothing.
    assert_eq!(read(r#"{"global_caption": ""}"#).0, Request::default());
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
fn older_names_of_solver_and_guidance_are_read() {
    assert_eq!(read(r#"{"solver": "ode"}"#).0.sampler.solver.as_deref(), Some("euler"));
    for key in ["guidance_mode", "guidance_variant"] {
        let json = format!(r#"{{"{key}": "apg_classic"}}"#);
        assert_eq!(read(&json).0.sampling.guidance_mode.as_deref(), Some("apg"));
    }
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
    let (request, _) = read(r#"{"duration": -7, "bpm": -120.9}"#);
    assert_eq!((request.words.duration, request.words.bpm), (Some(-7.0), Some(-120)));
}

/// Spellings of upstream's server and of acestep.cpp.
#[test]
fn sounds_and_tracks_are_read_in_every_spelling() {
    let (request, notices) = read(
        r#"{"task_type": "lego", "srcAudioPath": "a.wav", "ref_audio": ["b.mp3", "c.mp3"],
            "track": "drums", "track_classes": "vocals | bass, drums", "repainting_start": -2,
            "repainting_end": 7.5, "repaint_mode": "Conservative"}"#,
    );
    let texts = |all: &[&str]| Some(all.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
    assert_eq!(request.source.src_audio.as_deref(), Some("a.wav"));
    assert_eq!(request.source.reference_audio, texts(&["b.mp3", "c.mp3"]));
    assert_eq!(request.source.track_name.as_deref(), Some("drums"));
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
    let refused = |json: &str| Request::from_json(json).expect_err(json).to_string();
    assert_eq!(
        refused(r#"{"caption": "rain", "prompt": "snow"}"#),
        "the request has `caption` \"rain\" and `prompt` \"snow\", which mean the same: leave one out"
    );
    assert_eq!(
        refused(r#"{"bpm": 100, "bpm": 120}"#),
        "the request has `bpm` twice, 100 and 120: leave one out"
    );
    assert!(
        refused(r#"{"metas": "{\"bpm\": 90, \"tempo\": 91}"}"#).contains("`bpm` 90 and `tempo` 91")
    );
    let (request, _) = Request::from_json(
        r#"{"caption": "rain", "prompt": "rain", "bpm": 100, "bpm": 100, "tempo": 0, "lyrics": ""}"#,
    )
    .expect("the same");
    assert_eq!((request.words.caption.as_deref(), request.words.bpm), (Some("rain"), Some(100)));
}

/// Objects of upstream's server, as JSON or JSON text: the one closest to the request wins.
#[test]
fn metadata_is_read_wherever_upstream_reads_it() {
    let (request, _) = Request::from_json(
        r#"{"caption": "rain", "keyscale": "C major", "param_obj": "{\"duration\": 30, \"bpm\": 90}",
            "metas": {"bpm": 80, "key": "D major"}, "meta": {"timesignature": 4.0},
            "userMetadata": {"bpm": 70, "timesignature": 3}}"#,
    )
    .expect("a request");
    assert_eq!((request.words.duration, request.words.bpm), (Some(30.0), Some(90)));
    assert_eq!(request.words.keyscale.as_deref(), Some("C major"));
    assert_eq!(request.words.timesignature.as_deref(), Some("4"));
}

#[test]
fn a_number_that_would_be_cut_to_nothing_is_named_as_it_was_written() {
    let error = Request::from_json(r#"{"bpm": 0.4}"#).expect_err("no tempo").to_string();
    assert!(error.contains("`bpm` is 0.4, but it must be a whole number"), "{error}");
}
