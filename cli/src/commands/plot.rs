//! `acestep plot`: a picture of any sound file.

use std::{io::IsTerminal, path::PathBuf};

use acestep_engine::audio::read;
use acestep_music::{
    align::lrc,
    plot::{self, Letters, PlotInput},
};
use acestep_session::{outputs, texts::read_text};
use anstream::ColorChoice;
use anyhow::Result;
use supports_unicode::Stream;

use crate::{
    args::{Global, after::Plot, files::existing},
    environment,
    error::CliError,
    interrupt,
    report::{self, Report},
    settings,
};

pub(crate) fn run(args: &Plot, global: &Global) -> Result<()> {
    let report = global.report();
    let existing = existing(args.force);
    let shows_nothing = std::io::stdout().is_terminal() && environment::terminal_is_dumb();
    if args.show && shows_nothing {
        report.note("this terminal (TERM=dumb) shows no pictures: it goes to a file");
    } else if args.show {
        let (audio, notices) = read::read(&args.song, &interrupt::STOP)?;
        report.notes(&notices);
        // Terminal width minus one column, because some terminals break a full line.
        let columns = terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0));
        let letters = letters(&report);
        report.output(
            plot::preview(&audio, columns.saturating_sub(1), letters).trim_end_matches('\n'),
        )?;
        if args.output.is_none() {
            if args.lrc.is_some() || args.title.is_some() {
                report.note("the terminal shows neither lines nor a title: pass --output too");
            }
            return Ok(());
        }
    }
    // The reason is in the song, not in the name of its picture.
    if args.song.is_dir() || !args.song.exists() {
        read::read(&args.song, &interrupt::STOP)?;
    }
    if args.output.is_none() {
        outputs::check_beside(&args.song)?;
    }
    let path = args.output.clone().unwrap_or_else(|| args.song.with_extension("png"));
    outputs::check_picture("output", &path)?;
    let inputs = [&args.song].into_iter().chain(&args.lrc).chain(&settings::loaded().file);
    outputs::check(&path, inputs.map(PathBuf::as_path), existing)?;
    let mut lines = vec![];
    if let Some(file) = &args.lrc {
        lines = lrc::parse(&read_text(file)?);
        if lines.is_empty() {
            let message = format!("`{}` has no line with a time", file.display());
            return Err(CliError::new(message).hint("lines look like [00:12.34]words").into());
        }
    }
    let (audio, notices) = read::read(&args.song, &interrupt::STOP)?;
    report.notes(&notices);
    let name = args.song.file_name().map(|name| name.to_string_lossy().into_owned());
    let title = args.title.clone().or(name).unwrap_or_default();
    let picture = plot::draw(&PlotInput { audio: &audio, title: &title, lines: &lines });
    interrupt::whole(|| picture.save(&path, existing))?;
    Ok(report::path(&path)?)
}

/// Returns the best output of standard output: colours if they are wanted and the terminal supports
/// enough of them, blocks if its character set is Unicode.
fn letters(report: &Report) -> Letters {
    let is_coloured = !report.plain("\x1b[1m").is_empty();
    // With `--color always`, colours are sent even if the terminal cannot be asked.
    let insists = report.color == ColorChoice::Always;
    match (supports_unicode::on(Stream::Stdout), is_coloured) {
        (false, _) => Letters::Ascii,
        (true, true) if anstyle_query::truecolor() => Letters::Colors,
        (true, true) if insists || environment::terminal_has_256_colors() => Letters::Palette,
        (true, _) => Letters::Blocks,
    }
}
