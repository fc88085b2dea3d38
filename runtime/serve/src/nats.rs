//! The store of many machines: NATS JetStream.
//!
//! ```text
//! <name>_jobs      id -> a job             <name>_files     id -> a file that a client sent
//! <name>_keys      idempotency key -> id   <name>_settings  name -> value
//! <name>_made      attempt -> its results  <name>_objects   the bytes of all files (object store)
//! ```
//!
//! A job is one key, so queue and state cannot disagree. A worker takes a job by changing its state from
//! the revision that it saw: of two workers, the server refuses one. The book (`machines.md`) has the reason
//! against a work-queue stream beside it.
//!
//! Sound while it is made, and text that arrives, are requests to the worker. Nothing stores them, because
//! they are useless a moment later.
//!
//! Leases are decided by one clock, the one of the process that looks: a job is lost when that process
//! saw no change of it for the length of its lease. A worker writes while it works, so the clocks of the
//! machines need not agree. A process that was away takes nothing from anyone by mistake: it names the
//! revision that it saw, and a worker that lives has written a newer one.
//!
//! With three or more servers in a cluster each bucket has three copies, and an answer means that two of
//! them have the job.

mod accept;
mod change;
mod files;
mod follow;
mod live;
mod lost_updates;
mod mirror;
mod objects;
mod record;
mod table;

use std::{error::Error, path::Path, sync::Arc, time::Duration};

use async_nats::{
    ConnectOptions,
    jetstream::{self, kv, object_store::ObjectStore},
};
use bytes::Bytes;
use tokio::{
    runtime::Handle,
    sync::{Mutex, broadcast},
    time::{self, Instant},
};

use self::{files::Files, follow::Followed, mirror::Mirror};
use crate::{objects::Objects, store::StoreError};

/// Time that a change is tried again while the servers choose a leader.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(100);
/// Time that a server may take for one answer.
const ANSWER: Duration = Duration::from_secs(3);
/// Copies of each bucket in a cluster.
const COPIES: usize = 3;
/// The words of a server that stands alone.
const ALONE: &str = "not supported in non-clustered mode";
/// Changes of different jobs that one process can have under way.
const TURNS: usize = 64;
/// Longest time between two tries to connect again: shorter than every lease.
const AGAIN: Duration = Duration::from_secs(1);
/// Ids that a slow receiver of changes may be behind.
const CHANGES: usize = 4096;
/// JSON that is larger becomes an object; a message of NATS takes 1 MiB.
const HERE: usize = 128 << 10;

/// The store of many machines.
pub struct Nats {
    name: String,
    jobs: kv::Store,
    keys: kv::Store,
    files: kv::Store,
    settings: kv::Store,
    made: kv::Store,
    objects: ObjectStore,
    mirror: Arc<Mirror>,
    followed: Followed,
    /// All files of clients, as this process last saw them.
    known_files: Arc<Files>,
    followed_files: Followed,
    turns: [Mutex<()>; TURNS],
    client: async_nats::Client,
    runtime: Handle,
}

impl StoreError {
    fn nats(error: impl Error + 'static) -> Self {
        let mut why = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if !why.contains(&text) {
                why += &format!(": {text}");
            }
            source = cause.source();
        }
        let full = ["insufficient", "resource limits exceeded", "no space left", "maximum bytes"];
        let is_full = full.iter().any(|text| why.contains(text));
        Self { is_full, ..Self::new(why) }
    }
}

impl Nats {
    /// Connects to the servers of `address`, with commas between, and creates what is missing there:
    /// `nats://10.0.0.1,nats://10.0.0.2/NAME`. Queues of different names do not know each other; without
    /// a name it is `acestep`. A name and a password or a token stand before the address: `nats://TOKEN@..`.
    ///
    /// # Errors
    /// Servers that cannot be reached, have no JetStream or choose no leader within 20 seconds; a name with
    /// other letters than a-z, A-Z, 0-9, `-` and `_`.
    pub async fn open(address: &str) -> Result<Self, StoreError> {
        let (servers, name) = parts(address)?;
        let (changes, _) = broadcast::channel(CHANGES);
        let mirror = Arc::new(Mirror::new(changes));
        let client = connect(servers, &mirror).await?;
        let end = Instant::now() + PATIENCE;
        let mut is_first = true;
        // A server that was started or that died a moment ago: the others choose a leader.
        loop {
            match Self::over(&client, &mirror, &name).await {
                Ok(store) => return Ok(store),
                Err(error) if error.is_full || Instant::now() > end => return Err(error),
                Err(error) if is_first => {
                    is_first = false;
                    tracing::warn!(%error, "the queue cannot be opened yet: trying for 20 s");
                }
                Err(_) => {}
            }
            time::sleep(PAUSE).await;
        }
    }

    /// Opens the buckets, and creates what is missing.
    async fn over(
        client: &async_nats::Client,
        mirror: &Arc<Mirror>,
        name: &str,
    ) -> Result<Self, StoreError> {
        let context =
            jetstream::context::ContextBuilder::new().timeout(ANSWER).build(client.clone());
        let jobs = jobs(&context, format!("{name}_jobs")).await?;
        let copies = jobs.stream.cached_info().config.num_replicas;
        if copies > 1 && !client.is_server_compatible(2, 9, 21) {
            let version = client.server_info().version;
            tracing::warn!(
                version,
                "a cluster of NATS before 2.9.21 can do a job twice: update it"
            );
        }
        let bucket = |kind: &str| bucket(&context, format!("{name}_{kind}"), copies);
        let objects = object_store(&context, format!("{name}_objects"), copies).await?;
        let (files, known_files) = (bucket("files").await?, Arc::new(Files::default()));
        Ok(Self {
            name: name.to_owned(),
            keys: bucket("keys").await?,
            settings: bucket("settings").await?,
            made: bucket("made").await?,
            followed: Followed::new(&jobs, mirror).await?,
            followed_files: Followed::new(&files, &known_files).await?,
            jobs,
            files,
            objects,
            mirror: Arc::clone(mirror),
            known_files,
            turns: std::array::from_fn(|_| Mutex::new(())),
            client: client.clone(),
            runtime: Handle::current(),
        })
    }

