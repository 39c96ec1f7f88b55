//! One engine alone with a stranger who writes its inputs: any bytes are a script of them.
//!
//! The stranger speaks for all peers and is the driver, and is bad at both. What must hold
//! whatever it does is asserted after every input. Tests and the fuzz target share it.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

#[path = "sayings.rs"]
mod sayings;
#[path = "script.rs"]
mod script;

use std::collections::{BTreeSet, VecDeque};

use atoll_protocol::codec::Codec;
use atoll_protocol::crypto::Key;
use atoll_protocol::engine::{
    Command, Engine, EngineConfig, FetchOutcome, FragmentStatus, Input, Output, Record,
};
use atoll_protocol::fault::{Fault, Verdict};
use atoll_protocol::genesis::{Genesis, Init, RosterPolicy, TensorKind, TensorSpec};
use atoll_protocol::id::{ContentId, FragmentId, RunId};
use atoll_protocol::limits::MESSAGE_BYTES_MAX;
use atoll_protocol::message::Message;
use atoll_protocol::planted::Planted;
use atoll_protocol::time::Time;
use atoll_protocol::{testkit, wire};

use sayings::Sayings;
use script::Script;

/// The engine, its stranger, and what passed between them.
pub(crate) struct Stranger<'a> {
    engine: Engine,
    script: Script<'a>,
    config: EngineConfig,
    keys: Vec<Key>,
    now: Time,
    receipt: u64,
    sequence: u64,
    records: Vec<Record>,
    /// Everything either side ever said.
    said: Vec<Vec<u8>>,
    /// What the engine asked its driver for and was not answered yet.
    work: VecDeque<Output>,
    restarts: u32,
}

impl<'a> Stranger<'a> {
    /// The script's first byte chooses the roster.
    pub(crate) fn new(script: &'a [u8]) -> Self {
        let mut script = Script::new(script);
        let keys: Vec<Key> = (1..=5).map(testkit::key).collect();
        let genesis = genesis(script.below(3), &keys);
        let initial = vec![ContentId([0; 32]); usize::from(genesis.fragments)];
        let config = EngineConfig {
            genesis,
            initial,
            key: keys[0].clone(),
            incarnation: 1,
            seed: 7,
            trains: true,
            founds: false,
            sponsor: None,
            resumed: Vec::new(),
            lost: BTreeSet::new(),
            signed: Vec::new(),
            planted: Planted::default(),
        };
        let mut stranger = Self {
            engine: Engine::new(config.clone(), Vec::new(), Time(0)),
            script,
            config,
            keys,
            now: Time(0),
            receipt: 0,
            sequence: 0,
            records: Vec::new(),
            said: Vec::new(),
            work: VecDeque::new(),
            restarts: 0,
        };
        for node in stranger.keys.iter().take(4).map(Key::node).collect::<Vec<_>>() {
            // Only where invitations count does this do anything.
            stranger.handle(Input::Command(Command::Invite { node, last_round: 1000 }));
        }
        stranger
    }

    /// Plays the script to its end.
    pub(crate) fn play(&mut self) {
        while self.script.goes_on() {
            self.turn();
        }
    }

    /// Hands over bytes as if a peer had sent them. The verdict is the only one.
    pub(crate) fn receive(&mut self, bytes: Vec<u8>) -> Verdict {
        // What time alone would change, changes first.
        self.engine.handle_timeout(self.now);
        self.check(0);
        let before = self.statuses();
        self.receipt += 1;
        let (receipt, from) = (self.receipt, self.script.node(&self.keys));
        if self.said.len() < SAID_MAX {
            self.said.push(bytes.clone());
        }
        self.engine.handle(self.now, Input::Received { from, bytes, receipt });
        let verdict = self.check(1).unwrap();
        if verdict == Verdict::Reject {
            assert_eq!(self.statuses(), before, "a rejected message changes nothing");
        }
        verdict
    }

    /// Hands over any other input.
    pub(crate) fn handle(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        self.check(0);
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now = Time(self.now.0 + ms);
        self.engine.handle_timeout(self.now);
        self.check(0);
    }

    /// What signatures are for.
    pub(crate) fn run(&self) -> RunId {
        self.config.genesis.run_id()
    }

    /// How many entries one of the engine's structures has.
    #[allow(dead_code, reason = "not everyone who shares this asks")]
    pub(crate) fn size_of(&self, name: &str) -> usize {
        self.engine.sizes().into_iter().find(|(found, ..)| *found == name).unwrap().1
    }

    /// Where every fragment stands.
    pub(crate) fn statuses(&self) -> Vec<FragmentStatus> {
        (0..self.config.genesis.fragments)
            .map(|fragment| self.engine.status(FragmentId(fragment)).unwrap())
            .collect()
    }

