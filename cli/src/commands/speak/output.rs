//! The outputs of a run: files, standard output, speakers.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use acestep_engine::{
    Error, Notice,
    audio::{
        encoding::EncodingOptions,
        format::{Encoding, Format},
        write,
    },
    files::{Existing, write_whole},
};
use acestep_session::speech::{Sink, of_line};
use acestep_speech::{Spoken, TimesFormat};
use anyhow::Result;

use super::{
    result::{self, Done},
    stream::Stream,
};
use crate::{
    args::speak::Speak,
    commands::{formats::is_stdout, play::Speaker, target},
    error::CliError,
    interrupt,
    report::{self, Report},
};

/// The places and the format of the sounds.
pub(super) struct Outputs {
    place: Place,
    existing: Existing,
    json: bool,
    play: bool,
    lines: bool,
    timestamps: Option<(PathBuf, TimesFormat)>,
}

enum Place {
    /// One file for each text.
    Files(Vec<PathBuf>, Encoding),
    /// Standard output; true for samples without a header.
    Stdout { is_raw: bool },
}

impl Outputs {
    /// Checks the outputs of `texts` texts before any work.
    ///
    /// # Errors
    /// A format that is not written or contradicts the name; a file that cannot be written; standard
    /// output for several sounds, or for JSON too; speakers in a build without them.
    pub(super) fn of(args: &Speak, texts: usize) -> Result<Self> {
        let (existing, json) = (args.output.files.existing(), args.output.files.json);
        let play = args.output.play;
        if play {
            Speaker::check()?;
        }
        let inputs = args.inputs();
        let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
        let output = args.output.output.as_deref().unwrap_or(Path::new("speech.wav"));
        let place = match is_stdout(output) {
            true => Self::stdout(args, texts)?,
            false => {
                let encoding = encoding(output, args.output.audio_format.as_deref())?;
                // With --lines, one line has a number too.
                let mut paths = match args.lines {
                    true => target::numbered(output, texts.max(2)),
                    false => vec![output.to_owned()],
                };
                paths.truncate(texts);
                paths.iter().try_for_each(|path| target::check(path, &inputs, existing))?;
                Place::Files(paths, encoding)
            }
        };
        let timestamps = args.output.timestamps.as_deref().map(times_format).transpose()?;
        if let Some((path, _)) = &timestamps {
            target::check(path, &inputs, existing)?;
        }
        Ok(Self { place, existing, json, play, lines: args.lines, timestamps })
    }

    fn stdout(args: &Speak, texts: usize) -> Result<Place, CliError> {
        if args.output.files.json {
            let message = "the sound and the JSON object are both to go to standard output";
            return Err(CliError::usage(message).hint("give --output a file"));
        }
        if args.lines && texts > 1 {
            let message = "the sounds of several lines cannot all go to standard output";
            return Err(CliError::usage(message).hint("give --output a file"));
        }
        match args.output.audio_format.as_deref() {
            None | Some("wav") => Ok(Place::Stdout { is_raw: false }),
            Some("pcm") => Ok(Place::Stdout { is_raw: true }),
            Some(other) => {
                let message = format!("`--audio-format {other}` cannot go to standard output");
                Err(CliError::usage(message).hint("use wav or pcm there, or a file"))
            }
        }
    }
}

/// Returns the form of a file with the times of words, by its name.
fn times_format(path: &Path) -> Result<(PathBuf, TimesFormat), CliError> {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_lowercase);
    let format = match ending.as_deref() {
        Some("json") => TimesFormat::Json,
        Some("srt") => TimesFormat::Srt,
        Some("vtt") => TimesFormat::Vtt,
        _ => {
            let message = format!("`{}` has no ending of a file of times", path.display());
            return Err(CliError::usage(message).hint("name it .json, .srt or .vtt"));
        }
    };
    Ok((path.to_owned(), format))
}

/// Returns the encoding of the file `output`: typed, or by its name.
fn encoding(output: &Path, typed: Option<&str>) -> Result<Encoding> {
    let typed: Option<Format> = typed.map(str::parse).transpose()?;
    let path = output.display();
    let format = match (typed, Format::of(output)) {
        (Some(typed), Some(named)) if typed.extension() != named.extension() => {
            let message = format!("`--audio-format {typed}` contradicts the name `{path}`");
            let hint = format!("name it .{}, or leave --audio-format out", typed.extension());
            return Err(CliError::usage(message).hint(hint).into());
        }
        (Some(format), _) | (None, Some(format)) => format,
        (None, None) => {
            let message = format!("`{path}` has no ending of a sound format that is written");
            return Err(CliError::usage(message).hint("name it .wav or .flac").into());
        }
    };
    Ok(Encoding::resolve(EncodingOptions::default(), format, &mut Vec::new())?)
}

/// The outputs while sounds are made.
pub(super) struct Output<'a> {
    outputs: &'a Outputs,
    report: &'a Report,
    stream: Option<Stream>,
    speaker: Option<Speaker>,
    done: Vec<Option<Done>>,
    begin: Instant,
    first_sound: Option<Duration>,
    sample_rate: u32,
}

