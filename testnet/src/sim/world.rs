//! The simulated world: all nodes on one event heap and one virtual clock.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use atoll_protocol::crypto::Key;
use atoll_protocol::engine::{FragmentStatus, Input, Output};
use atoll_protocol::frontier::Standing;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, FragmentId, NodeId};
use atoll_protocol::outer;
use atoll_protocol::rng::Rng;
use atoll_protocol::time::Time;

use super::agenda::{Agenda, Happening};
use super::control;
use super::link::Links;
use super::network::Held;
use super::node::{Known, Mind, Node, Task};
use super::observer::Observer;
use super::shared::Shared;
use super::tally::Tally;
use super::{Phase, Setup};
use crate::check::{self, Event, NodeIndex};
use crate::toy;

/// Everything there is, as checkers may see it.
#[derive(Debug)]
pub(super) struct World {
    pub(super) now: Time,
    pub(super) setup: Setup,
    pub(super) shared: Shared,
    pub(super) nodes: Vec<Node>,
    pub(super) by_id: BTreeMap<NodeId, Vec<NodeIndex>>,
    pub(super) links: Links,
    pub(super) agenda: Agenda,
    pub(super) rng: Rng,
    pub(super) tally: Tally,
    /// Messages that a clog holds back.
    pub(super) held: Vec<Held>,
    pub(super) healed: bool,
    /// Whether the islands have stopped.
    pub(super) quiet: bool,
    pub(super) over: bool,
    pub(super) first_loss: f64,
    /// The control's loss, once somebody has asked for it.
    pub(super) central_loss: OnceCell<Option<f64>>,
    /// What the swarm looked like when it was last asked, and since when.
    pub(super) stillness: (Vec<FragmentStatus>, Time),
}

/// A world with whoever watches it.
pub(super) struct Simulation<'t> {
    pub(super) world: World,
    pub(super) observer: Observer<'t>,
}

impl World {
    pub(super) fn new(setup: Setup) -> Self {
        let mut rng = Rng::new(setup.seed);
        let genesis = setup.genesis.clone();
        let lesson = setup
            .lesson
            .clone()
            .unwrap_or_else(|| Arc::new(toy::Toy::new(toy::Task::new(setup.task_seed), &genesis)));
        let shared = Shared::new(genesis, lesson, setup.planted, setup.threads);
        let nodes: Vec<Node> = setup
            .islands
            .iter()
            .map(|plan| Node::new(plan.clone(), key(setup.seed, plan.key), rng.fork()))
            .collect();
        let mut by_id: BTreeMap<NodeId, Vec<NodeIndex>> = BTreeMap::new();
        for (index, node) in nodes.iter().enumerate() {
            by_id.entry(node.id).or_default().push(index);
        }
        let links = Links::new(setup.links, nodes.len(), rng.fork());
        let mut agenda = Agenda::default();
        for (index, plan) in setup.islands.iter().enumerate() {
            agenda.plan(plan.starts_at, Happening::Start(index));
        }
        for (index, (at, _)) in setup.faults.iter().enumerate() {
            agenda.plan(*at, Happening::Fault(index));
        }
        agenda.plan(setup.heal_at, Happening::Heal);
        agenda.plan(setup.end_at, Happening::Quiesce);
        let first_loss = shared.loss(shared.initial.iter().map(Rc::as_ref));
        Self {
            now: Time(0),
            shared,
            nodes,
            by_id,
            links,
            agenda,
            rng,
            tally: Tally::default(),
            held: Vec::new(),
            healed: false,
            quiet: false,
            over: false,
            first_loss,
            central_loss: OnceCell::new(),
            stillness: (Vec::new(), Time(0)),
            setup,
        }
    }

    /// Whether `node` runs and is in that life.
    pub(super) fn lives(&self, node: NodeIndex, life: u64) -> bool {
        self.nodes[node].life == life && self.nodes[node].running.is_some()
    }

    /// A moment so many milliseconds from now.
    pub(super) fn soon(&mut self, low: u64, high: u64) -> Time {
        Time(self.now.0 + self.rng.range(low, high))
    }
}

/// The key with this number in the run of `seed`.
pub(super) fn key(seed: u64, number: usize) -> Key {
    let mut secret = [0x5a; 32];
    secret[..8].copy_from_slice(&seed.to_le_bytes());
    secret[8..16].copy_from_slice(&(number as u64).to_le_bytes());
    Key::from_secret(secret)
}

