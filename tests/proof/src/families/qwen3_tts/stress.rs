//! A speech model under sustained load: frames a second, real-time factors and memory over minutes.
//!
//! Weights are random and of the released size, so speech never ends by itself: after each
//! [`LENGTH`] frames a new one begins.

use std::time::{Duration, Instant};

use acestep_engine::{BackendWork, Engine, device::dtype, host::to_host};
use acestep_model::{
    Backend, Place,
    speech::qwen3_tts::{
        CodePredictor, Talker,
        codec::{Decoder, DecoderState},
    },
};
use anyhow::Result;
use burn::tensor::{Int, Tensor, TensorData};
use serde::Serialize;

use super::{
    agreement::likeliest,
    speed::{BEFORE, FRAMES_PER_SECOND, Sizes, codec_config},
};
use crate::{Host, measure::weights::random_weights};

mod memory;

use memory::{Memory, Moments, memory};

/// Frames of one speech: 20 s.
const LENGTH: usize = 250;
/// Frames per chunk of sound.
const CHUNK: usize = 8;
/// Time between two lines of progress.
const LINE: Duration = Duration::from_secs(30);

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Stress {
    /// Name of the preset.
    pub preset: &'static str,
    /// The type of the weights.
    pub dtype: String,
    /// Seconds of work, without the making of weights.
    pub elapsed: f64,
    /// Frames that were made, with their sound.
    pub frames: usize,
    /// Frames per second.
    pub frames_per_second: f64,
    /// Real-time factors of chunks of eight frames.
    pub real_time_factor: Distribution,
    /// Memory of the process in bytes; absent if the system does not say it.
    pub memory: Option<Memory>,
}

/// A distribution of values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Distribution {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest value.
    pub max: f64,
}

impl Stress {
    /// Returns a few lines for the terminal.
    pub fn text(&self) -> String {
        let Self { preset, dtype, elapsed, frames, frames_per_second, real_time_factor, memory } =
            self;
        let Distribution { mean, p50, p95, p99, max } = real_time_factor;
        let memory = memory.as_ref().map_or(String::new(), Memory::text);
        let hours = frames_per_second / FRAMES_PER_SECOND;
        format!(
            "{preset} in {dtype}: {frames} frames in {elapsed:.0} s, \
             {frames_per_second:.2} a second, {hours:.2} h of speech an hour\n\
             real-time factor mean {mean:.2}, median {p50:.2}, 95 % {p95:.2}, 99 % {p99:.2}, \
             at most {max:.2}\n{memory}"
        )
    }
}

/// Speaks for `length` with random weights of `sizes`.
///
/// # Errors
/// If a released configuration cannot be read.
pub(crate) fn stress(
    preset: &'static str,
    sizes: Sizes,
    length: Duration,
    engine: Engine,
    host: &dyn Host,
) -> Result<Stress> {
    engine.run(Work { preset, sizes, length, host })?
}

struct Work<'a> {
    preset: &'static str,
    sizes: Sizes,
    length: Duration,
    host: &'a dyn Host,
}

impl BackendWork for Work<'_> {
    type Output = Result<Stress>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { preset, sizes, length, host } = self;
        host.line(&format!("{preset}: making weights"));
        let mut speaker = Speaker::<B>::new(sizes, &place)?;
        // The first frames create the weights, compile kernels, and fill caches.
        speaker.chunk();
        let model = memory();
        let (start, mut told) = (Instant::now(), Instant::now());
        let (mut factors, mut peak, mut last) = (Vec::new(), model, model);
        let mut moments = Moments::new(length);
        while start.elapsed() < length {
            if host.is_cancelled() {
                // What was measured until then is a result too.
                host.note("the run was stopped before its end");
                break;
            }
            let begin = Instant::now();
            speaker.chunk();
            factors.push(begin.elapsed().as_secs_f64() * FRAMES_PER_SECOND / CHUNK as f64);
            last = memory();
            peak = peak.max(last);
            moments.add(start.elapsed(), last);
            if told.elapsed() >= LINE {
                told = Instant::now();
                let (seconds, factor) = (start.elapsed().as_secs(), distribution(&factors).p50);
                let memory = last.unwrap_or_default() as f64 / 1e9;
                host.line(&format!("{seconds} s: real-time factor {factor:.2}, {memory:.2} GB"));
            }
        }
        let (elapsed, frames) = (start.elapsed().as_secs_f64(), factors.len() * CHUNK);
        let over_time = moments.kept;
        let memory = match (model, peak, last) {
            (Some(model), Some(peak), Some(last)) => Some(Memory { model, peak, last, over_time }),
            _ => None,
        };
        Ok(Stress {
            preset,
            dtype: dtype::name(place.dtype).to_owned(),
            elapsed,
            frames,
            frames_per_second: frames as f64 / elapsed,
            real_time_factor: distribution(&factors),
            memory,
        })
    }
}

