//! The state machine of the text: which tokens the two text streams get at each step.
//!
//! The network asks for a new word by action 1. The machine decides: a word's own tokens, its
//! padding and at most six steps of silence come first, and the second stream spells a later word.
//!
//! Source: nari-labs/dia2 at 8687268, `runtime/state_machine.py`.

use std::{collections::VecDeque, ops::Range};

use serde::{Deserialize, Serialize};

use super::{ids::Ids, script::Entry};

/// Most steps without a word, if a word does not ask for more.
const MOST_PADDING: usize = 6;
/// The network's action for a new word.
pub(super) const NEW_WORD: u32 = 1;

/// A word and the step at which it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WordStart {
    /// The word as it is written.
    pub text: String,
    /// The step.
    pub step: usize,
}

/// The text of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepText {
    /// The id of the main stream.
    pub main: u32,
    /// The id of the second stream.
    pub second: u32,
    /// True if the step takes an entry.
    pub takes_entry: bool,
}

/// The machine of one utterance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateMachine {
    pad: u32,
    new_word: u32,
    /// Number of the word that the second stream spells, counted from the next one; 0 for none.
    ahead: usize,
    entries: VecDeque<Entry>,
    pending: VecDeque<u32>,
    lookahead: VecDeque<u32>,
    budget: usize,
    forced: usize,
    end_step: Option<usize>,
    transcript: Vec<WordStart>,
    breaks: Vec<Range<usize>>,
}

impl StateMachine {
    /// A machine for `entries`, which begins after `initial_padding` steps. `ahead` is
    /// `second_stream_ahead`.
    pub fn new(entries: Vec<Entry>, initial_padding: usize, ahead: usize, ids: &Ids) -> Self {
        Self {
            pad: ids.pad,
            new_word: ids.new_word,
            ahead,
            entries: entries.into(),
            pending: VecDeque::new(),
            lookahead: VecDeque::new(),
            budget: initial_padding,
            forced: initial_padding,
            end_step: None,
            transcript: Vec::new(),
            breaks: Vec::new(),
        }
    }

    /// Adds entries, so that the end is open again.
    pub fn append(&mut self, entries: impl IntoIterator<Item = Entry>) {
        self.entries.extend(entries);
        if !self.entries.is_empty() {
            self.end_step = None;
        }
    }

    /// The words that were begun.
    pub fn transcript(&self) -> &[WordStart] {
        &self.transcript
    }

    /// The entries that were not begun.
    pub fn left(&self) -> usize {
        self.entries.len()
    }

    /// True if the next step may take an entry, and that entry or a word that the second stream would
    /// then spell is not there. Other steps do not depend on later entries.
    pub fn wants_entries(&self) -> bool {
        if !self.pending.is_empty() || self.forced > 0 {
            return false;
        }
        let words = self.entries.iter().filter(|entry| !entry.is_break());
        match self.entries.front() {
            None => true,
            Some(first) => !first.is_break() && words.take(self.ahead + 1).count() <= self.ahead,
        }
    }

    /// The step that asked for a word when there was none left.
    pub fn end_step(&self) -> Option<usize> {
        self.end_step
    }

    /// True if `step` is inside a break of the script.
    pub fn is_break(&self, step: usize) -> bool {
        self.breaks.iter().any(|steps| steps.contains(&step))
    }

    /// Returns the text of `step`. `action` is the network's, 0 or 1, or the id of new word or
    /// pad. `is_forced` steps follow the action alone: those of a recording.
    pub fn step(&mut self, step: usize, action: u32, is_forced: bool) -> StepText {
        let mut is_new = action == NEW_WORD || action == self.new_word;
        if !self.pending.is_empty() {
            is_new = false;
        } else if !is_forced {
            if self.forced > 0 {
                is_new = false;
            } else if self.budget == 0 {
                is_new = true;
            }
        }
        let mut takes_entry = false;
        if is_new {
            match self.entries.pop_front() {
                Some(entry) => {
                    takes_entry = true;
                    is_new = self.take(entry, step);
                }
                None => {
                    is_new = self.ahead > 0 && self.end_step.is_none();
                    self.end_step.get_or_insert(step);
                }
            }
        }
        let main = match is_new {
            true => self.new_word,
            false => {
                self.budget = self.budget.saturating_sub(1);
                self.forced = self.forced.saturating_sub(1);
                self.pending.pop_front().unwrap_or(self.pad)
            }
        };
        let [main, second] = match (self.ahead, is_new) {
            (0, _) => [main, main],
            (_, true) => [self.pending.pop_front().unwrap_or(self.pad), self.new_word],
            (_, false) => [main, self.lookahead.pop_front().unwrap_or(self.pad)],
        };
        StepText { main, second, takes_entry }
    }

    /// Begins an entry. Returns true if it is a word.
    fn take(&mut self, entry: Entry, step: usize) -> bool {
        self.forced = entry.padding;
        if entry.is_break() {
            self.breaks.push(step..step.saturating_add(entry.padding));
            return false;
        }
        if self.ahead > 0 {
            let mut words = self.entries.iter().filter(|entry| !entry.is_break());
            if let Some(word) = words.nth(self.ahead - 1) {
                self.lookahead.extend(&word.tokens);
            }
        }
        self.transcript.push(WordStart { text: entry.text, step });
        self.pending.extend(entry.tokens);
        self.budget = MOST_PADDING;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing, *};

