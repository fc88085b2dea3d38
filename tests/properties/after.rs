//! Analysis of songs: cross attention, timestamps of lines, scores by the language model.

use acestep_engine::{Residency, Unobserved, host::to_host};
use acestep_import::ModelPaths;
use acestep_model::{
    Checkpoint, ConfigError, LanguageCheckpoint, LanguageFiles, Tokenizer,
    acestep::{Dit, Heads},
    qwen3::Causal,
};
use acestep_music::{
    Networks, Request,
    align::{Aligned, Extras},
    lm::{
        judge::{JudgeInput, judge},
        metadata::{Metadata, Scalar},
        pmi::{LanguageScore, mean, read},
        prompt,
    },
    pipeline,
};
use acestep_tests::{
    Cpu, DEVICE, Golden, base, largest_difference, place, plan, request, root, turbo,
};
use burn::tensor::{Int, Tensor, TensorData};

fn tensor<const D: usize>((shape, values): (Vec<usize>, Vec<f32>)) -> Tensor<Cpu, D> {
    Tensor::from_data(TensorData::new(values, shape), &DEVICE)
}

/// Computes `x W^T` in f64.
fn product(x: &[f32], (shape, weight): &(Vec<usize>, Vec<f32>)) -> Vec<f32> {
    let wide = shape[1];
    let dot = |a: &[f32], b: &[f32]| {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
    };
    x.chunks(wide).flat_map(|row| weight.chunks(wide).map(move |w| dot(row, w))).collect()
}

/// Golden: `dit_forward`, every head of the first two layers.
///
/// The attention output is the product of probabilities and values, followed by the output
/// projection. This test computes all but the probabilities from the checkpoint's tensors.
#[test]
fn where_the_transformer_looks_is_what_its_cross_attention_mixes() {
    let golden = Golden::open("a/dit_forward.safetensors");
    let weights = Golden::open("checkpoints_a/acestep-v15-turbo/model.safetensors");
    let dit: Dit<Cpu> = turbo().dit(&place()).expect("the built-in transformer");
    const HEADS: usize = 4;
    const WIDE: usize = 16;
    for case in ["case0", "case1"] {
        let of = |name: &str| golden.f32(&format!("{case}.{name}"));
        let heard = dit.attend_to(tensor(of("encoder_hidden_states")));
        let (_, times) = of("timestep");
        let (_, since) = of("timestep_r");
        let wanted: Vec<Heads> =
            [0, 1].map(|layer| Heads { layer, heads: (0..HEADS).collect() }).to_vec();
        assert_eq!(times, since);
        let (xt, context) = (tensor(of("xt")), tensor(of("context_latents")));
        let maps = dit.attention_maps(xt, context, &times, &heard, &wanted);
        for (layer, maps) in maps.into_iter().enumerate() {
            let [batch, heads, positions, length] = maps.dims();
            assert_eq!(heads, HEADS);
            let maps = to_host(maps);
            for row in maps.chunks(length) {
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            }
            let weight = |name: &str| {
                weights.f32(&format!("decoder.layers.{layer}.cross_attn.{name}_proj.weight"))
            };
            let (_, embedded) = of("act.condition_embedder.out");
            let values = product(&embedded, &weight("v")); // [B, L, kv_heads D]
            let kv_heads = weight("v").0[0] / WIDE;
            let mut mixed = vec![0.0_f32; batch * positions * HEADS * WIDE];
            for b in 0..batch {
                for h in 0..HEADS {
                    for p in 0..positions {
                        let row = ((b * HEADS + h) * positions + p) * length;
                        for d in 0..WIDE {
                            let own = h / (HEADS / kv_heads) * WIDE + d;
                            let value = |l: usize| {
                                let v = values[(b * length + l) * kv_heads * WIDE + own];
                                f64::from(maps[row + l]) * f64::from(v)
                            };
                            let sum: f64 = (0..length).map(value).sum();
                            mixed[((b * positions + p) * HEADS + h) * WIDE + d] = sum as f32;
                        }
                    }
                }
            }
            let added = product(&mixed, &weight("o"));
            let (_, wanted) = of(&format!("act.layer{layer}.cross_attn.out"));
            assert_eq!(added.len(), wanted.len());
            let change = largest_difference(added.iter().zip(&wanted));
            assert!(change < 2e-5, "{case}, layer {layer}: {change}");
        }
    }
}

/// The result does not depend on the other requested heads and layers, or on their order.
#[test]
fn a_head_looks_the_same_whoever_else_is_asked() {
    let golden = Golden::open("a/dit_forward.safetensors");
    let dit: Dit<Cpu> = turbo().dit(&place()).expect("the built-in transformer");
    let of = |name: &str| golden.f32(&format!("case0.{name}"));
    let heard = dit.attend_to(tensor(of("encoder_hidden_states")));
    let maps = |wanted: &[(usize, &[usize])]| {
        let wanted: Vec<Heads> =
            wanted.iter().map(|&(layer, heads)| Heads { layer, heads: heads.to_vec() }).collect();
        let found = dit.attention_maps(
            tensor(of("xt")),
            tensor(of("context_latents")),
            &[0.125],
            &heard,
            &wanted,
        );
        found.into_iter().map(to_host).collect::<Vec<_>>()
    };
    let all = maps(&[(3, &[1]), (1, &[0, 2]), (0, &[3])]);
    assert_eq!(maps(&[(1, &[0, 2])])[0], all[1]);
    let each = all[1].len() / 2;
    assert_eq!(maps(&[(1, &[2, 0])])[0], [&all[1][each..], &all[1][..each]].concat());
    assert_ne!(all[1][..each], all[1][each..]);
}

