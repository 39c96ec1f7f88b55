//! The loop: inputs in, the engine decides, outputs are executed in their order.
//!
//! ```text
//!   requests ─┐                               ┌─> store   (a write holds back what promises)
//!   island  ──┤                               ├─> island  (errands, between pieces of steps)
//!   jobs    ──┼─> engine ─> queue of outputs ─┼─> jobs    (check, fold: blocking threads)
//!   timer   ──┤                               ├─> net     (gossip, messages, fetches)
//!   net     ──┘                               └─> observe
//! ```
//!
//! Local work goes before remote work. Nothing in the loop waits for a peer, a disk or the
//! island: whatever takes time is done elsewhere and comes back as an input.

mod clearing;
mod clock;
mod contents;
mod errands;
mod execute;
mod health;
mod network;
mod part;
mod revival;
mod saving;
mod start;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_protocol::engine::{Command, Engine, Input, Output, beside_a_write};
use atoll_protocol::frontier::Standing;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, FragmentId};
use atoll_protocol::roster::Roster;
use tokio::sync::mpsc;
use tokio::time::{Interval, sleep_until};

use crate::island::host::{Host, Told};
use crate::net::{NetEvent, NetHandle, Notice};
use crate::observe::{self, Answer, Event, Observer, Refusal, Request};
use crate::store::Store;
use clearing::Clearing;
use clock::Clock;
use contents::Serving;
use errands::{Errands, OwnPayloads};
use execute::Write;
use health::Health;
use part::{Done, Part};
use saving::Saving;

pub use network::{how, network};
pub use start::{Plan, StartError};
pub use view::Training;

/// Why a driver ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was asked to.
    Left,
    /// Another node runs with the same key.
    SameKey,
    /// The island cannot go on.
    Island,
    /// The network or a blocking thread has panicked.
    Broken,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Left => "asked to leave",
            Self::SameKey => "another node runs with the same key",
            Self::Island => "the island cannot go on",
            Self::Broken => "a part of the node has failed",
        })
    }
}

/// A running node, but for its tasks.
#[derive(Debug)]
pub struct Driver {
    genesis: Arc<Genesis>,
    engine: Engine,
    clock: Clock,
    store: Store,
    net: NetHandle,
    observer: Observer,
    /// Outputs in the order the engine made them.
    outputs: VecDeque<Task>,
    /// The write that outputs wait for, unless they promise nothing.
    write: Option<Write>,
    parts: Vec<Part>,
    serving: Arc<Serving>,
    errands: Option<Errands>,
    saving: Saving,
    training: Training,
    /// Payloads that could not be read back and are fetched; those with a fragment had not been
    /// checked for it yet.
    rechecks: BTreeMap<ContentId, Option<FragmentId>>,
    /// Those that somebody is being asked for.
    rechecking: BTreeSet<ContentId>,
    /// When they were asked for last.
    rechecked: Instant,
    own: OwnPayloads,
    health: Health,
    clearing: Clearing,
    quiet: bool,
    /// Whether people were told that the clock is off.
    clock_told: bool,
    leaving: Option<Instant>,
    ending: Option<Ending>,
    started: Instant,
    /// How often the node was started.
    incarnation: u64,
    peers_kept: Instant,
    done: mpsc::Sender<Done>,
    inlets: Inlets,
}

/// Where inputs come from.
#[derive(Debug)]
struct Inlets {
    leave: mpsc::Receiver<()>,
    requests: mpsc::Receiver<Request>,
    told: mpsc::Receiver<Told>,
    done: mpsc::Receiver<Done>,
    net: mpsc::Receiver<NetEvent>,
    tick: Interval,
}

/// An output that waits for its turn.
#[derive(Debug)]
struct Task {
    output: Output,
    /// For an adoption: the head and the captures that the engine knew of when it asked.
    known: Option<(Arc<[f32]>, u64)>,
}

