//! What a stranger can say: every kind of message, signed as it should be, with values from a
//! script.

use atoll_protocol::chain::{History, HistoryEntry};
use atoll_protocol::contribution::Header;
use atoll_protocol::crypto::{Key, Signed};
use atoll_protocol::engine::FragmentStatus;
use atoll_protocol::frontier::{Frontier, FrontierEntry, Goodbye, Standing};
use atoll_protocol::id::{ContentId, ContributionId, FragmentId, RunId, Trail, Version};
use atoll_protocol::ledger::Evidence;
use atoll_protocol::message::{Message, RosterRecords, Summary};
use atoll_protocol::roster::{Invite, Revocation};

use super::script::Script;

/// What the stranger knows: the keys it holds, the run, and where the engine stands.
///
/// Most of what it says is sensible, or nothing would ever come of it; a high byte makes it
/// sloppy, and then a field can be anything.
pub(crate) struct Sayings<'a> {
    keys: &'a [Key],
    run: RunId,
    statuses: Vec<FragmentStatus>,
    trails: Vec<Trail>,
    version: Version,
    /// Grows with everything said.
    sequence: u64,
}

impl<'a> Sayings<'a> {
    pub(crate) fn new(
        keys: &'a [Key],
        run: RunId,
        statuses: Vec<FragmentStatus>,
        sequence: u64,
    ) -> Self {
        let trails = statuses.iter().flat_map(|it| [it.base_trail, it.head_trail]).collect();
        let version = statuses[0].version;
        Self { keys, run, statuses, trails, version, sequence }
    }

    /// The message that the script asks for.
    pub(crate) fn message(&self, script: &mut Script<'_>) -> Message {
        match script.below(32) {
            0..=9 => Message::Announce(self.header(script)),
            10..=15 => Message::Frontier(self.frontier(script)),
            16 => Message::Evidence(self.evidence(script)),
            17 => Message::Goodbye(self.goodbye(script)),
            18 => Message::Invite(self.invite(script)),
            19 => Message::Revocation(self.revocation(script)),
            20 | 21 => Message::Summary(Summary {
                fragment: script.fragment(),
                base: script.version(self.version),
                rounds: (0..script.below(6)).map(|_| script.short(&self.trails)).collect(),
            }),
            22..=25 => {
                Message::Headers((0..script.below(4)).map(|_| self.header(script)).collect())
            }
            26 => Message::AskHistory(script.fragment()),
            27..=29 => Message::History(self.history(script)),
            30 => Message::AskRoster,
            _ => Message::Roster(RosterRecords {
                invites: (0..script.below(3)).map(|_| self.invite(script)).collect(),
                revocations: (0..script.below(2)).map(|_| self.revocation(script)).collect(),
                evidence: (0..script.below(2)).map(|_| self.evidence(script)).collect(),
            }),
        }
    }

    /// Anyone's key, seldom the engine's own.
    fn key(&self, script: &mut Script<'_>) -> &Key {
        match script.byte() {
            250.. => &self.keys[0],
            byte => &self.keys[1 + usize::from(byte) % (self.keys.len() - 1)],
        }
    }

    fn header(&self, script: &mut Script<'_>) -> Signed<Header> {
        let key = self.key(script);
        let fragment = script.fragment();
        let version = self.statuses.get(fragment.index()).map_or(0, |status| status.version);
        let round = version.saturating_add(1);
        let author = key.node();
        // The same every time, so that saying it again is no equivocation.
        let payload = ContentId([author.0[0] ^ round.to_le_bytes()[0]; 32]);
        let (tokens, steps, payload_bytes) = (64, 8, 64);
        let mut header = Header {
            author,
            fragment,
            round,
            base: version,
            tokens,
            steps,
            payload,
            payload_bytes,
        };
        if script.sloppy() {
            match script.below(6) {
                0 => header.round = script.version(round),
                1 => header.base = script.version(version),
                2 => header.tokens = script.count(),
                3 => header.steps = script.count32(),
                4 => header.payload = script.content(),
                _ => header.payload_bytes = script.count32(),
            }
        }
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
        let mut frontier = Frontier {
            node: key.node(),
            incarnation: 1,
            sequence: self.sequence,
            standing: Standing::CaughtUp,
            trains: true,
            step_ms: 100,
            roster: script.short(&self.trails),
            first: FragmentId(0),
            entries: self.statuses.iter().map(agreeing).collect(),
        };
        if script.sloppy() {
            match script.below(5) {
                0 => frontier.standing = [Standing::Joining, Standing::Muted][script.below(2)],
                1 => frontier.incarnation = script.count(),
                2 => frontier.sequence = script.count(),
                3 => frontier.first = script.fragment(),
                _ => {
                    frontier.entries = (0..script.below(4)).map(|_| self.entry(script)).collect();
                }
            }
        }
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

/// The entry of a node that stands where the engine does.
fn agreeing(status: &FragmentStatus) -> FrontierEntry {
    FrontierEntry {
        base: status.base,
        version: status.head,
        base_trail: status.base_trail.short(),
        mark_trail: status.base_trail.short(),
        trail: status.head_trail.short(),
        digest: status.digest.short(),
    }
}
