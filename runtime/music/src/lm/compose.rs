//! The two phases of the language model, which fill in the open settings of a request.
//!
//! ```text
//! request -> text phase: metadata, perhaps caption and lyrics -> codes phase -> request
//! ```
//!
//! Source: upstream `generate_with_stop_condition`, `create_sample_from_query`,
//! `format_sample_from_input`, `understand_audio_from_codes`; acestep.cpp `pipeline-lm.cpp`.

use std::{sync::Arc, time::Duration};

use acestep_engine::{
    Error, Notice,
    progress::{Event, Observe},
};
use acestep_model::{Backend, LanguageCheckpoint, Place};

use super::{
    constrain::{Field, Phase, Rules, UserValues, genres::GenreVocabulary},
    generate::{Answer, Prompts, Writer},
    guard, merge,
    metadata::Metadata,
    parse,
    prompt::{self, PromptStyle},
    sample::max_new_tokens,
    session,
    settings::Settings,
    vocabulary,
};
use crate::{Request, request::length::MOST_SECONDS, stage};

/// Number of codes of the longest song.
const MOST_CODES: usize = 5 * MOST_SECONDS as usize;

/// Task of the language model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Missing metadata from caption and lyrics: upstream's first phase.
    Plan,
    /// Caption, lyrics and metadata from a description, the request's caption.
    Inspire,
    /// Metadata, and caption and lyrics rewritten in the format of the training data.
    Format,
    /// The user's own instruction; the answer has the format of [`Ask::Inspire`].
    Custom {
        /// The instruction: the system message.
        system: String,
        /// The input: the user message.
        user: String,
    },
}

impl Ask {
    /// Returns the default task of a request: [`Ask::Inspire`] without lyrics, else [`Ask::Plan`].
    pub fn of(request: &Request) -> Self {
        let has_lyrics = request.words.lyrics.is_some() || request.words.instrumental == Some(true);
        if has_lyrics { Self::Plan } else { Self::Inspire }
    }
}

/// A request for the language model, with all settings decided.
#[derive(Debug, Clone)]
pub struct Composing<'a> {
    /// The user's request.
    pub request: &'a Request,
    /// The task.
    pub ask: Ask,
    /// True to write audio codes, one list for each of the settings' seeds.
    pub writes_codes: bool,
    /// Settings of the language model.
    pub settings: &'a Settings,
    /// Genres to choose from; `None` = the answer has no genres.
    pub genres: Option<Arc<GenreVocabulary>>,
}

/// Result of [`compose`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Composed {
    /// The completed request; with codes, it does not need the language model again.
    pub request: Request,
    /// Metadata of the plan that precedes the codes.
    pub metadata: Metadata,
    /// One sentence for each change or addition to the user's request.
    pub changes: Vec<Notice>,
    /// The text answer, verbatim; empty if there was no text phase.
    pub text: String,
    /// All runs of the model, in order.
    pub calls: Vec<Call>,
    /// Duration of each phase.
    pub timing: Timing,
}

/// One run of the model, in tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    /// The prompt; with guidance, followed by the unconditional prompt.
    pub prompts: Vec<Vec<u32>>,
    /// The written tokens, one list for each song.
    pub written: Vec<Vec<u32>>,
}

/// Durations of the language model, without loading its weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timing {
    /// From the first prompt to the first token.
    pub first_token: Duration,
    /// Duration of the text phase.
    pub text: Duration,
    /// Tokens of the text phase.
    pub text_tokens: usize,
    /// Duration of the codes phase.
    pub codes: Duration,
    /// Number of audio codes of all songs.
    pub code_tokens: usize,
}

