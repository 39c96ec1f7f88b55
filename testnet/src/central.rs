//! The control: the same islands and the same arithmetic in one central place.
//!
//! Nothing is late, lost or folded anew: every round of every fragment merges what every island
//! trained in exactly H steps, and every island adopts the new version at once, or, to see what
//! that alone costs, some steps later. A swarm that does as well with as many tokens has lost
//! nothing by having no centre.

use anyhow::Result;
use atoll_node::island::Island;
use atoll_node::island::exchange::Exchange;
use atoll_protocol::fragment::Fragment;
use atoll_protocol::genesis::{Genesis, Rounds};
use atoll_protocol::outer::{Member, OuterState, check, merge, step};
use atoll_protocol::pool::Inline;
use serde::{Deserialize, Serialize};

use crate::lesson::Lesson;

/// What a control is asked to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Number of islands.
    pub islands: u16,
    /// Rounds of every fragment.
    pub rounds: u32,
    /// Seed of the data order.
    pub seed: u64,
    /// Whether the fragments are captured in turn, spread evenly over H as in a swarm, or all
    /// at the same step.
    pub staggered: bool,
    /// Steps that every island takes between a capture and the adoption of what came of it.
    pub delay: u32,
}

/// How a control went.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The loss of the outer parameters: at the beginning, and after each round.
    pub curve: Vec<Point>,
    /// The last of these losses.
    pub loss: f64,
    /// Tokens trained by all islands.
    pub tokens: u64,
    /// Bytes that the islands and the centre sent.
    pub bytes: u64,
}

/// One point of a loss curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Tokens trained by all islands so far.
    pub tokens: u64,
    /// Held-out loss.
    pub loss: f64,
}

/// Trains `genesis` in one place.
///
/// # Errors
///
/// If the parameters are no longer finite, or a payload is above the genesis' norm.
pub fn central(lesson: &dyn Lesson, genesis: &Genesis, plan: &Plan) -> Result<Outcome> {
    let mut centre = Centre::new(lesson, genesis, plan)?;
    let fragments = centre.fragments.len();
    let mut curve = vec![centre.point()];
    while centre.closed < plan.rounds {
        centre.train()?;
        for fragment in 0..fragments {
            if centre.is_due(fragment, plan) {
                centre.close(genesis, fragment)?;
                centre.adopt_at[fragment] = centre.steps + plan.delay;
            }
            if centre.adopt_at[fragment] == centre.steps {
                centre.adopt(fragment)?;
            }
        }
        let closed = centre.states.iter().map(OuterState::version).min().unwrap_or(plan.rounds);
        if closed > centre.closed {
            centre.closed = closed;
            curve.push(centre.point());
        }
    }
    let loss = curve.last().map_or(f64::NAN, |point| point.loss);
    Ok(Outcome { curve, loss, tokens: centre.tokens, bytes: centre.bytes })
}

/// A curve's loss at so many tokens, between its points on a straight line.
pub fn loss_at(curve: &[Point], tokens: u64) -> Option<f64> {
    let after = curve.iter().position(|point| point.tokens >= tokens);
    let Some(after) = after else { return curve.last().map(|point| point.loss) };
    let (Some(before), Some(point)) = (after.checked_sub(1), curve.get(after)) else {
        return curve.first().map(|point| point.loss);
    };
    let before = &curve[before];
    #[expect(clippy::cast_precision_loss, reason = "token counts of a toy fit 53 bits")]
    let share = (tokens - before.tokens) as f64 / (point.tokens - before.tokens).max(1) as f64;
    Some(before.loss + share * (point.loss - before.loss))
}

/// The one place where everything is known.
struct Centre<'l> {
    lesson: &'l dyn Lesson,
    fragments: Vec<Fragment>,
    states: Vec<OuterState>,
    islands: Vec<Learning>,
    rounds: Rounds,
    /// Steps that every island has taken.
    steps: u32,
    tokens: u64,
    bytes: u64,
    /// Rounds that every fragment has closed.
    closed: u32,
    /// The step after which each fragment's newest version is adopted.
    adopt_at: Vec<u32>,
}