fn aligned(request: &Request, extras: Extras) -> Vec<Aligned> {
    let model = turbo();
    let plan = plan(request, &model);
    let networks = Networks::new(&model, place(), Residency::WhileUsed);
    let prepared = pipeline::prepare(&plan, &networks, &Unobserved).expect("prepared");
    let rendered = pipeline::render_and_align(&plan, extras, &networks, prepared, &Unobserved);
    rendered.expect("songs").aligned.expect("aligned")
}

#[test]
fn every_line_of_the_lyrics_is_found_in_order_and_within_the_song() {
    let lyrics = "[Verse]\nIt rains on the roof\n\n  夜の雨 \n[Chorus]\nOh";
    let request = request().with(|r| {
        r.words.lyrics = Some(lyrics.into());
        r.words.duration = Some(7.5);
        r.noise.seed = Some(vec![3, 4]);
    });
    let extras = Extras { lines: true, score: true };
    let songs = aligned(&request, extras);
    assert_eq!(songs.len(), 2);
    for song in &songs {
        let texts: Vec<&str> = song.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["[Verse]", "It rains on the roof", "夜の雨", "[Chorus]", "Oh"]);
        assert!(song.lines.windows(2).all(|pair| pair[0].start <= pair[1].start), "{song:?}");
        assert!(song.lines.iter().all(|line| line.start <= line.end && line.end <= 7.5));
        // The alignment path starts at the first token and frame and ends at the last.
        assert_eq!(song.lines[0].start, 0.0);
        assert!(song.lines[4].end > 7.3, "{song:?}");
        let score = song.score.expect("asked for");
        assert!((0.0..=1.0).contains(&score.song.score), "{score:?}");
        // Attention to the words differs between noise and song.
        assert_ne!(score.song, score.outline);
    }
    // The result does not depend on the rest of the batch.
    let alone = aligned(&request.clone().with(|r| r.noise.seed = Some(vec![4])), extras);
    assert_eq!(alone[0].lines, songs[1].lines);
    let request = request.with(|r| r.noise.seed = Some(vec![3]));
    let without = aligned(&request, Extras { lines: true, score: false });
    assert_eq!((&without[0].lines, without[0].score), (&songs[0].lines, None));
}

/// A song below 128 frames is sampled with 128 and cut. Lines must end before the cut.
#[test]
fn no_line_is_after_the_end_of_a_short_song() {
    let songs = aligned(&request(), Extras { lines: true, score: false });
    assert_eq!(songs[0].lines.len(), 2);
    assert!(songs[0].lines.iter().all(|line| line.end <= 2.0), "{songs:?}");
}

#[test]
fn a_song_without_words_has_no_lines() {
    for lyrics in ["[Instrumental]", ""] {
        let request = request().with(|r| r.words.lyrics = Some(lyrics.into()));
        let extras = Extras { lines: true, score: true };
        assert_eq!(aligned(&request, extras), [Aligned::default()]);
    }
}

#[test]
fn a_model_that_does_not_name_its_heads_is_refused_after_its_songs_are_made() {
    let model = base();
    let plan = plan(&request().with(|r| r.sampling.inference_steps = Some(2)), &model);
    let networks = Networks::new(&model, place(), Residency::WhileUsed);
    let prepared = pipeline::prepare(&plan, &networks, &Unobserved).expect("prepared");
    let extras = Extras { lines: true, score: false };
    let rendered = pipeline::render_and_align(&plan, extras, &networks, prepared, &Unobserved);
    let rendered = rendered.expect("songs");
    assert_eq!(rendered.songs.len(), 1);
    let error = rendered.aligned.expect_err("unknown");
    assert!(error.hint().expect("a hint").contains("config.json"), "{error}");

    let models = root().join("tests/goldens");
    let paths = ModelPaths {
        name: "xl".into(),
        dit: models.join("checkpoints_xl/acestep-v15-xl-turbo"),
        vae: models.join("checkpoints_a/vae"),
        text_encoder: models.join("checkpoints_a/Qwen3-Embedding-0.6B"),
        pieces: Vec::new(),
    };
    if let Ok(xl) = acestep_import::AceStep::open(&paths) {
        let unknown = xl.configs().dit.alignment_heads();
        assert!(matches!(unknown, Err(ConfigError::Unsupported { .. })));
    }
}

fn language() -> acestep_import::LanguageModelDir {
    acestep_import::open_tiny_language_model().expect("it is part of the program")
}

fn network() -> Causal<Cpu> {
    LanguageCheckpoint::<Cpu>::language_model(&language(), &place()).expect("whole")
}

