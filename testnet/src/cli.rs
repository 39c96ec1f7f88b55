//! The command line: what can be asked for, and how the answer ends.

mod many;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use atoll_protocol::planted::Bug;
use clap::{Args, Parser, Subcommand};
use rayon::prelude::*;
use thiserror::Error;

use crate::plan::InputError;
use crate::report::{self, Summary};
use crate::runner::{self, EXIT_HARNESS, EXIT_OK, EXIT_USAGE};
use crate::sim::{Setup, liars, plan};
use crate::up::{self, UpError};
use crate::{compare, goodput, plan as sizing, planted, race, scenario, study};

/// Swarms on one machine.
#[derive(Debug, Parser)]
#[command(name = "testnet", version, about)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be asked for.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run simulated swarms in virtual time and check every invariant.
    Sim(Sim),
    /// Start a swarm of real processes, watch it train, and get a report.
    Up(up::Options),
    /// What a run needs: bytes, links, memory, disk, the time to join, and what breaks first.
    Plan(sizing::Options),
    /// How much of the time chips do useful work while they fail, next to the published table.
    Goodput(goodput::Options),
    /// How well ways to train together learn, at equal tokens.
    Compare(compare::Options),
    /// Race against synchronous rivals over thin links: time and bytes to a target loss.
    Race(race::Options),
    /// End what a killed `up` left behind; started by `up` itself.
    #[command(hide = true, name = up::keeper::COMMAND)]
    Keep,
    /// One member of a synchronous rival; started by `race` itself.
    #[command(hide = true, name = race::rivals::COMMAND)]
    Rival(race::Member),
}

/// Options of `sim`.
#[derive(Debug, Args)]
pub struct Sim {
    /// Run this many drawn swarms.
    #[arg(long, default_value_t = 100, conflicts_with_all = ["seed", "scenario", "planted"])]
    pub seeds: u64,
    /// The first seed of a range.
    #[arg(long, default_value_t = 1)]
    pub from: u64,
    /// Run one seed only.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Run each swarm twice, and once with another number of threads: all must be equal.
    #[arg(long)]
    pub twice: bool,
    /// Threads that fold inside each swarm; never changes a result.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Swarms that run at once; default: one for each core.
    #[arg(long, default_value_t = 0)]
    pub jobs: usize,
    /// Run a named scenario, or all below a name.
    #[arg(long)]
    pub scenario: Option<String>,
    /// List the scenarios and planted bugs.
    #[arg(long)]
    pub list: bool,
    /// Hunt planted bugs, or just this one: each must be caught.
    #[arg(long, value_name = "BUG", num_args = 0..=1, default_missing_value = "")]
    pub planted: Option<String>,
    /// Compare how well swarms learn with a central run at equal tokens, over five seeds.
    #[arg(long)]
    pub learning: bool,
    /// Write the event log of a single run here.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Print a summary object as the last line.
    #[arg(long)]
    pub json: bool,
}

/// Why a command ended without an answer.
#[derive(Debug, Error)]
pub enum CliError {
    /// What was asked for makes no sense.
    #[error("{what}\nhint: {hint}")]
    Usage {
        /// What is wrong.
        what: String,
        /// What to do instead.
        hint: String,
    },
    /// Something could not be written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
    /// A swarm of processes did not come to its end.
    #[error(transparent)]
    Up(#[from] UpError),
    /// A comparison did not come to its end.
    #[error("{0:#}")]
    Compare(anyhow::Error),
}

impl CliError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Up(UpError::Interrupted) => EXIT_INTERRUPTED,
            Self::Up(UpError::Usage { .. }) | Self::Usage { .. } | Self::Write(_) => EXIT_USAGE,
            Self::Compare(error) if error.is::<compare::NoFolder>() => EXIT_USAGE,
            Self::Up(_) | Self::Compare(_) => EXIT_HARNESS,
        }
    }
}

impl From<InputError> for CliError {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Write(error) => Self::Write(error),
            error => Self::Usage { what: error.to_string(), hint: error.hint() },
        }
    }
}

