//! A swarm of real processes on one machine, to look at: a bootstrap, some nodes, a few minutes.

mod alone;
mod binaries;
mod client;
mod error;
mod genesis;
mod happening;
mod interrupt;
mod journal;
pub(crate) mod keeper;
mod model;
mod options;
mod outcome;
mod page;
mod process;
mod recording;
mod screen;
mod series;
mod site;
mod stage;
mod status;
mod swarm;
mod units;
mod watcher;

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use atoll_protocol::genesis::Genesis;

use happening::Weight;
use interrupt::Interrupt;
use outcome::Outcome;
use page::Page;
use recording::Recording;
use screen::Wish;
use site::Site;
use stage::Stage;
use swarm::Swarm;

pub use error::UpError;
pub use options::Options;

/// Runs a swarm as the options say, and gives the exit code. Nothing is left running.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<u8, UpError> {
    options.check()?;
    let interrupt = Interrupt::listen();
    let site = Site::prepare(options, &interrupt)?;
    let speeds = (0..options.islands).map(|index| options.speed(index));
    let recording = Recording::new(speeds, options.minutes * 60.0);
    let title = format!("{} islands · {} · {}", options.islands, options.model, options.data);
    let mut stage = Stage::open(title, recording, &interrupt)?;
    let (genesis, mut outcome) = live(&site, options, &mut stage)?;
    // The terminal is given back before anything is printed.
    let recording = close(stage);
    outcome.report = std::path::absolute(&options.report)?;
    outcome.folder = options.keeps_folder().then(|| site.folder.clone());
    write_files(options, &genesis, &recording, &outcome)?;
    outcome.print(&recording, out)?;
    if options.json {
        writeln!(out, "{}", outcome.json(options, &recording))?;
    }
    Ok(outcome.exit_code(&recording))
}

/// From the first process to the last.
fn live(site: &Site, options: &Options, stage: &mut Stage) -> Result<(Genesis, Outcome), UpError> {
    let probe = genesis::swarm(options, 1);
    let speed = alone::speed(site, options, &probe, stage)?;
    let genesis = genesis::swarm(options, expected_tokens(options, speed));
    stage.restart_clock();
    let mut swarm = Swarm::start(site, options, &genesis.to_toml(), stage)?;
    gather(&mut swarm, stage)?;
    let seconds = train(&mut swarm, options, stage)?;
    let mut outcome = Outcome { seconds, ..Outcome::default() };
    settle(&mut swarm, stage, &mut outcome)?;
    stage.begin("leaving")?;
    let folder = swarm.run_folder(0);
    swarm.leave(stage)?;
    outcome.loss_first = stage.recording.held_out_first();
    outcome.loss_last = stage.recording.held_out();
    look_at_model(site, options, &genesis, folder.as_deref(), stage, &mut outcome)?;
    let steps = stage.recording.steps_mean();
    match alone::compare(site, options, &genesis, steps, stage) {
        Ok(alone) => outcome.alone = Some(alone),
        Err(UpError::Interrupted) => return Err(UpError::Interrupted),
        Err(error) => outcome.notes.push(format!("no island alone to compare with: {error}")),
    }
    Ok((genesis, outcome))
}

/// Tokens that the swarm will train if the machine is as fast as one island alone found it.
fn expected_tokens(options: &Options, speed: f64) -> u64 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // Each island has one thread; more of them than cores share what there is.
    let busy = (options.speed_of_all() / cores as f64).min(1.0);
    let tokens = speed * busy * options.minutes * 60.0 * EFFICIENCY;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float becomes the nearest whole number there is"
    )]
    let tokens = tokens as u64;
    tokens.max(1)
}

