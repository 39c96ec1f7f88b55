//! What each liar does when it is its turn.

use atoll_protocol::contribution::Header;
use atoll_protocol::crypto::Key;
use atoll_protocol::fragment::Fragment;
use atoll_protocol::id::{FragmentId, NodeId, RunId, Short, Version};
use atoll_protocol::limits::{PEER_BURST, ROUNDS_AHEAD_MAX, TOKENS_MAX};
use atoll_protocol::message::Message;

use super::super::byzantine::{Act, Attack};
use super::Liar;
use super::forge::{bomb, false_evidence, lies_in_frontiers, not_finite, nowhere};

impl Liar {
    /// Its contribution to the round of `seen`, wrong in its own way.
    pub(super) fn strike(&mut self, fragment: &Fragment, seen: &Header) -> Vec<Act> {
        let acts = self.lie(fragment, seen);
        if !strikes_elsewhere(self.part.attack) {
            self.attacks += acts.len() as u64;
        }
        acts
    }

    fn lie(&mut self, fragment: &Fragment, seen: &Header) -> Vec<Act> {
        let honest = self.honest_values(fragment);
        let good = self.payload(&honest);
        match self.part.attack {
            Attack::BadSignature => {
                let header = self.header(seen, good);
                let mut signed = self.part.key.sign(self.run, header);
                signed.signature.0[7] ^= 1;
                vec![Act::Publish(Message::Announce(signed).encode())]
            }
            Attack::OtherRun => {
                let header = self.header(seen, good);
                let signed = self.part.key.sign(other_run(self.run), header);
                vec![Act::Publish(Message::Announce(signed).encode())]
            }
            Attack::Equivocation => self.equivocate(seen, good),
            Attack::NotFinite => {
                let payload = not_finite(self.part.genesis.codec, &good, seen.round);
                vec![self.contribute(seen, payload)]
            }
            Attack::HugeNorm => self.scaled(seen, &honest, 1e4),
            Attack::Poison => self.scaled(seen, &honest, -10.0),
            Attack::SignFlip => self.scaled(seen, &honest, -1.0),
            Attack::Bomb => vec![self.contribute(seen, bomb(&good, seen.round))],
            Attack::TokenInflation => {
                let tokens = if seen.round.is_multiple_of(2) { TOKENS_MAX } else { 1 << 30 };
                vec![self.announce(Header { tokens, ..self.copied(seen) })]
            }
            Attack::WrongLength => self.wrong_length(seen, &good),
            Attack::Withholding => {
                let header = Header { payload: nowhere(seen), ..self.header(seen, good) };
                vec![self.announce(header)]
            }
            Attack::OutOfRange => self.out_of_range(seen, good),
            Attack::BadEvidence => {
                let [strangers, framed] = false_evidence(&self.part.key, self.run, seen);
                vec![
                    Act::Publish(strangers),
                    Act::Publish(framed),
                    self.announce(self.copied(seen)),
                ]
            }
            Attack::NotOnRoster => {
                let mut secret = [0x77; 32];
                secret[..8].copy_from_slice(&self.part.seed.to_le_bytes());
                let stranger = Key::from_secret(secret);
                let header = Header { author: stranger.node(), ..self.header(seen, good) };
                let signed = stranger.sign(self.run, header);
                vec![Act::Publish(Message::Announce(signed).encode())]
            }
            Attack::WrongContent
            | Attack::Flood
            | Attack::Garbage
            | Attack::LyingFrontier
            | Attack::FalseHistory
            | Attack::PoisonedSnapshot
            | Attack::Replay => vec![self.announce(self.copied(seen))],
        }
    }

