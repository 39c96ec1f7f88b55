//! Starts, stops, planned faults, healing and the end of a run.

use std::collections::{BTreeMap, VecDeque};

use atoll_node::island::IslandError;
use atoll_protocol::engine::{Command, Engine, EngineConfig, FragmentStatus, Input, Output};
use atoll_protocol::id::FragmentId;
use atoll_protocol::outer::{Budget, Fold};
use atoll_protocol::rng::Rng;
use atoll_protocol::time::Time;

use super::agenda::Happening;
use super::byzantine;
use super::clock::Clock;
use super::island::Island;
use super::node::{Mind, Part, Running};
use super::ownership::Ownership;
use super::packet::Seen;
use super::world::{Simulation, World};
use super::{FaultEvent, Phase, Role};
use crate::check::{Event, NodeIndex};

impl World {
    /// Counts what a liar did of its attack since this was last called.
    pub(super) fn count_attacks(&mut self, node: NodeIndex) {
        let state = &mut self.nodes[node];
        if let Role::Liar(attack) = state.plan.role
            && let Some(Running { mind: Mind::Liar(liar), .. }) = &mut state.running
        {
            *self.tally.faults.entry(attack.name()).or_default() += liar.attacks();
        }
    }

    /// An engine from what the disk holds, or a liar.
    fn mind(&mut self, node: NodeIndex, local: Time) -> Mind {
        let seed = self.nodes[node].rng.next_u64();
        let incarnation = self.nodes[node].disk.start();
        let state = &self.nodes[node];
        let genesis = self.shared.genesis.clone();
        let fragments: Vec<FragmentId> = self.shared.ids().collect();
        let founded = self.setup.seed.is_multiple_of(FOUNDED_EVERY);
        match state.plan.role {
            Role::Honest => {
                let resumed = state.disk.checkpoint().map(|checkpoint| Island::resumed(checkpoint));
                let config = EngineConfig {
                    genesis,
                    initial: self.shared.initial_digests.clone(),
                    key: state.key.clone(),
                    incarnation,
                    seed,
                    trains: state.plan.trains,
                    founds: founded && node == 0 && incarnation == 1,
                    sponsor: (founded && node > 0).then(|| self.nodes[0].id),
                    resumed: resumed.unwrap_or_default(),
                    lost: state.disk.missing(),
                    signed: state.disk.unrecorded(state.id, &fragments),
                    planted: self.shared.planted,
                };
                Mind::Engine(Box::new(Engine::new(config, state.disk.records().to_vec(), local)))
            }
            Role::Liar(attack) => {
                let others = self.by_id.keys().copied().filter(|id| *id != state.id).collect();
                let key = state.key.clone();
                let task_seed = self.setup.task_seed;
                let part = byzantine::Part { attack, key, genesis, others, task_seed, seed };
                Mind::Liar((self.setup.cast)(part))
            }
        }
    }

    /// A fragment's data plane, from the base that the engine's records speak of.
    fn part(&self, node: NodeIndex, mind: &Mind, fragment: FragmentId) -> Result<Part, String> {
        let state = &self.nodes[node];
        let initial = self.shared.initial_digests[fragment.index()];
        let digest = match mind {
            Mind::Engine(engine) => engine.status(fragment).map(|status| status.base_digest),
            Mind::Liar(_) => None,
        };
        let base = match digest.filter(|digest| *digest != initial) {
            None => self.shared.initial[fragment.index()].clone(),
            Some(digest) => state
                .disk
                .base(&digest)
                .cloned()
                .ok_or_else(|| format!("node {node} lost base {digest} of {fragment}"))?,
        };
        let shape = self.shared.fragments[fragment.index()].clone();
        Ok(Part {
            head: base.params().into(),
            fold: Fold::new(shape, &self.shared.genesis, base.as_ref().clone(), self.budget(node)),
            ownership: Ownership::restore(
                state.ownerships.get(fragment.index()),
                state.disk.records(),
                state.disk.lost(),
                state.id,
                fragment,
            ),
            cut_tokens: 0,
            captures: 0,
            jobs: VecDeque::new(),
        })
    }