/// Networks of random weights that speak for ever.
struct Speaker<B: Backend> {
    talker: Talker<B>,
    decoder: Decoder<B>,
    cache: acestep_model::nn::Cache<B>,
    of_frame: acestep_model::nn::Cache<B>,
    state: DecoderState<B>,
    frame: Vec<u32>,
    /// Codes of a codebook.
    codes: usize,
    place: Place<B>,
}

impl<B: Backend> Speaker<B> {
    fn new(sizes: Sizes, place: &Place<B>) -> Result<Self> {
        let (config, device) = (sizes.config()?, &place.device);
        let talker = random_weights(Talker::<B>::init(&config, device), place.dtype);
        let codec = Place::<B> { dtype: dtype::of_others(place.dtype), device: device.clone() };
        let decoder = Decoder::<B>::init(&codec_config()?.decoder_config, device);
        let decoder = random_weights(decoder, codec.dtype).prepacked();
        Ok(Self {
            cache: Talker::cache(&config, 1, BEFORE + LENGTH, place),
            of_frame: CodePredictor::cache(&config.talker_config, 1, place),
            state: DecoderState::default(),
            frame: vec![5; config.talker_config.num_code_groups],
            codes: config.talker_config.code_predictor_config.vocab_size,
            place: place.clone(),
            talker,
            decoder,
        })
    }

    /// Makes a chunk of frames and its sound.
    fn chunk(&mut self) {
        let frames: Vec<Vec<u32>> = (0..CHUNK).map(|_| self.next()).collect();
        let groups = self.frame.len();
        let codes: Vec<i32> = (0..groups)
            .flat_map(|group| frames.iter().map(move |frame| frame[group] as i32))
            .collect();
        let data = TensorData::new(codes, [groups, CHUNK]);
        let codes = Tensor::<B, 2, Int>::from_data(data, &self.place.device);
        let (decoder, state) = (&self.decoder, &mut self.state);
        drop(to_host(B::on_pool(|| decoder.forward(codes, state))));
    }

    /// Makes a frame of likeliest codes.
    fn next(&mut self) -> Vec<u32> {
        if self.cache.length(0) >= BEFORE + LENGTH || self.cache.length(0) == 0 {
            self.cache.truncate(0, 0);
            self.state = DecoderState::default();
            let prompt = self.talker.codec(&[7; BEFORE], &self.place.device);
            let _ = self.talker.read(prompt, 0..1, &mut self.cache);
        }
        let Self { talker, cache, of_frame, frame, place, codes, .. } = self;
        let (talker, device) = (&*talker, &place.device);
        *frame = B::on_pool(|| {
            let hidden =
                talker.read(talker.frames(std::slice::from_ref(frame), device), 0..1, cache);
            // Marks at the end of the table are no codes.
            let mut logits = to_host(talker.scores(hidden.clone()));
            logits.truncate(*codes);
            let mut next = vec![likeliest(&logits) as u32];
            of_frame.truncate(0, 0);
            let mut x = Tensor::cat(vec![hidden, talker.codec(&next, device)], 1);
            let predictor = talker.code_predictor();
            for group in 1..predictor.groups() {
                let logits = to_host(predictor.scores(x, group, 0..1, of_frame));
                next.push(likeliest(&logits) as u32);
                x = predictor.codes(group, &next[group..], device);
            }
            next
        });
        self.frame.clone()
    }
}

/// Returns the distribution of `values`; zeros if there are none.
fn distribution(values: &[f64]) -> Distribution {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // The smallest value that at least this share of all do not exceed.
    let at = |share: f64| {
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    };
    let mean = sorted.iter().sum::<f64>() / sorted.len().max(1) as f64;
    Distribution { mean, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_run() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let Distribution { mean, p50, p95, p99, max } = distribution(&values);
        assert_eq!((mean, p50, p95, p99, max), (50.5, 50.0, 95.0, 99.0, 100.0));
        assert_eq!(distribution(&[3.0]).p99, 3.0);
        assert_eq!(distribution(&[]).max, 0.0);
    }

    /// 25 frames of 80 ms are two seconds.
    #[test]
    fn the_text_has_the_hours_of_speech_in_an_hour() {
        let (dtype, memory) = ("q8".to_owned(), None);
        let (frames_per_second, real_time_factor) = (25.0, distribution(&[0.5]));
        let (preset, elapsed, frames) = ("a", 60.0, 1500);
        let stress =
            Stress { preset, dtype, elapsed, frames, frames_per_second, real_time_factor, memory };
        assert!(stress.text().contains("25.00 a second, 2.00 h of speech an hour\n"));
    }
}
