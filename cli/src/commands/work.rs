//! `acestep work`: runs the jobs of a server's queue on this machine.

use std::{
    io::{self, Read as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use acestep_serve::{
    runner::{self, WorkerStart},
    service::{self, NOT_WARM, READY, room},
    worker::{self, Worker, WorkerTimes},
};
use anyhow::{Context, Result};

use super::{
    engine::{self, Started},
    serve::{catalog, check_models, explained, served, start_log},
};
use crate::{
    args::{Global, serve::Work},
    interrupt, report,
};

/// Time between two looks for the end.
const LOOK: Duration = Duration::from_millis(50);

/// True when no more jobs are taken.
static DRAINING: AtomicBool = AtomicBool::new(false);

/// Runs the command.
///
/// # Errors
/// If the queue or the device cannot be used.
pub(crate) fn run(args: &Work, global: &Global) -> Result<()> {
    let report = global.report();
    // The server says it about its own worker.
    start_log(&args.operation, report.verbosity, !args.until_closed);
    let installed = catalog(args.model.clone(), args.speech_model.clone());
    check_models(args.warm.as_deref(), &installed)?;
    let Started { engine, notices, .. } = engine::start(&args.place)?;
    report.notes(&notices);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("the worker cannot start its threads")?;
    let (folder, queue) = served(&args.data)?;
    let opened = runtime.block_on(service::open(&folder, queue.as_deref()));
    let (store, objects) = opened.map_err(explained)?;
    let is_ending = Arc::new(AtomicBool::new(false));
    watch_for_end(args, is_ending.clone());
    let lease = Duration::from_secs(u64::from(args.operation.lease));
    // A CPU does not hang, and a step of a long song may take half an hour there.
    let usual = if engine.device.is_gpu() { 30 } else { 0 };
    let stall = Duration::from_secs(60 * u64::from(args.operation.stall.unwrap_or(usual)));
    let worker = Worker {
        name: args.name.clone().unwrap_or_else(|| worker::unique_name("work")),
        store,
        objects,
        times: WorkerTimes { lease, extend: lease / 4, stall, ..WorkerTimes::default() },
        is_draining: &DRAINING,
        is_ending,
        // Orderly ends wait for the device, which may hang for ever.
        on_hang: || std::process::abort(),
        // If the server is gone, standard input is closed too.
        on_disk_full: if args.until_closed {
            |full: bool| drop(report::bytes(room(full)))
        } else {
            |_| ()
        },
    };
    let ready = |not_warm: Option<&str>| {
        // A line, whatever is in the reason.
        let not_warm = not_warm.map(|why| format!("{NOT_WARM}{}", why.replace('\n', " ")));
        if !args.until_closed {
            report.always(&format!("worker {} on {engine} takes jobs; Ctrl-C ends\n", worker.name));
        } else if report.output(not_warm.as_deref().unwrap_or(READY)).is_err() {
            // The server is gone.
            DRAINING.store(true, Ordering::Relaxed);
        }
    };
    // Threads of the queue were started above and keep theirs.
    #[cfg(feature = "cpu")]
    if !engine.device.is_gpu() {
        acestep_engine::threads::lower_priority();
    }
    let start = WorkerStart { warm: args.warm.as_deref(), ready: &ready };
    Ok(runner::run(&worker, runtime.handle(), &installed, engine, start)??)
}

/// Notices the wish to end: Ctrl-C, or a closed standard input. The present job has some time; then it
/// goes back into the queue.
fn watch_for_end(args: &Work, is_ending: Arc<AtomicBool>) {
    let drain = Duration::from_secs(u64::from(args.operation.drain));
    if args.until_closed {
        thread::spawn(|| {
            // An error means that nobody is there, too.
            let _ = io::stdin().read_to_end(&mut Vec::new());
            DRAINING.store(true, Ordering::Relaxed);
        });
    }
    thread::spawn(move || {
        while !interrupt::was_pressed() && !DRAINING.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
        DRAINING.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        while begin.elapsed() < drain {
            thread::sleep(LOOK);
        }
        is_ending.store(true, Ordering::Relaxed);
    });
}
