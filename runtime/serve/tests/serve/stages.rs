//! Times of stages: the time left of a job, and sums for Prometheus.

use serde_json::{Value, json};

use crate::web::{body, served, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_tells_the_time_left_after_another_of_its_model() {
    let api = served().await;
    let song = |caption: &str| json!({ "request": { "caption": caption } });
    let first = body(api.post("/v1/jobs?wait=300", &song("slow rain")));
    assert_eq!((&first["state"], &first["progress"]["eta_s"]), (&json!("done"), &Value::Null));
    let second = body(api.post("/v1/jobs", &song("slow gate")));
    let id = text(&second["id"]);
    // Half of its steps took a second or more, so at least a second is left.
    let half = api.until(&id, |job| {
        assert!(job["state"] == "queued" || job["state"] == "running", "{job}");
        job["progress"]["done"] == 4
    });
    let left = &half["progress"]["eta_s"];
    assert!(left.as_u64().is_some_and(|seconds| seconds >= 1), "{left}");
    api.open_gate();
    assert_eq!(api.job(&format!("{id}?wait=300"))["state"], "done");
    assert!(text(&api.job(&format!("{id}/events"))).contains("done"));
    let numbers = text(&body(api.get("/metrics")));
    let labels = r#"{stage="diffusion",family="music""#;
    for line in [
        "# TYPE acestep_stage_seconds histogram".to_owned(),
        format!(r#"acestep_stage_seconds_bucket{labels},le="1"}} 0"#),
        format!(r#"acestep_stage_seconds_bucket{labels},le="+Inf"}} 2"#),
        format!("acestep_stage_seconds_count{labels}}} 2"),
    ] {
        assert!(numbers.lines().any(|known| known == line), "{line}\n{numbers}");
    }
}
