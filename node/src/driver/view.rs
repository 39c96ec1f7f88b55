//! What people see of a running node.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use atoll_protocol::engine::{FragmentStatus, PeerView};
use atoll_protocol::frontier::Standing;
use atoll_protocol::id::{FragmentId, NodeId};
use serde_json::{Value, json};

use super::{Driver, network};
use crate::net::{PeerStatus, Way};
use crate::observe::status::{self, Disk, Gauges, Lane, Lanes, Loss, Merged, Peer, Status};

/// What is known of the island's training.
#[derive(Debug)]
pub struct Training {
    /// Whether the island goes on from a checkpoint.
    pub(super) resumed: bool,
    loss: Option<f32>,
    smoothed: Option<f32>,
    held_out: Option<f64>,
    tokens: u64,
    steps: u64,
    step_ms: u32,
    evaluate_every: Option<Duration>,
    evaluation_due: Instant,
    evaluating: bool,
    /// Which part of the first wait between measurements passes: nodes of a swarm that began
    /// together take turns, so that one of them measures all the time.
    turn: f64,
    /// Wall time that the island was to step in, up to `since`.
    wall: Duration,
    since: Option<Instant>,
    /// When so many tokens were trained, for the speed of late.
    marks: VecDeque<(Instant, u64)>,
}

impl Training {
    pub(super) fn new(evaluate_every: Option<Duration>, node: &NodeId) -> Self {
        Self {
            resumed: false,
            loss: None,
            smoothed: None,
            held_out: None,
            tokens: 0,
            steps: 0,
            step_ms: 0,
            evaluate_every,
            evaluation_due: Instant::now(),
            evaluating: false,
            turn: f64::from(node.0[0]) / 256.0,
            wall: Duration::ZERO,
            since: None,
            marks: VecDeque::new(),
        }
    }

    /// One that goes on has been measured before: it is not stopped for that at once.
    pub(super) fn begins(&mut self, resumed: bool) {
        self.resumed = resumed;
        if resumed {
            self.evaluation_due = Instant::now() + self.evaluate_every.unwrap_or_default();
        }
    }

    pub(super) fn stepped(&mut self, steps: u32, tokens: u64, step_ms: u32, loss: f32) {
        self.steps += u64::from(steps);
        self.tokens += u64::from(steps) * tokens;
        self.step_ms = step_ms;
        self.loss = Some(loss);
        let before = self.smoothed.unwrap_or(loss);
        self.smoothed = Some(before + (loss - before) * SMOOTHING);
    }

    pub(super) fn evaluated(&mut self, loss: f64, took: Duration) {
        // Measuring stops the island, so it may take one part in two hundred at most.
        let wait = took * EVALUATION_PART;
        let wait = if self.held_out.is_none() { wait.mul_f64(self.turn) } else { wait };
        self.evaluation_due = Instant::now() + wait.max(self.evaluate_every.unwrap_or_default());
        self.held_out = Some(loss);
        self.evaluating = false;
    }

    pub(super) fn evaluation_is_due(&self) -> bool {
        self.evaluate_every.is_some()
            && !self.evaluating
            && self.steps > 0
            && Instant::now() >= self.evaluation_due
    }

    pub(super) fn evaluating(&mut self) {
        self.evaluating = true;
    }

    pub(super) fn going(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    pub(super) fn halted(&mut self) {
        self.wall += self.since.take().map(|since| since.elapsed()).unwrap_or_default();
    }

    pub(super) fn step(&self) -> u64 {
        self.steps
    }

    /// Notes how far training is; called a few times a second.
    pub(super) fn mark(&mut self) {
        let now = Instant::now();
        self.marks.push_back((now, self.tokens));
        while self.marks.front().is_some_and(|(at, _)| now - *at > SPEED_OVER) {
            self.marks.pop_front();
        }
    }

    fn tokens_per_s(&self) -> f64 {
        let (Some((from, before)), Some((to, after))) = (self.marks.front(), self.marks.back())
        else {
            return 0.0;
        };
        let seconds = (*to - *from).as_secs_f64();
        if seconds > 0.0 { (after - before) as f64 / seconds } else { 0.0 }
    }

    fn wall(&self) -> Duration {
        self.wall + self.since.map(|since| since.elapsed()).unwrap_or_default()
    }
}

impl Driver {
    /// Tokens that the swarm has merged, averaged over the fragments.
    pub(super) fn swarm_tokens(&self) -> u64 {
        self.engine.tokens_merged(self.parts.iter().map(|part| part.cut_tokens))
    }

