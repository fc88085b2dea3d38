//! The language model's part in a song: what it is asked, and how.

use std::path::Path;

use acestep_import::TINY;
use acestep_runtime::{
    Notice, Plan, Request,
    lm::{
        compose::{Ask, Composed},
        settings::{self, Settings, Thinking},
    },
};
use anyhow::Result;

use super::{
    Args,
    request::{Asked, read_file, utf8},
};

/// What the language model is asked before the song is planned for good.
pub(super) struct Composition {
    ask: Ask,
    /// Whether it writes audio codes too, or words alone.
    writes_codes: bool,
    settings: Settings,
    /// Genres that it may name; `None` = it names none.
    genres: Option<Vec<String>>,
}

impl Composition {
    /// Decides whether the language model takes part, and checks what it is asked; `plan` is the
    /// song as it would be without it, `model` what makes the sound.
    ///
    /// # Errors
    /// Values out of range, songs that could differ in length, a file of genres that cannot be
    /// read.
    pub(super) fn decide(
        args: &Args,
        asked: &mut Asked,
        plan: &Plan,
        model: &str,
    ) -> Result<Option<Self>> {
        let Asked { request, notices, .. } = asked;
        let settings = Settings::resolve(request, &plan.seeds, notices)?;
        let settings = args.language.bound(settings)?;
        let ask = settings::ask(request)?;
        let genres = args.language.genres.as_deref().map(read_genres).transpose()?;
        let thinking = Thinking::of(request, model == TINY);
        if thinking == Thinking::Off {
            notices.extend(without(args, request));
            return Ok(None);
        }
        let writes_codes = thinking == Thinking::Codes;
        if writes_codes {
            settings.check_lengths(request, &ask)?;
        }
        Ok(Some(Self { ask, writes_codes, settings, genres }))
    }

    /// The seam: `request` as the language model completes it.
    ///
    /// `None`: the model is not read yet, and the request is used as it stands.
    ///
    /// # Errors
    /// None yet.
    pub(super) fn run(self, _request: &Request) -> Result<Option<Composed>> {
        let Self { ask, writes_codes, settings, genres } = self;
        let _ = (ask, writes_codes, settings, genres);
        Ok(None)
    }
}

/// What was asked of the language model, and has no effect as it takes no part.
fn without(args: &Args, request: &Request) -> Option<Notice> {
    if args.sampling.conditioning.is_some() {
        return None;
    }
    let remedy = match (request.has_codes(), request.thinking) {
        (true, _) => "the audio codes are there already",
        (false, Some(false)) => "it is not to think",
        (false, _) => "pass --thinking to ask it",
    };
    if args.language.is_typed() {
        let text = format!("the language model takes no part, its flags have no effect: {remedy}");
        return Some(Notice(text));
    }
    let mode = request.lm_mode.as_deref().filter(|&mode| mode != "generate")?;
    (!request.has_codes()).then(|| {
        Notice(format!(
            "`lm_mode` {mode} has no effect without the language model, caption and lyrics are \
             used as they stand: {remedy}"
        ))
    })
}

/// One genre a line; empty lines and `# comments` are none.
fn read_genres(path: &Path) -> Result<Vec<String>> {
    let text = utf8(read_file(path)?, &format!("`{}`", path.display()))?;
    let genre = |line: &&str| !line.is_empty() && !line.starts_with('#');
    Ok(text.lines().map(str::trim).filter(genre).map(str::to_owned).collect())
}
