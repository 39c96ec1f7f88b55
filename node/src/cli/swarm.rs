//! What can be said about swarms.

use std::path::PathBuf;

use atoll_node::config::Partial;
use atoll_node::observe::written::Written;
use atoll_protocol::id::NodeId;
use clap::{Args, ValueEnum};

use super::OptimiserChoice;

#[derive(Args, Debug)]
pub(crate) struct NewOptions {
    /// What people call the run [default: the genesis' name, or atoll].
    pub(crate) name: Option<String>,
    /// The model's size: nano (1M), micro (5M), mini (30M), small (125M), 1b [default: nano].
    #[arg(long, conflicts_with = "genesis")]
    pub(crate) model: Option<String>,
    /// A genesis in TOML, for everything that --model leaves at its default.
    #[arg(long)]
    pub(crate) genesis: Option<PathBuf>,
    /// A Hugging Face tokenizer.json, which joiners get from the run's nodes [default: bytes].
    #[arg(long, value_name = "FILE")]
    pub(crate) tokenizer: Option<PathBuf>,
    /// Seed of the initial parameters and of the generated corpus.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Steps that an island takes between two captures.
    #[arg(long)]
    pub(crate) steps: Option<u32>,
    /// The inner optimiser of all islands, with a learning rate that suits it.
    #[arg(long, conflicts_with = "genesis")]
    pub(crate) optimiser: Option<OptimiserChoice>,
    /// Who may contribute: open (anyone), invite (whom you invite), closed (you and --member).
    #[arg(long)]
    pub(crate) roster: Option<RosterChoice>,
    /// A node of a closed run, as its `atoll whoami` says; may be repeated.
    #[arg(long = "member", value_name = "NODE", requires = "roster", value_parser = node)]
    pub(crate) members: Vec<NodeId>,
    /// A bootstrap's address, for the ticket; again or with commas for more.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) bootstrap: Option<Vec<String>>,
    /// The node's folder [default: $XDG_DATA_HOME/atoll, or ~/.local/share/atoll].
    #[arg(long, value_name = "FOLDER")]
    pub(crate) home: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RosterChoice {
    Open,
    Invite,
    Closed,
}

#[derive(Args, Debug)]
pub(crate) struct RunOptions {
    /// Its name, the first digits of its id, or its folder [default: the only one].
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) swarm: SwarmOptions,
}

#[derive(Args, Debug)]
pub(crate) struct JoinOptions {
    /// What `atoll new`, `atoll run` or `atoll invite` printed.
    pub(crate) ticket: String,
    #[command(flatten)]
    pub(crate) swarm: SwarmOptions,
}

/// How a node takes part.
#[derive(Args, Debug)]
pub(crate) struct SwarmOptions {
    /// Follow and serve, but train nothing.
    #[arg(long)]
    pub(crate) watch_only: bool,
    /// The share of the time that training may take of this machine, such as 0.5.
    #[arg(long, value_name = "SHARE")]
    pub(crate) effort: Option<f64>,
    /// Say what would be used, and where each value comes from.
    #[arg(long)]
    pub(crate) print_config: bool,
    /// A step takes at least this long: for comparing swarms on one machine.
    #[arg(long, hide = true, conflicts_with = "effort")]
    pub(crate) step_ms: Option<u64>,
    /// Seconds between two measurements of the held-out loss, at least; 0 for none.
    #[arg(long, hide = true, default_value_t = 30.0)]
    pub(crate) evaluate_every: f64,
    #[command(flatten)]
    pub(crate) config: Partial,
}

/// Which run of which node.
#[derive(Args, Debug)]
pub(crate) struct Whose {
    /// Its name, the first digits of its id, or its folder [default: the only one].
    #[arg(long)]
    pub(crate) run: Option<String>,
    /// The node's folder.
    #[arg(long)]
    pub(crate) home: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct InviteOptions {
    /// Whom, as its `atoll whoami` says.
    #[arg(value_parser = node)]
    pub(crate) node: NodeId,
    /// The last round it may contribute to [default: no end].
    #[arg(long)]
    pub(crate) last_round: Option<u32>,
    #[command(flatten)]
    pub(crate) whose: Whose,
}

#[derive(Args, Debug)]
pub(crate) struct RevokeOptions {
    /// Whom.
    #[arg(value_parser = node)]
    pub(crate) node: NodeId,
    #[command(flatten)]
    pub(crate) whose: Whose,
}

#[derive(Args, Debug)]
pub(crate) struct StatusOptions {
    /// One JSON object, for scripts.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) whose: Whose,
}

#[derive(Args, Debug)]
#[command(after_help = "Exits with 0 if nothing fails, 1 if something does, 2 if it cannot look.")]
pub(crate) struct DoctorOptions {
    /// A ticket, or a run here: its name, the first digits of its id, or its folder
    /// [default: the only one].
    #[arg(value_name = "TICKET|RUN")]
    pub(crate) what: Option<String>,
    /// One JSON object, for scripts.
    #[arg(long)]
    pub(crate) json: bool,
    /// Seconds to look at the network, at most, if no node runs here.
    #[arg(long, value_name = "SECONDS", default_value_t = 15.0)]
    pub(crate) wait: f64,
    #[command(flatten)]
    pub(crate) config: Partial,
}

#[derive(Args, Debug)]
pub(crate) struct InspectOptions {
    /// What to look at.
    #[arg(value_enum, default_value_t = Part::All)]
    pub(crate) part: Part,
    #[command(flatten)]
    pub(crate) whose: Whose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Everything.
    All,
    /// Where each fragment stands.
    Fragments,
    /// Rounds that are not stable, with their contributions.
    Rounds,
    /// What peers say of themselves.
    Frontiers,
    /// Who signed twice.
    Evidence,
}

#[derive(Args, Debug)]
pub(crate) struct WhoamiOptions {
    /// The node's folder.
    #[arg(long)]
    pub(crate) home: Option<PathBuf>,
}

/// A node's public name.
fn node(text: &str) -> Result<NodeId, String> {
    NodeId::read(text).ok_or_else(|| {
        "a node's name has 64 hexadecimal digits, as `atoll whoami` prints it".to_owned()
    })
}
