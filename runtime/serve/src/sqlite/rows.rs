//! Rows to values and back.

use rusqlite::{
    Connection, OptionalExtension, Params, Row, ToSql,
    types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, Type, ValueRef},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Group;
use crate::job::{Job, Kind, State, now};

/// The columns of [`job`], in order.
pub(super) const COLUMNS: &str = "id, kind, model, state, request, resolved, owner, priority, created, \
     started, ended, attempts, worker, lease_until, progress, notices, error, outputs, title, liked, \
     tags, deleted, fingerprints";

pub(super) fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    Ok(Job {
        id: id(row, 0)?,
        kind: row.get(1)?,
        model: row.get(2)?,
        state: row.get(3)?,
        request: parsed(row, 4)?,
        resolved: optional(row, 5)?,
        owner: row.get(6)?,
        priority: row.get(7)?,
        created: row.get(8)?,
        started: row.get(9)?,
        ended: row.get(10)?,
        attempts: row.get(11)?,
        worker: row.get(12)?,
        lease_until: row.get(13)?,
        progress: optional(row, 14)?.unwrap_or_default(),
        notices: parsed(row, 15)?,
        error: optional(row, 16)?,
        outputs: parsed(row, 17)?,
        title: row.get(18)?,
        liked: row.get(19)?,
        tags: parsed(row, 20)?,
        deleted: row.get(21)?,
        fingerprints: parsed(row, 22)?,
    })
}

pub(super) fn id(row: &Row<'_>, index: usize) -> rusqlite::Result<Uuid> {
    let text: String = row.get(index)?;
    Uuid::parse_str(&text).map_err(|error| of_column(index, error))
}

/// Reads JSON in column `index`.
fn parsed<T: DeserializeOwned>(row: &Row<'_>, index: usize) -> rusqlite::Result<T> {
    let text: String = row.get(index)?;
    serde_json::from_str(&text).map_err(|error| of_column(index, error))
}

/// Reads JSON in column `index`; null and `{}` are nothing.
fn optional<T: DeserializeOwned>(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(index)?;
    match text.as_deref() {
        None | Some("{}") => Ok(None),
        Some(text) => serde_json::from_str(text).map_err(|error| of_column(index, error)),
    }
}

fn of_column(
    index: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(index, Type::Text, Box::new(error))
}

/// A column with the name of a value.
macro_rules! named {
    ($($kind:ident),*) => {$(
        impl FromSql for $kind {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                value.as_str()?.parse().map_err(|_| FromSqlError::InvalidType)
            }
        }

        impl ToSql for $kind {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.name().into())
            }
        }
    )*};
}
named!(Kind, State);

/// Returns the first row of a question, if it has one.
pub(super) fn one<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    connection.prepare_cached(sql)?.query_row(values, read).optional()
}

/// Returns all rows of a question.
pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(sql)?.query_map(values, read)?.collect()
}

pub(super) fn by_id(connection: &Connection, id: Uuid) -> rusqlite::Result<Option<Job>> {
    let select = format!("SELECT {COLUMNS} FROM job WHERE id = ?1");
    one(connection, &select, [id.to_string()], job)
}

/// Returns the job of an idempotency key of a client.
pub(super) fn by_key(
    connection: &Connection,
    owner: &str,
    key: &str,
) -> rusqlite::Result<Option<Job>> {
    let select = format!("SELECT {COLUMNS} FROM job WHERE owner = ?1 AND idempotency_key = ?2");
    one(connection, &select, (owner, key), job)
}

/// The number of the newest change.
pub(super) fn last_change(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("SELECT change FROM counter")?.query_row([], |row| row.get(0))
}

/// Returns the jobs that changed after change `last`, with the numbers of their changes.
pub(super) fn changed_since(
    connection: &Connection,
    last: i64,
) -> rusqlite::Result<Vec<(Uuid, i64)>> {
    let select = "SELECT id, change FROM job WHERE change > ?1 ORDER BY change";
    all(connection, select, [last], |row| Ok((id(row, 0)?, row.get(1)?)))
}

impl Group<'_> {
    /// Runs a statement, and returns the number of rows that it changed.
    pub(super) fn run(&self, sql: &str, values: impl Params) -> rusqlite::Result<usize> {
        self.connection.prepare_cached(sql)?.execute(values)
    }

    pub(super) fn next_change(&self) -> rusqlite::Result<i64> {
        let next = "UPDATE counter SET change = change + 1 RETURNING change";
        self.connection.prepare_cached(next)?.query_row([], |row| row.get(0))
    }

    /// Numbers a change of the job.
    pub(super) fn changed(&mut self, id: Uuid) -> rusqlite::Result<()> {
        let change = self.next_change()?;
        self.run("UPDATE job SET change = ?2 WHERE id = ?1", (id.to_string(), change))?;
        self.changed.push(id);
        Ok(())
    }

    pub(super) fn event(&self, id: Uuid, name: &str, data: &Value) -> rusqlite::Result<()> {
        let insert = "INSERT INTO event (job, n, name, data) \
             SELECT ?1, coalesce(max(n), 0) + 1, ?2, ?3 FROM event WHERE job = ?1";
        self.run(insert, (id.to_string(), name, data.to_string())).map(drop)
    }

    /// Appends the event of a new state, and numbers the change.
    pub(super) fn state(&mut self, id: Uuid, state: State) -> rusqlite::Result<()> {
        self.event(id, "state", &json!({ "state": state, "at": now() }))?;
        self.changed(id)
    }
}
