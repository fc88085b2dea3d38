//! Text of a job that arrives while it is spoken: a file that grows, beside the sound.
//!
//! The server appends pieces, or asks a worker on another machine to do it; the run reads them. A line is a
//! piece of text as JSON, and `null` is the end. The resolved request has the number of pieces that the worker
//! took: a client that sent more learns from it that the run had ended.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use acestep_engine::{Action, Error, Observe, progress::check};
use acestep_session::speech::Arriving;
use serde::{Deserialize, Serialize};

/// The name of the file in the folder of the attempt.
const TEXT: &str = "text.jsonl";
/// Time between two looks at the file.
const LOOK: Duration = Duration::from_millis(5);
/// Time without a new piece after which a text ends.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that a run waits for its text in all: the worker does nothing else meanwhile.
const IN_ALL: Duration = Duration::from_secs(60);

/// The last line.
const END: &str = "null\n";

/// Text that is sent at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextPart {
    /// The number of pieces before it.
    pub at: usize,
    /// Its pieces.
    pub texts: Vec<String>,
    /// True if nothing comes after it.
    pub is_end: bool,
}

/// Appends a part to the text of a job. A piece that is there already is left out: a part comes again if the
/// answer to it was lost.
///
/// # Errors
/// A failure of the disk; a part behind a gap.
pub fn send(folder: &Path, part: &TextPart) -> io::Result<()> {
    let mut file =
        fs::File::options().read(true).append(true).create(true).open(folder.join(TEXT))?;
    let mut there = String::new();
    file.read_to_string(&mut there)?;
    // A piece as JSON ends with a quotation mark, so only the end ends so.
    if there.ends_with(END) {
        return Ok(());
    }
    let known = there.lines().count().checked_sub(part.at);
    let Some(known) = known else {
        return Err(io::Error::other("a piece of the text is missing"));
    };
    let mut lines = String::new();
    for text in part.texts.iter().skip(known) {
        lines += &serde_json::to_string(text)?;
        lines.push('\n');
    }
    if part.is_end {
        lines += END;
    }
    file.write_all(lines.as_bytes())
}

/// Text on its way to a worker.
#[derive(Debug)]
pub struct Incoming {
    path: PathBuf,
    file: Option<BufReader<fs::File>>,
    /// The beginning of a line whose end is not there yet.
    rest: Vec<u8>,
    taken: u64,
    patience: Duration,
    /// The rest of the time to wait.
    left: Duration,
}

impl Incoming {
    /// The text of the attempt with this folder.
    pub fn of(folder: &Path) -> Self {
        let path = folder.join(TEXT);
        let (patience, left) = (PATIENCE, IN_ALL);
        Self { path, file: None, rest: Vec::new(), taken: 0, patience, left }
    }

    /// The number of pieces that were taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Takes the next line, if it is whole.
    fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let file = match &mut self.file {
            Some(file) => file,
            None => match fs::File::open(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                found => self.file.insert(BufReader::new(found?)),
            },
        };
        file.read_until(b'\n', &mut self.rest)?;
        Ok(self.rest.ends_with(b"\n").then(|| std::mem::take(&mut self.rest)))
    }
}

impl Arriving for Incoming {
    fn more(&mut self, observe: &dyn Observe) -> Result<Option<String>, Error> {
        let failed = |path: &Path, source| Error::File {
            action: Action::Read,
            path: path.to_owned(),
            source,
        };
        let begin = Instant::now();
        loop {
            check(observe)?;
            let line = self.line().map_err(|source| failed(&self.path, source))?;
            if let Some(line) = line {
                let read = serde_json::from_slice::<Option<String>>(&line);
                let text = read.map_err(|error| failed(&self.path, error.into()))?;
                self.taken += u64::from(text.is_some());
                self.left = self.left.saturating_sub(begin.elapsed());
                return Ok(text);
            }
            if begin.elapsed() >= self.patience.min(self.left) {
                return Ok(None);
            }
            thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use acestep_engine::{CancelIf, Unobserved};

    use super::*;

    fn part(at: usize, texts: &[&str], is_end: bool) -> TextPart {
        TextPart { at, texts: texts.iter().map(|&text| text.to_owned()).collect(), is_end }
    }

    #[test]
    fn pieces_come_in_order_and_then_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut incoming = Incoming::of(folder.path());
        send(folder.path(), &part(0, &["one \"two\"", "three\nfour"], false)).expect("sent");
        let mut more = || incoming.more(&Unobserved).expect("read");
        assert_eq!(more().as_deref(), Some("one \"two\""));
        send(folder.path(), &part(2, &[" five"], true)).expect("sent");
        assert_eq!(more().as_deref(), Some("three\nfour"));
        assert_eq!(more().as_deref(), Some(" five"));
        assert_eq!(more(), None);
        assert_eq!(incoming.taken(), 3);
    }

    #[test]
    fn a_part_that_comes_again_is_taken_once_and_one_behind_a_gap_never() {
        let folder = tempfile::tempdir().expect("a folder");
        let send = |part: TextPart| send(folder.path(), &part);
        send(part(0, &["null", "b"], false)).expect("sent");
        send(part(0, &["null", "b"], false)).expect("nothing new");
        send(part(1, &["b", "c"], false)).expect("one is new");
        assert!(send(part(4, &["e"], false)).is_err());
        for _ in 0..2 {
            send(part(3, &["d"], true)).expect("sent");
        }
        let text = fs::read_to_string(folder.path().join(TEXT)).expect("a text");
        assert_eq!(text, "\"null\"\n\"b\"\n\"c\"\n\"d\"\nnull\n");
    }

    #[test]
    fn a_text_that_nobody_goes_on_with_ends_and_a_wish_to_stop_is_heard() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut incoming =
            Incoming { patience: Duration::from_millis(20), ..Incoming::of(folder.path()) };
        assert_eq!(incoming.more(&Unobserved).expect("nothing"), None);
        // Half a line is not taken.
        fs::write(folder.path().join(TEXT), "\"hal").expect("written");
        assert_eq!(incoming.more(&Unobserved).expect("nothing"), None);
        assert!(matches!(incoming.more(&CancelIf(|| true)), Err(Error::Cancelled)));
    }

    #[test]
    fn a_writer_who_is_slow_with_every_word_holds_the_worker_for_a_time_that_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut incoming = Incoming::of(folder.path());
        assert_eq!((incoming.patience.as_secs(), incoming.left.as_secs()), (10, 60));
        // It is written at the second look.
        let looks = Cell::new(0);
        let at_second = CancelIf(|| {
            if looks.replace(looks.get() + 1) == 1 {
                send(folder.path(), &part(0, &["one"], false)).expect("sent");
            }
            false
        });
        assert_eq!(incoming.more(&at_second).expect("read").as_deref(), Some("one"));
        assert!(incoming.left <= Duration::from_secs(60) - LOOK, "{:?}", incoming.left);
        // No time is left: what is there is taken, and nothing is waited for.
        incoming.left = Duration::ZERO;
        send(folder.path(), &part(1, &["two"], false)).expect("sent");
        assert_eq!(incoming.more(&Unobserved).expect("read").as_deref(), Some("two"));
        let begin = Instant::now();
        assert_eq!(incoming.more(&Unobserved).expect("nothing"), None);
        assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    }
}
