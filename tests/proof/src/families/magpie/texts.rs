//! From text to sound, by the public front.

use acestep_engine::Unobserved;
use acestep_import::Magpie;
use acestep_model::{Backend, Place, speech::magpie::Files};
use acestep_speech::{
    Chunks, Made, Options, Spoken,
    magpie::{Networks, Plan, Speaking},
};
use anyhow::{Result, anyhow};

use super::runs::{by_codebook, plan};
use crate::golden::sheet::Sheet;

/// All stored texts.
pub(super) fn compare<B: Backend>(
    sheet: &mut Sheet<'_>,
    model: &Magpie,
    place: &Place<B>,
) -> Result<()> {
    sheet.skip_all("each text of a batch is as alone", |name| name.starts_with("batch."));
    for tag in sheet.golden.tags(".codes") {
        if tag != "batch" {
            sheet.attempt(&format!("{tag}."), |sheet| text(sheet, &tag, model, place))?;
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
            Made::Samples(samples) => streamed.extend(samples),
            Made::Done(spoken) if spoken.audio.channels == [streamed.clone()] => return Ok(spoken),
            Made::Done(_) => return Err(anyhow!("the streamed samples are not the result's")),
        }
    }
    Err(anyhow!("a run without a result"))
}

fn text<B: Backend>(
    sheet: &mut Sheet<'_>,
    tag: &str,
    model: &Magpie,
    place: &Place<B>,
) -> Result<()> {
    let note = sheet.golden.note(tag).clone();
    let plan = plan(&note, None, model)?;
    let networks = Networks::<B>::new(model, place.clone());
    let whole = Chunks { first: usize::MAX, others: usize::MAX };
    let whole = spoken(plan.clone(), &networks, whole)?;
    let (shape, codes) = by_codebook(&whole.frames.concat(), model.sizes().codebooks);
    sheet.exact(&format!("{tag}.codes"), &shape, &codes);
    let streamed = spoken(plan, &networks, Chunks { first: 1, others: 3 })?;
    // The farther one of both is compared.
    let name = format!("{tag}.wave");
    let theirs = sheet.golden.floats(&name)?;
    let (whole, streamed) = (&whole.audio.channels[0], &streamed.audio.channels[0]);
    let pairs = theirs.iter().zip(whole).zip(streamed);
    let farther = pairs.map(|((theirs, whole), streamed)| {
        if (streamed - theirs).abs() > (whole - theirs).abs() { *streamed } else { *whole }
    });
    let farther: Vec<f32> = farther.collect();
    let length = if whole.len() == streamed.len() { whole.len() } else { 0 };
    sheet.close_values(&name, &[length], &farther);
    Ok(())
}
