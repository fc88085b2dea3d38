//! What the transformer looks at while it makes a finished song once more.
//!
//! Source: upstream `get_lyric_timestamp`, `get_lyric_score`: latents are noised a little, to the
//! time of the last step, with noise of a fixed seed.

use std::time::Instant;

use acestep_model::{Backend, Checkpoint, acestep::Heads};
use burn::tensor::Tensor;

use super::{
    Line, Map, Matrix,
    denoise::denoised,
    dtw::cheapest_path,
    times::{lines, of_tokens},
};
use crate::{
    Error, Plan,
    audio::loudness::require_finite,
    flow::Track,
    host::{from_host, to_host},
    lm::parse::python::strip,
    observe::{Event, Observe, Stage, check},
    prompt,
    residency::{Network, Parts},
    score::alignment::{self, Alignment},
    text::LYRIC_TOKENS,
};

/// The seed of the noise, upstream's.
const SEED: u64 = 42;

/// What is wanted of a finished song.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wants {
    /// When each line is sung.
    pub lines: bool,
    /// How well the words can be followed.
    pub score: bool,
}

impl Wants {
    /// Whether there is anything to do.
    pub fn anything(self) -> bool {
        self.lines || self.score
    }
}

/// What was found of one song.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Aligned {
    /// The lines and when they are sung; empty if they were not asked for.
    pub lines: Vec<Line>,
    /// How well the words can be followed in it, if that was asked for.
    pub score: Option<Scores>,
}

/// How well the words can be followed, where the transformer begins and where it ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// In pure noise, where only the outline says what comes when: upstream's "LM score".
    pub outline: Alignment,
    /// In the finished song: upstream's "DiT score".
    pub song: Alignment,
}

/// The heads of the model that follow the lyrics.
///
/// # Errors
/// [`Error::NoAlignment`] if its `config.json` does not name them and they are not known.
pub fn heads(config: &acestep_model::acestep::Config) -> Result<Vec<Heads>, Error> {
    config.alignment_heads().map_err(Error::NoAlignment)
}

/// Whether `lyrics` have words that are sung.
pub fn has_words(lyrics: &str) -> bool {
    let text = strip(lyrics);
    let is_marker = ["[instrumental]", "[inst]"].iter().any(|m| text.eq_ignore_ascii_case(m));
    !text.is_empty() && !is_marker
}

/// The lyrics as tokens, and where they stand in the condition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lyrics {
    ids: Vec<u32>,
    /// Tokens of the prompt before them; lyrics come first in the condition.
    start: usize,
}

impl Lyrics {
    fn of<B: Backend, C: Checkpoint<B>>(
        plan: &Plan,
        parts: &Parts<'_, B, C>,
    ) -> Result<Self, Error> {
        let end_of_text = parts.pad_token_id()?;
        let head = prompt::lyric_head(&plan.vocal_language);
        // The tokenizer appends an end, which is none of the head's tokens.
        let head = parts.token_ids(&head, LYRIC_TOKENS)?.len() - 1;
        let ids = parts.token_ids(&plan.lyric_prompt, LYRIC_TOKENS)?;
        let end = ids.iter().position(|&id| id == end_of_text).unwrap_or(ids.len());
        let start = head.min(end);
        Ok(Self { ids: ids[start..end].to_vec(), start })
    }
}