    fn turn(&mut self) {
        match self.script.below(16) {
            0 => {
                let count = usize::from(self.script.byte());
                let bytes = self.script.bytes(count);
                self.receive(bytes);
            }
            1..=4 => {
                let bytes = self.saying();
                self.receive(bytes);
            }
            5 => {
                let mut bytes = self.saying();
                self.mutate(&mut bytes);
                self.receive(bytes);
            }
            6 if !self.said.is_empty() => {
                let mut bytes = self.said[self.script.below(self.said.len())].clone();
                if self.script.chance() {
                    self.mutate(&mut bytes);
                }
                self.receive(bytes);
            }
            7..=9 => {
                for _ in 0..=self.script.below(4) {
                    self.answer();
                }
            }
            10 | 11 => {
                let passed = 64 * u64::from(self.script.byte());
                self.pass(passed);
            }
            12 if self.restarts < RESTARTS_MAX => self.restart(),
            13 => {
                for _ in 0..self.script.below(16) {
                    self.handle(Input::Stepped { tokens: 32, step_ms: 100 });
                }
            }
            _ => {
                let input = self.input();
                self.handle(input);
            }
        }
    }

    fn restart(&mut self) {
        self.restarts += 1;
        self.config.incarnation += 1;
        self.work.clear();
        // A disk that lost some payloads. Another time they are back, fetched again.
        let (records, script) = (&self.records, &mut self.script);
        self.config.lost = match script.below(4) {
            0 => records.iter().filter_map(payload).filter(|_| script.sloppy()).collect(),
            _ => BTreeSet::new(),
        };
        self.engine = Engine::new(self.config.clone(), self.records.clone(), self.now);
        self.check(0);
    }

