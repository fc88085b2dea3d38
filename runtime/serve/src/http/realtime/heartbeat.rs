//! Signs of life of an idle connection. A client whose machine lost the network says nothing, and its
//! connection would stay for ever.

use std::time::Duration;

use axum::extract::ws::Message;
use tokio::time::{self, Instant};

use super::Session;

/// Bytes of a second of sound, at most as many as any model has: 16-bit samples, 16,000 a second.
const BYTES_OF_SECOND: f64 = 32_000.0;

/// The signs of life of a client.
#[derive(Debug)]
pub(super) struct Heartbeat {
    /// The time since which the client is silent.
    received: Instant,
    /// The time of the last ping.
    pinged: Instant,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self { received: Instant::now(), pinged: Instant::now() }
    }
}

impl Heartbeat {
    /// Notes a message of the client.
    pub(super) fn received(&mut self) {
        self.received = self.received.max(Instant::now());
    }

    /// Notes sound on its way. A client that reads it as it plays answers no ping before its end.
    pub(super) fn plays(&mut self, bytes: usize) {
        self.received();
        self.received += Duration::from_secs_f64(bytes as f64 / BYTES_OF_SECOND);
    }
}

impl Session {
    /// Waits for a message while nothing is spoken. A client that is silent is asked for a sign of life;
    /// one that gives none is gone, as at the end of the connection. May be dropped and called again.
    pub(super) async fn receive_idle(&mut self) -> Option<Result<Message, axum::Error>> {
        let silence = self.asker.limits.silence;
        loop {
            let ping = self.heartbeat.received.max(self.heartbeat.pinged) + silence / 3;
            let end = self.heartbeat.received + silence;
            tokio::select! {
                biased;
                message = self.socket.recv() => return message,
                () = time::sleep_until(ping.min(end)) => {}
            }
            if Instant::now() >= end {
                return None;
            }
            self.heartbeat.pinged = Instant::now();
            self.message(Message::Ping(Vec::new().into())).await.ok()?;
        }
    }
}
