//! The engine: `(state, now, Input) -> Output`s, and nothing else.
//!
//! ```text
//! engine.handle(now, input);
//! while let Some(output) = engine.poll_output() { execute(output) }   // in order
//! sleep_until(engine.poll_timeout());                                 // then handle_timeout
//! ```
//!
//! It sees headers, hashes and lengths, never tensor bytes: folding, checking and capturing are
//! outputs whose results come back as inputs. `Persist` is a barrier: what follows it and tells
//! anybody anything may leave the node only once the record is durable.

mod admit;
mod calm;
mod catch_up;
mod course;
mod gossip;
mod install;
mod outbox;
mod pace;
mod reclaim;
mod reconcile;
mod restore;
mod rounds;
mod settle;
mod stragglers;
mod view;

pub mod input;
pub mod output;
pub mod record;
pub mod report;

use std::collections::{BTreeMap, BTreeSet};

use crate::contribution::Header;
use crate::crypto::{Key, Verified};
use crate::fetch::Fetcher;
use crate::frontier::Standing;
use crate::genesis::Genesis;
use crate::id::{ContentId, FragmentId, NodeId, RoundId, RunId, Trail, Version};
use crate::ledger::Ledger;
use crate::limits::{
    FETCHES_MAX, OUTBOX_MAX, PEERS_MAX, REFUSED_MAX, ROUND_AUTHORS_MAX, ROUNDS_AHEAD_MAX, WANTS_MAX,
};
use crate::peers::Peers;
use crate::planted::{Bug, Planted};
use crate::rng::Rng;
use crate::roster::Roster;
use crate::round::grace::Smoothed;
use crate::time::{Span, Time};

use calm::Said;
use course::Course;
use outbox::Outbox;
use pace::Pace;

pub use crate::fetch::FetchOutcome;
pub use crate::round::CloseReason;
pub use input::{Command, Input};
pub use output::{Output, beside_a_write, in_the_same_write};
pub use record::{Record, Settled};
pub use report::Report;
pub use view::{PeerView, RoundView};

/// What an engine is started with.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// What the swarm shares.
    pub genesis: Genesis,
    /// The digest of each fragment's outer state at version 0.
    pub initial: Vec<ContentId>,
    /// This node's identity.
    pub key: Key,
    /// How often this node was started, this time included; never goes back.
    pub incarnation: u64,
    /// Seed of the engine's own choices (whom to ask first). Never changes a result.
    pub seed: u64,
    /// Whether an island trains behind this node.
    pub trains: bool,
    /// Whether this node has just made the run, so that nobody can have been there before it.
    pub founds: bool,
    /// Whose ticket brought this node to the run. Until it takes part it believes that node alone,
    /// where it would believe others only if enough of them said the same; and until it knows
    /// everyone it calls stable what that node does.
    pub sponsor: Option<NodeId>,
    /// What the island's checkpoint holds, one entry for each fragment; empty if there is none.
    pub resumed: Vec<Resumed>,
    /// Payloads that records of contributions name and the disk does not hold: pruned, or lost.
    pub lost: BTreeSet<ContentId>,
    /// For each fragment, the last round this key may have signed for without a record of it;
    /// empty if every record is there. Rounds up to it are never signed for again.
    pub signed: Vec<Version>,
    /// A deliberate bug.
    pub planted: Planted,
}

/// What an island's checkpoint says about one fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// The last own payload captured before the checkpoint.
    pub last_capture: Option<ContentId>,
    /// Steps since then.
    pub steps: u32,
    /// Tokens since then.
    pub fresh: u64,
}

/// Where every own token of one fragment is. The five add up to `trained`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fates {
    /// All tokens trained.
    pub trained: u64,
    /// In the outer state.
    pub merged: u64,
    /// Captured, not yet in the outer state.
    pub pending: u64,
    /// Trained since the last capture.
    pub fresh: u64,
    /// Captured before, came back, wait for the next capture.
    pub reissued: u64,
    /// Lost for good.
    pub orphaned: u64,
}