/// Looks at finished songs of a batch.
///
/// # Shapes
/// - `track`: what the songs follow, `[B, L, encoder width]` and `[B, T, 2 C]`
/// - `latents`: `[B, T, C]`
///
/// # Errors
/// [`Error::NoAlignment`]; [`Error::Checkpoint`], [`Error::NotFinite`], [`Error::DeviceFailed`],
/// [`Error::Cancelled`].
pub fn songs<B: Backend, C: Checkpoint<B>>(
    plan: &Plan,
    wants: Wants,
    parts: &Parts<'_, B, C>,
    track: &Track<B>,
    latents: &Tensor<B, 3>,
    observe: &dyn Observe,
) -> Result<Vec<Aligned>, Error> {
    let [batch, frames, channels] = latents.dims();
    if !wants.anything() || !has_words(&plan.lyrics) {
        return Ok(vec![Aligned::default(); batch]);
    }
    let heads = heads(&parts.configs().dit)?;
    let lyrics = Lyrics::of(plan, parts)?;
    if lyrics.ids.is_empty() {
        return Ok(vec![Aligned::default(); batch]);
    }
    check(observe)?;
    // Of the whole schedule, also where a source is kept and its beginning left out.
    let last = 1.0 / plan.timesteps.len().max(1) as f32;
    let noise = plan.noise.initial_noise(SEED, frames, channels);
    let start = Instant::now();
    let pictures = if wants.score { 2 * batch } else { batch };
    let stage = Stage::Alignment;
    let seconds = (frames * plan.hop) as f64 / f64::from(plan.sample_rate);
    let heard = (plan.frames * plan.hop) as f64 / f64::from(plan.sample_rate);
    let sung = alignment::sung(&lyrics.ids, |ids| parts.text_of(ids))?;
    let songs = parts.guarded(Network::Dit, observe, |observe| {
        observe.event(Event::Loading(stage));
        let dit = parts.dit()?;
        let mut done = 0;
        observe.event(Event::Advanced { stage, done, total: pictures });
        let noise: Tensor<B, 3> = from_host(noise.clone(), frames, channels, parts.device());
        let item = |x: &Tensor<B, 3>, index: usize| x.clone().narrow(0, index, 1);
        let mut songs = Vec::with_capacity(batch);
        for index in 0..batch {
            let attended = dit.attend_to(item(&track.condition, index));
            let context = item(&track.context, index);
            // Pictures are large, half a gigabyte for a long song: no two of them are kept.
            let mut picture = |t: f32| {
                check(observe)?;
                let xt = noise.clone() * t + item(latents, index) * (1.0 - t);
                let gaze = dit.gaze(xt, context.clone(), &[t], &attended, &heads);
                let maps = to_maps(gaze, &lyrics)?;
                done += 1;
                observe.event(Event::Advanced { stage, done, total: pictures });
                Ok::<_, Error>(maps)
            };
            let score = |maps: &[Map]| alignment::of(&Matrix::mean(maps), &sung);
            let in_song = picture(last)?;
            let mut song = Aligned::default();
            if wants.lines {
                song.lines = found_lines(&in_song, &lyrics, parts, seconds, heard)?;
            }
            if wants.score {
                let of_song = score(&in_song);
                drop(in_song);
                song.score = Some(Scores { outline: score(&picture(1.0)?), song: of_song });
            }
            songs.push(song);
        }
        Ok(songs)
    })?;
    observe.event(Event::Finished { stage, elapsed: start.elapsed() });
    Ok(songs)
}

/// The rows of the lyrics, a map for each head.
fn to_maps<B: Backend>(gaze: Vec<Tensor<B, 4>>, lyrics: &Lyrics) -> Result<Vec<Map>, Error> {
    let tokens = lyrics.ids.len();
    let mut maps = Vec::new();
    for layer in gaze {
        let frames = layer.dims()[2];
        // [1, heads, P, L] to the lyrics' columns, and those to rows.
        let words = to_host(layer.narrow(3, lyrics.start, tokens).swap_dims(2, 3));
        require_finite("the diffusion transformer's attention", &words)?;
        let map = |values: &[f32]| Map { tokens, frames, values: values.to_vec() };
        maps.extend(words.chunks(tokens * frames).map(map));
    }
    Ok(maps)
}

/// The lines of the lyrics with their times, of which none is after the song's end.
fn found_lines<B: Backend, C: Checkpoint<B>>(
    maps: &[Map],
    lyrics: &Lyrics,
    parts: &Parts<'_, B, C>,
    seconds: f64,
    heard: f64,
) -> Result<Vec<Line>, Error> {
    let mut cost = denoised(maps);
    cost.values.iter_mut().for_each(|value| *value = -*value);
    let path = cheapest_path(&cost);
    let times = of_tokens(&path, cost.rows, cost.columns, seconds);
    let mut found = lines(&lyrics.ids, &times, |ids| parts.text_of(ids))?;
    for line in &mut found {
        // A song below 128 frames is sampled with more, which nobody hears.
        (line.start, line.end) = (line.start.min(heard), line.end.min(heard));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instrumental_and_blank_lyrics_have_no_words() {
        for none in ["", " \n", "[Instrumental]", " [inst] "] {
            assert!(!has_words(none), "{none:?}");
        }
        for some in ["la", "[Verse]", "[Instrumental]\nla"] {
            assert!(has_words(some), "{some:?}");
        }
    }
}