impl Driver {
    /// Runs until somebody asks it to leave or it cannot go on.
    pub async fn run(mut self) -> Ending {
        loop {
            self.settle();
            if let Some(ending) = self.ending {
                self.observer.event(Event::Stopped { reason: ending.to_string() });
                self.net.clone().leave().await;
                self.observer.flush(FLUSH_WITHIN);
                return ending;
            }
            self.wait().await;
        }
    }

    /// Takes the next input, local ones first.
    async fn wait(&mut self) {
        let timeout = self.engine.poll_timeout().map(|time| self.clock.instant(time));
        let deadline = [timeout, self.leaving].into_iter().flatten().min();
        let timer = sleep_until(deadline.unwrap_or_else(|| self.clock.far()).into());
        let may_hear = self.outputs.len() < OUTPUTS_MAX;
        tokio::select! {
            biased;
            Some(()) = self.inlets.leave.recv() => self.leave(),
            Some(request) = self.inlets.requests.recv() => self.request(request),
            told = self.inlets.told.recv(), if self.errands.is_some() => match told {
                Some(told) => self.told(told),
                None => self.island_is_gone(),
            },
            Some(done) = self.inlets.done.recv() => self.done(done),
            // With a disk that takes nothing, heartbeats would only make the queue longer.
            () = timer, if may_hear || self.leaving.is_some() => {
                let now = self.clock.now();
                self.engine.handle_timeout(now);
                self.leave_if_time_is_over();
            }
            _ = self.inlets.tick.tick() => self.tick(),
            event = self.inlets.net.recv(), if may_hear => match event {
                Some(event) => self.heard(event),
                None => self.broke("the network"),
            },
        }
    }

    /// Moves the engine's outputs into the queue and executes what nothing holds back.
    fn settle(&mut self) {
        loop {
            self.drain();
            let Some(task) = self.next_task() else { break };
            self.execute(task);
        }
        if self.write.is_some() {
            return;
        }
        self.save_if_due();
        self.wake_island();
    }

    /// Takes the next output that nothing holds back. Behind a disk that takes nothing all wait once
    /// they are many, because what is done makes more of them.
    fn next_task(&mut self) -> Option<Task> {
        match &self.write {
            None => self.outputs.pop_front(),
            Some(write) if write.forgets() || self.outputs.len() >= OUTPUTS_MAX => None,
            Some(_) => {
                let place = beside_a_write(self.outputs.iter().map(|task| &task.output))?;
                self.outputs.remove(place)
            }
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            let known = match &output {
                Output::Adopt { fragment, .. } => {
                    self.parts.get(fragment.index()).map(|part| (part.head(), part.captures))
                }
                _ => None,
            };
            self.outputs.push_back(Task { output, known });
        }
    }

    fn input(&mut self, input: Input) {
        let now = self.clock.now();
        self.engine.handle(now, input);
        // At once, because an adoption speaks of the head as it is now.
        self.drain();
    }

    fn heard(&mut self, event: NetEvent) {
        match event {
            NetEvent::PeerUp(node) => {
                self.observer.event(Event::PeerUp { node });
                self.input(Input::PeerUp(node));
            }
            NetEvent::PeerDown(node) => {
                self.observer.event(Event::PeerDown { node });
                self.input(Input::PeerDown(node));
            }
            NetEvent::Received { from, bytes, receipt } => {
                self.input(Input::Received { from, bytes, receipt });
            }
            NetEvent::Fetched { content, from, outcome, bytes } => {
                tracing::debug!(%content, %from, ?outcome, bytes, "fetched");
                self.fetched_again(content, outcome);
                self.input(Input::Fetched { content, from, outcome });
            }
            NetEvent::Notice(notice) => {
                if let Notice::Broken(content) = &notice {
                    self.broken(*content);
                }
                self.observer.event(Event::Network { notice: notice.to_string() });
            }
        }
    }

