//! The codec alone, with stored codes.

use acestep_engine::host::to_host;
use acestep_import::Magpie;
use acestep_model::{
    Backend, Place,
    kernel::Precision,
    speech::{
        magpie::{Checkpoint, Files},
        nanocodec::{Decoder, DecoderState, ScalarQuantizer},
    },
};
use anyhow::Result;
use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    tensor::{Int, Tensor},
};

use crate::{
    families::GoldenSource,
    golden::{
        sheet::{Activations, Sheet, ids, loaded},
        tolerance::worse,
    },
};

/// Returns the samples of frames that arrive in parts of these sizes.
fn streamed<B: Backend>(
    decoder: &Decoder<B>,
    codes: &Tensor<B, 2, Int>,
    sizes: impl IntoIterator<Item = usize>,
) -> Vec<f32> {
    let (mut state, mut first, mut samples) = (DecoderState::default(), 0, Vec::new());
    for size in sizes {
        let part = codes.clone().narrow(1, first, size);
        samples.extend(to_host(decoder.forward(part, &mut state)));
        first += size;
    }
    samples
}

/// The decoder: whole signals, and the same in parts; its filters; a signal that is clamped.
pub(super) fn decode<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let (model, device) = (of.magpie.any()?, &place.device);
    let decoder =
        loaded(Checkpoint::<B>::codec_decoder(model, place, Precision::beside(place.dtype)))?;
    let per_frame = model.codec_config().samples_per_frame;
    sheet.inputs(|name| name.ends_with(".codes") && !name.starts_with("encode"));
    sheet.skip_all("the program has no encoder of this codec", |name| name.starts_with("encode."));
    for case in sheet.golden.tags(".codes") {
        if case == "encode" {
            continue;
        }
        let all = sheet.golden.whole(&format!("{case}.codes"))?.to_vec();
        let [batch, groups, frames] = sheet.golden.dims(&format!("{case}.codes"))?;
        sheet.attempt(&format!("{case}."), |sheet| {
            let name = format!("{case}.wave");
            let theirs = sheet.golden.floats(&name)?;
            let mut samples = Vec::new();
            let own = theirs.chunks(frames * per_frame);
            for (codes, theirs) in all.chunks(groups * frames).zip(own) {
                // A batch is zero after the end of the shorter signal.
                let end = theirs.iter().rposition(|&x| x != 0.0).map_or(0, |last| last + 1);
                let length = if batch == 1 { frames } else { end.div_ceil(per_frame) };
                let codes = ids::<B>(codes, [groups, frames], device).narrow(1, 0, length);
                let mut tap = Activations { sheet, prefix: case.clone() };
                let state = &mut DecoderState::default();
                let whole = to_host(decoder.forward_tapped(codes.clone(), state, &mut tap));
                let parts = &sheet.golden.note(&case)["stream_schedule"];
                let parts = parts.as_array().into_iter().flatten();
                let mut sizes: Vec<_> =
                    parts.filter_map(|size| Some(size.as_u64()? as usize)).collect();
                if sizes.is_empty() {
                    sizes = vec![1; length];
                }
                let both = worse(theirs, &whole, &streamed(&decoder, &codes, sizes));
                samples.extend(both);
                samples.resize(samples.len().next_multiple_of(frames * per_frame), 0.0);
            }
            sheet.close_values(&name, &[batch, frames * per_frame], &samples);
            Ok(())
        })?;
    }
    let others: [(&str, Compare<B>); 2] = [("folded.", folded::<B>), ("loud.", loud::<B>)];
    for (prefix, compare) in others {
        if sheet.golden.names().any(|name| name.starts_with(prefix)) {
            sheet.attempt(prefix, |sheet| compare(sheet, model, place))?;
        }
    }
    Ok(())
}

