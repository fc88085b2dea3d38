//! The diffusion transformer learns, and with it the encoders that tell it what is wanted.
//!
//! `mean (v - (noise - x0))^2` with `v = dit(t noise + (1 - t) x0, t | context, condition)` and
//! `t = sigmoid(mu + sigma n)`. In some steps the condition is left out, so that guidance has something
//! to steer away from.
//!
//! What the context shows differs from item to item, as the tasks do: silence; the song through its
//! audio codes; the song with a gap.
//!
//! Source: upstream `training_v2`; Lipman et al. 2023, arXiv:2210.02747; Esser et al. 2024,
//! arXiv:2403.03206 (times).

use acestep_model::{
    acestep::{AudioCodec, ConditionInputs, Conditioner, Dit, Packed},
    qwen3,
};
use acestep_runtime::prompt::{COVER, REPAINT, TEXT_TO_MUSIC};
use burn::{
    module::Module,
    tensor::{Int, Tensor, TensorData, backend::AutodiffBackend},
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tokenizers::Tokenizer;

use crate::{corpus::Example, vae::normal};

/// The networks that learn together.
#[derive(Module, Debug)]
pub struct Singer<B: acestep_model::Backend> {
    /// Reads captions.
    pub text_encoder: qwen3::Model<B>,
    /// Puts together what was read.
    pub conditioner: Conditioner<B>,
    /// Sings.
    pub dit: Dit<B>,
}

impl<B: acestep_model::Backend> Singer<B> {
    /// Random ones.
    pub fn init(
        text: &qwen3::Config,
        config: &acestep_model::acestep::Config,
        device: &B::Device,
    ) -> Self {
        Self {
            text_encoder: qwen3::Model::init(text, device),
            conditioner: Conditioner::init(config, device),
            dit: Dit::init(config, device),
        }
    }
}

/// Shares of steps and items.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    /// Items that see nothing of the song.
    pub from_text: f64,
    /// Items that see it through its codes; the others see it with a gap.
    pub from_codes: f64,
    /// Items that are not told what is wanted.
    pub untold: f64,
    /// Items that are not told one of tempo, metre and key each.
    pub unknown: f64,
}

/// Mean and spread of the times before they are squeezed into 0 to 1.
const TIMES: [f32; 2] = [-0.4, 1.0];

/// What does not change from step to step.
pub struct Lessons<'a, B>
where
    B: AutodiffBackend + acestep_model::Backend,
    B::InnerBackend: acestep_model::Backend,
{
    /// All pieces.
    pub corpus: &'a [Example],
    /// The numbers of the pieces of each length.
    pub by_length: Vec<Vec<usize>>,
    /// Texts to tokens.
    pub tokenizer: &'a Tokenizer,
    /// Latents to codes and back, which learn no more.
    pub codec: &'a AudioCodec<B::InnerBackend>,
    /// Of silence, `[T, C]`.
    pub silence: &'a [f32],
    /// Numbers of a frame.
    pub channels: usize,
    /// Frames of silence that stand for "no timbre".
    pub timbre_frames: usize,
    /// How often what happens.
    pub shares: Shares,
    /// Where it is computed.
    pub device: B::Device,
}

/// The numbers of pieces of each length, shortest first.
pub fn by_length(corpus: &[Example]) -> Vec<Vec<usize>> {
    let mut lengths: Vec<usize> = corpus.iter().map(|example| example.latents.len()).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let of = |&length: &usize| {
        let is = |&index: &usize| corpus[index].latents.len() == length;
        (0..corpus.len()).filter(is).collect()
    };
    lengths.iter().map(of).collect()
}

