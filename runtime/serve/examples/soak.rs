//! Two worker processes on one queue for a long time, with jobs that fail, cancel and kill:
//! `cargo run -p acestep-serve --example soak -- FOLDER SECONDS [NATS]`, where `NATS` is the address of a
//! queue, e.g. `nats://127.0.0.1`. At the end it says if a job was lost or stored twice.

#![expect(clippy::print_stdout, reason = "an example for people")]

#[path = "../tests/serve/support.rs"]
#[expect(dead_code, reason = "a worker starts no server")]
mod support;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use acestep_serve::{
    job::{Job, Kind, NewJob, State},
    store::{Lookup, Store},
    worker::WorkerTimes,
};
use serde_json::json;
use uuid::Uuid;

/// Time between two jobs.
const PAUSE: Duration = Duration::from_millis(500);
/// A worker is killed from outside after this many jobs.
const KILL_EVERY: u64 = 97;

/// A job that was put in, and its wish.
struct Sent {
    id: Uuid,
    word: &'static str,
    cancel: Option<Instant>,
}

/// Returns the caption of job `n`: most are songs of no length.
fn word(n: u64) -> &'static str {
    match n % 50 {
        7 | 21 => "slow",
        13 | 37 => "fail",
        19 => "panic",
        29 => "slow cancel",
        41 if n % 100 == 41 => "kill",
        _ => "rain",
    }
}

struct Workers {
    folder: PathBuf,
    nats: Option<String>,
    running: Vec<Child>,
    started: usize,
    killed: usize,
}

impl Workers {
    fn start(&mut self) -> std::io::Result<Child> {
        self.started += 1;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("worker").arg(&self.folder).arg(format!("w{}", self.started));
        command.args(&self.nats).stdin(Stdio::piped()).stderr(Stdio::null()).spawn()
    }

    /// Starts workers in place of those that ended.
    fn keep(&mut self) -> std::io::Result<()> {
        for at in 0..self.running.len() {
            if self.running[at].try_wait()?.is_some() {
                self.running[at] = self.start()?;
            }
        }
        Ok(())
    }

