//! The language model of a command.

use acestep_engine::{Engine, Error};
use acestep_import::{LanguageModelDir, Layout};
use acestep_session::language::{self, Choice};

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
