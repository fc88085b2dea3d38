//! The autoencoder's decoder once more: latents stay what they are, and so everything that other networks
//! know of them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use acestep_import::{Directory, Part, VaeFolder};
use acestep_model::{Backend, Place, oobleck::Decoder};
use acestep_train::{
    course::{Lesson, digest},
    demo::Sizes,
    learner::awake,
    release::{read_tensors, tensors_of, weight_normed},
    vae::{Crops, loss_of_decoder},
};
use anyhow::Context;
use burn::backend::Autodiff;

use super::{
    Setting, Taught, tell,
    vae::{FILE, FRAMES, ITEMS, WEIGHTS, course, parts, release, what_is_made},
};

/// Its folder among those of the stages.
const FOLDER: &str = "decoder";

/// One of so many pieces is played by the band that the later networks know.
const SAME: usize = 2;

pub(super) fn run<B: Backend>(
    setting: &Setting<'_>,
    taught: Taught,
    place: &Place<B>,
) -> anyhow::Result<bool> {
    let kept = kept(setting)?;
    let file = kept.join(FILE);
    let before = VaeFolder::open(Directory::Disk(kept))?;
    let of = format!("{}, decoder, {SAME}, encoder {}", what_is_made(), digest_of_encoder(&file)?);
    let course = course(setting, taught, FOLDER, setting.seed.wrapping_add(1), of);
    let sizes = Sizes::demo()?;
    let device = &place.device;
    let encoder = before.encoder(place)?;
    let start = awake::<Autodiff<B>, Decoder<Autodiff<B>>>(before.decoder(place)?);
    let mut crops = Crops::new(course.seed, ITEMS, FRAMES * sizes.vae.hop()).with_same_band(SAME);
    let learned = course.run_in_parts::<Autodiff<B>, _, _, 2>(
        start,
        ["spectra", "waveform"],
        |step| parts(&mut crops, course.seed, step),
        |(sounds, seed): (Vec<f32>, u64), model| {
            let halves = (&encoder, model);
            let (loss, losses) =
                loss_of_decoder(halves, &sounds, ITEMS / 2, WEIGHTS.waveform, seed, device);
            Lesson { loss, parts: [losses.spectra, losses.waveform] }
        },
        &mut tell,
        setting.stop,
    )?;
    let Some(learned) = learned else { return Ok(false) };

    // Rounded once more the encoder would be another one.
    let mut tensors = read_tensors(&file)?;
    tensors.retain(|name, _| name.starts_with("encoder."));
    tensors.extend(weight_normed(tensors_of(&learned, Part::VaeDecoder)));
    release(setting, tensors)
}

/// The autoencoder before this stage, which is kept beside its state: what is released is another one afterwards.
fn kept(setting: &Setting<'_>) -> anyhow::Result<PathBuf> {
    let kept = setting.folder.join(FOLDER).join("before");
    if !kept.join("config.json").is_file() {
        drop(setting.vae()?);
        let released = setting.released("vae")?;
        let copied = fs::create_dir_all(&kept).and_then(|()| {
            // The one that is looked for comes last.
            [FILE, "config.json"]
                .iter()
                .try_for_each(|name| fs::copy(released.join(name), kept.join(name)).map(drop))
        });
        copied.with_context(|| format!("{}: cannot be written", kept.display()))?;
    }
    Ok(kept)
}

/// What an encoder is known by.
fn digest_of_encoder(file: &Path) -> anyhow::Result<String> {
    let tensors = read_tensors(file)?;
    let of_encoder = tensors.iter().filter(|(name, _)| name.starts_with("encoder."));
    let values: Vec<u8> =
        of_encoder.flat_map(|(_, of)| &of.values).flat_map(|x| x.to_le_bytes()).collect();
    Ok(digest([values.as_slice()]))
}