    /// Everything that people see at a glance.
    pub(super) fn status(&self) -> Status {
        let fragments: Vec<status::Fragment> =
            self.fragments().filter_map(|fragment| self.fragment(fragment)).collect();
        let counters = self.net.counters();
        Status {
            name: self.genesis.name.clone(),
            incarnation: self.incarnation,
            uptime_s: self.started.elapsed().as_secs(),
            standing: self.engine.standing(),
            gauges: self.gauges(&fragments),
            loss: Loss {
                last: self.training.loss.map(f64::from),
                smoothed: self.training.smoothed.map(f64::from),
                held_out: self.training.held_out,
            },
            training: self.training(),
            fates: fragments.iter().map(|fragment| fragment.fates).sum(),
            fragments,
            bytes: Lanes {
                control: Lane { up: counters.control_up, down: counters.control_down },
                content: Lane { up: counters.payload_up, down: counters.payload_down },
            },
            addresses: self.addresses(),
            network: network::network(&self.net.status()),
            swarm_tokens: self.swarm_tokens(),
            peers: self.peers(),
            disk: self.disk(),
            warnings: network::clock_warning(&self.net.status()).into_iter().collect(),
            ..Status::new(self.genesis.run_id(), self.engine.node())
        }
    }

    fn fragment(&self, fragment: FragmentId) -> Option<status::Fragment> {
        let FragmentStatus { version, head, base, digest, fates, .. } =
            self.engine.status(fragment)?;
        let staleness = self.engine.newest_heard(fragment).saturating_sub(version);
        let fates = fates.into();
        Some(status::Fragment { fragment, version: head, base, digest, staleness, fates })
    }

    fn gauges(&self, fragments: &[status::Fragment]) -> Gauges {
        let views = self.engine.peer_views();
        let alive = views.iter().filter(|peer| peer.alive).count();
        let merged = self.fragments().map(|fragment| self.engine.merged_last(fragment));
        Gauges {
            alive: u32::try_from(alive).unwrap_or(u32::MAX),
            alive_window_s: self.genesis.rounds.alive_ms / 1000,
            reachable: network::reachable(&self.net.status()),
            merged_in_last_round: Merged::of(merged.collect()),
            staleness: fragments.iter().map(|it| it.staleness).max().unwrap_or(0),
        }
    }

    fn training(&self) -> status::Training {
        let stepping = self.host().map(|host| host.pace().stepping()).unwrap_or_default();
        let wall = self.training.wall().as_secs_f64();
        status::Training {
            step: self.training.steps,
            tokens: self.training.tokens,
            tokens_per_s: self.training.tokens_per_s(),
            step_ms: f64::from(self.training.step_ms),
            training_share: if wall > 0.0 { stepping.as_secs_f64() / wall } else { 0.0 },
        }
    }

    fn peers(&self) -> Vec<Peer> {
        let views = self.engine.peer_views();
        let view = |node| views.iter().find(|view: &&PeerView| view.node == node);
        let link = |link: PeerStatus| Peer {
            node: link.node,
            relayed: link.way == Way::Relayed,
            how: Some(network::how(&link)),
            bytes_per_s: link.rate,
            address: Some(link.address),
            rtt_ms: link.rtt.map(|rtt| rtt.as_secs_f64() * 1000.0),
            standing: view(link.node).map(|view| view.standing),
            version: view(link.node)
                .and_then(|view| view.entries.iter().flatten().map(|entry| entry.version).max()),
        };
        self.net.peers().into_iter().map(link).collect()
    }

