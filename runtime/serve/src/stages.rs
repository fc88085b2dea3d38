//! Times of the stages of jobs on this machine: the time left of a running job, and sums for Prometheus.
//!
//! One file beside the queue has two tables: the mean times of the stages of each task and model, and the
//! buckets of a histogram of each stage. Each worker of the folder adds to it when a job is done.
//!
//! The time left is the rest of the present stage, by its steps so far, and the mean times of the stages
//! after it. A job that is twice as slow as the mean up to now is taken to stay so.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Instant,
};

use serde::{Deserialize, Serialize};

use crate::job::{Job, Kind, Progress};

/// Upper bounds of the buckets, in seconds.
pub(crate) const BOUNDS: [f64; 10] = [0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0];
/// The most tasks with a model, and the most stages with a family, that are kept.
const MOST: usize = 64;
/// The part of the newest job in a mean.
const NEWEST: f64 = 0.3;
/// A mean below this is of a stage that no longer runs, in seconds.
const LEAST: f64 = 0.001;
/// Shortest and longest time of a job, divided by the mean time.
const SCALES: [f64; 2] = [0.05, 20.0];
/// The begin of the names of stages that read weights. Their time says nothing about the length of a song.
pub(crate) const LOADING: &str = "loading: ";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spent {
    pub(crate) stage: String,
    pub(crate) seconds: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Histogram {
    /// Numbers of times that were at most the bound of the same place, and above the one before.
    pub(crate) buckets: [u64; BOUNDS.len()],
    pub(crate) count: u64,
    pub(crate) sum: f64,
}

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// Mean times of the stages by task and model, in the order of the stages.
    means: BTreeMap<String, Vec<Spent>>,
    #[serde(default)]
    histograms: BTreeMap<String, BTreeMap<String, Histogram>>,
}

/// The name of the family of a task's models.
fn family(kind: Kind) -> &'static str {
    match kind {
        Kind::Speak | Kind::Voice => "speech",
        Kind::Generate | Kind::Understand | Kind::Compose | Kind::Encode | Kind::Decode => "music",
    }
}

fn key(job: &Job) -> String {
    format!("{} {}", job.kind.name(), job.model.as_deref().unwrap_or_default())
}

impl Times {
    fn path(folder: &Path) -> PathBuf {
        folder.join("stages.json")
    }

    /// Reads the times of a folder. A file that is missing or damaged has none: they are guesses.
    pub(crate) fn read(folder: &Path) -> Self {
        let bytes = fs::read(Self::path(folder)).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Adds the stages of a job that is done to the file of a folder.
    pub(crate) fn add(folder: &Path, job: &Job, spent: &[Spent]) -> io::Result<()> {
        // Workers of the same folder come one after the other.
        let lock = fs::File::create(folder.join("stages.lock"))?;
        lock.lock()?;
        let mut times = Self::read(folder);
        times.take(job, spent);
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut file, &times)?;
        file.persist(Self::path(folder)).map_err(|error| error.error)?;
        Ok(())
    }

    fn take(&mut self, job: &Job, spent: &[Spent]) {
        let of_family = self.histograms.entry(family(job.kind).to_owned()).or_default();
        for Spent { stage, seconds } in spent {
            if of_family.len() < MOST || of_family.contains_key(stage) {
                of_family.entry(stage.clone()).or_default().add(*seconds);
            }
        }
        if self.means.len() >= MOST && !self.means.contains_key(&key(job)) {
            return;
        }
        match self.means.get_mut(&key(job)) {
            Some(means) => mix(means, spent),
            None => drop(self.means.insert(key(job), spent.to_vec())),
        }
    }

    /// The mean times of the stages of a job's task and model.
    pub(crate) fn of(&self, job: &Job) -> Vec<Spent> {
        self.means.get(&key(job)).cloned().unwrap_or_default()
    }

    pub(crate) fn histograms(&self) -> impl Iterator<Item = (&str, &str, &Histogram)> {
        self.histograms.iter().flat_map(|(family, stages)| {
            stages
                .iter()
                .map(move |(stage, histogram)| (family.as_str(), stage.as_str(), histogram))
        })
    }
}

