//! Limits of a server.

use std::time::Duration;

/// Limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most jobs that wait.
    pub queue: u64,
    /// The most jobs of one client that wait.
    pub queue_of_one: u64,
    /// The largest upload, in bytes.
    pub upload: usize,
    /// The most bytes of all files that clients sent.
    pub files: u64,
    /// The most bytes of the files of one client.
    pub files_of_one: u64,
    /// The most files of one client.
    pub files_number_of_one: u64,
    /// The longest part of a sound that is read, in seconds.
    pub seconds: f64,
    /// The longest time that a request waits for its job.
    pub wait: Duration,
    /// The longest time that a client takes for the header of a request.
    pub headers: Duration,
    /// The longest time without a byte of a request's body. A body has this time once, and a millisecond for
    /// each byte.
    pub body: Duration,
    /// The longest time in which a connection takes no byte of an answer that is there: of a file, of events, of
    /// a WebSocket. Over HTTP/2, the longest time for 32 KiB of an answer. Long enough for a player that reads as it
    /// plays: its system takes a megabyte at once.
    pub answer: Duration,
    /// The longest time in which a connection over HTTP/2 has no request on its way.
    pub idle: Duration,
    /// The longest time without a sign of life of an idle WebSocket. Pings ask for one.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue: 200,
            queue_of_one: 200,
            upload: 256 << 20,
            files: 20_000_000_000,
            files_of_one: 20_000_000_000,
            files_number_of_one: 10_000,
            seconds: f64::from(acestep_engine::audio::read::MOST_SECONDS),
            wait: Duration::from_secs(600),
            headers: Duration::from_secs(30),
            body: Duration::from_secs(30),
            answer: Duration::from_secs(300),
            idle: Duration::from_secs(300),
            silence: Duration::from_secs(90),
        }
    }
}
