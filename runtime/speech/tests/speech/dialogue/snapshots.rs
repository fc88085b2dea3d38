//! States of a dialogue that are kept and restored.

use std::cell::RefCell;

use acestep_engine::{Error, Event, Unobserved, files::Existing};
use acestep_speech::{
    Chunks, SpeechError,
    dia2::{KeptSnapshot, Plan, Request, Snapshot, Speakers, Speaking, StepNetworks as _},
};
use burn_flex::Flex;

use super::{SCRIPT, model, networks, recording, request, same, spoken};

/// Also from a file, and after another script was spoken from it.
#[test]
fn a_snapshot_that_is_restored_speaks_as_a_fresh_one() {
    let model = model();
    let networks = networks(&model);
    let recordings = [recording(&networks)];
    let fresh = || Snapshot::new(&recordings, 2, &networks, &Unobserved).expect("a snapshot");
    let plan =
        |script| Plan::new(&request(script), Speakers::Kept, 5, &model).expect("a good request");
    let (a, b) = (plan(SCRIPT), plan("[S2] no, not really"));
    let of = |plan: &Plan, snapshot: &Snapshot<Flex>| {
        spoken(plan, Some(snapshot), &networks, Chunks::default())
    };
    let kept = fresh();
    let first = of(&a, &kept);
    let other = of(&b, &kept);
    assert_ne!(first.spoken.frames, other.spoken.frames);
    same(&of(&a, &kept), &first);
    same(&of(&a, &fresh()), &first);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("voice");
    let file = KeptSnapshot::new(recordings.to_vec(), &networks, &Unobserved).expect("a file");
    file.write(&path, Existing::Keep).expect("written");
    let read = KeptSnapshot::read(&path).expect("a snapshot");
    assert_eq!(read, file);
    assert!(KeptSnapshot::is_at(&path) && !KeptSnapshot::is_at(folder.path()));
    let restored = read.snapshot(2, &networks, &Unobserved).expect("of this model");
    same(&of(&a, &restored), &first);
    same(&of(&b, &restored), &other);
    // A run without guidance takes the first row.
    let alone = Request { cfg_scale: Some(1.0), ..request(SCRIPT) };
    let alone = Plan::new(&alone, Speakers::Kept, 5, &model).expect("a good request");
    let row = Snapshot::new(&recordings, 1, &networks, &Unobserved).expect("a snapshot");
    let restored = read.snapshot(1, &networks, &Unobserved).expect("its first row");
    same(&of(&alone, &restored), &of(&alone, &row));
    // The words of the recording are not those of the dialogue.
    assert!(first.spoken.words.iter().all(|word| word.start >= 0.0));
    assert_eq!(first.spoken.words[0].text, "hello");
}

/// Row 19: a snapshot is as large as its recordings. Ten frames and six of rest are 16 steps, a multiple of the
/// step of the cache, of two rows, two layers, keys and values, three heads of 10 numbers in f32.
#[test]
fn a_snapshot_has_room_for_its_own_steps_alone() {
    let model = model();
    let networks = networks(&model);
    let recordings = [recording(&networks)];
    let snapshot = Snapshot::new(&recordings, 2, &networks, &Unobserved).expect("a snapshot");
    let state = snapshot.state();
    assert_eq!((state.step, state.networks.steps(), state.networks.capacity()), (16, 16, 16));
    assert_eq!(state.networks.bytes(), 2 * 2 * 2 * 3 * 16 * 10 * 4);
    let column = 8 * 4;
    let codes = state.grid.columns().len() as u64 * column;
    let codec = snapshot.bytes(&networks) - state.networks.bytes() - codes;
    // The codec has decoded frames, and keeps less than a second of sound has.
    assert!((1_000..1 << 20).contains(&codec), "{codec}");
    let one = Snapshot::new(&recordings, 1, &networks, &Unobserved).expect("a snapshot");
    assert_eq!(snapshot.bytes(&networks) - one.bytes(&networks), 2 * 2 * 3 * 16 * 10 * 4);
    let none = Snapshot::new(&[], 2, &networks, &Unobserved).expect("a snapshot");
    assert_eq!((none.start(), none.state().networks.steps()), (0, 0));
}

