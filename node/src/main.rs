//! `atoll`: the node's command line.

mod cli;
mod command;

use std::process::ExitCode;

use clap::Parser;

use cli::{Arguments, GenesisTask, Task};

fn main() -> ExitCode {
    // Wrong usage ends here, with clap's own message and exit code 2.
    let task = Arguments::parse().task;
    let outcome = match &task {
        Task::Genesis(GenesisTask::Check { file }) => return command::genesis_check::run(file),
        Task::Doctor(options) => match command::doctor::run(options) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::from(1),
            Err(failure) => Err(failure),
        },
        Task::New(options) => command::new::run(options),
        Task::Run(options) => command::run::run(options),
        Task::Join(options) => command::join::run(options),
        Task::Status(options) => command::look::status(options),
        Task::Inspect(options) => command::look::inspect(options),
        Task::Whoami(options) => command::look::whoami(options),
        Task::Invite(options) => command::steward::invite(options),
        Task::Revoke(options) => command::steward::revoke(options),
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
            ExitCode::from(failure.exit_code())
        }
    }
}
