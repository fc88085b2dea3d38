//! Every option of generation on a GPU: each solver, guidance, correction, task and noise once,
//! short and with a tiny network. The test compares the latents with the CPU's.

use std::{
    collections::BTreeMap,
    f64::consts::TAU,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

/// (Name, settings of a request), for the model `base`.
const FROM_NOTHING: [(&str, &str); 25] = [
    ("euler", ""),
    ("heun", r#""sampler_mode": "heun""#),
    ("sde at even times", r#""infer_method": "sde", "rng": "mt19937""#),
    ("sde at the schedule's times", r#""solver": "sde""#),
    ("dpm3m", r#""solver": "dpm3m", "inference_steps": 3"#),
    ("stork4", r#""solver": "stork4", "inference_steps": 3"#),
    ("no guidance", r#""guidance_scale": 1"#),
    (
        "cfg for a while",
        r#""guidance_mode": "cfg", "cfg_interval_start": 0.4, "cfg_interval_end": 0.8"#,
    ),
    ("adg", r#""use_adg": true"#),
    ("adg_w_norm", r#""guidance_mode": "adg_w_norm""#),
    ("adg_wo_clip", r#""guidance_mode": "adg_wo_clip""#),
    ("adg with heun", r#""use_adg": true, "sampler_mode": "heun""#),
    ("smooth velocities", r#""velocity_norm_threshold": 0.5, "velocity_ema_factor": 0.3"#),
    (
        "smooth velocities with adg",
        r#""velocity_norm_threshold": 0.5, "velocity_ema_factor": 0.3, "use_adg": true"#,
    ),
    ("dcw", r#""dcw_enabled": true"#),
    ("dcw low", r#""dcw_enabled": true, "dcw_mode": "low""#),
    ("dcw high", r#""dcw_enabled": true, "dcw_mode": "high""#),
    ("dcw pix with sde", r#""dcw_enabled": true, "dcw_mode": "pix", "infer_method": "sde""#),
    (
        "another take, other latents",
        r#""retake_variance": 0.3, "retake_seed": 70, "latent_rescale": 0.8, "latent_shift": 0.1"#,
    ),
    ("philox of a card, another shift", r#""rng": "philox:1024", "shift": 2.5"#),
    ("own times", r#""timesteps": [1, 0.7, 0.2]"#),
    ("two at once", r#""batch_size": 2, "use_adg": true"#),
    ("codes for a while", r#""audio_codes": [3, 1, 4, 1, 5, 9, 2], "audio_cover_strength": 0.5"#),
    ("an odd length", r#""duration": 5.4"#),
    ("a reference", r#""reference_audio": "short.wav""#),
];

/// The same for tasks that start from a song.
const FROM_A_SONG: [(&str, &str); 9] = [
    (
        "cover for a while",
        r#""task_type": "cover", "audio_cover_strength": 0.4, "cover_noise_strength": 0.3"#,
    ),
    ("cover-nofsq", r#""task_type": "cover-nofsq""#),
    ("repaint", r#""task_type": "repaint", "repainting_start": 0.4, "repainting_end": 0.9"#),
    (
        "repaint with adg",
        r#""task_type": "repaint", "repainting_start": 0.4, "repainting_end": 0.9, "use_adg": true,
           "repaint_mode": "aggressive", "chunk_mask_mode": "twos""#,
    ),
    (
        "repaint before it",
        r#""task_type": "repaint", "repainting_start": -0.4, "repainting_end": 0.2"#,
    ),
    ("lego", r#""task_type": "lego", "track_name": "drums""#),
    ("extract", r#""task_type": "extract", "track_name": "drums""#),
    ("complete", r#""task_type": "complete", "track_classes": ["drums", "bass"]"#),
    (
        "an edit with adg",
        r#""flow_edit_morph": true, "flow_edit_source_caption": "drums", "use_adg": true,
           "flow_edit_n_avg": 2, "flow_edit_n_max": 0.7, "inference_steps": 3"#,
    ),
];

/// For models without guidance.
const TURBO: [(&str, &str); 2] = [
    ("turbo with sde and dcw", r#""infer_method": "sde", "dcw_enabled": true"#),
    ("turbo with heun", r#""sampler_mode": "heun""#),
];

/// Writes a request with these settings to the folder and returns its path.
fn request(place: &Path, name: &str, settings: &str, source: bool) -> PathBuf {
    let mut request: Value = serde_json::from_str(&format!("{{{settings}}}")).expect(name);
    let mut default = |key: &str, value: Value| {
        if request.get(key).is_none() {
            request[key] = value;
        }
    };
    default("caption", "calm piano, rain".into());
    default("lyrics", "[Verse]\nIt rains".into());
    default("seed", json!(7));
    if !settings.contains("timesteps") {
        default("inference_steps", json!(2));
    }
    if source {
        default("src_audio", "source.wav".into());
    } else if !settings.contains("audio_codes") {
        default("duration", json!(1.3));
    }
    let path = place.join(format!("{}.json", name.replace([' ', ',', '\''], "-")));
    fs::write(&path, request.to_string()).expect("a file");
    path
}

/// Writes two channels, each with two tones.
fn sound(path: &Path, seconds: f64) {
    let format = hound::WavSpec {
        channels: 2,
        sample_rate: 48_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut file = hound::WavWriter::create(path, format).expect("a file");
    for i in 0..(seconds * 48_000.0) as usize {
        let t = i as f64 / 48_000.0;
        for hertz in [220.0, 277.0] {
            let tone = (TAU * hertz * t).sin() + (TAU * (hertz * 1.5 + 0.7) * t).sin();
            file.write_sample((tone * 6000.0) as i16).expect("a sample");
        }
    }
    file.finalize().expect("a whole file");
}

/// Returns the latents of every song of these requests, by file name, and the program's messages.
fn made(
    place: &Path,
    model: &str,
    device: &str,
    requests: &[PathBuf],
) -> (BTreeMap<String, Vec<f32>>, String) {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens/checkpoints_a");
    let out = place.join(format!("{model} {device}"));
    fs::create_dir(&out).expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_acestep"))
        .args(["--no-config", "generate", "--model", model, "--device", device, "--dtype", "f32"])
        .args(["--no-thinking", "--keep-loaded"])
        .args(requests.iter().flat_map(|file| [Path::new("--request"), file]))
        .arg("-o")
        .arg(out.join("{name}.wav"))
        .arg("--output-latents")
        .arg(out.join("{name}.vae"))
        .env("ACESTEP_MODELS_DIR", models)
        .env("ACESTEP_CACHE_DIR", place.join("cache"))
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let files = fs::read_dir(&out).expect("a listing").map(|entry| entry.expect("an entry").path());
    let latents = files.filter(|path| path.extension().is_some_and(|ending| ending == "vae"));
    let read = |path: PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let bytes = fs::read(&path).expect("a file");
        let values = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
        (name, values.collect())
    };
    (latents.map(read).collect(), said)
}

/// Returns the relative error of the latents: the RMS of the difference by the RMS of `expected`.
fn share(expected: &[f32], got: &[f32]) -> f64 {
    let power = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
    if expected.len() != got.len() {
        return f64::NAN;
    }
    let off = power(&mut expected.iter().zip(got).map(|(a, b)| f64::from(a - b)));
    (off / power(&mut expected.iter().map(|&x| f64::from(x)))).sqrt()
}

#[test]
fn every_option_of_sampling_gives_the_processors_latents() {
    /// About ten times the largest error with a software Vulkan driver.
    const MOST: f64 = 3e-5;
    let place = tempfile::tempdir().expect("a folder");
    let place = place.path();
    sound(&place.join("source.wav"), 1.3);
    sound(&place.join("short.wav"), 0.9);
    let of = |table: &[(&str, &str)], source: bool| -> Vec<PathBuf> {
        table.iter().map(|(name, settings)| request(place, name, settings, source)).collect()
    };
    let base = [of(&FROM_NOTHING, false), of(&FROM_A_SONG, true)].concat();
    let mut problems = Vec::new();
    for (model, requests) in [("base", base), ("turbo", of(&TURBO, false))] {
        let (expected, said) = made(place, model, "cpu", &requests);
        // A batch has two songs.
        assert!(expected.len() >= requests.len(), "{said}");
        let (got, said) = made(place, model, "wgpu:0", &requests);
        for (name, expected) in &expected {
            let share = got.get(name).map_or(f64::NAN, |got| share(expected, got));
            // NaN counts as too large, and so does a missing song.
            if share.is_nan() || share >= MOST {
                problems.push(format!("{name} with {model} is off by {share:.1e}"));
            }
        }
        if got.len() != expected.len() {
            problems.push(said);
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}
