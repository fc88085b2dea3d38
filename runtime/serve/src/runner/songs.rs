//! Songs: a job becomes an order, the order a song.

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use acestep_engine::{Error, Notice, Residency, audio::format::Encoding};
use acestep_import::AceStep;
use acestep_model::Backend;
use acestep_music::{
    Conditioning, Rendered, Request, align::attention_maps, codes, latents, lyrics::is_sung,
};
use acestep_session::{
    language::compose_all_with,
    song::{
        ExtraOptions, ExtraResults, OnConditions, Order, Resolved, adapters, score_with, songs_with,
    },
};
use serde_json::{Value, json};

use super::{Failed, Networked, notify, sinks, song_preview::SongPreview};
use crate::{
    job::{Content, JobError},
    objects::Objects,
    request::SongRequest,
    worker::JobTask,
};

/// Replaces ids of files by their places.
pub(super) fn with_places(request: &mut Request, objects: &Objects) -> Result<(), JobError> {
    let source = &request.source;
    for id in source.src_latents.iter().chain(source.ref_latents.iter().flatten()) {
        latents(objects, id)?;
    }
    for file in request.source.files_mut() {
        *file = place(objects, file)?;
    }
    Ok(())
}

/// The most frames of latents: ten minutes.
const MOST_FRAMES: usize = 15_000;
/// The largest file of latents: that many frames of 64 numbers of 4 bytes, and a header.
const MOST_BYTES: u64 = MOST_FRAMES as u64 * 256 + (64 << 10);

/// Returns the place of a file of latents; one that is longer than a song is refused unread.
pub(super) fn latents(objects: &Objects, id: &str) -> Result<String, JobError> {
    let path = place(objects, id)?;
    match std::fs::metadata(&path) {
        Ok(found) if found.len() > MOST_BYTES => Err(too_long()),
        _ => Ok(path),
    }
}

/// Refuses latents of more than ten minutes.
pub(super) fn check_frames(frames: usize) -> Result<(), JobError> {
    if frames > MOST_FRAMES { Err(too_long()) } else { Ok(()) }
}

fn too_long() -> JobError {
    let message = format!("the latents have more than {MOST_FRAMES} frames, which are ten minutes");
    JobError::new("out_of_range", message)
}

/// Returns the place of the file with this id.
pub(super) fn place(objects: &Objects, id: &str) -> Result<String, JobError> {
    let missing =
        || JobError::new("file_not_found", format!("the file `{id}` is not here any more"));
    let id = uuid::Uuid::parse_str(id).map_err(|_| missing())?;
    let path = objects.file(id);
    match path.is_file() {
        true => Ok(path.to_string_lossy().into_owned()),
        false => Err(missing()),
    }
}

