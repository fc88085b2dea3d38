//! Flags of `model`: downloading the released models, and showing the installed ones.

use clap::Subcommand;

/// Actions on models.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// List the released models and what is installed of them.
    List {
        /// Print one JSON object on standard output.
        #[arg(long)]
        json: bool,
    },
    /// Fetch models: all that they need, verified, at one commit.
    Pull {
        /// Names, as `acestep model list` shows them.
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,

        /// Branch, tag or commit of the model's repository [default: main].
        ///
        /// The pulled version stays in use until the next pull, even if the branch changes.
        #[arg(long, value_name = "REVISION")]
        revision: Option<String>,

        /// Show what would be downloaded, and download nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Show a model's parts, their place, and their commit.
    Show {
        /// Name, as `acestep model list` shows it.
        #[arg(value_name = "NAME")]
        name: String,

        /// Print one JSON object on standard output.
        #[arg(long)]
        json: bool,
    },
    /// Compare every file of models with its checksum.
    Verify {
        /// Names, as `acestep model list` shows them [default: all installed].
        #[arg(value_name = "NAME")]
        names: Vec<String>,

        /// Print one JSON object on standard output.
        #[arg(long)]
        json: bool,
    },
    /// Keep the weights of models in int8 on disk, for runs with --dtype q8.
    ///
    /// Writes a file such as model.diffusion-transformer.q8 beside the weights of each large network, a
    /// little more than half as large as weights in bf16. Such a run maps it and quantises nothing.
    /// The sound is the same. Delete the file to have the space back.
    Quantize {
        /// Names as `acestep model list` shows them, or paths.
        #[arg(value_name = "NAME|PATH", required = true)]
        names: Vec<String>,
    },
    /// Delete models.
    Remove {
        /// Names, as `acestep model list` shows them.
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
}
