//! Cross-attention maps of a finished song, from one more pass of the transformer over it.
//!
//! Source: upstream `get_lyric_timestamp`, `get_lyric_score`: the latents get a little noise of a
//! fixed seed, as much as at the last step of the schedule.

use acestep_engine::{
    Error,
    audio::loudness::require_finite,
    host::{from_host, to_host},
    progress::{Observe, check},
};
use acestep_model::{Backend, acestep::Heads};
use burn::tensor::Tensor;

use super::{
    AttentionMap, Line, Matrix,
    denoise::denoised,
    dtw::cheapest_path,
    times::{lines, of_tokens},
};
use crate::{
    Plan, SongError,
    align::score::{self, Alignment},
    flow::Track,
    lyrics::is_sung,
    networks::{DIT, Networks},
    prompt, stage,
    text::LYRIC_TOKENS,
};

/// Seed of the noise, as upstream.
const SEED: u64 = 42;

/// Requested results for a finished song.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extras {
    /// The times of each line.
    pub lines: bool,
    /// The scores of the alignment between words and song.
    pub score: bool,
}

impl Extras {
    /// True if any result is requested.
    pub fn anything(self) -> bool {
        self.lines || self.score
    }
}

/// Alignment results of one song.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Aligned {
    /// The lines with their times; empty if not requested.
    pub lines: Vec<Line>,
    /// The alignment scores, if requested.
    pub score: Option<AlignmentScores>,
}

/// Alignment scores at the first and at the last time of the schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlignmentScores {
    /// In pure noise, where only the audio codes give the timing: upstream's "LM score".
    pub outline: Alignment,
    /// In the finished song: upstream's "DiT score".
    pub song: Alignment,
}

/// Returns the attention heads of the model that follow the lyrics.
///
/// # Errors
/// [`SongError::NoAlignment`] if its `config.json` does not name them and the model is not a known one.
pub fn heads(config: &acestep_model::acestep::Config) -> Result<Vec<Heads>, Error> {
    config.alignment_heads().map_err(|error| SongError::NoAlignment(error).into())
}

/// Lyric tokens and their position in the condition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lyrics {
    ids: Vec<u32>,
    /// Number of prompt tokens before them; the condition begins with the lyrics.
    start: usize,
}

impl Lyrics {
    fn of<B: Backend>(plan: &Plan, networks: &Networks<'_, B>) -> Result<Self, Error> {
        let end_of_text = networks.pad_token_id()?;
        let head = prompt::lyric_head(&plan.words.vocal_language);
        // The tokenizer appends an end token, which is not part of the head.
        let head = networks.token_ids(&head, LYRIC_TOKENS)?.len() - 1;
        let ids = networks.token_ids(&plan.words.lyric_prompt, LYRIC_TOKENS)?;
        let end = ids.iter().position(|&id| id == end_of_text).unwrap_or(ids.len());
        let start = head.min(end);
        Ok(Self { ids: ids[start..end].to_vec(), start })
    }
}

