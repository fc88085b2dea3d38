//! Sampler flags: effects, messages and saved requests.

use serde_json::{Value, json};

use crate::Dir;

#[test]
fn a_song_of_every_setting_is_made_again_by_its_saved_request() {
    let dir = Dir::new();
    let settings: &[&[&str]] = &[
        &["--sampler-mode", "heun", "--velocity-ema-factor", "0.2"],
        &["--solver", "stork4", "--velocity-norm-threshold", "0.9"],
        &["--solver", "dpm3m", "--dcw-enabled", "--dcw-mode", "high"],
        &["--solver", "sde", "--retake-variance", "0.3", "--latent-rescale", "0.9"],
    ];
    for (i, flags) in settings.iter().enumerate() {
        let [first, request, again] =
            [format!("a{i}.wav"), format!("a{i}.json"), format!("b{i}.wav")];
        let own = ["rain", "--seed", "7", "--save-request", "-o", &first];
        dir.tiny(&[&own, *flags].concat()).succeeded();
        dir.run(&["generate", "--request", &request, "-o", &again]).succeeded();
        assert_eq!(dir.read(&first), dir.read(&again), "{flags:?}");
    }
    let heun = dir.json("a0.json");
    assert_eq!((&heun["infer_method"], &heun["sampler_mode"]), (&json!("ode"), &json!("heun")));
    let sde = dir.json("a3.json");
    assert_eq!((&sde["solver"], &sde["infer_method"]), (&json!("sde"), &Value::Null));
    assert!(sde["retake_seed"].is_u64(), "{sde}");
}

#[test]
fn a_typed_solver_drops_the_files_other_name_of_one() {
    let dir = Dir::new();
    let request = json!({ "caption": "rain", "duration": 1, "infer_method": "sde" });
    dir.write("sde.json", request.to_string());
    let request = json!({ "caption": "rain", "duration": 1, "solver": "dpm3m" });
    dir.write("dpm3m.json", request.to_string());
    let solver = |file: &str, flags: &[&str]| {
        dir.planned(file, flags).succeeded().json()["plan"]["solver"].clone()
    };
    assert_eq!(solver("sde.json", &[]), "sde");
    assert_eq!(solver("sde.json", &["--solver", "stork4"]), "stork4");
    assert_eq!(solver("dpm3m.json", &[]), "dpm3m");
    assert_eq!(solver("dpm3m.json", &["--sampler-mode", "heun"]), "heun");
    dir.tiny(&["rain", "--solver", "dpm3m", "--sampler_mode", "heun"])
        .failed(2)
        .says("name two solvers");
}

#[test]
fn a_correction_is_said_and_can_be_taken_back() {
    let dir = Dir::new();
    let request = json!({ "caption": "rain", "duration": 1, "dcw_scaler": 0.1 });
    dir.write("r.json", request.to_string());
    let plan = |flags: &[&str]| {
        let args = ["generate", "--request", "r.json", "--model", "tiny", "--dry-run"];
        dir.run(&[&args, flags].concat()).succeeded()
    };
    plan(&[]).says("DCW corrects every step (mode low, 0.1)");
    plan(&["--dcw-enabled"]).says("DCW corrects every step (mode double, 0.1 and 0.02)");
    assert!(!plan(&["--no-dcw-enabled"]).stderr.contains("DCW"));
}

#[test]
fn another_take_needs_the_noise_of_a_seed() {
    let dir = Dir::new();
    dir.tiny(&["rain", "--dump-conditioning", "dump", "-o", "a.wav"]).succeeded();
    dir.tiny(&["rain", "--noise", "dump/initial_noise.bin", "--retake-variance", "0.2"])
        .failed(2)
        .says("but the noise is from a file");
}