    fn request(&mut self, request: Request) {
        // Whoever asked may have gone: then the answer finds nobody.
        match request {
            Request::Inspect { topic, reply } => {
                let mut all = self.inspect();
                let shown = match &topic {
                    Some(topic) => all.get_mut(topic).map(serde_json::Value::take),
                    None => Some(all),
                };
                let _ = reply.send(shown.unwrap_or_default());
            }
            Request::Command { command, reply } => {
                let _ = reply.send(self.command(command));
            }
        }
    }

    fn command(&mut self, command: observe::Command) -> Result<Answer, Refusal> {
        let message = match command {
            observe::Command::Invite { node, last_round } => {
                self.steward()?;
                self.input(Input::Command(Command::Invite { node, last_round }));
                format!("invited {node}")
            }
            observe::Command::Revoke { node } => {
                self.steward()?;
                self.input(Input::Command(Command::Revoke(node)));
                format!("revoked {node}")
            }
            observe::Command::Quiesce => {
                self.quiet = true;
                self.pause_island();
                "the island steps no more; merging goes on".to_owned()
            }
            observe::Command::Resume => {
                self.quiet = false;
                "the island steps again".to_owned()
            }
            observe::Command::Leave => {
                self.leave();
                "leaving".to_owned()
            }
        };
        Ok(Answer { message, ticket: None })
    }

    fn steward(&self) -> Result<(), Refusal> {
        if Roster::new(self.genesis.roster.clone()).is_steward(&self.engine.node()) {
            return Ok(());
        }
        Err(Refusal::new("this node is no steward of the run", "ask the node that made it"))
    }

    fn leave(&mut self) {
        if self.leaving.is_some() {
            return;
        }
        self.leaving = Some(Instant::now() + LEAVE_WITHIN);
        self.pause_island();
        self.input(Input::Command(Command::Leave));
    }

    fn leave_if_time_is_over(&mut self) {
        if self.leaving.is_some_and(|until| Instant::now() >= until) {
            self.ending.get_or_insert(Ending::Left);
        }
    }

    fn tick(&mut self) {
        self.look_after_health();
        self.retry();
        self.clear_up();
        self.training.mark();
        self.evaluate_if_due();
        self.serving.set(self.servable());
        self.observer.publish(self.status());
        self.keep_peers();
        self.look_at_clock();
    }

    /// Something that never ends has: a node that went on without it would be a shell.
    fn broke(&mut self, what: &str) {
        self.warn(format!("{what} has failed"), "please report this with the log");
        self.ending.get_or_insert(Ending::Broken);
    }

    /// Tells people of something they should look at, now and in the status.
    fn warn(&self, message: String, hint: &str) {
        self.observer.event(Event::Warning { message, hint: hint.to_owned() });
    }

    /// Tells once if the clock is far from those of peers.
    fn look_at_clock(&mut self) {
        let warning = network::clock_warning(&self.net.status());
        if let Some(warning) = warning.as_ref().filter(|_| !self.clock_told) {
            self.warn(warning.message.clone(), &warning.hint);
        }
        self.clock_told = warning.is_some();
    }

    /// Snapshots that peers may have, by the donor rule.
    fn servable(&self) -> Vec<ContentId> {
        let digests = self.parts.iter().flat_map(Part::bases);
        digests.filter(|digest| self.engine.may_serve(digest)).collect()
    }

    fn is_caught_up(&self) -> bool {
        self.engine.standing() == Standing::CaughtUp
    }

    fn fragments(&self) -> impl Iterator<Item = FragmentId> + use<> {
        (0..u16::try_from(self.parts.len()).expect("a fragment's id is 16 bits")).map(FragmentId)
    }

    fn host(&self) -> Option<&Host> {
        self.errands.as_ref().map(Errands::host)
    }
}

/// Outputs that may wait before the node listens to peers no more; a slow disk must not let the
/// queue grow.
const OUTPUTS_MAX: usize = 4096;
/// How long a leaving node takes at most to save and to say goodbye.
const LEAVE_WITHIN: Duration = Duration::from_millis(800);
/// How long the event log may take to reach the disk at the end.
const FLUSH_WITHIN: Duration = Duration::from_millis(200);
