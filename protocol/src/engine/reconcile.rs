//! Finding out what two nodes do not both have: frontiers, then ledger digests, then headers.

use crate::contribution::{Admitted, Header};
use crate::crypto::Signed;
use crate::engine::pace::Paced;
use crate::engine::{Engine, Output, Report};
use crate::fault::{Fault, Verdict};
use crate::frontier::Frontier;
use crate::id::{ContributionId, FragmentId, NodeId, RoundId, Short, Version};
use crate::ledger::cut_digest;
use crate::limits::{HEADERS_PER_MESSAGE_MAX, HORIZON_MAX, VERSION_MAX};
use crate::message::{Message, RosterRecords, Summary};

impl Engine {
    /// Looks at a peer's frontier for anything that differs from where we stand.
    pub(super) fn compare(&mut self, frontier: &Frontier) {
        for (index, entry) in frontier.entries.iter().enumerate() {
            let index = frontier.first.index() + index;
            let course = &mut self.courses[index];
            let fragment = course.fragment;
            if entry.version > course.version {
                course.awake = true;
            }
            let trail = course.trail_at(entry.version);
            let same = trail.map(|trail| trail.short()) == Some(entry.trail)
                && entry.version == course.version;
            // While a late contribution is being folded our head still has other bits.
            let at_head = same && trail == Some(course.head.trail);
            if at_head && entry.digest != course.head.digest.short() {
                let version = entry.version;
                self.report(Report::BitsDiffer { fragment, version, peer: frontier.node });
            }
            if !same {
                self.summarise(frontier.node, fragment);
            }
        }
        self.compare_rosters(frontier);
    }

    /// Asks a connected peer for its roster records if they differ from ours.
    pub(super) fn compare_rosters(&mut self, frontier: &Frontier) {
        if frontier.roster != self.roster_digest()
            && self.is_connected(&frontier.node)
            && self.now >= self.roster_asked.after(self.heartbeat_span())
        {
            self.roster_asked = self.now;
            self.outbox
                .push(Output::Send { to: frontier.node, bytes: Message::AskRoster.encode() });
        }
    }

    /// Compares a peer's ledger digests with ours and sends what it may lack.
    pub(super) fn summary(&mut self, from: NodeId, theirs: &Summary) -> Result<Verdict, Fault> {
        let Some(course) = self.courses.get(theirs.fragment.index()) else {
            return Err(Fault::Malformed);
        };
        if theirs.rounds.len() > 3 * HORIZON_MAX as usize {
            return Err(Fault::Malformed);
        }
        if theirs.base > VERSION_MAX {
            return Err(Fault::Malformed);
        }
        let base = course.chain.base().max(theirs.base);
        if theirs.base >= self.round_max(theirs.fragment)
            || !self.may_send(from, Paced::Headers(theirs.fragment))
        {
            return Ok(Verdict::Ignore);
        }
        let newest = self.ledger.newest(theirs.fragment).unwrap_or(0);
        let their_newest = u64::from(theirs.base) + theirs.rounds.len() as u64;
        let last = Version::try_from(their_newest).unwrap_or(Version::MAX);
        let last = last.min(self.round_max(theirs.fragment)).max(newest);
        let mut headers = Vec::new();
        let mut lacking = false;
        for number in base + 1..=last {
            let round = RoundId { fragment: theirs.fragment, number };
            let index = (number - theirs.base - 1) as usize;
            let their_digest = theirs.rounds.get(index).copied().unwrap_or(empty_round());
            if their_digest == self.round_digest(round) {
                continue;
            }
            lacking |= their_digest != empty_round();
            headers.extend(self.ledger.round(round).map(Admitted::signed).cloned());
        }
        for page in headers.chunks(HEADERS_PER_MESSAGE_MAX).take(HEADER_PAGES) {
            let bytes = Message::Headers(page.to_vec()).encode();
            self.outbox.push(Output::Send { to: from, bytes });
        }
        if lacking {
            self.summarise(from, theirs.fragment);
        }
        Ok(Verdict::Ignore)
    }