impl<B> Lessons<'_, B>
where
    B: AutodiffBackend + acestep_model::Backend,
    B::InnerBackend: acestep_model::Backend,
{
    /// The loss of `frames` frames of pieces of one length.
    pub fn loss(&self, model: &Singer<B>, frames: usize, seed: u64) -> Tensor<B, 1> {
        let mut random = Pcg64::seed_from_u64(seed);
        let channels = self.channels;
        let class = self.class(&mut random);
        let length = self.corpus[class[0]].latents.len() / channels;
        let items = (frames / length).max(1);
        let chosen: Vec<&Example> =
            (0..items).map(|_| &self.corpus[class[random.random_range(0..class.len())]]).collect();

        let song: Vec<f32> = chosen.iter().flat_map(|example| &example.latents).copied().collect();
        let mut context = Vec::with_capacity(2 * song.len());
        let mut prompts = Vec::with_capacity(items);
        let through_codes = self.through_codes(&song, items);
        for (item, example) in chosen.iter().enumerate() {
            let of_item = item * length * channels..(item + 1) * length * channels;
            let kind = random.random::<f64>();
            let Shares { from_text, from_codes, unknown, .. } = self.shares;
            let (instruction, gap, shown) = match kind {
                _ if kind < from_text => (TEXT_TO_MUSIC, 0..length, None),
                _ if kind < from_text + from_codes => {
                    (COVER, 0..length, Some(&through_codes[of_item]))
                }
                _ => {
                    let first = random.random_range(0..length - length / 4);
                    let last = random.random_range(first + length / 8..=length);
                    (REPAINT, first..last, Some(&song[of_item]))
                }
            };
            let is_repaint = instruction == REPAINT;
            for frame in 0..length {
                let inside = gap.contains(&frame);
                let silence = &self.silence[frame * channels % self.silence.len()..][..channels];
                context.extend(match shown {
                    Some(shown) if !(is_repaint && inside) => {
                        &shown[frame * channels..][..channels]
                    }
                    _ => silence,
                });
                context.extend(std::iter::repeat_n(f32::from(u8::from(inside)), channels));
            }
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

        let untold: Vec<bool> =
            (0..items).map(|_| random.random_bool(self.shares.untold)).collect();
        let condition = self.condition(model, &prompts, &untold);
        let condition = model.dit.attend_to(condition);

        let shape = [items, length, channels];
        let noise = normal(&mut random, song.len());
        let times: Vec<f32> = normal(&mut random, items)
            .into_iter()
            .map(|n| 1.0 / (1.0 + (-TIMES[0] - TIMES[1] * n).exp()))
            .collect();
        // ANCHOR: noisy
        let of_item = |index: usize| times[index / (length * channels)];
        let mix = |(index, (x, n)): (usize, (&f32, &f32))| {
            of_item(index) * n + (1.0 - of_item(index)) * x
        };
        let noisy: Vec<f32> = song.iter().zip(&noise).enumerate().map(mix).collect();
        let velocity: Vec<f32> = noise.iter().zip(&song).map(|(n, x)| n - x).collect();
        // ANCHOR_END: noisy
        let tensor = |values: Vec<f32>, shape: [usize; 3]| {
            Tensor::<B, 3>::from_data(TensorData::new(values, shape), &self.device)
        };
        let context = tensor(context, [items, length, 2 * channels]);
        let ours = model.dit.forward(tensor(noisy, shape), context, [&times, &times], &condition);
        (ours - tensor(velocity, shape)).square().mean()
    }

    /// Pieces of one length; each as often as it has frames.
    fn class(&self, random: &mut Pcg64) -> &[usize] {
        let frames = |class: &Vec<usize>| class.len() * self.corpus[class[0]].latents.len();
        let mut left = random.random_range(0..self.by_length.iter().map(frames).sum::<usize>());
        for class in &self.by_length {
            if left < frames(class) {
                return class;
            }
            left -= frames(class);
        }
        &self.by_length[0]
    }

    /// What is left of songs after their codes.
    fn through_codes(&self, songs: &[f32], items: usize) -> Vec<f32> {
        let shape = [items, songs.len() / items / self.channels, self.channels];
        let latents = TensorData::new(songs.to_vec(), shape);
        let latents = Tensor::<B::InnerBackend, 3>::from_data(latents, &self.device);
        let silence = TensorData::new(
            self.silence.to_vec(),
            [1, self.silence.len() / self.channels, self.channels],
        );
        let silence = Tensor::from_data(silence, &self.device);
        self.codec.round_trip(latents, silence).into_data().to_vec().unwrap_or_default()
    }

    /// The condition of caption and lyric prompts, or that of none, `[B, L, H]`.
    fn condition(
        &self,
        model: &Singer<B>,
        prompts: &[[String; 2]],
        untold: &[bool],
    ) -> Tensor<B, 3> {
        let [captions, lyrics] = [0, 1].map(|which| {
            let texts = prompts.iter().map(|prompt| prompt[which].as_str());
            let ids: Vec<Vec<u32>> = texts.map(|text| self.tokens(text)).collect();
            padded(ids, &self.device)
        });
        let text = Packed { hidden: model.text_encoder.forward(captions.0), mask: captions.1 };
        let lyrics = Packed { hidden: model.text_encoder.embed(lyrics.0), mask: lyrics.1 };
        let items = prompts.len();
        let frames = self.timbre_frames;
        let silence = self.silence.iter().copied().cycle().take(frames * self.channels).collect();
        let silence = TensorData::new(silence, [1, frames, self.channels]);
        let timbre =
            Tensor::<B, 3>::from_data(silence, &self.device).expand([items, frames, self.channels]);
        let inputs = ConditionInputs { text, lyrics, timbre, timbre_item: (0..items).collect() };
        let told = model.conditioner.forward(inputs).hidden;
        let none = model.conditioner.null_condition().expand(told.dims());
        let flags: Vec<f32> = untold.iter().map(|&untold| f32::from(u8::from(untold))).collect();
        let flags = TensorData::new(flags, [items, 1, 1]);
        let flags = Tensor::<B, 3>::from_data(flags, &self.device);
        told.clone() + (none - told) * flags
    }

    fn tokens(&self, text: &str) -> Vec<u32> {
        let encoding = self.tokenizer.encode_fast(text, true);
        encoding.map(|encoding| encoding.get_ids().to_vec()).unwrap_or_default()
    }
}

/// Rows of one length, and which of their tokens are real.
pub(crate) fn padded<B: burn::tensor::backend::Backend>(
    ids: Vec<Vec<u32>>,
    device: &B::Device,
) -> (Tensor<B, 2, Int>, Vec<Vec<bool>>) {
    let longest = ids.iter().map(Vec::len).max().unwrap_or(0);
    let mask = ids.iter().map(|row| (0..longest).map(|i| i < row.len()).collect()).collect();
    // What stands there reaches nothing: attention is causal, and packing moves it to the end.
    let fill = |row: &Vec<u32>| {
        let padding = std::iter::repeat_n(0, longest - row.len());
        row.iter().map(|&id| id as i32).chain(padding).collect::<Vec<i32>>()
    };
    let values: Vec<i32> = ids.iter().flat_map(fill).collect();
    let shape = [ids.len(), longest];
    (Tensor::from_data(TensorData::new(values, shape), device), mask)
}