    /// A frontier, as a live node sends them.
    pub(super) fn heartbeat(&mut self) -> Vec<Act> {
        let Some(mut frontier) = self.frontier() else { return Vec::new() };
        let attack = self.part.attack;
        if matches!(attack, Attack::BadSignature | Attack::OtherRun) || lies_in_frontiers(attack) {
            self.attacks += 1;
        }
        if lies_in_frontiers(attack) {
            // Far ahead, a little ahead, or behind: each is believed by somebody else.
            let ahead = if attack == Attack::LyingFrontier {
                *self.rng.pick(&[0, 1, 24, 1 << 30]).unwrap_or(&0)
            } else {
                20
            };
            for entry in &mut frontier.entries {
                let short = Short(self.rng.next_u64().to_le_bytes());
                entry.base = entry.base.saturating_add(ahead);
                entry.version = entry.version.saturating_add(ahead).saturating_add(4);
                (entry.base_trail, entry.mark_trail, entry.trail) = (short, short, short);
                entry.digest = short;
            }
        }
        let run = if attack == Attack::OtherRun { other_run(self.run) } else { self.run };
        let mut signed = self.part.key.sign(run, frontier);
        if attack == Attack::BadSignature {
            signed.signature.0[7] ^= 1;
        }
        vec![Act::Publish(Message::Frontier(signed).encode())]
    }

    /// What it does without being asked, at every heartbeat.
    pub(super) fn pester(&mut self) -> Vec<Act> {
        let acts = self.nuisance();
        self.attacks += acts.len() as u64;
        acts
    }

