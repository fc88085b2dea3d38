//! Output files of `plan`: the request, and parts of it for other programs.

use std::path::{Path, PathBuf};

use acestep_engine::{Action, Error, files::Existing};
use acestep_music::{Request, codes, lm::compose::Composed};
use acestep_session::{
    outputs::{check_all, numbered, place},
    writing::{FIELDS, values},
};
use anyhow::Result;

use crate::{
    args::plan::Common,
    commands::{
        target::{Target, check_distinct},
        text::write_bytes,
    },
    error::CliError,
    report,
};

/// All files that will be written.
pub(super) struct Outputs {
    request: Target,
    /// One file for each song.
    codes: Vec<PathBuf>,
    fields: Option<PathBuf>,
    text: Option<PathBuf>,
}

impl Outputs {
    /// Names the files for `songs` lists of codes. Without `--output` the request is named after
    /// its `verb`, so that the three commands do not conflict.
    pub(super) fn decide(common: &Common, verb: &str, songs: usize) -> Result<Self> {
        let output = common.output.clone().unwrap_or_else(|| format!("{verb}.json").into());
        let request = Target::new(output, common.files.json)?;
        for (flag, path) in [
            ("--output-codes", &common.output_codes),
            ("--output-text", &common.output_text),
            ("--output-dir", &common.output_dir),
        ] {
            if path.as_deref() == Some(Path::new("-")) {
                let message = format!("`{flag} -`: only the request goes to standard output");
                return Err(CliError::usage(message).hint("name a file; ./- is one").into());
            }
        }
        let codes = match &common.output_codes {
            Some(_) if songs == 0 => {
                return Err(CliError::usage("`--output-codes` has nothing to write")
                    .hint("let codes be written: with plan leave out --no-codes, else pass --codes")
                    .into());
            }
            Some(path) => numbered(path, songs),
            None => vec![],
        };
        let this = Self {
            request,
            codes,
            fields: common.output_dir.clone(),
            text: common.output_text.clone(),
        };
        let (folder, files) = (this.fields.as_deref().map(place), this.files());
        let is_above =
            |path: &&PathBuf| folder.as_ref().is_some_and(|folder| folder.starts_with(place(path)));
        let hint = "give each output a name";
        if let Some(path) = files.iter().find(is_above) {
            let name = path.display();
            let message = format!("`{name}` cannot be a file and the folder of `--output-dir`");
            return Err(CliError::usage(message).hint(hint).into());
        }
        check_distinct(files.iter().map(PathBuf::as_path), hint)?;
        Ok(this)
    }

    /// Returns every file that will be written.
    fn files(&self) -> Vec<PathBuf> {
        let fields = self.fields.iter().flat_map(|folder| FIELDS.map(|name| folder.join(name)));
        let files = self.codes.iter().chain(&self.text).cloned();
        let request = self.request.file().map(Path::to_owned);
        request.into_iter().chain(files).chain(fields).collect()
    }

    /// Refuses files that could not be written, or that are `inputs`.
    pub(super) fn check<'a>(
        &self,
        inputs: impl Iterator<Item = &'a Path> + Clone,
        existing: Existing,
    ) -> Result<(), Error> {
        check_all(&self.files(), inputs, self.fields.as_deref(), existing)
    }

    /// Saves the text of a model whose answer could not be used.
    ///
    /// # Errors
    /// Always: the model's error, or an error of writing.
    pub(super) fn save_failed(
        &self,
        error: Error,
        existing: Existing,
        json: bool,
    ) -> Result<Composed> {
        if let (Some(path), Some(text)) = (&self.text, error.written()) {
            write_bytes(path, text.as_bytes(), existing)?;
            if !json && self.request != Target::Stdout {
                report::path(path)?;
            }
        }
        Err(error.into())
    }

    /// Writes everything. Prints the paths, unless JSON or a request on standard output is printed.
    pub(super) fn write(
        &self,
        request: &Request,
        composed: &Composed,
        existing: Existing,
        json: bool,
    ) -> Result<Vec<String>> {
        let mut files = Vec::new();
        let result = self.write_all(request, composed, existing, &mut files);
        // Print paths even if a later file failed: these files exist.
        if !json && self.request != Target::Stdout {
            files.iter().try_for_each(|path| report::path(path))?;
        }
        result?;
        let mut names: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
        if self.request == Target::Stdout {
            self.request.write(request.to_json().as_bytes(), existing)?;
            names.insert(0, self.request.to_string());
        }
        Ok(names)
    }

    fn write_all(
        &self,
        request: &Request,
        composed: &Composed,
        existing: Existing,
        files: &mut Vec<PathBuf>,
    ) -> Result<()> {
        let mut put = |path: &Path, text: &str| -> Result<()> {
            write_bytes(path, text.as_bytes(), existing)?;
            files.push(path.to_owned());
            Ok(())
        };
        // Other outputs may lie in the same folder.
        if let Some(folder) = &self.fields {
            std::fs::create_dir_all(folder).map_err(|source| Error::File {
                action: Action::Create,
                path: folder.clone(),
                source,
            })?;
        }
        if let Some(path) = self.request.file() {
            put(path, &request.to_json())?;
        }
        for (path, list) in self.codes.iter().zip(request.source.audio_codes.iter().flatten()) {
            put(path, &codes::to_list(list))?;
        }
        if let Some(path) = &self.text {
            put(path, &composed.text)?;
        }
        if let Some(folder) = &self.fields {
            for (name, value) in FIELDS.iter().zip(values(request)) {
                put(&folder.join(name), &value)?;
            }
        }
        Ok(())
    }
}
