//! Tables of the embedded store, and their version.

use rusqlite::{Connection, TransactionBehavior};

use crate::store::StoreError;

/// Version of the tables, stored as `user_version`.
const VERSION: i64 = 4;
/// The changes from each version to the next one; an empty file has version 0.
const STEPS: [&str; VERSION as usize] = [TABLES, TALLY, LEASES, FINGERPRINTS];

const TABLES: &str = "
CREATE TABLE job (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    model TEXT,
    owner TEXT NOT NULL,
    idempotency_key TEXT,
    request TEXT NOT NULL,
    resolved TEXT,
    state TEXT NOT NULL,
    priority INTEGER NOT NULL,
    created INTEGER NOT NULL,
    run_after INTEGER NOT NULL,
    started INTEGER,
    ended INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    lease_until INTEGER,
    progress TEXT NOT NULL DEFAULT '{}',
    notices TEXT NOT NULL DEFAULT '[]',
    error TEXT,
    outputs TEXT NOT NULL DEFAULT '[]',
    bytes INTEGER NOT NULL DEFAULT 0,
    title TEXT,
    liked INTEGER NOT NULL DEFAULT 0,
    tags TEXT NOT NULL DEFAULT '[]',
    deleted INTEGER,
    change INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX job_idempotency ON job (owner, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX job_state ON job (state, priority DESC, id);
CREATE INDEX job_change ON job (change);
CREATE INDEX job_ended ON job (ended) WHERE ended IS NOT NULL;
CREATE TABLE event (
    job TEXT NOT NULL,
    n INTEGER NOT NULL,
    name TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (job, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE forgotten (id TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE file (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    created INTEGER NOT NULL
) STRICT;
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE counter (change INTEGER NOT NULL) STRICT;
INSERT INTO counter VALUES (0);
";

/// Numbers of jobs and their sizes by client and state, kept by triggers: each submission asks for
/// them, and counting all jobs takes longer with each job.
const TALLY: &str = "
CREATE TABLE tally (
    owner TEXT NOT NULL,
    state TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (owner, state)
) STRICT, WITHOUT ROWID;
INSERT INTO tally SELECT owner, state, count(*), sum(bytes) FROM job GROUP BY owner, state;
CREATE TRIGGER job_added AFTER INSERT ON job BEGIN
    INSERT INTO tally VALUES (new.owner, new.state, 1, new.bytes) ON CONFLICT DO UPDATE
        SET jobs = jobs + 1, bytes = bytes + new.bytes;
END;
CREATE TRIGGER job_moved AFTER UPDATE OF state, bytes ON job BEGIN
    UPDATE tally SET jobs = jobs - 1, bytes = bytes - old.bytes
        WHERE owner = old.owner AND state = old.state;
    INSERT INTO tally VALUES (new.owner, new.state, 1, new.bytes) ON CONFLICT DO UPDATE
        SET jobs = jobs + 1, bytes = bytes + new.bytes;
END;
CREATE TRIGGER job_removed AFTER DELETE ON job BEGIN
    UPDATE tally SET jobs = jobs - 1, bytes = bytes - old.bytes
        WHERE owner = old.owner AND state = old.state;
END;
CREATE INDEX job_owner ON job (owner, id);
CREATE INDEX job_waits ON job (priority, model, id) WHERE state = 'queued';
";

/// Version 3: numbers of attempts only grow, so lost workers are counted beside them; the length of a
/// lease is known to processes with another clock; no job waits for a time of the clock.
const LEASES: &str = "
ALTER TABLE job ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN lease_ms INTEGER;
ALTER TABLE job DROP COLUMN run_after;
UPDATE job SET losses = attempts WHERE state = 'queued';
UPDATE job SET losses = max(attempts - 1, 0) WHERE state IN ('running', 'cancelling');
";

/// Version 4: requests that are sent again are compared as they were sent.
const FINGERPRINTS: &str = "ALTER TABLE job ADD COLUMN fingerprints TEXT NOT NULL DEFAULT '[]';";

/// Sets the connection up, and creates the tables in an empty file.
pub(super) fn prepare(connection: &mut Connection) -> Result<(), StoreError> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if version == 0 && tables > 0 {
        return Err(StoreError::new("it is a database of another program"));
    }
    let steps = usize::try_from(version).ok().and_then(|version| STEPS.get(version..));
    let Some(steps) = steps else {
        let why = format!("it has version {version}, and this program knows version {VERSION}");
        return Err(StoreError::new(why));
    };
    for step in steps {
        transaction.execute_batch(step)?;
    }
    if !steps.is_empty() {
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(transaction.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_of_version_2_keeps_its_jobs_and_their_losses() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut connection = Connection::open(folder.path().join("old.sqlite")).expect("a file");
        connection.execute_batch(TABLES).expect("tables");
        connection.execute_batch(TALLY).expect("tables");
        let insert =
            "INSERT INTO job (id, kind, owner, request, state, priority, created, run_after,
                 attempts, change)
             VALUES ('a', 'generate', 'o', '{}', 'queued', 0, 1, 1, 1, 1),
                 ('b', 'generate', 'o', '{}', 'running', 0, 1, 1, 1, 2);
             PRAGMA user_version = 2";
        connection.execute_batch(insert).expect("jobs");
        for _ in 0..2 {
            prepare(&mut connection).expect("the present version");
        }
        let mut losses = connection.prepare("SELECT losses FROM job ORDER BY id").expect("SQL");
        let losses: Vec<u32> =
            losses.query_map([], |row| row.get(0)).and_then(Iterator::collect).expect("the jobs");
        assert_eq!(losses, [1, 0]);
    }
}
