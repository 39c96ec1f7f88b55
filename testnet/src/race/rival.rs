//! One member of a synchronous rival: a process that trains the same model in a ring with others.
//!
//! It prints one line for each exchange: how many steps it has taken, how long the last ones and
//! their exchange took, and now and then the held-out loss. The orchestrator reads member 0's.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use atoll_node::island::Island;
use atoll_node::island::cpu::Llama;
use atoll_node::island::data::{Dataset, Feed, Source, Tokenizer};
use atoll_node::island::layout::Layout;
use atoll_node::island::precision::Precision;
use atoll_node::island::shape::Shape;
use atoll_protocol::genesis::{Genesis, Model as Size};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::inner::Inner;
use super::ring::Ring;
use crate::compare::model::Model;
use crate::lesson::Lesson;
use crate::sim;

/// What a member is told.
#[derive(Clone, Debug, Args)]
pub struct Member {
    /// The run, as a genesis in TOML.
    #[arg(long)]
    pub genesis: PathBuf,
    /// How it trains.
    #[arg(long, value_enum)]
    pub kind: Kind,
    /// Its learning rate, where it is not the run's.
    #[arg(long)]
    pub peak: Option<f32>,
    /// Its number, from 0.
    #[arg(long)]
    pub number: usize,
    /// How many there are.
    #[arg(long)]
    pub members: usize,
    /// Where it listens.
    #[arg(long)]
    pub listen: SocketAddr,
    /// Where the next one does.
    #[arg(long)]
    pub next: SocketAddr,
    /// A step takes at least so long.
    #[arg(long, default_value_t = 0)]
    pub step_ms: u64,
    /// It ends after so many steps.
    #[arg(long)]
    pub steps: u64,
    /// Steps between measurements of the held-out loss; 0 for none.
    #[arg(long, default_value_t = 0)]
    pub evaluate_steps: u64,
}

/// How a rival trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// All gradients are averaged in every step.
    Parallel,
    /// Parameters are averaged every H steps, and an outer optimiser steps.
    Diloco,
}

/// What member 0 prints after each exchange.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Line {
    /// Steps taken.
    pub steps: u64,
    /// Seconds since the line before, measurements left out.
    pub seconds: f64,
    /// How much of that the exchange took.
    pub wire: f64,
    /// Held-out loss, if it was measured.
    pub loss: Option<f64>,
}

/// Trains until the steps are done or another member has gone.
pub fn run(member: &Member, out: &mut dyn Write) -> Result<()> {
    let text = std::fs::read_to_string(&member.genesis)
        .with_context(|| member.genesis.display().to_string())?;
    let genesis = Genesis::from_toml(&text)?;
    let listener = TcpListener::bind(member.listen).context("nowhere to listen")?;
    let elements = Layout::new(&genesis).elements();
    let ring = Ring::join(member.number, member.members, elements, &listener, member.next)
        .context("no ring")?;
    let peak = member.peak.unwrap_or(genesis.schedule.peak);
    let lesson = Model::new(&genesis, genesis.run_id(), peak, 1)?;
    let island = lesson.island(SEED, member.number as u64)?;
    let mut trainer: Box<dyn Trainer> = match member.kind {
        Kind::Parallel => Box::new(Parallel::new(&genesis, member.number, ring, island)?),
        Kind::Diloco => Box::new(Diloco::new(&genesis, ring, island)?),
    };
    let every = if member.kind == Kind::Parallel { 1 } else { u64::from(genesis.rounds.steps) };
    let batch = lesson.batch() * member.members as u64;
    let mut began = Instant::now();
    for step in 1..=member.steps {
        let stepped = Instant::now();
        trainer.step(lesson.rate((step - 1) * batch))?;
        let least = Duration::from_millis(member.step_ms);
        std::thread::sleep(least.saturating_sub(stepped.elapsed()));
        if !step.is_multiple_of(every) {
            continue;
        }
        let wire = Instant::now();
        trainer.exchange(lesson.rate((step - 1) * batch))?;
        let (seconds, wire) = (began.elapsed().as_secs_f64(), wire.elapsed().as_secs_f64());
        let measures = member.evaluate_steps > 0 && member.number == 0;
        let due = measures && step % member.evaluate_steps < every;
        let loss = if due { Some(trainer.evaluate()?) } else { None };
        writeln!(out, "{}", serde_json::to_string(&Line { steps: step, seconds, wire, loss })?)?;
        out.flush()?;
        began = Instant::now();
    }
    Ok(())
}

/// What the two kinds differ in.
trait Trainer {
    /// The part of a step that a member does by itself.
    fn step(&mut self, rate: f32) -> Result<()>;
    /// What all do together, after the last step of a round.
    fn exchange(&mut self, rate: f32) -> Result<()>;
    /// The held-out loss of what all share.
    fn evaluate(&mut self) -> Result<f64>;
}

/// Data-parallel: the gradient is averaged, and everybody takes the same step.
struct Parallel {
    layout: Layout,
    llama: Llama,
    feed: Feed,
    inner: Inner,
    ring: Ring,
    parameters: Vec<f32>,
    gradient: Vec<f32>,
    tokens: Vec<u32>,
    /// Only to measure.
    judge: Box<dyn Island>,
}

