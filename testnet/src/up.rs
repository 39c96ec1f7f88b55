//! A swarm of real processes on one machine, to look at: a bootstrap, some nodes, a few minutes.

mod alone;
pub(crate) mod binaries;
mod chaos;
mod client;
mod director;
pub(crate) mod error;
mod genesis;
mod happening;
pub(crate) mod interrupt;
mod journal;
pub(crate) mod keeper;
mod liar;
mod measured;
mod model;
mod network;
mod options;
mod outcome;
mod page;
pub(crate) mod process;
mod recording;
mod screen;
mod series;
mod site;
mod stage;
mod status;
mod swarm;
mod units;
mod watcher;

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant, SystemTime};

use atoll_protocol::genesis::Genesis;

use chaos::Schedule;
use director::Director;
use happening::Weight;
use interrupt::Interrupt;
use measured::Measured;
use network::Network;
use outcome::Outcome;
use page::Page;
use recording::Recording;
use site::Site;
use stage::Stage;
use swarm::Swarm;

pub use error::UpError;
pub use options::Options;

pub(crate) use genesis::{MUON_PEAK, OUTER, STEPS_MAX};

/// Runs a swarm as the options say, and gives the exit code. Nothing is left running.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<u8, UpError> {
    let interrupt = Interrupt::listen();
    run_until(options, &interrupt, out).map_err(|error| interrupt.explain(error))
}

fn run_until(options: &Options, interrupt: &Interrupt, out: &mut dyn Write) -> Result<u8, UpError> {
    options.check()?;
    let quality = options.quality()?;
    let plan = options.plan()?;
    let seconds = options.minutes * 60.0;
    let schedule = Schedule::draw(&plan, options.islands, seconds, options.seed)?;
    let network = Network::open(options, quality, &plan, interrupt)?;
    let site = Site::prepare(options, interrupt)?;
    let mut recording =
        Recording::new((0..schedule.islands).map(|index| options.speed(index)), seconds);
    for (index, seen) in recording.islands.iter_mut().enumerate() {
        seen.spared = schedule.spares(index) && index < options.islands;
    }
    let mut stage = Stage::open(options.title(&quality, &plan), recording, interrupt)?;
    let (genesis, mut outcome) = live(&site, options, network, &schedule, &mut stage)?;
    // The terminal is given back before anything is printed.
    let recording = close(stage);
    outcome.report = std::path::absolute(&options.report)?;
    outcome.folder = options.keeps_folder().then(|| site.folder.clone());
    let page =
        Page { options, plan: &plan, genesis: &genesis, recording: &recording, outcome: &outcome };
    write_files(&page)?;
    outcome.print(&recording, std::io::stdout().is_terminal(), out)?;
    if options.json {
        writeln!(out, "{}", outcome.json(options, &recording))?;
    }
    Ok(outcome.exit_code(&recording))
}

