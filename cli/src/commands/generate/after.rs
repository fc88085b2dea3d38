//! What is made of finished songs: the times of their lines, their scores, pictures.
//!
//! Everything is decided and checked before the first network is read. Where something fails after
//! the songs were made, they are written all the same, and then the failure is reported.

mod files;
mod table;

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use acestep_import::{Folder, LanguageFolder, Layout};
use acestep_model::{Backend, Place};
use acestep_runtime::{
    Action, Engine, Error, Notice, Observe, Plan, Request, Song,
    align::{Aligned, Wants, gaze, lrc},
    files::{Existing, write_whole},
    lm::{
        judge::{self, Subject},
        metadata::{Metadata, Scalar},
        settings::Settings,
    },
    plan::limits,
    plot,
    score::language::{LanguageScore, SCALE},
};
use anyhow::Result;
use serde_json::{Map, Value, json};

use super::{Args, Job, Written};
use crate::{commands::language, error::Refusal, interrupt};
pub(super) use files::{Files, Named};
pub(super) use table::{ranking, table};

/// What is wanted of the songs, and where it goes.
pub(super) struct After {
    pub(super) wants: Wants,
    /// Whether the language model judges, if there is one.
    judges: bool,
    scale: f64,
    files: Files,
    /// Who judges codes that no language model of this run writes.
    language: Option<LanguageFolder>,
}

impl After {
    /// Every file.
    pub(super) fn all(&self) -> impl Iterator<Item = &Path> {
        self.files.all()
    }

    /// Decides what is made, and refuses what could not be.
    ///
    /// # Errors
    /// Files that cannot be written, a model whose heads are not known.
    pub(super) fn decide(
        args: &Args,
        named: &Named<'_>,
        folder: &Folder,
        notices: &mut Vec<Notice>,
    ) -> Result<Self> {
        let flags = &args.after;
        let scale = limits::real("score-scale", flags.score_scale.unwrap_or(SCALE), 0.001, 100.0)?;
        let files = Files::decide(flags, named)?;
        let mut wants = Wants { lines: flags.wants_lines(), score: flags.score };
        if wants.anything() {
            if args.sampling.conditioning.is_some() {
                let message = "where the lyrics stand in a conditioning from files is not known";
                let hint = "leave --lrc, --output-lrc, --output-vtt and --score out";
                return Err(Refusal::usage(message).hint(hint).into());
            }
            match gaze::heads(&folder.configs().dit) {
                Err(unknown) if wants.lines => return Err(unknown.into()),
                Err(_) => {
                    let text = "which heads of this model follow the lyrics is not known: its \
                                words are not scored";
                    notices.push(Notice(text.into()));
                    wants.score = false;
                }
                Ok(_) => (),
            }
        }
        Ok(Self { wants, judges: flags.score, scale, files, language: None })
    }

    /// Finds who judges `request`'s own codes.
    ///
    /// # Errors
    /// If there is a language model that cannot be read.
    pub(super) fn find_judge(
        &mut self,
        request: &Request,
        model: &str,
        layout: &Layout,
        engine: Engine,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        if !self.judges || !request.has_codes() {
            return Ok(());
        }
        match language::open(request.lm_model.as_deref(), model, layout, engine) {
            Ok(folder) => self.language = Some(folder),
            Err(error) => match error.downcast_ref() {
                Some(acestep_import::Error::Absent { .. }) => {
                    let text = "there is no language model: how well the audio codes fit is not \
                                scored";
                    notices.push(Notice(text.into()));
                }
                _ => return Err(error),
            },
        }
        Ok(())
    }
}

/// What was found of the songs, a value each; empty where nothing was wanted.
#[derive(Debug, Default)]
pub(super) struct Found {
    aligned: Vec<Aligned>,
    judged: Vec<LanguageScore>,
    /// Why nothing was judged.
    unjudged: Option<String>,
}

impl Found {
    /// Takes what was found.
    ///
    /// # Errors
    /// What went wrong.
    pub(super) fn of(aligned: Result<Vec<Aligned>, Error>) -> Result<Self> {
        Ok(Self { aligned: aligned?, judged: vec![], unjudged: None })
    }

    /// Takes what the language model says; a song that is too long for it stops nothing.
    ///
    /// # Errors
    /// What else went wrong.
    pub(super) fn take_judged(&mut self, judged: Result<Vec<LanguageScore>>) -> Result<()> {
        match judged {
            Ok(judged) => self.judged = judged,
            Err(error) => match error.downcast_ref() {
                Some(Error::PromptTooLong { .. }) => self.unjudged = Some(error.to_string()),
                _ => return Err(error),
            },
        }
        Ok(())
    }

    /// As an object of each song, which has the keys of what was wanted.
    pub(super) fn to_json(&self, job: &Job, index: usize) -> Map<String, Value> {
        let after = &job.after;
        let mut object = Map::new();
        let aligned = self.aligned.get(index);
        if let Some(aligned) = aligned.filter(|_| after.wants.lines) {
            let line = |line: &acestep_runtime::align::Line| json!({"start": line.start, "end": line.end, "text": line.text});
            object.insert("lines".into(), aligned.lines.iter().map(line).collect());
        }
        if after.judges {
            let judged = self.judged.get(index);
            let words = aligned.and_then(|aligned| aligned.score);
            object.insert("scores".into(), table::to_json(judged, words));
        }
        for (key, path) in after.files.of_song(index) {
            let there = key == "plot" || aligned.is_some_and(|aligned| !aligned.lines.is_empty());
            if there {
                object.insert(key.into(), path.display().to_string().into());
            }
        }
        object
    }
}

