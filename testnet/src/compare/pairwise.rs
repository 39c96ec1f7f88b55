//! Pairwise gossip after NoLoCo (arXiv 2506.10911): no common state, only pairs that average.
//!
//! After every H steps the islands pair up at random. With `slow` the parameters that an island
//! last started from, `moved` how far it came since, and means over the pair:
//! `push = momentum * push + rate * mean(moved) + rate * (mean(slow) - slow)`, `slow += push`.

use anyhow::Result;
use atoll_node::island::Island;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::FragmentId;
use atoll_protocol::rng::Rng;

use super::scale::Scale;
use crate::central::Point;
use crate::lesson::Lesson;

struct Walker {
    island: Box<dyn Island>,
    slow: Vec<f32>,
    push: Vec<f32>,
}

impl Walker {
    fn new(lesson: &dyn Lesson, genesis: &Genesis, seed: u64, number: u64) -> Result<Self> {
        let mut island = lesson.island(seed, number)?;
        let slow = parameters(island.as_mut(), genesis)?;
        let push = vec![0.0; slow.len()];
        Ok(Self { island, slow, push })
    }

    /// Puts the island where its slow parameters are.
    fn start_over(&mut self, genesis: &Genesis) -> Result<()> {
        let mut rest = self.slow.as_slice();
        for fragment in (0..genesis.fragments).map(FragmentId) {
            self.island.change(fragment, &mut |part| {
                let (these, others) = rest.split_at(part.len());
                part.copy_from_slice(these);
                rest = others;
            })?;
        }
        Ok(())
    }
}

/// Trains so, and returns the mean loss of all islands' slow parameters and the bytes sent.
pub(super) fn learn(
    lesson: &dyn Lesson,
    genesis: &Genesis,
    scale: &Scale,
    seed: u64,
) -> Result<(Vec<Point>, u64)> {
    let walkers = (0..u64::from(scale.islands)).map(|it| Walker::new(lesson, genesis, seed, it));
    let mut walkers = walkers.collect::<Result<Vec<Walker>>>()?;
    let mut rng = Rng::new(seed);
    let (mut tokens, mut bytes) = (0, 0);
    let mut curve = vec![point(&mut walkers, tokens)?];
    for step in 1..=scale.steps {
        let rate = lesson.rate(tokens);
        for walker in &mut walkers {
            tokens += walker.island.step(rate)?.tokens;
        }
        if step.is_multiple_of(genesis.rounds.steps) {
            rng.shuffle(&mut walkers);
            for pair in walkers.chunks_mut(2) {
                bytes += average(pair, genesis)?;
            }
            for walker in &mut walkers {
                walker.start_over(genesis)?;
            }
            curve.push(point(&mut walkers, tokens)?);
        }
    }
    Ok((curve, bytes))
}

/// One exchange; returns its bytes: both send where they started and how far they came. Whoever
/// is left over by an odd number is its own partner, sends nothing, and keeps what it learnt.
fn average(pair: &mut [Walker], genesis: &Genesis) -> Result<u64> {
    let mut ends = Vec::new();
    for walker in &mut *pair {
        ends.push(parameters(walker.island.as_mut(), genesis)?);
    }
    let (Some(first), Some(last)) = (ends.first(), ends.last()) else { return Ok(0) };
    let members = pair.len() as u64;
    for index in 0..first.len() {
        let starts = [pair[0].slow[index], pair[pair.len() - 1].slow[index]];
        let moved = (first[index] - starts[0] + last[index] - starts[1]) / 2.0;
        for (walker, start) in pair.iter_mut().zip(starts) {
            let apart = (starts[0] + starts[1]) / 2.0 - start;
            let push = MOMENTUM * walker.push[index] + RATE * (moved + apart);
            walker.push[index] = push;
            walker.slow[index] = start + push;
        }
    }
    Ok(2 * 4 * members * (members - 1) * first.len() as u64)
}

fn parameters(island: &mut dyn Island, genesis: &Genesis) -> Result<Vec<f32>> {
    let mut all = Vec::new();
    for fragment in (0..genesis.fragments).map(FragmentId) {
        island.read(fragment, &mut |part| all.extend_from_slice(part))?;
    }
    Ok(all)
}

fn point(walkers: &mut [Walker], tokens: u64) -> Result<Point> {
    let count = walkers.len() as f64;
    let losses = walkers.iter_mut().map(|it| it.island.evaluate());
    let sum = losses.sum::<Result<f64, _>>()?;
    Ok(Point { tokens, loss: sum / count })
}

/// The paper's outer momentum and learning rate.
const MOMENTUM: f32 = 0.5;
const RATE: f32 = 0.7;
