//! The contract of the queue: what is stored, listed, counted and removed. Every store passes the same
//! tests.

use std::time::Duration;

use acestep_serve::{
    job::{JobError, NewJob, Progress, State},
    store::{End, File, Lookup, Marks, News, Selection},
};
use serde_json::{Value, json};

use crate::{
    contract::{LEASE, claim, job, lease_of, new, of_each_store, put},
    place::SharedQueue,
};

of_each_store!(
    the_same_idempotency_key_is_the_same_job_of_one_owner,
    two_submissions_at_once_with_one_key_are_one_job,
    events_count_up_and_progress_is_removed_at_the_end,
    a_removed_id_is_forgotten_and_an_unknown_one_is_unknown,
    words_about_a_job_change_and_a_deleted_one_leaves_the_list,
    jobs_expire_by_age_and_by_bytes_from_the_oldest,
    a_large_request_comes_back_whole,
    files_are_kept_until_they_are_removed,
    a_setting_is_changed_in_one_step_by_each_process,
    counts_and_lists_follow_each_change_by_client,
    old_files_go_but_those_of_waiting_jobs_stay,
);

async fn the_same_idempotency_key_is_the_same_job_of_one_owner(place: SharedQueue) {
    let store = place.store().await;
    let keyed = |owner: &str| NewJob {
        idempotency_key: Some("k".into()),
        owner: owner.into(),
        ..new("song")
    };
    let first = store.put(keyed("a")).await.expect("stored");
    let again = store.put(keyed("a")).await.expect("stored");
    let other = store.put(keyed("b")).await.expect("stored");
    assert_eq!((first.existed, again.existed, other.existed), (false, true, false));
    assert_eq!(first.job.id, again.job.id);
    assert_ne!(first.job.id, other.job.id);
    let known = store.keyed("a".into(), "k".into()).await.expect("answered");
    assert_eq!(known.map(|job| job.id), Some(first.job.id));
    assert!(store.keyed("a".into(), "other".into()).await.expect("answered").is_none());
}

async fn two_submissions_at_once_with_one_key_are_one_job(place: SharedQueue) {
    let (store, other) = (place.store().await, place.store().await);
    let mut puts = Vec::new();
    for n in 0..20 {
        let store = if n % 2 == 0 { store.clone() } else { other.clone() };
        let job = NewJob { idempotency_key: Some("k".into()), ..new("song") };
        puts.push(tokio::spawn(async move { store.put(job).await.expect("stored") }));
    }
    let mut ids = Vec::new();
    for put in puts {
        ids.push(put.await.expect("no panic").job.id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(store.counts(None).await.expect("answered").queued, 1);
    // After its removal the key is free again.
    store.cancel(ids[0]).await.expect("answered");
    assert!(store.forget(ids[0]).await.expect("answered"));
    let job = NewJob { idempotency_key: Some("k".into()), ..new("song") };
    let again = store.put(job).await.expect("stored");
    assert!(!again.existed && again.job.id != ids[0]);
}

async fn events_count_up_and_progress_is_removed_at_the_end(place: SharedQueue) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    let lease = lease_of(&claim(&store, "w").await.expect("a job"));
    let progress = Progress {
        stage: "diffusion".into(),
        unit: "step".into(),
        done: 3,
        total: 8,
        eta_s: Some(40),
    };
    let news = News {
        progress: Some(progress.clone()),
        notices: vec!["the seed is 7".into()],
        resolved: Some(json!({ "seed": 7 })),
    };
    let again = News { notices: news.notices.clone(), ..News::default() };
    for news in [news, again] {
        store.extend(lease.clone(), LEASE, news).await.expect("answered");
    }
    let running = self::job(&store, job.id).await;
    assert_eq!((running.progress, running.notices), (progress, vec!["the seed is 7".to_owned()]));
    assert_eq!(running.resolved, Some(json!({ "seed": 7 })));
    let names = |events: Vec<acestep_serve::job::JobEvent>| -> Vec<(u64, String)> {
        events.into_iter().map(|event| (event.n, event.name)).collect()
    };
    let before = names(store.events(job.id, 0).await.expect("answered"));
    let expected = [(1, "state"), (2, "state"), (3, "progress"), (4, "notice")];
    assert_eq!(before, expected.map(|(n, name)| (n, name.to_owned())));
    let error = JobError::new("out_of_memory", "no room");
    store.finish(lease, End::Failed(error, vec![])).await.expect("answered");
    let after = names(store.events(job.id, 2).await.expect("answered"));
    assert_eq!(after, [(4, "notice".to_owned()), (5, "end".to_owned())]);
}

async fn a_removed_id_is_forgotten_and_an_unknown_one_is_unknown(place: SharedQueue) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    assert!(!store.forget(job.id).await.expect("answered"), "it waits");
    store.cancel(job.id).await.expect("answered");
    assert!(store.forget(job.id).await.expect("answered"));
    assert!(matches!(store.get(job.id).await, Ok(Lookup::Forgotten)));
    assert!(matches!(store.get(uuid::Uuid::now_v7()).await, Ok(Lookup::Unknown)));
}