struct Learning {
    island: Box<dyn Island>,
    exchange: Exchange,
    /// Tokens trained since the last capture of each fragment.
    fresh_tokens: Vec<u64>,
}

impl<'l> Centre<'l> {
    fn new(lesson: &'l dyn Lesson, genesis: &Genesis, plan: &Plan) -> Result<Self> {
        let fragments = genesis.fragment_map().fragments().to_vec();
        let states: Vec<OuterState> = fragments
            .iter()
            .map(|fragment| OuterState::new(fragment.id, &genesis.initial(fragment)))
            .collect();
        let mut islands = Vec::new();
        for number in 0..plan.islands {
            let mut island = lesson.island(plan.seed, u64::from(number))?;
            let exchange = Exchange::new(island.as_mut(), genesis.fragments, genesis.codec)?;
            let fresh_tokens = vec![0; states.len()];
            islands.push(Learning { island, exchange, fresh_tokens });
        }
        let rounds = genesis.rounds;
        let (steps, tokens, bytes, closed) = (0, 0, 0, 0);
        let adopt_at = vec![0; states.len()];
        Ok(Self {
            lesson,
            fragments,
            states,
            islands,
            rounds,
            steps,
            tokens,
            bytes,
            closed,
            adopt_at,
        })
    }

    /// One inner step of every island.
    fn train(&mut self) -> Result<()> {
        self.steps += 1;
        let rate = self.lesson.rate(self.tokens);
        for Learning { island, fresh_tokens, .. } in &mut self.islands {
            let tokens = island.step(rate)?.tokens;
            fresh_tokens.iter_mut().for_each(|fresh| *fresh += tokens);
            self.tokens += tokens;
        }
        Ok(())
    }

    /// Whether every island has taken H steps since the last capture of a fragment; in a staggered
    /// plan the first round of the earlier fragments is shorter.
    fn is_due(&self, fragment: usize, plan: &Plan) -> bool {
        let (version, steps) = (self.states[fragment].version(), self.rounds.steps);
        let first = match plan.staggered {
            true => self.rounds.first_steps(self.fragments[fragment].id, self.fragments.len()),
            false => steps,
        };
        version < plan.rounds && self.steps == first + version * steps
    }

    /// Closes the next round of a fragment: capture everywhere, merge, step.
    fn close(&mut self, genesis: &Genesis, index: usize) -> Result<()> {
        let fragment = &self.fragments[index];
        let mut contributions = Vec::with_capacity(self.islands.len());
        for Learning { island, exchange, fresh_tokens } in &mut self.islands {
            let payload = exchange.capture(island.as_mut(), fragment.id, &Inline)?;
            let norms = check(&payload, genesis.codec, fragment, genesis.merge.norm_max, &Inline)?;
            let tokens = std::mem::take(&mut fresh_tokens[index]);
            // There as a payload, and back as the new parameters.
            self.bytes += (payload.len() + 4 * fragment.elements) as u64;
            contributions.push((tokens, payload, norms));
        }
        let members: Vec<Member<'_>> = contributions
            .iter()
            .map(|(tokens, payload, norms)| Member { tokens: *tokens, payload, norms })
            .collect();
        let merged = merge(fragment, &genesis.merge, genesis.codec, &members, &Inline)?;
        step(&mut self.states[index], &genesis.outer, &merged, &Inline);
        Ok(())
    }

    /// Every island adopts the newest version of a fragment.
    fn adopt(&mut self, index: usize) -> Result<()> {
        let (fragment, outer) = (self.fragments[index].id, self.states[index].params());
        for Learning { island, exchange, .. } in &mut self.islands {
            exchange.adopt(island.as_mut(), fragment, outer, &[], &[], &Inline)?;
        }
        Ok(())
    }

    fn point(&self) -> Point {
        let states: Vec<&OuterState> = self.states.iter().collect();
        Point { tokens: self.tokens, loss: self.lesson.loss(&states) }
    }
}

#[cfg(test)]
mod tests {
    use atoll_protocol::codec::Codec;

    use super::*;
    use crate::toy::{LEARNING_RATE, Layout, Learner, Task, Toy, shard};

