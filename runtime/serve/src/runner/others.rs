//! Songs to words, words to requests, sound to latents and back.

use std::{path::Path, sync::Arc};

use acestep_engine::{
    Error, Notice,
    audio::{fade::fade, read},
    tiling::Tiling,
};
use acestep_import::{AceStep, Network};
use acestep_model::Backend;
use acestep_music::{Encode, NoiseSource, Request, latents, lm::compose, request::Language};
use acestep_session::{
    codec::{self, decode_with, encode_with},
    language::{Choice, compose_all_with, open},
    understand::{self, UnderstandInput, codes_with},
    writing::Writing,
};

use super::{Failed, Networked, notify, sinks, song_preview::SongPreview, songs};
use crate::{
    job::Content,
    request::{
        ComposeRequest, DecodeRequest, EncodeRequest, SongRequest, SongSource, UnderstandRequest,
    },
    worker::JobTask,
};

impl<B: Backend> Networked<'_, B> {
    /// Describes a song, or audio codes.
    pub(super) fn understand(&mut self, task: &mut JobTask<'_>) -> Result<(), Failed> {
        let UnderstandRequest {
            model,
            source,
            request: read,
            limits,
            genres,
            codes_only,
            mut notices,
        } = UnderstandRequest::read(task.request())?;
        let model = model.unwrap_or_else(|| self.installed.default_model().to_owned());
        let seed = read.noise.seed.as_ref().and_then(|seeds| seeds.first()).copied();
        let seed = seed.unwrap_or(0);
        let mut request = understand::request(seed);
        let (language, usual) = (read.language, request.language);
        request.language = Language {
            lm_temperature: language.lm_temperature.or(usual.lm_temperature),
            lm_top_p: language.lm_top_p.or(usual.lm_top_p),
            ..language.clone()
        };
        let settings = understand::settings(&request, limits, &mut notices)?;
        let codes = match source {
            SongSource::Sound(id) => {
                let path = songs::place(task.objects, &id)?;
                self.codes(task, &model, Path::new(&path), &mut notices)?
            }
            SongSource::Latents(id) => {
                let path = songs::latents(task.objects, &id)?;
                self.codes_of_latents(task, &model, Path::new(&path))?
            }
            SongSource::Codes(codes) => codes,
        };
        if codes_only {
            notify(task.observe, notices);
            let request = Request::default().with(|r| r.source.audio_codes = Some(vec![codes]));
            return Ok(sinks::file(task, 1, Content::Request, "request.json", request.to_json())?);
        }
        let choice = language.lm_model.as_deref();
        let choice = Choice { asked: choice, model: &model, configured: None };
        let folder = open(choice, self.installed.layout(), self.engine)?;
        notify(task.observe, notices);
        let place = self.place.clone();
        let held = self.hold_language(Arc::new(folder));
        let understood =
            compose::understand::<B>(&codes, &settings, genres, held, &place, task.observe)?;
        let description = understand::to_json(&understood, &codes, seed);
        let text = format!("{description:#}\n");
        sinks::file(task, 1, Content::Description, "description.json", text)?;
        let request = understood.to_request(&codes).to_json();
        Ok(sinks::file(task, 1, Content::Request, "request.json", request)?)
    }

    fn codes(
        &mut self,
        task: &JobTask<'_>,
        model: &str,
        path: &Path,
        notices: &mut Vec<Notice>,
    ) -> Result<Vec<u32>, Failed> {
        let folder = acestep_import::open(model, self.installed.layout());
        let source =
            UnderstandInput::read(path, folder.map_err(Error::checkpoint)?, notices, task.observe)?;
        let (needs, _) = source.needs(self.engine)?;
        self.with_room(|engine| acestep_session::memory::check(&needs, false, engine))?;
        let UnderstandInput::Sound { audio, folder } = source else {
            return Err(songs::internal().into());
        };
        let folder = Arc::new(*folder);
        let networks = self.networks(model, &folder)?;
        Ok(codes_with::<B>(&audio, &folder, networks, task.observe)?)
    }

    fn codes_of_latents(
        &mut self,
        task: &JobTask<'_>,
        model: &str,
        path: &Path,
    ) -> Result<Vec<u32>, Failed> {
        let folder = self.opened(model)?;
        folder.require(Network::AudioCodec).map_err(Error::checkpoint)?;
        let read = latents::read(path, folder.configs().dit.audio_acoustic_hidden_dim)?;
        songs::check_frames(read.shape[1])?;
        let networks = self.networks(model, &folder)?;
        Ok(understand::codes_of_latents_with::<B>(&read, &folder, networks, task.observe)?)
    }

    /// Lets the language model complete a request.
    pub(super) fn compose(&mut self, task: &mut JobTask<'_>) -> Result<(), Failed> {
        let ComposeRequest { mode, codes, song } = ComposeRequest::read(task.request())?;
        let SongRequest { request, notices, genres, limits, .. } = song;
        let model = request.compute.model.clone();
        let model = model.unwrap_or_else(|| self.installed.default_model().to_owned());
        let choice = request.language.lm_model.clone();
        let choice = Choice { asked: choice.as_deref(), model: &model, configured: None };
        let folder = open(choice, self.installed.layout(), self.engine)?;
        let mut writing = Writing::new(request, mode, codes, limits, notices)?;
        let said = writing.notices.len();
        self.with_room(|engine| {
            // What a first check said is said again.
            writing.notices.truncate(said);
            writing.check(&folder, engine)
        })?;
        notify(task.observe, std::mem::take(&mut writing.notices));
        let place = self.place.clone();
        let held = self.hold_language(Arc::new(folder));
        let asked = [(writing.composing(genres), task.observe)];
        let mut composed = compose_all_with::<B>(&asked, held, &place).remove(0)?;
        let request = writing.finished(&mut composed);
        notify(task.observe, std::mem::take(&mut composed.changes));
        sinks::file(task, 1, Content::Request, "request.json", request.to_json())?;
        if !composed.text.is_empty() {
            sinks::file(task, 1, Content::Text, "text.txt", &composed.text)?;
        }
        Ok(())
    }

    pub(super) fn encode(&mut self, task: &mut JobTask<'_>) -> Result<(), Failed> {
        let EncodeRequest { model, audio, format, sample, seed, tiles } =
            EncodeRequest::read(task.request())?;
        let model = model.unwrap_or_else(|| self.installed.default_model().to_owned());
        let path = songs::place(task.objects, &audio)?;
        let folder = self.opened(&model)?;
        let vae = &folder.configs().vae;
        let (least, rate) = (vae.frames_per_second().recip(), vae.sampling_rate);
        let (audio, mut notices) = read::song(Path::new(&path), least, rate, task.observe)?;
        let (_, frames) = codec::length(&audio, &folder)?;
        let tiling = codec::tiling(tiles, Tiling::ENCODE, frames, &mut notices)?;
        // Without a seed the job's id is one: the result tells it.
        let seed = sample.then(|| seed.unwrap_or_else(|| task.job.id.as_u64_pair().1 >> 32));
        if let Some(seed) = seed {
            notices.push(Notice(format!("the latents are sampled with seed {seed}")));
        }
        notify(task.observe, notices);
        self.with_room(|engine| codec::check_memory(&folder, true, frames, engine))?;
        let networks = self.networks(&model, &folder)?;
        let how = Encode { tiling, draw: seed.map(|seed| (NoiseSource::default(), seed)) };
        let encoded = encode_with::<B>(&audio, how, &folder, networks, task.observe)?;
        let rate = folder.configs().vae.frames_per_second();
        let bytes = latents::to_bytes(&encoded, format, rate)?;
        Ok(sinks::file(task, 1, Content::Latents, format.name(), bytes)?)
    }

    pub(super) fn decode(&mut self, task: &mut JobTask<'_>) -> Result<(), Failed> {
        let DecodeRequest { model, latents, mut request, mut notices } =
            DecodeRequest::read(task.request())?;
        let model = model.unwrap_or_else(|| self.installed.default_model().to_owned());
        let path = songs::latents(task.objects, &latents)?;
        let (format, options) = (request.output.audio_format.as_deref(), request.output.encoding());
        let encoding = sinks::encoding(format, options, &mut notices)?;
        let folder = self.opened(&model)?;
        let channels = folder.configs().dit.audio_acoustic_hidden_dim;
        let read = latents::read(Path::new(&path), channels)?;
        let frames = read.shape[1];
        songs::check_frames(frames)?;
        self.with_room(|engine| codec::check_memory(&folder, false, frames, engine))?;
        let tiles = (request.compute.vae_chunk, request.compute.vae_overlap);
        let tiling = codec::tiling(tiles, Tiling::default(), frames, &mut notices)?;
        let changes = codec::changes(&mut request.output, &folder, frames, &mut notices)?;
        self.begin_preview(task.folder);
        let networks = self.networks(&model, &folder)?;
        let vae = &folder.configs().vae;
        let preview =
            SongPreview::new(task.observe, task.folder, vae.sampling_rate, frames * vae.hop());
        let mut audio = decode_with::<B>(&read, tiling, &folder, networks, &preview)?;
        notices.extend(changes.loudness.apply(&mut audio));
        fade(&mut audio, changes.fades());
        notify(task.observe, notices);
        Ok(sinks::sound(task, 1, &audio, &encoding, None, None)?)
    }

    /// Opens a model without adapters, or takes the one in memory.
    fn opened(&self, model: &str) -> Result<Arc<AceStep>, Failed> {
        self.folder(&mut Request::default().with(|of| of.compute.model = Some(model.to_owned())))
    }

    /// Returns the networks of a model without adapters.
    fn networks(
        &mut self,
        model: &str,
        folder: &Arc<AceStep>,
    ) -> Result<&acestep_music::Networks<'static, B>, Failed> {
        self.hold_song((model.to_owned(), songs::adapters_key(&Request::default())), folder);
        match &self.song {
            Some(song) => Ok(&song.networks),
            None => Err(songs::internal().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use acestep_engine::{Device, Engine, on_engine};
    use acestep_import::Layout;
    use burn::tensor::DType;

    use super::*;
    use crate::installed::Installed;

    #[test]
    fn a_song_without_adapters_takes_the_model_that_a_decoding_left_in_memory() {
        let installed = &Installed::new(Layout::new([]), None, None, None);
        let engine = Engine { device: Device::Cpu, dtype: DType::F32 };
        let is_shared = on_engine!(engine,
        for<'a>(installed: &'a Installed, engine: Engine) -> bool,
        |place: B| {
            let mut runner = Networked::<B>::new(installed, engine, place);
            let model = installed.default_model();
            let Ok(folder) = runner.opened(model) else { panic!("`{model}` is in the program") };
            let is_held = runner.networks(model, &folder).is_ok();
            let of_song = runner.folder(&mut Request::default());
            is_held && of_song.is_ok_and(|of_song| Arc::ptr_eq(&of_song, &folder))
        });
        assert!(is_shared.expect("a CPU"));
    }
}