impl<'a> Output<'a> {
    /// Opens the stream and the speakers, for sound of `sample_rate` samples per second. The figures count
    /// from `begin`.
    pub(super) fn begin(
        outputs: &'a Outputs,
        sample_rate: u32,
        begin: Instant,
        report: &'a Report,
    ) -> Result<Self> {
        let stream = match outputs.place {
            Place::Files(..) => None,
            Place::Stdout { is_raw } => Some(Stream::begin(is_raw, sample_rate)?),
        };
        let speaker = if outputs.play { Some(Speaker::open()?) } else { None };
        let texts = match &outputs.place {
            Place::Files(paths, _) => paths.len(),
            Place::Stdout { .. } => 1,
        };
        let done = (0..texts).map(|_| None).collect();
        let first_sound = None;
        Ok(Self { outputs, report, stream, speaker, done, begin, first_sound, sample_rate })
    }

    /// Returns the error of standard output, which ended the run.
    pub(super) fn failed(&mut self) -> Result<()> {
        let failed = self.stream.as_mut().and_then(|stream| stream.failed.take());
        failed.map_or(Ok(()), |failed| Err(failed.into()))
    }

    /// Prints the paths of a run that an error ended: these files are written.
    pub(super) fn note_finished(&self) {
        let written = self.written();
        if !written.is_empty() {
            let (written, all) = (written.len(), self.done.len());
            self.report.note(&format!("{written} of {all} lines are written"));
        }
        if !self.outputs.json {
            // The error that ended the run is the one to report.
            let _ = written.into_iter().try_for_each(report::path);
        }
    }

    /// Returns the paths that are written.
    fn written(&self) -> Vec<&Path> {
        let Place::Files(paths, _) = &self.outputs.place else { return Vec::new() };
        let done = self.done.iter().zip(paths);
        let is_written = |done: &Option<Done>| done.as_ref().is_some_and(|done| !done.is_silent());
        done.filter(|(done, _)| is_written(done)).map(|(_, path)| &**path).collect()
    }

    /// Prints the paths or the JSON object, and the figures; then waits until everything is played.
    ///
    /// # Errors
    /// A text without sound.
    pub(super) fn finish(self, first_seed: u64, mut notices: Vec<Notice>) -> Result<ExitCode> {
        let elapsed = self.begin.elapsed();
        let lines = self.outputs.lines;
        let done: Vec<&Done> = self.done.iter().flatten().collect();
        let of_runs = |(index, done): (usize, &&Done)| {
            let of = move |notice: &Notice| of_line(notice, index, lines);
            done.notices.iter().map(of).collect::<Vec<_>>()
        };
        let of_runs: Vec<Notice> = done.iter().enumerate().flat_map(of_runs).collect();
        self.report.notes(&of_runs);
        notices.extend(of_runs);
        let silent = done.iter().filter(|done| done.is_silent()).count();
        if self.outputs.json {
            let path = |index: usize| match &self.outputs.place {
                Place::Files(paths, _) => Some(&*paths[index]),
                Place::Stdout { .. } => None,
            };
            let seed = |index: usize| first_seed.wrapping_add(index as u64);
            let object = |(index, done): (usize, &&Done)| done.object(path(index), seed(index));
            let objects = done.iter().enumerate().map(object).collect();
            let object = result::together(objects, lines, &notices);
            self.report.output(&format!("{object:#}"))?;
        } else {
            self.written().into_iter().try_for_each(report::path)?;
        }
        if silent > 0 {
            let message = match lines {
                false => {
                    "the model ended before the first frame: there is nothing to write".to_owned()
                }
                true => {
                    let all = done.len();
                    format!("the model ended before the first frame in {silent} of {all} lines")
                }
            };
            return Err(CliError::new(message).hint("try another --seed or text").into());
        }
        let first_sound = self.first_sound.unwrap_or_default();
        self.report.line(&result::line(&done, elapsed, first_sound, first_seed));
        if let Some(speaker) = &self.speaker {
            speaker.wait();
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Sink for Output<'_> {
    fn samples(&mut self, samples: &[f32]) -> Result<(), Error> {
        self.first_sound.get_or_insert_with(|| self.begin.elapsed());
        if let Some(speaker) = &self.speaker {
            speaker.play(samples, self.sample_rate);
        }
        self.stream.as_mut().map_or(Ok(()), |stream| stream.write(samples))
    }

    fn done(&mut self, index: usize, spoken: Spoken) -> Result<(), Error> {
        if let Place::Files(paths, encoding) = &self.outputs.place
            && spoken.audio.samples() > 0
        {
            let (path, existing) = (&paths[index], self.outputs.existing);
            interrupt::whole(|| write::save(path, &spoken.audio, encoding, None, existing))?;
        }
        if let Some((path, format)) = &self.outputs.timestamps {
            let text = format.text(&spoken.words);
            let fill = |file: &mut dyn Write| file.write_all(text.as_bytes());
            interrupt::whole(|| write_whole(path, self.outputs.existing, |file| fill(file)))?;
        }
        self.done[index] = Some(Done::of(spoken, self.outputs.json));
        Ok(())
    }
}
