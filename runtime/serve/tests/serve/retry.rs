//! Jobs that run again pass the checks of new ones.

use acestep_serve::{
    http::{Security, Server},
    store::{Found, Marks, Selection},
};
use serde_json::{Value, json};

use crate::{
    contract::{of_each_store, put},
    place::Place,
    support::{Queue, Running},
    web::{Answer, agent, body, client, form, get, post},
};

of_each_store!(a_job_that_was_put_away_is_seen_again_when_it_runs_again);

async fn a_job_that_was_put_away_is_seen_again_when_it_runs_again(place: Place) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    store.cancel(job.id).await.expect("answered");
    let away = Marks { deleted: Some(true), ..Marks::default() };
    assert!(store.mark(job.id, away).await.expect("answered"));
    assert!(store.retry(job.id).await.expect("answered"));
    let Found::Job(again) = store.get(job.id).await.expect("answered") else { panic!("gone") };
    assert_eq!(again.deleted, None);
    let all = Selection { limit: 9, ..Selection::default() };
    let listed = store.list(all).await.expect("answered");
    assert_eq!(listed.iter().map(|job| job.id).collect::<Vec<_>>(), [job.id]);
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Sends a job with a file; returns the ids of both.
fn with_file(url: &str) -> (String, String) {
    let request = r#"{"caption":"rain","task_type":"cover"}"#;
    let job = form(&format!("{url}/v1/jobs"), &[("request", request)], &[("src_audio", b"sound")]);
    let job = body(job);
    (text(&job["id"]), text(&job["request"]["src_audio"]))
}

fn call(url: &str, id: &str, what: &str) -> Answer {
    agent().post(format!("{url}/v1/jobs/{id}/{what}")).send_empty().expect("an answer")
}

fn remove_file(url: &str, id: &str) -> u16 {
    let removed = agent().delete(format!("{url}/v1/files/{id}")).call();
    removed.expect("an answer").status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_again_only_if_it_has_a_place_and_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let queue = Queue::open(folder.path(), None).await;
    let one = |server: &mut Server| server.limits.queue = 1;
    // Without a worker all jobs wait.
    let running = Running::over(&queue, Security::default(), 0, 0, one).await;
    let url = running.url("");
    client(move || {
        let refused = |id: &str| {
            let answer = call(&url, id, "retry");
            (answer.status().as_u16(), text(&body(answer)["error"]["code"]))
        };
        let (first, file) = with_file(&url);
        assert_eq!(refused(&first), (409, "wrong_state".to_owned()), "it waits");
        assert_eq!(call(&url, &first, "cancel").status(), 200);
        let song = json!({ "request": { "caption": "x" } });
        let second = text(&body(post(&format!("{url}/v1/jobs"), &song))["id"]);
        assert_eq!(refused(&first), (429, "queue_full".to_owned()));
        assert_eq!(call(&url, &second, "cancel").status(), 200);
        assert_eq!(remove_file(&url, &file), 204);
        assert_eq!(refused(&first), (404, "file_not_found".to_owned()));
        let state = |id: &str| text(&body(get(&format!("{url}/v1/jobs/{id}")))["state"]);
        assert_eq!(state(&first), "cancelled");
        assert_eq!(body(call(&url, &second, "retry"))["state"], "queued");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_stays_while_a_job_that_was_put_away_waits_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let queue = Queue::open(folder.path(), None).await;
    let running = Running::over(&queue, Security::default(), 0, 0, |_| ()).await;
    let url = running.url("");
    let of_job = url.clone();
    let (job, file) = client(move || with_file(&of_job)).await;
    // An older version of the program let a job run again without taking it back.
    let away = Marks { deleted: Some(true), ..Marks::default() };
    assert!(queue.store.mark(job.parse().expect("an id"), away).await.expect("answered"));
    assert_eq!(client(move || remove_file(&url, &file)).await, 409);
}
