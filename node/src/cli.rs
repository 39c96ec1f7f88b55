//! What can be said on the command line.

pub(crate) mod swarm;

use std::path::PathBuf;

use atoll_node::island::device::DeviceChoice;
use atoll_node::island::precision::PrecisionChoice;
use atoll_protocol::genesis::InnerOptimiser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use swarm::{
    DoctorOptions, InspectOptions, InviteOptions, JoinOptions, NewOptions, RevokeOptions,
    RunOptions, StatusOptions, WhoamiOptions,
};

/// Train one model on many islands, with nobody in the middle.
///
/// Make a run with `atoll new` and start it with `atoll run`; others come with `atoll join` and
/// the ticket that both print. `atoll train` trains alone.
#[derive(Debug, Parser)]
#[command(name = "atoll", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Make a run: its genesis, its folder, and a ticket for others.
    New(NewOptions),
    /// Take part in a run that is on this machine.
    Run(RunOptions),
    /// Take part in somebody's run.
    Join(JoinOptions),
    /// How the running node is.
    Status(StatusOptions),
    /// Look into the running node: fragments, rounds, frontiers, evidence.
    Inspect(InspectOptions),
    /// What keeps this machine from taking part, and what to do about it.
    Doctor(DoctorOptions),
    /// Print this node's public name.
    Whoami(WhoamiOptions),
    /// Admit a node to a run that asks for invitations, and print its ticket.
    Invite(InviteOptions),
    /// Exclude a node from a run.
    Revoke(RevokeOptions),
    /// Train one island alone, without a network.
    Train(TrainOptions),
    /// Measure the loss on text that was held out from training.
    Eval(EvalOptions),
    /// Let the trained model write.
    Sample(SampleOptions),
    /// Write the trained model as a Hugging Face folder.
    Export(ExportOptions),
    /// Begin with a Llama-architecture model from a Hugging Face folder or a GGUF file.
    Import(ImportOptions),
    /// Work with the description that a run's nodes share.
    #[command(subcommand)]
    Genesis(GenesisTask),
}

#[derive(Debug, Subcommand)]
pub(crate) enum GenesisTask {
    /// Read a genesis, say what is wrong with it or what run it describes.
    Check {
        /// The TOML file.
        file: PathBuf,
    },
}

/// Where a lone island lives and what it computes with.
#[derive(Args, Clone, Debug)]
pub(crate) struct IslandOptions {
    /// The island's folder.
    #[arg(long, default_value = "atoll-train")]
    pub(crate) dir: PathBuf,
    /// auto, cpu, cuda:N or metal.
    #[arg(long, default_value = "auto")]
    pub(crate) device: DeviceChoice,
    /// Threads on a CPU [default: one for each core].
    #[arg(long)]
    pub(crate) threads: Option<usize>,
}

/// A run of this node instead of a lone island: its newest stable outer state.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunChoice {
    /// A run: its name, the first digits of its id, or its folder.
    #[arg(long, conflicts_with = "dir")]
    pub(crate) run: Option<String>,
    /// The node's folder; without --run its only run.
    #[arg(long, conflicts_with = "dir")]
    pub(crate) home: Option<PathBuf>,
}

