//! The life of a job: claimed, extended, finished, cancelled, lost.

use std::time::{Duration, Instant};

use serde_json::json;
use uuid::Uuid;

use super::{
    Group,
    leases::{Leases, Written},
    rows::{all, by_id, id, one},
};
use crate::{
    job::{Content, Job, JobError, Millis, Output, State, millis, now},
    store::{Claim, End, Lease, LeaseState, MOST_LOSSES, News},
};

/// Length of a lease that an older version of the program wrote.
const OLDER: Duration = Duration::from_secs(60);

/// Milliseconds of a lease, at most 49 days.
fn short(length: Duration) -> u32 {
    u32::try_from(length.as_millis()).unwrap_or(u32::MAX)
}

fn to_json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Finds the next job of a model that the worker has: by priority, then jobs of the resident model and jobs that waited too long, then
/// by age. Both questions follow an index and stop at the first job that fits: a sort of all jobs that
/// wait would take longer with each of them.
fn next(group: &Group<'_>, claim: &Claim, at: Millis) -> rusqlite::Result<Option<Uuid>> {
    let (kinds, except) = (to_json(&claim.kinds)?, to_json(&claim.except)?);
    let oldest = "SELECT id, priority, model, created FROM job
         WHERE state = 'queued' AND kind IN (SELECT value FROM json_each(?1))
         ORDER BY priority DESC, id";
    let mut statement = group.connection.prepare_cached(oldest)?;
    let mut rows = statement.query([&kinds])?;
    let mut has = claim.has.asked();
    let (oldest, priority, model, created) = loop {
        let Some(row) = rows.next()? else { return Ok(None) };
        let (id, model) = (id(row, 0)?, row.get::<_, Option<String>>(2)?);
        if !claim.except.contains(&id) && has(model.as_deref()) {
            break (id, row.get::<_, i64>(1)?, model, row.get::<_, Millis>(3)?);
        }
    };
    // If the oldest one can wait, all others can.
    let may_wait = created > at - millis(claim.patience);
    let Some(resident) =
        claim.resident.as_ref().filter(|own| may_wait && model.as_ref() != Some(own))
    else {
        return Ok(Some(oldest));
    };
    let own = "SELECT id FROM job
         WHERE state = 'queued' AND priority = ?1 AND model = ?2
             AND kind IN (SELECT value FROM json_each(?3))
             AND id NOT IN (SELECT value FROM json_each(?4))
         ORDER BY id LIMIT 1";
    let own = one(group.connection, own, (priority, resident, &kinds, &except), |row| id(row, 0))?;
    Ok(Some(own.unwrap_or(oldest)))
}

pub(super) fn claim(group: &mut Group<'_>, claim: &Claim) -> rusqlite::Result<Option<Job>> {
    let at = now();
    let next = next(group, claim, at)?;
    let Some(id) = next else { return Ok(None) };
    let take = "UPDATE job SET state = 'running', worker = ?1, attempts = attempts + 1,
             started = ?2, lease_until = ?3, lease_ms = ?4, progress = '{}', error = NULL
         WHERE id = ?5";
    let until = at + millis(claim.lease);
    group.run(take, (&claim.worker, at, until, short(claim.lease), id.to_string()))?;
    group.state(id, State::Running)?;
    by_id(group.connection, id)
}

/// Returns the state of the job if `lease` is still valid.
fn held(group: &Group<'_>, lease: &Lease) -> rusqlite::Result<Option<State>> {
    let select = "SELECT state FROM job WHERE id = ?1 AND worker = ?2 AND attempts = ?3
             AND state IN ('running', 'cancelling')";
    let values = (lease.id.to_string(), &lease.worker, lease.attempt);
    one(group.connection, select, values, |row| row.get(0))
}