    #[test]
    fn a_curve_is_read_between_its_points() {
        let point = |tokens, loss| Point { tokens, loss };
        let curve = [point(0, 4.0), point(100, 3.0), point(200, 2.5)];
        assert_eq!(loss_at(&curve, 0), Some(4.0));
        assert_eq!(loss_at(&curve, 50), Some(3.5));
        assert_eq!(loss_at(&curve, 150), Some(2.75));
        assert_eq!(loss_at(&curve, 900), Some(2.5));
        assert_eq!(loss_at(&[], 5), None);
    }

    #[test]
    fn islands_together_beat_an_island_alone() {
        let (task, genesis) = toy(1, Codec::Int4);
        let together = learn(&task, &genesis, &plan(8, 0));
        let alone = alone(&task, &genesis, 30 * genesis.rounds.steps);
        let begin = together.curve[0].loss;
        assert!(together.loss < begin - 0.6, "{} from {begin}", together.loss);
        assert!(together.loss < alone * 0.98, "{} against {alone}", together.loss);
        assert!(together.loss > task.floor());
        assert_eq!(together.curve.len(), 31);
        assert_eq!(together.tokens, 8 * 30 * 8 * 32);
    }

    #[test]
    fn the_order_of_the_data_hardly_matters() {
        let (task, genesis) = toy(2, Codec::Int4);
        let losses = [1, 2, 3].map(|seed| learn(&task, &genesis, &plan(8, seed)).loss);
        assert!(losses.iter().all(|loss| (loss / losses[0] - 1.0).abs() < 0.005), "{losses:?}");
        assert_ne!(losses[0], losses[1]);
    }

    #[test]
    fn stagger_and_codec_hardly_matter() {
        let (task, genesis) = toy(3, Codec::F32);
        let plain = learn(&task, &genesis, &plan(8, 0));
        let (_, genesis) = toy(3, Codec::Int4);
        let staggered = Plan { staggered: true, ..plan(8, 0) };
        let staggered = learn(&task, &genesis, &staggered);
        assert!((staggered.loss / plain.loss - 1.0).abs() < 0.005);
        // The last of the fragments closes its last round when all do in the plain run.
        assert_eq!(staggered.tokens, plain.tokens);
    }

    #[test]
    fn a_late_adoption_loses_nothing_and_costs_a_little() {
        let (task, genesis) = toy(5, Codec::Int4);
        let [at_once, late] =
            [0, 3].map(|delay| learn(&task, &genesis, &Plan { delay, ..plan(8, 0) }));
        assert_eq!(late.tokens, at_once.tokens);
        assert_ne!(late.loss, at_once.loss);
        assert!((late.loss / at_once.loss - 1.0).abs() < 0.02, "{} {}", late.loss, at_once.loss);
    }

    #[test]
    fn equal_plans_give_equal_bits() {
        let (task, genesis) = toy(4, Codec::Int4);
        let few = Plan { rounds: 3, ..plan(3, 7) };
        assert_eq!(learn(&task, &genesis, &few), learn(&task, &genesis, &few));
    }

    fn toy(seed: u64, codec: Codec) -> (Task, Genesis) {
        let task = Task::new(seed);
        let mut genesis = Genesis::custom("toy", task.tensors());
        genesis.rounds.steps = 8;
        genesis.fragments = 4;
        genesis.codec = codec;
        (task, genesis)
    }

    fn plan(islands: u16, seed: u64) -> Plan {
        Plan { islands, rounds: 30, seed, staggered: false, delay: 0 }
    }

    fn learn(task: &Task, genesis: &Genesis, plan: &Plan) -> Outcome {
        central(&Toy::new(task.clone(), genesis), genesis, plan).unwrap()
    }

    /// The loss of one island that trains by itself, without rounds.
    fn alone(task: &Task, genesis: &Genesis, steps: u32) -> f64 {
        let mut params = Layout::new(genesis).initial(genesis, &genesis.fragment_map());
        let mut learner = Learner::new(task, shard(0, 0));
        for _ in 0..steps {
            learner.step(task, &mut params, LEARNING_RATE);
        }
        task.loss(&params)
    }
}
