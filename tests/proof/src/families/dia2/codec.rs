//! The codec alone, with stored inputs: whole and in chunks.

use std::fmt::Arguments;

use acestep_engine::host::to_host;
use acestep_import::Dia2;
use acestep_model::{
    Backend, Place, Tap,
    kernel::Precision,
    speech::{
        dia2::{Checkpoint, Files},
        mimi::{Decoder, DecoderState, EncoderState},
    },
};
use anyhow::{Result, anyhow};
use burn::tensor::{Int, Tensor, TensorData};

use crate::{
    families::GoldenSource,
    golden::{
        sheet::{Activations, Sheet, ids, loaded},
        tolerance::worse,
    },
};

/// Compares activations under the names of the goldens.
struct Stages<'s, 'a>(Activations<'s, 'a>);

impl<B: Backend> Tap<B> for Stages<'_, '_> {
    fn tap<const D: usize>(&mut self, name: Arguments<'_>, activation: &Tensor<B, D>) {
        let name = name.to_string();
        if let Some(number) = name.strip_prefix("seanet") {
            return self.0.tap(format_args!("seanet.{number}"), activation);
        }
        match name.strip_prefix("tfm.") {
            // The goldens have the channels first.
            Some(layer) => {
                let turned = activation.clone().swap_dims(D - 2, D - 1);
                self.0.tap(format_args!("transformer.{layer}"), &turned);
            }
            None => self.0.tap(format_args!("{name}"), activation),
        }
    }
}

/// Reads codes `[1, G, F]` as `[G, F]`.
fn codes_of<B: Backend>(
    sheet: &Sheet<'_>,
    name: &str,
    place: &Place<B>,
) -> Result<Tensor<B, 2, Int>> {
    let &[1, groups, frames] = sheet.golden.shape(name)? else {
        return Err(anyhow!("{name} is no batch of one"));
    };
    Ok(ids(sheet.golden.whole(name)?, [groups, frames], &place.device))
}

/// Compares codes `[G, F]` with stored ones, `[1, G, F]`.
fn exact<B: Backend>(sheet: &mut Sheet<'_>, name: &str, codes: Tensor<B, 2, Int>) {
    let [groups, frames] = codes.dims();
    let codes: Vec<i64> = codes.into_data().iter::<i64>().collect();
    sheet.exact(name, &[1, groups, frames], &codes);
}

/// The encoder, of whole signals.
pub(super) fn encode<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let encoder = loaded(Checkpoint::<B>::codec_encoder(of.dialogue.any()?, place))?;
    sheet.inputs(|name| name.contains(".in."));
    for case in sheet.golden.tags(".in.wave") {
        let wave = sheet.golden.tensor::<B, 1>(&format!("{case}.in.wave"), &place.device)?;
        sheet.attempt(&format!("{case}."), |sheet| {
            let mut tap = Stages(Activations { sheet, prefix: format!("{case}.act") });
            let codes = encoder.forward_tapped(wave.clone(), &mut tap);
            exact(sheet, &format!("{case}.codes"), codes);
            Ok(())
        })?;
        let plain = format!("nowin.{case}.codes");
        if sheet.golden.has(&plain) {
            let encoder = encoder.clone().with_window(None);
            sheet.attempt(&plain, |sheet| {
                exact(sheet, &plain, encoder.forward(wave));
                Ok(())
            })?;
        }
    }
    Ok(())
}

fn decoder<B: Backend>(model: &Dia2, place: &Place<B>) -> Result<Decoder<B>> {
    loaded(Checkpoint::<B>::codec_decoder(model, place, Precision::beside(place.dtype)))
}