/// Runs the language model, which decides the open settings of `asked`.
///
/// # Errors
/// [`Error::Checkpoint`] if the model cannot be read; [`Error::PromptTooLong`];
/// [`Error::Scores`], [`Error::NeverStopped`], [`Error::Repeats`] and [`Error::NothingValid`] with
/// the output so far; [`Error::Cancelled`].
pub fn compose<B: Backend>(
    asked: &Composing<'_>,
    language: &dyn LanguageCheckpoint<B>,
    place: &Place<B>,
    observe: &dyn Observe,
) -> Result<Composed, Error> {
    let given = merge::user_values(asked.request, &asked.ask, asked.settings.prompt_style);
    let needs_text = needs_text(asked, &given);
    let mut begun = Composed {
        request: asked.request.clone(),
        metadata: merge::metadata(&given),
        ..Composed::default()
    };
    if asked.writes_codes {
        // If the length is known, check it before the model is loaded.
        check_length(begun.request.words.duration, asked.settings)?;
    } else if !needs_text {
        let text = "the language model is not asked: nothing that it may decide is open";
        begun.changes.push(Notice(text.into()));
        return Ok(begun);
    }
    if asked.ask != Ask::Plan && !(asked.settings.cot_metas && asked.settings.cot_caption) {
        let text = "the language model writes caption and metadata together with the lyrics, \
                    whatever `use_cot_caption: false` and `use_cot_metas: false` say";
        begun.changes.push(Notice(text.into()));
    }
    let stage = if needs_text { stage::LM_TEXT } else { stage::LM_CODES };
    session::open(language, place, asked.settings, stage, observe, |writer| {
        let mut composed = begun.clone();
        if needs_text {
            text_phase(asked, &given, writer, &mut composed)?;
        }
        if asked.writes_codes {
            codes_phase(asked, writer, &mut composed)?;
        }
        Ok(composed)
    })
}

/// Refuses a length whose codes exceed the limit on tokens.
fn check_length(seconds: Option<f64>, settings: &Settings) -> Result<(), Error> {
    let target = Rules { target_seconds: seconds, ..Rules::new(Phase::Codes) }.target_codes();
    match (target, settings.max_tokens) {
        // The end token counts too.
        (Some(codes), Some(most)) if codes + 1 > most => Err(Error::OutOfRange {
            field: "max_tokens",
            value: most.to_string(),
            range: format!("at least {} for the codes of this length", codes + 1),
        }),
        _ => Ok(()),
    }
}

/// True if there is a text phase. As in upstream, a plan needs one only if a field is missing.
fn needs_text(asked: &Composing<'_>, given: &UserValues) -> bool {
    let language = &asked.request.language;
    let by_name = [language.use_cot_caption, language.use_cot_language].contains(&Some(true));
    match asked.ask {
        Ask::Plan => (asked.settings.cot_metas || by_name) && !merge::metadata(given).is_complete(),
        Ask::Inspire | Ask::Format | Ask::Custom { .. } => true,
    }
}

fn text_phase<B: Backend>(
    asked: &Composing<'_>,
    given: &UserValues,
    writer: &Writer<'_, B>,
    composed: &mut Composed,
) -> Result<(), Error> {
    let answer =
        write_text(writer, &question(asked), rules(asked, given), asked.settings, composed)?;
    let words = without_end(writer, &answer);
    let metadata = parse::metadata(words);
    guard::something_was_decided(&metadata, &answer)?;
    let metadata = merge::taken(&asked.ask, metadata, asked.settings);
    composed.changes.extend(merge::merge(
        &asked.ask,
        &metadata,
        &parse::lyrics(words),
        asked.settings,
        &mut composed.request,
    ));
    // The user's values stay in the plan, even if the model omitted or changed them.
    composed.metadata = merge::over(given, metadata);
    composed.text = answer;
    Ok(())
}

/// Returns the prompt of the text phase.
fn question(asked: &Composing<'_>) -> String {
    let request = asked.request;
    let caption = request.words.caption.as_deref().unwrap_or_default();
    let lyrics = merge::lyrics_of(request);
    let is_acestep_cpp = asked.settings.prompt_style == PromptStyle::AcestepCpp;
    match &asked.ask {
        Ask::Plan => prompt::plan(caption, &lyrics),
        Ask::Inspire if is_acestep_cpp => prompt::acestep_cpp::inspire(caption, &lyrics),
        Ask::Inspire => {
            prompt::inspire(prompt::or_no_input(caption), merge::is_instrumental(request))
        }
        Ask::Format if is_acestep_cpp => prompt::acestep_cpp::format(caption, &lyrics),
        Ask::Format => {
            prompt::format(prompt::or_no_input(caption), prompt::or_instrumental(&lyrics))
        }
        Ask::Custom { system, user } => prompt::custom(system, user),
    }
}

/// Returns the rules for the answer of the text phase.
fn rules(asked: &Composing<'_>, given: &UserValues) -> Rules {
    let settings = asked.settings;
    let base = Rules { enabled: settings.constrained, user: given.clone(), ..base(asked) };
    match asked.ask {
        Ask::Plan => Rules {
            skip_caption: !settings.cot_caption,
            skip_language: !settings.cot_language,
            stop_at_reasoning: true,
            ..base
        },
        // Upstream skips the language if the user gave it.
        Ask::Format if settings.prompt_style != PromptStyle::AcestepCpp => {
            Rules { skip_language: base.user.contains_key(&Field::Language), ..base }
        }
        Ask::Inspire | Ask::Format | Ask::Custom { .. } => base,
    }
}