    fn nuisance(&mut self) -> Vec<Act> {
        match self.part.attack {
            Attack::Garbage => {
                let bytes = 1 + usize::try_from(self.rng.below(900)).unwrap_or(0);
                let noise = self.noise(bytes);
                let mut begins_well = self.noise(bytes);
                // The tag of some message, and nonsense after it.
                begins_well[..4].copy_from_slice(&[
                    self.rng.next_u64().to_le_bytes()[0] % 12,
                    0,
                    0,
                    0,
                ]);
                vec![Act::Publish(noise), Act::Publish(begins_well)]
            }
            Attack::Flood => self.flood(),
            Attack::Replay => self.replay(),
            Attack::FalseHistory => {
                let others = self.part.others.clone();
                let fragments: Vec<FragmentId> =
                    self.fragments.iter().map(|fragment| fragment.id).collect();
                others
                    .into_iter()
                    .flat_map(|to| fragments.iter().map(move |fragment| (to, *fragment)))
                    .flat_map(|(to, fragment)| self.tell_history(to, fragment))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// Answers a question about its history, which only one liar does.
    pub(super) fn tell_history(&mut self, to: NodeId, fragment: FragmentId) -> Vec<Act> {
        let Some(fragment) = self.fragments.get(fragment.index()).cloned() else {
            return Vec::new();
        };
        if self.part.attack != Attack::FalseHistory {
            return Vec::new();
        }
        let history = self.false_history(&fragment);
        vec![Act::Send { to, bytes: Message::History(history).encode() }]
    }

    /// Another island's work as one's own: good content, so that only the lie itself does harm.
    fn copied(&self, seen: &Header) -> Header {
        Header { author: self.part.key.node(), ..*seen }
    }

    fn contribute(&mut self, seen: &Header, payload: Vec<u8>) -> Act {
        let header = self.header(seen, payload);
        self.announce(header)
    }

    /// One header to one half of the swarm, another to the rest.
    fn equivocate(&mut self, seen: &Header, good: Vec<u8>) -> Vec<Act> {
        let one = self.header(seen, good);
        let other = Header { tokens: one.tokens.saturating_add(1), ..one };
        let announcements = [one, other]
            .map(|header| Message::Announce(self.part.key.sign(self.run, header)).encode());
        let others = self.part.others.iter().enumerate();
        others
            .map(|(place, to)| Act::Send { to: *to, bytes: announcements[place % 2].clone() })
            .collect()
    }

    /// A payload that points where an honest one does, so many times as far.
    fn scaled(&mut self, seen: &Header, honest: &[f32], factor: f32) -> Vec<Act> {
        let scaled: Vec<f32> = honest.iter().map(|value| factor * value).collect();
        let payload = self.payload(&scaled);
        vec![self.contribute(seen, payload)]
    }

    /// Payloads that are shorter than they say, or longer than their header says.
    fn wrong_length(&mut self, seen: &Header, good: &[u8]) -> Vec<Act> {
        if seen.round.is_multiple_of(2) {
            let half = good[..good.len() / 2].to_vec();
            return vec![self.contribute(seen, half)];
        }
        let header = self.header(seen, good.to_vec());
        let header = Header { payload_bytes: header.payload_bytes / 2, ..header };
        vec![self.announce(header)]
    }

    /// Contributions to rounds far ahead and to one long past.
    fn out_of_range(&mut self, seen: &Header, good: Vec<u8>) -> Vec<Act> {
        let header = self.header(seen, good);
        let rounds: [Version; 3] =
            [1, seen.round.saturating_add(ROUNDS_AHEAD_MAX + 1), Version::MAX];
        rounds.map(|round| self.announce(Header { round, base: round - 1, ..header })).into()
    }

    /// Everything on the tape: gossip reaches only who forgot it in a restart, so some of it is
    /// sent straight to somebody.
    fn replay(&mut self) -> Vec<Act> {
        let tape: Vec<Vec<u8>> = self.tape.iter().cloned().collect();
        let mut acts = Vec::new();
        for _ in 0..REPLAYS {
            if let (Some(to), Some(bytes)) =
                (self.rng.pick(&self.part.others).copied(), self.rng.pick(&tape).cloned())
            {
                acts.push(Act::Send { to, bytes });
            }
        }
        acts.extend(tape.into_iter().map(Act::Publish));
        acts
    }

    /// Frontiers for everybody and, one after another, more questions than a peer answers.
    fn flood(&mut self) -> Vec<Act> {
        let mut acts = Vec::new();
        for _ in 0..FLOOD_FRONTIERS {
            let Some(frontier) = self.frontier() else { break };
            let signed = self.part.key.sign(self.run, frontier);
            acts.push(Act::Publish(Message::Frontier(signed).encode()));
        }
        self.beats += 1;
        let turn = self.beats.checked_sub(FLOOD_BEATS).filter(|turn| *turn < FLOODS_MAX);
        let victims = &self.part.others;
        if let Some(to) = turn.and_then(|turn| victims.get(turn % victims.len().max(1))) {
            let bytes = Message::AskHistory(FragmentId(0)).encode();
            acts.extend(std::iter::repeat_n(Act::Send { to: *to, bytes }, FLOOD_QUESTIONS));
        }
        acts
    }
}

/// Whether an attack is not in what the liar contributes, but in what else it says or serves.
fn strikes_elsewhere(attack: Attack) -> bool {
    matches!(
        attack,
        Attack::Withholding
            | Attack::WrongContent
            | Attack::Flood
            | Attack::Garbage
            | Attack::LyingFrontier
            | Attack::FalseHistory
            | Attack::PoisonedSnapshot
            | Attack::Replay
    )
}

fn other_run(run: RunId) -> RunId {
    let mut other = run;
    other.0[0] ^= 1;
    other
}

/// Messages of the tape that are sent straight to somebody in one heartbeat.
const REPLAYS: usize = 8;
/// Frontiers in one heartbeat of a flood.
const FLOOD_FRONTIERS: usize = 400;
/// Questions to one peer in one heartbeat: more than it allows at once. It listens no more then.
#[expect(clippy::cast_possible_truncation, reason = "a few thousand")]
const FLOOD_QUESTIONS: usize = PEER_BURST as usize + 200;
/// Heartbeats before the first question, so that there is a flood of frontiers only, too.
const FLOOD_BEATS: usize = 20;
/// Heartbeats with questions: everybody has had their share by then, also after a restart.
const FLOODS_MAX: usize = 24;
