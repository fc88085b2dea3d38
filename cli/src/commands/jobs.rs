//! `acestep jobs`: the queue of a server, from the command line.

use std::sync::Arc;

use acestep_engine::error::size;
use acestep_serve::{
    job::{Job, State},
    service,
    store::{Lookup, Selection, Store},
};
use anyhow::{Context, Result};
use serde_json::json;
use uuid::Uuid;

use super::serve::{explained, served};
use crate::{
    args::{
        Global,
        serve::{DataDir, Ids, Jobs},
    },
    error::CliError,
    report::{self, Report},
};

/// Runs the command.
///
/// # Errors
/// If the queue cannot be used, or has no such job.
pub(crate) fn run(args: &Jobs, global: &Global) -> Result<()> {
    let report = global.report();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no thread can be started")?;
    runtime.block_on(async {
        match args {
            Jobs::List { data, state, limit, json } => {
                let (states, limit) = (states(state)?, *limit);
                let selection = Selection { states, limit, ..Selection::default() };
                let jobs = store(data).await?.list(selection).await?;
                list(&jobs, *json, &report)
            }
            Jobs::Show { data, id, json } => show(&job(&*store(data).await?, *id).await?, *json),
            Jobs::Cancel(Ids { data, ids }) => {
                let (store, mut refused) = (store(data).await?, Vec::new());
                for id in ids {
                    let before = job(&*store, *id).await?.state;
                    if before.is_ended() {
                        refused.push(format!("{id} is {}", before.name()));
                        continue;
                    }
                    let state = store.cancel(*id).await?;
                    report.line(&format!("{id} {}", state.map_or("unknown", State::name)));
                }
                let hint = "only a job that waits or runs can be cancelled";
                all_of(&refused, "cannot be cancelled", hint)
            }
            Jobs::Retry(Ids { data, ids }) => {
                let (store, mut refused) = (store(data).await?, Vec::new());
                for id in ids {
                    let job = job(&*store, *id).await?;
                    if store.retry(*id).await? {
                        report.line(&format!("{id} queued"));
                    } else {
                        refused.push(format!("{id} is {}", job.state.name()));
                    }
                }
                let hint = "only a job that failed or was cancelled runs again: submit it anew";
                all_of(&refused, "cannot run again", hint)
            }
        }
    })
}

/// Refuses the jobs that nothing was done with.
fn all_of(refused: &[String], why: &str, hint: &str) -> Result<()> {
    match refused {
        [] => Ok(()),
        _ => Err(CliError::new(format!("{} and {why}", refused.join(", "))).hint(hint).into()),
    }
}

/// Opens the queue of a server; a folder without one is refused.
async fn store(data: &DataDir) -> Result<Arc<dyn Store>> {
    let (folder, queue) = served(data)?;
    let opened = service::open(&folder, queue.as_deref()).await;
    let (store, _) = opened.map_err(explained)?;
    Ok(store)
}

fn states(names: &[String]) -> Result<Vec<State>, CliError> {
    let one = |name: &String| {
        serde_json::from_value(json!(name)).map_err(|_| {
            CliError::usage(format!("`--state {name}` is no state"))
                .hint("queued, running, cancelling, done, failed or cancelled")
        })
    };
    names.iter().map(one).collect()
}

async fn job(store: &dyn Store, id: Uuid) -> Result<Job> {
    match store.get(id).await? {
        Lookup::Job(job) => Ok(job),
        Lookup::Forgotten => {
            Err(CliError::new(format!("the job `{id}` was removed, with its results")).into())
        }
        Lookup::Unknown => {
            let error = CliError::new(format!("no job has the id `{id}`"));
            Err(error.hint("`acestep jobs list` shows the ids").into())
        }
    }
}

fn list(jobs: &[Job], json: bool, report: &Report) -> Result<()> {
    let line = |job: &Job| {
        let words = ["caption", "prompt", "text"].iter().find_map(|key| job.request[*key].as_str());
        let words = job.title.as_deref().or(words).unwrap_or_default();
        let short: String = words.chars().filter(|c| !c.is_control()).take(40).collect();
        format!("{} {:<10} {:<10} {short}", job.id, job.kind.name(), job.state.name())
    };
    if jobs.is_empty() && !json {
        report.line("no jobs");
        return Ok(());
    }
    let lines: Vec<_> = jobs.iter().map(line).collect();
    report::result(json, &json!({ "jobs": jobs }), lines.join("\n") + "\n")
}

fn show(job: &Job, json: bool) -> Result<()> {
    let mut lines = vec![
        format!("id        {}", job.id),
        format!("task      {}", job.kind.name()),
        format!("state     {}", job.state.name()),
        format!("attempts  {}", job.attempts),
        format!("request   {}", job.request),
    ];
    if !job.state.is_ended() && job.progress.total > 0 {
        let progress = &job.progress;
        lines.push(format!("stage     {} {}/{}", progress.stage, progress.done, progress.total));
    }
    lines.extend(job.notices.iter().map(|notice| format!("note      {notice}")));
    if let Some(error) = &job.error {
        lines.push(format!("error     {}", error.message));
        lines.extend(error.hint.iter().map(|hint| format!("hint      {hint}")));
    }
    let outputs = job.outputs.iter();
    lines.extend(outputs.map(|output| format!("result    {} {}", output.key, size(output.bytes))));
    report::result(json, job, lines.join("\n") + "\n")
}
