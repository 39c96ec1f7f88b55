//! The cast of liars: nodes with a real key that do one thing wrong, and do it all the time.
//!
//! To do harm a liar must look alive, so it follows the swarm: it repeats the newest frontier it
//! heard as its own, and it answers every round that somebody opens.

mod forge;
mod strike;
mod view;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use atoll_protocol::contribution::Header;
use atoll_protocol::fragment::Fragment;
use atoll_protocol::id::{ContentId, FragmentId, NodeId, RunId, Version};
use atoll_protocol::message::Message;
use atoll_protocol::rng::Rng;
use atoll_protocol::time::{Span, Time};

use super::byzantine::{Act, Actor, Attack, Part, Reply};
use view::View;

/// Makes the liar that plays a part.
pub fn cast(part: Part) -> Box<dyn Actor> {
    Box::new(Liar::new(part))
}

/// A node that does one thing wrong.
#[derive(Debug)]
struct Liar {
    part: Part,
    run: RunId,
    fragments: Vec<Fragment>,
    rng: Rng,
    view: View,
    sequence: u64,
    /// What it serves.
    contents: BTreeMap<ContentId, Rc<[u8]>>,
    /// The last round of each fragment it took part in.
    struck: BTreeMap<FragmentId, Version>,
    /// Messages of others, to say again.
    tape: VecDeque<Vec<u8>>,
    /// A pseudo-gradient of each fragment, trained once.
    trained: Option<Vec<Vec<f32>>>,
    /// Heartbeats of its flood.
    beats: usize,
    /// What it did of its attack and nobody has counted yet.
    attacks: u64,
}

impl Actor for Liar {
    fn on_start(&mut self, now: Time) -> Vec<Act> {
        vec![Act::Timer(now.after(self.beat()))]
    }

    fn on_timer(&mut self, now: Time) -> Vec<Act> {
        let mut acts = self.heartbeat();
        acts.extend(self.pester());
        acts.push(Act::Timer(now.after(self.beat())));
        acts
    }

    fn on_message(&mut self, _now: Time, from: NodeId, bytes: &[u8]) -> Vec<Act> {
        let Ok(message) = Message::decode(bytes) else { return Vec::new() };
        self.record(bytes);
        match message {
            Message::Announce(signed) => self.answer(&signed.body),
            Message::Frontier(signed) if signed.body.node != self.part.key.node() => {
                self.view.heard(signed.body);
                Vec::new()
            }
            Message::AskHistory(fragment) => self.tell_history(from, fragment),
            _ => Vec::new(),
        }
    }

    fn on_fetch(&mut self, _now: Time, _from: NodeId, content: &ContentId) -> Reply {
        match self.part.attack {
            Attack::Withholding => {
                self.attacks += 1;
                Reply::Silence
            }
            Attack::WrongContent => {
                self.attacks += 1;
                Reply::Bytes(self.noise(4096).into())
            }
            Attack::PoisonedSnapshot => {
                self.attacks += 1;
                Reply::Bytes(self.poisoned_snapshot().into())
            }
            _ => self.contents.get(content).cloned().map_or(Reply::NotFound, Reply::Bytes),
        }
    }

    fn attacks(&mut self) -> u64 {
        std::mem::take(&mut self.attacks)
    }
}

impl Liar {
    fn new(part: Part) -> Self {
        Self {
            run: part.genesis.run_id(),
            fragments: part.genesis.fragment_map().fragments().to_vec(),
            rng: Rng::new(part.seed),
            view: View::default(),
            sequence: 0,
            contents: BTreeMap::new(),
            struck: BTreeMap::new(),
            tape: VecDeque::new(),
            trained: None,
            beats: 0,
            attacks: 0,
            part,
        }
    }

    fn beat(&self) -> Span {
        Span(self.part.genesis.rounds.heartbeat_ms.max(1))
    }

    /// Takes part in a round that `seen` contributes to, once.
    fn answer(&mut self, seen: &Header) -> Vec<Act> {
        let last = self.struck.get(&seen.fragment).copied().unwrap_or(0);
        let Some(fragment) = self.fragments.get(seen.fragment.index()).cloned() else {
            return Vec::new();
        };
        if seen.author == self.part.key.node() || seen.round <= last {
            return Vec::new();
        }
        self.struck.insert(seen.fragment, seen.round);
        self.strike(&fragment, seen)
    }

    /// Keeps some of what others say.
    fn record(&mut self, bytes: &[u8]) {
        if self.part.attack != Attack::Replay {
            return;
        }
        if self.tape.len() >= TAPE_MAX {
            self.tape.pop_front();
        }
        self.tape.push_back(bytes.to_vec());
    }

    /// Offers `bytes` for fetching, and forgets the oldest offer beyond a bound.
    fn offer(&mut self, content: ContentId, bytes: Vec<u8>) {
        if self.contents.len() >= CONTENTS_MAX {
            self.contents.pop_first();
        }
        self.contents.insert(content, bytes.into());
    }

    fn noise(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes.div_ceil(8)).flat_map(|_| self.rng.next_u64().to_le_bytes()).collect()
    }
}

/// Messages on the tape.
const TAPE_MAX: usize = 64;
/// Payloads and snapshots it serves.
const CONTENTS_MAX: usize = 256;
