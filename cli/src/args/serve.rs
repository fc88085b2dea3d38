//! Flags of `serve`, `work` and `jobs`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum, ValueHint};
use uuid::Uuid;

use super::device::Where;

/// The folder of a server.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DataDir {
    /// Folder of the queue, the results and the uploads.
    ///
    /// [default: acestep/serve in the user's data directory, on Linux ~/.local/share]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Queue of many machines, such as nats://queue.lan:4222; the folder then holds copies of files.
    ///
    /// Without it the queue is a file in the folder. Other users of this machine see flags: an address
    /// with a password is better set as the variable. Needs a build with the feature nats.
    ///
    /// [env: ACESTEP_QUEUE]
    #[arg(long, value_name = "URL")]
    pub(crate) queue: Option<String>,
}

/// The form of the log on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line, also for the program's own messages.
    Json,
}

/// Flags of `serve`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Serve {
    /// Address to listen on, or a name of one. One that other machines can reach needs a key.
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,

    /// Port to listen on; 0 takes any free one.
    #[arg(long, value_name = "N", default_value_t = 8001)]
    pub(crate) port: u16,

    #[command(flatten)]
    pub(crate) data: DataDir,

    /// Show what would be served, and serve nothing.
    #[arg(long)]
    pub(crate) check: bool,

    /// Music model of requests that name none [default: the configured one, else the first installed].
    #[arg(long, value_name = "NAME", hide_default_value = true, help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    /// Speech model of requests that name none [default: the first installed].
    #[arg(long, value_name = "NAME", help_heading = "Model and device")]
    pub(crate) speech_model: Option<String>,

    /// Model of songs or speech that the worker loads and tries before it takes jobs.
    ///
    /// The first job of that model then starts as quickly as the second. A speech model also gets its
    /// kept voices ready. Clients see the server as not ready until then.
    #[arg(long, value_name = "NAME", help_heading = "Model and device")]
    #[arg(conflicts_with = "no_worker")]
    pub(crate) warm: Option<String>,

    #[command(flatten)]
    pub(crate) place: Where,

    #[command(flatten)]
    pub(crate) access: Access,

    /// Most jobs that wait; more are refused with 429. One of several clients has half of them.
    #[arg(long, value_name = "N", default_value_t = 200, help_heading = "Limits")]
    pub(crate) max_queue: u64,

    /// Largest upload in megabytes, 1 to 16384.
    #[arg(long, value_name = "MB", default_value_t = 256, help_heading = "Limits",
        value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub(crate) max_upload: u32,

    /// Gigabytes of all uploads; more are refused with 413. One of several clients has half of them.
    #[arg(long, value_name = "GB", default_value_t = 20, help_heading = "Limits",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_uploads: u32,

    /// Days that results are kept, 1 to 36500.
    #[arg(long, value_name = "DAYS", default_value_t = 30, help_heading = "Limits",
        value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) keep_days: u32,

    /// Gigabytes of results that are kept; the oldest go first.
    #[arg(long, value_name = "GB", default_value_t = 20, help_heading = "Limits",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) keep_size: u32,

    /// Start no worker: others run the jobs, see `acestep work`.
    #[arg(long, help_heading = "Operation")]
    pub(crate) no_worker: bool,

    #[command(flatten)]
    pub(crate) operation: Operation,
}

/// The clients of a server.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Access")]
pub(crate) struct Access {
    /// Key that clients send. Other users of this machine see flags: better set the variable.
    ///
    /// [env: ACESTEP_API_KEY]
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,

    /// File with a line NAME=KEY for each client; each sees its own jobs only.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "api_key")]
    pub(crate) api_keys: Option<PathBuf>,

    /// Serve a network without a key.
    #[arg(long, conflicts_with_all = ["api_key", "api_keys"])]
    pub(crate) open: bool,

    /// Name of this machine that clients may use, such as music.lan; * takes every name.
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,

    /// Another site whose pages may use this server, such as `https://example.org`.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
}

/// Operation of a server or a worker.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Operation")]
pub(crate) struct Operation {
    /// Seconds that the present job has to end after Ctrl-C; then it goes back into the queue.
    ///
    /// That is an orderly end, with exit code 0. A second Ctrl-C ends at once, with 130.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) drain: u32,

    /// Seconds, 4 to 3600, after which a worker that says nothing counts as lost, and its job runs
    /// again.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, hide_short_help = true,
        value_parser = clap::value_parser!(u32).range(4..=3600))]
    pub(crate) lease: u32,

    /// Minutes without progress, up to 1440, after which a job counts as hung, and its worker ends;
    /// 0 for never [default: 30 on a GPU, never on a CPU].
    ///
    /// The server starts its own worker again; a service manager must restart others.
    #[arg(long, value_name = "MINUTES", hide_short_help = true,
        value_parser = clap::value_parser!(u32).range(0..=1440))]
    pub(crate) stall: Option<u32>,

    /// Form of the log on standard error.
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// Flags of `work`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Work {
    #[command(flatten)]
    pub(crate) data: DataDir,

    /// Name of this worker in the queue [default: the process's number].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Music model of requests that name none.
    #[arg(long, value_name = "NAME", help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    /// Speech model of requests that name none.
    #[arg(long, value_name = "NAME", help_heading = "Model and device")]
    pub(crate) speech_model: Option<String>,

    /// Model of songs or speech that is loaded and tried before the first job.
    #[arg(long, value_name = "NAME", help_heading = "Model and device")]
    pub(crate) warm: Option<String>,

    #[command(flatten)]
    pub(crate) place: Where,

    #[command(flatten)]
    pub(crate) operation: Operation,

    /// End when standard input is closed, as a server's own worker does.
    #[arg(long, hide = true)]
    pub(crate) until_closed: bool,
}

/// Reads the id of a job.
fn job_id(text: &str) -> Result<Uuid, &'static str> {
    Uuid::parse_str(text).map_err(|_| "that is no id: `acestep jobs list` shows them")
}

/// Actions on jobs.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Jobs {
    /// List jobs, newest first.
    List {
        #[command(flatten)]
        data: DataDir,
        /// Only jobs in these states: queued, running, cancelling, done, failed, cancelled.
        #[arg(long, value_name = "STATE", value_delimiter = ',')]
        state: Vec<String>,
        /// Most jobs.
        #[arg(long, value_name = "N", default_value_t = 20,
            value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one job: its request, its state, its results.
    Show {
        #[command(flatten)]
        data: DataDir,
        /// Its id.
        #[arg(value_parser = job_id)]
        id: Uuid,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Cancel jobs.
    Cancel(Ids),
    /// Run jobs again that failed or were cancelled.
    Retry(Ids),
}

/// Jobs of a queue.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Ids {
    #[command(flatten)]
    pub(crate) data: DataDir,
    /// Their ids.
    #[arg(required = true, value_parser = job_id)]
    pub(crate) ids: Vec<Uuid>,
}
