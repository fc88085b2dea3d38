//! Speech models of another program speak as those of the released layout.

use std::{
    error::Error,
    fs::{self, File},
    io::{Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use acestep_engine::{Audio, Unobserved};
use acestep_import::{Layout, ModelFormat, Qwen3Tts, Qwen3TtsNetwork};
use acestep_model::speech::qwen3_tts::{Checkpoint, Files};
use acestep_speech::{
    Chunks, Spoken,
    qwen3_tts::{Networks, Plan, Request, Sampling, Voice, speak},
};
use acestep_tests::{
    Cpu, DEVICE,
    foreign::{
        GgufValue, Stack, Weights, qwentts_codec, qwentts_talker, value_number, value_text,
        value_texts, write_gguf, write_gguf_models, write_qwentts, write_qwentts_codec,
        write_qwentts_talker, write_rounded_release,
    },
    place, root,
};
use tempfile::TempDir;

use crate::foreign::{Refusal, temporary, values};

const KINDS: [&str; 2] = ["CustomVoice", "Base"];

fn released(kind: &str) -> Qwen3Tts {
    let goldens = root().join("tests/goldens/checkpoints_qwen3_tts");
    Qwen3Tts::open(&goldens.join(format!("Qwen3-TTS-12Hz-0.6B-{kind}"))).expect("a golden")
}

/// Writes a talker and the codec.
fn written(kind: &str, weights: Weights) -> TempDir {
    let dir = temporary();
    write_qwentts_talker(dir.path(), kind, weights);
    write_qwentts_codec(dir.path(), weights);
    dir
}

fn find(choice: &str, dir: &Path) -> Qwen3Tts {
    Qwen3Tts::find(Some(choice), &Layout::new([dir.to_owned()])).expect("a model")
}

/// Speaks with the likeliest codes; a base model has the voice of a recording.
fn spoken(model: &Qwen3Tts) -> Spoken {
    let networks = Networks::<Cpu>::new(model, place());
    let is_base = model.config().speaker_encoder_config.is_some();
    let sampling = Sampling {
        do_sample: Some(false),
        subtalker_dosample: Some(false),
        max_new_tokens: Some(10),
        ..Sampling::default()
    };
    let request = Request {
        text: "The sea is calm.".into(),
        voice: (!is_base).then(|| "dylan".into()),
        language: (!is_base).then(|| "chinese".into()),
        sampling,
        ..Request::default()
    };
    let sample = |i: usize| (i as f32 * 0.0371).sin() * 0.4 + (i as f32 * 0.31).sin() * 0.05;
    let recording = Audio { channels: vec![(0..9_700).map(sample).collect()], sample_rate: 24_000 };
    let voice = is_base.then(|| {
        Voice::of_recording(&recording, Some("Il fait beau."), &networks, &Unobserved)
            .expect("a voice")
    });
    let plan = Plan::new(&request, voice, 0, model).expect("a good request");
    let mut sink = |_: &[f32]| Ok(());
    speak(&plan, None, &networks, Chunks::default(), &Unobserved, &mut sink).expect("speech")
}

/// Asserts that codes and sound are the same, and returns them.
fn is_the_same(model: &Qwen3Tts, other: &Qwen3Tts) -> Spoken {
    model.check::<Cpu>(&DEVICE).expect("whole");
    let (own, expected) = (spoken(model), spoken(other));
    assert!(expected.frames.len() > 5, "{} frames", expected.frames.len());
    assert_eq!(own.frames, expected.frames);
    assert!(own.audio == expected.audio, "other sound");
    own
}

#[test]
fn gguf_files_speak_exactly_as_the_release_that_they_were_made_of() {
    for (kind, name) in KINDS.into_iter().zip(["qwen3-tts-0.6b-custom", "qwen3-tts-0.6b-base"]) {
        let (dir, expected) = (written(kind, Weights::F32), released(kind));
        // By its short name, in a models directory; as a directory; as a file.
        let named = find(name, dir.path());
        let file = dir.path().join(format!("qwen-talker-0.6b-{}-F32.gguf", kind.to_lowercase()));
        let alone = Qwen3Tts::open(dir.path()).expect("a directory");
        for model in [&named, &alone, &Qwen3Tts::open(&file).expect("a file")] {
            assert_eq!(model.path(), file);
            // A kept voice finds its model by it.
            assert_eq!(model.name(), format!("Qwen3-TTS-12Hz-0.6B-{kind}"));
            assert_eq!(find(model.name(), dir.path()).path(), file);
            assert_eq!(model.origin().to_string(), "GGUF, F32");
            assert_eq!(model.origin().format, ModelFormat::Gguf);
            assert_eq!(model.notices(), [""; 0]);
        }
        is_the_same(&named, &expected);

        let place = place();
        let talker = |model: &Qwen3Tts| values(Checkpoint::<Cpu>::talker(model, &place));
        assert!(talker(&named) == talker(&expected), "{kind}: another talker");
        assert_eq!(named.generation_config(), expected.generation_config());
        let json =
            |model: &Qwen3Tts| format!("{:?}", model.config().talker_config.codec_language_id);
        assert_eq!(json(&named), json(&expected));
        let dialect =
            |model: &Qwen3Tts| model.config().talker_config.dialect_of("dylan").map(str::to_owned);
        assert_eq!(dialect(&named), dialect(&expected));
        let size = |model: &Qwen3Tts, network| model.size(network).expect("a size").parameters;
        for network in [Qwen3TtsNetwork::Talker, Qwen3TtsNetwork::SpeakerEncoder] {
            assert_eq!(size(&named, network), size(&expected, network), "{network:?}");
        }
        let (own, other) = (named.tokenizer().expect("one"), expected.tokenizer().expect("one"));
        for text in ["<|im_start|>assistant\nThe sea ## 你好<|im_end|>", "Grüße\u{301} \n\n", ""]
        {
            assert_eq!(own.encode(text), other.encode(text));
        }
        assert_eq!(own.vocabulary(), other.vocabulary());
    }
}

/// The rounded values, in a released directory in f32, make the same speech to the sample. The released talker
/// is in bf16, so that this type loses nothing; its codes are the same.
#[test]
fn gguf_files_in_any_type_speak_as_their_values_in_the_released_layout() {
    let place = place();
    let talker = |model: &Qwen3Tts| values(Checkpoint::<Cpu>::talker(model, &place));
    for kind in KINDS {
        for weights in [Weights::Bf16, Weights::F16, Weights::Q8_0] {
            let (dir, other) = (written(kind, weights), temporary());
            write_rounded_release(other.path(), kind, weights);
            let rounded = Qwen3Tts::open(other.path()).expect("a directory");
            let model = Qwen3Tts::open(dir.path()).expect("a directory");
            let own = is_the_same(&model, &rounded);
            if weights == Weights::Bf16 {
                assert_eq!(model.origin().to_string(), "GGUF, BF16");
                assert!(talker(&model) == talker(&released(kind)), "{kind}: another talker");
                if kind == "CustomVoice" {
                    assert_eq!(own.frames, spoken(&released(kind)).frames);
                }
            }
        }
    }
}

/// Every kept voice asks for it. A weight that changes unseen is noticed only when the files are opened
/// again, which proves that the first result is kept.
#[test]
fn the_fingerprint_of_an_opened_model_is_made_once() {
    let dir = temporary();
    write_rounded_release(dir.path(), "CustomVoice", Weights::Bf16);
    let open = || Qwen3Tts::open(dir.path()).expect("a directory");
    let model = open();
    let first = model.fingerprint().expect("a checksum");
    let path = dir.path().join("model.safetensors");
    let bytes = fs::read(&path).expect("weights");
    let weights = 8 + u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
    let mut file = File::options().write(true).open(&path).expect("a file");
    let time = file.metadata().and_then(|file| file.modified()).expect("a time");
    file.seek(SeekFrom::Start(weights)).expect("a place in it");
    file.write_all(&[!bytes[weights as usize]]).expect("another weight");
    file.set_modified(time).expect("the same time");
    assert_eq!(model.fingerprint().expect("a checksum"), first);
    assert_ne!(open().fingerprint().expect("a checksum"), first);
}

#[test]
fn a_quantised_file_is_said_and_the_finest_of_several_is_taken() {
    let dir = written("CustomVoice", Weights::Q8_0);
    let open = || Qwen3Tts::open(dir.path()).expect("a directory");
    let model = open();
    assert_eq!(model.origin().to_string(), "GGUF, Q8_0");
    let notices = model.notices();
    assert!(notices[0].starts_with("the talker is quantised (Q8_0)"), "{notices:?}");
    assert!(notices[1].starts_with("the codec is quantised (Q8_0)"), "{notices:?}");
    write_qwentts_talker(dir.path(), "CustomVoice", Weights::Bf16);
    write_qwentts_codec(dir.path(), Weights::F32);
    let model = open();
    assert_eq!(model.origin().to_string(), "GGUF, BF16");
    assert!(model.files()[1].ends_with("qwen-tokenizer-12hz-F32.gguf"));
    let named = find("qwen3-tts-0.6b-custom", dir.path());
    assert_eq!(named.path(), model.path());

    // Another model beside it.
    write_qwentts_talker(dir.path(), "Base", Weights::F32);
    let error = Qwen3Tts::open(dir.path()).expect_err("two models");
    let files = "qwen-talker-0.6b-base-F32.gguf";
    Refusal::of(&error).says("can be any of several files").says(files);
    assert_eq!(error.hint().as_deref(), Some("pass the file itself as `model`"));
    assert_eq!(find("qwen3-tts-0.6b-custom", dir.path()).path(), model.path());
}

#[test]
fn the_codec_may_lie_among_the_models() {
    let (dir, models) = (temporary(), temporary());
    write_qwentts_talker(dir.path(), "CustomVoice", Weights::F32);
    write_qwentts_codec(models.path(), Weights::F32);
    let choice = dir.path().to_string_lossy();
    let model = find(&choice, models.path());
    model.check::<Cpu>(&DEVICE).expect("whole");
    assert!(model.files()[1].starts_with(models.path()));
}

/// Opens and checks a model, which is refused.
fn refused(path: &Path) -> Refusal {
    let model = Qwen3Tts::open(path).and_then(|model| model.check::<Cpu>(&DEVICE));
    Refusal::of(&model.expect_err("refused"))
}

#[test]
fn a_missing_half_is_said_with_what_to_do() {
    let dir = temporary();
    write_qwentts_talker(dir.path(), "CustomVoice", Weights::F32);
    refused(dir.path())
        .says("custom")
        .says("holds no codec, and none that fits was found")
        .says("qwen-tokenizer-12hz-*.gguf")
        .hints("put the codec of qwentts.cpp, `qwen-tokenizer-12hz-F32.gguf`")
        .hints(&dir.path().display().to_string());

    let dir = temporary();
    write_qwentts_codec(dir.path(), Weights::F32);
    refused(dir.path())
        .says("holds no talker")
        .says("it holds the codec of Qwen3-TTS")
        .hints("put a talker of qwentts.cpp there");
    refused(&dir.path().join("qwen-tokenizer-12hz-F32.gguf"))
        .says("it holds the codec of Qwen3-TTS, and no talker")
        .hints("such as `qwen-talker-0.6b-base-Q8_0.gguf`");
}

#[test]
fn songs_and_speech_are_not_taken_for_each_other() {
    let dir = written("CustomVoice", Weights::F32);
    let talker = dir.path().join("qwen-talker-0.6b-customvoice-F32.gguf");
    for file in [&talker, &dir.path().join("qwen-tokenizer-12hz-F32.gguf")] {
        let error = acestep_import::open(&file.to_string_lossy(), &Layout::new([]));
        Refusal::of(&error.expect_err("no songs"))
            .says("which makes no songs")
            .hints("acestep-dit");
    }
    let open = acestep_import::open(&dir.path().to_string_lossy(), &Layout::new([]));
    Refusal::of(&open.expect_err("no songs"))
        .says("holds GGUF files (`qwen-talker-0.6b-customvoice-F32.gguf` is the talker of a")
        .says("not a model");
    let songs = temporary();
    write_gguf_models(songs.path(), Weights::F32);
    refused(&songs.path().join("acestep-v15-turbo-F32.gguf"))
        .says("it holds a diffusion transformer of ACE-Step 1.5, and no talker");
    refused(songs.path())
        .says("holds no talker")
        .says("it holds the Oobleck audio autoencoder")
        .hints("talker of qwentts.cpp");
    let other = songs.path().join("llama.gguf");
    let llama = [("general.architecture", value_text("llama"))];
    write_gguf(&other, &llama, &Stack::new(), |_, _| Weights::F32);
    refused(&other).says("its architecture is `llama`, which is no network of Qwen3-TTS");
}

/// A talker with changed values and tensors, and the codec.
struct Changed {
    dir: TempDir,
    values: Vec<GgufValue>,
    tensors: Stack,
}

impl Changed {
    fn new(kind: &str) -> Self {
        let (dir, (values, tensors)) = (temporary(), qwentts_talker(kind));
        write_qwentts_codec(dir.path(), Weights::F32);
        Self { dir, values, tensors }
    }

    fn write(&self) -> PathBuf {
        let path = self.dir.path().join("talker.gguf");
        write_qwentts(&path, &self.values, &self.tensors, Weights::F32);
        path
    }

    fn set(&mut self, key: &str, value: Vec<u8>) {
        let entry = self.values.iter_mut().find(|(own, _)| own == key);
        entry.unwrap_or_else(|| panic!("{key}")).1 = value;
    }

    fn refused(&self) -> Refusal {
        self.write();
        refused(self.dir.path())
    }
}

#[test]
fn tensors_are_neither_left_over_nor_missing_nor_of_another_shape() {
    let mut file = Changed::new("Base");
    let norm = file.tensors["talker.output_norm.weight"].clone();
    for name in ["talker.blk.3.attn_q.weight", "talker.blk.0.attn_q.bias", "vision.weight"] {
        file.tensors.insert(name.into(), norm.clone());
        file.refused().says(&format!("does not use: `{name}`")).hints("fetch them again");
        file.tensors.remove(name);
    }
    for name in ["talker.output_norm.weight", "code_pred.lm_head.14.weight", "spk_enc.fc.bias"] {
        let stored = file.tensors.remove(name).expect("a tensor");
        file.refused().says(&format!("has no tensor `{name}`"));
        file.tensors.insert(name.into(), stored);
    }
    let stored = file.tensors.get_mut("talker.blk.0.attn_q.weight").expect("a tensor");
    stored.shape[0] -= 1;
    stored.values.truncate(stored.shape.iter().product());
    file.refused().says("but by the values of its header it is [64, 48]");

    let (values, mut tensors) = qwentts_codec();
    let dir = temporary();
    write_qwentts_talker(dir.path(), "Base", Weights::F32);
    let path = dir.path().join("codec.gguf");
    tensors.remove("tok_dec.vq_rest.3.codebook");
    write_qwentts(&path, &values, &tensors, Weights::F32);
    refused(dir.path()).says("has no tensor `tok_dec.vq_rest.3.codebook`, which the codec decoder");
}

/// The acoustic codebooks are the rest of those that count: their names would have no end.
#[test]
fn a_codec_whose_semantic_codebooks_are_all_that_count_is_refused() {
    let dir = temporary();
    write_qwentts_talker(dir.path(), "Base", Weights::F32);
    let (mut values, tensors) = qwentts_codec();
    let key = "qwen3-tts-tokenizer.encoder.num_semantic_quantizers";
    values.iter_mut().find(|(own, _)| own == key).expect("a value").1 = value_number(17);
    write_qwentts(&dir.path().join("codec.gguf"), &values, &tensors, Weights::F32);
    let error = Qwen3Tts::open(dir.path()).expect_err("refused");
    let text = Error::source(&error).expect("a cause").to_string();
    assert!(text.starts_with("key `num_semantic_quantizers` is 17: must be less than"), "{text}");
}

#[test]
fn a_value_that_is_missing_or_contradicts_another_is_named() {
    let key = "qwen3-tts.talker.block_count";
    let mut file = Changed::new("CustomVoice");
    file.set(key, value_text("three"));
    file.refused()
        .says(&format!("it has no whole number `{key}`"))
        .hints("convert.py of qwentts.cpp");
    file.set(key, value_number(3));
    file.set("qwen3-tts.codec.speaker_dialects", value_texts(&["".to_owned()]));
    file.refused().says("names` has 9 names, but `qwen3-tts.codec.speaker_dialects` has 1");

    let mut file = Changed::new("CustomVoice");
    file.set("generation.top_k", value_text("fifty"));
    file.refused().says("`generation.top_k` is neither a number");

    let mut file = Changed::new("CustomVoice");
    file.values.retain(|(key, _)| !key.starts_with("tokenizer.ggml"));
    file.refused().says("it has no list `tokenizer.ggml.tokens` or `tokenizer.ggml.merges`");
    let mut file = Changed::new("CustomVoice");
    file.set("tokenizer.ggml.merges", value_texts(&["Ġ a".to_owned()]));
    file.refused().says("`tokenizer.ggml.merges` has no merge for `he`");
}

/// As upstream's `sft_12hz.py` makes it of a base model: a named speaker, without the speaker encoder.
#[test]
fn a_fine_tuned_model_has_the_key_of_its_base_model_and_not_the_network() {
    let (dir, expected) = (temporary(), released("CustomVoice"));
    write_rounded_release(dir.path(), "CustomVoice", Weights::F32);
    let path = dir.path().join("config.json");
    let text = fs::read_to_string(&path).expect("a golden");
    let mut config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    config["speaker_encoder_config"] = serde_json::json!({ "enc_dim": 48, "sample_rate": 24_000 });
    fs::write(&path, config.to_string()).expect("written");
    is_the_same(&Qwen3Tts::open(dir.path()).expect("a directory"), &expected);

    let mut file = Changed::new("CustomVoice");
    for (key, value) in [("embedding_length", 48), ("sample_rate", 24_000)] {
        file.values.push((format!("qwen3-tts.spk_enc.{key}"), value_number(value)));
    }
    is_the_same(&Qwen3Tts::open(&file.write()).expect("a file"), &expected);
}

#[test]
fn cut_files_and_other_types_are_refused() {
    let dir = written("CustomVoice", Weights::F32);
    let path = dir.path().join("qwen-talker-0.6b-customvoice-F32.gguf");
    let bytes = std::fs::read(&path).expect("a file");
    for (length, says) in
        [(bytes.len() - 1, "is cut: it has"), (3000, "is broken"), (40, "is broken")]
    {
        std::fs::write(&path, &bytes[..length]).expect("written");
        refused(dir.path()).says("qwen-talker").says(says).hints("fetch the file again");
    }
    // The type of the first tensor: after its name, its dimensions and its sizes.
    let name = b"code_pred.blk.0.attn_k.weight";
    let at = bytes.windows(name.len()).position(|own| own == name).expect("a tensor") + name.len();
    let mut other = bytes.clone();
    other[at + 4 + 16..at + 8 + 16].copy_from_slice(&20_u32.to_le_bytes());
    std::fs::write(&path, &other).expect("written");
    refused(dir.path())
        .says("tensor `code_pred.blk.0.attn_k.weight` is IQ4_NL")
        .hints("take the file in F32, F16, BF16, Q8_0");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4790000000\n";
    std::fs::write(&path, pointer).expect("written");
    refused(dir.path()).says("it is a Git LFS pointer").hints("git lfs pull");
}