fn base(asked: &Composing<'_>) -> Rules {
    match asked.ask {
        Ask::Plan => Rules::new(Phase::Cot),
        Ask::Inspire | Ask::Format | Ask::Custom { .. } => {
            // acestep.cpp has no genres.
            let knows = asked.settings.prompt_style != PromptStyle::AcestepCpp;
            let genres = asked.genres.clone().filter(|_| knows);
            Rules { skip_genres: genres.is_none(), genres, ..Rules::new(Phase::Understand) }
        }
    }
}

/// Runs the text phase; returns its answer.
fn write_text<B: Backend>(
    writer: &Writer<'_, B>,
    text: &str,
    rules: Rules,
    settings: &Settings,
    composed: &mut Composed,
) -> Result<String, Error> {
    let ids = writer.encode(text);
    let limit = max_new_tokens(
        None,
        rules.phase,
        settings.max_tokens,
        settings.max_seq,
        MOST_SECONDS as u32,
    );
    let seed = settings.seeds.first().copied().unwrap_or_default();
    let answer = writer.text(&ids, rules, limit, seed)?;
    let elapsed = writer.loading + answer.elapsed;
    writer.observe.event(Event::Finished { stage: stage::LM_TEXT, elapsed });
    composed.timing.first_token = answer.first_token;
    composed.timing.text = answer.elapsed;
    composed.timing.text_tokens = answer.tokens.len();
    let text = writer.decode(&answer.tokens);
    composed.calls.push(Call { prompts: vec![ids], written: vec![answer.tokens] });
    Ok(text)
}

/// Removes the end token from the answer. A model that stops within a caption would leave it there.
fn without_end<'a, B: Backend>(writer: &Writer<'_, B>, answer: &'a str) -> &'a str {
    let vocabulary = writer.grammar.vocabulary();
    let ends = [vocabulary.end, vocabulary.pad].map(|token| writer.decode(&[token]));
    ends.iter().find_map(|end| answer.strip_suffix(end.as_str())).unwrap_or(answer)
}

/// Returns the metadata of the plan that precedes the codes.
///
/// After `Inspire` or `Format`, upstream asks for codes as for any song with complete metadata,
/// that is with four fields.
fn plan_metadata(asked: &Composing<'_>, composed: &Composed) -> Metadata {
    let metadata = composed.metadata.clone();
    match (asked.settings.prompt_style, &asked.ask) {
        (PromptStyle::Upstream, Ask::Inspire | Ask::Format | Ask::Custom { .. }) => {
            Metadata { caption: None, genres: None, language: None, ..metadata }
        }
        _ => metadata,
    }
}

fn codes_phase<B: Backend>(
    asked: &Composing<'_>,
    writer: &Writer<'_, B>,
    composed: &mut Composed,
) -> Result<(), Error> {
    let settings = asked.settings;
    let style = settings.prompt_style;
    // Upstream's prompt keeps the user's caption and puts the new one into the plan. If the model
    // wrote the lyrics too, there is only the new one. acestep.cpp puts the new one in both places.
    let caption = match asked.ask {
        Ask::Plan if style != PromptStyle::AcestepCpp => asked.request.words.caption.clone(),
        _ => composed.request.words.caption.clone(),
    };
    let caption = caption.unwrap_or_default();
    let lyrics = merge::lyrics_of(&composed.request);
    // The user's length, else the plan's, which is valid after the merge.
    let seconds = composed.request.words.duration;
    check_length(seconds, settings)?;
    if seconds.is_none() && settings.seeds.len() > 1 {
        let what = "a plan without a length, which the songs of a batch share".into();
        return Err(Error::NothingValid { what, had: composed.text.clone() });
    }
    let plan = prompt::song_plan(&plan_metadata(asked, composed), &composed.request, style);
    let conditional = writer.encode(&prompt::codes(&caption, &lyrics, &plan, style));
    let negative = settings.negative_prompt.as_deref();
    let unconditional = (settings.cfg_scale > 1.0).then(|| {
        let text = prompt::codes_unconditional(&caption, &lyrics, negative, style);
        writer.encode(&text)
    });
    let rules = Rules {
        enabled: settings.constrained,
        skip_caption: true,
        skip_language: true,
        target_seconds: seconds,
        ..Rules::new(Phase::Codes)
    };
    let limit = max_new_tokens(
        seconds,
        Phase::Codes,
        settings.max_tokens,
        settings.max_seq,
        MOST_SECONDS as u32,
    );
    // The longest song has MOST_CODES codes, and one end token.
    let limit = limit.min(MOST_CODES + 1);
    let prompts = Prompts {
        conditional: &conditional,
        unconditional: unconditional.as_deref().map(|ids| (ids, settings.cfg_scale)),
    };
    let answers = writer.codes(prompts, &rules, limit, &settings.seeds)?;
    let elapsed = answers.iter().map(|answer| answer.elapsed).max().unwrap_or_default();
    let loading = if composed.calls.is_empty() { writer.loading } else { Duration::ZERO };
    writer.observe.event(Event::Finished { stage: stage::LM_CODES, elapsed: loading + elapsed });
    if composed.calls.is_empty() {
        composed.timing.first_token = answers.first().map(|a| a.first_token).unwrap_or_default();
    }
    composed.timing.codes = elapsed;
    composed.timing.code_tokens = answers.iter().map(|answer| answer.tokens.len()).sum();
    let codes: Vec<Vec<u32>> = answers.iter().map(|answer| codes_of(writer, answer)).collect();
    composed.calls.push(Call {
        prompts: std::iter::once(conditional).chain(unconditional).collect(),
        written: answers.into_iter().map(|answer| answer.tokens).collect(),
    });
    guard::codes_are_a_song(&codes, composed)?;
    composed.request.source.audio_codes = Some(codes);
    Ok(())
}

