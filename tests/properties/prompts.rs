//! The exact prompts of the language model in each style.

use acestep_engine::Unobserved;
use acestep_model::{LanguageFiles, Tokenizer};
use acestep_music::{
    Request,
    lm::compose::{Composed, Composing, LmMode, compose},
};
use acestep_tests::{Cpu, place};

const SYSTEM: &str = "<|im_start|>system\n# Instruction\nGenerate audio semantic tokens based on \
                      the given conditions:\n\n<|im_end|>\n";

/// Composes `request` with the built-in model in a style. Also returns the tokenizer.
fn asked(
    request: &Request,
    style: &str,
    mode: LmMode,
) -> (Composed, impl Fn(&str) -> Vec<u32> + use<>) {
    let language = acestep_import::open_tiny_language_model().expect("it is part of the program");
    let request = request.clone().with(|r| r.language.lm_prompt_style = Some(style.into()));
    let mut settings = request.language.plan(&request.words, &[0], &mut vec![]).expect("valid");
    (settings.temperature, settings.top_p, settings.max_tokens) = (2.0, None, Some(900));
    // The model is random, so not every answer ends.
    let composed = (0..30).find_map(|seed| {
        settings.seeds = vec![seed];
        let (mode, settings) = (mode.clone(), &settings);
        let asked =
            Composing { request: &request, mode, writes_codes: true, settings, genres: None };
        let composed = compose::<Cpu>(&asked, &language, &place(), &Unobserved).ok()?;
        let is_whole = composed.text.is_empty() || composed.text.contains("\nlanguage:");
        is_whole.then_some(composed)
    });
    let composed = composed.expect("an answer that ends");
    let encode = move |text: &str| {
        let tokenizer: &dyn Tokenizer =
            LanguageFiles::tokenizer(&language).expect("it is part of the program");
        tokenizer.encode(text)
    };
    (composed, encode)
}

fn song() -> Request {
    Request::default().with(|r| {
        r.words.caption = Some("soul: 'slow'".into());
        r.words.lyrics = Some("[Verse]\nIt rains".into());
        r.words.bpm = Some(92);
        r.words.duration = Some(1.4);
        r.words.keyscale = Some("F# minor".into());
        r.words.timesignature = Some("3/4".into());
        r.words.vocal_language = Some("no".into());
    })
}

/// Compares the prompts for codes of a song with complete metadata.
///
/// Derived by hand from upstream's `build_formatted_prompt_with_cot` and its `user_metadata`, and
/// from acestep.cpp's `build_cot_yaml` and `build_lm_prompt_uncond_with_cot`.
#[test]
fn codes_of_a_song_whose_metadata_are_given_are_asked_for_as_each_program_does() {
    let user = "<|im_start|>user\n# Caption\nsoul: 'slow'\n\n# Lyric\n[Verse]\nIt rains\n<|im_end|>\n\
                <|im_start|>assistant\n";
    let yaml = "bpm: 92\nduration: 1\nkeyscale: F# minor\n";
    let unknown = "<|im_start|>user\nNO USER INPUT<|im_end|>\n<|im_start|>assistant\n\
                   <think>\n\n</think>\n\n";
    let cases = [
        (
            "open",
            format!("{user}<think>\n{yaml}language: 'no'\ntimesignature: 3\n</think>\n\n"),
            unknown.to_owned(),
        ),
        (
            "closed",
            format!(
                "{user}<think>\n{yaml}language: 'no'\ntimesignature: 3\n</think>\n\n<|im_end|>\n"
            ),
            format!("{user}<think>\n\n</think>\n\n<|im_end|>\n"),
        ),
        (
            "upstream",
            format!("{user}<think>\n{yaml}timesignature: 3\n</think>\n\n"),
            unknown.to_owned(),
        ),
        (
            "acestep.cpp",
            format!(
                "{user}<think>\nbpm: 92\ncaption: soul: 'slow'\nduration: 1\nkeyscale: F# minor\n\
                 language: no\ntimesignature: 3/4\n</think>\n\n"
            ),
            "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n".into(),
        ),
    ];
    for (style, conditional, unconditional) in cases {
        let (composed, encode) = asked(&song(), style, LmMode::Plan);
        let [call] = &composed.calls[..] else { panic!("{style}: one call") };
        let expected =
            [conditional, unconditional].map(|text| encode(&(SYSTEM.to_owned() + &text)));
        assert_eq!(call.prompts, expected, "{style}");
    }
}

/// Later upstream prompts omit the language, and acestep.cpp prompts use the new caption.
#[test]
fn what_is_planned_stands_where_each_program_puts_it() {
    let open = song().with(|r| {
        r.words.bpm = None;
        r.words.duration = Some(10.0);
    });
    let (composed, encode) = asked(&open, "acestep.cpp", LmMode::Plan);
    let [_, codes] = &composed.calls[..] else { panic!("two calls") };
    let request = &composed.request;
    let (caption, bpm) =
        (request.words.caption.as_deref().expect("one"), request.words.bpm.expect("one"));
    assert_ne!(caption, "soul: 'slow'");
    let user = format!(
        "<|im_start|>user\n# Caption\n{caption}\n\n# Lyric\n[Verse]\nIt rains\n<|im_end|>\n\
         <|im_start|>assistant\n<think>\nbpm: {bpm}\ncaption: "
    );
    let begin = encode(&(SYSTEM.to_owned() + &user));
    let same = begin.iter().zip(&codes.prompts[0]).take_while(|(a, b)| a == b).count();
    // The tokenizer may merge the space at the end with the next text.
    assert!(same + 1 >= begin.len(), "{same} of {}", begin.len());

    let (composed, _) = asked(&open, "upstream", LmMode::Plan);
    let (ours, _) = asked(&open, "open", LmMode::Plan);
    assert_eq!(ours.metadata.language.as_deref(), Some("no"));
    assert!(ours.text.contains("language: no"), "{}", ours.text);
    assert!(!composed.text.contains("language: no"), "{}", composed.text);
    assert_eq!(composed.request.words.vocal_language.as_deref(), Some("no"), "it is still sung so");
}