impl Histogram {
    fn add(&mut self, seconds: f64) {
        if let Some(at) = BOUNDS.iter().position(|bound| seconds <= *bound) {
            self.buckets[at] += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }
}

/// Moves means towards the times of a job. A stage that did not run took no time.
fn mix(means: &mut Vec<Spent>, spent: &[Spent]) {
    let mut after = 0;
    for Spent { stage, .. } in spent {
        match means.iter().position(|mean| mean.stage == *stage) {
            Some(at) => after = at + 1,
            None => {
                means.insert(after, Spent { stage: stage.clone(), seconds: 0.0 });
                after += 1;
            }
        }
    }
    for mean in &mut *means {
        let now = spent.iter().find(|spent| spent.stage == mean.stage);
        mean.seconds += NEWEST * (now.map_or(0.0, |now| now.seconds) - mean.seconds);
    }
    means.retain(|mean| mean.seconds >= LEAST);
}

#[derive(Debug, Default)]
pub(crate) struct Clock {
    past: Vec<Spent>,
    spent: Vec<Spent>,
    present: Option<Present>,
}

#[derive(Debug)]
struct Present {
    stage: String,
    begin: Instant,
    /// Steps that were done at its begin.
    first: u64,
}

impl Clock {
    /// A clock for a job whose stages took `past` before.
    pub(crate) fn new(past: Vec<Spent>) -> Self {
        Self { past, ..Self::default() }
    }

    /// Notices progress, and returns the time left in seconds; none without a past.
    pub(crate) fn tick(&mut self, progress: &Progress, now: Instant) -> Option<f64> {
        let is_new = |present: &Present| present.stage != progress.stage;
        if self.present.as_ref().is_none_or(is_new) {
            self.stop(now);
            let (stage, first) = (progress.stage.clone(), progress.done);
            self.present = Some(Present { stage, begin: now, first });
        }
        self.left(progress, now)
    }

    fn stop(&mut self, now: Instant) {
        let Some(Present { stage, begin, .. }) = self.present.take() else { return };
        let seconds = now.saturating_duration_since(begin).as_secs_f64();
        match self.spent.iter_mut().find(|spent| spent.stage == stage) {
            Some(spent) => spent.seconds += seconds,
            None => self.spent.push(Spent { stage, seconds }),
        }
    }

    /// Ends the job, and returns the seconds of its stages.
    pub(crate) fn end(&mut self, now: Instant) -> Vec<Spent> {
        self.stop(now);
        std::mem::take(&mut self.spent)
    }

    fn left(&self, progress: &Progress, now: Instant) -> Option<f64> {
        let at = self.past.iter().position(|past| past.stage == progress.stage)?;
        let present = self.present.as_ref()?;
        let elapsed = now.saturating_duration_since(present.begin).as_secs_f64();
        let total = progress.total.max(progress.done);
        let part = if total == 0 { 0.0 } else { progress.done as f64 / total as f64 };
        let scale = self.scale(at, part, elapsed);
        let done = progress.done.saturating_sub(present.first);
        let rest = match done {
            0 => (self.past[at].seconds * scale - elapsed).max(0.0),
            _ => elapsed / done as f64 * (total - progress.done) as f64,
        };
        let later: f64 = self.past[at + 1..].iter().map(|past| past.seconds * scale).sum();
        Some(rest + later)
    }

