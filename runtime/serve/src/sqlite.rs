//! The embedded store: one SQLite file.
//!
//! One thread writes. It takes all writes that wait into one transaction, so a crowd of clients shares
//! one `fsync`: each answer comes after its commit. `synchronous = FULL` makes a commit survive a power
//! cut. Readers have their own connections (WAL). Other processes may use the same file, never over a
//! network file system.

mod leases;
mod queue;
mod rows;
mod schema;
mod table;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::{Semaphore, broadcast, mpsc, oneshot};
use uuid::Uuid;

use crate::store::{StoreError, StoreFuture};

/// Statements that a connection keeps parsed: more than there are.
const STATEMENTS: usize = 64;
/// The most connections for reading.
const READERS: usize = 8;
/// Time that a write waits for the writer of another process.
const BUSY: Duration = Duration::from_secs(30);
/// Writes that share one commit.
const GROUP: usize = 256;
/// Time between two looks for changes by other processes.
const LOOK: Duration = Duration::from_millis(20);
/// Ids that a slow receiver of changes may be behind.
const CHANGES: usize = 4096;

/// The embedded store.
#[derive(Debug)]
pub struct Sqlite {
    writer: mpsc::UnboundedSender<Write>,
    readers: Arc<Readers>,
    changes: broadcast::Sender<Uuid>,
    leases: Arc<Mutex<leases::Leases>>,
}

/// A write on its way: runs in the group's transaction, and answers after the commit. It gets no
/// transaction if none could begin.
type Write = Box<dyn FnOnce(Option<&mut Group<'_>>) -> Reply + Send>;
type Reply = Box<dyn FnOnce(&Result<(), StoreError>) + Send>;

/// The transaction of a group of writes.
struct Group<'a> {
    connection: &'a Connection,
    changed: Vec<Uuid>,
    /// The error that ended the transaction: SQLite undoes all of it when the disk is full.
    gone: Option<StoreError>,
}

/// Connections for reading that are free.
#[derive(Debug)]
struct Readers {
    path: PathBuf,
    free: Mutex<Vec<Connection>>,
    /// One permit a connection: a crowd of readers waits, and memory stays flat.
    permits: Arc<Semaphore>,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let is_full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
        Self { is_full, ..Self::new(error.to_string()) }
    }
}

fn closed() -> StoreError {
    StoreError::new("it is closed")
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// Starts a thread. Returns when it was started, and does not wait for its end.
/// Errors: if the system cannot start it.
fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| StoreError::new(error.to_string()))
}

impl Sqlite {
    /// Opens the store of the file `path`, and creates it if it is missing.
    ///
    /// # Errors
    /// A file that cannot be used, is no store, or is from a newer version of the program.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let mut connection = connect(path)?;
        schema::prepare(&mut connection)?;
        let readers = Arc::new(Readers {
            path: path.to_owned(),
            free: Mutex::default(),
            permits: Arc::new(Semaphore::new(READERS)),
        });
        let (changes, _) = broadcast::channel(CHANGES);
        let (writer, writes) = mpsc::unbounded_channel();
        let sender = changes.clone();
        start_thread("queue-writer", move || write_all(&mut connection, writes, &sender))?;
        // Before this returns: a change that is made afterwards is reported, however late the thread starts.
        let connection = readers.connect()?;
        let (seen, last) = (version(&connection)?, rows::last_change(&connection)?);
        let mut looker = Looker { connection, seen, last };
        let (weak, sender) = (Arc::downgrade(&readers), changes.clone());
        start_thread("queue-changes", move || {
            while weak.strong_count() > 0 {
                thread::sleep(LOOK);
                // What could not be read is read at the next look.
                if let Err(error) = looker.look(&sender) {
                    tracing::debug!(%error, "the changes of the queue could not be read");
                }
            }
        })?;
        Ok(Self { writer, readers, changes, leases: Arc::default() })
    }

    /// Runs `work` in a transaction of the writer.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Group<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        let (answer, receive) = oneshot::channel();
        let write: Write = Box::new(move |group| {
            let result = match group {
                Some(group) => group.alone(work),
                None => Err(closed()),
            };
            Box::new(move |committed| {
                let result = committed.clone().and(result);
                // A client that went away needs no answer.
                let _ = answer.send(result);
            })
        });
        let sent = self.writer.send(write);
        Box::pin(async move {
            sent.map_err(|_| closed())?;
            receive.await.map_err(|_| closed())?
        })
    }

    /// Runs `work` on a connection for reading.
    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        let readers = self.readers.clone();
        Box::pin(async move {
            let permits = readers.permits.clone();
            let permit = permits.acquire_owned().await.map_err(|_| closed())?;
            let task = move || {
                // The permit goes after the connection is back, even if the asker went away.
                let _permit = permit;
                let connection = readers.take()?;
                let result = work(&connection)?;
                readers.free.lock().push(connection);
                Ok(result)
            };
            tokio::task::spawn_blocking(task).await.map_err(|_| closed())?
        })
    }
}

