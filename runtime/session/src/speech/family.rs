//! The methods of a speech model that differ between the families in types alone.

/// Defines `name`, `is_unchanged`, `quantize` and `prepare` of a [`SpeechModel`](super::SpeechModel). The
/// expression `$files` is the files of a `$model`, of the type `$checkpoint`. `$more` is an argument of the
/// family's `Resident::new` behind the model and the place.
///
/// The caller imports `Files` and `Resident` of its family, `Advanced`, `Ready` and `SpeechInput` of
/// `crate::speech`, `Engine`, `Error`, `Notice`, `Observe` and `on_engine` of `acestep_engine`, `PathBuf` and `Arc`.
macro_rules! of_family {
    (|$model:ident: $type:ty| $files:expr => $checkpoint:ty $(, $more:expr)?) => {
        fn name(&self) -> &str {
            let $model = self;
            Files::name($files)
        }

        fn is_unchanged(&self) -> bool {
            let $model = self;
            Files::unchanged($files).is_ok()
        }

        fn quantize(&self, engine: Engine, advanced: Advanced<'_>) -> Result<Vec<PathBuf>, Error> {
            let $model = self;
            let files = $files;
            let written = on_engine!(engine,
            for<'a>(files: &'a $checkpoint, advanced: Advanced<'a>) -> $crate::speech::Written,
            |place: B| { files.quantize::<B>(&place.device, advanced) })?;
            written.map_err(Error::checkpoint)
        }

        fn prepare(
            self: Arc<Self>,
            input: SpeechInput<'_>,
            engine: Engine,
            observe: &dyn Observe,
            notices: &mut Vec<Notice>,
        ) -> Result<Box<dyn Ready>, Error> {
            let model = self;
            on_engine!(engine,
            for<'a>(model: Arc<$type>, input: SpeechInput<'a>, observe: &'a dyn Observe,
                    notices: &'a mut Vec<Notice>)
                -> Result<Box<dyn Ready>, Error>,
            |place: B| {
                use $crate::speech::SpeechOn as _;
                let on = std::rc::Rc::new(Resident::<B>::new(model, place $(, $more)?)?);
                on.prepare(input, observe, notices)
            })?
        }
    };
}
pub(super) use of_family;
