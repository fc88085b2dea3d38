//! Shared code of the commands that use the language model.

use std::{path::Path, sync::Arc};

use acestep_engine::{Engine, Error};
use acestep_import::{LanguageModelDir, Layout};
use acestep_music::lm::constrain::genres::GenreVocabulary;
use acestep_session::language::{self, Choice};
use anyhow::Result;

use super::text::{read_file, utf8};
use crate::settings;

/// Opens the language model: `asked`, else the configured one; see [`language::open`].
pub(crate) fn open(
    asked: Option<&str>,
    model: &str,
    layout: &Layout,
    engine: Engine,
) -> Result<LanguageModelDir, Error> {
    let configured = settings::lm_model();
    language::open(Choice { asked, model, configured: configured.as_deref() }, layout, engine)
}

/// Reads genres, one per line; empty lines and `# comments` are skipped.
pub(crate) fn read_genres(path: &Path) -> Result<Arc<GenreVocabulary>> {
    let text = utf8(read_file(path)?, &format!("`{}`", path.display()))?;
    let genres = GenreVocabulary::parse(&text);
    if genres.is_empty() {
        let message = format!("`{}` names no genre", path.display());
        let hint = "write one genre a line, such as lo-fi hip hop";
        return Err(crate::error::CliError::new(message).hint(hint).into());
    }
    Ok(Arc::new(genres))
}