/// Compares some cases of a model.
type Compare<B> = fn(&mut Sheet<'_>, &Magpie, &Place<B>) -> Result<()>;

/// Compares filters whose weight norm is folded.
struct Folded<'s, 'a> {
    sheet: &'s mut Sheet<'a>,
    path: Vec<String>,
}

impl<B: Backend> ModuleVisitor<B> for Folded<'_, '_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        match &*self.path.join(".") {
            "pre_conv.weight" => self.sheet.close("folded.pre", param.val()),
            "up_sample_conv_layers.0.weight" => self.sheet.close("folded.up0", param.val()),
            _ => (),
        }
    }

    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }
}

fn folded<B: Backend>(sheet: &mut Sheet<'_>, model: &Magpie, place: &Place<B>) -> Result<()> {
    let decoder = loaded(model.plain_codec_decoder(place))?;
    decoder.visit(&mut Folded { sheet, path: Vec::new() });
    Ok(())
}

/// Multiplies the last filter by six.
#[derive(Default)]
struct Louder(Vec<String>);

impl<B: Backend> ModuleMapper<B> for Louder {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        match self.0.join(".") == "post_conv.weight" {
            true => param.map(|weight| weight * 6.0),
            false => param,
        }
    }

    fn enter_module(&mut self, name: &str, _container: &str) {
        self.0.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.0.pop();
    }
}

/// The first case with a louder last filter, so that samples are beyond -1 and 1 before they are clamped.
fn loud<B: Backend>(sheet: &mut Sheet<'_>, model: &Magpie, place: &Place<B>) -> Result<()> {
    let decoder = loaded(model.plain_codec_decoder(place))?.map(&mut Louder::default());
    let decoder = decoder.prepacked(Precision::beside(place.dtype));
    let [_, groups, frames] = sheet.golden.dims("case0.codes")?;
    let codes = ids::<B>(sheet.golden.whole("case0.codes")?, [groups, frames], &place.device);
    let samples = to_host(decoder.forward(codes, &mut DecoderState::default()));
    sheet.close_values("loud.wave", &[1, samples.len()], &samples);
    Ok(())
}

/// The codes of one codebook, of the levels of the notes.
pub(super) fn codes<B: Backend>(
    sheet: &mut Sheet<'_>,
    _: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    sheet.inputs(|name| name == "inputs");
    let latent = sheet.golden.floats("inputs")?;
    for (prefix, note) in [("", "levels"), ("released.", "released_levels")] {
        let levels = sheet.golden.note(note).as_array().cloned().unwrap_or_default();
        let levels = levels.iter().filter_map(|level| u32::try_from(level.as_u64()?).ok());
        let quantizer = ScalarQuantizer::new(levels.collect());
        let (count, dimensions) = (quantizer.codes(), quantizer.dimensions());
        let all: Vec<i64> = (0..count as i64).collect();
        let on_device = quantizer.latent(ids::<B>(&all, [1, count], &place.device));
        sheet.close(&format!("{prefix}table"), on_device.squeeze_dim::<2>(0).transpose());
        let columns = latent.len() / dimensions;
        let compressed: Vec<f32> = (0..dimensions)
            .flat_map(|dimension| (0..columns).map(move |column| (dimension, column)))
            .map(|(dimension, column)| {
                quantizer.compressed(dimension, latent[dimension * columns + column])
            })
            .collect();
        sheet.close_values(&format!("{prefix}compressed"), &[1, dimensions, columns], &compressed);
        let column = |column: usize| -> Vec<f32> {
            (0..dimensions).map(|dimension| latent[dimension * columns + column]).collect()
        };
        let codes: Vec<u32> = (0..columns).map(|at| quantizer.code(&column(at))).collect();
        let indices: Vec<i64> = codes.iter().map(|&code| code.into()).collect();
        sheet.exact(&format!("{prefix}indices"), &[1, 1, columns], &indices);
        let values: Vec<Vec<f32>> = codes.iter().map(|&code| quantizer.values(code)).collect();
        let values: Vec<f32> = (0..dimensions)
            .flat_map(|dimension| values.iter().map(move |of| of[dimension]))
            .collect();
        sheet.close_values(&format!("{prefix}codes"), &[1, dimensions, columns], &values);
    }
    Ok(())
}
