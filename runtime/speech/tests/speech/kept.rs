//! Voices in files.

use std::{fs, path::Path};

use acestep_engine::{Unobserved, files::Existing};
use acestep_speech::{
    Chunks, SpeechError, Spoken,
    qwen3_tts::{KeptVoice, Networks, Plan, Request, Voice, speak},
};
use burn_flex::Flex;

use super::{base, networks, recording, request};
use acestep_import::Qwen3Tts;
use acestep_model::Place;

fn fine() -> Request {
    Request { voice: None, ..request("The sea is calm tonight.") }
}

fn plan(model: &Qwen3Tts, voice: Voice, request: &Request) -> Plan {
    Plan::new(request, Some(voice), 3, model).expect("a plan")
}

/// Keeps the voice of a recording at `path`.
fn keep(model: &Qwen3Tts, transcript: Option<&str>, path: &Path) -> KeptVoice {
    let networks = networks(model);
    let voice = Voice::of_recording(&recording(9_700), transcript, &networks, &Unobserved);
    let plan = plan(model, voice.expect("a voice"), &fine());
    let kept = KeptVoice::new(&plan, "auto", 0.4, &networks).expect("a snapshot");
    kept.write(path, Existing::Keep).expect("a file");
    kept
}

fn spoken(
    networks: &Networks<'_, Flex>,
    kept: &KeptVoice,
    model: &Qwen3Tts,
    is_fresh: bool,
) -> Spoken {
    let snapshot = kept.snapshot(networks).expect("the same sizes");
    let snapshot = snapshot.filter(|_| !is_fresh);
    assert_eq!(snapshot.is_none(), is_fresh);
    let plan = plan(model, kept.voice.clone(), &fine());
    let mut sink = |_: &[f32]| Ok(());
    speak(&plan, snapshot.as_ref(), networks, Chunks::default(), &Unobserved, &mut sink)
        .expect("speech")
}

#[test]
fn a_snapshot_speaks_as_a_fresh_voice_to_the_bit() {
    let model = base();
    let folder = tempfile::tempdir().expect("a folder");
    for (index, transcript) in [None, Some("Il fait beau.")].into_iter().enumerate() {
        let path = folder.path().join(index.to_string());
        let made = keep(&model, transcript, &path);
        let kept = KeptVoice::read(&path).expect("the file that was written");
        assert_eq!(kept, made);
        let networks = networks(&model);
        let (fresh, restored) =
            (spoken(&networks, &kept, &model, true), spoken(&networks, &kept, &model, false));
        assert_eq!(fresh.frames, restored.frames);
        assert_eq!(fresh.audio, restored.audio);
    }
}

/// Another language has other rows, so the prompt is read anew.
#[test]
fn a_snapshot_of_another_language_is_not_used() {
    let model = base();
    let folder = tempfile::tempdir().expect("a folder");
    let kept = keep(&model, Some("Il fait beau."), &folder.path().join("a"));
    let networks = networks(&model);
    let snapshot = kept.snapshot(&networks).expect("the same sizes").expect("the same model");
    let french = Request { language: Some("french".into()), ..fine() };
    let plan = plan(&model, kept.voice.clone(), &french);
    let of = |snapshot| {
        let mut sink = |_: &[f32]| Ok(());
        speak(&plan, snapshot, &networks, Chunks::default(), &Unobserved, &mut sink)
            .expect("speech")
            .frames
    };
    assert_eq!(of(Some(&snapshot)), of(None));
}

#[test]
fn a_snapshot_of_another_type_is_not_used() {
    let model = base();
    let folder = tempfile::tempdir().expect("a folder");
    let kept = keep(&model, None, &folder.path().join("a"));
    let dtype = burn::tensor::DType::BF16;
    let narrow =
        Networks::<Flex>::new(&model, Place { dtype, ..Place::f32(burn_flex::FlexDevice) });
    assert!(kept.snapshot(&narrow).expect("no error").is_none());
}

/// The header names the model, also if the tensors are not there.
#[test]
fn the_header_names_the_model() {
    let model = base();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a");
    let kept = keep(&model, None, &path);
    let bytes = fs::read(&path).expect("the file");
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    fs::write(&path, &bytes[..header]).expect("a file");
    assert_eq!(KeptVoice::model_at(&path).as_deref(), Some("Qwen3-TTS-12Hz-0.6B-Base"));
    assert_eq!(kept.model, "Qwen3-TTS-12Hz-0.6B-Base");
    assert!(KeptVoice::read(&path).is_err());
    fs::write(&path, &bytes[..header - 1]).expect("a file");
    assert_eq!(KeptVoice::model_at(&path), None);
}

#[test]
fn a_damaged_or_foreign_file_is_refused() {
    let model = base();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a");
    keep(&model, Some("Il fait beau."), &path);
    let whole = fs::read(&path).expect("the file");
    let refused = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("a file");
        let error = KeptVoice::read(&path).expect_err("damaged");
        assert!(matches!(error.family(), Some(SpeechError::BadVoice { .. })), "{error}");
        error.to_string()
    };
    for cut in [0, 7, 100, whole.len() / 2, whole.len() - 1] {
        refused(&whole[..cut]);
    }
    let mut changed = whole.clone();
    *changed.last_mut().expect("bytes") ^= 1;
    assert!(refused(&changed).contains("checksum differs"));
    let version = whole.windows(15).position(|of| of == b"acestep voice 1").expect("a format") + 14;
    let mut newer = whole.clone();
    newer[version] = b'2';
    assert!(refused(&newer).contains("another version of this program made it"));
    let other = safetensors::serialize::<String, safetensors::tensor::TensorView<'_>, _>([], None);
    assert!(refused(&other.expect("an empty file")).contains("not a voice of this program"));
}
