//! `acestep jobs`: the queue of a server, from the command line.

use std::{process::ExitCode, sync::Arc};

use acestep_engine::error::size;
use acestep_serve::{
    job::{Job, State},
    service,
    store::{Found, Selection, Store},
};
use anyhow::{Context, Result};
use serde_json::json;
use uuid::Uuid;

use super::serve::{data_dir, explained, queue};
use crate::{
    args::{
        Global,
        serve::{DataDir, Jobs},
    },
    error::CliError,
    exit::{FAILED, exit},
    report::Report,
};

/// Runs the command.
///
/// # Errors
/// If the queue cannot be used, or has no such job.
pub(crate) fn run(args: &Jobs, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no thread can be started")?;
    runtime.block_on(async {
        match args {
            Jobs::List { data, state, limit, json } => {
                let states = states(state)?;
                let limit = *limit;
                let selection = Selection { states, limit, ..Selection::default() };
                let jobs = store(data).await?.list(selection).await?;
                list(&jobs, *json, &report)
            }
            Jobs::Show { data, id, json } => {
                let job = job(&*store(data).await?, *id).await?;
                show(&job, *json, &report)
            }
            Jobs::Cancel { data, ids } => {
                let store = store(data).await?;
                for id in ids {
                    job(&*store, *id).await?;
                    let state = store.cancel(*id).await?;
                    report.line(&format!("{id} {}", state.map_or("unknown", State::name)));
                }
                Ok(ExitCode::SUCCESS)
            }
            Jobs::Retry { data, ids } => {
                let store = store(data).await?;
                let mut code = ExitCode::SUCCESS;
                for id in ids {
                    let job = job(&*store, *id).await?;
                    if store.retry(*id).await? {
                        report.line(&format!("{id} queued"));
                    } else {
                        let state = job.state.name();
                        report.note(&format!("{id} is {state} and cannot run again"));
                        code = exit(FAILED);
                    }
                }
                Ok(code)
            }
        }
    })
}

/// Opens the queue of a server; a folder without one is refused.
async fn store(data: &DataDir) -> Result<Arc<dyn Store>> {
    let folder = data_dir(data)?;
    let queue = queue(data);
    if queue.is_none() && !folder.join("jobs.sqlite").exists() {
        let message = format!("`{}` has no queue", folder.display());
        return Err(CliError::new(message).hint("name the server's folder with --data-dir").into());
    }
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
        Found::Job(job) => Ok(job),
        Found::Forgotten => {
            Err(CliError::new(format!("the job `{id}` was removed, with its results")).into())
        }
        Found::Unknown => {
            let error = CliError::new(format!("no job has the id `{id}`"));
            Err(error.hint("`acestep jobs list` shows the ids").into())
        }
    }
}

fn list(jobs: &[Job], json: bool, report: &Report) -> Result<ExitCode> {
    if json {
        report.object(&json!({ "jobs": jobs }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let line = |job: &Job| {
        let words = job.title.as_deref().or(job.request["caption"].as_str());
        let words = words.or(job.request["text"].as_str()).unwrap_or_default();
        let short: String = words.chars().filter(|c| !c.is_control()).take(40).collect();
        format!("{} {:<10} {:<10} {short}", job.id, job.kind.name(), job.state.name())
    };
    let lines: Vec<_> = jobs.iter().map(line).collect();
    if lines.is_empty() {
        report.line("no jobs");
    } else {
        report.output(&lines.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(job: &Job, json: bool, report: &Report) -> Result<ExitCode> {
    if json {
        report.object(&json!(job))?;
        return Ok(ExitCode::SUCCESS);
    }
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
    report.output(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}