/// Extends a lease, and stores news.
pub(super) fn extend(
    group: &mut Group<'_>,
    lease: &Lease,
    length: Duration,
    news: &News,
) -> rusqlite::Result<LeaseState> {
    let Some(state) = held(group, lease)? else { return Ok(LeaseState::Lost) };
    let id = lease.id.to_string();
    let update = "UPDATE job SET lease_until = ?2, lease_ms = ?3 WHERE id = ?1";
    group.run(update, (&id, now() + millis(length), short(length)))?;
    if let Some(progress) = &news.progress {
        group.run("UPDATE job SET progress = ?2 WHERE id = ?1", (&id, to_json(progress)?))?;
        group.event(lease.id, "progress", &json!(progress))?;
    }
    if let Some(resolved) = &news.resolved {
        group.run("UPDATE job SET resolved = ?2 WHERE id = ?1", (&id, resolved.to_string()))?;
    }
    for notice in &news.notices {
        // An attempt of before may have told it.
        let append = "UPDATE job SET notices = json_insert(notices, '$[#]', ?2) WHERE id = ?1
             AND ?2 NOT IN (SELECT value FROM json_each(job.notices))";
        if group.run(append, (&id, notice))? > 0 {
            group.event(lease.id, "notice", &json!({ "text": notice }))?;
        }
    }
    if !news.is_empty() {
        group.changed(lease.id)?;
    }
    Ok(if state == State::Cancelling { LeaseState::Cancel } else { LeaseState::Yes })
}

/// Ends an attempt, if its lease is valid.
pub(super) fn finish(group: &mut Group<'_>, lease: &Lease, end: End) -> rusqlite::Result<bool> {
    let Some(state) = held(group, lease)? else { return Ok(false) };
    match end {
        End::Done(outputs) => ended(group, lease.id, State::Done, None, &outputs)?,
        End::Failed(error, outputs) => {
            ended(group, lease.id, State::Failed, Some(&error), &outputs)?;
        }
        End::Cancelled(outputs) => ended(group, lease.id, State::Cancelled, None, &outputs)?,
        End::Released => release(group, lease.id, state)?,
    }
    Ok(true)
}

/// Takes a job from a worker that shuts down.
fn release(group: &mut Group<'_>, id: Uuid, state: State) -> rusqlite::Result<()> {
    match state {
        State::Cancelling => ended(group, id, State::Cancelled, None, &[]),
        _ => back(group, id, "losses"),
    }
}

/// Puts a job back into the queue; `losses` is an SQL expression. Its attempts stay counted: a number
/// that returns would let a worker of before change the job.
fn back(group: &mut Group<'_>, id: Uuid, losses: &str) -> rusqlite::Result<()> {
    let update = format!(
        "UPDATE job SET state = 'queued', worker = NULL, lease_until = NULL, started = NULL,
             ended = NULL, error = NULL, losses = {losses} WHERE id = ?1"
    );
    group.run(&update, [id.to_string()])?;
    group.state(id, State::Queued)
}

fn ended(
    group: &mut Group<'_>,
    id: Uuid,
    state: State,
    error: Option<&JobError>,
    outputs: &[Output],
) -> rusqlite::Result<()> {
    let update = "UPDATE job SET state = ?1, ended = ?2, lease_until = NULL, error = ?3,
             outputs = ?4, bytes = ?5 WHERE id = ?6";
    let bytes: u64 = outputs.iter().map(|output| output.bytes).sum();
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    let (why, made) = (error.map(to_json).transpose()?, to_json(&outputs)?);
    group.run(update, (state, now(), why, made, bytes, id.to_string()))?;
    for output in outputs.iter().filter(|output| output.content == Content::Audio) {
        let track = json!({ "track": output.track, "name": output.name, "seed": output.seed });
        group.event(id, "track", &track)?;
    }
    group.event(id, "end", &json!({ "state": state, "error": error }))?;
    // The last number stays, so numbers still count up.
    group.run("DELETE FROM event WHERE job = ?1 AND name = 'progress'", [id.to_string()])?;
    group.changed(id)
}

