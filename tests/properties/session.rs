//! A task on networks that stay in memory equals an engine's.

use std::{sync::Arc, time::Instant};

use acestep_engine::{Audio, Device, Engine, Error, Residency, Unobserved};
use acestep_import::{AceStep, Layout, TINY, TINY_SPEECH};
use acestep_music::{Composed, Encode, Networks, Rendered, Request, lm::CachedModel};
use acestep_session::{
    codec,
    language::{self, TokenLimits},
    song::{self, ExtraOptions, Order, Resolved},
    speech::{self, Fields, Ready, Sink, SpeechInput},
};
use acestep_speech::{Options, Spoken, Word};
use acestep_tests::{Cpu, place};
use burn::tensor::DType;

pub(crate) const ENGINE: Engine = Engine { device: Device::Cpu, dtype: DType::F32 };

fn model(layout: &Layout) -> AceStep {
    acestep_import::open(TINY, layout).expect("built in")
}

/// A song with codes of the language model, scored by it.
fn resolved() -> Resolved {
    let layout = Layout::new(None);
    let request = Request::default().with(|r| {
        (r.words.caption, r.words.lyrics) = (Some("rain".into()), Some("drop by drop".into()));
        r.words.duration = Some(2.0);
        r.noise.seed = Some(vec![7]);
        r.language.thinking = Some(true);
        // With these settings a random network soon ends its answer.
        (r.language.lm_temperature, r.language.lm_top_p) = (Some(2.0), Some(1.0));
    });
    // ANCHOR: order
    let order = Order {
        request,
        model: TINY.to_owned(),
        notices: vec![],
        noise: None,
        conditioning: None,
        limits: TokenLimits::default(),
        genres: None,
        language_model: None,
        engine: ENGINE,
        residency: Residency::WhileUsed,
        layout: &layout,
    };
    let planned = order.plan(Arc::new(model(&layout)), &Unobserved).expect("a plan");
    let extras = ExtraOptions::new(false, true, None).expect("the usual scale");
    planned.resolve(extras, false).expect("a language model")
    // ANCHOR_END: order
}

/// Another thread may decide what the thread of the device makes.
#[test]
fn a_resolved_song_can_go_to_another_thread() {
    fn goes<T: Send + Sync>() {}
    goes::<Resolved>();
}

fn completed(resolved: &Resolved, mut composed: Vec<Result<Composed, Error>>) -> Resolved {
    let completed = resolved.completed(composed.remove(0).expect("codes")).expect("a plan");
    completed.check_memory().expect("it is small");
    completed
}

fn audio(made: Result<Rendered, Error>, into: &mut Vec<Audio>) -> Result<(), Error> {
    into.extend(made?.all_songs()?.into_iter().map(|song| song.audio));
    Ok(())
}

#[test]
fn a_song_on_kept_networks_is_that_of_an_engine() {
    let resolved = resolved();
    let composition = resolved.setup.composition.as_ref().expect("it thinks");
    let asked = [(composition.composing(&resolved.request), &Unobserved as _)];
    let composed = language::compose_all(&asked, &composition.folder, ENGINE).expect("a CPU");
    let whole = completed(&resolved, composed);
    let (mut once, mut kept) = (vec![], vec![]);
    song::songs(&[(&whole, &Unobserved)], None, &mut |_, made| audio(made, &mut once))
        .expect("a song");
    let scored = song::score_all(&[(&whole, &Unobserved)], Instant::now()).expect("a CPU");
    let scored = scored.into_iter().next().expect("one request").0.expect("scores");

    let held = CachedModel::<Cpu>::new(&*composition.folder);
    // ANCHOR: kept
    let networks = Networks::<Cpu>::new(&*resolved.folder, place(), Residency::Kept);
    for _ in 0..2 {
        let own = completed(&resolved, language::compose_all_with(&asked, &held, &place()));
        assert_eq!(own.plan, whole.plan);
        let songs = [(&own, &Unobserved as _)];
        song::songs_with(&songs, None, &networks, &mut |_, made| audio(made, &mut kept))
            .expect("a song");
        let again = song::score_with(&own, &held, &place(), &Unobserved).expect("scores");
        assert_eq!(again, scored);
    }
    // ANCHOR_END: kept
    assert_eq!(kept, [&once[..], &once[..]].concat());
    let saved = whole.to_request();
    assert_eq!(saved.source.audio_codes.as_deref(), Some(&whole.plan.source.codes[..]));
}

#[test]
fn a_sound_through_the_codec_is_the_same_on_kept_networks() {
    let folder = model(&Layout::new(None));
    let wave = |i: usize| (i as f32 * 0.05).sin() * 0.5;
    let channel: Vec<f32> = (0..48_000).map(wave).collect();
    let sound = Audio { sample_rate: 48_000, channels: vec![channel.clone(), channel] };
    let how = Encode::default();
    let latents = codec::encode(&sound, how, &folder, ENGINE, &Unobserved).expect("latents");
    let heard = codec::decode(&latents, None, &folder, ENGINE, &Unobserved).expect("sound");
    let networks = Networks::<Cpu>::new(&folder, place(), Residency::Kept);
    let own = codec::encode_with(&sound, how, &folder, &networks, &Unobserved).expect("latents");
    assert_eq!((own.shape, &own.data), (latents.shape, &latents.data));
    let own = codec::decode_with(&own, None, &folder, &networks, &Unobserved).expect("sound");
    assert_eq!(own, heard);
}

/// The spoken sounds with their words, and the samples while they were made.
#[derive(Default, PartialEq, Debug)]
pub(crate) struct Collected {
    pub(crate) samples: Vec<f32>,
    pub(crate) sounds: Vec<Audio>,
    words: Vec<Word>,
}

impl Sink for Collected {
    fn samples(&mut self, _index: usize, samples: &[f32]) -> Result<(), Error> {
        self.samples.extend(samples);
        Ok(())
    }

    fn done(&mut self, _index: usize, spoken: Spoken) -> Result<(), Error> {
        self.sounds.push(spoken.audio);
        self.words.extend(spoken.words);
        Ok(())
    }
}

pub(crate) fn spoken(ready: &dyn Ready, options: Options) -> Collected {
    ready.check_memory(ENGINE, options).expect("it is small");
    let mut sink = Collected::default();
    ready.speak(options, None, &Unobserved, &mut sink).expect("speech");
    sink
}

#[test]
fn speech_on_kept_networks_is_that_of_an_engine() {
    let layout = Layout::new(None);
    let input = SpeechInput {
        texts: vec!["One two three.".to_owned()],
        fields: Fields::from_iter([("max_new_tokens".to_owned(), 8.into())]),
        seed: 3,
        voices: None,
        lines: false,
    };
    let options = Options { batch_size: 1, ..Options::default() };
    let model = speech::open(Some(TINY_SPEECH), &mut Fields::new(), None, &layout);
    let once = model.expect("built in").prepare(input.clone(), ENGINE, &Unobserved, &mut vec![]);
    let once = once.expect("it is short");
    let whole = spoken(&*once, options);
    let kept = speech::open_on::<Cpu>(TINY_SPEECH, &layout, place()).expect("built in");
    for _ in 0..2 {
        let ready = kept.clone().prepare(input.clone(), &Unobserved, &mut vec![]);
        assert_eq!(spoken(&*ready.expect("it is short"), options), whole);
    }
    assert_eq!(whole.sounds[0].channels[0], whole.samples);
    // A caller that takes the samples needs no second copy.
    let alone = spoken(&*once, Options { keeps_samples: false, ..options });
    assert_eq!((&alone.samples, alone.sounds[0].samples()), (&whole.samples, 0));
}