/// Aligns the finished songs of a batch with their lyrics.
///
/// # Shapes
/// - `track`: the songs' conditions, `[B, L, encoder width]` and `[B, T, 2 C]`
/// - `latents`: `[B, T, C]`
///
/// # Errors
/// [`SongError::NoAlignment`]; [`Error::Checkpoint`], [`Error::NotFinite`], [`Error::DeviceFailed`],
/// [`Error::Cancelled`].
pub fn songs<B: Backend>(
    plan: &Plan,
    extras: Extras,
    networks: &Networks<'_, B>,
    track: &Track<B>,
    latents: &Tensor<B, 3>,
    observe: &dyn Observe,
) -> Result<Vec<Aligned>, Error> {
    let [batch, frames, channels] = latents.dims();
    if !extras.anything() || !is_sung(&plan.words.lyrics) {
        return Ok(vec![Aligned::default(); batch]);
    }
    let heads = heads(&networks.configs().dit)?;
    let lyrics = Lyrics::of(plan, networks)?;
    if lyrics.ids.is_empty() {
        return Ok(vec![Aligned::default(); batch]);
    }
    check(observe)?;
    // From the whole schedule, even if the run skipped its beginning to keep a source.
    let last = 1.0 / plan.sampling.timesteps.len().max(1) as f32;
    let noise = plan.noise.source.initial_noise(SEED, frames, channels);
    let pictures = if extras.score { 2 * batch } else { batch };
    let seconds = (frames * plan.length.hop) as f64 / f64::from(plan.length.sample_rate);
    let heard = (plan.length.frames * plan.length.hop) as f64 / f64::from(plan.length.sample_rate);
    let sung = score::sung(&lyrics.ids, |ids| networks.text_of(ids))?;
    networks.stage(stage::ALIGNMENT, DIT, observe, |steps| {
        let dit = networks.dit()?;
        let mut done = 0;
        steps.advanced(done, pictures);
        let noise: Tensor<B, 3> = from_host(noise.clone(), frames, channels, networks.device());
        let item = |x: &Tensor<B, 3>, index: usize| x.clone().narrow(0, index, 1);
        let mut songs = Vec::with_capacity(batch);
        for index in 0..batch {
            if require_finite("the latents", &to_host(item(latents, index))).is_err() {
                // Such a song is not returned, so nothing is looked for in it.
                songs.push(Aligned::default());
                done += pictures / batch;
                continue;
            }
            let attended = dit.attend_to(item(&track.condition, index));
            let context = item(&track.context, index);
            // A long song's maps take half a gigabyte, so only one set is kept at a time.
            let mut picture = |t: f32| {
                steps.check()?;
                let xt = noise.clone() * t + item(latents, index) * (1.0 - t);
                let layers = dit.attention_maps(xt, context.clone(), &[t], &attended, &heads);
                let maps = to_maps(layers, &lyrics)?;
                done += 1;
                steps.advanced(done, pictures);
                Ok::<_, Error>(maps)
            };
            let score = |maps: &[AttentionMap]| score::of(&Matrix::mean(maps), &sung);
            let in_song = picture(last)?;
            let mut song = Aligned::default();
            if extras.lines {
                song.lines = found_lines(&in_song, &lyrics, networks, seconds, heard)?;
            }
            if extras.score {
                let of_song = score(&in_song);
                drop(in_song);
                song.score =
                    Some(AlignmentScores { outline: score(&picture(1.0)?), song: of_song });
            }
            songs.push(song);
        }
        Ok(songs)
    })
}

/// Returns the lyric rows of the attention, one map per head.
fn to_maps<B: Backend>(
    layers: Vec<Tensor<B, 4>>,
    lyrics: &Lyrics,
) -> Result<Vec<AttentionMap>, Error> {
    let rows = lyrics.ids.len();
    let mut maps = Vec::new();
    for layer in layers {
        let columns = layer.dims()[2];
        // From [1, heads, P, L] keep the columns of the lyrics and transpose them to rows.
        let words = to_host(layer.narrow(3, lyrics.start, rows).swap_dims(2, 3));
        require_finite("the diffusion transformer's attention", &words)?;
        let map = |values: &[f32]| AttentionMap { rows, columns, values: values.to_vec() };
        maps.extend(words.chunks(rows * columns).map(map));
    }
    Ok(maps)
}

/// Returns the lines of the lyrics with their times, clamped to the end of the song.
fn found_lines<B: Backend>(
    maps: &[AttentionMap],
    lyrics: &Lyrics,
    networks: &Networks<'_, B>,
    seconds: f64,
    heard: f64,
) -> Result<Vec<Line>, Error> {
    let mut cost = denoised(maps);
    cost.values.iter_mut().for_each(|value| *value = -*value);
    let path = cheapest_path(&cost);
    let times = of_tokens(&path, cost.rows, cost.columns, seconds);
    let mut found = lines(&lyrics.ids, &times, |ids| networks.text_of(ids))?;
    for line in &mut found {
        // A song below 128 frames is sampled with more frames; the extra ones are cut off.
        (line.start, line.end) = (line.start.min(heard), line.end.min(heard));
    }
    Ok(found)
}
