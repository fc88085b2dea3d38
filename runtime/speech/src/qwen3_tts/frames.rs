//! Frames of codes, one after the other: two models that decode as one, for several runs at once.
//!
//! Source: upstream `Qwen3TTSTalkerForConditionalGeneration.forward` and `generate`.

mod chain;

use std::{ops::Range, rc::Rc};

use acestep_engine::{
    Error,
    host::to_host,
    sampling::{Draws, ScoreError},
};
use acestep_model::{
    Backend, Place,
    nn::Cache,
    speech::qwen3_tts::{CodePredictor, Config, GenerationConfig, Talker},
};
use burn::tensor::{Tensor, TensorData};

use super::{
    choose::{Filters, restrict},
    networks::{Networks, TALKER},
    plan::Plan,
    prompt::{Codec, Row},
    trailing::Trailing,
    voice::Voice,
};
use crate::{error::SpeechError, spoken::StopReason};

/// Runs side by side, which share each pass over the weights. A run gets the frames that it would
/// get alone.
///
/// Each run has a row of the caches; the rows of runs that have not ended are the first ones.
#[derive(Debug)]
pub struct Frames<B: Backend> {
    talker: Rc<Talker<B>>,
    state: State<B>,
}

/// The runs and their caches.
#[derive(Debug)]
struct State<B: Backend> {
    config: Config,
    place: Place<B>,
    cache: Cache<B>,
    of_frame: Cache<B>,
    /// The text vector after the end of a text, `[1, 1, H]`.
    no_text: Tensor<B, 3>,
    runs: Vec<Run<B>>,
    /// True if the code predictor's codes are drawn on the device.
    draws_on_device: bool,
}

/// The state of a run after its last frame.
#[derive(Debug)]
struct Run<B: Backend> {
    /// The number that the caller gave it.
    id: usize,
    sampling: GenerationConfig,
    most_frames: usize,
    /// The reason of the end after so many frames.
    limit: StopReason,
    /// The talker's last hidden state, `[1, 1, H]`.
    hidden: Tensor<B, 3>,
    /// The text that is added to the frames.
    trailing: Trailing<B>,
    history: Vec<u32>,
    draws: Draws,
    /// A frame that the talker has not read yet.
    unread: Option<Vec<u32>>,
    frames: usize,
}

/// The talker's keys and values of the first rows of a prompt.
#[derive(Debug, Clone)]
pub struct PromptCache<B: Backend> {
    pub(crate) rows: Vec<Row>,
    /// Keys and values of every layer, `[1, kv_heads, rows, D]`.
    pub(crate) keys_values: Vec<[Tensor<B, 4>; 2]>,
}

/// The result of a step for one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunStep {
    /// The next frame.
    Frame(Vec<u32>),
    /// The run has ended.
    End(StopReason),
}

impl<B: Backend> Frames<B> {
    /// Creates room for `rows` runs at once.
    ///
    /// # Errors
    /// The errors of loading.
    pub fn new(rows: usize, networks: &Networks<'_, B>) -> Result<Self, Error> {
        let talker = networks.talker()?;
        let config = networks.checkpoint().config().clone();
        let place = networks.place(TALKER);
        let no_text = talker.text(&[config.tts_pad_token_id], &place.device);
        let cache = Talker::cache(&config, rows, 0, &place);
        let of_frame = CodePredictor::cache(&config.talker_config, rows, &place);
        let (runs, draws_on_device) = (Vec::new(), B::DRAWS);
        let state = State { config, place, cache, of_frame, no_text, runs, draws_on_device };
        Ok(Self { talker, state })
    }

    /// Draws the code predictor's codes on the device, or else on the host, so that a test can compare both.
    #[doc(hidden)]
    pub fn draw_on_device(&mut self, on_device: bool) {
        self.state.draws_on_device = on_device;
    }

