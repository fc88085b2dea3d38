//! The file of the embedded store.

use std::sync::Arc;

use acestep_serve::{sqlite::Sqlite, store::Store};

use crate::contract::{claim, put};

#[test]
fn a_file_of_version_1_is_used_and_its_jobs_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jobs.sqlite");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(&path).expect("a new store"));
    let job = runtime.block_on(put(&store, "song"));
    drop(store);
    let file = rusqlite::Connection::open(&path).expect("a database");
    file.execute_batch(
        "DROP TRIGGER job_added; DROP TRIGGER job_moved; DROP TRIGGER job_removed;
         DROP TABLE tally; DROP INDEX job_owner; DROP INDEX job_waits;
         ALTER TABLE job DROP COLUMN losses; ALTER TABLE job DROP COLUMN lease_ms;
         ALTER TABLE job DROP COLUMN fingerprints;
         ALTER TABLE job ADD COLUMN run_after INTEGER NOT NULL DEFAULT 0; PRAGMA user_version = 1",
    )
    .expect("version 1");
    drop(file);
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(&path).expect("the store"));
    let counts = runtime.block_on(store.counts(None)).expect("answered");
    assert_eq!(counts.queued, 1);
    assert_eq!(runtime.block_on(claim(&store, "w")).map(|job| job.id), Some(job.id));
}

#[test]
fn a_file_of_another_program_or_version_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jobs.sqlite");
    std::fs::write(&path, "no database at all, but a text of some length").expect("written");
    let error = Sqlite::open(&path).expect_err("no database").to_string();
    assert!(error.contains("not a database"), "{error}");
    let path = folder.path().join("other.sqlite");
    let other = rusqlite::Connection::open(&path).expect("a database");
    other.execute_batch("CREATE TABLE song (name TEXT)").expect("a table");
    let error = Sqlite::open(&path).expect_err("foreign").to_string();
    assert_eq!(error, "the queue cannot be used: it is a database of another program");
    other.execute_batch("PRAGMA user_version = 99").expect("a version");
    let error = Sqlite::open(&path).expect_err("newer").to_string();
    assert!(error.contains("it has version 99"), "{error}");
}
