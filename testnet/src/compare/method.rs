//! Trains one variant with one seed.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use atoll_node::island::IslandError;
use atoll_node::island::exchange::ExchangeError;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::outer::CheckError;
use thiserror::Error;

use super::kept::Learnt;
use super::model::Model;
use super::pairwise;
use super::recorder::Recorder;
use super::scale::Scale;
use super::variant::{Method, Variant};
use super::weather::Weather;
use crate::central::{self, Plan, Point};
use crate::check::{self, Checker};
use crate::lesson::Lesson;
use crate::sim;

/// Trains `variant`. That training left the numbers is something learnt, too.
pub(super) fn learn(scale: &Scale, variant: &Variant, seed: u64) -> Result<Learnt> {
    let began = Instant::now();
    let (mut curve, sent) = match train(scale, variant, seed) {
        Err(error) if left_the_numbers(&error) => (Vec::new(), 0),
        ended => ended?,
    };
    let last = curve.last().copied();
    let loss = last.map(|point| point.loss).filter(|loss| loss.is_finite());
    let tokens = last.map_or(0, |point| point.tokens);
    curve.retain(|point| point.loss.is_finite());
    Ok(Learnt { loss, tokens, bytes: sent, curve, seconds: began.elapsed().as_secs_f64() })
}

fn train(scale: &Scale, variant: &Variant, seed: u64) -> Result<(Vec<Point>, u64)> {
    let (genesis, scale) = (variant.genesis(scale, seed), variant.scale(scale));
    let batches = if variant.method == Method::EveryStep { usize::from(scale.islands) } else { 1 };
    let text = scale.genesis(seed).run_id();
    let model = Model::in_pieces(&genesis, text, variant.peak, batches, variant.pieces)?;
    let lesson: Arc<dyn Lesson> = Arc::new(model);
    match variant.method {
        Method::OneIsland => {
            Ok((alone(lesson.as_ref(), &scale, u64::from(scale.islands), seed)?, 0))
        }
        Method::EveryStep => {
            // What is left of a ring's traffic when every island sends and receives at once.
            let gradients = 2 * 2 * (u64::from(scale.islands) - 1) * parameters(&genesis);
            Ok((alone(lesson.as_ref(), &scale, 1, seed)?, u64::from(scale.steps) * gradients))
        }
        Method::Central => diloco(lesson.as_ref(), &genesis, &scale, variant.delay, seed),
        Method::Pairwise => pairwise::learn(lesson.as_ref(), &genesis, &scale, seed),
        Method::Swarm(weather) => swarm(weather, &lesson, &genesis, &scale, seed),
    }
}

/// An island of a simulated swarm left the numbers.
#[derive(Debug, Error)]
#[error("{0}")]
struct Diverged(String);

fn left_the_numbers(error: &anyhow::Error) -> bool {
    let island = |it: &IslandError| matches!(it, IslandError::Diverged { .. });
    let exchange = |it: &ExchangeError| match it {
        ExchangeError::NotFinite(_) => true,
        ExchangeError::Island(error) => island(error),
        ExchangeError::Payload(_) => false,
    };
    let check = |it: &CheckError| matches!(it, CheckError::NotFinite | CheckError::TooLarge { .. });
    error.is::<Diverged>()
        || error.downcast_ref().is_some_and(island)
        || error.downcast_ref().is_some_and(exchange)
        || error.downcast_ref().is_some_and(check)
}

/// One island by itself. `swarm` is how many like it the schedule counts on.
fn alone(lesson: &dyn Lesson, scale: &Scale, swarm: u64, seed: u64) -> Result<Vec<Point>> {
    let mut island = lesson.island(seed, 0)?;
    let mut curve = vec![Point { tokens: 0, loss: island.evaluate()? }];
    let mut tokens = 0;
    for step in 1..=scale.steps {
        tokens += island.step(lesson.rate(tokens * swarm))?.tokens;
        if step.is_multiple_of(POINT_STEPS) || step == scale.steps {
            curve.push(Point { tokens, loss: island.evaluate()? });
        }
    }
    Ok(curve)
}

fn diloco(
    lesson: &dyn Lesson,
    genesis: &Genesis,
    scale: &Scale,
    delay: u32,
    seed: u64,
) -> Result<(Vec<Point>, u64)> {
    let rounds = scale.steps / genesis.rounds.steps;
    let plan = Plan { islands: scale.islands, rounds, seed, staggered: true, delay };
    let outcome = central::central(lesson, genesis, &plan)?;
    Ok((outcome.curve, outcome.bytes))
}

fn swarm(
    weather: Weather,
    lesson: &Arc<dyn Lesson>,
    genesis: &Genesis,
    scale: &Scale,
    seed: u64,
) -> Result<(Vec<Point>, u64)> {
    let setup = weather.setup(genesis.clone(), lesson.clone(), scale, seed);
    let (recorder, curve) = Recorder::new();
    let checkers: Vec<Box<dyn Checker>> =
        vec![Box::new(check::Agreement::default()), Box::new(recorder)];
    let outcome = sim::run(setup, checkers, None);
    match outcome.violation {
        Some(violation) if violation.checker == ISLAND && violation.message.contains(DIVERGED) => {
            bail!(Diverged(violation.message))
        }
        Some(violation) => bail!("{}: {}", violation.checker, violation.message),
        None => {}
    }
    let tokens = outcome.fates.merged / u64::from(genesis.fragments.max(1));
    if tokens == 0 {
        // Whoever goes astray is refused by the others: then the outer state never moves.
        bail!(Diverged("no contribution was ever merged".into()));
    }
    let mut points = vec![Point { tokens: 0, loss: outcome.loss_first }];
    points.extend(curve.take().into_iter().filter(|point| point.tokens < tokens));
    points.push(Point { tokens, loss: outcome.loss_last });
    Ok((points, outcome.message_bytes + outcome.content_bytes))
}

fn parameters(genesis: &Genesis) -> u64 {
    genesis.tensors.iter().map(|tensor| tensor.elements() as u64).sum()
}

/// Steps between points of a curve.
const POINT_STEPS: u32 = 24;
/// What the simulator says of an island that failed, and what [`IslandError::Diverged`] says.
const ISLAND: &str = "island";
const DIVERGED: &str = "training left the numbers";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::section::{self, CALM, Section};

    #[test]
    fn every_way_learns_with_an_odd_number_of_islands() {
        let scale = Scale { islands: 3, steps: 72, ..Scale::quick() };
        for variant in section::variants(&[Section::Ways], &[], &[]) {
            let learnt = learn(&scale, &variant, 1).unwrap();
            let (first, last) = (learnt.curve[0].loss, learnt.loss.unwrap());
            assert!(last < first - 0.5, "{}: {last} from {first}", variant.name);
            assert!(learnt.tokens > 0, "{}", variant.name);
        }
    }

    #[test]
    fn training_that_leaves_the_numbers_is_no_error() {
        let scale = Scale { islands: 2, steps: 96, ..Scale::quick() };
        for method in [Method::EveryStep, Method::Central, Method::Pairwise, CALM] {
            let new = Variant::new(Section::Own, "far too fast", method);
            let learnt = learn(&scale, &Variant { peak: 1e30, span: 4, ..new }, 1).unwrap();
            assert_eq!(learnt.loss, None, "{method:?}");
            assert!(learnt.curve.iter().all(|point| point.loss.is_finite()));
        }
    }
}
