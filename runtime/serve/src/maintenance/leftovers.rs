//! Things that a power cut or a killed process left: bytes of clients without a description, previews and
//! folders of attempts that nobody goes on with.

use std::{collections::HashSet, fs, io, path::Path, time::Duration};

use uuid::Uuid;

use super::blocking;
use crate::{
    job::{Job, millis, now},
    objects::Objects,
    preview,
    store::{Lookup, Store, StoreError},
};

/// Removes what nobody touched for `age`.
pub(super) async fn remove(
    store: &dyn Store,
    objects: &Objects,
    age: Duration,
) -> Result<(), StoreError> {
    let of_disk = objects.clone();
    let listed = tokio::task::spawn_blocking(move || {
        (of_disk.files_older_than(age), of_disk.jobs_with_results())
    });
    let Ok((files, jobs)) = listed.await else { return Ok(()) };
    for id in said(files, "files of clients") {
        // An upload has its description when it is answered, so an old file without one has no client.
        if store.file(id).await?.is_none() {
            let removed = blocking(objects, move |objects| objects.remove_file(id)).await;
            tracing::warn!(file = %id, ?removed, "nobody knows of this file");
        }
    }
    for id in said(jobs, "results") {
        let gone = match store.get(id).await? {
            Lookup::Job(job) if is_old(&job, age) => {
                blocking(objects, move |objects| tidy(&objects.results_of(id), &job)).await
            }
            Lookup::Job(_) => Ok(()),
            // Its results went first, but their removal was not yet safe on disk.
            Lookup::Forgotten => blocking(objects, move |objects| objects.remove(id, 0)).await,
            // It may be of another queue, whose results are for that one to remove.
            Lookup::Unknown => Ok(()),
        };
        if let Err(error) = gone {
            tracing::warn!(job = %id, %error, "files of earlier attempts stay");
        }
    }
    Ok(())
}

fn said(ids: io::Result<Vec<Uuid>>, what: &str) -> Vec<Uuid> {
    ids.unwrap_or_else(|error| {
        tracing::error!(%error, what, "they cannot be listed");
        Vec::new()
    })
}

fn is_old(job: &Job, age: Duration) -> bool {
    job.ended.is_some_and(|ended| now().saturating_sub(ended) > millis(age))
}

/// Leaves of the folder of an ended job only its results.
fn tidy(folder: &Path, job: &Job) -> io::Result<()> {
    let prefix = format!("results/{}/", job.id);
    let of = |key: &str| Some(key.strip_prefix(&prefix)?.split('/').next()?.to_owned());
    let with_results: HashSet<String> =
        job.outputs.iter().filter_map(|output| of(&output.key)).collect();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match with_results.contains(&*entry.file_name().to_string_lossy()) {
            true => preview::remove(&entry.path())?,
            false => fs::remove_dir_all(entry.path())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{
        job::{Content, Kind, NewJob, RunOutput},
        preview::{Preview, PreviewFormat},
        sqlite::Sqlite,
        store::{Claim, End, File, Lease, ModelFilter},
    };

    async fn attempt(store: &dyn Store, objects: &Objects, end: Option<Content>) -> Lease {
        let claim = Claim {
            worker: "w".to_owned(),
            kinds: Kind::ALL.to_vec(),
            has: ModelFilter::all(),
            except: Vec::new(),
            resident: None,
            patience: Duration::ZERO,
            lease: Duration::from_secs(60),
        };
        let job = store.claim(claim).await.expect("answered").expect("a job");
        let lease = Lease { id: job.id, worker: "w".to_owned(), attempt: job.attempts };
        let folder = objects.attempt(&lease).expect("a folder");
        let format = PreviewFormat { sample_rate: 48_000, channels: 2 };
        Preview::begin(&folder, format).expect("begun");
        match end {
            Some(content) => {
                fs::write(folder.join("1.wav"), "sound").expect("written");
                let (name, seed, seconds) = ("1.wav".to_owned(), None, None);
                let made = RunOutput { track: 1, content, name, seed, seconds };
                let output = objects.output(&lease, &made).expect("described");
                let done = End::Done(vec![output]);
                assert!(store.finish(lease.clone(), done).await.expect("answered"));
            }
            None => drop(store.abandon("w".to_owned(), true).await.expect("answered")),
        }
        lease
    }

    #[tokio::test]
    async fn a_crash_leaves_no_preview_no_lost_attempt_and_no_file_without_a_description() {
        let folder = tempfile::tempdir().expect("a folder");
        let objects = Objects::open(folder.path()).expect("a folder");
        let store: Arc<dyn Store> =
            Arc::new(Sqlite::open(&folder.path().join("jobs.sqlite")).expect("a store"));
        let put = async || {
            let new = NewJob::new(Kind::Generate, None, json!({}), "o");
            store.put(new).await.expect("stored").job.id
        };
        put().await;
        let lost = attempt(&*store, &objects, None).await;
        let done = attempt(&*store, &objects, Some(Content::Audio)).await;
        let gone = put().await;
        let removed = attempt(&*store, &objects, Some(Content::Audio)).await;
        assert!(store.forget(gone).await.expect("answered"));
        put().await;
        let next = attempt(&*store, &objects, None).await;
        let foreign = objects.results_of(Uuid::now_v7());
        fs::create_dir(&foreign).expect("a folder");
        let [known, unknown] = [0; 2].map(|_| Uuid::now_v7());
        for id in [known, unknown] {
            fs::write(objects.file(id), "sound").expect("written");
        }
        let (owner, name, sha256) = ("o".to_owned(), "a".to_owned(), String::new());
        let file = File { id: known, owner, name, bytes: 5, sha256, created: now() };
        store.put_file(file).await.expect("stored");
        remove(&*store, &objects, Duration::from_secs(60)).await.expect("answered");
        assert!(preview::path(&objects.attempt_folder(&done)).exists(), "it ended just now");
        assert!(objects.file(unknown).exists(), "it came just now");
        // Later than the millisecond of its end.
        std::thread::sleep(Duration::from_millis(5));
        remove(&*store, &objects, Duration::ZERO).await.expect("answered");
        let exists = |lease| objects.attempt_folder(lease).exists();
        assert_eq!([&lost, &done, &removed, &next].map(exists), [false, true, false, true]);
        assert!(!preview::path(&objects.attempt_folder(&done)).exists());
        assert!(preview::path(&objects.attempt_folder(&next)).exists(), "its job goes on");
        assert!(objects.attempt_folder(&done).join("1.wav").exists());
        assert!(objects.file(known).exists() && !objects.file(unknown).exists());
        assert!(foreign.exists(), "it may be of another queue");
    }
}