    fn disk(&self) -> Disk {
        let usage = self.store.usage();
        Disk {
            used: usage.total(),
            budget: self.store.budget(),
            contents: usage.contents,
            bases: usage.bases,
            records: usage.records,
            checkpoint: usage.checkpoint,
        }
    }

    /// Where others can reach this node, as far as it knows.
    fn addresses(&self) -> Vec<String> {
        let net = self.net.status();
        let mut all: Vec<String> = net.external.into_iter().chain(net.listening).collect();
        all.dedup();
        all
    }

    /// What the engine holds, for whoever wants to know exactly.
    pub(super) fn inspect(&self) -> Value {
        let rounds: Vec<Value> = self
            .fragments()
            .flat_map(|fragment| self.engine.round_views(fragment))
            .map(|view| {
                let contributions = view.contributions.iter().map(|header| {
                    json!({
                        "author": header.author.to_hex(), "base": header.base,
                        "tokens": header.tokens, "steps": header.steps,
                        "payload": header.payload.to_hex(), "payload_bytes": header.payload_bytes,
                    })
                });
                json!({
                    "round": view.round.to_string(), "closed": view.closed,
                    "contributions": contributions.collect::<Vec<_>>(),
                })
            })
            .collect();
        let frontiers: Vec<Value> = self.engine.peer_views().iter().map(frontier).collect();
        let evidence: Vec<String> =
            self.engine.equivocators().into_iter().map(|node| node.to_hex()).collect();
        let sizes: Vec<Value> = self
            .engine
            .sizes()
            .into_iter()
            .map(|(name, size, limit)| json!({ "name": name, "size": size, "limit": limit }))
            .collect();
        let fragments: Vec<status::Fragment> =
            self.fragments().filter_map(|fragment| self.fragment(fragment)).collect();
        json!({
            "fragments": fragments, "rounds": rounds, "frontiers": frontiers,
            "evidence": evidence, "sizes": sizes,
        })
    }

    /// Saves where peers are when that changed: the next start needs no bootstrap.
    pub(super) fn keep_peers(&mut self) {
        if self.peers_kept.elapsed() < KEEP_PEERS_EVERY {
            return;
        }
        self.peers_kept = Instant::now();
        let (store, peers) = (self.store.clone(), self.net.addresses());
        if !peers.is_empty() {
            tokio::task::spawn_blocking(move || match store.peers() == peers {
                true => Ok(()),
                false => store.save_peers(&peers),
            });
        }
    }
}

fn frontier(view: &PeerView) -> Value {
    let entries = view.entries.iter().map(|entry| {
        entry.map(
            |it| json!({ "base": it.base, "version": it.version, "digest": it.digest.to_string() }),
        )
    });
    json!({
        "node": view.node.to_hex(), "connected": view.connected, "alive": view.alive,
        "trains": view.trains, "standing": standing(view.standing), "step_ms": view.step_ms,
        "fragments": entries.collect::<Vec<_>>(),
    })
}

fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Joining => "joining",
        Standing::CaughtUp => "caught_up",
        Standing::Muted => "muted",
    }
}

/// How much of a new loss enters the smoothed one.
const SMOOTHING: f32 = 0.05;
/// Measuring the held-out loss takes at most one part in so many of the time.
const EVALUATION_PART: u32 = 200;
/// What "lately" means for the speed.
const SPEED_OVER: Duration = Duration::from_secs(10);
/// How often the peer cache is looked at.
const KEEP_PEERS_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_began_together_measure_in_turn() {
        let took = Duration::from_secs(1);
        let waits = |first_byte: u8| {
            let mut id = [0; 32];
            id[0] = first_byte;
            let mut training = Training::new(Some(Duration::from_secs(3)), &NodeId(id));
            let mut wait = || {
                training.evaluated(2.0, took);
                (training.evaluation_due - Instant::now()).as_secs_f64().round()
            };
            [wait(), wait()]
        };
        assert_eq!([0, 64, 128].map(waits), [[3.0, 200.0], [50.0, 200.0], [100.0, 200.0]]);
        let mut never = Training::new(None, &NodeId([0; 32]));
        never.stepped(1, 1, 1, 2.0);
        assert!(!never.evaluation_is_due());
    }
}
