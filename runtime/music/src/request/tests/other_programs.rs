//! Requests of acestep.cpp and of upstream.

use super::{Request, read};

const ANOTHER_PROMPT: &str = "the request is one of acestep.cpp, whose language model reads another \
                              prompt: unless you give `lm_prompt_style: acestep.cpp`, it is read \
                              with this program's";

/// The format of acestep.cpp's examples for its synthesizer alone.
#[test]
fn a_file_of_acestep_cpp_is_read_unchanged() {
    let (request, notices) = read(
        r#"{"lm_model": "acestep-5Hz-lm-4B-Q8_0.gguf", "synth_model": "acestep-v15-sft-Q8_0.gguf",
            "caption": "Warm pads", "lyrics": "", "bpm": 90, "duration": 180, "keyscale": "C minor",
            "timesignature": "4", "vocal_language": "en", "inference_steps": 50,
            "guidance_scale": 1.0, "shift": 1.0}"#,
    );
    let (expected, _) = read(
        r#"{"caption": "Warm pads", "bpm": 90, "duration": 180, "keyscale": "C minor",
            "timesignature": "4", "vocal_language": "en", "inference_steps": 50,
            "guidance_scale": 1, "shift": 1, "model": "acestep-v15-sft-Q8_0.gguf",
            "lm_model": "acestep-5Hz-lm-4B-Q8_0.gguf"}"#,
    );
    assert_eq!(expected.keys().len(), 11);
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
            "guidance_variant": "apg_classic", "guidance_params": null,
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
        (r#"{"desc": "a", "query": " ", "sample_query": "a"}"#, Some("a"), Some("inspire")),
        (r#"{"desc": "a", "metas": {"query": "b"}}"#, Some("a"), Some("inspire")),
        (r#"{"desc": "", "metas": {"query": "b"}}"#, Some("b"), Some("inspire")),
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

/// A file beside a song of upstream: the user's own values, and those that the song was made with.
#[test]
fn what_upstreams_language_model_chose_fills_what_the_user_left_open() {
    let (request, notices) = read(
        r#"{"caption": "rain", "bpm": null, "keyscale": "", "timesignature": "3", "duration": -1.0,
            "cot_bpm": 90, "cot_keyscale": "A minor", "cot_timesignature": "4", "cot_duration": 12,
            "cot_vocal_language": "unknown", "cot_caption": "", "cot_lyrics": "",
            "audio_codes": "<|audio_code_7|>", "guidance_params": null, "lora_loaded": false,
            "use_lora": false, "lora_scale": 1.0, "lora_weights_hash": "", "song_name": "x",
            "repaint_source_latents_file": "a.npy"}"#,
    );
    let expected = Request::default().with(|r| {
        r.words.caption = Some("rain".into());
        r.words.bpm = Some(90);
        r.words.keyscale = Some("A minor".into());
        r.words.timesignature = Some("3".into());
        r.words.duration = Some(12.0);
        r.source.audio_codes = Some(vec![vec![7]]);
    });
    let said = "`cot_bpm`, `cot_keyscale`, `cot_duration` of the request: what upstream's language \
                model chose stays";
    assert_eq!((request, notices), (expected, vec![said.to_owned()]));
    // The metadata of a request are the user's; a switch is no caption.
    let own = read(r#"{"metas": {"bpm": 80}, "cot_bpm": 90, "cot_caption": true}"#);
    assert_eq!(own, (Request::default().with(|r| r.words.bpm = Some(80)), vec![]));
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
        (
            r#"{"lora_loaded": true, "use_lora": true, "lora_scale": 0.5}"#,
            "the request's `use_lora` true is not read; choose with `adapter`",
        ),
    ] {
        assert_eq!(read(json), (Request::default(), vec![notice.to_owned()]));
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

#[test]
fn older_names_of_solver_and_guidance_are_read() {
    assert_eq!(read(r#"{"solver": "ode"}"#).0.sampler.solver.as_deref(), Some("euler"));
    for key in ["guidance_mode", "guidance_variant"] {
        let json = format!(r#"{{"{key}": "apg_classic"}}"#);
        assert_eq!(read(&json).0.sampling.guidance_mode, None);
    }
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
