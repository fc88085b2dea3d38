//! `acestep serve`: the server, with a worker of its own.

mod child;

use std::{path::PathBuf, sync::Arc, time::Duration};

use acestep_serve::{
    catalog::{Catalog as _, Family, Missing},
    http::{ApiKey, KeyError, Limits, Security},
    installed::Installed,
    maintenance::Retention,
    service::{self, Service, ServiceError, without_secrets},
};
use acestep_speech::Voices;
use anyhow::{Context, Result};
use tokio::{sync::watch, time};

use crate::{
    args::{
        Global,
        serve::{Access, DataDir, LogFormat, Operation, Serve},
    },
    environment,
    error::CliError,
    interrupt,
    report::Report,
    settings,
};

/// Runs the command.
///
/// # Errors
/// If the address, the folder or a key cannot be used. Errors carry a hint.
pub(crate) fn run(args: &Serve, global: &Global) -> Result<()> {
    let report = global.report();
    let catalog = catalog(args.model.clone(), args.speech_model.clone());
    let service = service(args, &catalog, global)?;
    service.check().map_err(explained)?;
    if args.check {
        return check(args, &service, &catalog, &report);
    }
    start_log(&args.operation, report.verbosity, !args.no_worker);
    say_defaults(&catalog, &report);
    let runtime = tokio::runtime::Runtime::new().context("the server cannot start its threads")?;
    let ran = runtime.block_on(async {
        let ending = ending();
        service
            .run(Arc::new(catalog), ending, |address| {
                report.always(&format!("serving on http://{address}; Ctrl-C ends\n"));
            })
            .await
    });
    ran.map_err(explained)?;
    report.line("the server has ended; jobs that wait stay in the queue");
    Ok(())
}

/// Returns a value that becomes true when the user wants the end.
pub(super) fn ending() -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        while !interrupt::was_pressed() {
            time::sleep(Duration::from_millis(50)).await;
        }
        // Without a receiver the server has ended already.
        let _ = sender.send(true);
    });
    receiver
}

/// Returns the models and voices of this machine.
pub(super) fn catalog(model: Option<String>, speech_model: Option<String>) -> Installed {
    let voices = settings::voices_dir().map(Voices::new);
    let model = model.or_else(settings::configured_model);
    Installed::new(settings::layout(), voices, model, speech_model)
}

/// Returns the folder of the server.
///
/// # Errors
/// If the user has no home and names none.
fn data_dir(data: &DataDir) -> Result<PathBuf, CliError> {
    data.data_dir.clone().or_else(settings::serve_dir).ok_or_else(|| {
        CliError::new("there is no home directory for the server's folder")
            .hint("name a folder with --data-dir")
    })
}

/// Returns the folder and the queue of a server that was started before.
///
/// # Errors
/// If the folder has no queue.
pub(super) fn served(data: &DataDir) -> Result<(PathBuf, Option<String>), CliError> {
    let (folder, queue) = (data_dir(data)?, queue(data));
    if queue.is_none() && !folder.join("jobs.sqlite").exists() {
        let message = format!("`{}` has no queue", folder.display());
        let hint = "start the server first, or name its folder with --data-dir";
        return Err(CliError::new(message).hint(hint));
    }
    Ok((folder, queue))
}

/// Returns the address of a queue of many machines: of the flag, or of the variable.
fn queue(data: &DataDir) -> Option<String> {
    let variable = || environment::set("ACESTEP_QUEUE").map(|url| url.to_string_lossy().into());
    data.queue.clone().or_else(variable)
}

