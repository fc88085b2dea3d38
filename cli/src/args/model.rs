//! The flags of `model`: getting the released models, and what is here of them.

use clap::Subcommand;

/// Shown under the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep model list
      what there is, and what of it is here
  acestep model pull turbo lm-1.7b
      what a song with a plan needs, 10 GB or so; a second run goes on where the first stopped
  acestep model pull base --dry-run
      what would be fetched, from where, and whether there is room
  acestep model show turbo
      what it is made of, where that is, and at which commit
  acestep model verify
      whether every file is as it was published
  acestep model remove base
      takes it away, and frees what no other model needs

Models are fetched from the Hugging Face hub into the cache that its other programs use too.
HF_HOME names its place, HF_ENDPOINT another server, HF_TOKEN who asks, HTTPS_PROXY a proxy;
HF_HUB_OFFLINE=1 is as --offline.";

/// Flags of `model`.
#[derive(Debug, Clone, clap::Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do with models.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// List the released models, and what of them is here.
    List(List),
    /// Fetch models: all that they need, checked, at one commit.
    Pull(Pull),
    /// Say what a model is made of, where it is, and at which commit.
    Show(Show),
    /// Compare every file of models with its checksum.
    Verify(Verify),
    /// Take models away.
    Remove(Remove),
}

/// Flags of `model list`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct List {
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `model pull`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Pull {
    /// Names, as `acestep model list` has them.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,

    /// Branch, tag or commit of the model's repository [default: main].
    ///
    /// What was pulled stays what is used, whatever becomes of the branch, until it is pulled again.
    #[arg(long, value_name = "REVISION")]
    pub(crate) revision: Option<String>,

    /// Says what would be fetched, and fetches nothing.
    #[arg(long, alias = "dry_run")]
    pub(crate) dry_run: bool,
}

/// Flags of `model show`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Show {
    /// A name, as `acestep model list` has it.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `model verify`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Verify {
    /// Names, as `acestep model list` has them [default: all that are here].
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `model remove`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Remove {
    /// Names, as `acestep model list` has them.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
}
