//! `atoll`: the node's command line.

mod genesis_check;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A node of Atoll: peer-to-peer Decoupled DiLoCo.
///
/// This version has no network yet: it checks genesis files and does nothing else. Whole swarms
/// run in the simulator: `cargo testnet up`.
#[derive(Debug, Parser)]
#[command(name = "atoll", version, arg_required_else_help = false)]
struct Arguments {
    #[command(subcommand)]
    task: Option<Task>,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Work with the description that a run's nodes share.
    #[command(subcommand)]
    Genesis(GenesisTask),
}

#[derive(Debug, Subcommand)]
enum GenesisTask {
    /// Read a genesis, say what is wrong with it or what run it describes.
    Check {
        /// The TOML file.
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    // Wrong usage ends here, with clap's own message and exit code 2.
    match Arguments::parse().task {
        Some(Task::Genesis(GenesisTask::Check { file })) => genesis_check::run(&file),
        None => {
            eprintln!(
                "error: this version of atoll has no network yet, so there is no node to start\n\
                 hint: `cargo testnet up` runs a whole swarm in the simulator, and \
                 `atoll --help` tells what else there is"
            );
            ExitCode::from(2)
        }
    }
}
