//! The contract of the store over the tables.

use std::time::Duration;

use rusqlite::{Connection, Row, named_params};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use uuid::Uuid;

use super::{
    Sqlite, queue,
    rows::{COLUMNS, all, by_id, by_key, id, job, one},
};
use crate::{
    job::{Job, JobEvent, Millis, NewJob, State, now},
    store::{
        Claim, Counts, End, File, FileCounts, Lease, LeaseState, Lookup, Marks, News, Put,
        Selection, SettingUpdate, Store, StoreFuture,
    },
};

/// Jobs behind a job that are counted to find its place from the end of the queue.
const BEHIND: i64 = 200;
/// Jobs whose mean time is reported.
const RECENT: i64 = 20;

fn whole(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// The columns of [`file`], in order.
const FILE: &str = "id, owner, name, bytes, sha256, created";

fn file(row: &Row<'_>) -> rusqlite::Result<File> {
    Ok(File {
        id: id(row, 0)?,
        owner: row.get(1)?,
        name: row.get(2)?,
        bytes: whole(row.get(3)?),
        sha256: row.get(4)?,
        created: row.get(5)?,
    })
}

fn setting(connection: &Connection, name: &str) -> rusqlite::Result<Value> {
    let select = "SELECT value FROM setting WHERE name = ?1";
    let text = one(connection, select, [name], |row| row.get::<_, String>(0))?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

impl Store for Sqlite {
    fn put(&self, new: NewJob) -> StoreFuture<'_, Put> {
        self.write(move |group| {
            if let Some(key) = &new.idempotency_key
                && let Some(job) = by_key(group.connection, &new.owner, key)?
            {
                return Ok(Put { job, existed: true });
            }
            let (id, at) = (Uuid::now_v7(), now());
            let insert = "INSERT INTO job (id, kind, model, owner, idempotency_key, request, state,
                     priority, created, notices, title, change, fingerprints)
                 VALUES (:id, :kind, :model, :owner, :key, :request, 'queued', :priority, :now,
                     :notices, :title, :change, :fingerprints)";
            group.connection.prepare_cached(insert)?.execute(named_params! {
                ":id": id.to_string(),
                ":kind": new.kind,
                ":model": new.model,
                ":owner": new.owner,
                ":key": new.idempotency_key,
                ":request": new.request.to_string(),
                ":priority": new.priority,
                ":now": at,
                ":notices": json!(new.notices).to_string(),
                ":title": new.title,
                ":change": group.next_change()?,
                ":fingerprints": json!(new.fingerprints).to_string(),
            })?;
            group.changed.push(id);
            group.event(id, "state", &json!({ "state": State::Queued, "at": at }))?;
            for notice in &new.notices {
                group.event(id, "notice", &json!({ "text": notice }))?;
            }
            let job = new.stored(id, at);
            Ok(Put { job, existed: false })
        })
    }

    fn keyed(&self, owner: String, key: String) -> StoreFuture<'_, Option<Job>> {
        self.read(move |connection| by_key(connection, &owner, &key))
    }

    fn claim(&self, claim: Claim) -> StoreFuture<'_, Option<Job>> {
        self.write(move |group| queue::claim(group, &claim))
    }

    fn extend(&self, lease: Lease, length: Duration, news: News) -> StoreFuture<'_, LeaseState> {
        self.write(move |group| queue::extend(group, &lease, length, &news))
    }

    fn finish(&self, lease: Lease, end: End) -> StoreFuture<'_, bool> {
        self.write(move |group| queue::finish(group, &lease, end))
    }

    fn cancel(&self, id: Uuid) -> StoreFuture<'_, Option<State>> {
        self.write(move |group| queue::cancel(group, id))
    }

    fn retry(&self, id: Uuid) -> StoreFuture<'_, bool> {
        self.write(move |group| queue::retry(group, id))
    }

    fn get(&self, id: Uuid) -> StoreFuture<'_, Lookup> {
        self.read(move |connection| {
            if let Some(job) = by_id(connection, id)? {
                return Ok(Lookup::Job(job));
            }
            let select = "SELECT count(*) FROM forgotten WHERE id = ?1";
            let known: i64 =
                connection.prepare_cached(select)?.query_row([id.to_string()], |row| row.get(0))?;
            Ok(if known > 0 { Lookup::Forgotten } else { Lookup::Unknown })
        })
    }

    fn list(&self, selection: Selection) -> StoreFuture<'_, Vec<Job>> {
        self.read(move |connection| {
            let select = format!(
                "SELECT {COLUMNS} FROM job
                 WHERE (:owner IS NULL OR owner = :owner)
                     AND (:states = '[]' OR state IN (SELECT value FROM json_each(:states)))
                     AND (:kinds = '[]' OR kind IN (SELECT value FROM json_each(:kinds)))
                     AND (:before IS NULL OR id < :before)
                     AND (deleted IS NOT NULL) = :deleted
                 ORDER BY id DESC LIMIT :limit"
            );
            let values = named_params! {
                ":owner": selection.owner,
                ":states": json!(selection.states).to_string(),
                ":kinds": json!(selection.kinds).to_string(),
                ":before": selection.before.map(|id| id.to_string()),
                ":deleted": selection.deleted,
                ":limit": selection.limit,
            };
            all(connection, &select, values, job)
        })
    }

    fn ahead(&self, id: Uuid) -> StoreFuture<'_, Option<u64>> {
        self.read(move |connection| {
            // Two ranges of the index of states; an OR of both would read the whole queue. Clients ask most
            // about jobs that they have just sent, with few jobs behind them: then those are counted.
            let select = "SELECT CASE WHEN behind < ?2 THEN total - 1 - behind ELSE
                     (SELECT count(*) FROM job AS other
                         WHERE other.state = 'queued' AND other.priority > of.priority)
                     + (SELECT count(*) FROM job AS other
                         WHERE other.state = 'queued' AND other.priority = of.priority
                             AND other.id < of.id)
                     END
                 FROM (SELECT job.id, job.priority,
                     (SELECT sum(jobs) FROM tally WHERE tally.state = 'queued') AS total,
                     (SELECT count(*) FROM (SELECT 1 FROM job AS other
                         WHERE other.state = 'queued' AND other.priority < job.priority LIMIT ?2))
                     + (SELECT count(*) FROM (SELECT 1 FROM job AS other
                         WHERE other.state = 'queued' AND other.priority = job.priority
                             AND other.id > job.id LIMIT ?2)) AS behind
                     FROM job WHERE job.id = ?1 AND job.state = 'queued') AS of";
            let ahead = one(connection, select, (id.to_string(), BEHIND), |row| row.get(0))?;
            Ok(ahead.map(whole))
        })
    }

    fn counts(&self, owner: Option<String>) -> StoreFuture<'_, Counts> {
        self.read(move |connection| {
            let mut counts = Counts::default();
            let select = "SELECT state, sum(jobs), sum(bytes) FROM tally
                 WHERE ?1 IS NULL OR owner = ?1 GROUP BY state";
            let mut statement = connection.prepare_cached(select)?;
            let mut rows = statement.query([&owner])?;
            while let Some(row) = rows.next()? {
                *counts.number(row.get(0)?) += whole(row.get(1)?);
                counts.bytes += whole(row.get(2)?);
            }
            // The plus keeps SQLite from the index of states, which would sort all jobs that are done.
            let mean = "SELECT avg(ended - started) / 1000.0 FROM (SELECT started, ended FROM job
                 WHERE +state = 'done' AND started IS NOT NULL AND ended IS NOT NULL
                 ORDER BY ended DESC LIMIT ?1)";
            counts.mean_seconds =
                connection.prepare_cached(mean)?.query_row([RECENT], |row| row.get(0))?;
            Ok(counts)
        })
    }

    fn waiting(&self, owner: String) -> StoreFuture<'_, [u64; 2]> {
        self.read(move |connection| {
            let select = "SELECT coalesce(sum(jobs), 0),
                     coalesce(sum(jobs) FILTER (WHERE owner = ?1), 0)
                 FROM tally WHERE state = 'queued'";
            connection
                .prepare_cached(select)?
                .query_row([owner], |row| Ok([whole(row.get(0)?), whole(row.get(1)?)]))
        })
    }

    fn events(&self, id: Uuid, after: u64) -> StoreFuture<'_, Vec<JobEvent>> {
        self.read(move |connection| {
            let select = "SELECT n, name, data FROM event WHERE job = ?1 AND n > ?2 ORDER BY n";
            let after = i64::try_from(after).unwrap_or(i64::MAX);
            all(connection, select, (id.to_string(), after), |row| {
                let data: String = row.get(2)?;
                let data = serde_json::from_str(&data).unwrap_or(Value::Null);
                Ok(JobEvent { n: whole(row.get(0)?), name: row.get(1)?, data })
            })
        })
    }

    fn mark(&self, id: Uuid, marks: Marks) -> StoreFuture<'_, bool> {
        self.write(move |group| {
            let update = "UPDATE job SET
                     title = CASE WHEN :title IS NULL THEN title ELSE nullif(:title, '') END,
                     liked = coalesce(:liked, liked),
                     tags = coalesce(:tags, tags),
                     deleted = CASE WHEN :deleted IS NULL THEN deleted WHEN :deleted THEN :now END
                 WHERE id = :id";
            let rows = group.connection.prepare_cached(update)?.execute(named_params! {
                ":title": marks.title,
                ":liked": marks.liked,
                ":tags": marks.tags.map(|tags| json!(tags).to_string()),
                ":deleted": marks.deleted,
                ":now": now(),
                ":id": id.to_string(),
            })?;
            if rows > 0 {
                group.changed(id)?;
            }
            Ok(rows > 0)
        })
    }

    fn sweep(&self) -> StoreFuture<'_, Vec<Uuid>> {
        let leases = self.leases.clone();
        self.write(move |group| {
            let mut leases = leases.lock();
            queue::sweep(group, &mut leases)
        })
    }

    fn abandon(&self, worker: String, is_loss: bool) -> StoreFuture<'_, Vec<Uuid>> {
        self.write(move |group| queue::abandon(group, &worker, is_loss))
    }

    fn expired(
        &self,
        before: Millis,
        deleted_before: Millis,
        bytes: u64,
    ) -> StoreFuture<'_, Vec<Job>> {
        self.read(move |connection| {
            // The sum counts from the newest job down: what lies beyond the limit goes.
            let select = format!(
                "SELECT {COLUMNS} FROM (SELECT *,
                         sum(bytes) OVER (ORDER BY ended DESC, id DESC) AS newer FROM job
                     WHERE ended IS NOT NULL)
                 WHERE ended < :before OR deleted < :deleted OR newer > :bytes"
            );
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            let values =
                named_params! { ":before": before, ":deleted": deleted_before, ":bytes": bytes };
            all(connection, &select, values, job)
        })
    }

    fn forget(&self, id: Uuid) -> StoreFuture<'_, bool> {
        self.write(move |group| {
            let text = id.to_string();
            let delete = "DELETE FROM job WHERE id = ?1
                 AND state IN ('done', 'failed', 'cancelled')";
            if group.run(delete, [&text])? == 0 {
                return Ok(false);
            }
            group.run("DELETE FROM event WHERE job = ?1", [&text])?;
            let keep = "INSERT OR REPLACE INTO forgotten (id, at) VALUES (?1, ?2)";
            group.run(keep, (&text, now()))?;
            group.changed.push(id);
            Ok(true)
        })
    }

    fn put_file(&self, file: File) -> StoreFuture<'_, ()> {
        self.write(move |group| {
            let insert = format!("INSERT INTO file ({FILE}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
            let File { id, owner, name, bytes, sha256, created } = file;
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            group.run(&insert, (id.to_string(), owner, name, bytes, sha256, created)).map(drop)
        })
    }

    fn file(&self, wanted: Uuid) -> StoreFuture<'_, Option<File>> {
        self.read(move |connection| {
            let select = format!("SELECT {FILE} FROM file WHERE id = ?1");
            one(connection, &select, [wanted.to_string()], file)
        })
    }

    fn files(&self, owner: String, after: Option<Uuid>, limit: u32) -> StoreFuture<'_, Vec<File>> {
        self.read(move |connection| {
            let select = format!(
                "SELECT {FILE} FROM file WHERE owner = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
            );
            let after = after.map(|id| id.to_string()).unwrap_or_default();
            all(connection, &select, (owner, after, limit), file)
        })
    }

    fn stored(&self, owner: String) -> StoreFuture<'_, FileCounts> {
        self.read(move |connection| {
            let select = "SELECT coalesce(sum(bytes), 0),
                     coalesce(sum(bytes) FILTER (WHERE owner = ?1), 0),
                     count(*) FILTER (WHERE owner = ?1) FROM file";
            connection.prepare_cached(select)?.query_row([owner], |row| {
                Ok(FileCounts {
                    bytes: whole(row.get(0)?),
                    own_bytes: whole(row.get(1)?),
                    own_files: whole(row.get(2)?),
                })
            })
        })
    }

    fn old_files(&self, before: Millis) -> StoreFuture<'_, Vec<File>> {
        self.read(move |connection| {
            let select = format!("SELECT {FILE} FROM file WHERE created < ?1");
            all(connection, &select, [before], file)
        })
    }

    fn forget_file(&self, id: Uuid) -> StoreFuture<'_, ()> {
        self.write(move |group| {
            group.run("DELETE FROM file WHERE id = ?1", [id.to_string()]).map(drop)
        })
    }

    fn setting(&self, name: &'static str) -> StoreFuture<'_, Value> {
        self.read(move |connection| setting(connection, name))
    }

    fn change_setting(
        &self,
        name: &'static str,
        mut change: SettingUpdate,
    ) -> StoreFuture<'_, Value> {
        self.write(move |group| {
            let value = change(setting(group.connection, name)?);
            let put = "INSERT OR REPLACE INTO setting (name, value) VALUES (?1, ?2)";
            group.run(put, (name, value.to_string()))?;
            Ok(value)
        })
    }

    fn changes(&self) -> broadcast::Receiver<Uuid> {
        self.changes.subscribe()
    }
}
