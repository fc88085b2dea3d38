//! Sound and text between machines: questions to a worker that nothing stores.
//!
//! A worker answers at `<queue>.live.<its name in hexadecimal>`: a name may have letters that no subject
//! may have. A question is JSON. An answer is a line of JSON, then samples.

use std::{io, time::Duration};

use async_nats::{Client, Message, Request, RequestErrorKind};
use bytes::Bytes;
use futures_util::{StreamExt as _, future::BoxFuture};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::ANSWER;
use crate::{
    arriving::TextPart,
    objects::{Live, LiveSamples, LocalAttempts, hex},
    store::Lease,
};

/// Questions that a worker answers at once; most of them wait for samples.
const AT_ONCE: usize = 256;

/// A question about an attempt.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    job: Uuid,
    attempt: u32,
    wish: Wish,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wish {
    /// The sound behind a byte; the worker waits for it.
    Hear {
        from: u64,
        wait_ms: u64,
    },
    Tell(TextPart),
}

/// The first line of an answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Head {
    /// Samples follow.
    Sound(LiveSamples),
    Silence,
    /// The text is stored.
    Taken,
    /// The worker could not do it.
    Failed(String),
}

/// Questions of this process, and answers of its worker.
pub(super) struct Questions {
    client: Client,
    queue: String,
    runtime: Handle,
}

fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the answer of the worker cannot be read")
}

impl Questions {
    /// Questions within a queue, whose messages `runtime` carries.
    pub(super) fn new(client: Client, queue: &str, runtime: Handle) -> Self {
        Self { client, queue: queue.to_owned(), runtime }
    }

    fn subject(&self, worker: &str) -> String {
        format!("{}.live.{}", self.queue, hex(worker.as_bytes()))
    }

    /// Asks the worker of an attempt, which may wait before it answers.
    async fn ask(&self, lease: &Lease, wish: Wish, wait: Duration) -> io::Result<(Head, Bytes)> {
        let question = Question { job: lease.id, attempt: lease.attempt, wish };
        let request = Request::new().payload(serde_json::to_vec(&question)?.into());
        let request = request.timeout(Some(wait + ANSWER));
        let answer = self.client.send_request(self.subject(&lease.worker), request).await;
        let mut payload = answer.map_err(|error| no_answer(error.kind()))?.payload;
        let end = payload.iter().position(|&byte| byte == b'\n').ok_or_else(unexpected)?;
        let head = payload.split_to(end + 1);
        match serde_json::from_slice(&head)? {
            Head::Failed(why) => Err(io::Error::other(why)),
            head => Ok((head, payload)),
        }
    }
}

fn no_answer(kind: RequestErrorKind) -> io::Error {
    let kind = match kind {
        RequestErrorKind::NoResponders => io::ErrorKind::NotConnected,
        RequestErrorKind::TimedOut => io::ErrorKind::TimedOut,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, "the worker of the job does not answer")
}

impl Live for Questions {
    fn fetch_samples(
        &self,
        lease: Lease,
        from: u64,
        wait: Duration,
    ) -> BoxFuture<'_, io::Result<Option<LiveSamples>>> {
        Box::pin(async move {
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            match self.ask(&lease, Wish::Hear { from, wait_ms }, wait).await? {
                (Head::Sound(samples), bytes) => Ok(Some(LiveSamples { bytes, ..samples })),
                (Head::Silence, _) => Ok(None),
                (Head::Taken | Head::Failed(_), _) => Err(unexpected()),
            }
        })
    }

    fn send_text(&self, lease: Lease, part: TextPart) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            match self.ask(&lease, Wish::Tell(part), Duration::ZERO).await? {
                (Head::Taken, _) => Ok(()),
                (Head::Sound(_) | Head::Silence | Head::Failed(_), _) => Err(unexpected()),
            }
        })
    }

    fn answer(&self, worker: &str, here: LocalAttempts) -> AbortOnDropHandle<()> {
        let (client, subject, worker) =
            (self.client.clone(), self.subject(worker), worker.to_owned());
        let answering = async move {
            match client.subscribe(subject).await {
                Ok(questions) => {
                    let answer = |question| answered(&client, &worker, &here, question);
                    questions.for_each_concurrent(AT_ONCE, answer).await;
                }
                Err(error) => tracing::warn!(%error, "no other machine hears this worker"),
            }
        };
        AbortOnDropHandle::new(self.runtime.spawn(answering))
    }
}

async fn answered(client: &Client, worker: &str, here: &LocalAttempts, question: Message) {
    let Some(reply) = question.reply else { return };
    let answer = match serde_json::from_slice(&question.payload) {
        Ok(question) => given(worker, here, question).await,
        Err(error) => Err(error.into()),
    };
    let (head, samples) =
        answer.unwrap_or_else(|error| (Head::Failed(error.to_string()), Bytes::new()));
    let Ok(mut payload) = serde_json::to_vec(&head) else { return };
    payload.push(b'\n');
    payload.extend_from_slice(&samples);
    if let Err(error) = client.publish(reply, payload.into()).await {
        tracing::warn!(%error, "a listener on another machine gets no answer");
    }
}

async fn given(
    worker: &str,
    here: &LocalAttempts,
    question: Question,
) -> io::Result<(Head, Bytes)> {
    let Question { job, attempt, wish } = question;
    let lease = Lease { id: job, worker: worker.to_owned(), attempt };
    match wish {
        Wish::Hear { from, wait_ms } => {
            let heard = here.fetch_samples(&lease, from, Duration::from_millis(wait_ms)).await?;
            Ok(heard.map_or((Head::Silence, Bytes::new()), |samples| {
                let bytes = samples.bytes.clone();
                (Head::Sound(samples), bytes)
            }))
        }
        Wish::Tell(part) => {
            here.send_text(&lease, part).await?;
            Ok((Head::Taken, Bytes::new()))
        }
    }
}