    /// The memory of a node's folds: any, as it must not change a bit. It has a generator of its
    /// own, so that nothing else is drawn differently.
    fn budget(&self, node: NodeIndex) -> Budget {
        let copies = Rng::new(self.setup.seed ^ node as u64)
            .range(Budget::LEAST.copies() as u64, Budget::AMPLE.copies() as u64);
        Budget::of_copies(usize::try_from(copies).expect("a few dozen"))
    }

    /// The island, as the checkpoint and the engine's records have it.
    fn island(
        &self,
        node: NodeIndex,
        mind: &Mind,
        parts: &[Part],
    ) -> Result<Option<Island>, IslandError> {
        let Mind::Engine(engine) = mind else { return Ok(None) };
        let state = &self.nodes[node];
        if !state.plan.trains {
            return Ok(None);
        }
        let mut island = Island::new(&self.shared, self.setup.seed, node as u64)?;
        let last_capture = |fragment| engine.status(fragment).and_then(|it| it.last_capture);
        let issued = |fragment: FragmentId| parts[fragment.index()].ownership.issued();
        island.restore(&self.shared, &state.disk, state.id, last_capture, issued)?;
        Ok(Some(island))
    }

    /// Where every running honest node stands.
    fn standings(&self) -> Vec<FragmentStatus> {
        let engines = self.nodes.iter().filter_map(|node| node.engine());
        engines
            .flat_map(|engine| self.shared.ids().filter_map(|fragment| engine.status(fragment)))
            .collect()
    }
}

