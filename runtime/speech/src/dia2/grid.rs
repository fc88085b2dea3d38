//! The delayed grid of codes: each codebook speaks of a frame some columns later.
//!
//! Column `c` of codebook `k` belongs to the frame `c - delay[k]`. The step `t` reads column `t` and
//! writes column `t + 1`.
//!
//! Source: nari-labs/dia2 at 8687268, `audio/grid.py` and `runtime/generator.py`.

use serde::{Deserialize, Serialize};

/// Codes of all codebooks, by column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    delays: Vec<usize>,
    /// Code of columns that were never written.
    unwritten: u32,
    columns: Vec<Vec<u32>>,
}

impl Grid {
    /// A grid without columns. `unwritten` stands for columns that are skipped.
    ///
    /// # Panics
    /// If there is no codebook, or a delay of 0: step 0 would read a column that nothing writes.
    pub fn new(delays: &[usize], unwritten: u32) -> Self {
        assert!(delays.iter().min() > Some(&0), "delays of at least 1, not {delays:?}");
        Self { delays: delays.to_vec(), unwritten, columns: Vec::new() }
    }

    /// True if a model with these delays can have this grid.
    pub fn is_of(&self, delays: &[usize]) -> bool {
        self.delays == delays && self.columns.iter().all(|codes| codes.len() == delays.len())
    }

    /// The largest delay.
    pub fn most_delay(&self) -> usize {
        self.delays.iter().copied().max().unwrap_or_default()
    }

    /// The columns so far.
    pub fn columns(&self) -> &[Vec<u32>] {
        &self.columns
    }

    /// Writes whole frames from the first column on, `pad` beside them.
    pub fn write_frames(&mut self, frames: &[Vec<u32>], pad: u32) {
        for column in 0..frames.len() + self.most_delay() {
            let code = |(codebook, &delay): (usize, &usize)| {
                let frame = column.checked_sub(delay).and_then(|frame| frames.get(frame));
                frame.map_or(pad, |frame| frame[codebook])
            };
            let codes = self.delays.iter().enumerate().map(code).collect();
            self.write(column, codes);
        }
    }

    /// Writes one column.
    pub fn write(&mut self, column: usize, codes: Vec<u32>) {
        debug_assert_eq!(codes.len(), self.delays.len(), "a code of each codebook");
        if self.columns.len() <= column {
            self.columns.resize(column + 1, vec![self.unwritten; self.delays.len()]);
        }
        self.columns[column] = codes;
    }

    /// Removes all columns from `columns` on.
    pub fn truncate(&mut self, columns: usize) {
        self.columns.truncate(columns);
    }

    /// Returns a code, if its column was written.
    pub fn code(&self, codebook: usize, column: usize) -> Option<u32> {
        self.columns.get(column).map(|codes| codes[codebook])
    }

    /// Returns the code of a column; after the last one, the code of unwritten columns.
    pub fn kept(&self, codebook: usize, column: usize) -> u32 {
        self.code(codebook, column).unwrap_or(self.unwritten)
    }

    /// Returns the codes that step `step` reads: `bos` before the delay and after the last column.
    pub fn inputs(&self, step: usize, bos: u32) -> Vec<u32> {
        let code = |(codebook, &delay): (usize, &usize)| match delay > step {
            true => bos,
            false => self.code(codebook, step).unwrap_or(bos),
        };
        self.delays.iter().enumerate().map(code).collect()
    }

    /// Returns the codes that step `step` reads of frames that are known: `bos` before the delay.
    pub fn inputs_of(&self, frames: &[Vec<u32>], step: usize, bos: u32) -> Vec<u32> {
        let code = |(codebook, &delay): (usize, &usize)| {
            let frame = step.checked_sub(delay).and_then(|frame| frames.get(frame));
            frame.map_or(bos, |frame| frame[codebook])
        };
        self.delays.iter().enumerate().map(code).collect()
    }

    /// The number of frames that the first `columns` columns complete.
    pub fn complete(&self, columns: usize) -> usize {
        columns.saturating_sub(self.most_delay())
    }

    /// Returns the codes of a frame that the first `columns` columns have, those of the first codebooks;
    /// `None` if there is none.
    pub fn begun(&self, frame: usize, columns: usize) -> Option<Vec<u32>> {
        let known =
            self.delays.iter().enumerate().take_while(|(_, delay)| frame + **delay < columns);
        let codes = known.map_while(|(codebook, &delay)| self.code(codebook, frame + delay));
        Some(codes.collect::<Vec<_>>()).filter(|codes| !codes.is_empty())
    }

    /// Returns a frame, if all its columns were written.
    pub fn frame(&self, frame: usize) -> Option<Vec<u32>> {
        let code = |(codebook, &delay): (usize, &usize)| self.code(codebook, frame + delay);
        self.delays.iter().enumerate().map(code).collect()
    }
}

