//! Extra outputs for finished songs: times of lines, scores, pictures.
//!
//! They are decided and checked before the first network is loaded. If one fails after the songs
//! were made, the songs are written anyway, and then the failure is reported.

mod files;
mod table;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use acestep_engine::{Engine, Error, Notice, check, on_engine};
use acestep_import::{AceStep, LanguageModelDir, Layout};
use acestep_model::{Backend, Place};
use acestep_music::{
    Plan, Song,
    align::{Aligned, Extras, Line, attention_maps, lrc},
    lm::{
        Held,
        judge::{self, Subject},
        pmi::{LanguageScore, SCALE},
        settings::Settings,
    },
    plot,
};
use anyhow::Result;
use serde_json::{Map, Value, json};

use super::{Args, Resolved, request::ResolvedRequest, resolved::Setup, written::Written};
use crate::{
    commands::{language, target::Target, text::write_bytes},
    error::CliError,
    progress::Of,
};
pub(super) use files::{Files, Named};
pub(super) use table::{ranking, table};

/// The wanted extra outputs, and their files.
pub(super) struct After {
    pub(super) wants: Extras,
    /// True if the language model scores the songs, if there is one.
    pub(super) judges: bool,
    scale: f64,
    files: Files,
}

impl After {
    /// Returns every file.
    pub(super) fn all(&self) -> impl Iterator<Item = &Path> {
        self.files.all()
    }