    /// Returns the files of this queue, with copies in the folder `root`.
    ///
    /// # Errors
    /// If a folder cannot be created.
    pub fn objects(&self, root: &Path) -> std::io::Result<Objects> {
        let far = objects::JetStreamFiles::new(
            self.objects.clone(),
            self.made.clone(),
            self.runtime.clone(),
        );
        let live = live::Questions::new(self.client.clone(), &self.name, self.runtime.clone());
        Ok(Objects::open(root)?.with_remote(Arc::new(far)).with_live(Arc::new(live)))
    }
}

/// Connects to one of the servers, and again when it is lost.
async fn connect(
    servers: Vec<String>,
    mirror: &Arc<Mirror>,
) -> Result<async_nats::Client, StoreError> {
    let weak = Arc::downgrade(mirror);
    let options = ConnectOptions::new().name("acestep");
    let options = options.reconnect_delay_callback(|tries| {
        let millis = 1u64.checked_shl(u32::try_from(tries).unwrap_or(u32::MAX));
        millis.map_or(AGAIN, |millis| Duration::from_millis(millis).min(AGAIN))
    });
    let options = options.event_callback(move |event| {
        let mirror = weak.upgrade();
        async move {
            tracing::info!(%event, "nats");
            if let (Some(mirror), async_nats::Event::Connected) = (mirror, event) {
                mirror.connected();
            }
        }
    });
    options.connect(servers).await.map_err(StoreError::nats)
}

/// Splits an address into servers and the name of the queue.
fn parts(address: &str) -> Result<(Vec<String>, String), StoreError> {
    let mut name = "acestep".to_owned();
    let mut servers = Vec::new();
    for part in address.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (scheme, rest) = part.split_once("://").unwrap_or(("nats", part));
        let (server, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !path.is_empty() {
            path.clone_into(&mut name);
        }
        servers.push(format!("{scheme}://{server}"));
    }
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if servers.is_empty() || !name.chars().all(is_plain) {
        let why = format!("`{name}` is no name of a queue: nats://SERVER/NAME");
        return Err(StoreError::new(why));
    }
    Ok((servers, name))
}

/// Opens a bucket, or creates it with `copies`.
async fn bucket(
    context: &jetstream::Context,
    name: String,
    copies: usize,
) -> Result<kv::Store, StoreError> {
    if let Ok(store) = context.get_key_value(&name).await {
        return Ok(store);
    }
    // Not with `create_key_value`: it asks for the account first, and does not understand the answer of
    // older servers (2.9).
    let created = context.create_stream(jetstream::stream::Config {
        name: format!("KV_{name}"),
        subjects: vec![format!("$KV.{name}.>")],
        max_messages_per_subject: 1,
        discard: jetstream::stream::DiscardPolicy::New,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        num_replicas: copies,
        ..jetstream::stream::Config::default()
    });
    let created = created.await;
    // Another process may have created it at the same moment.
    match (context.get_key_value(&name).await, created) {
        (Ok(store), _) => Ok(store),
        (Err(_), Err(error)) => Err(StoreError::nats(error)),
        (Err(error), Ok(_)) => Err(StoreError::nats(error)),
    }
}

/// Opens the bucket of jobs with as many copies as the servers allow: a server alone has one.
async fn jobs(context: &jetstream::Context, name: String) -> Result<kv::Store, StoreError> {
    match bucket(context, name.clone(), COPIES).await {
        Err(error) if error.why.contains(ALONE) => bucket(context, name, 1).await,
        other => other,
    }
}

async fn object_store(
    context: &jetstream::Context,
    name: String,
    copies: usize,
) -> Result<ObjectStore, StoreError> {
    if let Ok(store) = context.get_object_store(&name).await {
        return Ok(store);
    }
    let config = jetstream::object_store::Config {
        bucket: name.clone(),
        num_replicas: copies,
        ..jetstream::object_store::Config::default()
    };
    match context.create_object_store(config).await {
        Ok(store) => Ok(store),
        // Another process may have created it at the same moment.
        Err(error) => context.get_object_store(&name).await.map_err(|_| StoreError::nats(error)),
    }
}

/// Asks again while the servers choose a leader. An error that `is_final` is returned at once.
async fn patiently<T, F: Future<Output = Result<T, StoreError>>>(
    is_final: fn(&StoreError) -> bool,
    ask: impl Fn() -> F,
) -> Result<T, StoreError> {
    let end = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Err(error) if !is_final(&error) && Instant::now() <= end => time::sleep(PAUSE).await,
            answer => return answer,
        }
    }
}

fn parsed<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(StoreError::nats)
}

fn text_of(value: &impl serde::Serialize) -> Result<Bytes, StoreError> {
    serde_json::to_vec(value).map(Bytes::from).map_err(StoreError::nats)
}
