//! Writes composed pieces to files: to listen to, or for `acestep train lora`.

use std::path::PathBuf;

use acestep_demo::{
    composer::{Band, Piece, SAMPLE_RATE, Style, Wish},
    labels::Labels,
};
use acestep_engine::{
    audio::{
        Audio,
        format::{Encoding, Format},
        write::save,
    },
    files::Existing,
};
use anyhow::Context;
use clap::Args;

use super::{Setting, report, write};

#[derive(Debug, Args)]
pub(crate) struct Pieces {
    /// Folder for the songs, each with a JSON file of labels
    to: PathBuf,
    /// Number of pieces
    #[arg(long, default_value_t = 8)]
    count: u64,
    /// Style of all pieces, for example polka, which the corpus lacks; the default depends on the
    /// seed
    #[arg(long, value_parser = style)]
    style: Option<Style>,
    /// Length of each piece in seconds
    #[arg(long, default_value_t = 10.0)]
    duration: f64,
}

fn style(name: &str) -> Result<Style, String> {
    let all = || Style::ALL.into_iter().chain([Style::Polka]);
    let wanted = name.to_lowercase().replace('-', " ");
    all().find(|style| style.names().contains(&wanted.as_str())).ok_or_else(|| {
        let names: Vec<&str> = all().map(|style| style.names()[0]).collect();
        format!("the composer knows {}", names.join(", "))
    })
}

/// Writes the pieces. An existing file is kept, and is an error.
pub(super) fn run(setting: &Setting<'_>, pieces: &Pieces) -> anyhow::Result<bool> {
    std::fs::create_dir_all(&pieces.to)
        .with_context(|| format!("{}: cannot be made", pieces.to.display()))?;
    let wish = Wish {
        style: pieces.style,
        duration_s: Some(pieces.duration),
        band: Band::Same,
        ..Wish::default()
    };
    for index in 0..pieces.count {
        if (setting.stop)() {
            return Ok(false);
        }
        let piece = Piece::compose(setting.seed.wrapping_mul(1_000_003) + index, &wish);
        let name = piece.style.names()[0].replace(' ', "-");
        let sound = pieces.to.join(format!("{name}-{index}.wav"));
        let audio = Audio { channels: piece.render().into(), sample_rate: SAMPLE_RATE };
        save(&sound, &audio, &Encoding::new(Format::Wav16), None, Existing::Keep)?;
        let labels = serde_json::to_string_pretty(&Labels::of(&piece))?;
        write(&sound.with_extension("json"), &labels)?;
        report(&format!("{}: {}", sound.display(), piece.caption));
    }
    Ok(true)
}