impl<B: Backend> Networked<'_, B> {
    pub(super) fn generate(&mut self, task: &mut JobTask<'_>) -> Result<(), Failed> {
        let asked = SongRequest::read(task.request())?;
        let SongRequest {
            mut request, mut notices, genres, lrc, vtt, plot, score, latents, ..
        } = asked;
        let sent = request.clone();
        with_places(&mut request, task.objects)?;
        let file = |id: Option<&String>| -> Result<Option<PathBuf>, JobError> {
            Ok(id.map(|id| place(task.objects, id)).transpose()?.map(PathBuf::from))
        };
        let noise = file(asked.noise.as_ref())?;
        let conditioning = file(asked.conditioning.as_ref())?;
        let (format, options) = (request.output.audio_format.as_deref(), request.output.encoding());
        let encoding = sinks::encoding(format, options, &mut notices)?;
        let folder = self.folder(&mut request)?;
        let model = request.compute.model.clone();
        let model = model.unwrap_or_else(|| self.installed.default_model().to_owned());
        let can_align = attention_maps::heads(&folder.configs().dit).is_ok();
        let has_words = request.words.lyrics.as_deref().is_some_and(is_sung);
        let lines = lrc.unwrap_or(can_align && has_words) || vtt;
        let extras = ExtraOptions::new(lines, score, asked.score_scale)?;
        let order = Order {
            request,
            model,
            notices,
            noise: noise.as_deref(),
            conditioning: conditioning.as_deref(),
            limits: asked.limits,
            genres,
            language_model: None,
            engine: self.engine,
            residency: Residency::Kept,
            layout: self.installed.layout(),
        };
        let mut planned = order.plan(folder, task.observe).map_err(|failed| {
            notify(task.observe, failed.notices);
            failed.error
        })?;
        if planned.seeds().is_none() && sent.noise.seed.is_some() {
            let text = "the noise is from a file: a seed has no effect";
            planned.order.notices.push(Notice(text.into()));
        }
        let mut resolved = planned.resolve(extras, false)?;
        if asked.dump_conditioning {
            resolved.plan.check_conditioning()?;
        }
        notify(task.observe, resolved.notices.clone());
        self.with_room(|_| resolved.check_memory())?;
        let resident = self.language.as_ref().map(|language| &*language.folder);
        let keeps_language = resolved.fits_beside(resident)?;
        if !keeps_language {
            self.drop_all();
        }
        let key = (resolved.setup.model.clone(), adapters_key(&resolved.request));
        self.hold_song(key, &resolved.folder);
        if resolved.setup.composition.is_some() {
            resolved = self.composed(&resolved, task)?;
            if !keeps_language {
                self.language = None;
            }
        }
        notify(task.observe, resolved.plan_notices.clone());
        (task.resolved)(as_sent(resolved.to_request(), &resolved, &sent));
        self.begin_preview(task.folder);
        let Some(held) = &self.song else { return Err(internal().into()) };
        let observe = task.observe;
        let rate = resolved.folder.configs().vae.sampling_rate;
        let preview = SongPreview::new(observe, task.folder, rate, resolved.plan.samples());
        let mut written = Err(Failed::from(internal()));
        let conditions = RefCell::new(None);
        let keep = |found: Conditioning| {
            *conditions.borrow_mut() = Some(found.to_safetensors()?);
            Ok(())
        };
        let keep: Option<OnConditions<'_>> =
            if asked.dump_conditioning { Some(&keep) } else { None };
        songs_with(&[(&resolved, &preview)], keep, &held.networks, &mut |_, rendered| {
            written = rendered.map_err(Failed::from).and_then(|rendered| {
                let more = More { latents, vtt, plot, tags: asked.tags };
                write(task, &resolved, &sent, rendered, &encoding, more)
            });
            Ok(())
        })?;
        let (mut found, songs) = written?;
        if let Some(bytes) = conditions.take() {
            let name = "conditioning.safetensors".to_owned();
            sinks::named(task, 1, Content::Conditioning, name, bytes)?;
        }
        if let Some((folder, _)) = resolved.judge() {
            if !keeps_language {
                self.song = None;
            }
            let place = self.place.clone();
            let language = self.hold_language(folder.clone());
            found.take_judged(score_with::<B>(&resolved, language, &place, observe))?;
        }
        write_found(task, &resolved, &found, &songs)
    }

    /// Opens the model of a request with its adapters, or takes the one in memory.
    pub(super) fn folder(&self, request: &mut Request) -> Result<Arc<AceStep>, Failed> {
        let layout = self.installed.layout();
        let model = request.compute.model.clone();
        let model = model.unwrap_or_else(|| self.installed.default_model().to_owned());
        // Adapters are in the request by their places from here on.
        let found = adapters::find(request, layout)?;
        let key = (model.clone(), adapters_key(request));
        if let Some(song) = self.song.as_ref().filter(|song| song.is(&key)) {
            return Ok(song.folder.clone());
        }
        let mut folder = acestep_import::open(&model, layout).map_err(Error::checkpoint)?;
        adapters::fit(found, &mut folder)?;
        Ok(Arc::new(folder))
    }

    /// Lets the language model complete a request.
    fn composed(&mut self, resolved: &Resolved, task: &JobTask<'_>) -> Result<Resolved, Failed> {
        let Some(composition) = &resolved.setup.composition else {
            return Err(internal().into());
        };
        let place = self.place.clone();
        let held = self.hold_language(composition.folder.clone());
        let asked = [(composition.composing(&resolved.request), task.observe)];
        let composed = compose_all_with::<B>(&asked, held, &place).remove(0)?;
        notify(task.observe, composed.changes.clone());
        Ok(resolved.completed(composed)?)
    }
}

/// An error that only a mistake in this program can cause.
pub(super) fn internal() -> JobError {
    JobError::new("internal", "a mistake in this program: the model is not in memory")
}

/// Returns the adapters of a request, whose names are places, with the times of their files: one that was
/// trained anew is another one.
pub(super) fn adapters_key(request: &Request) -> String {
    let places = request.compute.adapter.iter().flatten();
    let mut times: Vec<_> = places.flat_map(|place| times_of(Path::new(place))).collect();
    // A directory has its files in any order.
    times.sort_unstable();
    format!("{:?} {:?} {times:?}", request.compute.adapter, request.compute.adapter_scale)
}

/// Returns size and time of a file, or of each file of a directory.
fn times_of(place: &Path) -> Vec<(u64, Option<SystemTime>)> {
    let of = |path: &Path| {
        let found = fs::metadata(path).ok()?;
        Some((found.len(), found.modified().ok()))
    };
    match fs::read_dir(place) {
        Ok(entries) => entries.flatten().filter_map(|entry| of(&entry.path())).collect(),
        Err(_) => of(place).into_iter().collect(),
    }
}