impl Readers {
    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = connect(&self.path)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }

    fn take(&self) -> rusqlite::Result<Connection> {
        let free = self.free.lock().pop();
        free.map_or_else(|| self.connect(), Ok)
    }
}

impl Group<'_> {
    /// Runs one write so that its failure undoes nothing else.
    fn alone<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        if let Some(error) = &self.gone {
            // Without a transaction a write would be stored at once, and its answer would be an error.
            return Err(error.clone());
        }
        let before = self.changed.len();
        self.connection.prepare_cached("SAVEPOINT one")?.execute([])?;
        let result = work(self).and_then(|value| {
            self.connection.prepare_cached("RELEASE one")?.execute([])?;
            Ok(value)
        });
        result.map_err(|error| {
            self.changed.truncate(before);
            let undone = self.connection.execute_batch("ROLLBACK TO one; RELEASE one");
            let error = StoreError::from(error);
            if undone.is_err() || self.connection.is_autocommit() {
                self.gone = Some(error.clone());
            }
            error
        })
    }
}

/// Runs writes until every sender is gone.
fn write_all(
    connection: &mut Connection,
    mut writes: mpsc::UnboundedReceiver<Write>,
    changes: &broadcast::Sender<Uuid>,
) {
    while let Some(first) = writes.blocking_recv() {
        let mut waiting = vec![first];
        while waiting.len() < GROUP
            && let Ok(next) = writes.try_recv()
        {
            waiting.push(next);
        }
        let mut replies = Vec::with_capacity(waiting.len());
        let mut changed = Vec::new();
        let mut run = || -> Result<(), StoreError> {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut group = Group { connection: &transaction, changed: Vec::new(), gone: None };
            replies.extend(waiting.drain(..).map(|write| write(Some(&mut group))));
            changed = group.changed;
            match group.gone {
                Some(error) => Err(error),
                None => Ok(transaction.commit()?),
            }
        };
        let committed = run();
        replies.extend(waiting.drain(..).map(|write| write(None)));
        for reply in replies {
            reply(&committed);
        }
        if committed.is_ok() {
            for id in changed {
                // Nobody may be listening.
                let _ = changes.send(id);
            }
        }
        if let Err(error) = &committed {
            tracing::error!(%error, "a write of the queue failed");
        }
    }
}

/// Looks for jobs that other processes changed.
struct Looker {
    connection: Connection,
    /// SQLite's number of the last state that was looked at.
    seen: i64,
    /// The number of the last change that was reported.
    last: i64,
}

impl Looker {
    fn look(&mut self, changes: &broadcast::Sender<Uuid>) -> rusqlite::Result<()> {
        let current = version(&self.connection)?;
        if current != self.seen {
            for (id, change) in rows::changed_since(&self.connection, self.last)? {
                self.last = self.last.max(change);
                // Nobody may be listening.
                let _ = changes.send(id);
            }
            self.seen = current;
        }
        Ok(())
    }
}

/// Returns a number that another connection's change changes.
fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "data_version", |row| row.get(0))
}
