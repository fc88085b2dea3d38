//! Requests of all APIs, mutated, against the router in this process:
//! `cargo run -p acestep-serve --example fuzz -- SECONDS [SEED]`.
//!
//! A panic, a server error that no page documents, an error of another form, a file that a refused request
//! leaves, an answer that never comes, and memory that grows are failures; each is printed once.

#![expect(clippy::print_stdout, reason = "an example for people")]

mod corpus;
mod mutate;
#[path = "../../tests/serve/support.rs"]
#[expect(dead_code, reason = "a part of it is for tests alone")]
mod support;
mod verdict;

use std::{
    collections::BTreeMap,
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use acestep_serve::{
    http::{self, ApiKey, Limits, Security, Server},
    maintenance::{self, Retention},
    store::Store,
};
use axum::{Router, body::Body, extract::Request};
use futures_util::{SinkExt, StreamExt};
use tokio::{net::TcpListener, sync::watch, time};
use tokio_tungstenite::{connect_async, tungstenite::Message};
use tower::ServiceExt;

use self::{
    corpus::Sample,
    mutate::{Known, SplitMix64},
};

/// Time in which each answer must begin.
const PATIENCE: Duration = Duration::from_secs(30);
/// Requests between two cleanings, after which no file may be left.
const CLEAN: u64 = 2000;
/// Memory that may be added after the first tenth of the time, in MiB.
const GROWTH: u64 = 48;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// The servers under test: one without keys, one with.
struct Bench {
    queue: support::Queue,
    routers: [Router; 2],
    address: std::net::SocketAddr,
    known: Known,
    faults: BTreeMap<String, u64>,
    statuses: BTreeMap<u16, u64>,
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

fn resident_mib() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0) / 1024
}

impl Bench {
    async fn open(folder: &Path, ending: watch::Receiver<bool>) -> io::Result<Self> {
        let queue = support::Queue::open(folder, None).await;
        let server = |keys| {
            let (store, objects) = (queue.store.clone(), queue.objects.clone());
            let security = Security { keys, ..Security::default() };
            let mut server =
                Server::new(store, objects, Arc::new(support::Two), security, ending.clone());
            server.limits = Limits {
                queue: 40,
                queue_of_one: 30,
                upload: 64 << 10,
                wait: Duration::from_millis(100),
                ..Limits::default()
            };
            server.is_ready.store(true, Ordering::Relaxed);
            Arc::new(server)
        };
        let keyed = server(vec![ApiKey::new("one", corpus::KEY), ApiKey::new("two", "another")]);
        let open = server(Vec::new());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(http::serve(listener, open.clone()));
        Ok(Self {
            queue,
            routers: [http::router(open), http::router(keyed)],
            address,
            known: Known::default(),
            faults: BTreeMap::new(),
            statuses: BTreeMap::new(),
        })
    }

    fn fault(&mut self, what: &str, sample: &Sample, more: &str) {
        let path = sample.path.split(['?', '%']).next().unwrap_or_default();
        let count = self.faults.entry(format!("{what} {} {path}", sample.method)).or_default();
        *count += 1;
        if *count == 1 {
            println!("FAULT {what}: {more}\n  {sample}");
        }
    }

    /// Sends one request into a router, and judges the answer.
    async fn send(&mut self, sample: &Sample, random: &mut SplitMix64) {
        let Some(request) = sample.request() else { return };
        let folder = self.queue.objects.incoming();
        let before = files(&folder);
        let panics = PANICS.load(Ordering::Relaxed);
        let router = self.routers[random.below(2)].clone();
        let (cut, request) = match random.below(40) {
            // The client goes away in the middle.
            0 => (Some(random.below(3000) as u64), request),
            // Its body ends with an error.
            1 => (None, broken(request)),
            _ => (None, request),
        };
        let answer = async {
            let response = router.oneshot(request).await.unwrap_or_else(|never| match never {});
            let (head, body) = response.into_parts();
            // Events never end, so a part of them must do.
            let most = if head.status.is_success() { 400 } else { 10_000 };
            let read = time::timeout(Duration::from_millis(most), verdict::read(body)).await;
            (head, read.unwrap_or_default())
        };
        let answered = match cut {
            Some(micros) => time::timeout(Duration::from_micros(micros), answer).await.ok(),
            None => match time::timeout(PATIENCE, answer).await {
                Ok(answer) => Some(answer),
                Err(_) => {
                    self.fault("no answer", sample, "");
                    None
                }
            },
        };
        if PANICS.load(Ordering::Relaxed) > panics {
            self.fault("panic", sample, "");
        }
        let is_refused = match &answered {
            Some((head, body)) => {
                *self.statuses.entry(head.status.as_u16()).or_default() += 1;
                if let Some(fault) = verdict::of(sample, head, body) {
                    let text = String::from_utf8_lossy(&body[..body.len().min(400)]);
                    self.fault(&fault, sample, &text);
                }
                self.known.learn(body);
                // A job that was taken keeps its file, whatever came of it.
                !head.status.is_success() && !head.headers.contains_key("x-job-id")
            }
            None => false,
        };
        let mut after = files(&folder);
        for _ in 0..100 {
            if !is_refused || after <= before {
                break;
            }
            time::sleep(Duration::from_millis(10)).await;
            after = files(&folder);
        }
        if is_refused && after > before {
            self.fault("a file of a refused request stays", sample, "");
        }
    }

