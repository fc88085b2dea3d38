//! Flags for planning by the language model, and for its decisions.

use acestep_music::request;

use super::values::{pair, put};

/// Flags that turn planning on or off; commands that always plan do not have them.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Language model")]
pub(crate) struct Thinking {
    /// Let it plan missing parts [default: unless tiny].
    ///
    /// It fills in metadata and lyrics, and writes the song's outline as audio codes. It is not
    /// used if there are codes already, nor, without this flag, for the model tiny.
    #[arg(long, overrides_with = "no_thinking")]
    thinking: bool,

    /// Make the song as requested, without a plan.
    ///
    /// With --use-cot-metas, --use-cot-caption or --use-cot-language it still decides those values,
    /// but writes no codes.
    #[arg(long, overrides_with = "thinking")]
    no_thinking: bool,
}

/// Values that the language model may decide for a song with lyrics.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Language model")]
pub(crate) struct Decisions {
    /// Decide missing metadata: tempo, key, metre, length (the default).
    #[arg(long, overrides_with = "no_use_cot_metas")]
    use_cot_metas: bool,

    /// Leave missing metadata open.
    #[arg(long, overrides_with = "use_cot_metas")]
    no_use_cot_metas: bool,

    /// Rewrite the caption (the default).
    #[arg(long, overrides_with = "no_use_cot_caption")]
    use_cot_caption: bool,

    /// Leave the caption as it is.
    #[arg(long, overrides_with = "use_cot_caption")]
    no_use_cot_caption: bool,

    /// Decide a missing language (the default).
    #[arg(long, overrides_with = "no_use_cot_language")]
    use_cot_language: bool,

    /// Leave a missing language open.
    #[arg(long, overrides_with = "use_cot_language")]
    no_use_cot_language: bool,
}

impl Thinking {
    /// Returns the typed choice; the last flag counts.
    pub(crate) fn typed(&self) -> Option<bool> {
        pair(self.thinking, self.no_thinking)
    }
}

impl Decisions {
    /// Puts the typed flags over `request`.
    pub(crate) fn put_over(&self, request: &mut request::Language) {
        let [metas, caption, language] = self.typed();
        put(&mut request.use_cot_metas, metas.as_ref());
        put(&mut request.use_cot_caption, caption.as_ref());
        put(&mut request.use_cot_language, language.as_ref());
    }

    /// True if a flag asks the model for a value by name, even if it does not plan the song.
    pub(crate) fn asks_by_name(&self) -> bool {
        self.typed().contains(&Some(true))
    }

    /// Returns the typed choices about metadata, caption and language.
    fn typed(&self) -> [Option<bool>; 3] {
        [
            pair(self.use_cot_metas, self.no_use_cot_metas),
            pair(self.use_cot_caption, self.no_use_cot_caption),
            pair(self.use_cot_language, self.no_use_cot_language),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values::typed;

    #[test]
    fn the_last_of_a_flag_and_its_opposite_wins() {
        for (flags, expected) in [
            (&[][..], None),
            (&["--thinking"], Some(true)),
            (&["--no-thinking", "--thinking"], Some(true)),
            (&["--thinking", "--no-thinking"], Some(false)),
            (&["--thinking", "--no-thinking", "--thinking"], Some(true)),
        ] {
            assert_eq!(typed::<Thinking>(flags).typed(), expected, "{flags:?}");
        }
    }
}
