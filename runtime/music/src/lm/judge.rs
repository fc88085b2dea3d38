//! The language model as a judge of how well a song's codes match the request.
//!
//! The prompt asks to describe the codes, and the expected answer follows. The score is the
//! probability of each token of that answer. The prompt is read once for all answers.
//!
//! Source: upstream `calculate_pmi_score_per_condition`.

use std::time::Instant;

use acestep_engine::{
    Error,
    host::to_host,
    progress::{Event, Observe, check},
};
use acestep_model::{Backend, LanguageCheckpoint, Place, nn::Cache};

use super::{
    cot,
    generate::Writer,
    metadata::{Metadata, Scalar},
    pmi::{LanguageScore, Likelihood, likelier, mean, read},
    prompt,
    sample::{Scores, TokenMap},
    session,
    settings::LmSettings,
};
use crate::{Plan, Request, memory::SCORED_AT_ONCE, request::Words, stage};

/// Songs to judge, and their expected properties.
#[derive(Debug, Clone)]
pub struct JudgeInput<'a> {
    /// The codes of each song.
    pub codes: &'a [Vec<u32>],
    /// Caption and metadata; absent fields are not judged.
    pub metadata: Metadata,
    /// The lyrics; empty = not judged.
    pub lyrics: &'a str,
    /// Difference in nats per token that counts as large.
    pub scale: f64,
}

impl<'a> JudgeInput<'a> {
    /// Returns the songs of `plan`, which are expected to have the values that the language model
    /// `decided`, else those of the user's `request`.
    pub fn of(plan: &'a Plan, request: &Request, decided: Option<&Metadata>, scale: f64) -> Self {
        let decided = decided.cloned().unwrap_or_default();
        let word = |word: &Option<String>| word.clone().filter(|word| !word.trim().is_empty());
        let Words { bpm, duration, keyscale, vocal_language, timesignature, .. } = &request.words;
        let metadata = Metadata {
            bpm: decided.bpm.or(bpm.map(Scalar::Whole)),
            caption: decided.caption.or(word(&Some(plan.words.caption.clone()))),
            duration: decided.duration.or(duration.map(|seconds| Scalar::Whole(seconds as i64))),
            keyscale: decided.keyscale.or(word(keyscale)),
            language: decided.language.or(word(vocal_language)),
            timesignature: decided.timesignature.or(word(timesignature)),
            genres: decided.genres,
        };
        // The lyrics include `[Instrumental]`, because the model would write it for such a song.
        let lyrics = plan.words.lyrics.trim();
        Self { codes: &plan.source.codes, metadata, lyrics, scale }
    }
}

/// Judges songs one after the other.
///
/// # Errors
/// [`Error::Checkpoint`] if the model cannot be read; [`Error::PromptTooLong`]; [`Error::Scores`];
/// [`Error::DeviceFailed`]; [`Error::Cancelled`].
pub fn judge<B: Backend>(
    input: &JudgeInput<'_>,
    settings: &LmSettings,
    language: &dyn LanguageCheckpoint<B>,
    place: &Place<B>,
    observe: &dyn Observe,
) -> Result<Vec<LanguageScore>, Error> {
    let stage = stage::SCORE;
    session::open(language, place, settings, stage, observe, |writer| {
        let start = Instant::now();
        // The answers without codes are the same for all songs.
        let total = input.codes.len() + 1;
        let advanced = |done| observe.event(Event::Advanced { stage, done, total });
        advanced(0);
        let without = Answers::read(writer, &[], input)?;
        let mut scores = Vec::new();
        for codes in input.codes {
            advanced(1 + scores.len());
            let with = Answers::read(writer, codes, input)?;
            let than = |with: Option<Likelihood>, without: Option<Likelihood>| {
                let [with, without] = [with?, without?].map(|reading| reading.log_probability);
                Some(likelier(with, without, input.scale))
            };
            scores.push(LanguageScore {
                caption: than(with.caption, without.caption),
                lyrics: than(with.lyrics, without.lyrics),
                metadata: with.metadata.iter().map(|&(key, of)| (key, of.recall)).collect(),
            });
        }
        advanced(total);
        let elapsed = writer.loading + start.elapsed();
        observe.event(Event::Finished { stage, elapsed });
        Ok(scores)
    })
}

/// Probabilities of the expected answers after one prompt.
#[derive(Default)]
struct Answers {
    caption: Option<Likelihood>,
    lyrics: Option<Likelihood>,
    /// Only for a song: empty without codes.
    metadata: Vec<(&'static str, Likelihood)>,
}

impl Answers {
    fn read<B: Backend>(
        writer: &Writer<'_, B>,
        codes: &[u32],
        input: &JudgeInput<'_>,
    ) -> Result<Self, Error> {
        let of_song = !codes.is_empty();
        let fields = input.metadata.fields().filter(|(key, _)| of_song || *key == "caption");
        // The answers begin with a special token, so prompt and answer can be tokenised separately.
        let planned = |(key, value): (&'static str, Scalar)| {
            (key, writer.encode(&format!("<think>\n{}\n</think>\n", cot::field(key, &value))))
        };
        let mut answers: Vec<(&'static str, Vec<u32>)> = fields.map(planned).collect();
        if !input.lyrics.is_empty() {
            let text = format!("<think>\n</think>\n# Lyric\n{}\n", input.lyrics);
            answers.push(("lyrics", writer.encode(&text)));
        }
        let prompt = writer.encode(&prompt::understand(codes));
        let longest = answers.iter().map(|(_, ids)| ids.len()).max().unwrap_or(0);
        let tokens = prompt.len() + longest;
        if tokens > writer.max_seq {
            return Err(Error::PromptTooLong { tokens, most: writer.max_seq });
        }
        let mut cache = writer.config.cache(1, tokens, writer.place);
        writer.read(&prompt, 0, &mut cache)?;
        let mut found = Self::default();
        for (key, ids) in &answers {
            let likelihood = answered(writer, &prompt, ids, &mut cache)?;
            match *key {
                "caption" => found.caption = Some(likelihood),
                "lyrics" => found.lyrics = Some(likelihood),
                key => found.metadata.push((key, likelihood)),
            }
        }
        Ok(found)
    }
}

/// Returns the probability of `answer` after `prompt`, which the cache holds before and afterwards.
fn answered<B: Backend>(
    writer: &Writer<'_, B>,
    prompt: &[u32],
    answer: &[u32],
    cache: &mut Cache<B>,
) -> Result<Likelihood, Error> {
    let Writer { model, place, observe, .. } = writer;
    // Each token is predicted from the one before it, the first from the prompt's last token.
    cache.truncate(0, prompt.len() - 1);
    let before: Vec<u32> =
        prompt.last().into_iter().chain(&answer[..answer.len() - 1]).copied().collect();
    let mut readings = Vec::with_capacity(answer.len());
    for (read_now, judged) in before.chunks(SCORED_AT_ONCE).zip(answer.chunks(SCORED_AT_ONCE)) {
        check(*observe)?;
        let hidden = model.read_all(read_now, 0, cache, &place.device);
        let scores = model.scores(hidden, std::slice::from_ref(&(0..model.vocabulary())));
        let scores = to_host(scores);
        for (row, &token) in scores.chunks(model.vocabulary()).zip(judged) {
            let row = Scores { logits: row.to_vec(), tokens: TokenMap::All };
            let step = readings.len();
            row.check().map_err(|source| writer.unusable(source, step, &answer[..step]))?;
            readings.push(read(&row.logits, token as usize));
        }
    }
    cache.truncate(0, prompt.len());
    Ok(mean(&readings))
}
