//! The frames of a run, one after the other: two models that decode as one.
//!
//! Source: upstream `Qwen3TTSTalkerForConditionalGeneration.forward` and `generate`.

use std::rc::Rc;

use acestep_engine::{
    Error,
    host::to_host,
    sampling::{Draws, ScoreError},
};
use acestep_model::{
    Backend,
    nn::Cache,
    speech::qwen3_tts::{CodePredictor, Talker},
};
use burn::tensor::{Tensor, TensorData};

use crate::{
    choose::{Filters, restrict},
    error::SpeechError,
    networks::{Networks, TALKER},
    plan::Plan,
    prompt::{Codec, Prompt},
    voice::Voice,
};

/// The reason why the frames ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The talker wrote its end.
    Finished,
    /// The limit of frames was reached first.
    Limit,
}

/// An iterator over the frames of a run. A frame is 16 codes.
#[derive(Debug)]
pub struct Frames<'a, B: Backend> {
    talker: Rc<Talker<B>>,
    state: State<'a, B>,
}

/// The state of a run after its last frame.
#[derive(Debug)]
struct State<'a, B: Backend> {
    plan: &'a Plan,
    device: B::Device,
    /// Id of the end.
    end: u32,
    cache: Cache<B>,
    of_frame: Cache<B>,
    /// The talker's last hidden state, `[1, 1, H]`.
    hidden: Tensor<B, 3>,
    /// The text that is added to the frames, `[1, n, H]`, and after it, `[1, 1, H]`.
    trailing: [Tensor<B, 3>; 2],
    history: Vec<u32>,
    draws: Draws,
    /// A frame that the talker has not read yet.
    unread: Option<Vec<u32>>,
    frames: usize,
    ending: Option<Ending>,
}

impl<'a, B: Backend> Frames<'a, B> {
    /// Reads the prompt of `plan`.
    ///
    /// # Errors
    /// The errors of loading.
    pub fn begin(plan: &'a Plan, networks: &Networks<'_, B>) -> Result<Self, Error> {
        let loaded = networks.talker()?;
        let talker = &*loaded;
        let config = networks.checkpoint().config();
        let (device, place) = (networks.device().clone(), networks.place(TALKER));
        let rows = plan.prompt.rows.len();
        let mut cache = Talker::cache(config, 1, rows + plan.most_frames, &place);
        let of_frame = CodePredictor::cache(&config.talker_config, 1, &place);
        let prompt = embedded(talker, &plan.prompt, plan.voice.as_ref(), &device);
        let hidden = B::on_pool(|| talker.read(prompt, 0..1, &mut cache));
        let trailing = [&plan.prompt.trailing[..], &[config.tts_pad_token_id]]
            .map(|ids| talker.text(ids, &device));
        let state = State {
            plan,
            device,
            end: config.talker_config.codec_eos_token_id,
            cache,
            of_frame,
            hidden,
            trailing,
            history: Vec::new(),
            draws: Draws::new(plan.seed, config.talker_config.vocab_size),
            unread: None,
            frames: 0,
            ending: None,
        };
        Ok(Self { talker: loaded, state })
    }

    /// Returns the reason of the end, if the frames have ended.
    pub fn ending(&self) -> Option<Ending> {
        self.state.ending
    }
}

