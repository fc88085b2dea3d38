//! The networks with one voice, as a run asks for them.

use std::rc::Rc;

use acestep_engine::Error;
use acestep_model::{
    Backend, Place,
    speech::magpie::{Decoder, DecoderState, Encoder, LocalState, LocalTransformer, Start},
};
use burn::tensor::{Int, Tensor, TensorData};

use super::{
    network::{StepOutput, VoiceNetworks},
    networks::{DECODER, LOCAL_TRANSFORMER, Networks},
};
use crate::networks::rows_of;

/// Settings of the networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkOptions {
    /// Row of the table of voices.
    pub voice: usize,
    /// True for a second, unconditional sequence.
    pub is_guided: bool,
    /// Most steps of a chunk.
    pub most_steps: usize,
    /// True to compute all rows again under the newest prior.
    pub exact_prior: bool,
}

impl NetworkOptions {
    fn rows(self) -> usize {
        1 + usize::from(self.is_guided)
    }
}

/// The networks with one voice.
#[derive(Debug)]
pub struct Voiced<B: Backend> {
    encoder: Rc<Encoder<B>>,
    decoder: Rc<Decoder<B>>,
    local: Rc<LocalTransformer<B>>,
    place: Place<B>,
    options: NetworkOptions,
    codebooks: usize,
    context: Tensor<B, 3>,
    state: Option<DecoderState<B>>,
    of_stack: LocalState<B>,
    hidden: Option<Tensor<B, 2>>,
}

impl<B: Backend> Voiced<B> {
    /// Loads the networks.
    ///
    /// # Errors
    /// The errors of loading.
    pub fn new(networks: &Networks<'_, B>, options: NetworkOptions) -> Result<Self, Error> {
        let (encoder, decoder) = (networks.encoder()?, networks.decoder()?);
        let (local, place) = (networks.local_transformer()?, networks.place(DECODER));
        let rows = options.rows();
        Ok(Self {
            codebooks: networks.checkpoint().sizes().codebooks,
            context: decoder.context(options.voice, &place.device),
            state: None,
            of_stack: local.start(rows, &networks.place(LOCAL_TRANSFORMER)),
            hidden: None,
            encoder,
            decoder,
            local,
            place,
            options,
        })
    }

    /// The rows of the decoder after the last step, for tests.
    #[doc(hidden)]
    pub fn hidden(&self) -> Option<&Tensor<B, 2>> {
        self.hidden.as_ref()
    }

    fn ids(&self, ids: &[u32], shape: [usize; 2]) -> Tensor<B, 2, Int> {
        let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        Tensor::from_data(TensorData::new(ids, shape), &self.place.device)
    }
}

impl<B: Backend> VoiceNetworks for Voiced<B> {
    type Memory = Tensor<B, 3>;

    fn codebooks(&self) -> usize {
        self.codebooks
    }

    fn tables(&self) -> usize {
        self.decoder.tables()
    }

    fn encode(&mut self, ids: &[u32]) -> Result<Self::Memory, Error> {
        let ids = self.ids(ids, [1, ids.len()]);
        let encoder = &*self.encoder;
        Ok(B::on_pool(|| encoder.forward(ids)))
    }

    fn spliced(&self, before: &Self::Memory, memory: Self::Memory, rows: usize) -> Self::Memory {
        if rows == 0 {
            return memory;
        }
        let (length, all) = (before.dims()[1], memory.dims()[1]);
        let history = before.clone().narrow(1, length - rows, rows);
        Tensor::cat(vec![history, memory.narrow(1, rows, all - rows)], 1)
    }

    fn begin(&mut self, memory: &Self::Memory) -> Result<(), Error> {
        let (context, memory) = (self.context.clone(), memory.clone());
        let capacity = context.dims()[1] + self.options.most_steps;
        let start = Start { rows: self.options.rows(), capacity, exact: self.options.exact_prior };
        let decoder = &*self.decoder;
        let place = &self.place;
        self.state = Some(B::on_pool(|| decoder.start(context, memory, start, place)));
        Ok(())
    }

    fn step(&mut self, stack: &[u32], prior: Option<&[f32]>) -> Result<StepOutput, Error> {
        let codes = self.ids(stack, [stack.len(), 1]);
        let rows = self.options.rows();
        let prior =
            prior.map(|prior| Tensor::from_data(TensorData::from(prior), &self.place.device));
        let decoder = &*self.decoder;
        let state = self.state.as_mut().expect("a chunk that has begun");
        let (hidden, step) = B::on_pool(|| {
            let embedded = decoder.embedded(codes).repeat_dim(0, rows);
            let step = decoder.step(embedded, prior.as_ref(), state);
            let logits = rows_of(decoder.logits(step.hidden.clone()));
            (step.hidden, StepOutput { logits, attention: rows_of(step.attention) })
        });
        self.hidden = Some(hidden);
        self.of_stack.clear();
        Ok(step)
    }

    fn code(&mut self, index: usize, before: Option<u32>) -> Result<Vec<Vec<f32>>, Error> {
        let rows = self.options.rows();
        let before = before.map(|code| self.ids(&[code], [1, 1]));
        let hidden = self.hidden.clone();
        let (decoder, local, of_stack) = (&*self.decoder, &*self.local, &mut self.of_stack);
        Ok(B::on_pool(|| {
            let input = match before {
                None => hidden.expect("a step before its codes"),
                Some(code) => {
                    let row = decoder.audio_embedding(index - 1, code);
                    let width = row.dims()[2];
                    row.reshape([1, width]).repeat_dim(0, rows)
                }
            };
            rows_of(local.logits(index, local.step(input, of_stack)))
        }))
    }
}