    fn saying(&mut self) -> Vec<u8> {
        self.sequence += 1;
        let sayings = Sayings::new(&self.keys, self.run(), self.statuses(), self.sequence);
        sayings.message(&mut self.script).encode()
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.script.below(3) {
            let at = usize::from(self.script.byte()) * 256 + usize::from(self.script.byte());
            let at = at % bytes.len().max(1);
            match self.script.below(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at.min(bytes.len()), self.script.byte()),
                _ => {
                    let change = self.script.byte();
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= change;
                    }
                }
            }
        }
    }

    /// An input that nobody may have asked for.
    fn input(&mut self) -> Input {
        let version = self.engine.status(FragmentId(0)).unwrap().version;
        let script = &mut self.script;
        match script.below(12) {
            0 => Input::PeerUp(script.node(&self.keys)),
            1 => Input::PeerDown(script.node(&self.keys)),
            2 => Input::Stepped { tokens: script.count(), step_ms: script.count32() },
            3 => Input::Captured {
                fragment: script.fragment(),
                payload: script.content(),
                payload_bytes: script.count32(),
                steps_since: script.count32(),
                tokens_since: script.count(),
            },
            4 => Input::Adopted { fragment: script.fragment(), version: script.version(version) },
            5 => Input::Fetched {
                content: script.content(),
                from: script.node(&self.keys),
                outcome: outcome(script),
            },
            6 => Input::Checked {
                payload: script.content(),
                fragment: script.fragment(),
                outcome: if script.chance() { Ok(()) } else { Err(Fault::BadPayload) },
            },
            7 => Input::Materialised {
                fragment: script.fragment(),
                version: script.version(version),
                digest: script.content(),
            },
            8 => Input::Stabilised {
                fragment: script.fragment(),
                version: script.version(version),
                digest: script.content(),
            },
            9 => Input::Installed {
                fragment: script.fragment(),
                content: script.content(),
                good: script.chance(),
            },
            10 => Input::Command(Command::Invite {
                node: script.node(&self.keys),
                last_round: script.version(version),
            }),
            // These end most of what there is to test, so they are rare.
            _ => match script.byte() {
                255 => Input::Command(Command::Leave),
                250..=254 => Input::Command(Command::Revoke(script.node(&self.keys))),
                _ => Input::PeerUp(script.node(&self.keys)),
            },
        }
    }

    /// Answers something that the engine asked for, mostly as it should be.
    fn answer(&mut self) {
        if self.work.is_empty() {
            return;
        }
        let at = self.script.below(self.work.len());
        let input = match self.work.remove(at).unwrap() {
            Output::Fetch { content, from, .. } => {
                let outcome = outcome(&mut self.script);
                Input::Fetched { content, from, outcome }
            }
            Output::Check { payload, fragment } => {
                let good = !self.script.byte().is_multiple_of(16);
                let outcome = if good { Ok(()) } else { Err(Fault::BadPayload) };
                Input::Checked { payload, fragment, outcome }
            }
            Output::Capture { fragment } => Input::Captured {
                fragment,
                payload: ContentId([self.script.byte(); 32]),
                payload_bytes: 64,
                steps_since: u32::try_from(self.script.below(3)).unwrap(),
                tokens_since: 32 * self.script.below(3) as u64,
            },
            Output::Materialise { fragment, cuts } => {
                let base = self.engine.status(fragment).unwrap().base;
                let version = cuts.last().map_or(base, |cut| cut.round);
                let digest = ContentId([self.script.byte(); 32]);
                Input::Materialised { fragment, version, digest }
            }
            Output::Stabilise { fragment, version } => {
                let digest = ContentId([self.script.byte(); 32]);
                Input::Stabilised { fragment, version, digest }
            }
            Output::Install { fragment, content } => {
                let good = !self.script.byte().is_multiple_of(8);
                Input::Installed { fragment, content, good }
            }
            Output::Adopt { fragment, version, .. } => Input::Adopted { fragment, version },
            other => panic!("not asked of a driver: {other:?}"),
        };
        self.handle(input);
    }

    /// Takes every output and asserts what must hold; with `judged` verdicts among them.
    fn check(&mut self, judged: usize) -> Option<Verdict> {
        for (name, size, limit) in self.engine.sizes() {
            assert!(size <= limit, "{name}: {size} of {limit}");
        }
        let mut verdicts = Vec::new();
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Judge { receipt, verdict } => {
                    assert_eq!(receipt, self.receipt);
                    verdicts.push(verdict);
                }
                Output::Persist(record) => {
                    let bytes = wire::encode(&record);
                    assert_eq!(wire::decode(&bytes, 2 * MESSAGE_BYTES_MAX), Ok(record.clone()));
                    self.records.push(record);
                }
                Output::Publish(bytes) => {
                    assert!(Message::decode(&bytes).unwrap().is_gossip());
                    self.hear(bytes);
                }
                Output::Send { bytes, .. } => {
                    Message::decode(&bytes).unwrap();
                    self.hear(bytes);
                }
                Output::Penalise { .. } | Output::Prune { .. } | Output::Report(_) => {}
                work => self.work.push_back(work),
            }
        }
        assert_eq!(verdicts.len(), judged, "each message is judged once");
        for status in self.statuses() {
            let fates = status.fates;
            let parts = [fates.merged, fates.pending, fates.fresh, fates.reissued, fates.orphaned];
            let sum: u128 = parts.into_iter().map(u128::from).sum();
            assert_eq!(sum, u128::from(fates.trained), "{fates:?}");
            assert!(status.base <= status.head && status.head <= status.version, "{status:?}");
        }
        verdicts.first().copied()
    }

    fn hear(&mut self, bytes: Vec<u8>) {
        if self.said.len() < SAID_MAX {
            self.said.push(bytes);
        }
    }
}

/// Two fragments of a few parameters, with one of three rosters.
fn genesis(roster: usize, keys: &[Key]) -> Genesis {
    let tensor = |name: &str| TensorSpec::new(name, &[4, 4], TensorKind::Matrix, Init::Zeros);
    let sorted = |keys: &[Key]| {
        let mut nodes: Vec<_> = keys.iter().map(Key::node).collect();
        nodes.sort_unstable();
        nodes
    };
    let stewards = sorted(&keys[..2]);
    let genesis = Genesis {
        fragments: 2,
        rounds: testkit::rounds(),
        codec: Codec::F32,
        roster: match roster {
            0 => RosterPolicy::Open,
            1 => RosterPolicy::Closed { nodes: sorted(&keys[..4]), stewards },
            _ => RosterPolicy::Invite { stewards },
        },
        ..Genesis::custom("stranger", vec![tensor("a"), tensor("b")])
    };
    genesis.validate().unwrap();
    genesis
}

fn outcome(script: &mut Script<'_>) -> FetchOutcome {
    match script.below(8) {
        0 => FetchOutcome::NotFound,
        1 => FetchOutcome::Unreachable,
        2 => FetchOutcome::Wrong,
        3 => FetchOutcome::Partly,
        _ => FetchOutcome::Stored,
    }
}

/// What a record needs to be on disk.
fn payload(record: &Record) -> Option<ContentId> {
    match record {
        Record::Contribution(signed) => Some(signed.body.payload),
        _ => None,
    }
}

/// Messages remembered, to be said again.
const SAID_MAX: usize = 200;
/// Every restart checks all signatures on the disk again.
const RESTARTS_MAX: u32 = 3;