    /// The columns of a trace after the action.
    fn row(machine: &mut StateMachine, step: usize, action: u32, is_forced: bool) -> [i64; 8] {
        let text = machine.step(step, action, is_forced);
        let count = |count: usize| count as i64;
        [
            text.main.into(),
            text.second.into(),
            text.takes_entry.into(),
            count(machine.budget),
            count(machine.forced),
            count(machine.pending.len()),
            count(machine.lookahead.len()),
            machine.end_step.map_or(-1, count),
        ]
    }

    /// Golden: state_machine.json, nari-labs/dia2 at 8687268.
    #[test]
    fn every_step_is_that_of_the_reference() {
        let golden = testing::json("state_machine.json");
        let cases = golden["cases"].as_array().expect("cases").iter();
        let forced = golden["forced"].as_array().expect("forced").iter();
        let cases = cases.map(|case| (case, false)).chain(forced.map(|case| (case, true)));
        let mut steps = 0;
        for (case, is_forced) in cases {
            let entries = case["entries"].as_str().unwrap_or("E1");
            let padding = case["initial_padding"].as_u64().unwrap_or(2) as usize;
            let own = testing::entries(&golden["entries"][entries]);
            let ahead = testing::of(&case["ahead"]);
            let mut machine = StateMachine::new(own, padding, ahead, &testing::IDS);
            let trace: Vec<Vec<i64>> = testing::of(&case["trace"]);
            for (step, expected) in trace.iter().enumerate() {
                let row = row(&mut machine, step, expected[0] as u32, is_forced);
                assert_eq!(row, expected[1..], "{entries} {} step {step}", case["actions"]);
                steps += 1;
            }
            if !case["transcript"].is_null() {
                assert_eq!(machine.transcript(), testing::transcript(&case["transcript"]));
            }
        }
        assert_eq!(steps, golden_steps(&golden));
    }

    fn golden_steps(golden: &serde_json::Value) -> usize {
        let rows = |key: &str| -> usize {
            let cases = golden[key].as_array().expect("cases").iter();
            cases.map(|case| case["trace"].as_array().expect("a trace").len()).sum()
        };
        assert!(rows("cases") > 1500, "{}", rows("cases"));
        rows("cases") + rows("forced")
    }

    #[test]
    fn added_entries_open_the_end_again() {
        let word = |text: &str| Entry { tokens: vec![50], text: text.into(), padding: 1 };
        let mut machine = StateMachine::new(vec![word("one")], 0, 0, &testing::IDS);
        (0..20).for_each(|step| {
            let _ = machine.step(step, 1, false);
        });
        assert_eq!((machine.end_step(), machine.left()), (Some(2), 0));
        machine.append([]);
        assert_eq!(machine.end_step(), Some(2));
        machine.append([word("two")]);
        assert_eq!((machine.end_step(), machine.left()), (None, 1));
        assert!(machine.step(20, 1, false).takes_entry);
        assert_eq!(machine.transcript()[1], WordStart { text: "two".into(), step: 20 });
    }

    /// With two words ahead: a word of three tokens, then one of a single token, a break, and no more.
    #[test]
    fn entries_are_wanted_only_when_a_step_may_take_one() {
        let entry = |tokens: usize, padding| Entry {
            tokens: vec![50; tokens],
            text: "x".repeat(tokens),
            padding,
        };
        let mut machine = StateMachine::new(vec![entry(3, 3)], 1, 2, &testing::IDS);
        assert!(!machine.wants_entries(), "the first step is padding");
        let _ = machine.step(0, 1, false);
        assert!(machine.wants_entries(), "one word of three");
        machine.append([entry(1, 1)]);
        assert!(machine.wants_entries(), "two words of three");
        machine.append([entry(0, 2), entry(1, 1)]);
        assert!(!machine.wants_entries());
        assert!(machine.step(1, 1, false).takes_entry);
        for step in 2..5 {
            assert!(!machine.wants_entries(), "the word's tokens and padding come first: {step}");
            assert!(!machine.step(step, 1, false).takes_entry);
        }
        assert!(machine.wants_entries(), "two words of three are left");
        machine.append([entry(1, 1)]);
        assert!(machine.step(5, 1, false).takes_entry);
        let _ = machine.step(6, 1, false);
        assert!(!machine.wants_entries(), "a break needs no other entry");
        assert!(machine.step(7, 1, false).takes_entry);
    }

    /// A break of three frames that is taken at step 2 covers the steps 2, 3 and 4.
    #[test]
    fn the_steps_of_a_break_are_known() {
        let gap = Entry { tokens: Vec::new(), text: String::new(), padding: 3 };
        let mut machine = StateMachine::new(vec![gap], 2, 2, &testing::IDS);
        (0..8).for_each(|step| {
            let _ = machine.step(step, 1, false);
        });
        let inside: Vec<usize> = (0..8).filter(|&step| machine.is_break(step)).collect();
        assert_eq!(inside, [2, 3, 4]);
    }
}