/// Row 14: five frames of ten. The rest of six steps follows them.
#[test]
fn row_14_a_snapshot_of_recordings_that_are_too_long_is_cut_with_a_notice() {
    let model = model();
    let networks = networks(&model);
    let recordings = [recording(&networks)];
    let notices = RefCell::new(Vec::new());
    let observe = |event: Event| {
        if let Event::Noticed(notice) = event {
            notices.borrow_mut().push(notice.0);
        }
    };
    let snapshot = Snapshot::within(5, &recordings, 1, &networks, &observe).expect("a snapshot");
    assert_eq!(snapshot.start(), 5 + 6);
    let notices = notices.take();
    assert!(notices[0].starts_with("5 frames of the recordings are used"), "{notices:?}");
    // The same as of a recording that ends there.
    let mut short = recordings[0].clone();
    short.frames.truncate(5);
    short.words.truncate(1);
    let plan =
        Plan::new(&Request { cfg_scale: Some(1.0), ..request(SCRIPT) }, Speakers::Kept, 5, &model);
    let plan = plan.expect("a good request");
    let own = Snapshot::new(&[short], 1, &networks, &Unobserved).expect("a snapshot");
    let of = |snapshot| spoken(&plan, Some(snapshot), &networks, Chunks::default());
    same(&of(&snapshot), &of(&own));
}

#[test]
fn a_file_that_is_damaged_is_refused() {
    let model = model();
    let networks = networks(&model);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("voice");
    let kept = KeptSnapshot::new(Vec::new(), &networks, &Unobserved).expect("a file");
    kept.write(&path, Existing::Keep).expect("written");
    let bytes = std::fs::read(&path).expect("a file");
    let damaged = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("written");
        let error = KeptSnapshot::read(&path).expect_err("damaged");
        assert!(matches!(error.family(), Some(SpeechError::BadVoice { .. })), "{error}");
    };
    damaged(&bytes[..bytes.len() / 2]);
    damaged(b"");
    let mut changed = bytes.clone();
    let at = changed.windows(4).position(|w| w == b"step").expect("the metadata");
    changed[at] ^= 1;
    damaged(&changed);
}

#[test]
fn a_snapshot_of_other_rows_is_refused() {
    let model = model();
    let networks = networks(&model);
    let snapshot = Snapshot::new(&[], 1, &networks, &Unobserved).expect("a snapshot");
    let plan = Plan::new(&request(SCRIPT), Speakers::Kept, 5, &model).expect("a good request");
    assert!(!snapshot.serves(&plan));
    for snapshot in [Some(&snapshot), None] {
        let chunks = Chunks::default();
        let error = Speaking::begin(plan.clone(), snapshot, &networks, chunks, &Unobserved);
        assert!(matches!(error, Err(Error::Conflict(_))));
    }
}

/// Keys and values of a copy are not those that the first one writes later; without a cache, all steps
/// read anew, the logits are the same. Rows 8 and 9: no step writes into buffers of another one.
#[test]
fn a_copy_of_a_state_goes_on_as_the_state_and_as_all_steps_anew() {
    let model = model();
    let networks = networks(&model);
    let pair = networks.pair().expect("networks");
    let row = |step: u32| -> Vec<u32> {
        (0..10).map(|channel| (step * 13 + channel * 7 + step * step) % 60 + 4).collect()
    };
    let read = |steps: &[u32], state: &mut _| {
        let mut last = None;
        for &step in steps {
            let rows = [row(step), row(step + 1)];
            last = Some(pair.step(&rows, step as usize, state).expect("a step"));
        }
        let last = last.expect("a step");
        (last.action, last.code)
    };
    let mut state = pair.state(2, 20);
    read(&[0, 1, 2], &mut state);
    let mut copy = state.clone();
    let first = read(&[3, 4, 5], &mut state);
    let other = read(&[9, 8, 7], &mut state.clone());
    assert_ne!(first, other);
    assert_eq!(read(&[3, 4, 5], &mut copy), first);
    assert_eq!(read(&[0, 1, 2, 3, 4, 5], &mut pair.state(2, 20)), first);
}