/// Returns a complete request as a client sees it: its files by their ids.
fn as_sent(mut complete: Request, resolved: &Resolved, sent: &Request) -> Value {
    complete.source.files_mut().zip(sent.source.files()).for_each(|(place, id)| {
        place.clone_from(id);
    });
    // A place of this machine is nothing for clients.
    complete.compute.adapter.clone_from(&sent.compute.adapter);
    complete.compute.model = Some(resolved.setup.model.clone());
    json!(complete)
}

/// Results beside the songs that were asked for.
#[derive(Clone, Copy)]
struct More {
    latents: bool,
    vtt: bool,
    plot: bool,
    /// Tags in the files of sound.
    tags: bool,
}

/// Writes the songs that can be used, with a notice for each other one. Returns the times of their
/// lines, and the indices of the written songs.
fn write(
    task: &mut JobTask<'_>,
    resolved: &Resolved,
    sent: &Request,
    rendered: Rendered,
    encoding: &Encoding,
    more: More,
) -> Result<(ExtraResults, Vec<usize>), Failed> {
    let Rendered { songs: made, latents: all, aligned } = rendered;
    let rate = resolved.plan.frames_per_second();
    let mut songs = Vec::new();
    for (index, song) in made.into_iter().enumerate() {
        match song {
            Ok(song) => songs.push((index, song)),
            Err(error) => {
                let error = error.after(resolved.setup.engine.dtype);
                let name = resolved.name_of(index);
                notify(task.observe, [Notice(format!("{name} is not written: {error}"))]);
            }
        }
    }
    for &(index, ref song) in &songs {
        let track = index as u32 + 1;
        let seed = resolved.seeds().map(|seeds| seeds[index]);
        let mut tags = resolved.tags(index);
        // The file may be given to others: it names no place of this machine.
        tags.request.clear();
        let tags = more.tags.then_some(&tags);
        sinks::sound(task, track, &song.audio, encoding, tags, seed)?;
        if let (true, Some(latent)) = (more.latents, all.get(index)) {
            let bytes = latents::to_bytes(latent, latents::LatentsFormat::Vae, rate)?;
            sinks::file(task, track, Content::Latents, "vae", bytes)?;
        }
        let codes = &resolved.plan.source.codes;
        if let Some(list) = codes.get(index).or(codes.first()) {
            sinks::file(task, track, Content::Codes, "codes.txt", codes::to_list(list))?;
        }
        let mut request = as_sent(resolved.to_request_of(index), resolved, sent);
        request["seed"] = seed.into();
        request["batch_size"] = 1.into();
        let text = format!("{request:#}\n");
        sinks::file(task, track, Content::Request, "request.json", text)?;
    }
    let found = ExtraResults::of(aligned)?;
    let caption = sent.words.caption.as_deref().unwrap_or_default();
    let kinds = [
        ("lrc", "lrc", resolved.setup.extras.alignment.lines, Content::Lrc),
        ("vtt", "vtt", more.vtt, Content::Lrc),
        ("plot", "png", more.plot, Content::Plot),
    ];
    for &(index, ref song) in &songs {
        let track = index as u32 + 1;
        for (kind, extension, _, content) in kinds.iter().filter(|(_, _, is_wanted, _)| *is_wanted)
        {
            if let Some(bytes) = found.file(kind, index, song, caption)? {
                sinks::file(task, track, *content, extension, bytes)?;
            }
        }
    }
    Ok((found, songs.into_iter().map(|(index, _)| index).collect()))
}

/// Writes the scores of `songs`, if they are wanted.
fn write_found(
    task: &mut JobTask<'_>,
    resolved: &Resolved,
    found: &ExtraResults,
    songs: &[usize],
) -> Result<(), Failed> {
    let extras = &resolved.setup.extras;
    if extras.judges {
        for &index in songs {
            let track = index as u32 + 1;
            let text = Value::Object(found.to_json(extras, index)).to_string();
            sinks::file(task, track, Content::Score, "score.json", text)?;
        }
    }
    notify(task.observe, resolved.missing(found));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_that_is_trained_anew_is_another_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("voice.safetensors");
        fs::write(&path, "first").expect("written");
        let of = |place: &Path| {
            let mut request = Request::default();
            request.compute.adapter = Some(vec![place.display().to_string()]);
            adapters_key(&request)
        };
        let (file, directory) = (of(&path), of(folder.path()));
        assert_eq!((of(&path), of(folder.path())), (file.clone(), directory.clone()));
        fs::write(&path, "trained anew").expect("written");
        assert_ne!(of(&path), file);
        assert_ne!(of(folder.path()), directory);
    }
}