    /// Speaks over a WebSocket with mutated messages.
    async fn talk(&mut self, random: &mut SplitMix64) {
        let sample = corpus::get("/v1/realtime");
        let url = format!("ws://{}/v1/realtime", self.address);
        let Ok((mut socket, _)) = connect_async(url).await else {
            return self.fault("no WebSocket", &sample, "");
        };
        let mut sent = Vec::new();
        for _ in 0..=random.below(6) {
            let message = mutate::message(random, &self.known);
            sent.push(format!("{message:?}").chars().take(300).collect::<String>());
            if socket.send(message).await.is_err() {
                break;
            }
        }
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            let next = time::timeout(Duration::from_millis(100), socket.next()).await;
            let Ok(Some(Ok(message))) = next else { break };
            if let Message::Text(text) = message
                && let Some(fault) = verdict::of_event(&text)
            {
                self.fault(&fault, &sample, &format!("{text} after {sent:?}"));
            }
        }
    }

    /// Removes what ended; then nothing may be left.
    async fn clean(&mut self) -> io::Result<()> {
        let failed = |error| io::Error::other(format!("{error}"));
        let zero = Duration::ZERO;
        for _ in 0..600 {
            let counts = self.queue.store.counts(None).await.map_err(failed)?;
            if counts.queued + counts.running == 0 {
                break;
            }
            time::sleep(Duration::from_millis(100)).await;
        }
        time::sleep(Duration::from_millis(50)).await;
        let retention = Retention { age: zero, bytes: 0, deleted: zero };
        let (store, objects): (&dyn Store, _) = (&*self.queue.store, &self.queue.objects);
        maintenance::clean(store, objects, retention).await.map_err(failed)?;
        let counts = store.counts(None).await.map_err(failed)?;
        let results = files(&objects.incoming().with_file_name("results"));
        let left = (files(&objects.incoming()), results);
        if left != (0, 0) || counts.queued + counts.running > 0 {
            let sample = corpus::get("/");
            self.fault("files are left", &sample, &format!("{left:?} {counts:?}"));
        }
        self.known = Known::default();
        Ok(())
    }
}

/// Cuts the body of a request in its middle, with an error.
fn broken(request: Request) -> Request {
    let (head, body) = request.into_parts();
    let stream =
        body.into_data_stream().map(|chunk| chunk.map(|bytes| bytes.slice(..bytes.len() / 2)));
    let error = futures_util::stream::iter([Err(axum::Error::new("the connection is cut"))]);
    Request::from_parts(head, Body::from_stream(stream.chain(error)))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut number = || args.next().transpose().map_err(io::Error::other);
    let seconds = number()?.unwrap_or(60);
    let seed = number()?.unwrap_or_else(|| u64::from(std::process::id()));
    println!("seed {seed}, {seconds} s");
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        hook(panic);
    }));
    let folder = tempfile::tempdir()?;
    let (_ending, receiver) = watch::channel(false);
    let mut bench = Bench::open(folder.path(), receiver).await?;
    let _worker = bench.queue.work("fuzz", support::quick());
    let _sweeper = bench.queue.sweep(Duration::from_secs(2));
    let corpus = corpus::all();
    for sample in &corpus {
        // Without a change each request must pass the verdict too.
        bench.send(sample, &mut SplitMix64::new(1)).await;
    }
    let mut random = SplitMix64::new(seed);
    let (start, length) = (Instant::now(), Duration::from_secs(seconds));
    let (mut n, mut told, mut warm) = (0u64, Instant::now(), None);
    while start.elapsed() < length {
        n += 1;
        if n.is_multiple_of(50) {
            bench.talk(&mut random).await;
        }
        let sample = mutate::sample(&corpus, &mut random, &bench.known);
        bench.send(&sample, &mut random).await;
        if n.is_multiple_of(CLEAN) {
            bench.clean().await?;
            if start.elapsed() > length / 10 {
                warm.get_or_insert_with(resident_mib);
            }
        }
        if told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            println!("{:5} s  {n} requests  {} MiB", start.elapsed().as_secs(), resident_mib());
        }
    }
    bench.clean().await?;
    let (warm, end) = (warm.unwrap_or_else(resident_mib), resident_mib());
    println!("{n} requests in {} s, {warm} MiB then {end} MiB", start.elapsed().as_secs());
    println!("answers by status: {:?}", bench.statuses);
    println!("faults: {:#?}", bench.faults);
    if !bench.faults.is_empty() || end > warm + GROWTH {
        return Err(io::Error::other("there are faults, or memory grew"));
    }
    Ok(())
}