    /// Begins run `id`: reads the prompt of `plan`, whose first rows may be known from `prefix`.
    ///
    /// # Panics
    /// If there is no room for another run.
    pub fn begin(&mut self, id: usize, plan: &Plan, prefix: Option<&PromptCache<B>>) {
        let (talker, state) = (&*self.talker, &mut self.state);
        let row = state.runs.len();
        assert!(row < state.cache.rows(), "there is room for {} runs", state.cache.rows());
        state.make_room(plan.prompt.rows.len() + plan.most_frames);
        state.cache.truncate(row, 0);
        let known = known_rows(plan);
        match prefix.filter(|prefix| prefix.rows == plan.prompt.rows[..known]) {
            Some(prefix) => state.cache.set_row(row, prefix.keys_values.clone()),
            None if known > 0 => drop(state.read_prompt(talker, row, plan, 0..known)),
            None => {}
        }
        let hidden = state.read_prompt(talker, row, plan, known..plan.prompt.rows.len());
        state.runs.push(Run {
            id,
            sampling: plan.sampling.clone(),
            most_frames: plan.most_frames,
            limit: plan.limit,
            hidden,
            trailing: Trailing::new(plan.prompt.trailing.clone()),
            history: Vec::new(),
            draws: Draws::new(plan.seed, state.config.talker_config.vocab_size),
            unread: None,
            frames: 0,
        });
    }

    /// Reads the rows of a plan's prompt that do not depend on its text, before any run.
    pub(crate) fn prefix(&mut self, plan: &Plan) -> PromptCache<B> {
        let (known, state) = (known_rows(plan), &mut self.state);
        state.make_room(known);
        state.cache.truncate(0, 0);
        state.read_prompt(&self.talker, 0, plan, 0..known);
        PromptCache { rows: plan.prompt.rows[..known].to_vec(), keys_values: state.cache.row(0) }
    }

    /// Ends run `id` before its own end.
    pub fn end(&mut self, id: usize) {
        if let Some(row) = self.state.runs.iter().position(|run| run.id == id) {
            self.state.remove(row);
        }
    }

    /// Returns the next frame, or the end, of each run, with its number. A run that ended is gone.
    ///
    /// # Errors
    /// [`SpeechError::Scores`].
    pub fn step(&mut self) -> Result<Vec<(usize, RunStep)>, Error> {
        let (talker, state) = (&*self.talker, &mut self.state);
        // Once for a whole frame: no thread is woken between its steps.
        B::on_pool(|| state.step(talker))
    }
}

impl<B: Backend> Iterator for Frames<B> {
    type Item = Result<Vec<(usize, RunStep)>, Error>;

    /// Takes a [`Self::step`], or returns `None` if all runs have ended.
    fn next(&mut self) -> Option<Self::Item> {
        (!self.state.runs.is_empty()).then(|| self.step())
    }
}

impl<B: Backend> State<B> {
    fn step(&mut self, talker: &Talker<B>) -> Result<Vec<(usize, RunStep)>, Error> {
        self.read_frames(talker);
        let hidden = self.runs.iter().map(|run| run.hidden.clone()).collect();
        let logits = to_host(talker.scores(Tensor::cat(hidden, 0)));
        let vocabulary = self.config.talker_config.vocab_size;
        let end = self.config.talker_config.codec_eos_token_id;
        let mut steps = Vec::new();
        for (run, logits) in self.runs.iter_mut().zip(logits.chunks(vocabulary)) {
            if let Some(ending) = run.first_code(logits.to_vec(), end)? {
                steps.push((run.id, RunStep::End(ending)));
            }
        }
        for row in (0..self.runs.len()).rev() {
            if steps.iter().any(|(id, _)| *id == self.runs[row].id) {
                self.remove(row);
            }
        }
        match self.device_draws() {
            _ if self.runs.is_empty() => {}
            Some(draws) => self.complete_on_device(talker, &draws)?,
            None => self.complete(talker)?,
        }
        steps.extend(self.runs.iter().filter_map(|run| {
            let frame = run.unread.clone()?;
            Some((run.id, RunStep::Frame(frame)))
        }));
        Ok(steps)
    }