/// Replaces ids that are no code of the codec by 0, which is quiet.
pub fn sanitised(mut frame: Vec<u32>, codebook_size: usize) -> Vec<u32> {
    let is_special = |code: &u32| *code as usize >= codebook_size;
    frame.iter_mut().filter(|code| is_special(code)).for_each(|code| *code = 0);
    frame
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{
        super::testing::{self, of},
        *,
    };

    /// Rows of codebooks to columns.
    fn turned(value: &Value) -> Vec<Vec<u32>> {
        let rows: Vec<Vec<u32>> = of(value);
        (0..rows[0].len()).map(|at| rows.iter().map(|row| row[at]).collect()).collect()
    }

    #[test]
    fn a_frame_has_the_codes_of_the_columns_so_far() {
        let mut grid = Grid::new(&[1, 3, 3], 9);
        (0..4).for_each(|column| grid.write(column, vec![column as u32; 3]));
        assert_eq!(grid.begun(0, 1), None);
        assert_eq!(grid.begun(0, 2), Some(vec![1]));
        assert_eq!(grid.begun(0, 3), Some(vec![1]));
        assert_eq!(grid.begun(0, 4), Some(vec![1, 3, 3]));
        assert_eq!(grid.begun(2, 4), Some(vec![3]));
    }

    /// Golden: grid.json, nari-labs/dia2 at 8687268. Its case with a delay of 0 is refused here.
    #[test]
    fn frames_are_delayed_and_found_again() {
        let golden = testing::json("grid.json");
        let mut cases = 0;
        for case in golden["cases"].as_array().expect("cases") {
            let delays: Vec<usize> = of(&case["delays"]);
            if delays.contains(&0) {
                continue;
            }
            cases += 1;
            let frames = turned(&case["aligned"]);
            let mut grid = Grid::new(&delays, 77);
            grid.write_frames(&frames, of(&golden["pad"]));
            assert_eq!(grid.columns(), turned(&case["delayed"]));
            assert_eq!(grid.complete(grid.columns().len()), frames.len());
            let found: Vec<_> = (0..frames.len()).filter_map(|frame| grid.frame(frame)).collect();
            assert_eq!(found, frames);
            assert_eq!(grid.frame(frames.len()), None);
            let first = &case["undelay_of_first_columns"];
            let columns = of::<usize>(&first[0]).min(grid.columns().len());
            assert_eq!(grid.complete(columns), turned(&first[1]).len(), "{columns}");
        }
        assert_eq!(cases, 3);
    }

    /// Golden: grid.json, first branch.
    #[test]
    fn a_step_reads_its_column_and_bos_before_the_delay() {
        let golden = &testing::json("grid.json")["fill"];
        let mut grid = Grid::new(&of::<Vec<usize>>(&golden["delays"]), 77);
        for (column, codes) in turned(&golden["buf"][0]).into_iter().enumerate() {
            grid.write(column, codes);
        }
        let steps = golden["step_tokens"].as_array().expect("steps");
        for (step, rows) in steps.iter().enumerate() {
            assert_eq!(grid.inputs(step, 64), of::<Vec<u32>>(&rows[0]), "{step}");
        }
        assert_eq!(steps.len(), 10);
    }

    #[test]
    fn frames_that_are_known_are_read_as_from_the_grid() {
        let frames = vec![vec![1, 2], vec![3, 4], vec![5, 6]];
        let mut grid = Grid::new(&[1, 3], 77);
        grid.write_frames(&frames, 9);
        for step in 0..3 {
            assert_eq!(grid.inputs_of(&frames, step, 8), grid.inputs(step, 8), "{step}");
        }
    }

    #[test]
    fn columns_that_are_skipped_have_the_given_code() {
        let mut grid = Grid::new(&[1, 2], 77);
        grid.write(2, vec![1, 2]);
        assert_eq!(grid.columns(), [[77, 77], [77, 77], [1, 2]]);
        grid.truncate(1);
        assert_eq!(grid.columns().len(), 1);
    }

    /// Golden: grid.json. An id that is no code was -2 there, and is any large id here.
    #[test]
    fn special_ids_become_code_0() {
        let golden = &testing::json("grid.json")["sanitize"];
        let before: Vec<i32> = of(&golden["before"]);
        let before = before.into_iter().map(|id| id as u32).collect();
        assert_eq!(sanitised(before, 2048), of::<Vec<u32>>(&golden["after"]));
    }

    #[test]
    #[should_panic(expected = "delays of at least 1")]
    fn a_delay_of_0_is_refused() {
        drop(Grid::new(&[0, 1], 0));
    }
}