fn codes_of<B: Backend>(writer: &Writer<'_, B>, answer: &Answer) -> Vec<u32> {
    let vocabulary = writer.grammar.vocabulary();
    answer.tokens.iter().filter_map(|&token| vocabulary.code_of_token(token)).collect()
}

/// Description of audio codes by the language model.
#[derive(Debug, Clone, PartialEq)]
pub struct Understood {
    /// Caption, tempo, key, metre, language, length.
    pub metadata: Metadata,
    /// The sung text, as far as the model recognised it.
    pub lyrics: String,
    /// The answer, verbatim.
    pub text: String,
    /// Duration of the run.
    pub timing: Timing,
}

impl Understood {
    /// Returns the request for a song like it, with its `codes`; it has only values that can be used.
    pub fn to_request(&self, codes: &[u32]) -> Request {
        let usable = self.metadata.usable();
        Request::default().with(|r| {
            r.words.caption = self.metadata.caption.clone();
            r.words.lyrics = Some(self.lyrics.clone());
            r.words.bpm = usable.bpm.map(i64::from);
            r.words.keyscale = usable.keyscale;
            r.words.timesignature = usable.timesignature;
            r.words.vocal_language = usable.vocal_language.map(str::to_owned);
            r.source.audio_codes = Some(vec![codes.to_vec()]);
        })
    }
}

/// Describes the song of the audio codes `codes`.
///
/// # Errors
/// As [`compose`].
pub fn understand<B: Backend>(
    codes: &[u32],
    settings: &Settings,
    genres: Option<Arc<GenreVocabulary>>,
    language: &dyn LanguageCheckpoint<B>,
    place: &Place<B>,
    observe: &dyn Observe,
) -> Result<Understood, Error> {
    if codes.len() > MOST_CODES {
        return Err(Error::OutOfRange {
            field: "audio_codes",
            value: format!("({} codes)", codes.len()),
            range: format!("at most {MOST_CODES}, those of {MOST_SECONDS} s"),
        });
    }
    if let Some(code) = codes.iter().find(|&&code| code >= vocabulary::MOST_CODES) {
        return Err(Error::OutOfRange {
            field: "audio_codes",
            value: code.to_string(),
            range: format!("codes from 0 to {}", vocabulary::MOST_CODES - 1),
        });
    }
    session::open(language, place, settings, stage::LM_TEXT, observe, |writer| {
        let mut composed = Composed::default();
        let rules = Rules {
            enabled: settings.constrained,
            skip_genres: genres.is_none(),
            genres: genres.clone(),
            ..Rules::new(Phase::Understand)
        };
        let text = write_text(writer, &prompt::understand(codes), rules, settings, &mut composed)?;
        let words = without_end(writer, &text);
        let (metadata, lyrics) = (parse::metadata(words), parse::lyrics(words));
        guard::something_was_decided(&metadata, &text)?;
        Ok(Understood { lyrics, metadata, text, timing: composed.timing })
    })
}
