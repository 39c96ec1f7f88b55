//! Finding out what two nodes do not both have: frontiers, then ledger digests, then headers.

use crate::contribution::{Admitted, Header};
use crate::crypto::Signed;
use crate::engine::{Engine, Output, Report};
use crate::fault::{Fault, Verdict};
use crate::frontier::Frontier;
use crate::id::{ContributionId, FragmentId, NodeId, RoundId, Short, Version};
use crate::ledger::cut_digest;
use crate::limits::{HEADERS_PER_MESSAGE_MAX, HORIZON_MAX, PEERS_MAX, VERSION_MAX};
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
            let trail = course.trail_at(entry.version).map(|trail| trail.short());
            let same = trail == Some(entry.trail) && entry.version == course.version;
            let at_head = same && entry.version == course.head.version && !course.dirty;
            if at_head && entry.digest != course.head.digest.short() {
                let version = entry.version;
                self.report(Report::BitsDiffer { fragment, version, peer: frontier.node });
            }
            if !same {
                self.summarise(frontier.node, fragment);
            }
        }
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
        if theirs.rounds.len() > HORIZON_MAX as usize {
            return Err(Fault::Malformed);
        }
        if theirs.base > VERSION_MAX {
            return Err(Fault::Malformed);
        }
        let base = course.chain.base().max(theirs.base);
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
        for page in headers.chunks(HEADERS_PER_MESSAGE_MAX) {
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
        let records = RosterRecords {
            invites: self.roster.invites().take(ROSTER_PAGE).cloned().collect(),
            revocations: self.roster.revocations().take(ROSTER_PAGE).cloned().collect(),
            evidence: self.ledger.evidence().take(ROSTER_PAGE).cloned().collect(),
        };
        let bytes = Message::Roster(records).encode();
        self.outbox.push(Output::Send { to: from, bytes });
        Ok(Verdict::Ignore)
    }

    /// Tells a connected peer our ledger digests, not more often than a heartbeat.
    fn summarise(&mut self, to: NodeId, fragment: FragmentId) {
        let due = self
            .summarised
            .get(&(to, fragment))
            .is_none_or(|last| self.now >= last.after(self.heartbeat_span()));
        if !due || !self.is_connected(&to) {
            return;
        }
        if self.summarised.len() >= PEERS_MAX * self.courses.len() {
            self.summarised.pop_first();
        }
        self.summarised.insert((to, fragment), self.now);
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

/// Records of each kind in one roster message; what does not fit comes with the next question.
const ROSTER_PAGE: usize = 200;