impl<B: Backend> State<'_, B> {
    /// Returns the next frame, or `None` after the last one.
    fn step(&mut self, talker: &Talker<B>) -> Result<Option<Vec<u32>>, Error> {
        if self.ending.is_some() {
            return Ok(None);
        }
        if let Some(frame) = self.unread.take() {
            self.read(talker, frame);
        }
        let settings = &self.plan.sampling;
        let mut logits = to_host(talker.scores(self.hidden.clone()));
        restrict(&mut logits, &self.history, settings.repetition_penalty, self.end);
        let first = Filters::of_talker(settings).choose(logits, &mut self.draws);
        let first = first.map_err(|why| self.unusable(why))?;
        self.history.push(first);
        if first == self.end {
            self.ending = Some(Ending::Finished);
            return Ok(None);
        }
        // The limit counts first codes, and the last of them gets no frame.
        if self.frames == self.plan.most_frames {
            self.ending = Some(Ending::Limit);
            return Ok(None);
        }
        let frame = self.complete(talker, first)?;
        self.frames += 1;
        self.unread = Some(frame.clone());
        Ok(Some(frame))
    }

    /// Adds a frame and the next text to what the talker has read.
    fn read(&mut self, talker: &Talker<B>, frame: Vec<u32>) {
        let [trailing, none] = &self.trailing;
        let at = self.frames - 1;
        let text = match at < trailing.dims()[1] {
            true => trailing.clone().narrow(1, at, 1),
            false => none.clone(),
        };
        let row = talker.frames(&[frame], &self.device) + text;
        self.hidden = talker.read(row, 0..1, &mut self.cache);
    }

    // ANCHOR: frame
    /// Returns the frame that begins with `first`.
    fn complete(&mut self, talker: &Talker<B>, first: u32) -> Result<Vec<u32>, Error> {
        let predictor = talker.code_predictor();
        let filters = Filters::of_predictor(&self.plan.sampling);
        self.of_frame.truncate(0, 0);
        let mut frame = vec![first];
        let first = talker.codec(&frame, &self.device);
        let mut x = Tensor::cat(vec![self.hidden.clone(), first], 1);
        for group in 1..predictor.groups() {
            let scores = predictor.scores(x, group, 0..1, &mut self.of_frame);
            let code = filters.choose(to_host(scores), &mut self.draws);
            let code = code.map_err(|why| self.unusable(why))?;
            frame.push(code);
            x = predictor.codes(group, &[code], &self.device);
        }
        Ok(frame)
    }
    // ANCHOR_END: frame

    fn unusable(&self, why: ScoreError) -> Error {
        SpeechError::Scores { frame: self.frames, why }.into()
    }
}

impl<B: Backend> Iterator for Frames<'_, B> {
    type Item = Result<Vec<u32>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let (talker, state) = (&*self.talker, &mut self.state);
        // Once for a whole frame: no thread is woken between its steps.
        B::on_pool(|| state.step(talker)).transpose()
    }
}

/// Returns the vectors of a prompt, `[1, rows, H]`.
pub fn embedded<B: Backend>(
    talker: &Talker<B>,
    prompt: &Prompt,
    voice: Option<&Voice>,
    device: &B::Device,
) -> Tensor<B, 3> {
    let ids: Vec<u32> = prompt.rows.iter().filter_map(|row| row.text).collect();
    let texts = talker.text(&ids, device);
    let [_, _, width] = texts.dims();
    let codes: Vec<u32> = prompt.rows.iter().filter_map(|row| id_of(row.codec)).collect();
    let codes = talker.codec(&codes, device);
    let speaker = voice.map(|voice| {
        let data = TensorData::new(voice.speaker.clone(), [1, 1, voice.speaker.len()]);
        Tensor::from_data(data, (device, texts.dtype()))
    });
    let context = voice.and_then(|voice| voice.context.as_ref());
    let frames = context
        .filter(|context| !context.frames.is_empty())
        .map(|context| talker.frames(&context.frames, device));
    let (mut text, mut code) = (0, 0);
    let next = |from: &Tensor<B, 3>, at: &mut usize| {
        *at += 1;
        from.clone().narrow(1, *at - 1, 1)
    };
    let rows = prompt.rows.iter().map(|row| {
        let words = row.text.map(|_| next(&texts, &mut text));
        let sound = row.codec.map(|codec| match codec {
            Codec::Id(_) => next(&codes, &mut code),
            Codec::Speaker => speaker.clone().expect("a prompt with a voice has its vector"),
            Codec::Frame(frame) => {
                let frames = frames.as_ref().expect("a prompt with frames has a recording");
                frames.clone().narrow(1, frame, 1)
            }
        });
        match (words, sound) {
            (Some(words), Some(sound)) => words + sound,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => Tensor::zeros([1, 1, width], (device, texts.dtype())),
        }
    });
    Tensor::cat(rows.collect(), 1)
}

fn id_of(codec: Option<Codec>) -> Option<u32> {
    match codec? {
        Codec::Id(id) => Some(id),
        Codec::Speaker | Codec::Frame(_) => None,
    }
}
