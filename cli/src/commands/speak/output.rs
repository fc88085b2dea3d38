//! The outputs of a run: files, standard output, speakers.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use acestep_engine::{
    Error, Notice,
    audio::{
        encoding::EncodingOptions,
        format::{Encoding, Format},
        write,
    },
    files::Existing,
};
use acestep_speech::{SAMPLE_RATE, Spoken};
use anyhow::Result;

use super::{Sink, result, stream::Stream};
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
        let output = args.output.output.as_deref().unwrap_or(Path::new("speech.wav"));
        let place = match is_stdout(output) {
            true => Self::stdout(args, texts)?,
            false => {
                let encoding = encoding(output, args.output.audio_format.as_deref())?;
                let paths = target::numbered(output, texts);
                let reference = args.voice.reference.as_deref();
                let inputs: Vec<&Path> = reference.into_iter().collect();
                paths.iter().try_for_each(|path| target::check(path, &inputs, existing))?;
                Place::Files(paths, encoding)
            }
        };
        Ok(Self { place, existing, json, play })
    }

    fn stdout(args: &Speak, texts: usize) -> Result<Place, CliError> {
        if args.output.files.json {
            let message = "the sound and the JSON object are both to go to standard output";
            return Err(CliError::usage(message).hint("give --output a file"));
        }
        if texts > 1 {
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
    done: Vec<Option<Spoken>>,
}

impl<'a> Output<'a> {
    /// Opens the stream and the speakers.
    pub(super) fn begin(outputs: &'a Outputs, report: &'a Report) -> Result<Self> {
        let stream = match outputs.place {
            Place::Files(..) => None,
            Place::Stdout { is_raw } => Some(Stream::begin(is_raw)?),
        };
        let speaker = if outputs.play { Some(Speaker::open()?) } else { None };
        let texts = match &outputs.place {
            Place::Files(paths, _) => paths.len(),
            Place::Stdout { .. } => 1,
        };
        Ok(Self { outputs, report, stream, speaker, done: vec![None; texts] })
    }

    /// Returns the error of standard output, which ended the run.
    pub(super) fn failed(&mut self) -> Result<()> {
        let failed = self.stream.as_mut().and_then(|stream| stream.failed.take());
        failed.map_or(Ok(()), |failed| Err(failed.into()))
    }

    /// Says which part of a run that was ended is written.
    pub(super) fn note_finished(&self) {
        let finished = self.done.iter().flatten().count();
        if finished > 0 {
            let all = self.done.len();
            self.report.note(&format!("{finished} of {all} lines are written"));
        }
    }

    /// Waits until everything is played.
    pub(super) fn wait(&self) {
        if let Some(speaker) = &self.speaker {
            speaker.wait();
        }
    }

    /// Prints the paths or the JSON object, and the figures.
    ///
    /// # Errors
    /// A text without sound.
    pub(super) fn finish(
        self,
        first_seed: u64,
        elapsed: Duration,
        notices: Vec<Notice>,
    ) -> Result<ExitCode> {
        let Self { outputs, report, done, .. } = self;
        let paths: Vec<Option<&Path>> = match &outputs.place {
            Place::Files(paths, _) => paths.iter().map(|path| Some(&**path)).collect(),
            Place::Stdout { .. } => vec![None],
        };
        let spoken: Vec<&Spoken> = done.iter().flatten().collect();
        let of_runs: Vec<Notice> = spoken.iter().flat_map(|spoken| spoken.notices()).collect();
        report.notes(&of_runs);
        let silent = |spoken: &&&Spoken| spoken.audio.samples() == 0;
        let silent = spoken.iter().filter(silent).count();
        if outputs.json {
            let notices = [notices, of_runs].concat();
            let seeds = (0u64..).map(|index| first_seed.wrapping_add(index));
            let all = spoken.iter().zip(&paths).zip(seeds);
            let all = all.map(|((spoken, path), seed)| result::object(spoken, *path, seed));
            report.output(&format!("{:#}", result::together(all.collect(), &notices)))?;
        } else if silent < spoken.len() {
            let sounding =
                spoken.iter().zip(&paths).filter(|(spoken, _)| spoken.audio.samples() > 0);
            for path in sounding.filter_map(|(_, path)| *path) {
                report::path(path)?;
            }
        }
        if silent > 0 {
            let message = match spoken.len() {
                1 => {
                    "the talker ended before the first frame: there is nothing to write".to_owned()
                }
                all => {
                    format!("the talker ended before the first frame in {silent} of {all} lines")
                }
            };
            return Err(CliError::new(message).hint("try another --seed or text").into());
        }
        report.line(&result::line(&spoken, elapsed, first_seed));
        Ok(ExitCode::SUCCESS)
    }
}

impl Sink for Output<'_> {
    fn samples(&mut self, samples: &[f32]) -> Result<(), Error> {
        if let Some(speaker) = &self.speaker {
            speaker.play(samples, SAMPLE_RATE);
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
        self.done[index] = Some(spoken);
        Ok(())
    }
}