impl Simulation<'_> {
    /// Starts a node, if it does not run.
    pub(super) fn start(&mut self, node: NodeIndex) {
        if self.world.nodes[node].running.is_some() {
            return;
        }
        self.count_start(node);
        let now = self.world.now;
        self.world.nodes[node].life += 1;
        self.world.nodes[node].left = false;
        // A monotonic clock begins anywhere; it only promises not to go back while it runs.
        let local = Time(self.world.nodes[node].rng.below(1_000_000));
        let clock = Clock::new(now, local, self.world.nodes[node].clock_permille);
        let mind = self.world.mind(node, local);
        let fragments = self.world.shared.ids();
        let parts: Result<Vec<Part>, String> =
            fragments.map(|fragment| self.world.part(node, &mind, fragment)).collect();
        let parts = match parts {
            Ok(parts) => parts,
            Err(message) => {
                self.observer.fail(now, "driver", message);
                return;
            }
        };
        let island = match self.world.island(node, &mind, &parts) {
            Ok(island) => island,
            Err(error) => {
                self.observer.fail(now, "island", format!("island {node}: {error}"));
                return;
            }
        };
        self.world.nodes[node].running = Some(Running {
            mind,
            clock,
            timer: None,
            inbox: VecDeque::new(),
            tasks: VecDeque::new(),
            barrier: false,
            parts,
            island,
            stepping: false,
            connected: BTreeMap::new(),
            penalties: BTreeMap::new(),
            seen: Seen::default(),
            receipts: BTreeMap::new(),
            receipt: 0,
            fetches: BTreeMap::new(),
            fetch: 0,
        });
        self.observer.see(&self.world, &Event::Started(node));
        self.drain(node);
        self.work(node);
        self.liar(node, |liar, now| liar.on_start(now));
        self.look_around(node, 10, 300);
    }

    fn count_start(&mut self, node: NodeIndex) {
        let state = &self.world.nodes[node];
        let twins = self.world.by_id.get(&state.id).map_or(&[][..], Vec::as_slice);
        let twin = twins.iter().any(|twin| self.world.nodes[*twin].running.is_some());
        let name = match (state.life, state.left) {
            (0, _) if twin => "two nodes with one key",
            (0, _) if state.plan.starts_at > Time(0) => "join",
            (0, _) => return,
            (_, true) => "return",
            (_, false) => "restore",
        };
        self.world.tally.fault(name);
    }

    /// Stops a node at once.
    pub(super) fn crash(&mut self, node: NodeIndex, torn: bool) {
        let state = &mut self.world.nodes[node];
        let in_write = state.disk.is_writing();
        let mut rng = state.rng.fork();
        let torn = state.disk.crash(state.id, torn.then_some(&mut rng));
        self.world.tally.fault("crash");
        if in_write {
            self.world.tally.fault("crash in a write");
        }
        if torn {
            self.world.tally.fault("torn write");
        }
        self.end_life(node);
        if self.world.healed {
            let at = self.world.soon(10, 500);
            self.world.agenda.plan(at, Happening::Start(node));
        }
    }

    /// Stops a node in good order.
    pub(super) fn stop(&mut self, node: NodeIndex) {
        let state = &mut self.world.nodes[node];
        let island = state.running.as_ref().and_then(|running| running.island.as_ref());
        match island.map(Island::checkpoint).transpose() {
            Ok(checkpoint) => checkpoint.into_iter().for_each(|it| state.disk.write_checkpoint(it)),
            Err(error) => {
                self.observer.fail(self.world.now, "island", format!("island {node}: {error}"));
            }
        }
        state.disk.flush();
        // What nobody refers to is gone after any stop.
        state.disk.crash(state.id, None);
        self.end_life(node);
    }

    fn end_life(&mut self, node: NodeIndex) {
        let state = &mut self.world.nodes[node];
        if let Some(running) = state.running.take() {
            let unwritten = running.tasks.into_iter().filter_map(|task| match task.output {
                Output::Persist(record) => Some(record),
                _ => None,
            });
            state.disk.lose(unwritten);
            state.ownerships = running.parts.into_iter().map(|part| part.ownership).collect();
        }
        self.observer.see(&self.world, &Event::Crashed(node));
        self.look_around(node, 100, 3000);
    }

    /// A planned fault happens, or ends.
    pub(super) fn strike(&mut self, index: usize) {
        if self.world.healed {
            return;
        }
        let event = self.world.setup.faults[index].1.clone();
        match event {
            FaultEvent::Loss(one_in) => self.world.links.set_loss(one_in),
            FaultEvent::Duplication(one_in) => self.world.links.set_duplication(one_in),
            FaultEvent::Reordering(jitter_ms) => self.world.links.set_jitter(jitter_ms),
            FaultEvent::LatencySpike { node, extra_ms } => {
                self.world.links.slow_down(node, extra_ms);
            }
            FaultEvent::Partition { name, side, kind } => {
                self.world.links.partition(name, &side, kind);
                self.look_everywhere(200, 3000);
            }
            FaultEvent::Rejoin(name) => {
                self.world.links.rejoin(name);
                self.look_everywhere(10, 1000);
            }
            FaultEvent::Clog(node) => self.world.links.clog(node),
            FaultEvent::Unclog(node) => {
                self.world.links.unclog(node);
                self.release();
            }
            other => self.strike_node(&other),
        }
    }

    fn strike_node(&mut self, event: &FaultEvent) {
        let now = self.world.now;
        match *event {
            FaultEvent::Crash { node, in_write, torn } => self.doom(node, in_write, torn),
            FaultEvent::Restore(node) if !self.world.nodes[node].left => self.start(node),
            FaultEvent::Return(node) if self.world.nodes[node].left => self.start(node),
            FaultEvent::Leave(node) => self.leave(node),
            FaultEvent::Skew { node, permille } => {
                self.world.nodes[node].clock_permille = permille;
                if let Some(running) = &mut self.world.nodes[node].running {
                    running.clock.set_speed(now, permille);
                    // The planned wake-up was worked out with the old speed.
                    running.timer = None;
                    self.world.tally.fault("clock skew");
                    self.work(node);
                }
            }
            FaultEvent::Slow { node, step_ms } => {
                let plan = &mut self.world.nodes[node].plan;
                if step_ms > plan.step_ms {
                    self.world.tally.fault("slow island");
                }
                plan.step_ms = step_ms;
            }
            FaultEvent::Invite { steward, node, last_round } => {
                let node = self.world.nodes[node].id;
                self.command(steward, Command::Invite { node, last_round }, "invite");
            }
            FaultEvent::Revoke { steward, node } => {
                let node = self.world.nodes[node].id;
                self.command(steward, Command::Revoke(node), "revoke");
            }
            _ => {}
        }
    }

    fn doom(&mut self, node: NodeIndex, in_write: bool, torn: bool) {
        if self.world.nodes[node].running.is_none() {
            return;
        }
        if in_write {
            self.world.nodes[node].doomed = Some(torn);
        } else {
            self.crash(node, torn);
        }
    }

    fn leave(&mut self, node: NodeIndex) {
        let state = &mut self.world.nodes[node];
        if state.engine().is_none() {
            return;
        }
        state.left = true;
        let life = state.life;
        self.command(node, Command::Leave, "leave");
        let at = self.world.soon(100, 500);
        self.world.agenda.plan(at, Happening::Stop { node, life });
    }

    fn command(&mut self, node: NodeIndex, command: Command, name: &'static str) {
        if self.world.nodes[node].engine().is_some() {
            self.world.tally.fault(name);
            self.input(node, Input::Command(command));
        }
    }

    fn look_everywhere(&mut self, low: u64, high: u64) {
        for node in 0..self.world.nodes.len() {
            for peer in self.world.links.neighbours(node).to_vec() {
                let at = self.world.soon(low, high);
                self.world.agenda.plan(at, Happening::Look { node, peer });
            }
        }
    }

    /// Every fault ends: what is down and did not leave comes back.
    pub(super) fn heal(&mut self) {
        self.world.links.heal();
        self.world.healed = true;
        self.observer.phase = Phase::Liveness;
        self.observer.see(&self.world, &Event::Healed);
        self.release();
        for node in 0..self.world.nodes.len() {
            let state = &mut self.world.nodes[node];
            state.doomed = None;
            if state.running.is_none() && state.life > 0 && !state.left {
                let at = self.world.soon(10, 500);
                self.world.agenda.plan(at, Happening::Start(node));
            }
        }
        self.look_everywhere(10, 1000);
    }

    /// The islands stop; what they were asked for is done at once.
    pub(super) fn quiesce(&mut self) {
        self.world.quiet = true;
        self.world.stillness = (self.world.standings(), self.world.now);
        for node in 0..self.world.nodes.len() {
            self.boundary(node);
            self.work(node);
        }
        let at = Time(self.world.now.0 + SETTLE_MS);
        self.world.agenda.plan(at, Happening::Settle);
    }

    /// Ends the run when nothing has changed for a while, or when it takes too long.
    pub(super) fn settle(&mut self) {
        let (now, rounds) = (self.world.now, self.world.shared.genesis.rounds);
        let standings = self.world.standings();
        if standings != self.world.stillness.0 {
            self.world.stillness = (standings, now);
        }
        let still = now.since(self.world.stillness.1).0;
        let enough = (rounds.alive_ms * 2).max(rounds.grace_ms_max * 2) + STILL_MS;
        let patience = rounds.alive_ms * 4 + rounds.grace_ms_max * 8 + PATIENCE_MS;
        self.world.over =
            still >= enough || now.since(self.world.setup.end_at).0 >= patience.max(enough);
        self.world.agenda.plan(Time(now.0 + SETTLE_MS), Happening::Settle);
    }

    /// The mean loss of the running honest nodes' outer states.
    pub(super) fn loss(&self) -> f64 {
        let world = &self.world;
        let running = world.nodes.iter().filter(|node| node.engine().is_some());
        let losses: Vec<f64> = running
            .map(|node| world.shared.loss(world.shared.ids().filter_map(|id| node.head(id))))
            .collect();
        if losses.is_empty() {
            return world.first_loss;
        }
        #[expect(clippy::cast_precision_loss, reason = "a handful of nodes")]
        let count = losses.len() as f64;
        losses.iter().sum::<f64>() / count
    }
}

/// In every so-many-th run one node has made it and waits for nobody.
const FOUNDED_EVERY: u64 = 3;
/// How often the world looks whether anything still changes.
const SETTLE_MS: u64 = 500;
/// How long nothing may change before the run is over, besides what the genesis' times ask for.
const STILL_MS: u64 = 5_000;
/// How long the swarm may take to come to rest, besides what the genesis' times ask for.
const PATIENCE_MS: u64 = 120_000;

const _: () = assert!(SETTLE_MS < STILL_MS);
