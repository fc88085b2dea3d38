//! Sizes that follow from the tensors of model and codec, lists that must fit them, and shapes of other layers
//! here: the convolutions of the feed-forward blocks are products of rows.

use acestep_model::speech::{
    magpie::{Config, Sizes, StackConfig},
    nanocodec,
};

use crate::{Error, Tensors, families::magpie::Spelling, single_file::SingleFile};

/// The tensor with the voices.
const VOICES: &str = "baked_context_embedding.weight";
const TEXT: &str = "text_embedding.weight";
/// Scalars of an archive with the rows of a voice and their width.
const TABLE: [&str; 2] = ["_baked_embedding_T", "_baked_embedding_D"];

fn foreign(file: &SingleFile, reason: String, remedy: &str) -> Error {
    Error::Foreign { path: file.path.clone(), reason, remedy: remedy.to_owned() }
}

/// Checks the lists of levels among the codec's tensors, and takes them away.
pub(super) fn check_quantizer(
    codec: &mut SingleFile,
    config: &nanocodec::Config,
    spelling: Spelling,
) -> Result<(), Error> {
    if spelling == Spelling::Whole {
        return Ok(());
    }
    let digits: Vec<_> = config.quantizer().digits().collect();
    let [levels, bases] = [0, 1].map(|of| {
        digits.iter().map(|&(level, base)| i64::from([level, base][of])).collect::<Vec<_>>()
    });
    for group in 0..config.codebooks() {
        for (kind, expected) in [("num_levels", &levels), ("dim_base_index", &bases)] {
            let name = spelling.of(&format!("vector_quantizer.fsqs.{group}.{kind}"));
            let found = codec.tensors.whole_numbers(&name)?;
            if found.as_ref() != Some(expected) {
                let reason = format!("`{name}` is {found:?}, not {expected:?}");
                return Err(foreign(codec, reason, "take the codec's released file"));
            }
            codec.tensors.leave_out(&name);
        }
    }
    Ok(())
}

/// Returns the sizes that follow from the tensors, and gives the table of voices its shape.
pub(super) fn sizes_of(
    model: &mut SingleFile,
    config: &Config,
    codec: &nanocodec::Config,
    lengths: Option<Vec<usize>>,
) -> Result<Sizes, Error> {
    let released = "take a released model, such as `magpie-357m`, and its codec";
    if !model.tensors.has(VOICES) {
        let reason = format!("it has no voices: tensor `{VOICES}` is missing");
        return Err(foreign(model, reason, "take a model with voices: recordings are not read"));
    }
    let shape = model.tensors.shape(VOICES)?.to_vec();
    let width = config.embedding_dim;
    let (voices, flat) = match shape[..] {
        [voices, flat] => (voices, Some(flat)),
        [voices, rows, own] if own == width => (voices, rows.checked_mul(own)),
        _ => (0, None),
    };
    let flat = flat.filter(|flat| voices > 0 && *flat > 0 && flat.is_multiple_of(width));
    let Some(flat) = flat else {
        let reason = format!("its voices are {shape:?}, which are no rows of {width}");
        return Err(foreign(model, reason, released));
    };
    model.tensors.reshape(VOICES, vec![voices, flat]);
    let context_rows = flat / width;
    for (name, expected) in TABLE.into_iter().zip([context_rows, width]) {
        if !model.tensors.has(name) {
            continue;
        }
        let found = model.tensors.whole_numbers(name)?;
        if found.as_deref() != Some(&[expected as i64]) {
            let found = found.map_or("no whole number".to_owned(), |found| format!("{found:?}"));
            let reason = format!("`{name}` is {found}, but its voices are {shape:?}");
            return Err(foreign(model, reason, released));
        }
        model.tensors.leave_out(name);
    }
    let context_lengths = lengths.unwrap_or_else(|| vec![context_rows; voices]);
    let fits = |length: &usize| (1..=context_rows).contains(length);
    if context_lengths.len() != voices || !context_lengths.iter().all(fits) {
        let reason = format!("its {voices} voices of {context_rows} rows have {context_lengths:?}");
        return Err(foreign(model, reason, released));
    }
    let [text_rows, _] = model.tensors.shape(TEXT)?[..] else {
        let reason = format!("tensor `{TEXT}` is {:?}", model.tensors.shape(TEXT)?);
        return Err(foreign(model, reason, released));
    };
    let (codebooks, codes) = (codec.codebooks(), codec.quantizer().codes());
    Ok(Sizes { text_rows, codebooks, codes, context_rows, context_lengths })
}

/// Gives the convolutions of the feed-forward blocks the shape `[out, in taps]` of their layers here.
/// A tensor of another kernel keeps its shape, which is an error later.
pub(super) fn flatten_convolutions(tensors: &mut Tensors, config: &Config) {
    let stacks: [(&str, &StackConfig); 2] =
        [("encoder.", &config.encoder), ("decoder.", &config.decoder.stack)];
    let names: Vec<_> = tensors.names().map(str::to_owned).collect();
    for name in names {
        if !name.contains(".pos_ff.") || !name.ends_with(".conv.weight") {
            continue;
        }
        let of = stacks.iter().find(|(prefix, _)| name.starts_with(prefix));
        let taps = of.map_or(1, |(_, stack)| stack.kernel_size);
        let shape = tensors.shape(&name).map(<[usize]>::to_vec).unwrap_or_default();
        if let [output, input, kernel] = shape[..]
            && kernel == taps
        {
            tensors.reshape(&name, vec![output, input * taps]);
        }
    }
}