pub(super) fn cancel(group: &mut Group<'_>, id: Uuid) -> rusqlite::Result<Option<State>> {
    let Some(job) = by_id(group.connection, id)? else { return Ok(None) };
    match job.state {
        State::Queued => {
            ended(group, id, State::Cancelled, None, &[])?;
            Ok(Some(State::Cancelled))
        }
        State::Running => {
            group.run("UPDATE job SET state = 'cancelling' WHERE id = ?1", [id.to_string()])?;
            group.state(id, State::Cancelling)?;
            Ok(Some(State::Cancelling))
        }
        other => Ok(Some(other)),
    }
}

/// Puts a job that failed or was cancelled back into the queue.
pub(super) fn retry(group: &mut Group<'_>, id: Uuid) -> rusqlite::Result<bool> {
    let job = by_id(group.connection, id)?;
    let may = job.is_some_and(|job| {
        matches!(job.state, State::Failed | State::Cancelled) && job.outputs.is_empty()
    });
    if may {
        back(group, id, "0")?;
        // A job that was put away and runs again is looked at again.
        group.run("UPDATE job SET deleted = NULL WHERE id = ?1", [id.to_string()])?;
        // They would end the stream of events. The state came after them, so numbers still count up.
        let ends = "DELETE FROM event WHERE job = ?1 AND name IN ('end', 'track')";
        group.run(ends, [id.to_string()])?;
    }
    Ok(may)
}

/// Jobs that workers have: their states, losses, workers and leases.
fn running(group: &Group<'_>) -> rusqlite::Result<Vec<(State, u32, String, Written)>> {
    let select = "SELECT id, state, losses, worker, lease_until, lease_ms FROM job
         WHERE state IN ('running', 'cancelling')";
    all(group.connection, select, [], |row| {
        let until = row.get::<_, Option<Millis>>(4)?.unwrap_or(0);
        // A lease of an older version of the program has no length.
        let length = row.get::<_, Option<u32>>(5)?;
        let length = length.map_or(OLDER, |length| Duration::from_millis(length.into()));
        let worker = row.get::<_, Option<String>>(3)?.unwrap_or_default();
        Ok((row.get(1)?, row.get(2)?, worker, Written { id: id(row, 0)?, until, length }))
    })
}

/// Takes a job from a worker that was lost.
fn lose(group: &mut Group<'_>, id: Uuid, state: State, losses: u32) -> rusqlite::Result<()> {
    let losses = losses + 1;
    if state == State::Cancelling {
        ended(group, id, State::Cancelled, None, &[])
    } else if losses >= MOST_LOSSES {
        ended(group, id, State::Failed, Some(&JobError::worker_lost(losses)), &[])
    } else {
        back(group, id, "losses + 1")
    }
}

/// Returns jobs with ended leases to the queue, or ends them.
pub(super) fn sweep(group: &mut Group<'_>, leases: &mut Leases) -> rusqlite::Result<Vec<Uuid>> {
    let running = running(group)?;
    let written: Vec<Written> = running.iter().map(|(_, _, _, lease)| *lease).collect();
    let over = leases.over(&written, now(), Instant::now());
    for (state, losses, _, lease) in running {
        if over.contains(&lease.id) {
            lose(group, lease.id, state, losses)?;
        }
    }
    Ok(over.into_iter().collect())
}

/// Takes all jobs from a worker whose process ended.
pub(super) fn abandon(
    group: &mut Group<'_>,
    worker: &str,
    is_loss: bool,
) -> rusqlite::Result<Vec<Uuid>> {
    let mut ids = Vec::new();
    for (state, losses, of, lease) in running(group)? {
        if of != worker {
            continue;
        }
        if is_loss {
            lose(group, lease.id, state, losses)?;
        } else {
            release(group, lease.id, state)?;
        }
        ids.push(lease.id);
    }
    Ok(ids)
}