impl Parallel {
    fn new(genesis: &Genesis, number: usize, ring: Ring, judge: Box<dyn Island>) -> Result<Self> {
        let (Size::Llama { vocab, .. }, Some(shape)) = (genesis.model, Shape::of(&genesis.model))
        else {
            bail!("not a model of ours");
        };
        let layout = Layout::new(genesis);
        let source = Source::Generated { seed: genesis.init_seed };
        let nowhere = std::env::temp_dir();
        let dataset = Dataset::open(&source, Tokenizer::byte(), vocab, &nowhere, &mut |_| ())?;
        let (sequence, batch) = (genesis.data.sequence as usize, genesis.data.batch as usize);
        let node = sim::node_id(SEED, number);
        let feed = Feed::new(&Arc::new(dataset), &genesis.run_id(), &node, sequence, batch)?;
        Ok(Self {
            llama: Llama::new(shape, &layout, sequence, 1)?.in_precision(Precision::quickest()),
            feed,
            inner: Inner::new(&layout),
            ring,
            parameters: layout.initial(genesis),
            gradient: Vec::new(),
            tokens: Vec::new(),
            layout,
            judge,
        })
    }
}

impl Trainer for Parallel {
    fn step(&mut self, _: f32) -> Result<()> {
        self.feed.next(&mut self.tokens)?;
        self.llama.gradient(&self.parameters, &self.tokens);
        self.gradient = self.llama.gradients().mean();
        self.llama.gradients().clear();
        Ok(())
    }

    fn exchange(&mut self, rate: f32) -> Result<()> {
        self.ring.mean(&mut self.gradient).context("the ring broke")?;
        self.inner.step(&mut self.parameters, &mut self.gradient, rate);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<f64> {
        for (fragment, range) in self.layout.fragments() {
            let parameters = &self.parameters[range];
            self.judge.change(fragment, &mut |part| part.copy_from_slice(parameters))?;
        }
        Ok(self.judge.evaluate()?)
    }
}

/// Synchronous DiLoCo: everybody waits while the pseudo-gradient is averaged.
struct Diloco {
    genesis: Genesis,
    layout: Layout,
    ring: Ring,
    island: Box<dyn Island>,
    outer: Vec<f32>,
    momentum: Vec<f32>,
    moved: Vec<f32>,
}

impl Diloco {
    fn new(genesis: &Genesis, ring: Ring, island: Box<dyn Island>) -> Result<Self> {
        let layout = Layout::new(genesis);
        let outer = layout.initial(genesis);
        let momentum = vec![0.0; outer.len()];
        let moved = momentum.clone();
        let genesis = genesis.clone();
        Ok(Self { genesis, layout, ring, island, outer, momentum, moved })
    }
}

impl Trainer for Diloco {
    fn step(&mut self, rate: f32) -> Result<()> {
        self.island.step(rate)?;
        Ok(())
    }

    fn exchange(&mut self, _: f32) -> Result<()> {
        for (fragment, range) in self.layout.fragments() {
            let (outer, moved) = (&self.outer[range.clone()], &mut self.moved[range]);
            self.island.read(fragment, &mut |local| {
                for ((moved, outer), local) in moved.iter_mut().zip(outer).zip(local) {
                    *moved = outer - local;
                }
            })?;
        }
        self.ring.mean(&mut self.moved).context("the ring broke")?;
        let (eta, mu) = (self.genesis.outer.learning_rate, self.genesis.outer.momentum);
        let states = self.outer.iter_mut().zip(&mut self.momentum);
        for ((outer, momentum), moved) in states.zip(&self.moved) {
            *momentum = mu * *momentum + moved;
            *outer -= eta * (moved + mu * *momentum);
        }
        for (fragment, range) in self.layout.fragments() {
            let outer = &self.outer[range];
            self.island.change(fragment, &mut |part| part.copy_from_slice(outer))?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<f64> {
        // Called right after an exchange, when the island is where the outer parameters are.
        Ok(self.island.evaluate()?)
    }
}

/// Seed of the order of the data.
const SEED: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::genesis;

    /// Runs members on threads and gives what member 0 printed.
    fn train(kind: Kind, members: usize, steps: u64) -> Vec<Line> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("genesis.toml");
        let mut genesis = genesis::of("nano", 1, 4, "int4").unwrap();
        genesis.data.sequence = 16;
        std::fs::write(&file, genesis.to_toml()).unwrap();
        let ports: Vec<SocketAddr> = (0..members)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
            .collect();
        let member = |number: usize| Member {
            genesis: file.clone(),
            kind,
            peak: None,
            number,
            members,
            listen: ports[number],
            next: ports[(number + 1) % members],
            step_ms: 0,
            steps,
            evaluate_steps: 8,
        };
        let threads: Vec<_> = (0..members)
            .map(|number| {
                let member = member(number);
                std::thread::spawn(move || {
                    let mut out = Vec::new();
                    run(&member, &mut out).unwrap();
                    out
                })
            })
            .collect();
        let said: Vec<Vec<u8>> = threads.into_iter().map(|it| it.join().unwrap()).collect();
        let text = String::from_utf8(said[0].clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn both_kinds_learn_together() {
        for kind in [Kind::Parallel, Kind::Diloco] {
            let lines = train(kind, 2, 24);
            assert_eq!(lines.last().unwrap().steps, 24);
            assert_eq!(lines.len(), if kind == Kind::Parallel { 24 } else { 6 });
            let losses: Vec<f64> = lines.iter().filter_map(|line| line.loss).collect();
            assert_eq!(losses.len(), 3, "{lines:?}");
            assert!(losses[2] < losses[0] && losses[2] < 5.0, "{losses:?}");
        }
    }
}