impl Simulation<'_> {
    /// Lets everything happen that is planned, until the run is over.
    pub(super) fn run(&mut self) {
        while !self.world.over && self.observer.violation.is_none() {
            let Some((at, happening)) = self.world.agenda.next() else { break };
            self.world.now = self.world.now.max(at);
            self.world.tally.events += 1;
            if self.world.tally.events > self.world.setup.events_max {
                let message = format!("more than {} events", self.world.setup.events_max);
                self.observer.phase = Phase::Liveness;
                self.observer.fail(at, "events", message);
                return;
            }
            self.dispatch(happening);
        }
    }

    fn dispatch(&mut self, happening: Happening) {
        match happening {
            Happening::Start(node) => self.start(node),
            Happening::Stop { node, life } if self.world.lives(node, life) => self.stop(node),
            Happening::CrashNow { node, life, torn } if self.world.lives(node, life) => {
                self.crash(node, torn);
            }
            Happening::Fault(index) => self.strike(index),
            Happening::Heal => self.heal(),
            Happening::Quiesce => self.quiesce(),
            Happening::Settle => self.settle(),
            Happening::Timer { node, life } if self.world.lives(node, life) => self.timer(node),
            Happening::LiarTimer { node, life } if self.world.lives(node, life) => {
                self.liar(node, |liar, now| liar.on_timer(now));
            }
            Happening::Step { node, life, left } if self.world.lives(node, life) => match left {
                0 => self.step(node),
                left => self.piece(node, left),
            },
            Happening::Durable { node, life } if self.world.lives(node, life) => {
                self.durable(node);
            }
            Happening::Checkpointed { node, life } if self.world.lives(node, life) => {
                self.world.nodes[node].disk.checkpoint_written();
            }
            Happening::Checked { node, life, payload, fragment }
                if self.world.lives(node, life) =>
            {
                self.check_payload(node, payload, fragment);
            }
            Happening::JobDone { node, life, fragment } if self.world.lives(node, life) => {
                self.job_done(node, fragment);
            }
            Happening::Deliver { from, to, packet, gossip } => {
                self.deliver(from, to, &packet, gossip);
            }
            Happening::Ask { request, holder } => self.ask(request, holder),
            Happening::Answer { request, bytes } => self.answer(request, bytes),
            Happening::GiveUp { request } => self.give_up(request),
            Happening::Look { node, peer } => self.look(node, peer),
            // Planned for an earlier life.
            _ => {}
        }
    }

    /// Gives an engine one input and does what it asks for, until it asks for nothing more.
    pub(super) fn input(&mut self, node: NodeIndex, input: Input) {
        if let Some(running) = &mut self.world.nodes[node].running {
            running.inbox.push_back(input);
        }
        self.work(node);
    }

    /// Executes a node's outputs and handles its inputs until a barrier or rest.
    pub(super) fn work(&mut self, node: NodeIndex) {
        while self.observer.violation.is_none() {
            let Some(running) = &mut self.world.nodes[node].running else { return };
            if let Some(task) = running.next_task() {
                self.execute(node, task);
            } else if let Some(input) = running.inbox.pop_front() {
                self.handle(node, input);
            } else {
                break;
            }
        }
        self.wake_island(node);
        self.arm(node);
    }

    fn handle(&mut self, node: NodeIndex, input: Input) {
        self.observer.see(&self.world, &Event::Input(node, &input));
        let now = self.world.now;
        let Some(running) = &mut self.world.nodes[node].running else { return };
        let local = running.clock.read(now);
        if let Input::Captured { fragment, .. } = &input {
            running.parts[fragment.index()].captures += 1;
        }
        if let Some(engine) = running.engine_mut() {
            engine.handle(local, input);
        }
        self.drain(node);
    }

    /// Takes all outputs, and binds adoptions to the head as the engine knows it now.
    pub(super) fn drain(&mut self, node: NodeIndex) {
        while let Some(output) = self.decide(node) {
            self.observer.see(&self.world, &Event::Decided(node, &output));
            let own = self.world.nodes[node].id;
            let Some(running) = &mut self.world.nodes[node].running else { return };
            let mut known = None;
            match &output {
                Output::Adopt { fragment, reissued, .. } => {
                    known = running.parts.get_mut(fragment.index()).map(|part| {
                        part.ownership.reissued(reissued);
                        Known {
                            head: part.head.clone(),
                            contained: part.ownership.contained(),
                            captures: part.captures,
                        }
                    });
                }
                Output::Persist(record) => {
                    for (part, fragment) in running.parts.iter_mut().zip(0..) {
                        part.ownership.persisted(record, own, FragmentId(fragment));
                    }
                }
                _ => {}
            }
            running.tasks.push_back(Task { output, known });
        }
    }

    fn decide(&mut self, node: NodeIndex) -> Option<Output> {
        self.world.nodes[node].running.as_mut()?.engine_mut()?.poll_output()
    }

    fn timer(&mut self, node: NodeIndex) {
        let now = self.world.now;
        let Some(running) = &mut self.world.nodes[node].running else { return };
        if running.timer != Some(now) {
            return;
        }
        running.timer = None;
        let local = running.clock.read(now);
        if let Some(engine) = running.engine_mut()
            && engine.poll_timeout().is_some_and(|deadline| deadline <= local)
        {
            engine.handle_timeout(local);
            self.observer.hash(now, node, b"timeout", &local.0.to_le_bytes());
            self.drain(node);
        }
        self.work(node);
    }

    /// Plans the engine's deadline, unless an earlier wake-up is planned already.
    fn arm(&mut self, node: NodeIndex) {
        let (now, life) = (self.world.now, self.world.nodes[node].life);
        let Some(running) = &mut self.world.nodes[node].running else { return };
        let Mind::Engine(engine) = &running.mind else { return };
        let Some(deadline) = engine.poll_timeout() else { return };
        // A deadline that is over already must not stop the clock.
        let at = running.clock.when(deadline).max(Time(now.0 + 1));
        if running.timer.is_none_or(|planned| at < planned) {
            running.timer = Some(at);
            self.world.agenda.plan(at, Happening::Timer { node, life });
        }
    }
}