/// Runs a command, with its answer on `out`.
pub fn run(cli: &Cli, out: &mut dyn Write) -> ExitCode {
    let ended = match &cli.command {
        Command::Sim(options) => sim(options, out),
        Command::Up(options) => up::run(options, out).map_err(CliError::from),
        Command::Plan(options) => {
            sizing::run(options, out).map(|()| EXIT_OK).map_err(CliError::from)
        }
        Command::Goodput(options) => simulate_failures(options, out),
        Command::Compare(options) => {
            let ended = compare::run(options, out).map_err(CliError::Compare);
            ended.map(|holds| if holds { EXIT_OK } else { EXIT_HARNESS })
        }
        Command::Race(options) => {
            let ended = race::run(options, out).map_err(CliError::from);
            ended.map(|holds| if holds { EXIT_OK } else { EXIT_HARNESS })
        }
        Command::Rival(member) => {
            race::rival(member, out).map(|()| EXIT_OK).map_err(CliError::Compare)
        }
        Command::Keep => {
            up::keeper::keep(io::stdin().lock());
            Ok(EXIT_OK)
        }
    };
    ExitCode::from(ended.unwrap_or_else(|error| {
        // Nobody may be there to read it; the exit code says it, too.
        let _ = writeln!(io::stderr(), "error: {error}");
        error.exit_code()
    }))
}

/// A swarm to run and the command that repeats it.
#[derive(Clone, Debug)]
struct Job {
    name: String,
    repeat: String,
    setup: Setup,
}

fn sim(options: &Sim, out: &mut dyn Write) -> Result<u8, CliError> {
    if options.list {
        return list(out);
    }
    if options.threads == 0 || options.threads > THREADS_MAX {
        let what = format!("--threads is {}", options.threads);
        return Err(usage(what, format!("allowed are 1 to {THREADS_MAX}")));
    }
    runner::catch_panics();
    if let Some(bug) = &options.planted {
        return hunt(bug, options, out);
    }
    if options.learning {
        return learning(options, out);
    }
    let jobs = jobs(options)?;
    if let Some(path) = &options.trace {
        return traced(&jobs, path, out);
    }
    let summary = many::run(&jobs, options);
    finish(&summary, options, jobs.len(), out)
}

fn jobs(options: &Sim) -> Result<Vec<Job>, CliError> {
    let threads = options.threads;
    if let Some(name) = &options.scenario {
        let seed = options.seed.unwrap_or(options.from);
        let scenarios = scenario::named(name, seed);
        if scenarios.is_empty() {
            let what = format!("there is no scenario {name:?}");
            return Err(usage(what, "`sim --list` names them all".into()));
        }
        return Ok(scenarios
            .into_iter()
            .map(|scenario| Job {
                repeat: format!("cargo testnet sim --scenario {} --seed {seed}", scenario.name),
                name: scenario.name,
                setup: Setup { threads, ..scenario.setup },
            })
            .collect());
    }
    let (first, count) = options.seed.map_or((options.from, options.seeds), |seed| (seed, 1));
    if count == 0 || first.checked_add(count).is_none() {
        return Err(usage(format!("{count} seeds from {first}"), "ask for at least one".into()));
    }
    let job = |seed| Job {
        name: format!("seed {seed}"),
        repeat: format!("cargo testnet sim --seed {seed}"),
        setup: Setup { threads, cast: liars::cast, ..plan::draw(seed) },
    };
    Ok((first..first + count).map(job).collect())
}

fn finish(
    summary: &Summary,
    options: &Sim,
    runs: usize,
    out: &mut dyn Write,
) -> Result<u8, CliError> {
    summary.print(out)?;
    let unexercised = summary.unexercised();
    // A named scenario has the faults it has; many drawn swarms must have them all.
    let harness_failed =
        options.scenario.is_none() && runs >= RUNS_FOR_ALL && !unexercised.is_empty();
    if options.scenario.is_none() && runs > 1 && !unexercised.is_empty() {
        let names = unexercised.join(", ");
        let word = if harness_failed { "error" } else { "note" };
        writeln!(io::stderr(), "{word}: {runs} swarms never exercised: {names}")?;
    }
    if options.json {
        writeln!(out, "{}", summary.json())?;
    }
    Ok(match summary.exit_code() {
        EXIT_OK if harness_failed => EXIT_HARNESS,
        code => code,
    })
}