    /// Adds the unread frames and the texts beside them to what the talker has read.
    fn read_frames(&mut self, talker: &Talker<B>) {
        let device = &self.place.device;
        let mut first = 0;
        while first < self.runs.len() {
            let unread = self.runs[first..].iter().take_while(|run| run.unread.is_some()).count();
            let rows = first..first + unread;
            // A run that has just begun has nothing to read.
            first = rows.end + 1;
            if rows.is_empty() {
                continue;
            }
            let runs = &mut self.runs[rows.clone()];
            let texts = runs.iter_mut().map(|run| {
                let text = run.trailing.at(run.frames - 1, talker, device);
                text.unwrap_or_else(|| self.no_text.clone())
            });
            let texts = texts.collect();
            let frames: Vec<_> = runs.iter_mut().filter_map(|run| run.unread.take()).collect();
            let x = talker.frames(&frames, device).swap_dims(0, 1) + Tensor::cat(texts, 0);
            let hidden = talker.read(x, rows, &mut self.cache);
            for (row, run) in runs.iter_mut().enumerate() {
                run.hidden = hidden.clone().narrow(0, row, 1);
            }
        }
    }

    // ANCHOR: frame
    /// Completes the frames that begin with the last codes of the runs.
    fn complete(&mut self, talker: &Talker<B>) -> Result<(), Error> {
        let (predictor, device) = (talker.code_predictor(), self.place.device.clone());
        let rows = 0..self.runs.len();
        let mut frames: Vec<Vec<u32>> =
            self.runs.iter().map(|run| run.history.last().copied().into_iter().collect()).collect();
        let mut x = talker.codec(&frames.concat(), &device).swap_dims(0, 1);
        for group in 1..predictor.groups() {
            let scores = match group {
                1 => self.first_scores(predictor, x),
                _ => predictor.scores(x, group, rows.clone(), &mut self.of_frame),
            };
            let scores = to_host(scores);
            let per_run = scores.chunks(scores.len() / rows.len());
            for ((run, frame), scores) in self.runs.iter_mut().zip(&mut frames).zip(per_run) {
                let filters = Filters::of_predictor(&run.sampling);
                let code = filters.choose(scores.to_vec(), &mut run.draws);
                frame.push(code.map_err(|why| run.unusable(why))?);
            }
            let last: Vec<u32> = frames.iter().map(|frame| frame[group]).collect();
            x = predictor.codes(group, &last, &device).swap_dims(0, 1);
        }
        for (run, frame) in self.runs.iter_mut().zip(frames) {
            run.frames += 1;
            run.unread = Some(frame);
        }
        Ok(())
    }
    // ANCHOR_END: frame

    /// Returns the predictor's scores after two vectors of each run: the talker's hidden state, and that
    /// of the first code, `[runs, 1, H]`.
    fn first_scores(&mut self, predictor: &CodePredictor<B>, codes: Tensor<B, 3>) -> Tensor<B, 3> {
        let scores = self.runs.iter().enumerate().map(|(row, run)| {
            self.of_frame.truncate(row, 0);
            let x = Tensor::cat(vec![run.hidden.clone(), codes.clone().narrow(0, row, 1)], 1);
            predictor.scores(x, 1, row..row + 1, &mut self.of_frame)
        });
        Tensor::cat(scores.collect(), 0)
    }

    /// Ends the run of `row`. The last run takes its place.
    fn remove(&mut self, row: usize) {
        let last = self.runs.len() - 1;
        if row != last {
            self.cache.copy_row(last, row);
        }
        self.runs.swap_remove(row);
    }

    /// Makes the cache large enough for `positions`.
    fn make_room(&mut self, positions: usize) {
        if self.cache.capacity() >= positions {
            return;
        }
        let mut larger = Talker::cache(&self.config, self.cache.rows(), positions, &self.place);
        for row in 0..self.runs.len() {
            larger.set_row(row, self.cache.row(row));
        }
        self.cache = larger;
    }

    /// Reads `part` of a plan's prompt, and returns the last hidden state.
    fn read_prompt(
        &mut self,
        talker: &Talker<B>,
        row: usize,
        plan: &Plan,
        part: Range<usize>,
    ) -> Tensor<B, 3> {
        let rows = &plan.prompt.rows[part];
        let x = embedded(talker, rows, plan.voice.as_ref(), &self.place.device);
        B::on_pool(|| talker.read(x, row..row + 1, &mut self.cache))
    }
}

