//! A few engines in one room: every message arrives at once, every disk is perfect. For tests of
//! the engine itself; the simulator has the bad weather.

#![allow(clippy::unwrap_used, reason = "a test's own support fails like a test")]

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use atoll_protocol::codec::{self, Codec};
use atoll_protocol::crypto::{Key, content_id};
use atoll_protocol::engine::{Engine, EngineConfig, FetchOutcome, Input, Output, Record, Report};
use atoll_protocol::fault::{Fault, Verdict};
use atoll_protocol::fragment::Fragment;
use atoll_protocol::frontier::Standing;
use atoll_protocol::genesis::{Genesis, Init, TensorKind, TensorSpec};
use atoll_protocol::id::{ContentId, FragmentId, NodeId};
use atoll_protocol::message::Message;
use atoll_protocol::outer::{Budget, Fold, Norms, OuterState, Payloads, check};
use atoll_protocol::planted::Planted;
use atoll_protocol::pool::Inline;
use atoll_protocol::testkit;
use atoll_protocol::time::Time;

/// One engine with what its driver would hold.
pub(crate) struct Node {
    pub(crate) key: Key,
    pub(crate) engine: Engine,
    pub(crate) records: Vec<Record>,
    pub(crate) reports: Vec<Report>,
    pub(crate) judged: Vec<Verdict>,
    pub(crate) penalties: Vec<(NodeId, Fault)>,
    /// Times it asked somebody for a history.
    pub(crate) asked: usize,
    /// What it asked somebody for, in order.
    pub(crate) fetched: Vec<ContentId>,
    pub(crate) up: bool,
    /// Whether its island steps: not before it has a first state.
    steps: bool,
    store: Store,
    folds: Vec<Fold>,
    captures: u32,
}

/// All of them.
pub(crate) struct Room {
    pub(crate) genesis: Genesis,
    pub(crate) founds: bool,
    /// Who gives whoever comes a ticket.
    pub(crate) sponsor: Option<NodeId>,
    pub(crate) now: Time,
    pub(crate) nodes: Vec<Node>,
    /// Pairs that cannot reach each other.
    pub(crate) cut: Vec<(usize, usize)>,
    /// How long a node's fetches of large contents take.
    pub(crate) thin: Option<(usize, u64)>,
    /// A node that answers about the roster do not reach.
    pub(crate) untold: Option<usize>,
    /// Nodes that neither send histories nor get any.
    pub(crate) silent: Vec<usize>,
    /// Whether islands stand still.
    pub(crate) idle: bool,
    /// Messages published and sent so far.
    pub(crate) messages: usize,
    queue: VecDeque<(usize, Input)>,
    late: Vec<(Time, usize, Input)>,
}

#[derive(Default)]
struct Store(BTreeMap<ContentId, (Vec<u8>, BTreeMap<FragmentId, Norms>)>);

impl Payloads for Store {
    fn payload(
        &self,
        id: &ContentId,
        fragment: FragmentId,
    ) -> Option<(Cow<'_, [u8]>, Cow<'_, Norms>)> {
        let (bytes, norms) = self.0.get(id)?;
        Some((Cow::Borrowed(bytes), Cow::Borrowed(norms.get(&fragment)?)))
    }
}

/// A small genesis with two fragments.
pub(crate) fn genesis() -> Genesis {
    let tensor = |name: &str| TensorSpec::new(name, &[4, 4], TensorKind::Matrix, Init::Normal(0.1));
    Genesis {
        fragments: 2,
        rounds: testkit::rounds(),
        codec: Codec::F32,
        ..Genesis::custom("room", vec![tensor("a"), tensor("b"), tensor("c")])
    }
}

impl Room {
    pub(crate) fn new(genesis: Genesis, count: u8) -> Self {
        Self::founded(genesis, count, false)
    }

    /// A room whose nodes have all just made the run, or have not.
    pub(crate) fn founded(genesis: Genesis, count: u8, founds: bool) -> Self {
        genesis.validate().unwrap();
        let mut room = Self {
            genesis,
            founds,
            sponsor: None,
            now: Time(0),
            nodes: Vec::new(),
            cut: Vec::new(),
            thin: None,
            untold: None,
            silent: Vec::new(),
            idle: false,
            messages: 0,
            queue: VecDeque::new(),
            late: Vec::new(),
        };
        for n in 0..count {
            room.join(n + 1);
        }
        room
    }

    /// A new node comes, with the key of this number.
    pub(crate) fn join(&mut self, n: u8) {
        let node = self.start(testkit::key(n), Vec::new(), Store::default(), 1);
        self.nodes.push(node);
        self.connect();
        self.drain();
    }

    /// Stops a node and starts it again from its records.
    pub(crate) fn restart(&mut self, index: usize) {
        let records = self.nodes[index].records.clone();
        let store = std::mem::take(&mut self.nodes[index].store);
        let key = self.nodes[index].key.clone();
        self.nodes[index] = self.start(key, records, store, 2);
        self.connect();
        self.drain();
    }