/// The decoder, of whole signals.
pub(super) fn decode<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let decoder = decoder(of.dialogue.any()?, place)?;
    sheet.inputs(|name| name.contains(".in."));
    for case in sheet.golden.tags(".in.codes") {
        let codes = codes_of(sheet, &format!("{case}.in.codes"), place)?;
        sheet.attempt(&format!("{case}."), |sheet| {
            let mut tap = Stages(Activations { sheet, prefix: format!("{case}.act") });
            let state = &mut DecoderState::default();
            let wave = decoder.forward_tapped(codes.clone(), state, &mut tap);
            sheet.close(&format!("{case}.wave"), wave.unsqueeze_dims::<3>(&[0, 0]));
            Ok(())
        })?;
        let plain = format!("nowin.{case}.wave");
        if sheet.golden.has(&plain) {
            let decoder = decoder.clone().with_window(None);
            sheet.attempt(&plain, |sheet| {
                let wave = decoder.forward(codes, &mut DecoderState::default());
                sheet.close(&plain, wave.unsqueeze_dims::<3>(&[0, 0]));
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Both, frame by frame.
pub(super) fn stream<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let model = of.dialogue.any()?;
    sheet.inputs(|name| name.starts_with("in.") || name.contains(".in."));
    sheet.attempt("enc.", |sheet| {
        let encoder = loaded(Checkpoint::<B>::codec_encoder(model, place))?;
        let wave = sheet.golden.tensor::<B, 1>("enc.in.wave", &place.device)?;
        let (size, samples) = (model.codec_config().samples_per_frame(), wave.dims()[0]);
        let mut state = EncoderState::default();
        let frames = (0..samples)
            .step_by(size)
            .map(|first| encoder.forward_next(wave.clone().narrow(0, first, size), &mut state));
        let codes = Tensor::cat(frames.collect(), 1);
        exact(sheet, "enc.codes", codes);
        Ok(())
    })?;
    let why = "this program keeps the inputs of a transposed convolution in place of its outputs";
    sheet.skip_all(why, |name| name.ends_with(".partial"));
    sheet.attempt("", |sheet| {
        let decoder = decoder(model, place)?;
        let codes = codes_of(sheet, "in.codes", place)?;
        let mut state = DecoderState::default();
        let mut parts = Vec::new();
        for frame in 0..codes.dims()[1] {
            if frame == 3 {
                pasts(sheet, model, decoder.state_to_data(&state, place));
            }
            parts.push(decoder.forward(codes.clone().narrow(1, frame, 1), &mut state));
        }
        let wave = Tensor::cat(parts, 0);
        // Frames in other groups.
        let mut state = DecoderState::default();
        let groups = [(0, 1), (1, 5), (6, codes.dims()[1] - 6)];
        let grouped = groups.map(|(first, count)| {
            decoder.forward(codes.clone().narrow(1, first, count), &mut state)
        });
        let grouped = to_host(Tensor::cat(grouped.into(), 0));
        let theirs = sheet.golden.floats("wave")?;
        let samples = worse(&theirs, &to_host(wave), &grouped);
        sheet.close_values("wave", &[1, 1, grouped.len()], &samples);
        Ok(())
    })
}

/// Compares the past of every convolution: in the order of [`Decoder::state_to_data`], the
/// up-sampling, the transformer with its lengths, and the convolutions.
fn pasts(sheet: &mut Sheet<'_>, model: &Dia2, state: Vec<TensorData>) {
    let config = model.codec_config();
    let (layers, stages) = (config.num_hidden_layers, config.upsampling_ratios.len());
    let mut convolutions = state.into_iter().skip(2 + 2 * layers);
    let mut compare = |sheet: &mut Sheet<'_>, name: Option<String>| {
        let Some(past) = convolutions.next() else { return };
        let shape = past.shape.to_vec();
        let values: Vec<f32> = past.iter::<f32>().collect();
        if let Some(name) = name {
            let name = format!("state3.decoder.layers.{name}.previous");
            sheet.close_values(&name, &shape, &values);
        }
    };
    compare(sheet, Some("0".to_owned()));
    for stage in 0..stages {
        compare(sheet, None);
        compare(sheet, Some(format!("{}.block.1", 3 * stage + 3)));
    }
    compare(sheet, Some((3 * stages + 2).to_string()));
}
