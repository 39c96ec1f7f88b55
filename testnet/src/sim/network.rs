//! Messages, fetches and connections between nodes.

use std::rc::Rc;

use atoll_protocol::crypto::content_id;
use atoll_protocol::engine::{FetchOutcome, Input};
use atoll_protocol::id::{ContentId, NodeId};
use atoll_protocol::time::Time;

use super::agenda::{Happening, Request};
use super::byzantine::{Act, Actor, Reply};
use super::link::Fate;
use super::node::Mind;
use super::packet::Packet;
use super::world::Simulation;
use crate::check::{Event, NodeIndex};

/// A message that a clog holds back.
#[derive(Debug)]
pub(super) struct Held {
    from: NodeIndex,
    to: NodeIndex,
    packet: Rc<Packet>,
    gossip: bool,
}

impl Simulation<'_> {
    /// Gossips a node's own message.
    pub(super) fn publish(&mut self, node: NodeIndex, bytes: Vec<u8>) {
        let packet = Rc::new(Packet::new(bytes));
        if let Some(running) = &mut self.world.nodes[node].running {
            running.seen.insert(packet.hash);
        }
        self.relay(node, None, &packet);
    }

    /// Sends gossip to all connected peers but the one it came from.
    pub(super) fn relay(&mut self, node: NodeIndex, from: Option<NodeIndex>, packet: &Rc<Packet>) {
        let Some(running) = &self.world.nodes[node].running else { return };
        let peers: Vec<NodeIndex> = running.connected.keys().copied().collect();
        for peer in peers.into_iter().filter(|peer| Some(*peer) != from) {
            // As peers tell each other in a real gossip mesh: what one has is not sent again.
            let state = self.world.nodes[peer].running.as_ref();
            if state.is_some_and(|running| running.seen.contains(&packet.hash)) {
                continue;
            }
            self.transmit(Held { from: node, to: peer, packet: packet.clone(), gossip: true });
        }
    }

    /// Sends to one node, connected or not. Of two nodes with one key either may get it.
    pub(super) fn send(&mut self, node: NodeIndex, to: NodeId, packet: &Rc<Packet>) {
        if let Some(to) = self.resolve(node, to) {
            self.transmit(Held { from: node, to, packet: packet.clone(), gossip: false });
        }
    }

    /// Sends again whatever no clog holds back any more.
    pub(super) fn release(&mut self) {
        for held in std::mem::take(&mut self.world.held) {
            self.transmit(held);
        }
    }

    /// A message arrives.
    pub(super) fn deliver(
        &mut self,
        from: NodeIndex,
        to: NodeIndex,
        packet: &Rc<Packet>,
        gossip: bool,
    ) {
        let sender = self.world.nodes[from].id;
        let Some(running) = &mut self.world.nodes[to].running else { return };
        if running.bans(&sender) || (gossip && !running.seen.insert(packet.hash)) {
            return;
        }
        if let Mind::Liar(_) = running.mind {
            self.liar(to, |liar, now| liar.on_message(now, sender, &packet.bytes));
            return;
        }
        running.receipt += 1;
        let receipt = running.receipt;
        running.receipts.insert(receipt, (packet.clone(), from, gossip));
        self.observer.hash_packet(self.world.now, to, packet);
        self.input(to, Input::Received { from: sender, bytes: packet.bytes.clone(), receipt });
    }

    /// Begins a fetch.
    pub(super) fn fetch(
        &mut self,
        node: NodeIndex,
        content: ContentId,
        from: NodeId,
        bytes_max: u64,
    ) {
        let holder = self.resolve(node, from);
        let (now, life) = (self.world.now, self.world.nodes[node].life);
        let patience = self.world.links.patience(bytes_max);
        let Some(running) = &mut self.world.nodes[node].running else { return };
        running.fetch += 1;
        let number = running.fetch;
        running.fetches.insert(number, (from, bytes_max));
        let request = Request { asker: node, life, number, content };
        if let Some(holder) = holder
            && let Some(at) = self.world.links.carry(now, node, holder, REQUEST_BYTES)
        {
            self.world.agenda.plan(at, Happening::Ask { request, holder });
        }
        self.world.agenda.plan(Time(now.0 + patience), Happening::GiveUp { request });
    }

    /// A request arrives at its holder, which answers at once.
    pub(super) fn ask(&mut self, request: Request, holder: NodeIndex) {
        let asker = self.world.nodes[request.asker].id;
        let now = self.world.now;
        let state = &mut self.world.nodes[holder];
        let Some(running) = &mut state.running else { return };
        let mut served = None;
        let bytes = match &mut running.mind {
            Mind::Engine(engine) => {
                let snapshot = state.disk.base(&request.content);
                let snapshot = snapshot.filter(|_| engine.may_serve(&request.content));
                served = snapshot.map(|_| request.content);
                let snapshot = snapshot.map(|state| Rc::from(state.bytes()));
                state.disk.checked(&request.content).cloned().or(snapshot)
            }
            Mind::Liar(liar) => {
                match liar.on_fetch(running.clock.read(now), asker, &request.content) {
                    Reply::Bytes(bytes) => Some(bytes),
                    Reply::NotFound => None,
                    Reply::Silence => {
                        self.world.count_attacks(holder);
                        return;
                    }
                }
            }
        };
        self.world.count_attacks(holder);
        if let Some(content) = served {
            self.observer.see(&self.world, &Event::Served(holder, content));
        }
        let length = bytes.as_ref().map_or(0, |bytes| bytes.len());
        self.world.tally.content_bytes += length as u64;
        if let Some(at) = self.world.links.carry(now, holder, request.asker, length) {
            self.world.agenda.plan(at, Happening::Answer { request, bytes });
        }
    }

    /// The answer to a fetch arrives.
    pub(super) fn answer(&mut self, request: Request, bytes: Option<Rc<[u8]>>) {
        let Some((from, bytes_max)) = self.end_fetch(request) else { return };
        let outcome = match bytes {
            None => FetchOutcome::NotFound,
            Some(bytes) if bytes.len() as u64 > bytes_max => FetchOutcome::Wrong,
            Some(bytes) if content_id(&bytes) != request.content => FetchOutcome::Wrong,
            Some(bytes) => {
                self.world.nodes[request.asker].disk.store(request.content, bytes);
                FetchOutcome::Stored
            }
        };
        let content = request.content;
        self.input(request.asker, Input::Fetched { content, from, outcome });
    }

    /// A fetch took too long.
    pub(super) fn give_up(&mut self, request: Request) {
        if let Some((from, _)) = self.end_fetch(request) {
            let (content, outcome) = (request.content, FetchOutcome::Unreachable);
            self.input(request.asker, Input::Fetched { content, from, outcome });
        }
    }

    fn end_fetch(&mut self, request: Request) -> Option<(NodeId, u64)> {
        if !self.world.lives(request.asker, request.life) {
            return None;
        }
        self.world.nodes[request.asker].running.as_mut()?.fetches.remove(&request.number)
    }

    /// A node notices whether a peer is reachable, and whether it is still in the same life.
    pub(super) fn look(&mut self, node: NodeIndex, peer: NodeIndex) {
        let id = self.world.nodes[peer].id;
        let reachable =
            self.world.nodes[peer].running.is_some() && self.world.links.open(peer, node);
        let life = self.world.nodes[peer].life;
        let own = self.world.nodes[node].id;
        let Some(running) = &mut self.world.nodes[node].running else { return };
        let wanted = (reachable && own != id && !running.bans(&id)).then_some(life);
        let known = running.connected.get(&peer).copied();
        if known == wanted {
            return;
        }
        running.connected.remove(&peer);
        let twins = self.world.by_id.get(&id).map_or(&[][..], Vec::as_slice);
        let other = twins.iter().any(|twin| running.connected.contains_key(twin));
        if let Some(life) = wanted {
            running.connected.insert(peer, life);
        }
        // The engine knows nodes by their keys, of which two nodes may share one.
        if known.is_some() && !other {
            self.input(node, Input::PeerDown(id));
        }
        if wanted.is_some() && !other {
            self.input(node, Input::PeerUp(id));
        }
    }

    /// Lets a node and all its neighbours notice each other, after so many milliseconds.
    pub(super) fn look_around(&mut self, node: NodeIndex, low: u64, high: u64) {
        for peer in self.world.links.neighbours(node).to_vec() {
            let at = self.world.soon(low, high);
            self.world.agenda.plan(at, Happening::Look { node, peer });
            let at = self.world.soon(low, high);
            self.world.agenda.plan(at, Happening::Look { node: peer, peer: node });
        }
    }

    /// Lets a liar act.
    pub(super) fn liar(
        &mut self,
        node: NodeIndex,
        act: impl FnOnce(&mut dyn Actor, Time) -> Vec<Act>,
    ) {
        let (now, life) = (self.world.now, self.world.nodes[node].life);
        let Some(running) = &mut self.world.nodes[node].running else { return };
        let clock = running.clock;
        let Mind::Liar(liar) = &mut running.mind else { return };
        let acts = act(liar.as_mut(), clock.read(now));
        self.world.count_attacks(node);
        for act in acts {
            match act {
                Act::Send { to, bytes } => {
                    self.send(node, to, &Rc::new(Packet::new(bytes)));
                }
                Act::Publish(bytes) => {
                    self.publish(node, bytes);
                }
                Act::Timer(at) => {
                    let at = clock.when(at).max(Time(now.0 + 1));
                    self.world.agenda.plan(at, Happening::LiarTimer { node, life });
                }
            }
        }
    }

    fn transmit(&mut self, message: Held) {
        let (now, from, to) = (self.world.now, message.from, message.to);
        self.world.tally.message_bytes += message.packet.bytes.len() as u64;
        let fate = self.world.links.send(now, from, to);
        let Held { packet, gossip, .. } = &message;
        let arrive = || Happening::Deliver { from, to, packet: packet.clone(), gossip: *gossip };
        match fate {
            Fate::Lost => {}
            Fate::Held => self.world.held.push(message),
            Fate::Arrives(at) => self.world.agenda.plan(at, arrive()),
            Fate::Twice(at, again) => {
                self.world.agenda.plan(at, arrive());
                // A mesh forgets what it has passed on: now and then an engine hears gossip twice.
                let past_memory = *gossip && self.world.rng.ratio(1, TWICE_ONE_IN);
                let gossip = *gossip && !past_memory;
                let packet = packet.clone();
                self.world.agenda.plan(again, Happening::Deliver { from, to, packet, gossip });
                if past_memory {
                    self.world.tally.fault("gossip heard twice");
                }
            }
        }
    }

    /// The node that is meant by a key: one that is connected, if there is a choice.
    fn resolve(&mut self, node: NodeIndex, id: NodeId) -> Option<NodeIndex> {
        let all = self.world.by_id.get(&id)?;
        if let [only] = all[..] {
            return (only != node).then_some(only);
        }
        let connected = self.world.nodes[node].running.as_ref().map(|running| &running.connected);
        let near: Vec<NodeIndex> = all
            .iter()
            .copied()
            .filter(|index| connected.is_some_and(|connected| connected.contains_key(index)))
            .collect();
        let choice = if near.is_empty() { all.as_slice() } else { near.as_slice() };
        self.world.rng.pick(choice).copied().filter(|index| *index != node)
    }
}

/// One in so many second copies of gossip reaches the engine.
const TWICE_ONE_IN: u64 = 10;
/// What a request for content weighs.
const REQUEST_BYTES: usize = 64;
