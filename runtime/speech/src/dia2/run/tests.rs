//! Runs with networks that answer as those of the goldens did: their actions are in runs.json.

use std::cell::RefCell;

use acestep_engine::sampling::Draws;
use serde_json::Value;

use super::{
    super::{
        audible::{AudibleFrames, Beginning},
        choose::{DrawSettings, Guidance},
        prefix::{Prefix, tests::recordings},
        step::Read,
        testing,
        times::times,
    },
    *,
};

/// Answers with the actions of a run. The code of codebook `k` at step `t` is a mix of both.
struct Scripted {
    /// The action of each step.
    actions: Vec<u32>,
    first: usize,
    /// The position and the tokens of each call.
    calls: RefCell<Vec<(usize, Vec<Vec<u32>>)>>,
}

fn code(step: usize, codebook: usize) -> u32 {
    ((step * 5 + codebook * 11) % 64) as u32
}

/// Logits whose largest belongs to `id`.
fn logits(width: usize, id: u32) -> Vec<f32> {
    (0..width as u32).map(|other| if other == id { 1.0 } else { 0.0 }).collect()
}

impl Scripted {
    fn of(steps: &Value) -> Self {
        let steps = steps.as_array().expect("steps");
        let first = steps.first().map_or(0, |step| count(&step[0]));
        // A forced word is written as id 2, and is action 1 of the network.
        let actions = steps.iter().map(|step| count(&step[1]).min(1) as u32).collect();
        Self { actions, first, calls: RefCell::default() }
    }
}

impl StepNetworks for Scripted {
    type State = usize;
    type Hidden = usize;
    type Stages = usize;

    fn step(
        &self,
        tokens: &[Vec<u32>],
        position: usize,
        state: &mut usize,
    ) -> Result<Read<usize>, Error> {
        self.calls.borrow_mut().push((position, tokens.to_vec()));
        *state += 1;
        let action = position.checked_sub(self.first).and_then(|at| self.actions.get(at));
        // The unconditional row asks for the opposite, which must not count.
        let action = action.copied().unwrap_or_default();
        let code = logits(66, code(position, 0));
        let action = vec![logits(2, action), logits(2, 1 - action)];
        Ok(Read { hidden: position, action, code: vec![code.clone(), code] })
    }

    fn stages(&self, _: usize) -> usize {
        0
    }

    fn stage(
        &self,
        stage: usize,
        hidden: &usize,
        _: u32,
        _: [u32; 2],
        stages: &mut usize,
    ) -> Result<Vec<Vec<f32>>, Error> {
        assert!(*stages == stage || stage == 0, "the stages follow each other");
        *stages = stage;
        *stages += 1;
        let logits = logits(64, code(*hidden, stage + 1));
        Ok(vec![logits.clone(), logits])
    }
}

fn streams(checkpoint: &Value) -> Streams {
    let (delays, ahead, most_steps) = match checkpoint.as_str() {
        Some("Dia2-tiny") | None => (vec![8, 10, 10, 10, 10, 10, 10, 10], 2, 200),
        _ => (vec![2, 3, 3, 4, 4, 4, 4, 5], 0, 64),
    };
    Streams { ids: testing::IDS, delays, ahead, most_steps, codebook_size: 64, frame_rate: 12.5 }
}

fn chooser(scale: f32) -> Chooser {
    let greedy = DrawSettings { temperature: 0.0, top_k: 50 };
    Chooser {
        guidance: Guidance { scale, filter_k: 50 },
        text: greedy,
        audio: greedy,
        drawing: Box::new(Draws::new(0, 1)),
    }
}

fn count(value: &Value) -> usize {
    testing::of(value)
}