impl check::World for World {
    fn now(&self) -> Time {
        self.now
    }

    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn node_id(&self, node: NodeIndex) -> NodeId {
        self.nodes[node].id
    }

    fn is_up(&self, node: NodeIndex) -> bool {
        self.nodes[node].running.is_some()
    }

    fn is_honest(&self, node: NodeIndex) -> bool {
        self.nodes[node].is_honest()
    }

    fn status(&self, node: NodeIndex, fragment: FragmentId) -> Option<FragmentStatus> {
        self.nodes[node].engine()?.status(fragment)
    }

    fn standing(&self, node: NodeIndex) -> Option<Standing> {
        Some(self.nodes[node].engine()?.standing())
    }

    fn genesis(&self) -> &Genesis {
        &self.shared.genesis
    }

    fn sizes(&self, node: NodeIndex) -> Vec<(&'static str, usize, usize)> {
        self.nodes[node].engine().map(|engine| engine.sizes()).unwrap_or_default()
    }

    fn trains(&self, node: NodeIndex) -> bool {
        self.nodes[node].plan.trains
    }

    fn conservation(&self, node: NodeIndex, fragment: FragmentId) -> Option<f64> {
        let island = self.nodes[node].running.as_ref()?.island.as_ref()?;
        // What is lost for good leaves the island without entering any version.
        let orphaned = self.nodes[node].engine()?.status(fragment)?.fates.orphaned;
        if orphaned > 0 { None } else { island.conservation(fragment) }
    }

    fn is_good(&self, node: NodeIndex, payload: ContentId, fragment: FragmentId) -> Option<bool> {
        let bytes = self.nodes[node].disk.content(&payload)?;
        let part = self.shared.fragments.get(fragment.index())?;
        let Genesis { codec, merge, .. } = &self.shared.genesis;
        Some(outer::check(bytes, *codec, part, merge.norm_max, self.shared.pool.as_ref()).is_ok())
    }

    fn loss(&self, node: NodeIndex) -> Option<f64> {
        let node = &self.nodes[node];
        node.running.as_ref()?;
        Some(self.shared.loss(self.shared.ids().filter_map(|fragment| node.head(fragment))))
    }

    fn first_loss(&self) -> Option<f64> {
        Some(self.first_loss)
    }

    fn central_loss(&self) -> Option<f64> {
        *self.central_loss.get_or_init(|| control::loss(self))
    }
}
