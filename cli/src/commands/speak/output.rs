//! The outputs of a run: files, standard output, speakers.

use std::{
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use acestep_engine::{
    Error, Notice,
    audio::{encoding::EncodingOptions, format::Encoding, stream, write::SoundWriter},
    files::{Existing, write_whole},
};
use acestep_session::{
    outputs::{self, speech_format, times_format},
    speech::{Sink, gathered, of_line},
};
use acestep_speech::{Spoken, TimesFormat};
use anyhow::Result;

use super::result::{self, Done};
use crate::{
    args::speak::Speak,
    commands::{
        play::Speaker,
        target::{check_distinct, is_stdout},
    },
    error::CliError,
    interrupt,
    report::{self, Report},
};

/// The places and the format of the sounds.
pub(super) struct Outputs {
    target: Destination,
    existing: Existing,
    json: bool,
    play: bool,
    lines: bool,
    timestamps: Option<(PathBuf, TimesFormat)>,
}

enum Destination {
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
        let check = |path: &Path| outputs::check(path, inputs.iter().map(|of| &**of), existing);
        let output = args.output.output.as_deref().unwrap_or(Path::new("speech.wav"));
        let target = match is_stdout(output) {
            true => Self::stdout(args, texts)?,
            false => {
                let format = speech_format(args.output.audio_format.as_deref(), output)?;
                let usual = EncodingOptions::default();
                let encoding = Encoding::resolve(usual, format, &mut Vec::new())?;
                // With --lines, one line has a number too.
                let mut paths = match args.lines {
                    true => outputs::numbered(output, texts.max(2)),
                    false => vec![output.to_owned()],
                };
                paths.truncate(texts);
                paths.iter().try_for_each(|path| check(path))?;
                Destination::Files(paths, encoding)
            }
        };
        let timestamps = match &args.output.timestamps {
            Some(path) => {
                let format = times_format(path)?;
                check(path)?;
                Some((path.clone(), format))
            }
            None => None,
        };
        if let (Destination::Files(paths, _), Some((times, _))) = (&target, &timestamps) {
            let all = paths.iter().chain([times]).map(PathBuf::as_path);
            check_distinct(all, "give each file a name of its own")?;
        }
        Ok(Self { target, existing, json, play, lines: args.lines, timestamps })
    }

    fn stdout(args: &Speak, texts: usize) -> Result<Destination, CliError> {
        if args.output.files.json {
            let message = "the sound and the JSON object are both to go to standard output";
            return Err(CliError::usage(message).hint("give --output a file"));
        }
        if args.lines && texts > 1 {
            let message = "the sounds of several lines cannot all go to standard output";
            return Err(CliError::usage(message).hint("give --output a file"));
        }
        match args.output.audio_format.as_deref() {
            None | Some("wav") => Ok(Destination::Stdout { is_raw: false }),
            Some("pcm") => Ok(Destination::Stdout { is_raw: true }),
            Some(other) => {
                let message = format!("`--audio-format {other}` cannot go to standard output");
                Err(CliError::usage(message).hint("use wav or pcm there, or a file"))
            }
        }
    }
}

/// The outputs while sounds are made.
pub(super) struct Output<'a> {
    outputs: &'a Outputs,
    report: &'a Report,
    /// The error of standard output, which ended the run.
    failed: Option<report::Stdout>,
    speaker: Option<Speaker>,
    /// The file of each text whose sound has begun.
    files: Vec<Option<SoundWriter>>,
    /// Samples of each text so far.
    samples: Vec<usize>,
    done: Vec<Option<Done>>,
    begin: Instant,
    first_sound: Option<Duration>,
    sample_rate: u32,
}

impl<'a> Output<'a> {
    /// Begins standard output and opens the speakers, for sound of `sample_rate` samples per second. The
    /// figures count from `begin`.
    pub(super) fn begin(
        outputs: &'a Outputs,
        sample_rate: u32,
        begin: Instant,
        report: &'a Report,
    ) -> Result<Self> {
        let texts = match &outputs.target {
            Destination::Files(paths, _) => paths.len(),
            Destination::Stdout { is_raw: true } => 1,
            Destination::Stdout { is_raw: false } => {
                report::bytes(&stream::header(sample_rate, 1))?;
                1
            }
        };
        let speaker = if outputs.play { Some(Speaker::open()?) } else { None };
        Ok(Self {
            outputs,
            report,
            failed: None,
            speaker,
            files: (0..texts).map(|_| None).collect(),
            samples: vec![0; texts],
            done: (0..texts).map(|_| None).collect(),
            begin,
            first_sound: None,
            sample_rate,
        })
    }

