//! Flags of `model`: downloading the released models, and showing the installed ones.

use clap::Subcommand;

/// Shown under the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep model list
      shows the released models, and which are installed
  acestep model pull turbo lm-1.7b
      downloads what a planned song needs, about 10 GB; a second run continues an interrupted one
  acestep model pull base --dry-run
      shows what would be downloaded, from where, and whether the disk has room
  acestep model show turbo
      shows the parts of the model, their place, and their commit
  acestep model verify
      checks that every file is as it was published
  acestep model remove base
      deletes the model, except files that another model needs

Models are downloaded from the Hugging Face hub into the cache that its other programs also use.
HF_HOME sets the place of the cache, HF_ENDPOINT another server, HF_TOKEN the access token, and
HTTPS_PROXY a proxy; HF_HUB_OFFLINE=1 has the effect of --offline.";

/// Flags of `model`.
#[derive(Debug, Clone, clap::Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Actions on models.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// List the released models and what is installed of them.
    List(List),
    /// Fetch models: all that they need, verified, at one commit.
    Pull(Pull),
    /// Show a model's parts, their place, and their commit.
    Show(Show),
    /// Compare every file of models with its checksum.
    Verify(Verify),
    /// Delete models.
    Remove(Remove),
}

/// Flags of `model list`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct List {
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `model pull`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Pull {
    /// Names, as `acestep model list` shows them.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,

    /// Branch, tag or commit of the model's repository [default: main].
    ///
    /// The pulled version stays in use until the next pull, even if the branch changes.
    #[arg(long, value_name = "REVISION")]
    pub(crate) revision: Option<String>,

    /// Show what would be downloaded, and download nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Flags of `model show`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Show {
    /// Name, as `acestep model list` shows it.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `model verify`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Verify {
    /// Names, as `acestep model list` shows them [default: all installed].
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `model remove`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Remove {
    /// Names, as `acestep model list` shows them.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
}