/// Begins the log on standard error. If `tells`, Ctrl-C says how long the present job has.
pub(super) fn start_log(operation: &Operation, verbosity: i8, tells: bool) {
    use tracing_subscriber::{filter::LevelFilter, fmt};
    let words = format!("a running job has {} s to end", operation.drain);
    // Words that were set before stay.
    let _ = interrupt::FIRST.set(if tells { words } else { String::new() });
    let level = match verbosity {
        i8::MIN..=-1 => LevelFilter::ERROR,
        0 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let log = fmt().with_max_level(level).with_target(false).with_writer(std::io::stderr);
    // A log that was begun before stays.
    let _ = match operation.log_format {
        LogFormat::Json => log.json().try_init(),
        LogFormat::Text => log.with_ansi(false).try_init(),
    };
}

/// Converts an error of the server.
pub(super) fn explained(error: ServiceError) -> anyhow::Error {
    let hint = error.hint().map(crate::fields::as_flags);
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    let message = match cause {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    let usage = matches!(error, ServiceError::Open(_) | ServiceError::Host(_));
    let error = if usage { CliError::usage(message) } else { CliError::new(message) };
    match hint {
        Some(hint) => error.hint(hint).into(),
        None => error.into(),
    }
}

fn service(args: &Serve, catalog: &Installed, global: &Global) -> Result<Service> {
    let data_dir = data_dir(&args.data)?;
    check_models(args.warm.as_deref(), catalog)?;
    let worker = match args.no_worker {
        true => None,
        false => Some(child::worker(args, catalog, &data_dir, global)?),
    };
    let security = security(&args.access, args.host.clone())?;
    // One of several clients cannot fill the queue or the disk.
    let of_one = |all: u64| match security.keys.len() {
        0 | 1 => all,
        _ => all.div_ceil(2),
    };
    let files = u64::from(args.max_uploads) * 1_000_000_000;
    let limits = Limits {
        queue: args.max_queue,
        queue_of_one: of_one(args.max_queue),
        files,
        files_of_one: of_one(files),
        upload: args.max_upload as usize * 1_000_000,
        ..Limits::default()
    };
    let retention = Retention {
        age: Duration::from_secs(u64::from(args.keep_days) * 24 * 3600),
        bytes: u64::from(args.keep_size) * 1_000_000_000,
        ..Retention::default()
    };
    Ok(Service {
        address: service::address(&args.host, args.port).map_err(explained)?,
        data_dir,
        queue: queue(&args.data),
        security,
        is_open: args.access.open,
        limits,
        retention,
        worker,
        device: (!args.no_worker).then(|| args.place.device.clone()),
        drain: Duration::from_secs(u64::from(args.operation.drain)),
        version: env!("CARGO_PKG_VERSION"),
    })
}

/// Refuses a model of requests that name none, or of the warm-up, that is not here.
///
/// # Errors
/// If it is not here or cannot be used; the hint names those that are.
pub(super) fn check_models(warm: Option<&str>, catalog: &Installed) -> Result<()> {
    catalog.check_defaults().context("a model of requests that name none cannot be used")?;
    let Some(name) = warm else { return Ok(()) };
    let Err(error) = catalog.family(name) else { return Ok(()) };
    let mut refused = CliError::usage(format!("`--warm {name}` names no model that is here"));
    refused.hint = error.hint;
    Err(refused.into())
}

fn security(access: &Access, host: String) -> Result<Security> {
    let variable = || environment::set("ACESTEP_API_KEY").map(|key| key.to_string_lossy().into());
    let typed: Option<String> = access.api_key.clone().or_else(variable);
    let keys = match (&access.api_keys, typed) {
        (Some(path), _) => ApiKey::read_all(path).map_err(unusable)?,
        (None, Some(_)) if access.open => {
            let message = "`--open` and ACESTEP_API_KEY contradict each other";
            return Err(CliError::usage(message).hint("leave one of them out").into());
        }
        (None, Some(key)) => vec![ApiKey::checked("key", &key).map_err(unusable)?],
        (None, None) => vec![],
    };
    let any_host = access.allow_host.iter().any(|name| name == "*");
    let mut hosts = access.allow_host.clone();
    hosts.push(host);
    let origins = access.allow_origin.clone();
    Ok(Security { keys, hosts, origins, any_host, on_network: false })
}

/// Converts an error of keys: only a file that cannot be read is no wrong command line.
fn unusable(error: KeyError) -> CliError {
    let refused = match &error {
        KeyError::Unread { source, .. } => CliError::new(format!("{error}: {source}")),
        _ => CliError::usage(error.to_string()),
    };
    refused.hint(error.hint())
}

/// Says which models requests get that name none, if they are not the usual ones.
fn say_defaults(catalog: &Installed, report: &Report) {
    for Missing { text, command } in catalog.missing() {
        report.note(&format!("{text}; `{command}` brings a released one"));
    }
}

/// Shows what would be served.
fn check(args: &Serve, service: &Service, catalog: &Installed, report: &Report) -> Result<()> {
    say_defaults(catalog, report);
    let line = |name: &str, value: String| format!("{name:<11} {value}");
    let keys = match service.security.keys.len() {
        0 => "no key: everyone on this address".to_owned(),
        1 => "one key".to_owned(),
        n => format!("{n} keys"),
    };
    let mut lines = vec![
        line("address", format!("http://{}", service.address)),
        line("access", keys),
        line("folder", service.data_dir.display().to_string()),
        line("queue", service.queue.as_deref().map_or("in the folder".to_owned(), without_secrets)),
    ];
    for model in catalog.models() {
        let family = match model.family {
            Family::Music => "music",
            Family::Language => "language",
            Family::Speech => "speech",
        };
        let default = if model.is_default { " (default)" } else { "" };
        lines.push(line(family, format!("{}{default}: {}", model.id, model.about)));
    }
    let worker = match args.no_worker {
        true => "none: start `acestep work`".to_owned(),
        false => format!("on {} in {}", args.place.device, args.place.dtype),
    };
    lines.push(line("worker", worker));
    Ok(report.output(&lines.join("\n"))?)
}
