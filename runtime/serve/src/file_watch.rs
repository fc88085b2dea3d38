//! Files that grow: the system reports changes in a folder, so nothing polls.
//!
//! Some file systems report nothing, such as those of other machines. So a waiting task also looks now and then.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use tokio::sync::watch;

/// The bell of each folder, and the number of its listeners.
type Bells = Arc<Mutex<HashMap<PathBuf, (watch::Sender<()>, usize)>>>;
/// The watcher. It is locked before the bells and never after them, because it waits for its thread, which locks
/// the bells.
type Shared = Arc<Mutex<RecommendedWatcher>>;

#[derive(Debug, Default)]
pub(crate) struct FolderWatch {
    bells: Bells,
    /// None if the system cannot watch.
    watcher: OnceLock<Option<Shared>>,
}

/// A folder that is watched, until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    folder: PathBuf,
    changes: watch::Receiver<()>,
    bells: Bells,
    watcher: Shared,
}

impl FolderWatch {
    /// Watches a folder from now on; none if it is not there, or cannot be watched.
    pub(crate) fn watch(&self, folder: &Path) -> Option<Watched> {
        // Some systems tell the true places of files.
        let folder = folder.canonicalize().ok()?;
        let watcher = self.watcher.get_or_init(|| start(self.bells.clone())).clone()?;
        let mut watching = watcher.lock();
        let (changes, is_new) = {
            let mut bells = self.bells.lock();
            let (bell, number) =
                bells.entry(folder.clone()).or_insert_with(|| (watch::channel(()).0, 0));
            *number += 1;
            (bell.subscribe(), *number == 1)
        };
        if is_new && let Err(error) = watching.watch(&folder, RecursiveMode::NonRecursive) {
            tracing::debug!(%error, "a folder cannot be watched");
            self.bells.lock().remove(&folder);
            return None;
        }
        drop(watching);
        Some(Watched { folder, changes, bells: self.bells.clone(), watcher })
    }
}

fn start(bells: Bells) -> Option<Shared> {
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let bells = bells.lock();
        match event {
            // Readers open the file again and again.
            Ok(event) if event.kind.is_access() && !event.need_rescan() => {}
            Ok(event) if !event.need_rescan() => {
                let places = event.paths.iter().flat_map(|path| [Some(&**path), path.parent()]);
                for (bell, _) in places.flatten().filter_map(|folder| bells.get(folder)) {
                    bell.send_replace(());
                }
            }
            // Some changes were missed: each folder may have one.
            Ok(_) | Err(_) => {
                for (bell, _) in bells.values() {
                    bell.send_replace(());
                }
            }
        }
    });
    let watcher =
        watcher.inspect_err(|error| tracing::warn!(%error, "files that grow are not watched"));
    watcher.ok().map(|watcher| Arc::new(Mutex::new(watcher)))
}

impl Watched {
    /// Waits for a change since the last call, or since the watch began.
    pub(crate) async fn changed(&mut self) {
        // The sender lives as long as its last listener.
        let _ = self.changes.changed().await;
    }
}

/// Waits for a change of a folder; for ever if it tells none.
pub(crate) async fn folder_changed(folder: &mut Option<Watched>) {
    match folder {
        Some(folder) => folder.changed().await,
        None => std::future::pending().await,
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut watching = self.watcher.lock();
        {
            let mut bells = self.bells.lock();
            let Some((_, number)) = bells.get_mut(&self.folder) else { return };
            *number -= 1;
            if *number > 0 {
                return;
            }
            bells.remove(&self.folder);
        }
        // A folder that was removed is not watched any more.
        let _ = watching.unwatch(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_listener_of_a_folder_hears_of_its_files_and_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        let folders = FolderWatch::default();
        assert!(folders.watch(&one).is_none(), "it is not there");
        for folder in [&one, &other] {
            std::fs::create_dir(folder).expect("a folder");
        }
        let mut listeners = [0; 2].map(|_| folders.watch(&one).expect("watched"));
        let mut quiet = folders.watch(&other).expect("watched");
        std::fs::write(one.join("file"), "text").expect("written");
        for listener in &mut listeners {
            listener.changed().await;
        }
        assert!(!quiet.changes.has_changed().expect("it is there"));
        let [first, mut second] = listeners;
        drop(first);
        std::fs::write(one.join("more"), "text").expect("written");
        second.changed().await;
        std::fs::write(other.join("file"), "text").expect("written");
        quiet.changed().await;
        drop((second, quiet));
        assert!(folders.bells.lock().is_empty());
    }
}