    /// Decides the extra outputs, and refuses impossible ones.
    pub(super) fn decide(
        args: &Args,
        named: &Named<'_>,
        folder: &AceStep,
        notices: &mut Vec<Notice>,
    ) -> Result<Self> {
        let flags = &args.after;
        let scale = check::real("score_scale", flags.score_scale.unwrap_or(SCALE), 0.001, 100.0)?;
        let files = Files::decide(flags, named)?;
        let mut wants = Extras { lines: flags.wants_lines(), score: flags.score };
        if wants.anything() {
            if args.sampling.conditioning.is_some() {
                let message = "where the lyrics stand in a conditioning from files is not known";
                let hint = "leave --lrc, --output-lrc, --output-vtt and --score out";
                return Err(CliError::usage(message).hint(hint).into());
            }
            match attention_maps::heads(&folder.configs().dit) {
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
        Ok(Self { wants, judges: flags.score, scale, files })
    }
}

/// Opens the language model that scores the codes of the request, if there are codes.
pub(super) fn judge(
    args: &Args,
    asked: &mut ResolvedRequest,
    plan: &Plan,
    model: &str,
    layout: &Layout,
    engine: Engine,
) -> Result<Option<(LanguageModelDir, Settings)>> {
    let ResolvedRequest { request, notices, .. } = asked;
    if !request.source.has_codes() {
        return Ok(None);
    }
    match language::open(request.language.lm_model.as_deref(), model, layout, engine) {
        Ok(folder) => {
            let settings = request.language.plan(&request.words, &plan.noise.seeds, &mut vec![])?;
            Ok(Some((folder, args.language.drawing.bound(settings)?)))
        }
        Err(error) => match error.downcast_ref() {
            Some(acestep_import::Error::Absent { .. }) => {
                let text = "there is no language model: how well the audio codes fit is not scored";
                notices.push(Notice(text.into()));
                Ok(None)
            }
            _ => Err(error),
        },
    }
}

/// Results for the songs, one per song; empty if nothing was wanted.
#[derive(Debug, Default)]
pub(super) struct Found {
    aligned: Vec<Aligned>,
    judged: Vec<LanguageScore>,
    /// Reason why the language model scored nothing.
    unjudged: Option<String>,
}

impl Found {
    /// Creates the results from the alignment.
    pub(super) fn of(aligned: Result<Vec<Aligned>, Error>) -> Result<Self> {
        Ok(Self { aligned: aligned?, judged: vec![], unjudged: None })
    }

    /// Adds the language model's scores; a song that is too long for it is no error.
    pub(super) fn take_judged(
        &mut self,
        judged: Result<Vec<LanguageScore>, Error>,
    ) -> Result<(), Error> {
        match judged {
            Ok(judged) => self.judged = judged,
            Err(error @ Error::PromptTooLong { .. }) => self.unjudged = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns the results of one song as a JSON object; it has the wanted keys, and the song's own
    /// files out of `files`.
    pub(super) fn to_json(
        &self,
        after: &After,
        index: usize,
        files: &[PathBuf],
    ) -> Map<String, Value> {
        let mut object = Map::new();
        let aligned = self.aligned.get(index);
        if let Some(aligned) = aligned.filter(|_| after.wants.lines) {
            let line =
                |line: &Line| json!({"start": line.start, "end": line.end, "text": line.text});
            object.insert("lines".into(), aligned.lines.iter().map(line).collect());
        }
        if after.judges {
            let judged = self.judged.get(index);
            let words = aligned.and_then(|aligned| aligned.score);
            object.insert("scores".into(), table::to_json(judged, words));
        }
        for (key, path) in after.files.of_song(index) {
            if files.contains(path) {
                object.insert(key.into(), path.display().to_string().into());
            }
        }
        object
    }
}

impl Resolved {
    /// Returns the language model that scores the songs and its settings, if scores are wanted and
    /// there are codes.
    pub(super) fn judge(&self) -> Option<(&LanguageModelDir, &Settings)> {
        let Setup { after, composition, judge, .. } = &*self.setup;
        if !after.judges || self.plan.source.codes.is_empty() {
            return None;
        }
        let own = composition.as_ref().map(|own| (&own.folder, &own.settings));
        own.or(judge.as_ref().map(|(folder, settings)| (folder, settings)))
    }

    /// Scores the songs with the language model in `held`.
    fn scores<B: Backend>(
        &self,
        held: &Held<'_, B>,
        place: &Place<B>,
        of: &Of<'_>,
    ) -> Result<Vec<LanguageScore>, Error> {
        let Some((_, settings)) = self.judge() else { return Ok(vec![]) };
        let Self { plan, request, decided, setup, .. } = self;
        let decided = decided.as_ref().map(|(metadata, _)| metadata);
        let subject = Subject::of(plan, request, decided, setup.after.scale);
        let mut scores = judge::judge::<B>(&subject, settings, held, place, of)?;
        // All songs may share one list of codes.
        if let [one] = &scores[..] {
            scores = vec![one.clone(); self.plan.batch_size()];
        }
        Ok(scores)
    }

    /// Writes the extra files of the songs, and adds each to `written`.
    pub(super) fn write_after(&self, songs: &[Song], written: &mut Written) -> Result<()> {
        for (index, song) in songs.iter().enumerate() {
            let lines = written.found.aligned.get(index).map_or(&[][..], |aligned| &aligned.lines);
            for (kind, path) in self.setup.after.files.of_song(index) {
                let bytes = match kind {
                    "plot" => {
                        let title = title(&written.songs[index].target);
                        let subject = plot::Subject { audio: &song.audio, title: &title, lines };
                        plot::draw(&subject).to_png()?
                    }
                    _ if lines.is_empty() => continue,
                    "lrc" => (lrc::lrc(lines) + "\n").into_bytes(),
                    _ => lrc::vtt(lines, song.audio.seconds()).into_bytes(),
                };
                write_bytes(path, &bytes, self.setup.existing)?;
                written.files.push(path.clone());
            }
        }
        Ok(())
    }

    /// Returns notices about wanted outputs that are impossible.
    pub(super) fn missing_after(&self, found: &Found) -> Vec<Notice> {
        let after = &self.setup.after;
        let mut notices = Vec::new();
        // The list is empty if the alignment was not reached or failed.
        let no_lines = found.aligned.iter().all(|aligned| aligned.lines.is_empty());
        if after.wants.lines && no_lines && !found.aligned.is_empty() {
            notices.push(Notice("the song has no words: no times of lines are written".into()));
        }
        if after.judges && self.plan.source.codes.is_empty() {
            let text = "the song has no audio codes: the language model has nothing to score";
            notices.push(Notice(text.into()));
        }
        if let Some(why) = &found.unjudged {
            notices.push(Notice(format!("the language model scores nothing: {why}")));
        }
        notices
    }
}

/// Returns the title for a picture of a song.
fn title(song: &Target) -> String {
    let path = song.file().unwrap_or(Path::new("song"));
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into())
}

/// Result of scoring, and the time from the start of the run.
type Scored = (Result<Vec<LanguageScore>, Error>, Duration);

/// Scores the songs of many requests with the language model of the first, which is loaded once. A
/// failure does not stop the others. `start` is the start of the run.
pub(super) fn judge_all(
    songs: &[(&Resolved, Of<'_>)],
    start: Instant,
) -> Result<Vec<Scored>, Error> {
    let first = songs.first().map(|(first, _)| *first);
    let Some((first, (folder, _))) = first.and_then(|first| Some((first, first.judge()?))) else {
        return Ok(vec![]);
    };
    on_engine!(first.setup.engine,
    for<'a>(songs: &'a [(&'a Resolved, Of<'a>)], folder: &'a LanguageModelDir, start: Instant)
        -> Vec<Scored>,
    |place: B| {
        let held = Held::<B>::new(folder);
        let scored = |(song, of): &(&Resolved, Of<'_>)| {
            (song.scores(&held, &place, of), start.elapsed())
        };
        songs.iter().map(scored).collect()
    })
}