    /// Takes everything from a node's disk that its engine does not need, but for its bases, and
    /// says how many contents that was.
    pub(crate) fn clear(&mut self, index: usize) -> usize {
        let bases = self.bases(index);
        let Node { engine, store, .. } = &mut self.nodes[index];
        let before = store.0.len();
        store.0.retain(|id, _| engine.needs(id) || engine.may_serve(id) || bases.contains(id));
        before - store.0.len()
    }

    /// Lets time pass; every up node's island makes one step each 100 ms, once it has a state.
    pub(crate) fn run(&mut self, ms: u64) {
        let end = self.now.0 + ms;
        while self.now.0 < end {
            self.now = Time(self.now.0 + 10);
            let arrived = self.late.extract_if(.., |(at, ..)| *at <= self.now);
            self.queue.extend(arrived.map(|(_, index, input)| (index, input)));
            for index in 0..self.nodes.len() {
                if !self.nodes[index].up {
                    continue;
                }
                if self.nodes[index].engine.poll_timeout().is_some_and(|at| at <= self.now) {
                    self.nodes[index].engine.handle_timeout(self.now);
                    self.execute(index);
                }
                let Node { engine, steps, .. } = &mut self.nodes[index];
                *steps |= engine.standing() == Standing::CaughtUp;
                if *steps && !self.idle && (self.now.0 / 10 + index as u64).is_multiple_of(10) {
                    self.input(index, Input::Stepped { tokens: 32, step_ms: 100 });
                }
            }
            self.drain();
        }
    }

    /// Hands one input to a node and everything that follows to everybody.
    pub(crate) fn input(&mut self, index: usize, input: Input) {
        self.queue.push_back((index, input));
        self.drain();
    }

    pub(crate) fn connect(&mut self) {
        for one in 0..self.nodes.len() {
            for other in 0..self.nodes.len() {
                if one != other && self.reach(one, other) {
                    let node = self.nodes[other].engine.node();
                    self.queue.push_back((one, Input::PeerUp(node)));
                }
            }
        }
    }

    /// The digest of every fragment on a node.
    pub(crate) fn digests(&self, index: usize) -> Vec<(u32, ContentId)> {
        (0..self.genesis.fragments)
            .map(|fragment| {
                let status = self.nodes[index].engine.status(FragmentId(fragment)).unwrap();
                (status.head, status.digest)
            })
            .collect()
    }

    /// The bases of a node.
    pub(crate) fn bases(&self, index: usize) -> BTreeSet<ContentId> {
        let fragments = (0..self.genesis.fragments).map(FragmentId);
        let base = |it| self.nodes[index].engine.status(it).unwrap().base_digest;
        fragments.map(base).collect()
    }

    fn start(&self, key: Key, records: Vec<Record>, store: Store, incarnation: u64) -> Node {
        let map = self.genesis.fragment_map();
        let states: Vec<OuterState> = map
            .fragments()
            .iter()
            .map(|fragment| OuterState::new(fragment.id, &self.genesis.initial(fragment)))
            .collect();
        let config = EngineConfig {
            genesis: self.genesis.clone(),
            initial: states.iter().map(|state| state.digest(&Inline)).collect(),
            key: key.clone(),
            incarnation,
            seed: 7,
            trains: true,
            founds: self.founds && incarnation == 1,
            sponsor: self.sponsor,
            resumed: Vec::new(),
            lost: BTreeSet::new(),
            signed: Vec::new(),
            planted: Planted::default(),
        };
        let engine = Engine::new(config, records.clone(), self.now);
        // Nodes agree whatever memory each of them has.
        let budget = Budget::of_copies(usize::from(key.node().0[0] % 33));
        let folds =
            map.fragments()
                .iter()
                .zip(states)
                .map(|(fragment, state)| {
                    let digest = engine.status(fragment.id).unwrap().base_digest;
                    let base = store.0.get(&digest).map_or(state, |(bytes, _)| {
                        OuterState::from_bytes(bytes, fragment).unwrap()
                    });
                    Fold::new(fragment.clone(), &self.genesis, base, budget)
                })
                .collect();
        Node {
            key,
            engine,
            records,
            reports: Vec::new(),
            judged: Vec::new(),
            penalties: Vec::new(),
            asked: 0,
            fetched: Vec::new(),
            up: true,
            steps: incarnation > 1,
            store,
            folds,
            captures: 0,
        }
    }

    fn reach(&self, one: usize, other: usize) -> bool {
        self.nodes[one].up
            && self.nodes[other].up
            && !self.cut.contains(&(one, other))
            && !self.cut.contains(&(other, one))
    }

    fn drain(&mut self) {
        while let Some((index, input)) = self.queue.pop_front() {
            if self.nodes[index].up {
                self.nodes[index].engine.handle(self.now, input);
                self.execute(index);
            }
        }
    }

    fn execute(&mut self, index: usize) {
        while let Some(output) = self.nodes[index].engine.poll_output() {
            self.execute_one(index, output);
        }
    }

