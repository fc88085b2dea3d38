//! A crowd of clients against a server: submits, polls, listens, and says what was lost.
//!
//! `cargo run -p acestep-serve --example load -- PORT [PID [CLIENTS [JOBS [LISTENERS [PAUSE]]]]]`, against
//! `sine_server FOLDER PORT 2 1000000`. `PID` is that server's, for its memory. `PAUSE` is the
//! time between two submissions of a client in milliseconds; 0 shows what the machine can do at most.
//!
//! For `acestep serve --max-queue 100000`: the variable `LOAD_SONG` is the request of the song beside, and
//! `LOAD_JOB` the request of all others, as JSON.

#![expect(clippy::print_stdout, reason = "an example for people")]

use std::{
    collections::HashSet,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    sync::mpsc,
    time,
};

/// A connection that is kept open.
struct Client(BufReader<TcpStream>);

impl Client {
    async fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    async fn send(&mut self, method: &str, path: &str, body: &str) -> io::Result<u16> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.get_mut().write_all(head.as_bytes()).await?;
        let status = self.line().await?;
        let status = status.split(' ').nth(1).and_then(|text| text.parse().ok());
        status.ok_or_else(|| io::Error::other("no status"))
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    /// Asks for JSON.
    async fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<(u16, Value)> {
        let status = self.send(method, path, body).await?;
        let mut length = 0;
        loop {
            let line = self.line().await?.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await?;
        Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }

    /// Follows a job to its end; returns the number of events.
    async fn follow(&mut self, id: &str) -> io::Result<usize> {
        self.send("GET", &format!("/v1/jobs/{id}/events"), "").await?;
        let mut events = 0;
        loop {
            let line = self.line().await?;
            events += usize::from(line.starts_with("event:"));
            if line == "event: end" {
                return Ok(events);
            }
        }
    }
}

/// The observations of one client.
#[derive(Default)]
struct Seen {
    ids: Vec<String>,
    submits: Vec<Duration>,
    polls: Vec<Duration>,
    wrong: Vec<String>,
}

async fn client(
    port: u16,
    jobs: usize,
    pause: Duration,
    news: mpsc::UnboundedSender<String>,
) -> io::Result<Seen> {
    let (mut client, mut seen) = (Client::open(port).await?, Seen::default());
    let body = request("LOAD_JOB", json!({ "caption": "brief rain" })).to_string();
    for _ in 0..jobs {
        let start = Instant::now();
        let (status, job) = client.ask("POST", "/v1/jobs", &body).await?;
        seen.submits.push(start.elapsed());
        match job["id"].as_str() {
            Some(id) if status == 202 => {
                // Nobody listens any more when there are listeners enough.
                let _ = news.send(id.to_owned());
                seen.ids.push(id.to_owned());
            }
            _ => seen.wrong.push(format!("submit: {status} {job}")),
        }
        if let Some(id) = seen.ids.last() {
            let start = Instant::now();
            client.ask("GET", &format!("/v1/jobs/{id}"), "").await?;
            seen.polls.push(start.elapsed());
        }
        time::sleep(pause).await;
    }
    for id in &seen.ids {
        loop {
            let start = Instant::now();
            let (_, job) = client.ask("GET", &format!("/v1/jobs/{id}"), "").await?;
            seen.polls.push(start.elapsed());
            match job["state"].as_str() {
                Some("done") => break,
                Some("queued" | "running") => time::sleep(Duration::from_millis(500)).await,
                _ => {
                    seen.wrong.push(format!("poll: {job}"));
                    break;
                }
            }
        }
    }
    Ok(seen)
}

/// Returns a job with the request in a variable, or with another one.
#[expect(clippy::disallowed_methods, reason = "an example has no settings")]
fn request(variable: &str, other: Value) -> Value {
    let given = std::env::var(variable).ok();
    let given = given.map(|text| serde_json::from_str(&text).expect("the variable is JSON"));
    json!({ "request": given.unwrap_or(other) })
}

fn resident_mib(pid: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok().map(|kib| kib / 1024)
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: f64| {
        let index = ((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1));
        times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    let (n, p50, p99, most) = (times.len(), at(0.5), at(0.99), at(1.0));
    println!("{name}: {n}, p50 {p50:.1} ms, p99 {p99:.1} ms, most {most:.1} ms");
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, or| args.get(i).and_then(|text| text.parse().ok()).unwrap_or(or);
    let port = u16::try_from(number(0, 8001)).map_err(io::Error::other)?;
    let (clients, jobs, listeners) = (number(2, 200), number(3, 10_000), number(4, 1000));
    let pause = Duration::from_millis(number(5, 250) as u64);
    let start = Instant::now();
    let song = request("LOAD_SONG", json!({ "caption": "long" })).to_string();
    let (status, _) = Client::open(port).await?.ask("POST", "/v1/jobs", &song).await?;
    println!("a song that takes a minute runs beside: {status}");

    let (news, mut ids) = mpsc::unbounded_channel::<String>();
    let ended = Arc::new(AtomicUsize::new(0));
    let followed = ended.clone();
    let crowd = tokio::spawn(async move {
        let mut crowd = Vec::new();
        while crowd.len() < listeners
            && let Some(id) = ids.recv().await
        {
            let ended = followed.clone();
            crowd.push(tokio::spawn(async move {
                let events = Client::open(port).await?.follow(&id).await?;
                ended.fetch_add(1, Ordering::Relaxed);
                Ok::<_, io::Error>(events)
            }));
        }
        let mut errors = Vec::new();
        for listener in crowd {
            if let Ok(Err(error)) = listener.await {
                errors.push(error.to_string());
            }
        }
        errors
    });
    let pid = args.get(1).cloned().unwrap_or_default();
    let memory = tokio::spawn(async move {
        loop {
            if let Some(mib) = resident_mib(&pid) {
                println!("{:4.0} s  {mib} MiB", start.elapsed().as_secs_f64());
            }
            time::sleep(Duration::from_secs(5)).await;
        }
    });
    let each = jobs / clients;
    let mut crowd_of_clients = Vec::new();
    for _ in 0..clients {
        crowd_of_clients.push(tokio::spawn(client(port, each, pause, news.clone())));
        // Clients do not begin at the same moment.
        time::sleep(pause / u32::try_from(clients).unwrap_or(u32::MAX)).await;
    }
    drop(news);
    let mut all = Seen::default();
    for client in crowd_of_clients {
        let seen = client.await.map_err(io::Error::other)??;
        all.ids.extend(seen.ids);
        all.submits.extend(seen.submits);
        all.polls.extend(seen.polls);
        all.wrong.extend(seen.wrong);
    }
    let errors = crowd.await.map_err(io::Error::other)?;
    memory.abort();
    let seconds = start.elapsed().as_secs_f64();
    let unique: HashSet<&String> = all.ids.iter().collect();
    println!("{} jobs in {seconds:.1} s, {} ids", all.ids.len(), unique.len());
    report("submits", all.submits);
    report("polls", all.polls);
    println!("listeners that saw the end: {}", ended.load(Ordering::Relaxed));
    println!("wrong: {} of clients, {} of listeners", all.wrong.len(), errors.len());
    for text in all.wrong.iter().chain(&errors).take(5) {
        println!("  {text}");
    }
    Ok(())
}