fn compare(name: &str, golden: &Value) {
    let reader = testing::reader();
    let streams = streams(&golden["checkpoint"]);
    let networks = Scripted::of(&golden["steps"]);
    let prefix = golden["prefix"].as_array().map(|files| {
        Prefix::new(&recordings(files.len()), &reader, streams.most_steps).expect("a prefix")
    });
    let script = reader.script(golden["script"].as_str().expect("a script")).expect("entries");
    let of_prefix = prefix.as_ref().map_or(0, |prefix| prefix.entries.len());
    let mut entries = prefix.as_ref().map_or(Vec::new(), |prefix| prefix.entries.clone());
    entries.extend(script);
    let padding = count(&golden["initial_padding"]);
    let machine = streams.machine(entries, padding);
    let scale = golden["cfg_scale"].as_f64().expect("a scale") as f32;
    let rows = chooser(scale).guidance.rows();
    let grid = streams.grid(streams.ids.audio_pad);
    let mut state = RunState::fresh(0, rows, grid, machine, &streams);
    if let Some(prefix) = &prefix {
        state.read(prefix, &streams, &networks, &|_| Ok(())).expect("a voice");
    }
    let mut run = Run::new(state, (0, usize::MAX), chooser(scale), streams.clone(), networks);
    assert_eq!(run.start(), count(&golden["start_step"]), "{name}");
    let beginning = match (golden["include_prefix"] == true, streams.ahead) {
        (true, _) => Beginning::At(0),
        (false, 0) => Beginning::Word { less: padding, otherwise: run.start() },
        (false, _) => Beginning::At(run.start()),
    };
    let (mut heard, mut frames, mut next) = (AudibleFrames::new(beginning), Vec::new(), 0);
    for expected in golden["steps"].as_array().expect("steps") {
        let step = run.advance().expect("no error").expect("a step");
        let Step { step, action, text } = step;
        let own = serde_json::json!([step, action, text.main, text.second, text.takes_entry]);
        assert_eq!(own, *expected, "{name}");
        if text.main == testing::IDS.new_word {
            heard.word(step);
        }
        while let Some(frame) = run.frame(next) {
            frames.extend(heard.add(frame));
            next += 1;
        }
    }
    assert_eq!(run.advance().expect("no error"), None, "{name}");
    frames.extend(heard.end());
    let ending = if golden["end_step"].is_null() { RunEnd::Context } else { RunEnd::Finished };
    assert_eq!(run.ending(), Some(ending), "{name}");
    let state = run.state();
    assert_eq!(state.machine.end_step(), golden["end_step"].as_u64().map(|step| step as usize));
    assert_eq!(state.machine.left(), count(&golden["entries_left"]), "{name}");
    assert_eq!(state.step + 1, count(&golden["grid_columns"]), "{name}");
    assert_eq!(frames.len(), count(&golden["aligned_frames"]), "{name}");
    assert_eq!(frames.len() * 1920, count(&golden["samples"]), "{name}");
    let transcript = testing::transcript(&golden["transcript"]);
    assert_eq!(state.machine.transcript(), transcript, "{name}");
    let first = heard.first().expect("a first frame");
    let from = if golden["include_prefix"] == true { 0 } else { of_prefix };
    let words = times(&transcript[from..], first, frames.len(), 12.5);
    let own: Vec<_> = words.iter().map(|word| serde_json::json!([word.text, word.start])).collect();
    assert_eq!(own, *golden["timestamps"].as_array().expect("times"), "{name}");
    // Every frame that the run wrote itself has the codes of the steps of its columns.
    let known = prefix.as_ref().map_or(0, |prefix| prefix.frames.len());
    for (at, frame) in frames.iter().enumerate() {
        for (codebook, &own) in frame.iter().enumerate() {
            let column = first + at + streams.delays[codebook];
            if column > run.start() {
                assert_eq!(own, code(column - 1, codebook), "{name} frame {at}");
            } else {
                assert!(first + at < known, "{name} frame {at} is of a recording");
            }
        }
    }
    let calls = run.networks().calls.borrow();
    assert_eq!(calls.len(), known + golden["steps"].as_array().expect("steps").len());
    if known > 0 {
        // The last frame of a recording is read twice.
        assert_eq!([calls[known - 1].0, calls[known].0], [known - 1; 2], "{name}");
    }
    assert!(calls.iter().all(|(_, rows)| rows.len() == chooser(scale).guidance.rows()));
    assert!(calls.iter().flat_map(|(_, rows)| rows.get(1)).all(|row| row[..2] == [7, 3]));
}

/// Golden: runs.json, nari-labs/dia2 at 8687268. Row 7 of the server's table: runs without recordings.
#[test]
fn every_run_takes_the_steps_of_the_reference() {
    let golden = testing::json("runs.json");
    let runs = golden.as_object().expect("runs");
    let mut compared = 0;
    for (name, run) in runs.iter().filter(|(name, _)| *name != "server") {
        compare(name, run);
        compared += 1;
    }
    assert_eq!(compared, 11);
}

