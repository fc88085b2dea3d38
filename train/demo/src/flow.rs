//! Training of the diffusion transformer with its condition encoders.
//!
//! `mean (v - (noise - x0))^2` with `v = dit(t noise + (1 - t) x0, t | context, condition)` and
//! `t = sigmoid(mu + sigma n)`, the later of two draws. Some items drop the condition, for
//! classifier-free guidance.
//!
//! The context differs from step to step, as between tasks: silence; the song through its audio
//! codes; the song with a gap.
//!
//! Source: upstream `training_v2`; Lipman et al. 2023, arXiv:2210.02747; Esser et al. 2024,
//! arXiv:2403.03206 (times).

mod pieces;

pub use pieces::Pieces;

use std::ops::Range;

use acestep_model::{
    acestep::{AudioCodec, ConditionInputs, Conditioner, Config, Dit, Padded},
    qwen3,
};
use acestep_music::prompt::{COVER, REPAINT, TEXT_TO_MUSIC};
use acestep_train::{random::normal, times::LogitNormal};
use burn::{
    module::Module,
    tensor::{Int, Tensor, TensorData, backend::AutodiffBackend},
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tokenizers::Tokenizer;

/// The networks that are trained together.
#[derive(Module, Debug)]
pub struct Singer<B: acestep_model::Backend> {
    /// Encodes captions.
    pub text_encoder: qwen3::Model<B>,
    /// Combines the encoded texts and the timbre.
    pub conditioner: Conditioner<B>,
    /// The diffusion transformer.
    pub dit: Dit<B>,
}

impl<B: acestep_model::Backend> Singer<B> {
    /// Returns randomly initialised networks.
    pub fn init(text: &qwen3::Config, config: &Config, device: &B::Device) -> Self {
        Self {
            text_encoder: qwen3::Model::init(text, device),
            conditioner: Conditioner::init(config, device),
            dit: Dit::init(config, device),
        }
    }
}

/// Probabilities per step or item.
#[derive(Debug, Clone, Copy)]
pub struct TaskMix {
    /// Share of steps with a context of silence.
    pub from_text: f64,
    /// Share of steps with a context from the song's codes; the others use the song with a gap.
    pub from_codes: f64,
    /// Share of unconditional items.
    pub unconditional: f64,
    /// Share of items with the timbre of a moment of the song itself; the others use silence.
    pub timbre: f64,
    /// Share of items without tempo, metre or key, drawn separately for each.
    pub unknown: f64,
}

/// Settings that change between phases of training.
#[derive(Debug, Clone, Copy)]
pub struct PhaseSettings {
    /// Distributions of times; successive items cycle through them.
    pub times: &'static [LogitNormal],
    /// [`TaskMix::unknown`] of steps with audio codes, which can tell tempo, metre and key
    /// themselves.
    pub unknown_with_codes: f64,
}

/// Training data and constants of all steps.
pub struct Examples<'a, B>
where
    B: AutodiffBackend + acestep_model::Backend,
    B::InnerBackend: acestep_model::Backend,
{
    /// The training pieces.
    pub pieces: Pieces<'a>,
    /// The tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// The audio codec, which is not trained here.
    pub codec: AudioCodec<B::InnerBackend>,
    /// Latents of silence, `[T, C]`.
    pub silence: &'a [f32],
    /// Channels of a frame.
    pub channels: usize,
    /// Frames of a timbre reference.
    pub timbre_frames: usize,
    /// Probabilities of the tasks and omissions.
    pub shares: TaskMix,
    /// The device.
    pub device: B::Device,
}

impl<B> Examples<'_, B>
where
    B: AutodiffBackend + acestep_model::Backend,
    B::InnerBackend: acestep_model::Backend,
{
    /// Returns the loss, `[1]`, of `frames` frames of pieces of equal length.
    pub fn loss(
        &self,
        model: &Singer<B>,
        frames: usize,
        emphasis: PhaseSettings,
        seed: u64,
    ) -> Tensor<B, 1> {
        let mut random = Pcg64::seed_from_u64(seed);
        let channels = self.channels;
        let class = self.pieces.class(&mut random);
        let length = self.pieces.piece(class[0]).latents.len() / channels;
        let items = (frames / length).max(1);
        let chosen: Vec<usize> =
            (0..items).map(|_| class[random.random_range(0..class.len())]).collect();

        let latents = |&piece: &usize| &self.pieces.piece(piece).latents;
        let song: Vec<f32> = chosen.iter().flat_map(latents).copied().collect();
        let (instruction, context) = self.context(&song, &chosen, &mut random);
        let unknown = match instruction {
            COVER => emphasis.unknown_with_codes,
            _ => self.shares.unknown,
        };
        let mut prompts = Vec::with_capacity(items);
        for &piece in &chosen {
            let example = self.pieces.piece(piece);
            let mut metas = example.labels.metas();
            let mut hide = || random.random_bool(unknown);
            if hide() {
                metas.bpm = None;
            }
            if hide() {
                metas.keyscale = None;
            }
            if hide() {
                metas.timesignature = None;
            }
            let lyrics = example.labels.lyric_prompt();
            prompts.push([example.labels.caption_prompt(instruction, &metas), lyrics]);
        }

        let unconditional: Vec<bool> =
            (0..items).map(|_| random.random_bool(self.shares.unconditional)).collect();
        let timbre = self.timbre(&song, items, &mut random);
        let condition = self.condition(model, &prompts, timbre, &unconditional);
        let condition = model.dit.attend_to(condition);

        let noise = normal(&mut random, song.len());
        let times: Vec<f32> = (0..items)
            .map(|item| emphasis.times[item % emphasis.times.len()].draw(&mut random))
            .collect();
        // ANCHOR: noisy
        let of_item = |index: usize| times[index / (length * channels)];
        let mix = |(index, (x, n)): (usize, (&f32, &f32))| {
            of_item(index) * n + (1.0 - of_item(index)) * x
        };
        let noisy: Vec<f32> = song.iter().zip(&noise).enumerate().map(mix).collect();
        let velocity: Vec<f32> = noise.iter().zip(&song).map(|(n, x)| n - x).collect();
        // ANCHOR_END: noisy
        let noisy = self.songs(noisy, items);
        let ours = model.dit.forward(noisy, context, [&times, &times], &condition);
        (ours - self.songs(velocity, items)).square().mean()
    }

    /// Returns the instruction of a random task, and its context for the songs of `pieces`.
    fn context(
        &self,
        song: &[f32],
        pieces: &[usize],
        random: &mut Pcg64,
    ) -> (&'static str, Tensor<B, 3>) {
        let (channels, items) = (self.channels, pieces.len());
        let length = song.len() / (items * channels);
        let TaskMix { from_text, from_codes, .. } = self.shares;
        let kind = random.random::<f64>();
        if kind < from_text {
            let silence = self.silent(length).repeat(items);
            (TEXT_TO_MUSIC, self.shown(self.songs(silence, items), |_, _| true))
        } else if kind < from_text + from_codes {
            let remembered: Vec<f32> =
                pieces.iter().flat_map(|&piece| self.remembered(piece)).copied().collect();
            (COVER, self.shown(self.songs(remembered, items), |_, _| true))
        } else {
            let gaps: Vec<Range<usize>> = (0..items)
                .map(|_| {
                    let first = random.random_range(0..length - length / 4);
                    first..random.random_range(first + length / 8..=length)
                })
                .collect();
            let mut kept = song.to_vec();
            for (item, gap) in kept.chunks_exact_mut(length * channels).zip(&gaps) {
                let silent = self.silent(length);
                let of_gap = gap.start * channels..gap.end * channels;
                item[of_gap.clone()].copy_from_slice(&silent[of_gap]);
            }
            let is_new = |item: usize, frame: usize| gaps[item].contains(&frame);
            (REPAINT, self.shown(self.songs(kept, items), is_new))
        }
    }

    /// Returns a piece's latents after its audio codes, `[T, C]`. It is computed without a batch,
    /// so that the result does not depend on other pieces.
    fn remembered(&self, piece: usize) -> &[f32] {
        self.pieces.remembered(piece, |example| {
            let song = self.songs(example.latents.clone(), 1).inner();
            let remembered = self.codec.round_trip(song.clone(), song);
            remembered.into_data().iter::<f32>().collect()
        })
    }

    /// Returns latents of songs of equal length as a tensor, `[B, T, C]`.
    fn songs(&self, values: Vec<f32>, items: usize) -> Tensor<B, 3> {
        let shape = [items, values.len() / (items * self.channels), self.channels];
        Tensor::from_data(TensorData::new(values, shape), &self.device)
    }

    /// Returns `frames` frames of silence, `[T, C]`.
    fn silent(&self, frames: usize) -> Vec<f32> {
        self.silence.iter().copied().cycle().take(frames * self.channels).collect()
    }

    /// Returns the context, `[B, T, 2 C]`: `songs`, `[B, T, C]`, and a mask of the frames to
    /// generate.
    fn shown(&self, songs: Tensor<B, 3>, is_new: impl Fn(usize, usize) -> bool) -> Tensor<B, 3> {
        let [items, length, channels] = songs.dims();
        let flag = |item, frame| f32::from(u8::from(is_new(item, frame)));
        let of_item = |item| (0..length).map(move |frame| (item, frame));
        let flags: Vec<f32> = (0..items)
            .flat_map(of_item)
            .flat_map(|(item, frame)| std::iter::repeat_n(flag(item, frame), channels))
            .collect();
        let flags = TensorData::new(flags, [items, length, channels]);
        Tensor::cat(vec![songs, Tensor::from_data(flags, &self.device)], 2)
    }

    /// Returns the latents of the timbre references, item by item.
    fn timbre(&self, songs: &[f32], items: usize, random: &mut Pcg64) -> Vec<f32> {
        let moment = self.timbre_frames * self.channels;
        let length = songs.len() / items;
        let mut timbre = Vec::with_capacity(items * moment);
        for song in songs.chunks_exact(length) {
            if random.random_bool(self.shares.timbre) && moment < length {
                let first = random.random_range(0..=(length - moment) / self.channels);
                timbre.extend(&song[first * self.channels..][..moment]);
            } else {
                timbre.extend(self.silence.iter().cycle().take(moment));
            }
        }
        timbre
    }

    /// Returns the condition of caption and lyric prompts, or the null condition, `[B, L, H]`.
    fn condition(
        &self,
        model: &Singer<B>,
        prompts: &[[String; 2]],
        timbre: Vec<f32>,
        unconditional: &[bool],
    ) -> Tensor<B, 3> {
        let [captions, lyrics] = [0, 1].map(|which| {
            let texts = prompts.iter().map(|prompt| prompt[which].as_str());
            let ids: Vec<Vec<u32>> = texts.map(|text| self.tokens(text)).collect();
            padded(ids, &self.device)
        });
        let text = Padded { hidden: model.text_encoder.forward(captions.0), mask: captions.1 };
        let lyrics = Padded { hidden: model.text_encoder.embed(lyrics.0), mask: lyrics.1 };
        let items = prompts.len();
        let timbre = TensorData::new(timbre, [items, self.timbre_frames, self.channels]);
        let timbre = Tensor::<B, 3>::from_data(timbre, &self.device);
        let inputs = ConditionInputs { text, lyrics, timbre, timbre_item: (0..items).collect() };
        let told = model.conditioner.forward(inputs).hidden;
        let none = model.conditioner.null_condition().expand(told.dims());
        let flags: Vec<f32> =
            unconditional.iter().map(|&unconditional| f32::from(u8::from(unconditional))).collect();
        let flags = TensorData::new(flags, [items, 1, 1]);
        let flags = Tensor::<B, 3>::from_data(flags, &self.device);
        told.clone() + (none - told) * flags
    }

    fn tokens(&self, text: &str) -> Vec<u32> {
        let encoding = self.tokenizer.encode_fast(text, true);
        encoding.expect("every text is bytes, and each has a token").get_ids().to_vec()
    }
}

/// Returns rows padded to equal length, and a mask of their real tokens.
pub(crate) fn padded<B: burn::tensor::backend::Backend>(
    ids: Vec<Vec<u32>>,
    device: &B::Device,
) -> (Tensor<B, 2, Int>, Vec<Vec<bool>>) {
    let longest = ids.iter().map(Vec::len).max().unwrap_or(0);
    let mask = ids.iter().map(|row| (0..longest).map(|i| i < row.len()).collect()).collect();
    // Padding has no effect: attention is causal, and packing moves padding to the end.
    let fill = |row: &Vec<u32>| {
        let padding = std::iter::repeat_n(0, longest - row.len());
        row.iter().map(|&id| id as i32).chain(padding).collect::<Vec<i32>>()
    };
    let values: Vec<i32> = ids.iter().flat_map(fill).collect();
    let shape = [ids.len(), longest];
    (Tensor::from_data(TensorData::new(values, shape), device), mask)
}
