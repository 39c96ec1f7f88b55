//! `atoll`: the node's command line.

mod cli;
mod command;

use std::process::ExitCode;

use clap::Parser;

use cli::{Arguments, GenesisTask, Task};

fn main() -> ExitCode {
    // Wrong usage ends here, with clap's own message and exit code 2.
    let Some(task) = Arguments::parse().task else {
        eprintln!(
            "error: this version of atoll has no network yet, so there is no node to start\n\
             hint: `atoll train` trains one island alone, `cargo testnet up` runs a whole swarm \
             in the simulator, and `atoll --help` tells what else there is"
        );
        return ExitCode::from(2);
    };
    let outcome = match &task {
        Task::Genesis(GenesisTask::Check { file }) => return command::genesis_check::run(file),
        Task::Train(options) => command::train::run(options),
        Task::Eval(options) => command::eval::run(options),
        Task::Sample(options) => command::sample::run(options),
        Task::Export(options) => command::export::run(options),
        Task::Import(options) => command::import::run(options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(2)
        }
    }
}
