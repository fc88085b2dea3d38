//! Description of a decided run, with its files.

use acestep_engine::Notice;
use acestep_session::song::describe::{self, Resources};
use serde_json::{Value, json};

use super::SongTask;
use crate::{commands::target::Target, fields};

impl SongTask {
    /// Describes the whole run, one subject per line.
    pub(super) fn text(&self, resources: &Resources) -> String {
        let outputs = &self.places.outputs;
        let mut lines = describe::lines(&self.resolved, resources);
        let files = outputs.latents().chain(&outputs.request);
        let files = files.map(|path| path.display().to_string());
        let songs = outputs.songs.iter().map(Target::to_string);
        lines.extend(songs.chain(files).map(|path| ("file", path)));
        lines.into_iter().map(|(what, text)| format!("{what:<10}{text}\n")).collect()
    }

    /// Describes the whole run as an object: `plan`, `outputs`, `request`, `notices`. The notices
    /// of the plan come before the `late` ones.
    pub(super) fn to_json(&self, resources: &Resources, late: &[Notice]) -> Value {
        let Self { resolved, places } = self;
        let (plan, outputs) = (&resolved.plan, &places.outputs);
        let song = |(i, target): (usize, &Target)| {
            json!({
                "path": target,
                "seed": resolved.seeds().map(|seeds| seeds[i]),
                "seconds": plan.output_seconds(),
                "samples": plan.output_samples(),
                "sample_rate": plan.length.sample_rate,
            })
        };
        let notices = resolved.notices.iter().chain(&resolved.plan_notices).chain(late);
        let format = places.encoding.format.name();
        json!({
            "outputs": outputs.songs.iter().enumerate().map(song).collect::<Vec<_>>(),
            "latents": outputs.latents().map(|path| path.display().to_string()).collect::<Vec<_>>(),
            "request": outputs.request.as_ref().map(|path| path.display().to_string()),
            "language_model": describe::language_json(resolved),
            "notices": fields::texts(notices),
            "plan": describe::plan_json(resolved, resources, format),
        })
    }
}
