//! What a stranger can say: every kind of message, signed as it should be, with values from a
//! script.

use atoll_protocol::chain::{History, HistoryEntry};
use atoll_protocol::contribution::Header;
use atoll_protocol::crypto::{Key, Signed};
use atoll_protocol::engine::FragmentStatus;
use atoll_protocol::frontier::{Frontier, FrontierEntry, Goodbye, Standing};
use atoll_protocol::id::{ContributionId, RunId, Trail, Version};
use atoll_protocol::ledger::Evidence;
use atoll_protocol::message::{Message, RosterRecords, Summary};
use atoll_protocol::roster::{Invite, Revocation};

use super::script::Script;

/// What the stranger knows: the keys it holds, the run, and where the engine stands.
pub(crate) struct Sayings<'a> {
    pub(crate) keys: &'a [Key],
    pub(crate) run: RunId,
    pub(crate) version: Version,
    pub(crate) trails: Vec<Trail>,
}

impl<'a> Sayings<'a> {
    pub(crate) fn new(keys: &'a [Key], run: RunId, status: &FragmentStatus) -> Self {
        let trails = vec![status.base_trail, status.head_trail];
        Self { keys, run, version: status.version, trails }
    }

    /// The message that the script asks for.
    pub(crate) fn message(&self, script: &mut Script<'_>) -> Message {
        match script.below(16) {
            0 | 1 => Message::Announce(self.header(script)),
            2 | 3 => Message::Frontier(self.frontier(script)),
            4 => Message::Evidence(self.evidence(script)),
            5 => Message::Goodbye(self.goodbye(script)),
            6 => Message::Invite(self.invite(script)),
            7 => Message::Revocation(self.revocation(script)),
            8 => Message::Summary(Summary {
                fragment: script.fragment(),
                base: script.version(self.version),
                rounds: (0..script.below(6)).map(|_| script.short(&self.trails)).collect(),
            }),
            9 | 10 => Message::Headers((0..script.below(4)).map(|_| self.header(script)).collect()),
            11 => Message::AskHistory(script.fragment()),
            12 | 13 => Message::History(self.history(script)),
            14 => Message::AskRoster,
            _ => Message::Roster(RosterRecords {
                invites: (0..script.below(3)).map(|_| self.invite(script)).collect(),
                revocations: (0..script.below(3)).map(|_| self.revocation(script)).collect(),
                evidence: (0..script.below(3)).map(|_| self.evidence(script)).collect(),
            }),
        }
    }

    fn key(&self, script: &mut Script<'_>) -> &Key {
        &self.keys[script.below(self.keys.len())]
    }

    fn header(&self, script: &mut Script<'_>) -> Signed<Header> {
        let key = self.key(script);
        let round = script.version(self.version);
        let header = Header {
            author: key.node(),
            fragment: script.fragment(),
            round,
            base: if script.chance() { round.saturating_sub(1) } else { script.version(round) },
            tokens: script.count(),
            steps: script.count32(),
            payload: script.content(),
            payload_bytes: script.count32(),
        };
        key.sign(self.run, header)
    }

    fn evidence(&self, script: &mut Script<'_>) -> Evidence {
        let one = self.header(script);
        let key = self.keys.iter().find(|key| key.node() == one.body.author).expect("signed it");
        let tokens = one.body.tokens.wrapping_add(1);
        let other = key.sign(self.run, Header { tokens, ..one.body });
        Evidence::between(&one, &other).expect("they differ in their tokens")
    }

    fn frontier(&self, script: &mut Script<'_>) -> Signed<Frontier> {
        let key = self.key(script);
        let frontier = Frontier {
            node: key.node(),
            incarnation: script.count(),
            sequence: script.count(),
            standing: [Standing::CaughtUp, Standing::Joining, Standing::Muted][script.below(3)],
            trains: script.chance(),
            step_ms: script.count32(),
            roster: script.short(&self.trails),
            first: script.fragment(),
            entries: (0..script.below(4)).map(|_| self.entry(script)).collect(),
        };
        key.sign(self.run, frontier)
    }

    fn entry(&self, script: &mut Script<'_>) -> FrontierEntry {
        let version = script.version(self.version);
        FrontierEntry {
            base: if script.chance() { version } else { script.version(self.version) },
            version,
            base_trail: script.short(&self.trails),
            mark_trail: script.short(&self.trails),
            trail: script.short(&self.trails),
            digest: script.content().short(),
        }
    }

    fn goodbye(&self, script: &mut Script<'_>) -> Signed<Goodbye> {
        let key = self.key(script);
        let (incarnation, sequence) = (script.count(), script.count());
        key.sign(self.run, Goodbye { node: key.node(), incarnation, sequence })
    }

    fn invite(&self, script: &mut Script<'_>) -> Signed<Invite> {
        let key = self.key(script);
        let (node, last_round) = (script.node(self.keys), script.version(self.version));
        key.sign(self.run, Invite { steward: key.node(), node, last_round })
    }

    fn revocation(&self, script: &mut Script<'_>) -> Signed<Revocation> {
        let key = self.key(script);
        key.sign(self.run, Revocation { steward: key.node(), node: script.node(self.keys) })
    }

    fn history(&self, script: &mut Script<'_>) -> History {
        let entry = |script: &mut Script<'_>| HistoryEntry {
            cut: (0..script.below(3)).map(|_| ContributionId([script.byte(); 32])).collect(),
            weight: script.count(),
            digest: script.content(),
        };
        History {
            fragment: script.fragment(),
            root: script.version(self.version),
            root_trail: script.trail(&self.trails),
            root_weight: script.count(),
            root_digest: script.content(),
            entries: (0..script.below(5)).map(|_| entry(script)).collect(),
        }
    }
}