    /// Ends one as a power cut would.
    fn kill(&mut self, at: usize) -> std::io::Result<()> {
        self.killed += 1;
        self.running[at].kill()?;
        self.running[at].wait().map(drop)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for child in &mut self.running {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

async fn work(folder: &Path, name: &str, nats: Option<&str>) -> std::io::Result<()> {
    let queue = support::Queue::open(folder, nats).await;
    let times = WorkerTimes { lease: Duration::from_secs(2), ..support::quick() };
    let _worker = queue.work(name, times);
    // The end of its input is the end of its parent.
    let read = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    tokio::task::spawn_blocking(read).await?.map(drop)
}

/// Asks again while the servers of NATS choose a leader, for at most ten minutes.
async fn patiently<T, E: std::fmt::Display>(
    ask: impl AsyncFn() -> Result<T, E>,
) -> std::io::Result<T> {
    let start = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) if start.elapsed() > Duration::from_secs(600) => {
                return Err(std::io::Error::other(error.to_string()));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn job(store: &Arc<dyn Store>, id: Uuid) -> Option<Job> {
    match store.get(id).await {
        Ok(Lookup::Job(job)) => Some(job),
        _ => None,
    }
}

/// Returns the fault of an ended job, if there is one.
async fn fault(queue: &support::Queue, sent: &Sent) -> Option<String> {
    let Some(job) = job(&queue.store, sent.id).await else { return Some("lost".to_owned()) };
    let wanted = match sent.word {
        "fail" | "panic" | "kill" => job.state == State::Failed,
        "slow cancel" => matches!(job.state, State::Cancelled | State::Done),
        _ => job.state == State::Done,
    };
    let code = job.error.as_ref().map(|error| error.code.as_str());
    // A neighbour that is killed twice with its worker is a loss that was promised.
    if !wanted && code != Some("worker_lost") {
        return Some(format!("{} is {}: {code:?}", sent.word, job.state.name()));
    }
    let events = queue.store.events(sent.id, 0).await.ok()?;
    let ends = events.iter().filter(|event| event.name == "end").count();
    if ends != 1 {
        return Some(format!("{} has {ends} ends", sent.word));
    }
    for output in &job.outputs {
        let (objects, output, bytes) = (queue.objects.clone(), output.clone(), output.bytes);
        let path = tokio::task::spawn_blocking(move || objects.fetch(&output)).await.ok()?;
        let length = path.and_then(fs::metadata).map(|data| data.len());
        if length.as_ref().ok() != Some(&bytes) {
            return Some(format!("{}: a result is {length:?}, not {bytes} bytes", sent.word));
        }
    }
    let songs = usize::from(job.state == State::Done) * 2;
    (job.outputs.len() != songs).then(|| format!("{} results", job.outputs.len()))
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let (folder, seconds, nats) = match words[..] {
        ["worker", folder, name] => return work(Path::new(folder), name, None).await,
        ["worker", folder, name, nats] => return work(Path::new(folder), name, Some(nats)).await,
        [folder, seconds] => (folder, seconds, None),
        [folder, seconds, nats] => (folder, seconds, Some(nats)),
        _ => return Err(std::io::Error::other("usage: FOLDER SECONDS [NATS]")),
    };
    let seconds: u64 = seconds.parse().map_err(std::io::Error::other)?;
    let queue = support::Queue::open(Path::new(folder), nats).await;
    let sweeper = queue.sweep(Duration::from_millis(200));
    let mut workers = Workers {
        folder: folder.into(),
        nats: nats.map(str::to_owned),
        running: Vec::new(),
        started: 0,
        killed: 0,
    };
    for _ in 0..2 {
        let child = workers.start()?;
        workers.running.push(child);
    }
    let (mut all, start) = (Vec::<Sent>::new(), Instant::now());
    while start.elapsed() < Duration::from_secs(seconds) {
        workers.keep()?;
        let n = all.len() as u64;
        let request = json!({ "caption": word(n) });
        let new = || NewJob {
            idempotency_key: Some(n.to_string()),
            ..NewJob::new(Kind::Generate, Some("tiny".to_owned()), request.clone(), "soak")
        };
        let put = async || queue.store.put(new()).await.map(|put| put.job.id);
        let id = patiently(put).await?;
        // A client that does not know if its job was taken sends it again.
        if n.is_multiple_of(5) && patiently(put).await? != id {
            return Err(std::io::Error::other("a key has two jobs"));
        }
        let later = Instant::now() + Duration::from_millis(300 * (n / 50 % 8));
        let cancel = word(n).contains("cancel").then_some(later);
        all.push(Sent { id, word: word(n), cancel });
        let due = all.iter_mut().rev().take(20);
        for sent in due.filter(|sent| sent.cancel.is_some_and(|at| at < Instant::now())) {
            sent.cancel = None;
            patiently(async || queue.store.cancel(sent.id).await).await?;
        }
        if n % KILL_EVERY == KILL_EVERY - 1 {
            workers.kill((n / KILL_EVERY % 2) as usize)?;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        workers.keep()?;
        let counts = patiently(async || queue.store.counts(None).await).await?;
        if counts.queued + counts.running == 0 {
            break;
        }
        if Instant::now() > end {
            println!("WRONG: {} jobs never end", counts.queued + counts.running);
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let (mut faults, mut states, mut again) = (0, BTreeMap::<String, u64>::new(), 0);
    for sent in &all {
        if let Some(fault) = fault(&queue, sent).await {
            faults += 1;
            println!("WRONG: {}: {fault}", sent.id);
        }
        if let Some(job) = job(&queue.store, sent.id).await {
            *states.entry(format!("{} {}", sent.word, job.state.name())).or_default() += 1;
            again += u64::from(job.attempts > 1);
        }
    }
    let counts = patiently(async || queue.store.counts(None).await).await?;
    println!("{} jobs in {} s, {counts:?}", all.len(), start.elapsed().as_secs());
    println!("{states:?}");
    println!(
        "{again} jobs began more than once; {} workers started, {} killed from outside",
        workers.started, workers.killed
    );
    println!("{faults} faults");
    sweeper.abort();
    if faults > 0 { Err(std::io::Error::other("jobs were lost")) } else { Ok(()) }
}
