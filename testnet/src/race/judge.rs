//! The held-out loss of a swarm's outer state, measured from outside while it trains.
//!
//! A node writes every base state to its disk when the rounds up to it are stable. It was the
//! node's head before: when that was, the event log says. So the loss of each version is known to
//! the time at which the node had it, whenever it is measured. While the race is on only now and
//! then one is, to know when to stop; those in between are measured afterwards, when that takes
//! nobody's step time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use atoll_node::island::host::be_nice;
use atoll_protocol::fragment::Fragment;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{FragmentId, Version};
use atoll_protocol::outer::OuterState;
use serde::Serialize;
use serde_json::Value;

use crate::compare::model::Model;
use crate::lesson::Lesson;
use crate::up::UpError;

/// One measured outer state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    /// Rounds behind it, of all fragments together.
    pub(super) rounds: Version,
    /// When the node had it, and what all had sent by then.
    pub(super) seconds: f64,
    pub(super) bytes: u64,
    pub(super) loss: f64,
}

/// Follows one node.
#[derive(Debug)]
pub(super) struct Judge {
    fragments: Vec<Fragment>,
    /// Lines of the event log that were read.
    read: usize,
    /// When which state of which fragment was there first, by digest.
    reached: BTreeMap<(FragmentId, String), (f64, u64)>,
    /// Files of base states that were read.
    seen: BTreeSet<String>,
    bases: BTreeMap<FragmentId, Base>,
    /// Rounds behind the newest model that was put aside.
    newest: Version,
    /// Models that were not measured yet, from the oldest.
    waiting: VecDeque<Whole>,
    asked_at: Instant,
    busy: bool,
    questions: SyncSender<Whole>,
    answers: Receiver<Point>,
}

/// A base state and when it was the head.
#[derive(Clone, Debug)]
struct Base {
    state: OuterState,
    reached: (f64, u64),
}

/// A whole model.
type Whole = (Point, Vec<OuterState>);

impl Judge {
    /// A judge of runs of `genesis`, who has not seen anything yet.
    pub(super) fn new(genesis: &Genesis) -> Result<Self, UpError> {
        let model = Model::new(genesis, genesis.run_id(), genesis.schedule.peak, 1);
        let model = model.map_err(|error| UpError::usage(error.to_string(), "choose another"))?;
        let (questions, asked) = sync_channel::<Whole>(1);
        let (answer, answers) = sync_channel(1);
        thread::spawn(move || {
            // Where it cannot, steps take a little longer, which is not worth a word.
            let _ = be_nice(NICE);
            for (point, states) in asked {
                let loss = model.loss(&states.iter().collect::<Vec<_>>());
                if answer.send(Point { loss, ..point }).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            fragments: genesis.fragment_map().fragments().to_vec(),
            read: 0,
            reached: BTreeMap::new(),
            seen: BTreeSet::new(),
            bases: BTreeMap::new(),
            newest: 0,
            waiting: VecDeque::new(),
            asked_at: Instant::now(),
            busy: false,
            questions,
            answers,
        })
    }

    /// Looks at what the node has written; `seconds` and `bytes` are what they are now. Gives a
    /// loss if one was measured meanwhile.
    pub(super) fn look(&mut self, folder: &Path, seconds: f64, bytes: u64) -> Option<Point> {
        self.read_events(&folder.join("events.jsonl"), seconds, bytes);
        self.read_bases(&folder.join("bases"));
        self.put_aside();
        if !self.busy && self.asked_at.elapsed() >= MEASURE_EVERY {
            let newest = self.waiting.back().cloned();
            self.ask(newest);
        }
        let point = self.answers.try_recv().ok()?;
        self.busy = false;
        Some(point)
    }

    /// The first point at which the target was reached, given one that reached it: measures those
    /// in between. Those before `missed`, which did not, are left out.
    pub(super) fn first(&mut self, target: f64, missed: Version, reached: Point) -> Point {
        while let Some(whole) = self.waiting.pop_front() {
            let rounds = whole.0.rounds;
            if rounds >= reached.rounds {
                break;
            }
            if rounds > missed {
                self.ask(Some(whole));
                if let Ok(point) = self.answers.recv()
                    && point.loss <= target
                {
                    return point;
                }
            }
        }
        reached
    }

    /// Forgets models up to one that missed the target.
    pub(super) fn forget(&mut self, missed: Version) {
        self.waiting.retain(|(point, _)| point.rounds > missed);
    }

    fn ask(&mut self, whole: Option<Whole>) {
        let Some(whole) = whole else { return };
        self.busy = self.questions.send(whole).is_ok();
        self.asked_at = Instant::now();
    }

    fn read_events(&mut self, path: &Path, seconds: f64, bytes: u64) {
        let text = fs::read_to_string(path).unwrap_or_default();
        // The last line may not be whole yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines: Vec<&str> = whole.lines().collect();
        for line in lines.get(self.read..).unwrap_or_default() {
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            if event["event"] == "materialised"
                && let Some(fragment) = event["fragment"].as_u64().and_then(|it| it.try_into().ok())
                && let Some(digest) = event["digest"].as_str()
            {
                let key = (FragmentId(fragment), digest.to_owned());
                self.reached.entry(key).or_insert((seconds, bytes));
            }
        }
        self.read = lines.len();
    }

    fn read_bases(&mut self, folder: &Path) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if self.seen.contains(&name) {
                continue;
            }
            // It may be gone before it is read; a newer one is there then.
            let Ok(bytes) = fs::read(entry.path()) else { continue };
            let Some(base) = self.base(&name, &bytes) else { continue };
            self.seen.insert(name);
            let fragment = base.state.fragment();
            let held = self.bases.get(&fragment).map(|it| it.state.version());
            if held.is_none_or(|held| held < base.state.version()) {
                self.bases.insert(fragment, base);
            }
        }
    }

    /// A base state from its file, whose name is the fragment, a number and the digest.
    fn base(&self, name: &str, bytes: &[u8]) -> Option<Base> {
        let mut parts = name.split('-');
        let fragment = parts.next()?.parse().ok()?;
        let digest = parts.nth(1)?.to_owned();
        let reached = *self.reached.get(&(FragmentId(fragment), digest))?;
        let state =
            OuterState::from_bytes(bytes, self.fragments.get(usize::from(fragment))?).ok()?;
        Some(Base { state, reached })
    }

    /// Keeps the model for later, once a fragment has a version more.
    fn put_aside(&mut self) {
        let rounds = self.bases.values().map(|it| it.state.version()).sum();
        if self.bases.len() < self.fragments.len() || rounds <= self.newest {
            return;
        }
        let times = self.bases.values().map(|it| it.reached);
        let Some((seconds, bytes)) = times.max_by(|one, other| one.0.total_cmp(&other.0)) else {
            return;
        };
        let point = Point { rounds, seconds, bytes, loss: f64::NAN };
        let states = self.bases.values().map(|it| it.state.clone()).collect();
        self.newest = rounds;
        self.waiting.push_back((point, states));
        if self.waiting.len() > WAITING_MAX {
            self.waiting.pop_front();
        }
    }
}

/// A measurement takes about a second of one core.
const MEASURE_EVERY: Duration = Duration::from_secs(12);
/// It leaves the cores to those who race.
const NICE: i32 = 19;
/// Models that wait to be measured.
const WAITING_MAX: usize = 32;
