//! A task that ends with its owner.

use tokio::task::JoinHandle;

/// A task that ends when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Bound(pub(crate) JoinHandle<()>);

impl Drop for Bound {
    fn drop(&mut self) {
        self.0.abort();
    }
}
