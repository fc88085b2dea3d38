//! Backbone and depformer alone, with stored inputs.

use std::{collections::BTreeMap, fmt::Arguments};

use acestep_engine::host::to_host;
use acestep_import::Dia2;
use acestep_model::{
    Backend, NoTap, Place, Tap,
    speech::dia2::{Backbone, BackboneState, Checkpoint, Depformer},
};
use anyhow::Result;
use burn::tensor::{Tensor, TensorData};

use super::runs::keys_values;
use crate::{
    families::GoldenSource,
    golden::sheet::{Sheet, in_bf16, loaded},
};

/// Values of every tapped name: those of all steps, one after the other, and the shape of one.
#[derive(Debug, Default)]
struct Collected(BTreeMap<String, (Vec<usize>, Vec<f32>)>);

impl Collected {
    fn add<B: Backend, const D: usize>(&mut self, name: &str, x: Tensor<B, D>) {
        let (shape, values) = self.0.entry(name.to_owned()).or_default();
        *shape = x.dims().to_vec();
        values.extend(to_host(x));
    }

    /// Compares everything under `prefix`, with the steps as the first axis.
    fn compare(&self, sheet: &mut Sheet<'_>, prefix: &str) {
        for (name, (shape, values)) in &self.0 {
            let steps = values.len() / shape.iter().product::<usize>().max(1);
            let shape = [&[steps], &shape[..]].concat();
            sheet.close_values(&format!("{prefix}{name}"), &shape, values);
        }
    }
}

impl<B: Backend> Tap<B> for Collected {
    fn tap<const D: usize>(&mut self, name: Arguments<'_>, activation: &Tensor<B, D>) {
        self.add(&format!("act.{name}"), activation.clone());
    }
}

/// The tokens of every step and row, and the position of every step.
struct Steps {
    tokens: Vec<Vec<Vec<u32>>>,
    positions: Vec<usize>,
}

impl Steps {
    fn read(sheet: &Sheet<'_>, case: &str) -> Result<Self> {
        let name = format!("{case}.in.tokens");
        let [_, rows, channels] = sheet.golden.dims(&name)?;
        let ids = sheet.golden.ids(&name)?;
        let row = |row: &[u32]| row.to_vec();
        let step = |step: &[u32]| step.chunks(channels).map(row).collect();
        let positions = sheet.golden.whole(&format!("{case}.in.positions"))?;
        Ok(Self {
            tokens: ids.chunks(rows * channels).map(step).collect(),
            positions: positions.iter().map(|&position| position as usize).collect(),
        })
    }

    /// Runs all steps; `tap` receives the activations, and the result has the outputs.
    fn run<B: Backend>(
        &self,
        network: &Backbone<B>,
        place: &Place<B>,
        tap: &mut impl Tap<B>,
    ) -> (Collected, BackboneState<B>) {
        let rows = self.tokens.first().map_or(0, Vec::len);
        let mut state = network.state(rows, self.tokens.len(), place);
        let mut outputs = Collected::default();
        for (tokens, &position) in self.tokens.iter().zip(&self.positions) {
            let output = network.step_tapped(tokens, position, &mut state, tap);
            outputs.add("hidden", output.hidden.squeeze_dim::<2>(1));
            outputs.add("action", output.action);
            outputs.add("cb0", output.cb0);
        }
        (outputs, state)
    }
}

/// The backbone, step by step.
pub(super) fn backbone<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let load = |model: &Dia2, place: &Place<B>| loaded(Checkpoint::<B>::backbone(model, place));
    sheet.inputs(|name| name.contains(".in."));
    for case in sheet.golden.tags(".in.tokens") {
        sheet.attempt(&format!("{case}."), |sheet| {
            let model = of.dialogue.of(&case)?;
            let steps = Steps::read(sheet, &case)?;
            let prefix = format!("{case}.");
            let network = load(model, place)?;
            let (outputs, state) = steps.run(&network, place, &mut NoTap);
            outputs.compare(sheet, &prefix);
            keys_values(sheet, &prefix, &state)?;
            // The layers one by one, without fused kernels.
            let mut taps = Collected::default();
            let _ = steps.run(&network, place, &mut taps);
            taps.compare(sheet, &prefix);
            if let (Some(place), true) =
                (in_bf16(place), sheet.golden.has(&format!("{case}.bf16.hidden")))
            {
                let (outputs, _) = steps.run(&load(model, &place)?, &place, &mut NoTap);
                for (name, (shape, values)) in outputs.0 {
                    let steps = values.len() / shape.iter().product::<usize>();
                    let shape = [steps, shape[0], shape[1]];
                    let ours = TensorData::new(values, shape);
                    let ours = Tensor::<B, 3>::from_data(ours, &place.device);
                    sheet.near(&format!("{case}.bf16.{name}"), ours);
                }
            }
            Ok(())
        })?;
    }
    sheet.skip_all("bf16 is not computed on this device", |name| name.contains(".bf16."));
    Ok(())
}