/// Golden: `lm`, logits of every position of a prompt.
#[test]
fn all_positions_that_are_read_behind_a_cache_have_the_reference_s_scores() {
    let golden = Golden::open("a/lm.safetensors");
    let ids: Vec<u32> = golden.i64("case0.input_ids").into_iter().map(|id| id as u32).collect();
    let (shape, wanted) = golden.f32("case0.prefill_logits");
    let wide = shape[2];
    let language = language();
    let model = network();
    let config = language.config();
    let mut cache = config.cache(1, ids.len(), &place());
    model.read(&ids[..5], 0, &mut cache, &DEVICE);
    let hidden = model.read_all(&ids[5..], 0, &mut cache, &DEVICE);
    let scores = to_host(model.scores(hidden, std::slice::from_ref(&(0..wide))));
    let change = largest_difference(scores.iter().zip(&wanted[5 * wide..]));
    assert!(change < 4e-5, "{change}");
    // Statistics of our logits and of the reference's logits are equal.
    let readings = |scores: &[f32]| {
        let rows = scores.chunks(wide).zip(&ids[6..]);
        mean(&rows.map(|(row, &id)| read(row, id as usize)).collect::<Vec<_>>())
    };
    let (ours, theirs) = (readings(&scores), readings(&wanted[5 * wide..]));
    assert!((ours.log_probability - theirs.log_probability).abs() < 1e-5);
    assert_eq!(ours.recall, theirs.recall);
}

/// The expected values are computed in f64, without a cache, from the logits of whole texts.
#[test]
fn the_language_model_s_judgement_is_what_its_scores_say() {
    let language = language();
    let tokenizer: &dyn Tokenizer = LanguageFiles::tokenizer(&language).expect("whole");
    let model = network();
    let codes = vec![vec![3, 500, 17, 17, 80], vec![9, 1, 2, 3, 4]];
    let metadata = Metadata {
        bpm: Some(Scalar::Whole(120)),
        caption: Some("calm piano: rain".into()),
        duration: Some(Scalar::Whole(30)),
        language: Some("no".into()),
        timesignature: Some("4".into()),
        ..Metadata::default()
    };
    let lyrics = "[Verse]\nIt rains";
    let scale = 0.5;
    let input = JudgeInput { codes: &codes, metadata: metadata.clone(), lyrics, scale };
    let request = Request::default();
    let settings = request.language.plan(&request.words, &[1], &mut vec![]).expect("defaults");
    let found = judge::<Cpu>(&input, &settings, &language, &place(), &Unobserved).expect("judged");

    // Returns [mean log-probability, mean top-10 recall] of an answer.
    let answered = |codes: &[u32], answer: &str| {
        let prompt = prompt::understand(codes);
        let (begin, all) =
            (tokenizer.encode(&prompt).len(), tokenizer.encode(&format!("{prompt}{answer}")));
        let ids: Vec<i32> = all.iter().map(|&id| id as i32).collect();
        let ids = Tensor::<Cpu, 2, Int>::from_data(TensorData::new(ids, [1, all.len()]), &DEVICE);
        let scores = model.forward(ids);
        let wide = scores.dims()[2];
        let scores = to_host(scores);
        let (mut logarithms, mut recalls) = (0.0, 0.0);
        for i in begin..all.len() {
            let row: Vec<f64> =
                scores[(i - 1) * wide..i * wide].iter().map(|&x| f64::from(x)).collect();
            let own = row[all[i] as usize];
            logarithms += own - row.iter().map(|x| x.exp()).sum::<f64>().ln();
            let before = row.iter().filter(|&&x| x > own).count();
            recalls += (1.0 - before as f64 / 10.0).max(0.0);
        }
        let count = (all.len() - begin) as f64;
        [logarithms / count, recalls / count]
    };
    let close = |found: f64, wanted: f64| {
        assert!((found - wanted).abs() < 1e-5, "{found} is not {wanted}");
    };
    for (codes, found) in codes.iter().zip(&found) {
        let LanguageScore { caption, lyrics, metadata } = found;
        let likelier = |answer: &str| {
            let [with, without] = [codes, &vec![]].map(|codes| answered(codes, answer)[0]);
            1.0 / (1.0 + ((without - with) / scale).exp())
        };
        let plan = "<think>\ncaption: 'calm piano: rain'\n</think>\n";
        close(caption.expect("judged"), likelier(plan));
        let sung = "<think>\n</think>\n# Lyric\n[Verse]\nIt rains\n";
        close(lyrics.expect("judged"), likelier(sung));
        let wanted = [
            ("bpm", "bpm: 120"),
            ("duration", "duration: 30"),
            ("language", "language: 'no'"),
            ("timesignature", "timesignature: '4'"),
        ];
        assert_eq!(metadata.len(), wanted.len());
        for (&(key, score), (name, yaml)) in metadata.iter().zip(wanted) {
            assert_eq!(key, name);
            close(score, answered(codes, &format!("<think>\n{yaml}\n</think>\n"))[1]);
        }
    }
    assert_ne!(found[0], found[1]);
}
