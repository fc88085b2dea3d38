//! From text to sound, by the public front.

use acestep_engine::Unobserved;
use acestep_import::Magpie;
use acestep_model::{Backend, Place, speech::magpie::Files};
use acestep_speech::{
    Chunks, Options, Spoken, StreamItem,
    magpie::{Networks, Plan, Speaking, tokenizers},
};
use anyhow::Result;
use serde_json::{Value, json};

use super::runs::{by_codebook, plan};
use crate::{
    families::GoldenSource,
    golden::{
        Differs,
        sheet::{Sheet, loaded},
        tolerance::worse,
    },
};

/// All stored texts, with the model of the archive. GGUF files must read its ids in their languages, and
/// those in f32 speak its codes.
pub(super) fn compare<B: Backend, const S: usize>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let (model, ggufs) = of.magpie.all_stacking(S)?;
    sheet.inputs(|name| name.starts_with("batch.text"));
    if sheet.golden.has("batch.codes") {
        sheet.attempt("batch.", |sheet| batch(sheet, model, place))?;
    }
    for tag in sheet.golden.tags(".codes") {
        if tag != "batch" {
            sheet.attempt(&format!("{tag}."), |sheet| text(sheet, &tag, (model, &ggufs), place))?;
        }
    }
    Ok(())
}

/// Speaks a plan with chunks of sound of some sizes.
fn spoken<B: Backend>(plan: Plan, networks: &Networks<'_, B>, chunks: Chunks) -> Result<Spoken> {
    let options = Options { chunks, ..Options::default() };
    let mut streamed = Vec::new();
    for made in Speaking::begin(plan, networks, options, &Unobserved)? {
        match made? {
            StreamItem::Samples(samples) => streamed.extend(samples),
            StreamItem::Done(spoken) if spoken.audio.channels == [streamed.clone()] => {
                return Ok(spoken);
            }
            StreamItem::Done(_) => break,
        }
    }
    Err(Differs("the streamed samples are not the result's".to_owned()).into())
}

fn text<B: Backend>(
    sheet: &mut Sheet<'_>,
    tag: &str,
    (model, ggufs): (&Magpie, &[&Magpie]),
    place: &Place<B>,
) -> Result<()> {
    let note = sheet.golden.note(tag).clone();
    let plan = plan(&note, None, model)?;
    let networks = Networks::<B>::new(model, place.clone());
    let whole = Chunks { first: usize::MAX, others: usize::MAX };
    let whole = spoken(plan.clone(), &networks, whole)?;
    let (shape, codes) = by_codebook(&whole.frames.concat(), model.sizes().codebooks);
    sheet.exact(&format!("{tag}.codes"), &shape, &codes);
    for gguf in ggufs {
        same((gguf, model), &note, &plan, &whole, place)?;
    }
    let streamed = spoken(plan, &networks, Chunks { first: 1, others: 3 })?;
    let name = format!("{tag}.wave");
    let theirs = sheet.golden.floats(&name)?;
    let (whole, streamed) = (&whole.audio.channels[0], &streamed.audio.channels[0]);
    let length = if whole.len() == streamed.len() { whole.len() } else { 0 };
    sheet.close_values(&name, &[length], &worse(&theirs, whole, streamed));
    Ok(())
}

/// Returns the words that lists of a model say have two pronunciations, in upper case.
fn heteronyms(model: &Magpie) -> Result<Vec<String>> {
    let mut words = Vec::new();
    for tokenizer in model.config().text_tokenizers.values() {
        if let Some(list) = tokenizer["g2p"]["heteronyms"].as_str() {
            let list = loaded(model.texts().artefact(list))?;
            let list = String::from_utf8_lossy(&list).to_uppercase();
            words.extend(list.lines().map(|word| word.trim_end().to_owned()));
        }
    }
    Ok(words)
}

/// Compares a GGUF file of a model with its archive, which has this plan and result.
fn same<B: Backend>(
    (gguf, archive): (&Magpie, &Magpie),
    note: &Value,
    expected: &Plan,
    spoken_before: &Spoken,
    place: &Place<B>,
) -> Result<()> {
    if !tokenizers(gguf)?.languages().contains(&expected.language) {
        return Ok(());
    }
    let plan = plan(note, None, gguf)?;
    let name = gguf.path().display();
    // A file without such lists reads the first pronunciation, where the archive has letters.
    let listed = if heteronyms(gguf)?.is_empty() { heteronyms(archive)? } else { Vec::new() };
    let may_differ = |text: &str| {
        let text = text.to_uppercase();
        let mut words = text.split(|letter: char| !letter.is_alphabetic());
        words.any(|word| listed.iter().any(|own| own == word))
    };
    let (own, theirs) = (&plan.chunks, &expected.chunks);
    let mut of_both = own.iter().zip(theirs).zip(&expected.texts);
    let has_others = of_both.any(|((own, theirs), text)| own != theirs && !may_differ(text));
    if has_others || own.len() != theirs.len() {
        return Err(Differs(format!("`{name}` reads {own:?}, not {theirs:?}")).into());
    }
    // A model without settings of a run has others.
    let is_same = own == theirs && plan.settings == expected.settings;
    if is_same && gguf.origin().types == ["F32"] {
        let networks = Networks::<B>::new(gguf, place.clone());
        if spoken(plan, &networks, Chunks::default())?.frames != spoken_before.frames {
            return Err(Differs(format!("`{name}` speaks other codes than the archive")).into());
        }
    }
    Ok(())
}

/// Most steps of the texts of a batch.
const BATCH_STEPS: usize = 12;

/// Each text of a batch, spoken alone. What the reference has after the end of the shorter one is not
/// compared.
fn batch<B: Backend>(sheet: &mut Sheet<'_>, model: &Magpie, place: &Place<B>) -> Result<()> {
    let networks = Networks::<B>::new(model, place.clone());
    let most = BATCH_STEPS * model.config().frame_stacking_factor;
    let codebooks = model.sizes().codebooks;
    let lengths = sheet.golden.whole("batch.text_lens")?.to_vec();
    let ids = sheet.golden.whole("batch.text")?.to_vec();
    let mut codes = sheet.golden.whole("batch.codes")?.to_vec();
    let shape = sheet.golden.shape("batch.codes")?.to_vec();
    let mut waves = sheet.golden.floats("batch.wave")?;
    let (columns, frames) = (ids.len() / lengths.len(), shape[2]);
    let samples = waves.len() / lengths.len();
    let mut counts = Vec::new();
    for (row, &length) in lengths.iter().enumerate() {
        // The last id is the end, which a plan adds.
        let own = &ids[row * columns..row * columns + length as usize - 1];
        let own = own.iter().map(|&id| id as u32).collect();
        let note = json!({ "speaker": row, "temperature": 0.0, "max_decoder_steps": most });
        let spoken = spoken(plan(&note, Some(own), model)?, &networks, Chunks::default())?;
        let ([_, count], made) = by_codebook(&spoken.frames.concat(), codebooks);
        counts.push(count as i64);
        let first = row * codebooks * frames;
        for (codebook, made) in made.chunks(count.max(1)).enumerate() {
            let start = first + codebook * frames;
            codes[start..start + count.min(frames)].copy_from_slice(&made[..count.min(frames)]);
        }
        let made = &spoken.audio.channels[0];
        let end = made.len().min(samples);
        waves[row * samples..row * samples + end].copy_from_slice(&made[..end]);
    }
    sheet.exact("batch.codes_lens", &[counts.len()], &counts);
    sheet.exact("batch.codes", &shape, &codes);
    sheet.close_values("batch.wave", &[lengths.len(), samples], &waves);
    Ok(())
}
