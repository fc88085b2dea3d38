//! Magpie TTS with its networks; its voices are part of them.

use std::{cell::RefCell, path::Path, rc::Rc, sync::Arc};

use acestep_engine::{Engine, Error, Notice, Observe, SharedRef};
use acestep_model::{Backend, Place, speech::magpie::Checkpoint};
use acestep_speech::{
    Options, StreamItem,
    magpie::{Networks, Pinyin, Plan, Speaking},
};
use serde_json::json;

use super::{
    super::{
        Fields, Sink, SpeechInput, SpeechModel,
        files::Seen,
        of_line,
        recent::Recent,
        resident::{Arriving, Ready, SpeechOn, VOICES, no_more},
    },
    check_memory,
    prepare::{Speaker, read, table},
};

/// A model with its networks.
pub(in super::super) struct Resident<B: Backend> {
    model: Arc<Speaker>,
    networks: Networks<'static, B>,
    /// Tables of syllables that were used last.
    tables: RefCell<Recent<Seen, Arc<Pinyin>>>,
}

impl<B: Backend> Resident<B> {
    /// A model whose networks are loaded when they are needed.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if its files do not have the networks.
    pub(in super::super) fn new(model: Arc<Speaker>, place: Place<B>) -> Result<Self, Error> {
        model.model.check::<B>(&place.device).map_err(Error::checkpoint)?;
        let checkpoint = model.model.clone() as Arc<dyn Checkpoint<B>>;
        let networks = Networks::of(SharedRef::Shared(checkpoint), place);
        Ok(Self { model, networks, tables: RefCell::new(Recent::new(VOICES.0, VOICES.1)) })
    }

    /// Reads a table of syllables, or takes the one in memory.
    fn table(&self, path: &Path) -> Result<Arc<Pinyin>, Error> {
        let seen = Seen::of(path)?;
        if let Some(known) = self.tables.borrow_mut().get(&seen) {
            return Ok(known);
        }
        let (bytes, read) = (seen.bytes, Arc::new(table(path)?));
        self.tables.borrow_mut().put(seen, bytes, read.clone());
        Ok(read)
    }
}

impl<B: Backend> SpeechOn<B> for Resident<B> {
    fn model(&self) -> &dyn SpeechModel {
        &*self.model
    }

    fn load(&self) -> Result<(), Error> {
        self.networks.encoder()?;
        self.networks.decoder()?;
        self.networks.local_transformer()?;
        self.networks.codec_decoder().map(drop)
    }

    fn prepare(
        self: Rc<Self>,
        input: SpeechInput<'_>,
        _observe: &dyn Observe,
        _notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn Ready>, Error> {
        let SpeechInput { texts, fields, seed, lines, .. } = input.with_unix_lines();
        let decided = fields.clone();
        let mut read = read(fields, &self.model)?;
        let pinyin = read.pinyin.take().map(|path| self.table(Path::new(&path))).transpose()?;
        let first = read.with_words()?;
        let text = texts.first().cloned().unwrap_or_default();
        let plans = self.model.plans(&first, texts, seed, pinyin.as_deref())?;
        Ok(Box::new(Turn { on: self, text, fields: decided, plans, lines }))
    }
}

/// Texts that were planned.
struct Turn<B: Backend> {
    on: Rc<Resident<B>>,
    /// The first text.
    text: String,
    fields: Fields,
    plans: Vec<Plan>,
    lines: bool,
}

impl<B: Backend> Ready for Turn<B> {
    fn check_memory(&self, engine: Engine, options: Options) -> Result<(), Error> {
        check_memory(&self.plans, &self.on.model.model, engine, options)
    }

    fn decided(&self) -> Fields {
        let mut fields = self.fields.clone();
        fields.remove("pinyin");
        fields.remove("open_jtalk");
        if let Some(plan) = self.plans.first() {
            fields.insert("text".to_owned(), json!(self.text));
            fields.insert("voice".to_owned(), json!(plan.voice));
            fields.insert("language".to_owned(), json!(plan.language));
        }
        fields
    }

    fn has_voice(&self) -> bool {
        false
    }

    fn load_voice(&self, _observe: &dyn Observe) -> Result<(), Error> {
        self.on.load()
    }

    fn speak(
        &self,
        options: Options,
        more: Option<&mut dyn Arriving>,
        observe: &dyn Observe,
        sink: &mut dyn Sink,
    ) -> Result<Vec<Notice>, Error> {
        no_more(more, self.on.model().name())?;
        let mut notices = Vec::new();
        for (index, plan) in self.plans.iter().enumerate() {
            notices.extend(plan.notices.iter().map(|notice| of_line(notice, index, self.lines)));
            // Only the first text waits for what was before the run.
            let options = Options { since: options.since.filter(|_| index == 0), ..options };
            for made in Speaking::begin(plan.clone(), &self.on.networks, options, observe)? {
                match made? {
                    StreamItem::Samples(samples) => sink.samples(index, &samples)?,
                    StreamItem::Done(spoken) => sink.done(index, spoken)?,
                }
            }
        }
        Ok(notices)
    }
}
