//! `atoll train`: one island, alone, without a network.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use atoll_node::island::data::{GENERATED, Tokenizer, TokenizerFiles};
use atoll_node::island::learner::Learner;
use atoll_node::island::{Island, IslandError};
use atoll_protocol::genesis::{Genesis, Model, PRESETS, Schedule};

use super::failure::Failure;
use super::folder::{BYTE, Folder, Settings};
use super::island;
use super::session::Session;
use crate::cli::TrainOptions;

/// Trains until the time is over, the steps are done, or somebody presses Ctrl-C.
pub(crate) fn run(options: &TrainOptions) -> Result<(), Failure> {
    let limits = Limits::new(options)?;
    let folder = Folder::new(&options.island.dir);
    let stop = stop_on_interrupt()?;
    let mut learner =
        if options.resume { resume(options, &folder)? } else { begin(options, &folder)? };
    let first = learner.evaluate()?;
    let mut session = Session::new(&learner, limits.minutes, limits.steps, first);
    let schedule = schedule(&learner.genesis().schedule, options.rate_tokens);
    let outcome = train(&mut learner, &folder, &limits, &schedule, &stop, &mut session);
    session.finish();
    if let Err(error) = outcome {
        return Err(explain(error, &folder));
    }
    folder.save(&mut learner)?;
    let last = learner.evaluate()?;
    session.summary(&learner, last, &options.island.dir, options.json);
    Ok(())
}

/// When to stop.
struct Limits {
    minutes: Option<f64>,
    steps: Option<u64>,
}

impl Limits {
    fn new(options: &TrainOptions) -> Result<Self, Failure> {
        if let Some(minutes) = options.minutes
            && !(minutes.is_finite() && minutes > 0.0)
        {
            return Err(Failure::new(format!("--minutes {minutes}: more than 0")));
        }
        if options.accumulate == Some(0) {
            return Err(Failure::new("--accumulate 0: at least 1"));
        }
        Ok(Self { minutes: options.minutes, steps: options.steps })
    }

    fn reached(&self, learner: &Learner, since: Instant) -> bool {
        self.steps.is_some_and(|steps| learner.steps() >= steps)
            || self.minutes.is_some_and(|it| since.elapsed().as_secs_f64() >= it * 60.0)
    }
}

fn train(
    learner: &mut Learner,
    folder: &Folder,
    limits: &Limits,
    schedule: &Schedule,
    stop: &AtomicBool,
    session: &mut Session,
) -> Result<(), Failed> {
    let began = Instant::now();
    let (mut saved, mut evaluated) = (began, began);
    while !limits.reached(learner, began) && !stop.load(Ordering::Relaxed) {
        let rate = schedule.learning_rate(learner.tokens());
        let step = learner.step(rate)?;
        session.stepped(learner, &step, rate);
        if evaluated.elapsed() >= EVALUATE_EVERY {
            let loss = learner.evaluate()?;
            session.evaluated(loss);
            evaluated = Instant::now();
        }
        if saved.elapsed() >= SAVE_EVERY {
            folder.save(learner).map_err(Failed::Other)?;
            saved = Instant::now();
        }
    }
    Ok(())
}

enum Failed {
    Island(IslandError),
    Other(Failure),
}

impl From<IslandError> for Failed {
    fn from(error: IslandError) -> Self {
        Self::Island(error)
    }
}

fn explain(failed: Failed, folder: &Folder) -> Failure {
    match failed {
        Failed::Other(failure) => failure,
        Failed::Island(error @ IslandError::Diverged { .. }) => {
            let kept = match folder.checkpoint() {
                Some(path) => format!("the last good checkpoint is kept in {}", path.display()),
                None => "there was no checkpoint yet".into(),
            };
            Failure::new(format!("{error}; {kept}"))
                .hint("lower --learning-rate or raise --batch in a new folder")
        }
        Failed::Island(error) => error.into(),
    }
}

/// Makes a new folder and its island.
fn begin(options: &TrainOptions, folder: &Folder) -> Result<Learner, Failure> {
    if folder.is_taken() {
        let dir = options.island.dir.display();
        return Err(Failure::new(format!("{dir}: an island lives here already"))
            .hint("go on with it (--resume), or name another folder (--dir)"));
    }
    let mut genesis = genesis(options)?;
    let tokenizer = tokenizer(options, &genesis)?;
    let data = options.text.data.clone().unwrap_or_else(|| GENERATED.into());
    island::name_text(&mut genesis, &data, tokenizer.as_ref());
    genesis.validate()?;
    let settings = Settings {
        data,
        field: options.text.field.clone(),
        accumulate: options.accumulate.unwrap_or(1),
    };
    let used = match &tokenizer {
        Some(files) => files.tokenizer()?,
        None => Tokenizer::byte(),
    };
    // Everything that can be wrong with the input shows before the folder is an island's.
    let dataset =
        island::dataset(folder, &genesis, used, &settings.data, settings.field.as_deref())?;
    let learner = island::fresh(&genesis, &settings, &options.island, options.precision, &dataset)?;
    folder.create(&genesis, &settings, tokenizer.as_ref())?;
    Ok(learner)
}

