//! Second training of the diffusion transformer and its condition encoders, at a lower rate.
//!
//! After `flow` the networks have seldom learned to take the key from text alone. This is a
//! separate stage, so that neither takes longer than a few hours, and each can run on another
//! machine.

use acestep_demo::flow::{PhaseSettings, Singer, TaskMix};
use acestep_import::{Directory, DitDir, TextEncoderDir};
use acestep_model::{Backend, Place};
use acestep_train::learner::{OptimizerConfig, awake};
use anyhow::{Context, ensure};
use burn::backend::Autodiff;

use super::{
    Setting, Taught,
    flow::{FlowRun, LAST, OPTIMIZER, SHARES, learn},
    product::Product,
    words,
};

/// One phase, like the last phase of `flow`.
const PHASES: &[(usize, PhaseSettings)] = &[(0, LAST)];

/// More steps from text alone than in `flow`: the key is learned late, and codes may leave it open.
const SHARED: TaskMix = TaskMix { from_text: 0.4, from_codes: 0.45, ..SHARES };

const AGAIN: OptimizerConfig = OptimizerConfig { rate: 1.2e-3, warm_up: 300, ..OPTIMIZER };

/// Folder of this stage.
const FOLDER: &str = "polish";

pub(super) fn run<B: Backend>(
    setting: &Setting<'_>,
    taught: Taught,
    place: &Place<B>,
) -> anyhow::Result<bool> {
    let [dit, text] = ["acestep-v15-demo", words::FOLDERS[0]].map(|name| setting.released(name));
    let [dit, text] = [dit?, text?];
    let [whole, of_text] =
        [&dit, &text].map(|folder| Product::whole(folder.join("model.safetensors")));
    if whole.is_noted(&setting.folder.join(FOLDER))? {
        return Ok(true);
    }
    let comes_first = "the stage `flow` comes first";
    ensure!(of_text.file.is_file(), comes_first);
    let model = DitDir::open(Directory::Disk(dit)).context(comes_first)?;
    let text = TextEncoderDir::open(Directory::Disk(text)).context(comes_first)?;
    let from = format!(", from {} {}", whole.digest()?, of_text.digest()?);
    let plan = FlowRun {
        folder: FOLDER,
        // Other random draws than those of `flow`.
        seed: setting.seed.wrapping_add(1),
        phases: PHASES,
        shares: SHARED,
        optimizer_config: taught.of(AGAIN),
        from,
        product: whole,
    };
    let start = || {
        let singer = Singer {
            text_encoder: text.model(place)?,
            conditioner: model.conditioner(place)?,
            dit: model.dit(place)?,
        };
        Ok(awake::<Autodiff<B>, Singer<Autodiff<B>>>(singer))
    };
    learn(setting, place, &plan, start)
}
