//! Jobs that run again pass the checks of new ones.

use acestep_serve::{
    http::Security,
    store::{Marks, Selection},
};
use serde_json::json;

use crate::{
    contract::{job, of_each_store, put},
    place::SharedQueue,
    web::{Api, body, code, served_with, text},
};

of_each_store!(a_job_that_was_put_away_is_seen_again_when_it_runs_again);

async fn a_job_that_was_put_away_is_seen_again_when_it_runs_again(place: SharedQueue) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    store.cancel(job.id).await.expect("answered");
    let away = Marks { deleted: Some(true), ..Marks::default() };
    assert!(store.mark(job.id, away).await.expect("answered"));
    assert!(store.retry(job.id).await.expect("answered"));
    assert_eq!(self::job(&store, job.id).await.deleted, None);
    let all = Selection { limit: 9, ..Selection::default() };
    let listed = store.list(all).await.expect("answered");
    assert_eq!(listed.iter().map(|job| job.id).collect::<Vec<_>>(), [job.id]);
}

/// Sends a job with a file; returns the ids of both.
fn with_file(api: &Api) -> (String, String) {
    let request = r#"{"caption":"rain","task_type":"cover"}"#;
    let job = body(api.form("/v1/jobs", &[("request", request)], &[("src_audio", b"sound")]));
    (text(&job["id"]), text(&job["request"]["src_audio"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_again_only_if_it_has_a_place_and_its_files() {
    // Without a worker all jobs wait.
    let api = served_with(0, Security::default(), |server| server.limits.queue = 1).await;
    let refused = |id: &str| code(api.change_job(id, "retry"));
    let (first, file) = with_file(&api);
    assert_eq!(refused(&first), (409, json!("wrong_state")), "it waits");
    assert_eq!(api.change_job(&first, "cancel").status(), 200);
    let song = json!({ "request": { "caption": "x" } });
    let second = text(&body(api.post("/v1/jobs", &song))["id"]);
    assert_eq!(refused(&first), (429, json!("queue_full")));
    assert_eq!(api.change_job(&second, "cancel").status(), 200);
    assert_eq!(api.delete(&format!("/v1/files/{file}")).status(), 204);
    assert_eq!(refused(&first), (404, json!("file_not_found")));
    assert_eq!(api.job(&first)["state"], "cancelled");
    assert_eq!(body(api.change_job(&second, "retry"))["state"], "queued");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_stays_while_a_job_that_was_put_away_waits_for_it() {
    let api = served_with(0, Security::default(), |_| ()).await;
    let (job, file) = with_file(&api);
    // An older version of the program let a job run again without taking it back.
    let away = Marks { deleted: Some(true), ..Marks::default() };
    assert!(api.queue.store.mark(job.parse().expect("an id"), away).await.expect("answered"));
    assert_eq!(api.delete(&format!("/v1/files/{file}")).status(), 409);
}
