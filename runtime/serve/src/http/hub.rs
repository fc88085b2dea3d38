//! Listeners for changes of jobs.
//!
//! One task reads all changes of the store, and wakes only those that wait for the job. A thousand
//! listeners that each read all changes would wake a thousand times for each.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tokio::sync::{broadcast::error::RecvError, watch};
use uuid::Uuid;

use crate::store::Store;

/// The bell of each job, and the number of its listeners.
type Waiting = Mutex<HashMap<Uuid, (watch::Sender<()>, usize)>>;

#[derive(Debug, Default)]
pub(super) struct Hub {
    waiting: Arc<Waiting>,
    start: OnceLock<()>,
}

/// A listener for changes of one job.
#[derive(Debug)]
pub(super) struct Listener {
    id: Uuid,
    changes: watch::Receiver<()>,
    waiting: Arc<Waiting>,
}

impl Hub {
    /// Listens for changes of a job from now on. Must be called within a runtime.
    pub(super) fn listen(&self, store: &Arc<dyn Store>, id: Uuid) -> Listener {
        self.start.get_or_init(|| {
            let (mut changes, waiting) = (store.changes(), self.waiting.clone());
            tokio::spawn(async move {
                loop {
                    match changes.recv().await {
                        Ok(id) => wake(&waiting, Some(id)),
                        // Ids were missed: each job may have changed.
                        Err(RecvError::Lagged(_)) => wake(&waiting, None),
                        // The store is closed: the next question to it says so.
                        Err(RecvError::Closed) => return wake(&waiting, None),
                    }
                }
            });
        });
        let mut waiting = self.waiting.lock();
        let (sender, number) = waiting.entry(id).or_insert_with(|| (watch::channel(()).0, 0));
        *number += 1;
        let changes = sender.subscribe();
        Listener { id, changes, waiting: self.waiting.clone() }
    }
}

fn wake(waiting: &Waiting, id: Option<Uuid>) {
    let waiting = waiting.lock();
    match id {
        Some(id) => {
            if let Some((sender, _)) = waiting.get(&id) {
                sender.send_replace(());
            }
        }
        None => waiting.values().for_each(|(sender, _)| {
            sender.send_replace(());
        }),
    }
}

impl Listener {
    /// Waits for a change since the last call, or since the listener began.
    pub(super) async fn changed(&mut self) {
        // The sender lives as long as its last listener.
        let _ = self.changes.changed().await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        let Some((_, number)) = waiting.get_mut(&self.id) else { return };
        *number -= 1;
        if *number == 0 {
            waiting.remove(&self.id);
        }
    }
}
