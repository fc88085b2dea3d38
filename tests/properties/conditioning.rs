//! Conditioning that is saved and loaded again is unchanged.

use acestep_engine::{Error, Residency, Unobserved, files::Existing};
use acestep_import::AceStep;
use acestep_music::{
    Networks, Request,
    exchange::Conditioning,
    pipeline::{SamplingInputs, prepare, render},
};
use acestep_tests::{Cpu, base, place, plan, request, songs, turbo};

fn there_and_back(request: &Request, model: &AceStep) {
    let plan = plan(request, model);
    let networks = Networks::<Cpu>::new(model, place(), Residency::WhileUsed);
    let folder = tempfile::tempdir().expect("a folder");

    let prepared = prepare(&plan, &networks, &Unobserved).expect("conditioning");
    let written = prepared.to_conditioning().expect("one track");
    written.save(folder.path(), Existing::Keep).expect("written");

    let read = Conditioning::load(folder.path()).expect("read");
    let prepared = SamplingInputs::from_conditioning(read, &plan, &networks).expect("it fits");
    let song = render(&plan, &networks, prepared, &Unobserved).expect("songs");
    assert_eq!(song, songs(&plan, model).expect("songs"));
}

#[test]
fn a_song_from_files_is_the_song_from_its_caption() {
    there_and_back(&request().with(|r| r.noise.batch_size = Some(2)), &turbo());
}

#[test]
fn a_guided_song_from_files_is_the_song_from_its_caption() {
    there_and_back(&request().with(|r| r.sampling.inference_steps = Some(2)), &base());
}

#[test]
fn conditioning_of_another_length_is_refused_with_both_shapes() {
    let model = turbo();
    let networks = Networks::<Cpu>::new(&model, place(), Residency::WhileUsed);
    let short = prepare(&plan(&request(), &model), &networks, &Unobserved).expect("conditioning");
    let long = plan(&request().with(|r| r.words.duration = Some(8.0)), &model);
    let conditioning = short.to_conditioning().expect("one track");
    let error =
        SamplingInputs::from_conditioning(conditioning, &long, &networks).expect_err("too short");
    assert!(matches!(error, Error::Conflict(_)));
    assert_eq!(
        error.to_string(),
        "context_latents is [1, 128, 32], but this model and plan need [1, 200, 32]"
    );
}

/// Files contain one track; a strength below 1 needs two.
#[test]
fn two_tracks_are_not_written_as_one() {
    let model = turbo();
    let request = request().with(|r| {
        r.source.audio_codes = Some(vec![vec![5; 10]]);
        r.source.audio_cover_strength = Some(0.5);
        r.words.duration = None;
    });
    let networks = Networks::<Cpu>::new(&model, place(), Residency::WhileUsed);
    let prepared = prepare(&plan(&request, &model), &networks, &Unobserved).expect("conditioning");
    assert!(matches!(prepared.to_conditioning(), Err(Error::Conflict(_))));
}