/// Text to read.
#[derive(Args, Clone, Debug)]
pub(crate) struct Text {
    /// `generated`, or a text file, a JSONL file, or a folder of them.
    #[arg(long)]
    pub(crate) data: Option<String>,
    /// The field of JSONL lines that holds the text [default: text].
    #[arg(long)]
    pub(crate) field: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct TrainOptions {
    #[command(flatten)]
    pub(crate) island: IslandOptions,
    #[command(flatten)]
    pub(crate) text: Text,
    /// What products are computed in: auto (the quickest that the machine can), f32 or bf16.
    #[arg(long, default_value = "auto")]
    pub(crate) precision: PrecisionChoice,
    /// Go on with what the folder holds.
    #[arg(long)]
    pub(crate) resume: bool,
    /// The model's size: nano (1M), micro (5M), mini (30M), small (125M), 1b [default: nano].
    #[arg(long, conflicts_with = "genesis")]
    pub(crate) model: Option<String>,
    /// A genesis in TOML, instead of a size and defaults.
    #[arg(long)]
    pub(crate) genesis: Option<PathBuf>,
    /// `byte`, or a Hugging Face tokenizer.json [default: byte].
    #[arg(long)]
    pub(crate) tokenizer: Option<String>,
    /// Stop after so many minutes.
    #[arg(long)]
    pub(crate) minutes: Option<f64>,
    /// Stop after so many steps, counted from the first.
    #[arg(long)]
    pub(crate) steps: Option<u64>,
    /// Sequences in a batch.
    #[arg(long, conflicts_with = "genesis")]
    pub(crate) batch: Option<u32>,
    /// Tokens in a sequence.
    #[arg(long, conflicts_with = "genesis")]
    pub(crate) sequence: Option<u32>,
    /// Batches that make one step.
    #[arg(long)]
    pub(crate) accumulate: Option<usize>,
    /// Highest learning rate.
    #[arg(long, conflicts_with = "genesis")]
    pub(crate) learning_rate: Option<f32>,
    /// Tokens over which the learning rate falls to a tenth.
    #[arg(long, conflicts_with = "genesis")]
    pub(crate) schedule_tokens: Option<u64>,
    /// Tokens over which the learning rate runs its course, instead of those that the genesis
    /// says. The run stays the same, and with it the text that is held out.
    #[arg(long, hide = true, requires = "genesis")]
    pub(crate) rate_tokens: Option<u64>,
    /// The inner optimiser.
    #[arg(long, conflicts_with = "genesis")]
    pub(crate) optimiser: Option<OptimiserChoice>,
    /// Seed of the initial parameters and the order of the data.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Print one JSON object at the end, and nothing else, to standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The inner optimisers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OptimiserChoice {
    /// AdamW for everything.
    Adamw,
    /// Muon for matrices, AdamW for the rest.
    Muon,
}

impl From<OptimiserChoice> for InnerOptimiser {
    fn from(choice: OptimiserChoice) -> Self {
        match choice {
            OptimiserChoice::Adamw => Self::AdamW,
            OptimiserChoice::Muon => Self::muon(),
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct EvalOptions {
    #[command(flatten)]
    pub(crate) island: IslandOptions,
    #[command(flatten)]
    pub(crate) choice: RunChoice,
    #[command(flatten)]
    pub(crate) text: Text,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SampleOptions {
    #[command(flatten)]
    pub(crate) island: IslandOptions,
    #[command(flatten)]
    pub(crate) choice: RunChoice,
    /// What the text begins with.
    #[arg(long, default_value = "")]
    pub(crate) prompt: String,
    /// Tokens to write.
    #[arg(long, default_value_t = 600)]
    pub(crate) tokens: usize,
    /// 0 always takes the likeliest token; higher is more adventurous.
    #[arg(long, default_value_t = 0.7)]
    pub(crate) temperature: f32,
    /// Consider only so many of the likeliest tokens; 0 considers all.
    #[arg(long, default_value_t = 40)]
    pub(crate) top: usize,
    /// Seed of the choices.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
}

#[derive(Args, Debug)]
pub(crate) struct ExportOptions {
    /// The island's folder.
    #[arg(long, default_value = "atoll-train")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) choice: RunChoice,
    /// The folder to make.
    pub(crate) to: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct ImportOptions {
    /// A folder with config.json and model.safetensors, or a GGUF file.
    pub(crate) from: PathBuf,
    /// The island's folder, to be made.
    #[arg(long, default_value = "atoll-train")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) text: Text,
    /// Tokens in a sequence [default: the model's context, at most 512].
    #[arg(long)]
    pub(crate) sequence: Option<u32>,
    /// Sequences in a batch.
    #[arg(long)]
    pub(crate) batch: Option<u32>,
    /// Highest learning rate.
    #[arg(long, default_value_t = 1e-4)]
    pub(crate) learning_rate: f32,
}