impl Job {
    /// Lets the language model judge the codes of the songs, if that is wanted and there are both.
    ///
    /// # Errors
    /// Those of [`judge::judge`].
    pub(super) fn judge(&self, args: &Args, observe: &dyn Observe) -> Result<Vec<LanguageScore>> {
        let Self { after, plan, composition, .. } = self;
        let folder = composition.as_ref().map(|of| &of.folder).or(after.language.as_ref());
        let (true, true, Some(folder)) = (after.judges, !plan.codes.is_empty(), folder) else {
            return Ok(vec![]);
        };
        let settings = match composition {
            Some(composition) => composition.settings.clone(),
            None => {
                let settings = Settings::resolve(&self.asked.request, &plan.seeds, &mut vec![])?;
                args.language.drawing.bound(settings)?
            }
        };
        let metadata = judged_metadata(self.metadata.as_ref(), &self.asked.request, plan);
        let lyrics = if gaze::has_words(&plan.lyrics) { &plan.lyrics } else { "" };
        let codes = &plan.codes;
        let subject = Subject { codes, metadata: &metadata, lyrics, scale: after.scale };
        let judging = Judging { subject, settings: &settings, folder, observe };
        let mut scores = self.engine.run(judging)??;
        // One outline may be that of all songs.
        if let [one] = &scores[..] {
            scores = vec![one.clone(); plan.batch_size()];
        }
        Ok(scores)
    }

    /// Writes what was made of the songs; gives the files.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write_after(
        &self,
        songs: &[Song],
        written: &[Written],
        found: &Found,
        existing: Existing,
    ) -> Result<Vec<PathBuf>, Error> {
        let mut paths = Vec::new();
        for (index, song) in songs.iter().enumerate() {
            let lines = found.aligned.get(index).map_or(&[][..], |aligned| &aligned.lines);
            for (kind, path) in self.after.files.of_song(index) {
                let bytes = match kind {
                    "plot" => {
                        let title = written[index].target.title();
                        let subject = plot::Subject { audio: &song.audio, title: &title, lines };
                        plot::draw(&subject).to_png()?
                    }
                    _ if lines.is_empty() => continue,
                    "lrc" => (lrc::lrc(lines) + "\n").into_bytes(),
                    _ => lrc::vtt(lines, song.audio.seconds()).into_bytes(),
                };
                let fill = |file: &mut std::io::BufWriter<&mut std::fs::File>| {
                    file.write_all(&bytes).map_err(|source| Error::File {
                        action: Action::Write,
                        path: path.clone(),
                        source,
                    })
                };
                interrupt::whole(|| write_whole(path, existing, fill))?;
                paths.push(path.clone());
            }
        }
        Ok(paths)
    }

    /// Says what was wanted and cannot be.
    pub(super) fn missing_after(&self, found: &Found) -> Vec<Notice> {
        let after = &self.after;
        let mut notices = Vec::new();
        let has_lines = found.aligned.iter().any(|aligned| !aligned.lines.is_empty());
        if after.wants.lines && !has_lines {
            notices.push(Notice("the song has no words: no times of lines are written".into()));
        }
        if after.judges && self.plan.codes.is_empty() {
            let text = "the song has no audio codes: the language model has nothing to score";
            notices.push(Notice(text.into()));
        }
        if let Some(why) = &found.unjudged {
            notices.push(Notice(format!("the language model scores nothing: {why}")));
        }
        notices
    }
}

/// What a song should be like: what the language model decided, and what the user did.
fn judged_metadata(decided: Option<&Metadata>, request: &Request, plan: &Plan) -> Metadata {
    let decided = decided.cloned().unwrap_or_default();
    let word = |word: &Option<String>| word.clone().filter(|word| !word.trim().is_empty());
    let caption = Some(plan.caption.clone()).filter(|caption| !caption.trim().is_empty());
    let duration = request.duration.map(|seconds| Scalar::Whole(seconds as i64));
    Metadata {
        bpm: decided.bpm.or(request.bpm.map(Scalar::Whole)),
        caption: decided.caption.or(caption),
        duration: decided.duration.or(duration),
        keyscale: decided.keyscale.or(word(&request.keyscale)),
        language: decided.language.or(word(&request.vocal_language)),
        timesignature: decided.timesignature.or(word(&request.timesignature)),
        genres: decided.genres,
    }
}

struct Judging<'a> {
    subject: Subject<'a>,
    settings: &'a Settings,
    folder: &'a LanguageFolder,
    observe: &'a dyn Observe,
}

impl acestep_runtime::Job for Judging<'_> {
    type Output = Result<Vec<LanguageScore>, Error>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { subject, settings, folder, observe } = self;
        judge::judge::<B, _>(&subject, settings, folder, &place, observe)
    }
}
