//! A script that is spoken, whole or while it arrives.

use acestep_engine::{Error, Notice, Observe};
use acestep_model::Backend;
use acestep_speech::{
    Options,
    dia2::{
        Dialogue, Entry, Networks, Plan, Reading, Snapshot, Speaking, StreamItem, VoiceKind, reader,
    },
};

use super::super::resident::Arriving;

/// The text of a run.
pub(super) struct Text<'a, 'm> {
    /// The script, or its first piece.
    pub(super) first: &'a str,
    /// The pieces that arrive meanwhile, if it comes in pieces.
    pub(super) more: Option<&'m mut dyn Arriving>,
}

/// Receives samples, and true if more are certain to come.
pub(super) type Pieces<'a> = dyn FnMut(&[f32], bool) -> Result<(), Error> + 'a;

/// Speaks a plan, and the text that arrives meanwhile. `sink` receives samples, and true if more are certain to come.
///
/// A step that may take a word is taken when as many words wait as the second stream reads ahead: so the
/// sound is as for the whole text, however it arrives. The second stream of the last steps of recordings reads
/// the first words too: a run that continues recordings waits for these words before its first step. No other
/// step waits.
pub(super) fn run<B: Backend>(
    mut plan: Plan,
    snapshot: Option<&Snapshot<B>>,
    networks: &Networks<'_, B>,
    options: Options,
    Text { first, mut more }: Text<'_, '_>,
    observe: &dyn Observe,
    sink: &mut Pieces<'_>,
) -> Result<(Vec<Notice>, Dialogue), Error> {
    let mut notices = plan.notices.clone();
    let mut reading = reader(&plan.streams, networks.checkpoint())?.reading();
    if more.is_some() {
        // The end of the first piece may wait for the second.
        plan.entries = reading.more(first)?;
    }
    // The last words of recordings read ahead too.
    while more.is_some() && matches!(plan.voice, VoiceKind::Recorded(_)) && reads_ahead(&plan) {
        let entries = next(&mut more, &mut reading, observe)?;
        plan.entries.extend(entries);
    }
    let mut has_words = !plan.entries.iter().all(Entry::is_break);
    let mut speaking = Speaking::begin(plan, snapshot, networks, options, observe)?;
    loop {
        match speaking.take_item() {
            Some(StreamItem::Samples(samples)) => sink(&samples, speaking.goes_on())?,
            Some(StreamItem::Done(dialogue)) => {
                // Nobody knows the rest of a text that did not end.
                if !has_words && more.is_none() {
                    notices.push(Notice("the script has no words".to_owned()));
                }
                return Ok((notices, dialogue));
            }
            None => {
                while more.is_some() && speaking.wants_entries() {
                    let entries = next(&mut more, &mut reading, observe)?;
                    has_words |= !entries.iter().all(Entry::is_break);
                    speaking.append(entries);
                }
                speaking.advance()?;
            }
        }
    }
}

/// True if the second stream of a step before the script may read words that are not there.
fn reads_ahead(plan: &Plan) -> bool {
    plan.entries.iter().filter(|entry| !entry.is_break()).count() < plan.streams.ahead
}

/// Waits for the next piece. The text ends if there is none.
fn next(
    more: &mut Option<&mut dyn Arriving>,
    reading: &mut Reading<'_>,
    observe: &dyn Observe,
) -> Result<Vec<Entry>, Error> {
    let Some(arriving) = more else { return Ok(Vec::new()) };
    match arriving.more(observe)? {
        Some(text) => Ok(reading.more(&text)?),
        None => {
            *more = None;
            Ok(reading.end()?)
        }
    }
}