/// One frame of the depformer. The golden has another previous code in each row, and a run has the
/// same one: so each row is computed with its own codes, beside the other row.
fn frame<B: Backend>(
    sheet: &Sheet<'_>,
    prefix: &str,
    network: &Depformer<B>,
    place: &Place<B>,
    mut tapped: Option<&mut [Collected; 2]>,
) -> Result<[Vec<Vec<f32>>; 2]> {
    let hidden = sheet.golden.tensor::<B, 2>(&format!("{prefix}in.hidden"), &place.device)?;
    let hidden: Tensor<B, 3> = hidden.cast(place.computes_in()).unsqueeze_dim(1);
    let whole = |name: &str| sheet.golden.whole(&format!("{prefix}in.{name}"));
    let (previous, main) = (whole("prev_audio")?, whole("main_text")?);
    let second = whole("second_text")?;
    let mut logits = [Vec::new(), Vec::new()];
    for row in 0..2 {
        let mut state = network.state(2, place);
        let text = Some((main[row] as u32, second[row] as u32));
        for stage in 0..network.stages() {
            let input = (stage, previous[2 * stage + row] as u32, text);
            let mut both = Collected::default();
            let all = match &mut tapped {
                Some(_) => network.stage_tapped(input, hidden.clone(), &mut state, &mut both),
                None => network.stage(stage, hidden.clone(), input.1, text, &mut state),
            };
            logits[row].push(to_host(all.narrow(0, row, 1)));
            for (name, (shape, values)) in both.0 {
                let width = values.len() / 2;
                let values = &values[row * width..][..width];
                let Some(tapped) = &mut tapped else { continue };
                let (own, kept) = tapped[row].0.entry(name).or_default();
                *own = vec![shape.iter().skip(1).product()];
                kept.extend(values);
            }
        }
    }
    Ok(logits)
}

/// Puts the values of two rows together, stage by stage.
fn interleaved(rows: [&[f32]; 2], width: usize) -> Vec<f32> {
    let stages = rows[0].chunks(width).zip(rows[1].chunks(width));
    stages.flat_map(|(first, second)| [first, second].concat()).collect()
}

/// The depformer, stage by stage.
pub(super) fn depformer<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let load = |model: &Dia2, place: &Place<B>| loaded(Checkpoint::<B>::depformer(model, place));
    sheet.inputs(|name| name.starts_with("in.") || name.contains(".in."));
    for prefix in ["alt.", ""] {
        if !sheet.golden.has(&format!("{prefix}logits")) {
            continue;
        }
        sheet.attempt(prefix, |sheet| {
            let model = of.dialogue.of(prefix)?;
            let network = load(model, place)?;
            let shape = [network.stages(), 2, network.codes()];
            let rows = frame(sheet, prefix, &network, place, None)?.map(|row| row.concat());
            let logits = interleaved([&rows[0], &rows[1]], shape[2]);
            sheet.close_values(&format!("{prefix}logits"), &shape, &logits);
            let mut taps = [Collected::default(), Collected::default()];
            frame(sheet, prefix, &network, place, Some(&mut taps))?;
            for (name, (shape, first)) in &taps[0].0 {
                let second = &taps[1].0[name].1;
                let values = interleaved([first, second], shape[0]);
                let shape = [network.stages(), 2, shape[0]];
                sheet.close_values(&format!("{prefix}{name}"), &shape, &values);
            }
            if let (Some(place), true) =
                (in_bf16(place), sheet.golden.has(&format!("{prefix}bf16.logits")))
            {
                let network = load(model, &place)?;
                let rows = frame(sheet, prefix, &network, &place, None)?.map(|row| row.concat());
                let logits = interleaved([&rows[0], &rows[1]], shape[2]);
                let ours = TensorData::new(logits, shape);
                let ours = Tensor::<B, 3>::from_data(ours, &place.device);
                sheet.near(&format!("{prefix}bf16.logits"), ours);
            }
            Ok(())
        })?;
    }
    sheet.skip_all("bf16 is not computed on this device", |name| name.contains("bf16."));
    Ok(())
}