async fn words_about_a_job_change_and_a_deleted_one_leaves_the_list(place: SharedQueue) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    let marks = Marks {
        title: Some("Rain".into()),
        liked: Some(true),
        tags: Some(vec!["piano".into()]),
        deleted: None,
    };
    assert!(store.mark(job.id, marks).await.expect("answered"));
    let list = |deleted| Selection { deleted, limit: 10, ..Selection::default() };
    let listed = store.list(list(false)).await.expect("answered");
    let [one] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!(
        (one.title.as_deref(), one.liked, &one.tags[..]),
        (Some("Rain"), true, &["piano".to_owned()][..])
    );
    let put_away = |deleted| Marks { deleted: Some(deleted), ..Marks::default() };
    store.mark(job.id, put_away(true)).await.expect("answered");
    assert!(store.list(list(false)).await.expect("answered").is_empty());
    assert_eq!(store.list(list(true)).await.expect("answered").len(), 1);
    store.mark(job.id, put_away(false)).await.expect("answered");
    assert_eq!(store.list(list(false)).await.expect("answered").len(), 1);
}

async fn jobs_expire_by_age_and_by_bytes_from_the_oldest(place: SharedQueue) {
    let store = place.store().await;
    let mut ids = Vec::new();
    for caption in ["one", "two", "three"] {
        let job = put(&store, caption).await;
        let lease = lease_of(&claim(&store, "w").await.expect("a job"));
        let output = acestep_serve::job::Output {
            track: 1,
            content: acestep_serve::job::Content::Audio,
            name: "1.wav".into(),
            media_type: "audio/wav".into(),
            bytes: 100,
            sha256: String::new(),
            seed: None,
            seconds: None,
            key: String::new(),
        };
        store.finish(lease, End::Done(vec![output])).await.expect("answered");
        ids.push(job.id);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    let expired = async |before: i64, bytes: u64| {
        let jobs = store.expired(before, 0, bytes).await.expect("answered");
        jobs.into_iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert!(expired(0, 300).await.is_empty());
    assert_eq!(expired(0, 250).await, [ids[0]]);
    assert_eq!(expired(i64::MAX, 300).await.len(), 3);
}

async fn a_large_request_comes_back_whole(place: SharedQueue) {
    let store = place.store().await;
    // Larger than a message of NATS may be.
    let large = NewJob { request: json!({ "lyrics": "la ".repeat(600_000) }), ..new("song") };
    let job = store.put(large.clone()).await.expect("stored").job;
    assert_eq!(job.request, large.request);
    let taken = claim(&store, "w").await.expect("a job");
    assert_eq!(taken.request, large.request);
    let news = News { resolved: Some(large.request.clone()), ..News::default() };
    store.extend(lease_of(&taken), LEASE, news).await.expect("answered");
    let other = place.store().await;
    let listed = other.list(Selection { limit: 1, ..Selection::default() }).await.expect("a list");
    assert_eq!(listed[0].resolved.as_ref(), Some(&large.request));
}

fn file(id: uuid::Uuid) -> File {
    File {
        id,
        owner: "a".into(),
        name: "song with spaces.wav".into(),
        bytes: 7,
        sha256: "00".into(),
        created: 1000,
    }
}

async fn files_are_kept_until_they_are_removed(place: SharedQueue) {
    let store = place.store().await;
    let file = file(uuid::Uuid::now_v7());
    store.put_file(file.clone()).await.expect("stored");
    assert_eq!(store.file(file.id).await.expect("answered").as_ref(), Some(&file));
    assert!(store.old_files(1000).await.expect("answered").is_empty());
    assert_eq!(store.old_files(1001).await.expect("answered"), std::slice::from_ref(&file));
    let stored = store.stored("a".into()).await.expect("answered");
    assert_eq!((stored.bytes, stored.own_bytes, stored.own_files), (7, 7, 1));
    let stored = store.stored("b".into()).await.expect("answered");
    assert_eq!((stored.bytes, stored.own_bytes, stored.own_files), (7, 0, 0));
    store.forget_file(file.id).await.expect("answered");
    assert_eq!(store.file(file.id).await.expect("answered"), None);
    assert!(store.old_files(1001).await.expect("answered").is_empty());
}

async fn a_setting_is_changed_in_one_step_by_each_process(place: SharedQueue) {
    let (store, other) = (place.store().await, place.store().await);
    let name = "the number";
    assert_eq!(store.setting(name).await.expect("answered"), Value::Null);
    let mut changes = Vec::new();
    for n in 0..20 {
        let store = if n % 2 == 0 { store.clone() } else { other.clone() };
        let add = Box::new(|old: Value| json!(old.as_u64().unwrap_or(0) + 1));
        let change = async move { store.change_setting(name, add).await.expect("stored") };
        changes.push(tokio::spawn(change));
    }
    for change in changes {
        change.await.expect("no panic");
    }
    assert_eq!(other.setting(name).await.expect("answered"), json!(20));
}

async fn counts_and_lists_follow_each_change_by_client(place: SharedQueue) {
    let store = place.store().await;
    let of = |owner: &str| NewJob { owner: owner.into(), ..new("song") };
    let mut ids = Vec::new();
    for owner in ["a", "b", "a"] {
        ids.push(store.put(of(owner)).await.expect("stored").job.id);
    }
    let counts = async |owner: Option<&str>| {
        let counts = store.counts(owner.map(str::to_owned)).await.expect("answered");
        (counts.queued, counts.running, counts.done, counts.cancelled)
    };
    assert_eq!((counts(None).await, counts(Some("a")).await), ((3, 0, 0, 0), (2, 0, 0, 0)));
    // Another process sees the same at once.
    let other = place.store().await;
    assert_eq!(other.waiting("a".to_owned()).await.expect("answered"), [3, 2]);
    let first = claim(&store, "w").await.expect("a job");
    assert_eq!(counts(Some("a")).await, (1, 1, 0, 0));
    store.finish(lease_of(&first), End::Done(vec![])).await.expect("answered");
    store.cancel(ids[1]).await.expect("answered");
    assert_eq!(counts(None).await, (1, 0, 1, 1));
    assert!(store.counts(None).await.expect("answered").mean_seconds.is_some());
    let list = async |owner: &str, states: &[State]| -> Vec<uuid::Uuid> {
        let (owner, states) = (Some(owner.to_owned()), states.to_vec());
        let selection = Selection { owner, states, limit: 10, ..Selection::default() };
        store.list(selection).await.expect("a list").into_iter().map(|job| job.id).collect()
    };
    assert_eq!(list("a", &[]).await, [ids[2], ids[0]]);
    assert_eq!(list("a", &[State::Done]).await, [ids[0]]);
    store.forget(ids[0]).await.expect("answered");
    assert_eq!((counts(None).await, list("a", &[]).await), ((1, 0, 0, 1), vec![ids[2]]));
    assert!(store.retry(ids[1]).await.expect("answered"));
    assert_eq!(counts(None).await, (2, 0, 0, 0));
    for n in 0..20 {
        store.put(of("c")).await.expect("stored");
        assert_eq!(other.waiting("c".to_owned()).await.expect("answered"), [3 + n, 1 + n]);
        let listed = Selection { owner: Some("c".to_owned()), limit: 100, ..Selection::default() };
        assert_eq!(other.list(listed).await.expect("a list").len() as u64, 1 + n);
    }
}

async fn old_files_go_but_those_of_waiting_jobs_stay(place: SharedQueue) {
    let queue = place.open().await;
    let (old, needed) = (uuid::Uuid::now_v7(), uuid::Uuid::now_v7());
    for id in [old, needed] {
        std::fs::write(queue.objects.file(id), "x").expect("written");
        queue.store.put_file(file(id)).await.expect("stored");
    }
    let part = |name: &str, time| {
        let path = queue.objects.incoming().join(name);
        let file = std::fs::File::create(&path).expect("a file");
        file.set_modified(time).expect("its time");
        path
    };
    let new_part = part(".tmpnew", std::time::SystemTime::now());
    let old_part = part(".tmpold", std::time::SystemTime::UNIX_EPOCH);
    let request = json!({ "caption": "x", "reference_audio": [needed] });
    queue.store.put(NewJob { request, ..new("song") }).await.expect("stored");
    let (store, objects) = (queue.store.clone(), queue.objects.clone());
    acestep_serve::maintenance::clean(&*store, &objects, Default::default()).await.expect("clean");
    assert_eq!(store.file(old).await.expect("answered"), None);
    assert!(store.file(needed).await.expect("answered").is_some());
    assert!(!objects.file(old).exists() && objects.file(needed).exists());
    assert!(new_part.exists() && !old_part.exists());
}
