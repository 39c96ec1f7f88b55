//! Trains one variant with one seed.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use atoll_protocol::genesis::Genesis;

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

/// Trains `variant`.
pub(super) fn learn(scale: &Scale, variant: &Variant, seed: u64) -> Result<Learnt> {
    let began = Instant::now();
    let (genesis, scale) = (variant.genesis(scale, seed), variant.scale(scale));
    let batches = if variant.method == Method::EveryStep { usize::from(scale.islands) } else { 1 };
    let lesson: Arc<dyn Lesson> =
        Arc::new(Model::new(&scale.genesis(seed), variant.peak, batches)?);
    let (curve, sent) = match variant.method {
        Method::OneIsland => (alone(lesson.as_ref(), &scale, u64::from(scale.islands), seed)?, 0),
        Method::EveryStep => {
            // What is left of a ring's traffic when every island sends and receives at once.
            let gradients = 2 * 2 * (u64::from(scale.islands) - 1) * parameters(&genesis);
            (alone(lesson.as_ref(), &scale, 1, seed)?, u64::from(scale.steps) * gradients)
        }
        Method::Central => diloco(lesson.as_ref(), &genesis, &scale, seed)?,
        Method::Pairwise => pairwise::learn(lesson.as_ref(), &genesis, &scale, seed)?,
        Method::Swarm(weather) => swarm(weather, &lesson, &genesis, &scale, seed)?,
    };
    let Some(Point { tokens, loss }) = curve.last().copied() else { bail!("nothing was learnt") };
    if !loss.is_finite() {
        bail!("the loss is no number any more");
    }
    Ok(Learnt { loss, tokens, bytes: sent, curve, seconds: began.elapsed().as_secs_f64() })
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
    seed: u64,
) -> Result<(Vec<Point>, u64)> {
    let rounds = scale.steps / genesis.rounds.steps;
    let plan = Plan { islands: scale.islands, rounds, seed, staggered: true };
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
    let setup = weather.setup(genesis.clone(), lesson.clone(), scale.islands, scale.steps, seed);
    let (recorder, curve) = Recorder::new();
    let checkers: Vec<Box<dyn Checker>> =
        vec![Box::new(check::Agreement::default()), Box::new(recorder)];
    let outcome = sim::run(setup, checkers, None);
    if let Some(violation) = outcome.violation {
        bail!("{}: {}", violation.checker, violation.message);
    }
    let tokens = outcome.fates.merged / u64::from(genesis.fragments.max(1));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::variant;
    use crate::compare::{Section, scale::Size};

    #[test]
    fn every_way_learns() {
        let scale = Scale { size: Size::Pico, islands: 3, steps: 72, seeds: 1 };
        for variant in variant::of(&[Section::Ways], &scale) {
            let learnt = learn(&scale, &variant, 1).unwrap();
            let first = learnt.curve[0].loss;
            assert!(learnt.loss < first - 0.5, "{}: {} from {first}", variant.name, learnt.loss);
            assert!(learnt.tokens > 0, "{}", variant.name);
        }
    }
}