/// A fragment's state as other code may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentStatus {
    /// Stable up to here.
    pub base: Version,
    /// The trail at the base.
    pub base_trail: Trail,
    /// Weight merged up to the base.
    pub base_weight: u64,
    /// The digest of the outer state at the base.
    pub base_digest: ContentId,
    /// Rounds closed up to here.
    pub version: Version,
    /// The version of the materialised head.
    pub head: Version,
    /// The trail of the materialised head.
    pub head_trail: Trail,
    /// The digest of the materialised head.
    pub digest: ContentId,
    /// Where own tokens are.
    pub fates: Fates,
    /// Own steps since the last capture.
    pub steps: u32,
    /// The last own payload that was captured, for the island to compare with its checkpoint.
    pub last_capture: Option<ContentId>,
}

/// The pure state machine of one node.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    me: NodeId,
    /// What signatures are bound to: the run id.
    run: RunId,
    /// Parameters in each fragment.
    elements: Vec<usize>,
    roster: Roster,
    ledger: Ledger,
    /// Verified headers whose payload is not here yet.
    candidates: BTreeMap<(RoundId, NodeId), Verified<Header>>,
    /// Payload -> the candidates that wait for it.
    awaiting: BTreeMap<ContentId, BTreeSet<(RoundId, NodeId)>>,
    /// Payloads being checked for a fragment.
    checking: BTreeSet<(ContentId, FragmentId)>,
    /// Payloads that failed the check for a fragment.
    refused: BTreeSet<(ContentId, FragmentId)>,
    /// How many ledger entries refer to a payload.
    references: BTreeMap<ContentId, u32>,
    peers: Peers,
    fetcher: Fetcher,
    courses: Vec<Course>,
    outbox: Outbox,
    rng: Rng,
    standing: Standing,
    leaving: bool,
    /// Whether this engine went on from records.
    restored: bool,
    /// Whether this node was there when the run began.
    founder: bool,
    /// Whether this node ever took part, in this life or, as its records show, before.
    took_part: bool,
    /// Whether a node that takes part was heard that the roster, as far as we know it, does not
    /// admit: there may be a swarm whose invitations have not reached us.
    stranger: bool,
    started: Time,
    now: Time,
    heartbeat_at: Time,
    said: Said,
    sequence: u64,
    /// The first fragment of the next frontier.
    page: usize,
    /// The first fragment whose ledger is compared next.
    turn: usize,
    step: Smoothed,
    /// When the island last finished a step; when this node started, if it has not yet.
    stepped_at: Time,
    transfer: Smoothed,
    pace: Pace,
    roster_asked: Time,
    receipts: BTreeMap<RoundId, (u32, u32)>,
}