/// The island of a folder, where it was.
fn resume(options: &TrainOptions, folder: &Folder) -> Result<Learner, Failure> {
    refuse_changes(options)?;
    let (genesis, settings) = folder.open()?;
    let data = options.text.data.as_deref().unwrap_or(&settings.data);
    let field = options.text.field.as_deref().or(settings.field.as_deref());
    let tokenizer = folder.tokenizer(&genesis)?;
    let dataset = island::dataset(folder, &genesis, tokenizer, data, field)?;
    let mut learner =
        island::fresh(&genesis, &settings, &options.island, options.precision, &dataset)?;
    if let Some(checkpoint) = folder.checkpoint() {
        learner.restore(&checkpoint)?;
    }
    Ok(learner)
}

/// What a run began with it goes on with.
fn refuse_changes(options: &TrainOptions) -> Result<(), Failure> {
    let given = [
        ("--model", options.model.is_some()),
        ("--genesis", options.genesis.is_some()),
        ("--tokenizer", options.tokenizer.is_some()),
        ("--batch", options.batch.is_some()),
        ("--sequence", options.sequence.is_some()),
        ("--accumulate", options.accumulate.is_some()),
        ("--learning-rate", options.learning_rate.is_some()),
        ("--schedule-tokens", options.schedule_tokens.is_some()),
        ("--optimiser", options.optimiser.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((name, _)) => Err(Failure::new(format!("{name} cannot change with --resume"))
            .hint("leave it out, or begin anew in another --dir")),
    }
}

/// The run that the options describe.
fn genesis(options: &TrainOptions) -> Result<Genesis, Failure> {
    if let Some(path) = &options.genesis {
        let text = std::fs::read_to_string(path).map_err(Failure::file(path))?;
        return Genesis::from_toml(&text)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())));
    }
    let name = options.model.as_deref().unwrap_or("nano");
    let model = Model::preset(name).ok_or_else(|| {
        Failure::new(format!("--model {name}: there is no such size"))
            .hint(&format!("use one of {}", PRESETS.join(", ")))
    })?;
    let mut genesis = Genesis::new(name, model);
    genesis.init_seed = options.seed;
    genesis.data.batch = options.batch.unwrap_or(genesis.data.batch);
    genesis.data.sequence = options.sequence.unwrap_or(genesis.data.sequence);
    if let Some(choice) = options.optimiser {
        genesis.inner.optimiser = choice.into();
    }
    // One island sees a fraction of what a swarm sees.
    genesis.schedule.peak = options.learning_rate.unwrap_or(LEARNING_RATE);
    genesis.schedule.total_tokens = options.schedule_tokens.unwrap_or(SCHEDULE_TOKENS);
    genesis.schedule.warmup_tokens = genesis.schedule.total_tokens / 100;
    Ok(genesis)
}

/// The run's schedule, over other tokens if given: whoever compares one island with a swarm lets
/// it run the whole course in the tokens that one island has.
fn schedule(schedule: &Schedule, tokens: Option<u64>) -> Schedule {
    let Some(tokens) = tokens.map(|it| it.max(1)) else { return *schedule };
    let scaled = u128::from(schedule.warmup_tokens) * u128::from(tokens)
        / u128::from(schedule.total_tokens.max(1));
    let warmup_tokens = u64::try_from(scaled).unwrap_or(u64::MAX).min(tokens);
    Schedule { total_tokens: tokens, warmup_tokens, ..*schedule }
}

/// The tokenizer that the options name; none if that is the one for bytes.
fn tokenizer(options: &TrainOptions, genesis: &Genesis) -> Result<Option<TokenizerFiles>, Failure> {
    let named = &genesis.data.tokenizer;
    match options.tokenizer.as_deref() {
        None | Some(BYTE) if named == BYTE => Ok(None),
        None | Some(BYTE) => Err(Failure::new(format!("the genesis has the tokenizer {named}"))
            .hint("give its file with --tokenizer")),
        Some(path) => {
            let files = TokenizerFiles::read(Path::new(path))?;
            files.check(&genesis.data)?;
            Ok(Some(files))
        }
    }
}

/// The first Ctrl-C asks for an orderly end, the second ends at once.
fn stop_on_interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let handler = move || {
        if asked.swap(true, Ordering::Relaxed) {
            #[expect(
                clippy::disallowed_methods,
                clippy::exit,
                reason = "who asks twice wants no more waiting"
            )]
            std::process::exit(130);
        }
        // Below the bar, which would be drawn over it.
        let below = if std::io::stderr().is_terminal() { "\n" } else { "" };
        eprintln!("{below}saving; press Ctrl-C again to stop at once");
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::new(error.to_string()))?;
    Ok(stop)
}

/// Highest learning rate of a lone island: small models on few tokens like it high.
const LEARNING_RATE: f32 = 3e-3;
/// Tokens over which a lone island's learning rate falls: a quarter of an hour of `nano`.
const SCHEDULE_TOKENS: u64 = 20_000_000;
/// A crash loses at most this.
const SAVE_EVERY: Duration = Duration::from_secs(60);
/// Often enough for a curve, seldom enough to cost little.
const EVALUATE_EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_rate_tokens_keep_the_shape_of_the_schedule() {
        let whole = Schedule { warmup_tokens: 50, total_tokens: 1000, ..Schedule::default() };
        assert_eq!(schedule(&whole, None), whole);
        let short = schedule(&whole, Some(100));
        assert_eq!((short.warmup_tokens, short.total_tokens, short.peak), (5, 100, whole.peak));
        assert_eq!(short.learning_rate(100), whole.learning_rate(1000));
        assert_eq!(schedule(&whole, Some(0)).total_tokens, 1);
        schedule(&whole, Some(u64::MAX)).learning_rate(7);
    }
}
