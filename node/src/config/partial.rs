//! What one source says: some of the values, not checked yet.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use serde::{Deserialize, Serialize};

/// Some values of a configuration, as flags, variables or a file give them.
///
/// They are text or plain numbers here, so that all three sources are checked by the same code
/// and refused in the same words.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partial {
    /// The node's folder [default: $XDG_DATA_HOME/atoll, or ~/.local/share/atoll].
    // Not in the file, which is in this folder.
    #[arg(long, value_name = "FOLDER")]
    #[serde(skip)]
    pub home: Option<PathBuf>,
    /// An address to listen on; again or with commas for more [default: any port, UDP and TCP].
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', help_heading = NETWORK)]
    pub listen: Option<Vec<String>>,
    /// An address to tell others, where the node cannot find it out.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', help_heading = NETWORK)]
    pub external: Option<Vec<String>>,
    /// A bootstrap's address, besides those of the ticket.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', help_heading = NETWORK)]
    pub bootstrap: Option<Vec<String>>,
    /// Never send more than this, such as 1mbit or 2MB, in a second [default: no limit].
    #[arg(long, value_name = "RATE", help_heading = NETWORK)]
    pub max_upload: Option<String>,
    /// Never fetch more than this, such as 20mbit, in a second [default: no limit].
    #[arg(long, value_name = "RATE", help_heading = NETWORK)]
    pub max_download: Option<String>,
    /// Never keep more than this, such as 20GB, on disk [default: no limit].
    #[arg(long, value_name = "SIZE", help_heading = LIMITS)]
    pub max_disk: Option<String>,
    /// Whether to look for peers in the local network [default: true].
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(),
        help_heading = NETWORK)]
    pub mdns: Option<bool>,
    /// Whether to ask the router for a port [default: true].
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(),
        help_heading = NETWORK)]
    pub upnp: Option<bool>,
    /// Where to serve status and metrics [default: 127.0.0.1:0, any free port].
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = OUTPUT)]
    pub http: Option<String>,
    /// What to train on: auto, cpu, cuda:N or metal [default: auto].
    #[arg(long, value_name = "DEVICE", help_heading = TRAINING)]
    pub device: Option<String>,
    /// What a CPU computes products in: auto (the quickest that it can), f32 or bf16 [default:
    /// auto].
    #[arg(long, value_name = "PRECISION", help_heading = TRAINING)]
    pub precision: Option<String>,
    /// Threads on a CPU [default: one for each core].
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, help_heading = TRAINING)]
    pub threads: Option<i64>,
    /// How readily training leaves the CPU to others, 0 to 19 [default: 0].
    #[arg(long, value_name = "LEVEL", allow_negative_numbers = true, help_heading = LIMITS)]
    pub nice: Option<i64>,
    /// `generated`, or a text file, a JSONL file, or a folder of them [default: the run's].
    #[arg(long, value_name = "TEXT", help_heading = TRAINING)]
    pub data: Option<String>,
    /// The field of JSONL lines that holds the text [default: text].
    #[arg(long, value_name = "NAME", help_heading = TRAINING)]
    pub field: Option<String>,
    /// How log lines look: human or json [default: human].
    #[arg(long, value_name = "FORM", help_heading = OUTPUT)]
    pub log: Option<String>,
    /// Which log lines there are: error, warn, info, debug or trace [default: info].
    #[arg(long, value_name = "LEVEL", help_heading = OUTPUT)]
    pub log_level: Option<String>,
}

const NETWORK: &str = "Network";
const TRAINING: &str = "Training";
const LIMITS: &str = "Limits";
const OUTPUT: &str = "What is shown";
