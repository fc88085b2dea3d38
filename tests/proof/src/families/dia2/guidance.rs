//! Guidance as a filter of candidates, and draws by given numbers.

use acestep_model::{Backend, Place, speech::dia2::Files as _};
use acestep_speech::dia2::{DrawSettings, Guidance, Uniforms, ban};
use anyhow::Result;
use serde_json::Value;

use crate::{families::GoldenSource, golden::sheet::Sheet};

/// All of guidance and draws.
pub(super) fn compare<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    _: &Place<B>,
) -> Result<()> {
    let data = &of.dialogue.any()?.config().data;
    // Ids that are no codes.
    let banned = [data.audio_pad(), data.audio_bos()];
    sheet.inputs(|name| name.ends_with(".logits") || name.ends_with(".us"));
    let golden = sheet.golden;
    let list = |key: &str| golden.note(key).as_array().cloned().unwrap_or_default();
    for (case, note) in list("cases").iter().enumerate() {
        let name = format!("case{case}");
        sheet.attempt(&format!("{name}."), |sheet| {
            let logits = golden.floats(&format!("{name}.logits"))?;
            let rows: Vec<_> = logits.chunks(logits.len() / 2).map(<[f32]>::to_vec).collect();
            let width = rows[0].len();
            let guidance =
                Guidance { scale: number(&note["scale"]), filter_k: whole(&note["filter_k"]) };
            let mut kept = guidance.candidates(rows)?;
            let is_kept = |logits: &[f32]| -> Vec<i64> {
                logits.iter().map(|logit| (*logit > f32::MIN).into()).collect()
            };
            sheet.exact(&format!("{name}.keep"), &[1, 1, width], &is_kept(&kept));
            let values: Vec<f32> =
                kept.iter().map(|logit| if logit.is_finite() { *logit } else { 0.0 }).collect();
            sheet.close_values(&format!("{name}.kept"), &[1, 1, width], &values);
            ban(&mut kept, &banned);
            sheet.exact(&format!("{name}.keep_cb0"), &[1, 1, width], &is_kept(&kept));
            Ok(())
        })?;
    }
    for (case, note) in list("samples").iter().enumerate() {
        sheet.attempt(&format!("sample{case}."), |sheet| {
            let logits = golden.floats("sample.logits")?;
            let uniforms = golden.floats("sample.us")?;
            let count = uniforms.len();
            let sampling = DrawSettings {
                temperature: number(&note["temperature"]),
                top_k: whole(&note["top_k"]),
            };
            let mut drawing = Uniforms(uniforms.into_iter());
            let picks: Vec<i64> =
                (0..count).map(|_| sampling.choose(&logits, &mut drawing).into()).collect();
            sheet.exact(&format!("sample{case}.picks"), &[count], &picks);
            Ok(())
        })?;
    }
    Ok(())
}

fn number(value: &Value) -> f32 {
    value.as_f64().unwrap_or(f64::NAN) as f32
}

fn whole(value: &Value) -> usize {
    value.as_u64().unwrap_or_default() as usize
}
