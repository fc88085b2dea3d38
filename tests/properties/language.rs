//! Properties of every run of the language model.

use acestep_engine::{Error, Unobserved, files::Existing};
use acestep_import::LanguageModelDir;
use acestep_model::{CheckpointError, LanguageCheckpoint, LanguageFiles, Place, Tokenizer, qwen3};
use acestep_music::{
    Plan, Request,
    lm::{
        compose::{Composing, LmMode, compose},
        constrain::{Grammar, Phase, Rules},
        generate::{Prompts, Writer},
        prompt::{self, PromptStyle},
        sample::Sampler,
        snapshot,
        vocabulary::Vocabulary,
    },
};
use acestep_tests::{Cpu, DEVICE, place, scaled};

fn tokenizer(language: &LanguageModelDir) -> &dyn Tokenizer {
    LanguageFiles::tokenizer(language).expect("it is part of the program")
}

/// Calls `work` with the task of a greedy plan.
pub(super) fn with_greedy_plan<T>(work: impl FnOnce(&Composing<'_>) -> T) -> T {
    let request = Request::default().with(|r| r.words.caption = Some("rain".into()));
    let mut settings = request.language.plan(&request.words, &[0], &mut vec![]).expect("defaults");
    (settings.temperature, settings.cfg_scale) = (0.0, 1.0);
    let (mode, settings) = (LmMode::Plan, &settings);
    work(&Composing { request: &request, mode, writes_codes: false, settings, genres: None })
}

/// Calls `work` with a writer of the built-in model, for tests of single phases.
fn with_writer<T>(sampler: Sampler, work: impl FnOnce(&Writer<'_, Cpu>) -> T) -> T {
    let language = acestep_import::open_tiny_language_model().expect("it is part of the program");
    let vocabulary = Vocabulary::new(tokenizer(&language)).expect("complete");
    let grammar = Grammar::new(&vocabulary, 600).expect("complete");
    let model = LanguageCheckpoint::<Cpu>::language_model(&language, &place()).expect("whole");
    work(&Writer {
        model: &model,
        config: language.config(),
        place: &place(),
        grammar: &grammar,
        sampler,
        max_seq: 4096,
        loading: std::time::Duration::ZERO,
        observe: &Unobserved,
    })
}

const WILD: Sampler =
    Sampler { temperature: 0.85, top_k: None, top_p: Some(0.9), repetition_penalty: 1.1 };

fn codes(
    writer: &Writer<'_, Cpu>,
    guidance: Option<f32>,
    seconds: f64,
    seeds: &[u64],
) -> Vec<Vec<u32>> {
    let conditional = writer.encode(&prompt::codes(
        "rain",
        "[Verse]\nIt rains",
        "<think>\nbpm: 90\n</think>",
        PromptStyle::Open,
    ));
    let other = writer.encode(&prompt::codes_unconditional("rain", "", None, PromptStyle::Open));
    let prompts = Prompts {
        conditional: &conditional,
        unconditional: guidance.map(|scale| (&other[..], scale)),
    };
    let rules = Rules { target_seconds: Some(seconds), ..Rules::new(Phase::Codes) };
    let answers = writer.codes(prompts, &rules, 400, seeds).expect("codes");
    answers.into_iter().map(|answer| answer.tokens).collect()
}

#[test]
fn a_batch_is_its_songs_one_by_one() {
    with_writer(WILD, |writer| {
        for guidance in [None, Some(2.0)] {
            let seeds = [3, 4, 5, u64::from(u32::MAX), 6];
            let together = codes(writer, guidance, 3.0, &seeds);
            for (song, &seed) in together.iter().zip(&seeds) {
                assert_eq!(*song, codes(writer, guidance, 3.0, &[seed])[0], "{guidance:?} {seed}");
            }
            assert_ne!(together[0], together[1], "seeds decide");
        }
    });
}

#[test]
fn a_target_gives_five_codes_a_second_exactly() {
    with_writer(WILD, |writer| {
        for (seconds, expected) in [(0.2, 1), (1.0, 5), (3.39, 16), (12.0, 60)] {
            let written = &codes(writer, Some(1.5), seconds, &[1])[0];
            let end = tokenizer_end(writer);
            assert_eq!(written.len(), expected + 1, "{seconds} s");
            assert_eq!(written.iter().position(|&token| token == end), Some(expected));
        }
    });
}

fn tokenizer_end(writer: &Writer<'_, Cpu>) -> u32 {
    writer.grammar.vocabulary().end
}

#[test]
fn what_was_read_goes_through_a_file_and_on_as_if_nothing_had_happened() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("read.safetensors");
    with_writer(WILD, |writer| {
        let (model, config) = (writer.model, writer.config);
        let ids = writer.encode(&prompt::plan("rain on a roof", "[Verse]\nIt rains"));
        let mut cache = config.cache(2, 200, &place());
        model.read(&ids, 1, &mut cache, &DEVICE);
        snapshot::save(&cache, 1, &ids, &path, Existing::Keep).expect("saved");

        let mut other = config.cache(3, 150, &place());
        let read = snapshot::load(&path, config, &mut other, 2, &DEVICE).expect("loaded");
        assert_eq!(read, ids);
        for token in [7, 8, 9] {
            let here = model.step(&[token], 1..2, &mut cache, &DEVICE).into_data();
            let there = model.step(&[token], 2..3, &mut other, &DEVICE).into_data();
            assert_eq!(here, there, "token {token}");
        }

        let mut small = config.cache::<Cpu>(1, 10, &place());
        let error = snapshot::load(&path, config, &mut small, 0, &DEVICE).expect_err("too long");
        assert!(error.to_string().contains("more than the 10 here"), "{error}");
        let bytes = std::fs::read(&path).expect("bytes");
        std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("cut");
        let error = snapshot::load(&path, config, &mut other, 0, &DEVICE).expect_err("cut");
        assert!(error.to_string().contains("cannot be used as what"), "{error}");
    });
}

/// The built-in language model with other weights, or with a file that is overwritten while it writes.
pub(super) struct AlteredLanguage {
    language: LanguageModelDir,
    factor: f32,
    is_overwritten: bool,
}

impl AlteredLanguage {
    /// Returns it with all weights multiplied by `factor`.
    pub(super) fn scaled(factor: f32) -> Self {
        let language = acestep_import::open_tiny_language_model().expect("built in");
        Self { language, factor, is_overwritten: false }
    }
}

impl LanguageFiles for AlteredLanguage {
    fn config(&self) -> &qwen3::Config {
        self.language.config()
    }

    fn tokenizer(&self) -> Result<&dyn Tokenizer, CheckpointError> {
        LanguageFiles::tokenizer(&self.language)
    }

    fn unchanged(&self) -> Result<(), CheckpointError> {
        let (path, how) = ("lm.safetensors".into(), "was written to".to_owned());
        match self.is_overwritten {
            true => Err(acestep_import::Error::Changed { path, how }.into()),
            false => Ok(()),
        }
    }
}

impl LanguageCheckpoint<Cpu> for AlteredLanguage {
    fn language_model(&self, place: &Place<Cpu>) -> Result<qwen3::Causal<Cpu>, CheckpointError> {
        let whole = LanguageCheckpoint::<Cpu>::language_model(&self.language, place)?;
        Ok(scaled(whole, self.factor))
    }
}

#[test]
fn a_plan_of_weights_that_changed_meanwhile_is_thrown_away() {
    let language = AlteredLanguage { is_overwritten: true, ..AlteredLanguage::scaled(1.0) };
    let made = with_greedy_plan(|asked| compose::<Cpu>(asked, &language, &place(), &Unobserved));
    let error = made.expect_err("it has changed");
    let Error::Checkpoint(cause) = &error else { panic!("{error}") };
    assert_eq!(cause.to_string(), "`lm.safetensors` was written to while it was in use");
}

#[test]
fn scores_that_are_nan_are_an_error_that_names_the_step() {
    // Like a damaged file.
    let language = AlteredLanguage::scaled(f32::NAN);
    let made = with_greedy_plan(|asked| compose::<Cpu>(asked, &language, &place(), &Unobserved));
    let error = made.expect_err("no numbers");
    // The tokens before the first value are forced, so they need no logits.
    let Error::Scores { step: 4, .. } = &error else { panic!("{error}") };
    let text = error.to_string();
    assert!(text.contains("at token 4; it had written: <think>\nbpm:"), "{text}");
}

#[test]
fn a_model_that_never_stops_says_what_it_had_written() {
    with_writer(WILD, |writer| {
        let ids = writer.encode(&prompt::inspire("rain", false));
        let error = writer.text(&ids, Rules::new(Phase::Understand), 30, 1).expect_err("no end");
        let Error::NeverStopped { tokens: 30, had } = &error else { panic!("{error}") };
        assert!(had.starts_with("<think>\nbpm:"), "{had}");
        assert!(error.to_string().contains("within 30 tokens; it had written: <think>"), "{error}");
    });
}

#[test]
fn a_prompt_without_room_for_an_answer_is_refused() {
    with_writer(WILD, |writer| {
        let ids = vec![5; 4096];
        let error = writer.text(&ids, Rules::new(Phase::Cot), 30, 1).expect_err("no room");
        assert!(matches!(error, Error::PromptTooLong { tokens: 4096, most: 4096 }), "{error}");
    });
}

/// Plans of a random network, with captions, contain only valid values.
#[test]
fn whatever_it_decides_is_what_a_song_can_have() {
    let language = acestep_import::open_tiny_language_model().expect("it is part of the program");
    let request = Request::default().with(|r| {
        r.words.caption = Some("rain".into());
        r.words.lyrics = Some("[Verse]\nIt rains".into());
    });
    let mut decided = 0;
    for seed in 0..30 {
        let mut settings =
            request.language.plan(&request.words, &[seed], &mut vec![]).expect("defaults");
        (settings.temperature, settings.top_p, settings.max_tokens) = (2.0, None, Some(900));
        let asked = Composing {
            request: &request,
            mode: LmMode::Plan,
            writes_codes: false,
            settings: &settings,
            genres: None,
        };
        let made = match compose::<Cpu>(&asked, &language, &place(), &Unobserved) {
            Ok(composed) => composed.request,
            Err(Error::NeverStopped { .. } | Error::NothingValid { .. }) => continue,
            Err(error) => panic!("seed {seed}: {error}"),
        };
        decided += usize::from(made.words.bpm.is_some());
        assert!(
            made.words.bpm.is_none_or(|bpm| (30..=300).contains(&bpm)),
            "seed {seed}: {made:?}"
        );
        let length = made.words.duration;
        assert!(length.is_none_or(|s| (10.0..=600.0).contains(&s)), "seed {seed}: {made:?}");
        // `Plan::resolve` checks the other fields.
        let model = acestep_tests::info(&acestep_tests::turbo());
        Plan::resolve(&made, &model).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(decided > 10, "only {decided} of 30 plans had a tempo");
}