    /// Takes headers that a peer holds the payloads of.
    pub(super) fn headers(
        &mut self,
        from: NodeId,
        headers: Vec<Signed<Header>>,
    ) -> Result<Verdict, Fault> {
        if headers.len() > HEADERS_PER_MESSAGE_MAX {
            return Err(Fault::Malformed);
        }
        // All are examined before any is taken: a page with a bad one changes nothing.
        let mut page = Vec::with_capacity(headers.len());
        for signed in headers {
            match self.examine(signed) {
                Ok(examined) => page.push(examined),
                // Our base may have moved, or the roster may lag: no fault of the sender.
                Err(Fault::OutOfRange | Fault::NotOnRoster | Fault::Revoked) => {}
                Err(fault) => return Err(fault),
            }
        }
        for examined in page {
            self.take_header(from, examined);
        }
        Ok(Verdict::Ignore)
    }

    /// Sends what stewards and equivocators have signed.
    pub(super) fn roster_asked(&mut self, from: NodeId) -> Result<Verdict, Fault> {
        if !self.may_send(from, Paced::Roster) {
            return Ok(Verdict::Ignore);
        }
        // A long roster takes several questions: each answer starts anywhere and goes round.
        let turn = usize::try_from(self.rng.below(1 << 20)).unwrap_or(0);
        let records = RosterRecords {
            invites: page(self.roster.invites(), turn),
            revocations: page(self.roster.revocations(), turn),
            evidence: page(self.ledger.evidence(), turn),
        };
        let bytes = Message::Roster(records).encode();
        self.outbox.push(Output::Send { to: from, bytes });
        Ok(Verdict::Ignore)
    }

    /// Compares ledgers with somebody, a few fragments at a time. Frontiers speak of closed rounds
    /// only: that an announcement of the open one was lost shows nowhere else.
    pub(super) fn summarise_in_turn(&mut self) {
        let reachable: Vec<NodeId> = self.peers.reachable().copied().collect();
        let count = self.courses.len();
        for turn in 0..count.min(SUMMARIES_PER_HEARTBEAT) {
            let fragment = self.courses[(self.turn + turn) % count].fragment;
            if let Some(peer) = self.rng.pick(&reachable).copied() {
                self.summarise(peer, fragment);
            }
        }
        self.turn = (self.turn + SUMMARIES_PER_HEARTBEAT) % count.max(1);
    }

    /// Tells a connected peer our ledger digests, not more often than a heartbeat.
    fn summarise(&mut self, to: NodeId, fragment: FragmentId) {
        if !self.is_connected(&to) || !self.may_send(to, Paced::Summary(fragment)) {
            return;
        }
        let base = self.courses[fragment.index()].chain.base();
        let last = self.ledger.newest(fragment).unwrap_or(base).max(base);
        let rounds = (base + 1..=last)
            .map(|number| self.round_digest(RoundId { fragment, number }))
            .collect();
        let bytes = Message::Summary(Summary { fragment, base, rounds }).encode();
        self.outbox.push(Output::Send { to, bytes });
    }

    fn round_digest(&self, round: RoundId) -> Short {
        let ids: Vec<ContributionId> = self.ledger.round(round).map(Admitted::id).collect();
        cut_digest(&ids).short()
    }

    fn is_connected(&self, node: &NodeId) -> bool {
        self.peers.peer(node).is_some_and(|peer| peer.connected)
    }
}

fn empty_round() -> Short {
    cut_digest(&[]).short()
}

/// At most [`ROSTER_PAGE`] of `records`, from a place that `turn` decides.
fn page<'a, T: Clone + 'a>(records: impl Iterator<Item = &'a T>, turn: usize) -> Vec<T> {
    let all: Vec<&T> = records.collect();
    let start = if all.len() > ROSTER_PAGE { turn % all.len() } else { 0 };
    all.iter().cycle().skip(start).take(all.len().min(ROSTER_PAGE)).copied().cloned().collect()
}

/// Records of each kind in one roster message.
const ROSTER_PAGE: usize = 200;
/// Fragments whose ledger is compared with somebody's at each heartbeat.
const SUMMARIES_PER_HEARTBEAT: usize = 4;
/// Messages of headers that one summary may draw.
const HEADER_PAGES: usize = 8;