/// Returns the number of rows that are read before the others, because a kept voice knows them. The
/// result must not depend on whether it is kept, so they are always read apart.
pub(crate) fn known_rows(plan: &Plan) -> usize {
    if plan.voice.is_some() { plan.prompt.shared } else { 0 }
}

impl<B: Backend> Run<B> {
    /// Chooses the first code of the next frame. Returns the reason if there is no next frame.
    fn first_code(&mut self, mut logits: Vec<f32>, end: u32) -> Result<Option<StopReason>, Error> {
        let penalty = self.sampling.repetition_penalty;
        restrict(&mut logits, &self.history, penalty, end);
        let code = Filters::of_talker(&self.sampling).choose(logits, &mut self.draws);
        let code = code.map_err(|why| self.unusable(why))?;
        self.history.push(code);
        Ok(match code {
            code if code == end => Some(StopReason::Finished),
            // The limit counts first codes, and the last of them gets no frame.
            _ if self.frames == self.most_frames => Some(self.limit),
            _ => None,
        })
    }

    fn unusable(&self, why: ScoreError) -> Error {
        SpeechError::Scores { frame: self.frames, why }.into()
    }
}

/// Returns the vectors of rows of a prompt, `[1, rows, H]`.
///
/// Each row is a sum of two vectors of one list, in which the last is zero. So the operations do not
/// depend on the number of rows, for which a GPU would compile them anew.
pub fn embedded<B: Backend>(
    talker: &Talker<B>,
    rows: &[Row],
    voice: Option<&Voice>,
    device: &B::Device,
) -> Tensor<B, 3> {
    let texts: Vec<u32> = rows.iter().filter_map(|row| row.text).collect();
    let codes: Vec<u32> = rows.iter().filter_map(|row| id_of(row.codec)).collect();
    let context = voice.and_then(|voice| voice.context.as_ref());
    let frames = context.map_or(&[][..], |context| &context.frames);
    let speaker = voice.map_or(&[][..], |voice| &voice.speaker);
    let mut vectors = vec![talker.text(&texts, device)];
    let (dtype, width) = (vectors[0].dtype(), vectors[0].dims()[2]);
    if !codes.is_empty() {
        vectors.push(talker.codec(&codes, device));
    }
    if !frames.is_empty() {
        vectors.push(talker.frames(frames, device));
    }
    if !speaker.is_empty() {
        let data = TensorData::new(speaker.to_vec(), [1, 1, width]);
        vectors.push(Tensor::from_data(data, (device, dtype)));
    }
    vectors.push(Tensor::zeros([1, 1, width], (device, dtype)));
    let first_frame = texts.len() + codes.len();
    let of_speaker = first_frame + frames.len();
    let zero = of_speaker + usize::from(!speaker.is_empty());
    let (mut text, mut code) = (0..texts.len(), texts.len()..first_frame);
    let of_text = |row: &Row| row.text.and_then(|_| text.next()).unwrap_or(zero);
    let of_codec = |row: &Row| match row.codec {
        None => zero,
        Some(Codec::Id(_)) => code.next().unwrap_or(zero),
        Some(Codec::Speaker) => {
            assert!(!speaker.is_empty(), "a prompt with a voice has its vector");
            of_speaker
        }
        Some(Codec::Frame(frame)) => {
            assert!(frame < frames.len(), "a prompt with frames has a recording");
            first_frame + frame
        }
    };
    let vectors = Tensor::cat(vectors, 1);
    let chosen = |indices: Vec<usize>| {
        let indices: Vec<i32> = indices.into_iter().map(|index| index as i32).collect();
        vectors.clone().select(1, Tensor::from_data(&*indices, device))
    };
    chosen(rows.iter().map(of_text).collect()) + chosen(rows.iter().map(of_codec).collect())
}

fn id_of(codec: Option<Codec>) -> Option<u32> {
    match codec? {
        Codec::Id(id) => Some(id),
        Codec::Speaker | Codec::Frame(_) => None,
    }
}
