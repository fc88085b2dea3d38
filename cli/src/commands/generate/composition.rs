//! Flags for a language model that is not used.

use acestep_engine::Notice;
use acestep_music::Request;

use super::Args;

/// Returns a notice about flags for the language model that have no effect, because it is not used.
pub(super) fn without(args: &Args, request: &Request) -> Option<Notice> {
    if args.sampling.conditioning.is_some() {
        return None;
    }
    let follows = request.follows_source();
    let remedy = match (request.source.has_codes(), request.language.thinking) {
        (true, _) => "the audio codes are there already",
        (false, _) if follows => "the song follows its source",
        (false, Some(false)) => "thinking is off",
        (false, _) => "pass --thinking to ask it",
    };
    if follows && args.thinking.typed() == Some(true) {
        return Some(Notice(format!("--thinking has no effect: {remedy}")));
    }
    if args.language.is_typed() {
        let text =
            format!("the language model does not run, so its flags have no effect: {remedy}");
        return Some(Notice(text));
    }
    let mode = request.language.lm_mode.as_deref().filter(|&mode| mode != "generate")?;
    (!request.source.has_codes()).then(|| {
        Notice(format!(
            "`lm_mode` {mode} has no effect without the language model, caption and lyrics are \
             used as they stand: {remedy}"
        ))
    })
}
