//! `acestep model pull`.

use acestep_engine::{error::size, machine};
use acestep_import::{
    Release,
    hub::{CacheState, Here, Hub, Pull, PullEvent, Remote},
};
use anyhow::Result;

use super::{bar::Bar, hub, named};
use crate::{
    error::CliError,
    interrupt,
    report::{self, Report},
    settings,
};

/// Free space to keep on the disk, for a song, its request and the system.
const SPARE: u64 = 500_000_000;

pub(super) fn run(
    names: &[String],
    revision: Option<&str>,
    dry_run: bool,
    report: &Report,
) -> Result<()> {
    let models = named(names, "to fetch")?;
    if let Some(revision) = revision {
        let is_plain = |letter: char| letter.is_alphanumeric() || "._-/".contains(letter);
        if revision.is_empty() || !revision.chars().all(is_plain) {
            let message = format!("`--revision {revision}` is no branch, tag or commit");
            return Err(CliError::usage(message).hint("leave it out for the newest").into());
        }
    }
    if revision.is_some() && models.len() > 1 {
        let message = "`--revision` is of one repository, but several models are named";
        return Err(CliError::usage(message).hint("run it once for each").into());
    }
    pull(&models, revision, dry_run, report)?;
    if !dry_run {
        for model in models {
            if let Some(path) = settings::layout().place(model) {
                report::path(&path)?;
            }
        }
    }
    Ok(())
}

/// Downloads `models` and all they need, or shows what a download would do.
pub(super) fn pull(
    models: &[&'static Release],
    revision: Option<&str>,
    dry_run: bool,
    report: &Report,
) -> Result<()> {
    if let Some(by) = settings::offline() {
        let message = format!("models are fetched from a server, which {by} forbids");
        return Err(CliError::usage(message).hint(format!("leave {by} out")).into());
    }
    let hub = hub()?;
    let remote = Remote::new(&settings::access())?;
    interrupt::at_once(|| {
        let layout = settings::layout();
        let here = |own: &Release| match hub.state(own) {
            _ if layout.own(own).is_some() => Here::Elsewhere,
            CacheState::Whole(_) => Here::InCache,
            CacheState::Absent | CacheState::Broken(..) => Here::No,
        };
        let pull = Pull::plan(&remote, models, revision, &here)?;
        let missing = pull.missing(&hub);
        tell(&pull, &hub, &remote, missing, report);
        check_room(&hub, missing)?;
        if dry_run {
            return Ok(());
        }
        let bar = Bar::new(*report, missing);
        let mut fetched = 0;
        pull.run(&hub, &remote, &mut |event: PullEvent<'_>| {
            if let PullEvent::Received(bytes) = event {
                fetched += bytes;
            }
            bar.show(&event);
        })?;
        drop(bar);
        report.line(&match fetched {
            0 => "all of it is here already, and as it was published".to_owned(),
            _ => format!("pulled {}; every file is as it was published", size(fetched)),
        });
        Ok(())
    })
}

/// Prints the files to download, their source and their target.
fn tell(pull: &Pull, hub: &Hub, remote: &Remote, missing: u64, report: &Report) {
    for download in &pull.downloads {
        let commit: String = download.revision.chars().take(12).collect();
        let repo = download.release.repo;
        let left = match download.missing(hub) {
            0 => "is here".to_owned(),
            missing if missing == download.size() => format!("{} to fetch", size(missing)),
            missing => format!("{} of {} to fetch", size(missing), size(download.size())),
        };
        report.line(&format!("{:<26} {left} · {repo} at {commit}", download.release.directory));
    }
    for kept in &pull.kept {
        let own = settings::layout().own(kept);
        let place = own.map_or(String::new(), |path| format!(" in {}", path.display()));
        report.line(&format!("{:<26} stays as it is{place}", kept.directory));
    }
    if missing > 0 {
        let free = machine::free_at(hub.cache());
        let free = free.map_or(String::new(), |free| format!(", where {} are free", size(free)));
        let (from, to) = (remote.endpoint(), hub.cache().display());
        report.line(&format!("{} from {from} into {to}{free}", size(missing)));
    }
}

fn check_room(hub: &Hub, missing: u64) -> Result<(), CliError> {
    let free = machine::free_at(hub.cache());
    let Some(free) = free.filter(|&free| missing > 0 && free < missing.saturating_add(SPARE))
    else {
        return Ok(());
    };
    let place = hub.cache().display();
    let message = format!("{} do not fit: {} are free at {place}", size(missing), size(free));
    Err(CliError::new(message)
        .hint("free some space, or name another disk with HF_HOME or HF_HUB_CACHE"))
}
