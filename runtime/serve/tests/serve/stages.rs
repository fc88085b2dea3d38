//! Times of stages: the time left of a job, and sums for Prometheus.

use std::{thread, time::Duration};

use serde_json::{Value, json};

use crate::web::{body, client, get, post, start};

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_tells_the_time_left_after_another_of_its_model() {
    let (running, _folder) = start().await;
    let url = running.url("");
    client(move || {
        let slow = json!({ "request": { "caption": "slow rain" } });
        let first = body(post(&format!("{url}/v1/jobs?wait=20"), &slow));
        assert_eq!((&first["state"], &first["progress"]["eta_s"]), (&json!("done"), &Value::Null));
        let second = body(post(&format!("{url}/v1/jobs"), &slow));
        let id = second["id"].as_str().expect("an id");
        let mut told = Vec::new();
        loop {
            let job = body(get(&format!("{url}/v1/jobs/{id}")));
            told.extend(job["progress"]["eta_s"].as_u64().filter(|_| job["state"] == "running"));
            if job["state"] == "done" {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        // Eight steps of a quarter of a second, and a ninth after the last report.
        let (first, last) = (told.first().expect("a time"), told.last().expect("a time"));
        assert!((2..=4).contains(first) && last < first, "{told:?}");
        let events = get(&format!("{url}/v1/jobs/{id}/events"));
        assert!(body(events).to_string().contains("done"));
        let numbers = body(get(&format!("{url}/metrics")));
        let numbers = numbers.as_str().expect("text");
        let labels = r#"{stage="diffusion",family="music""#;
        for line in [
            "# TYPE acestep_stage_seconds histogram".to_owned(),
            format!(r#"acestep_stage_seconds_bucket{labels},le="1"}} 0"#),
            format!(r#"acestep_stage_seconds_bucket{labels},le="5"}} 2"#),
            format!(r#"acestep_stage_seconds_bucket{labels},le="+Inf"}} 2"#),
            format!("acestep_stage_seconds_count{labels}}} 2"),
        ] {
            assert!(numbers.lines().any(|known| known == line), "{line}\n{numbers}");
        }
    })
    .await;
}