fn traced(jobs: &[Job], path: &PathBuf, out: &mut dyn Write) -> Result<u8, CliError> {
    let [job] = jobs else {
        let what = format!("--trace with {} swarms", jobs.len());
        return Err(usage(what, "add --seed N or name one scenario".into()));
    };
    let file = File::create(path).map_err(|error| {
        usage(format!("cannot create {}: {error}", path.display()), "choose another file".into())
    })?;
    let mut trace = BufWriter::new(file);
    let verdict = runner::run(job.setup.clone(), Some(&mut trace));
    trace.flush()?;
    let mut summary = Summary::default();
    summary.add(job.repeat.clone(), &verdict);
    summary.print(out)?;
    writeln!(out, "{}\ntrace in {}", report::one_line(&verdict), path.display())?;
    Ok(summary.exit_code())
}

fn list(out: &mut dyn Write) -> Result<u8, CliError> {
    writeln!(out, "scenarios (`--scenario one-liar-in-eight` runs every attack):")?;
    for scenario in scenario::all(1) {
        writeln!(out, "  {:<40} {}", scenario.name, scenario.shows)?;
    }
    writeln!(out, "\nplanted bugs (`--planted` hunts all of them):")?;
    for bug in Bug::ALL {
        writeln!(out, "  {}", bug.name())?;
    }
    Ok(EXIT_OK)
}

fn hunt(bug: &str, options: &Sim, out: &mut dyn Write) -> Result<u8, CliError> {
    let bugs: Vec<Bug> = if bug.is_empty() {
        Bug::ALL.to_vec()
    } else {
        let known = planted::named(bug).ok_or_else(|| {
            usage(format!("there is no planted bug {bug:?}"), "`sim --list` names them all".into())
        })?;
        vec![known]
    };
    let caught: Vec<planted::Caught> = bugs
        .into_par_iter()
        .map(|bug| planted::hunt(bug, options.from, planted::RUNS_MAX))
        .collect();
    Ok(if planted::print(out, &caught)? { EXIT_OK } else { EXIT_HARNESS })
}

fn learning(options: &Sim, out: &mut dyn Write) -> Result<u8, CliError> {
    let seeds: Vec<u64> = (options.from..).take(LEARNING_SEEDS).collect();
    let rows: Result<Vec<study::Ratios>, String> =
        seeds.into_par_iter().map(study::measure).collect();
    match rows {
        Ok(rows) => Ok(if study::print(out, &rows)? { EXIT_OK } else { runner::EXIT_LIVENESS }),
        Err(what) => {
            writeln!(out, "FAILED {what}")?;
            Ok(runner::EXIT_SAFETY)
        }
    }
}

fn simulate_failures(options: &goodput::Options, out: &mut dyn Write) -> Result<u8, CliError> {
    let matched = goodput::run(options, out)?;
    if !matched {
        let points = goodput::POINTS;
        writeln!(
            io::stderr(),
            "error: further from the published table than {points} points\n\
             hint: fewer than the usual seeds and days are noisy"
        )?;
    }
    Ok(if matched { EXIT_OK } else { EXIT_HARNESS })
}

fn usage(what: String, hint: String) -> CliError {
    CliError::Usage { what, hint }
}

/// Runs after which every fault and every checker must have been exercised.
const RUNS_FOR_ALL: usize = 300;
/// Seeds of the comparison with a central run.
const LEARNING_SEEDS: usize = 5;
/// More threads than this fold nothing faster.
const THREADS_MAX: usize = 256;
/// What a shell gives for a program that Ctrl-C ended.
const EXIT_INTERRUPTED: u8 = 130;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn answer(line: &str) -> (ExitCode, String) {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let mut out = Vec::new();
        let code = run(&cli, &mut out);
        (code, String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_list_names_what_must_be_shown() {
        let (_, listed) = answer("testnet sim --list");
        for name in [
            "partition-beyond-horizon",
            "fresh-node-cannot-overwrite",
            "same-key-twice",
            "everyone-restarts",
            "bootstrap-never-seen-again",
            "one-liar-in-eight/equivocation",
            "forgotten-persist-barrier",
        ] {
            assert!(listed.contains(name), "{name}");
        }
    }

    #[test]
    fn nonsense_is_bad_input() {
        let usage = format!("{:?}", ExitCode::from(EXIT_USAGE));
        for line in [
            "testnet sim --scenario nonsense",
            "testnet sim --planted nonsense",
            "testnet sim --threads 0",
            "testnet sim --seeds 0",
            "testnet up --islands 0",
            "testnet plan --params many",
            "testnet plan --link 20",
            "testnet goodput --days 0",
        ] {
            assert_eq!(format!("{:?}", answer(line).0), usage, "{line}");
        }
    }
}