/// Golden: runs.json, `warm_steps`.
#[test]
fn a_recording_gives_the_text_of_the_reference() {
    let golden = testing::json("runs.json");
    let reader = testing::reader();
    let run = &golden["prefix1"];
    let streams = streams(&run["checkpoint"]);
    let prefix = Prefix::new(&recordings(1), &reader, 200).expect("a prefix");
    let script = reader.script(run["script"].as_str().expect("a script")).expect("entries");
    let entries = prefix.entries.iter().cloned().chain(script).collect();
    let mut machine = streams.machine(entries, 2);
    let steps = run["warm_steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 17);
    for (step, expected) in steps.iter().enumerate() {
        let action = u32::from(prefix.steps.contains(&step));
        let text = machine.step(step, action, true);
        let own = [text.main, text.second].map(u64::from);
        assert_eq!(own, [2, 3].map(|at| expected[at].as_u64().expect("an id")), "{step}");
    }
}

/// Golden: runs.json, `server`: a voice, a rest of six steps, and two requests from one state. Rows 12, 15 to 18
/// and 24 to 29 of the server's table.
#[test]
fn requests_from_a_kept_state_take_the_steps_of_the_server() {
    let golden = &testing::json("runs.json")["server"];
    let reader = testing::reader();
    let streams = streams(&Value::Null);
    let prefix = Prefix::new(&recordings(1), &reader, 200).expect("a prefix");
    let quiet = Scripted { actions: Vec::new(), first: 0, calls: RefCell::default() };
    let machine = streams.machine(prefix.entries.clone(), 0);
    let grid = streams.grid(streams.ids.audio_bos);
    let mut kept = RunState::fresh(0, 1, grid, machine, &streams);
    kept.read(&prefix, &streams, &quiet, &|_| Ok(())).expect("a voice");
    // Row 16: the columns of 17 frames with delays of 8 and 10 have the delayed codes, and pad beside them.
    let columns = kept.grid.columns();
    assert_eq!((columns.len(), columns[7][0], columns[8][0], columns[9][1]), (27, 65, 0, 65));
    assert_eq!((columns[24][0], columns[25][0], columns[26][1]), (16, 65, 16));
    // Row 12: columns that are not written are read as bos.
    assert_eq!((kept.grid.kept(3, 27), kept.grid.inputs(27, 64)), (64, vec![64; 8]));
    // Row 15: the machine has begun the recording's words; requests have another one.
    assert_eq!((kept.machine.transcript().len(), kept.machine.left()), (3, 0));
    kept.rest(&streams, &quiet).expect("a rest");
    assert_eq!(kept.step, count(&golden["snapshot_start_step"]));
    assert_eq!(kept.networks, count(&golden["kv_length"]));
    let positions: Vec<usize> = quiet.calls.borrow().iter().map(|(at, _)| *at).collect();
    assert_eq!(positions, (0..23).collect::<Vec<_>>());
    for request in golden["requests"].as_array().expect("requests") {
        let networks = Scripted::of(&request["steps"]);
        let script = reader.script(request["text"].as_str().expect("a text")).expect("entries");
        let state = RunState { machine: streams.machine(script, 0), ..kept.clone() };
        let frames = prefix.frames.len();
        let mut run =
            Run::new(state, (frames, usize::MAX), chooser(1.0), streams.clone(), networks);
        let chunks = request["chunks"].as_array().expect("chunks");
        // Row 25: the first step is the state's; row 24: the first word comes with it, without padding.
        assert_eq!(run.start(), 23);
        let (mut next, mut sent) = (run.start(), Vec::new());
        for expected in request["steps"].as_array().expect("steps") {
            let Step { step, text, .. } = run.advance().expect("no error").expect("a step");
            let own = [step as u64, text.main.into(), text.second.into()];
            assert_eq!(own, [0, 2, 3].map(|at| expected[at].as_u64().expect("a number")));
            while run.frame(next).is_some() {
                let is_last = run.ending().is_some();
                sent.push(serde_json::json!([step, 1920, is_last]));
                next += 1;
            }
        }
        assert_eq!(sent, *chunks);
        assert_eq!(run.ending(), Some(RunEnd::Finished));
        assert_eq!(run.state().machine.end_step(), Some(count(&request["end_step"])));
        // Steps before 17 + delay keep the codes of the recording; the last of them keep bos.
        let columns = run.state().grid.columns();
        assert_eq!((columns[24][1], columns[26][1], columns[27][1]), (14, 16, 64));
        assert_eq!(columns[28][1], code(27, 1));
        assert_eq!(columns[24][0], code(23, 0));
    }
}

#[test]
fn the_limit_of_steps_ends_a_run() {
    let streams = streams(&Value::Null);
    let networks = Scripted { actions: Vec::new(), first: 0, calls: RefCell::default() };
    let script = testing::reader().script("[S1] hello there").expect("entries");
    let grid = streams.grid(streams.ids.audio_pad);
    let state = RunState::fresh(0, 1, grid, streams.machine(script, 2), &streams);
    let mut run = Run::new(state, (0, 12), chooser(1.0), streams, networks);
    let steps = std::iter::from_fn(|| run.advance().expect("no error")).count();
    assert_eq!((steps, run.ending(), run.state().frames()), (12, Some(RunEnd::Limit), 3));
}

#[test]
fn logits_that_are_nan_name_their_step() {
    struct Broken;
    impl StepNetworks for Broken {
        type State = ();
        type Hidden = ();
        type Stages = ();
        fn step(&self, _: &[Vec<u32>], _: usize, (): &mut ()) -> Result<Read<()>, Error> {
            let nan = vec![vec![f32::NAN; 2]];
            Ok(Read { hidden: (), action: nan.clone(), code: nan })
        }
        fn stages(&self, _: usize) {}
        fn stage(
            &self,
            _: usize,
            (): &(),
            _: u32,
            _: [u32; 2],
            (): &mut (),
        ) -> Result<Vec<Vec<f32>>, Error> {
            unreachable!("the step fails")
        }
    }
    let streams = streams(&Value::Null);
    let grid = streams.grid(streams.ids.audio_pad);
    let state = RunState::fresh((), 1, grid, streams.machine(Vec::new(), 0), &streams);
    let mut run = Run::new(state, (0, 9), chooser(1.0), streams, Broken);
    let error = run.advance().expect_err("NaN").to_string();
    assert!(error.starts_with("the scores of step 0 cannot be used"), "{error}");
}