/// From the first process to the last.
fn live(
    site: &Site,
    options: &Options,
    network: Network,
    schedule: &Schedule,
    stage: &mut Stage,
) -> Result<(Genesis, Outcome), UpError> {
    let probe = genesis::swarm(options, 1);
    let speed = alone::speed(site, options, &probe, stage)?;
    let genesis = genesis::swarm(options, expected_tokens(options, speed));
    stage.restart_clock();
    let mut swarm = Swarm::start(site, options, &genesis.to_toml(), network, stage)?;
    gather(&mut swarm, stage)?;
    let mut outcome = Outcome { links: swarm.network_words(), ..Outcome::default() };
    train(&mut swarm, options, schedule, stage, &mut outcome)?;
    settle(&mut swarm, stage, &mut outcome)?;
    stage.begin("leaving")?;
    let agreeing = stage.recording.islands_with(&outcome.agreement);
    let folders = agreeing.into_iter().filter_map(|it| swarm.run_folder(it)).collect();
    stage.recording.over = true;
    swarm.leave(stage)?;
    outcome.loss_first = stage.recording.held_out_first();
    outcome.schedule_done =
        stage.recording.swarm_tokens() as f64 / genesis.schedule.total_tokens.max(1) as f64;
    let model = Measured { site, options, genesis: &genesis, run_folders: folders };
    model.measure(stage, &mut outcome)?;
    let steps = stage.recording.steps_of_fastest();
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

/// Waits until every island takes part that is to.
fn gather(swarm: &mut Swarm<'_>, stage: &mut Stage) -> Result<(), UpError> {
    stage.begin("the islands meet")?;
    let until = Instant::now() + GATHER_WITHIN;
    loop {
        swarm.look(stage)?;
        swarm.check()?;
        let (ready, of) = stage.recording.ready();
        if ready == of {
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

/// Trains for as long as it should, or as somebody wants.
fn train(
    swarm: &mut Swarm<'_>,
    options: &Options,
    schedule: &Schedule,
    stage: &mut Stage,
    outcome: &mut Outcome,
) -> Result<(), UpError> {
    // Islands train while they meet, and while they settle: neither is in the time that is told.
    let before = stage.recording.tokens();
    stage.train(Duration::from_secs_f64(options.minutes * 60.0));
    stage.begin("training")?;
    let mut director = Director::new(schedule);
    while !stage.training_is_over() && !stage.recording.is_deserted() {
        swarm.look(stage)?;
        director.direct(stage.training_for(), swarm, stage)?;
        stage.turn()?;
    }
    swarm.look(stage)?;
    outcome.seconds = stage.trained();
    stage.recording.trained = Some(stage.at());
    outcome.tokens_in_training = stage.recording.tokens().saturating_sub(before);
    Ok(())
}

/// Brings everybody back, stops training, and waits until all have the same outer state.
fn settle(swarm: &mut Swarm<'_>, stage: &mut Stage, outcome: &mut Outcome) -> Result<(), UpError> {
    swarm.calm(stage)?;
    stage.begin("training is over; the islands settle")?;
    let (began, mut quiet, mut agreed) = (Instant::now(), false, None::<Instant>);
    while began.elapsed() < SETTLE_WITHIN {
        swarm.look(stage)?;
        // Whoever was away comes back first: one that is not there cannot hear.
        let (ready, of) = stage.recording.ready();
        quiet |= ready == of || began.elapsed() >= RETURN_WITHIN;
        if quiet {
            swarm.quiesce();
        }
        let agrees = quiet && swarm.is_quiet() && stage.recording.agrees();
        agreed = agrees.then(|| agreed.unwrap_or_else(Instant::now));
        // What is also stable is on the disk, to be measured.
        let patience = if stage.recording.is_stable() { SETTLED_FOR } else { STABLE_WITHIN };
        if agreed.is_some_and(|since| since.elapsed() >= patience) {
            break;
        }
        stage.turn()?;
    }
    if let Some(since) = agreed.filter(|since| since.elapsed() >= SETTLED_FOR) {
        outcome.digests_agree = true;
        outcome.settled_s = Some(since.duration_since(began).as_secs_f64());
    }
    outcome.settled_at = Some(SystemTime::now());
    outcome.agreement = stage.recording.agreement();
    if !swarm.is_quiet() {
        outcome.notes.push("an island did not hear that training is over".into());
    }
    Ok(())
}

fn close(stage: Stage) -> Recording {
    let Stage { recording, .. } = stage;
    recording
}

fn write_files(page: &Page<'_>) -> Result<(), UpError> {
    let options = page.options;
    std::fs::write(&options.report, page.render()).map_err(UpError::file(&options.report))?;
    if let Some(file) = &options.csv {
        std::fs::write(file, series::csv(page.recording)).map_err(UpError::file(file))?;
        let events = series::events_file(file);
        let text = series::events(page.recording);
        std::fs::write(&events, text).map_err(UpError::file(&events))?;
    }
    Ok(())
}

/// What exchanging, evaluating and looking take of the machine.
const EFFICIENCY: f64 = 0.9;
/// How long islands may take to find each other and catch up.
const GATHER_WITHIN: Duration = Duration::from_secs(90);
/// How long the last rounds may take to close everywhere.
const SETTLE_WITHIN: Duration = Duration::from_secs(90);
/// How much of that islands that were away may take to come back.
const RETURN_WITHIN: Duration = Duration::from_secs(45);
/// How long all must have agreed: longer than a node takes to publish its status.
const SETTLED_FOR: Duration = Duration::from_secs(3);
/// How long they may take to know of each other that they do, which makes the last round stable.
const STABLE_WITHIN: Duration = Duration::from_secs(8);
