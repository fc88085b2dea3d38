//! `acestep completions` and `acestep man`: shell completions and manual pages.

mod markdown;

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use acestep_engine::{files::Existing, nearest};
use anyhow::Result;
use clap_mangen::Man as Page;

use super::text::write_bytes;
use crate::{
    args::{
        Global,
        config::{Completions, Man, ManFormat},
    },
    error::CliError,
    report,
};

/// Prints shell completions.
pub(crate) fn completions(args: &Completions, mut command: clap::Command) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "acestep", &mut text);
    Ok(report::bytes(&text)?)
}

/// Prints one page of the manual, or writes all pages.
pub(crate) fn man(args: &Man, global: &Global, mut root: clap::Command) -> Result<()> {
    // Adds full names of subcommands and the global flags.
    root.build();
    if let Some(directory) = &args.output {
        fs::create_dir_all(directory).map_err(|error| {
            let message = format!("cannot make the directory `{}`", directory.display());
            CliError::new(message).because(error).hint("name another with --output")
        })?;
        let count = write_all(&root, "acestep", (directory, args.format))?;
        global.report().line(&format!("{count} pages"));
        return Ok(report::path(directory)?);
    }
    let (mut command, mut title) = (&root, "acestep".to_owned());
    for name in &args.command {
        command = command.find_subcommand(name).ok_or_else(|| {
            let names: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
            let hint = match (nearest(name, names.iter().copied()), names.is_empty()) {
                (Some(near), _) => format!("did you mean `{near}`?"),
                (None, true) => format!("leave it out: `{title}` has no commands below it"),
                (None, false) => format!("it is one of {}", names.join(", ")),
            };
            CliError::usage(format!("there is no command `{name}`")).hint(hint)
        })?;
        title = format!("{title}-{}", command.get_name());
    }
    match args.format {
        ManFormat::Roff => report::bytes(&page(command, &title)?)?,
        ManFormat::Markdown => report::bytes(markdown::page(command, &title).as_bytes())?,
    }
    Ok(())
}

/// Writes the pages of `command` and its subcommands, and returns their number.
fn write_all(command: &clap::Command, title: &str, to: (&Path, ManFormat)) -> Result<usize> {
    let (directory, format) = to;
    let (text, ending) = match format {
        ManFormat::Roff => (String::from_utf8_lossy(&page(command, title)?).into_owned(), "1"),
        ManFormat::Markdown => (markdown::page(command, title), "md"),
    };
    // The pages are generated from the program, so they may be replaced.
    write_bytes(&directory.join(format!("{title}.{ending}")), text.as_bytes(), Existing::Replace)?;
    let mut count = 1;
    for below in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        count += write_all(below, &format!("{title}-{}", below.get_name()), to)?;
    }
    Ok(count)
}

/// Renders a page for man, with a short synopsis: all flags would fill a screen.
fn page(command: &clap::Command, title: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let page = Page::new(command.clone().name(title.to_owned()))
        .title(title.to_uppercase())
        .source(concat!("acestep ", env!("CARGO_PKG_VERSION")));
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    writeln!(text, ".SH SYNOPSIS\n{}", markdown::usage(command).replace('-', "\\-"))?;
    page.render_description_section(&mut text)?;
    if command.get_arguments().next().is_some() {
        page.render_options_section(&mut text)?;
    }
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    if command.get_after_long_help().is_some() {
        page.render_extra_section(&mut text)?;
    }
    Ok(text)
}