impl Engine {
    /// Takes one input. Time never goes back.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.advance_clock(now);
        match input {
            Input::PeerUp(node) => self.peer_up(node),
            Input::PeerDown(node) => self.peers.connected(node, false, now),
            Input::Received { from, bytes, receipt } => self.received(from, &bytes, receipt),
            Input::Stepped { tokens, step_ms } => self.stepped(tokens, step_ms),
            Input::Captured { fragment, payload, payload_bytes, steps_since, tokens_since } => {
                self.captured(fragment, payload, payload_bytes, steps_since, tokens_since);
            }
            Input::Adopted { fragment, version } => self.adopted(fragment, version),
            Input::Fetched { content, from, outcome } => self.fetched(content, from, outcome),
            Input::Checked { payload, fragment, outcome } => {
                self.checked(payload, fragment, outcome);
            }
            Input::Materialised { fragment, version, digest } => {
                self.materialised(fragment, version, digest);
            }
            Input::Stabilised { fragment, version, digest } => {
                self.stabilised(fragment, version, digest);
            }
            Input::Failed { fragment, missing } => self.failed(fragment, missing),
            Input::Installed { fragment, content, good } => {
                self.installed(fragment, content, good);
            }
            Input::Command(command) => self.command(command),
        }
        self.settle();
    }

    /// Lets the engine act on the passing of time.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance_clock(now);
        if now >= self.heartbeat_at {
            self.heartbeat();
        }
        for course in &mut self.courses {
            if course.closes_at.is_some_and(|at| now >= at) {
                course.awake = true;
            }
        }
        self.settle();
    }

    /// The next thing to do, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outbox.pop()
    }

    /// When `handle_timeout` must be called at the latest.
    pub fn poll_timeout(&self) -> Option<Time> {
        let grace = self.courses.iter().filter_map(|course| course.closes_at).min();
        [Some(self.heartbeat_at), grace, self.fetcher.next_poll()].into_iter().flatten().min()
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.me
    }

    /// Whether this node takes part.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Where one fragment stands.
    pub fn status(&self, fragment: FragmentId) -> Option<FragmentStatus> {
        let course = self.courses.get(fragment.index())?;
        Some(FragmentStatus {
            base: course.chain.base(),
            base_trail: course.chain.base_trail(),
            base_weight: course.chain.base_weight(),
            base_digest: course.chain.base_digest(),
            version: course.version,
            head: course.head.version,
            head_trail: course.head.trail,
            digest: course.head.digest,
            fates: course.fates(|round, id| self.in_cut(fragment, round, id)),
            steps: course.tokens.steps,
            last_capture: course.last_capture,
        })
    }

    /// Whether this node may serve the snapshot with this digest (the donor rule).
    pub fn may_serve(&self, content: &ContentId) -> bool {
        let is_donor = self.standing == Standing::CaughtUp || self.planted(Bug::DonorNotCaughtUp);
        is_donor
            && self.courses.iter().any(|course| {
                // The one before is served too: a joiner may have been told of it just now.
                let before = course.chain.entry(course.chain.base().saturating_sub(1));
                course.chain.base_digest() == *content
                    || before.is_some_and(|entry| entry.digest == *content)
            })
    }

    /// Whether a content is part of the ledger, awaited, or own work that may come back. What is
    /// neither that nor a base may go from the disk.
    pub fn needs(&self, content: &ContentId) -> bool {
        let checks = (*content, FragmentId(0))..=(*content, FragmentId(u16::MAX));
        self.references.contains_key(content)
            || self.awaiting.contains_key(content)
            || self.fetcher.wants(content)
            || self.checking.range(checks).next().is_some()
            || self.courses.iter().any(|course| course.needs(content))
    }

    /// Sizes of the bounded structures, with their limits.
    pub fn sizes(&self) -> Vec<(&'static str, usize, usize)> {
        // A node that follows far behind holds what is above its base and what is ahead of it.
        let window = 3 * self.config.genesis.rounds.horizon + ROUNDS_AHEAD_MAX;
        let slots = self.courses.len() * window as usize * ROUND_AUTHORS_MAX;
        vec![
            ("outbox", self.outbox.len(), OUTBOX_MAX * 2),
            ("peers", self.peers.len(), PEERS_MAX),
            ("wants", self.fetcher.len(), WANTS_MAX + self.courses.len()),
            ("fetches", self.fetcher.in_flight(), FETCHES_MAX + self.courses.len()),
            ("refused", self.refused.len(), REFUSED_MAX),
            ("ledger", self.ledger.len(), slots),
            ("candidates", self.candidates.len(), slots),
            ("pace", self.pace.len(), self.pace_max()),
        ]
    }

    fn advance_clock(&mut self, now: Time) {
        assert!(now >= self.now, "time never goes back");
        self.now = now;
    }

    fn planted(&self, bug: Bug) -> bool {
        self.config.planted.is(bug)
    }

    fn report(&mut self, report: Report) {
        self.outbox.push(Output::Report(report));
    }

    /// Whether a capture is under way, from the request to the signature.
    pub fn is_capturing(&self) -> bool {
        self.courses.iter().any(|course| course.capture.is_some())
    }

    fn heartbeat_span(&self) -> Span {
        Span(self.config.genesis.rounds.heartbeat_ms)
    }
}