    /// The length of this job divided by the mean length, from the stages so far.
    fn scale(&self, at: usize, part: f64, elapsed: f64) -> f64 {
        let is_work = |spent: &&Spent| !spent.stage.starts_with(LOADING);
        let mut own: f64 = self.spent.iter().filter(is_work).map(|spent| spent.seconds).sum();
        let ran = |past: &&Spent| self.spent.iter().any(|spent| spent.stage == past.stage);
        let mut mean: f64 =
            self.past.iter().filter(is_work).filter(ran).map(|past| past.seconds).sum();
        if is_work(&&self.past[at]) && part > 0.0 {
            own += elapsed;
            mean += self.past[at].seconds * part;
        }
        if own <= 0.0 || mean <= 0.0 { 1.0 } else { (own / mean).clamp(SCALES[0], SCALES[1]) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::job::NewJob;

    fn job(kind: Kind, model: &str) -> Job {
        NewJob::new(kind, Some(model.to_owned()), json!({}), "o").stored(uuid::Uuid::now_v7(), 0)
    }

    fn spent(list: &[(&str, f64)]) -> Vec<Spent> {
        let one = |&(stage, seconds): &(&str, f64)| Spent { stage: stage.to_owned(), seconds };
        list.iter().map(one).collect()
    }

    fn at(stage: &str, done: u64, total: u64) -> Progress {
        Progress { stage: stage.to_owned(), done, total, ..Progress::default() }
    }

    /// By hand: the diffusion took 8 s and the decoder 4 s. A job whose first of 8 steps takes 2 s is
    /// twice as slow, so 14 s of steps and 8 s of the decoder are left.
    #[test]
    fn the_time_left_is_the_rest_of_the_stage_and_the_mean_of_later_ones() {
        let mut clock = Clock::new(spent(&[("diffusion", 8.0), ("decoder", 4.0)]));
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(clock.tick(&at("diffusion", 0, 8), start), Some(12.0));
        assert_eq!(clock.tick(&at("diffusion", 1, 8), after(2)), Some(14.0 + 8.0));
        assert_eq!(clock.tick(&at("diffusion", 8, 8), after(16)), Some(8.0));
        assert_eq!(clock.tick(&at("decoder", 0, 2), after(16)), Some(8.0));
        assert_eq!(clock.tick(&at("decoder", 1, 2), after(20)), Some(4.0));
        assert_eq!(clock.end(after(24)), spent(&[("diffusion", 16.0), ("decoder", 8.0)]));
    }

    #[test]
    fn without_a_past_no_time_left_is_told() {
        let mut clock = Clock::default();
        assert_eq!(clock.tick(&at("diffusion", 1, 8), Instant::now()), None);
    }

    #[test]
    fn weights_that_are_in_memory_already_are_forgotten_slowly() {
        let mut means = spent(&[("loading: dit", 10.0), ("diffusion", 8.0)]);
        mix(&mut means, &spent(&[("text", 1.0), ("diffusion", 8.0)]));
        let seconds: Vec<(&str, i64)> =
            means.iter().map(|mean| (&*mean.stage, (mean.seconds * 10.0).round() as i64)).collect();
        assert_eq!(seconds, [("text", 3), ("loading: dit", 70), ("diffusion", 80)]);
    }

    #[test]
    fn times_are_kept_by_task_and_model_and_counted_by_family_and_stage() {
        let folder = tempfile::tempdir().expect("a folder");
        let song = job(Kind::Generate, "tiny");
        assert_eq!(Times::read(folder.path()), Times::default());
        for seconds in [0.2, 0.05, 4000.0] {
            Times::add(folder.path(), &song, &spent(&[("diffusion", seconds)])).expect("written");
        }
        Times::add(folder.path(), &job(Kind::Speak, "s"), &spent(&[("talker", 1.0)]))
            .expect("written");
        let times = Times::read(folder.path());
        assert_eq!(times.of(&job(Kind::Speak, "s")), spent(&[("talker", 1.0)]));
        assert_eq!(times.of(&job(Kind::Generate, "other")), []);
        let all: Vec<_> = times.histograms().collect();
        let names: Vec<_> = all.iter().map(|(family, stage, _)| (*family, *stage)).collect();
        assert_eq!(names, [("music", "diffusion"), ("speech", "talker")]);
        let Histogram { buckets, count, sum } = all[0].2;
        assert_eq!((&buckets[..2], *count), (&[1, 1][..], 3));
        assert!((sum - 4000.25).abs() < 1e-9);
        assert_eq!(buckets.iter().sum::<u64>(), 2);
    }

    #[test]
    fn names_of_models_and_stages_cannot_fill_the_file() {
        let mut times = Times::default();
        for n in 0..200 {
            let name = n.to_string();
            times.take(&job(Kind::Generate, &name), &spent(&[(&name, 1.0)]));
        }
        assert_eq!((times.means.len(), times.histograms().count()), (MOST, MOST));
    }
}
