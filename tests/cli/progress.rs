//! Progress output for people and for programs.

use serde_json::Value;

use super::Dir;

/// Parses standard error as JSON objects, one per line.
fn events(stderr: &str) -> Vec<Value> {
    let object = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    stderr.lines().map(object).collect()
}

#[test]
fn a_program_reads_one_object_a_line() {
    let dir = Dir::new();
    let run = dir.tiny(&["rain", "--progress", "json", "-o", "a.wav"]).succeeded();
    assert_eq!(run.text(), "a.wav\n");
    let events = events(&run.stderr);
    let of = |name: &str| events.iter().filter(|event| event["event"] == name).collect::<Vec<_>>();
    let stages: Vec<_> =
        of("finished").iter().map(|event| event["stage"].as_str().expect("a name")).collect();
    assert!(stages.contains(&"diffusion") && stages.contains(&"VAE"), "{stages:?}");
    let steps: Vec<_> =
        of("step").into_iter().filter(|event| event["stage"] == "diffusion").collect();
    let done: Vec<_> = steps.iter().map(|event| event["done"].as_u64().expect("done")).collect();
    assert_eq!(done, (0..=8).collect::<Vec<_>>());
    // Every stage reaches its last step.
    for stage in &stages {
        let last = of("step").into_iter().rev().find(|event| event["stage"] == *stage);
        let last = last.unwrap_or_else(|| panic!("{stage} has no step"));
        assert_eq!(last["done"], last["total"], "{stage}");
    }
    assert!(steps[0]["left_s"].is_null() && steps[8]["left_s"] == 0.0 && steps[1]["total"] == 8);
    assert!(of("note")[0]["text"].as_str().expect("text").contains("tiny is a random network"));
    assert!(
        of("line").iter().any(|line| line["text"].as_str().expect("text").contains("of audio"))
    );
}

#[test]
fn a_failure_is_an_object_too() {
    let dir = Dir::new();
    let run = dir.run(&["generate", "a", "--model", "trubo", "--progress", "json"]);
    assert_eq!(run.code, Some(1));
    let events = events(&run.stderr);
    let [error] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&error["event"], &error["exit_code"]), (&"error".into(), &1.into()));
    assert!(error["message"].as_str().expect("text").contains("model `trubo`"));
    assert!(error["hint"].as_str().expect("text").contains("turbo, base"));
}

#[test]
fn a_person_who_asks_sees_what_each_stage_took() {
    let dir = Dir::new();
    let run = dir.tiny(&["rain", "-v", "-o", "a.wav"]).succeeded();
    let table: Vec<_> = run.stderr.lines().rev().take_while(|line| line.ends_with(" %")).collect();
    assert!(table[0].starts_with("all ") && table[0].ends_with("100 %"), "{}", run.stderr);
    for name in ["diffusion", "VAE", "text encoder", "files, rest"] {
        assert!(table.iter().any(|line| line.starts_with(name)), "{name}: {}", run.stderr);
    }
    // There is no progress bar in a pipe.
    let run = dir.tiny(&["rain", "-o", "b.wav"]).succeeded();
    assert!(!run.stderr.contains("diffusion"), "{}", run.stderr);
}
