//! Sound and text of attempts while they run, between machines.
//!
//! A run writes its sound into a file of its own disk ([`preview`](crate::preview)), and reads text that
//! arrives from another one ([`arriving`](crate::arriving)). A server on the same disk uses these files. One
//! that is elsewhere asks the worker: for the samples behind a byte, or to take a part of a text. The worker
//! keeps nothing between two questions, so a question whose answer was lost is asked again, and any number
//! of servers may ask.

use std::{
    io::{self, SeekFrom},
    path::Path,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt},
    sync::Mutex,
    time::{self, Instant},
};
use tokio_util::task::AbortOnDropHandle;

use super::Objects;
use crate::{
    arriving::{self, TextPart},
    file_watch::{FolderWatch, folder_changed},
    preview::{self, PreviewFormat},
    store::Lease,
};

/// The most bytes of one answer: a message of NATS takes 1 MiB.
const PIECE: usize = 128 << 10;
/// Longest time that an answer waits for samples.
pub const WAIT: Duration = Duration::from_secs(1);
/// Time between two looks for a folder that is not there yet, or that cannot be watched.
const SOON: Duration = Duration::from_millis(20);
/// Longest time between two looks at a file, if the system tells no change.
const LOOK: Duration = Duration::from_millis(250);

/// Samples of an attempt. As JSON it has all but the bytes, which follow it in a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LiveSamples {
    /// Their form.
    pub format: PreviewFormat,
    /// The samples; none if nothing was new.
    #[serde(skip)]
    pub bytes: Bytes,
    /// True if no more samples were there.
    pub is_all: bool,
    /// True if more samples are certain to come after these.
    #[serde(default)]
    pub goes_on: bool,
}

/// The way to attempts that run on other machines.
pub trait Live: Send + Sync + 'static {
    /// Asks the worker of an attempt for the sound behind byte `from`. If nothing is new, the worker waits at
    /// most for `wait`. None if the attempt has no sound yet, or not any more.
    ///
    /// # Errors
    /// If the worker does not answer, or cannot read the sound.
    fn fetch_samples(
        &self,
        lease: Lease,
        from: u64,
        wait: Duration,
    ) -> BoxFuture<'_, io::Result<Option<LiveSamples>>>;
    /// Gives a part of a text to the worker of an attempt. It may be given again.
    ///
    /// # Errors
    /// If the worker does not answer, or cannot store the text.
    fn send_text(&self, lease: Lease, part: TextPart) -> BoxFuture<'_, io::Result<()>>;
    /// Answers questions to a worker of this process, until the result is dropped.
    fn answer(&self, worker: &str, here: LocalAttempts) -> AbortOnDropHandle<()>;
}

/// The attempts of this disk, for those that ask from elsewhere.
#[derive(Debug)]
pub struct LocalAttempts {
    objects: Objects,
    folders: FolderWatch,
    /// Held while text is stored: a part that comes again may come beside the first one.
    storing: Arc<Mutex<()>>,
}

impl LocalAttempts {
    /// The attempts below the folder of `objects`.
    pub fn new(objects: Objects) -> Self {
        Self { objects, folders: FolderWatch::default(), storing: Arc::default() }
    }

    /// Returns samples, as [`Live::fetch_samples`].
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn fetch_samples(
        &self,
        lease: &Lease,
        from: u64,
        wait: Duration,
    ) -> io::Result<Option<LiveSamples>> {
        let folder = self.objects.attempt_folder(lease);
        let end = Instant::now() + wait.min(WAIT);
        let mut watch = None;
        let mut opened = None;
        loop {
            if opened.is_none() {
                opened = open(&folder, from).await?;
            }
            let is_late = Instant::now() >= end;
            if let Some((format, file)) = &mut opened {
                let mut bytes = Vec::new();
                file.take(PIECE as u64).read_to_end(&mut bytes).await?;
                if !bytes.is_empty() || is_late {
                    let (is_all, bytes) = (bytes.len() < PIECE, bytes.into());
                    let goes_on = preview::goes_on(&folder).await;
                    return Ok(Some(LiveSamples { format: *format, bytes, is_all, goes_on }));
                }
            } else if is_late {
                return Ok(None);
            }
            if watch.is_none() {
                watch = self.folders.watch(&folder);
                if watch.is_some() {
                    // A change may have come before.
                    continue;
                }
            }
            let look = if watch.is_some() { LOOK } else { SOON };
            tokio::select! {
                () = folder_changed(&mut watch) => {}
                () = time::sleep_until(end.min(Instant::now() + look)) => {}
            }
        }
    }

    /// Stores a part of a text, as [`Live::send_text`].
    ///
    /// # Errors
    /// If it cannot be stored.
    pub async fn send_text(&self, lease: &Lease, part: TextPart) -> io::Result<()> {
        let storing = self.storing.clone().lock_owned().await;
        let folder = self.objects.attempt_folder(lease);
        let stored = tokio::task::spawn_blocking(move || {
            let _storing = storing;
            arriving::send(&folder, &part)
        });
        stored.await.map_err(io::Error::other)?
    }
}

/// Opens the sound in a folder at byte `from`, if it has begun.
async fn open(folder: &Path, from: u64) -> io::Result<Option<(PreviewFormat, File)>> {
    let Some(format) = preview::format(folder).await else { return Ok(None) };
    let mut file = match File::open(preview::path(folder)).await {
        // It was removed just now.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    file.seek(SeekFrom::Start(from)).await?;
    Ok(Some((format, file)))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::preview::Preview;

    #[tokio::test]
    async fn sound_is_heard_from_any_byte_and_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let objects = Objects::open(folder.path()).expect("a folder");
        let lease = Lease { id: Uuid::now_v7(), worker: "w".to_owned(), attempt: 1 };
        let here = LocalAttempts::new(objects.clone());
        assert!(here.fetch_samples(&lease, 0, Duration::ZERO).await.expect("read").is_none());
        let begun = async {
            time::sleep(Duration::from_millis(30)).await;
            let format = PreviewFormat { sample_rate: 24_000, channels: 1 };
            let attempt = objects.attempt(&lease).expect("a folder");
            let mut preview = Preview::begin(&attempt, format).expect("begun");
            preview.samples(&[&[0.5, -0.5]]).expect("written");
            preview
        };
        let (heard, mut preview) = tokio::join!(here.fetch_samples(&lease, 0, WAIT), begun);
        let heard = heard.expect("read").expect("it began");
        // The look may have come between the format and the samples.
        assert!(heard.bytes.is_empty() || heard.bytes[..] == [0, 64, 0, 192], "{heard:?}");
        let hear = async |from: u64| {
            let heard = here.fetch_samples(&lease, from, Duration::ZERO).await.expect("read");
            heard.expect("it is there")
        };
        let end = hear(4).await;
        assert!(end.bytes.is_empty() && end.is_all, "{end:?}");
        let grown = async {
            time::sleep(Duration::from_millis(30)).await;
            preview.samples(&[&[0.25]]).expect("written");
        };
        let (more, ()) = tokio::join!(here.fetch_samples(&lease, 4, WAIT), grown);
        assert_eq!(more.expect("read").expect("it is there").bytes[..], [0, 32]);
        preview.samples(&[&vec![0.0; PIECE]]).expect("written");
        let large = hear(2).await;
        assert_eq!((large.bytes.len(), large.is_all), (PIECE, false));
        let rest = hear(2 * PIECE as u64).await;
        assert_eq!((rest.bytes.len(), rest.is_all), (6, true));
    }
}
