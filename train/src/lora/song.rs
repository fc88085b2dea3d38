//! A song as training data: latents and a condition.

use acestep_engine::{Event, Notice, Observe, Residency, audio::read};
use acestep_import::AceStep;
use acestep_model::Backend;
use acestep_music::{
    Networks,
    codec::{self, Encode},
    condition::{self, Prompt, Timbre},
    prompt::{TEXT_TO_MUSIC, caption_prompt, lyric_prompt},
};
use burn::tensor::Tensor;

use super::DatasetSong;
use crate::Error;

/// Latents and condition of a song, in memory.
#[derive(Debug, Clone)]
pub struct TrainingSong {
    /// `[T, C]`
    pub latents: Vec<f32>,
    /// `[L, H]`
    pub condition: Vec<f32>,
}

/// The data that all songs share.
#[derive(Debug, Clone)]
pub struct Common {
    /// Channels of the latents.
    pub channels: usize,
    /// Width of the condition.
    pub width: usize,
    /// The null condition of guidance, `[H]`.
    pub null: Vec<f32>,
    /// Latents of silence, `[T, C]`.
    pub silence: Vec<f32>,
}

/// Reads songs and encodes them and their texts as training data.
///
/// A song longer than `longest` seconds is cut to them.
///
/// # Errors
/// [`Error::File`] if a song cannot be read, a network cannot be loaded or fails, or the run is
/// cancelled.
pub fn prepare<B: Backend>(
    entries: &[DatasetSong],
    longest: f64,
    folder: &AceStep,
    place: &acestep_model::Place<B>,
    observe: &dyn Observe,
) -> Result<(Vec<TrainingSong>, Common), Error> {
    let networks = Networks::new(folder, place.clone(), Residency::LastUsed);
    let channels = networks.configs().vae.decoder_input_channels;
    let stored = networks.silence_latent()?;
    let vae = &networks.configs().vae;
    let (frame, rate) = (vae.frames_per_second().recip(), vae.sampling_rate);
    let mut latents = Vec::with_capacity(entries.len());
    // All songs with one network before the next, so that each network is loaded once.
    for entry in entries {
        let (mut audio, mut notices) = read::song(&entry.audio, frame, rate, observe)?;
        let (whole, most) = (audio.seconds(), (longest * f64::from(audio.sample_rate)) as usize);
        audio.crop(most);
        let seconds = audio.seconds();
        if seconds < whole {
            let name = entry.audio.display();
            notices.push(Notice(format!(
                "`{name}` lasts {whole:.0} s: only its first {longest:.0} s are used"
            )));
        }
        notices.into_iter().for_each(|notice| observe.event(Event::Noticed(notice)));
        let encoded = codec::encode(&audio, Encode::default(), &networks, observe)?;
        latents.push((encoded.data, seconds));
    }
    let timbre = Timbre::of_silence(&networks, &stored);
    let reads: Vec<_> = entries
        .iter()
        .zip(&latents)
        .map(|(entry, (_, seconds))| {
            let metas = entry.metas_of(*seconds).to_text();
            let caption = caption_prompt(TEXT_TO_MUSIC, &entry.caption, &metas);
            let lyrics = lyric_prompt(&entry.language, &entry.lyrics);
            let prompt = Prompt { caption, lyrics, plain_caption: None };
            condition::encode_text(&networks, &[prompt], observe)
        })
        .collect::<Result<_, _>>()?;
    let mut songs = Vec::with_capacity(entries.len());
    let (mut null, mut width) = (Vec::new(), 0);
    for (read, (latents, _)) in reads.iter().zip(latents) {
        let heard = condition::encode_condition(&networks, read, &timbre, observe)?;
        width = heard.first.hidden.dims()[2];
        null = values(heard.null);
        songs.push(TrainingSong { latents, condition: values(heard.first.hidden) });
    }
    let silence = values(stored);
    networks.free();
    Ok((songs, Common { channels, width, null, silence }))
}

fn values<B: Backend>(x: Tensor<B, 3>) -> Vec<f32> {
    acestep_engine::host::to_host(x)
}
