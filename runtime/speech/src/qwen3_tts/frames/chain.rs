//! Frames whose codes are drawn on the device: each is the next input there, and the host reads them at the end.

use acestep_engine::{Error, host::to_host, sampling::ScoreError};
use acestep_model::{Backend, kernel, speech::qwen3_tts::Talker};
use burn::tensor::{DType, Int, Tensor, TensorData};

use super::{super::choose::Filters, State};

/// Temperature and top-k of a row.
type Draw = (f32, usize);

impl<B: Backend> State<B> {
    /// Returns the settings of each run, if all runs can draw on the device.
    pub(super) fn device_draws(&self) -> Option<Vec<Draw>> {
        if !self.draws_on_device {
            return None;
        }
        self.runs.iter().map(|run| Filters::of_predictor(&run.sampling).on_device()).collect()
    }

    // ANCHOR: chain
    /// [`Self::complete`] without a wait for the device between the codes of a frame.
    pub(super) fn complete_on_device(
        &mut self,
        talker: &Talker<B>,
        draws: &[Draw],
    ) -> Result<(), Error> {
        let predictor = talker.code_predictor();
        let (rows, others) = (self.runs.len(), predictor.groups() - 1);
        let firsts: Vec<u32> =
            self.runs.iter().filter_map(|run| run.history.last().copied()).collect();
        let first = talker.codec(&firsts, &self.place.device).swap_dims(0, 1);
        let exponentials = self.exponentials(others);
        let (mut scores, mut codes) = (Vec::new(), Vec::<Tensor<B, 2, Int>>::new());
        for group in 1..=others {
            let of_group = match codes.last() {
                None => self.first_scores(predictor, first.clone()),
                Some(last) => {
                    // An unusable code is -1, which is no row of a table.
                    let x = predictor.embedded(group - 1, last.clone().clamp_min(0));
                    predictor.scores(x, group, 0..rows, &mut self.of_frame)
                }
            };
            let exponentials = exponentials.clone().narrow(0, group - 1, 1);
            codes.push(drawn(of_group.clone(), exponentials, draws));
            scores.push(of_group);
        }
        let codes = Tensor::cat(codes, 1).into_data().convert::<i32>();
        let codes: Vec<i32> = codes.to_vec().expect("converted to i32 just above");
        for (row, (run, codes)) in self.runs.iter_mut().zip(codes.chunks(others)).enumerate() {
            if let Some(index) = codes.iter().position(|&code| code < 0) {
                // The host finds the reason in the same scores.
                let scores = to_host(scores[index].clone().narrow(0, row, 1));
                let chosen = Filters::of_predictor(&run.sampling).choose(scores, &mut run.draws);
                return Err(run.unusable(chosen.err().unwrap_or(ScoreError::NothingAllowed)));
            }
            run.frames += 1;
            let others = codes.iter().map(|&code| code as u32);
            run.unread = Some(run.history.last().copied().into_iter().chain(others).collect());
        }
        Ok(())
    }
    // ANCHOR_END: chain

    /// Returns the exponential numbers of `codes` draws of each run, `[codes, runs, ids]`, as the host
    /// would take them. Ones choose the likeliest code.
    fn exponentials(&mut self, codes: usize) -> Tensor<B, 3> {
        let ids = self.config.talker_config.code_predictor_config.vocab_size;
        let rows = self.runs.len();
        let mut values = vec![1.0; codes * rows * ids];
        for (row, run) in self.runs.iter_mut().enumerate() {
            if Filters::of_predictor(&run.sampling).do_sample {
                let own = values.chunks_mut(ids).skip(row).step_by(rows);
                own.for_each(|times| run.draws.exponentials(times));
            }
        }
        let data = TensorData::new(values, [codes, rows, ids]);
        Tensor::from_data(data, (&self.place.device, DType::F32))
    }
}

/// Draws a code for each row of scores `[rows, 1, ids]` with exponential numbers `[1, rows, ids]`.
fn drawn<B: Backend>(
    scores: Tensor<B, 3>,
    exponentials: Tensor<B, 3>,
    draws: &[Draw],
) -> Tensor<B, 2, Int> {
    let [rows, _, ids] = scores.dims();
    let [scores, exponentials] = [scores, exponentials].map(|x| x.reshape([rows, ids]));
    let (temperature, top_k) = draws[0];
    if draws.iter().all(|&draw| draw == draws[0]) {
        return kernel::draw(scores, exponentials, temperature, top_k);
    }
    let of_row = |(row, &(temperature, top_k)): (usize, &Draw)| {
        let [scores, exponentials] = [&scores, &exponentials].map(|x| x.clone().narrow(0, row, 1));
        kernel::draw(scores, exponentials, temperature, top_k)
    };
    Tensor::cat(draws.iter().enumerate().map(of_row).collect(), 0)
}