/// Waits until every island takes part.
fn gather(swarm: &mut Swarm, stage: &mut Stage) -> Result<(), UpError> {
    stage.begin("the islands meet")?;
    let until = Instant::now() + GATHER_WITHIN;
    loop {
        swarm.look(stage);
        swarm.check()?;
        let ready = stage.recording.statuses().filter(|it| it.is_caught_up()).count();
        if ready == stage.recording.islands.len() {
            return Ok(());
        }
        if Instant::now() >= until {
            let words = format!("only {ready} islands have met; training goes on without the rest");
            stage.recording.note(stage.at(), None, words, Weight::Wrong);
            return Ok(());
        }
        stage.turn()?;
    }
}

/// Trains for as long as it should, or as somebody wants; gives the seconds it took.
fn train(swarm: &mut Swarm, options: &Options, stage: &mut Stage) -> Result<f64, UpError> {
    stage.train(Duration::from_secs_f64(options.minutes * 60.0));
    stage.begin("training")?;
    while !stage.training_is_over() && !swarm.is_over() {
        swarm.look(stage);
        if stage.turn()? == Some(Wish::Finish) {
            break;
        }
    }
    Ok(stage.trained())
}

/// Stops training and waits until all islands have the same outer state.
fn settle(swarm: &mut Swarm, stage: &mut Stage, outcome: &mut Outcome) -> Result<(), UpError> {
    stage.begin("training is over; the islands settle")?;
    if !swarm.quiesce() {
        outcome.notes.push("an island did not hear that training is over".into());
    }
    let (began, mut agreed) = (Instant::now(), None);
    while began.elapsed() < SETTLE_WITHIN {
        swarm.look(stage);
        if !stage.recording.agrees() {
            agreed = None;
        }
        let since = *agreed.get_or_insert_with(Instant::now);
        if stage.recording.agrees() && since.elapsed() >= SETTLED_FOR {
            outcome.digests_agree = true;
            outcome.settled_s = Some(since.duration_since(began).as_secs_f64());
            return Ok(());
        }
        stage.turn()?;
    }
    Ok(())
}

/// Measures the model that the swarm agreed on and lets it write; without, the rest still counts.
fn look_at_model(
    site: &Site,
    options: &Options,
    genesis: &Genesis,
    run_folder: Option<&Path>,
    stage: &mut Stage,
    outcome: &mut Outcome,
) -> Result<(), UpError> {
    stage.begin("measuring what the swarm agreed on")?;
    let folder = site.folder.join("agreed");
    let mut look = || -> Result<(f64, String), UpError> {
        let from = run_folder.ok_or_else(|| UpError::usage("no run folder", ""))?;
        model::agreed(from, genesis, &folder)?;
        let loss = alone::evaluate(site, options, &folder, stage)?;
        Ok((loss, alone::sample(site, &folder, stage)?))
    };
    match look() {
        Ok((loss, sample)) => {
            outcome.loss_last = Some(loss);
            outcome.sample = Some(sample);
        }
        Err(UpError::Interrupted) => return Err(UpError::Interrupted),
        Err(error) => outcome.notes.push(format!(
            "the agreed model could not be measured, so the last loss is the islands' own: {error}"
        )),
    }
    Ok(())
}

fn close(stage: Stage) -> Recording {
    let Stage { recording, .. } = stage;
    recording
}

fn write_files(
    options: &Options,
    genesis: &Genesis,
    recording: &Recording,
    outcome: &Outcome,
) -> Result<(), UpError> {
    let html = Page { options, genesis, recording, outcome }.render();
    std::fs::write(&options.report, html).map_err(UpError::file(&options.report))?;
    if let Some(file) = &options.csv {
        std::fs::write(file, series::csv(recording)).map_err(UpError::file(file))?;
    }
    Ok(())
}

/// What exchanging, evaluating and looking take of the machine.
const EFFICIENCY: f64 = 0.9;
/// How long islands may take to find each other and catch up.
const GATHER_WITHIN: Duration = Duration::from_secs(90);
/// How long the last rounds may take to close everywhere.
const SETTLE_WITHIN: Duration = Duration::from_secs(45);
/// How long all must have agreed: longer than a node takes to publish its status.
const SETTLED_FOR: Duration = Duration::from_secs(3);