    /// Returns the error of standard output, which ended the run.
    pub(super) fn failed(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), |failed| Err(failed.into()))
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
        let Destination::Files(paths, _) = &self.outputs.target else { return Vec::new() };
        let done = self.done.iter().zip(paths);
        let is_written = |done: &Option<Done>| done.as_ref().is_some_and(|done| !done.is_silent());
        done.filter(|(done, _)| is_written(done)).map(|(_, path)| &**path).collect()
    }

    /// Prints the paths or the JSON object, and the figures; then waits until everything is played.
    ///
    /// # Errors
    /// A text without sound.
    pub(super) fn finish(self, first_seed: u64, mut notices: Vec<Notice>) -> Result<()> {
        let elapsed = self.begin.elapsed();
        let lines = self.outputs.lines;
        let done: Vec<&Done> = self.done.iter().flatten().collect();
        let of_runs = |(index, done): (usize, &&Done)| {
            let of = move |notice: &Notice| of_line(notice, index, lines);
            done.notices.iter().map(of).collect::<Vec<_>>()
        };
        let of_runs = gathered(done.iter().enumerate().flat_map(of_runs).collect());
        self.report.notes(&of_runs);
        notices.extend(of_runs);
        let silent: Vec<&&Done> = done.iter().filter(|done| done.is_silent()).collect();
        if self.outputs.json {
            let path = |index: usize| match &self.outputs.target {
                Destination::Files(paths, _) => Some(&*paths[index]),
                Destination::Stdout { .. } => None,
            };
            let seed = |index: usize| first_seed.wrapping_add(index as u64);
            let object = |(index, done): (usize, &&Done)| done.object(path(index), seed(index));
            let objects = done.iter().enumerate().map(object).collect();
            let object = result::together(objects, lines, &notices);
            self.report.object(&object)?;
        } else {
            self.written().into_iter().try_for_each(report::path)?;
        }
        if !silent.is_empty() {
            let ended = "the speech ended before the first frame";
            let message = match lines {
                false => format!("{ended}: there is nothing to write"),
                true => format!("{ended} in {} of {} lines", silent.len(), done.len()),
            };
            let hint = match silent.iter().any(|done| done.is_cut()) {
                true => "raise the limit that the note names",
                false => "try another --seed or text",
            };
            return Err(CliError::new(message).hint(hint).into());
        }
        let first_sound = self.first_sound.unwrap_or_default();
        self.report.line(&result::line(&done, elapsed, first_sound, first_seed));
        if let Some(speaker) = &self.speaker {
            speaker.wait();
        }
        Ok(())
    }
}

impl Sink for Output<'_> {
    fn samples(&mut self, index: usize, samples: &[f32]) -> Result<(), Error> {
        self.first_sound.get_or_insert_with(|| self.begin.elapsed());
        self.samples[index] += samples.len();
        if let Destination::Files(paths, encoding) = &self.outputs.target {
            let file = &mut self.files[index];
            if file.is_none() {
                let (path, existing) = (&paths[index], self.outputs.existing);
                *file = Some(interrupt::whole(|| {
                    let begun = SoundWriter::begin(path, self.sample_rate, encoding, existing)?;
                    interrupt::removes(begun.place());
                    Ok::<_, Error>(begun)
                })?);
            }
            if let Some(file) = file {
                file.write(samples)?;
            }
        }
        if let Some(speaker) = &self.speaker {
            speaker.play(samples, self.sample_rate);
        }
        let Destination::Stdout { .. } = &self.outputs.target else { return Ok(()) };
        report::bytes(&stream::integers(samples)).map_err(|failed| {
            self.failed = Some(failed);
            Error::Cancelled
        })
    }

    fn done(&mut self, index: usize, spoken: Spoken) -> Result<(), Error> {
        if let Some(file) = self.files[index].take() {
            interrupt::whole(|| file.finish(&interrupt::STOP))?;
        }
        let done = Done::of(spoken, self.samples[index], self.outputs.json);
        // Times of a speech without sound would replace those of another one.
        let times = self.outputs.timestamps.as_ref().filter(|_| !done.is_silent());
        if let Some((path, format)) = times {
            let text = format.text(&done.words);
            let fill = |file: &mut dyn Write| file.write_all(text.as_bytes());
            interrupt::whole(|| write_whole(path, self.outputs.existing, |file| fill(file)))?;
        }
        self.done[index] = Some(done);
        Ok(())
    }
}