    fn execute_one(&mut self, index: usize, output: Output) {
        let me = self.nodes[index].engine.node();
        self.messages += usize::from(matches!(output, Output::Publish(_) | Output::Send { .. }));
        match output {
            Output::Persist(record) => self.nodes[index].records.push(record),
            Output::Publish(bytes) => {
                for other in 0..self.nodes.len() {
                    if other != index && self.reach(index, other) {
                        let bytes = bytes.clone();
                        self.queue
                            .push_back((other, Input::Received { from: me, bytes, receipt: 0 }));
                    }
                }
            }
            Output::Send { to, bytes } => {
                let message = Message::decode(&bytes);
                let told = matches!(message, Ok(Message::Roster(_)));
                let history = matches!(message, Ok(Message::History(_)));
                self.nodes[index].asked +=
                    usize::from(matches!(message, Ok(Message::AskHistory(_))));
                for other in 0..self.nodes.len() {
                    let silent = self.silent.contains(&index) || self.silent.contains(&other);
                    let lost = told && self.untold == Some(other) || history && silent;
                    if self.nodes[other].engine.node() == to && self.reach(index, other) && !lost {
                        let bytes = bytes.clone();
                        self.queue
                            .push_back((other, Input::Received { from: me, bytes, receipt: 0 }));
                    }
                }
            }
            Output::Fetch { content, from, .. } => self.fetch(index, content, from),
            Output::Judge { verdict, .. } => self.nodes[index].judged.push(verdict),
            Output::Penalise { node, fault } => self.nodes[index].penalties.push((node, fault)),
            Output::Report(report) => self.nodes[index].reports.push(report),
            Output::Adopt { fragment, version, .. } => {
                self.queue.push_back((index, Input::Adopted { fragment, version }));
            }
            Output::Prune { .. } => {}
            work => self.work(index, work),
        }
    }

    fn fetch(&mut self, index: usize, content: ContentId, from: NodeId) {
        self.nodes[index].fetched.push(content);
        let holder = (0..self.nodes.len())
            .find(|other| self.nodes[*other].engine.node() == from && self.reach(index, *other));
        let mut at = self.now;
        let outcome = match holder {
            None => FetchOutcome::Unreachable,
            Some(holder) => match self.nodes[holder].store.0.get(&content).cloned() {
                None => FetchOutcome::NotFound,
                Some((bytes, _)) => {
                    if let Some((_, ms)) =
                        self.thin.filter(|it| it.0 == index && bytes.len() > LARGE)
                    {
                        at = Time(at.0 + ms);
                    }
                    self.nodes[index].store.0.insert(content, (bytes, BTreeMap::new()));
                    FetchOutcome::Stored
                }
            },
        };
        let input = Input::Fetched { content, from, outcome };
        if at > self.now {
            self.late.push((at, index, input));
        } else {
            self.queue.push_back((index, input));
        }
    }

    /// What a driver's pool would do.
    fn work(&mut self, index: usize, output: Output) {
        let map = self.genesis.fragment_map();
        let node = &mut self.nodes[index];
        let input = match output {
            Output::Check { payload, fragment } => {
                let (bytes, norms) = node.store.0.get_mut(&payload).unwrap();
                let fragments: &Fragment = map.fragment(fragment).unwrap();
                let merge = &self.genesis.merge;
                let result = check(bytes, self.genesis.codec, fragments, merge.norm_max, &Inline);
                let outcome = result.map(|it| drop(norms.insert(fragment, it)));
                let outcome = outcome.map_err(|_| Fault::BadPayload);
                Input::Checked { payload, fragment, outcome }
            }
            Output::Capture { fragment } => {
                node.captures += 1;
                let elements = map.fragment(fragment).unwrap().elements;
                let value = (node.captures + 10 * u32::from(node.key.node().0[0])) as f32 * 1e-4;
                let payload =
                    codec::encode(self.genesis.codec, &vec![value; elements], &Inline).unwrap();
                let id = content_id(&payload);
                let payload_bytes = u32::try_from(payload.len()).unwrap();
                node.store.0.insert(id, (payload, BTreeMap::new()));
                Input::Captured {
                    fragment,
                    payload: id,
                    payload_bytes,
                    steps_since: 0,
                    tokens_since: 0,
                }
            }
            Output::Materialise { fragment, cuts } => {
                let fold = &mut node.folds[fragment.index()];
                let digest = fold.refold(&cuts, &node.store, &Inline).unwrap();
                Input::Materialised { fragment, version: fold.head().version(), digest }
            }
            Output::Stabilise { fragment, version } => {
                let fold = &mut node.folds[fragment.index()];
                let digest = fold.advance_base(version, &node.store, &Inline).unwrap();
                let bytes = fold.base().bytes().to_vec();
                node.store.0.insert(digest, (bytes, BTreeMap::new()));
                Input::Stabilised { fragment, version, digest }
            }
            Output::Install { fragment, content } => {
                let bytes = &node.store.0[&content].0;
                let good = node.folds[fragment.index()].install(bytes).is_ok();
                Input::Installed { fragment, content, good }
            }
            other => panic!("not work: {other:?}"),
        };
        self.queue.push_back((index, input));
    }
}

/// Bytes from which a content takes its time over a thin link.
const LARGE: usize = 64 * 1024;
