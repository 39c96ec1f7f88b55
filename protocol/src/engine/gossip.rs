//! What peers say and what this node says: dispatch of messages, frontiers, commands.

use crate::crypto::{Body, Signed, Verified};
use crate::engine::{Command, Engine, Output, Record};
use crate::fault::{Fault, Verdict};
use crate::frontier::{
    FRONTIER_MARK_ROUNDS, Frontier, FrontierEntry, Goodbye, STEP_MS_RESTS, Standing,
};
use crate::id::{FragmentId, NodeId, RunId, Short};
use crate::limits::FRONTIER_ENTRIES_MAX;
use crate::message::Message;
use crate::roster::{Invite, Revocation};
use crate::time::Span;

impl Engine {
    /// Takes bytes from a peer; they end in exactly one verdict.
    pub(super) fn received(&mut self, from: NodeId, bytes: &[u8], receipt: u64) {
        let judged = if self.outbox.is_full() {
            Ok(Verdict::Ignore)
        } else if self.peers.allow(from, self.now) {
            Message::decode(bytes)
                .map_err(|_| Fault::Malformed)
                .and_then(|message| self.message(from, message))
        } else {
            Err(Fault::Flood)
        };
        let verdict = judged.unwrap_or_else(Fault::verdict);
        self.outbox.push(Output::Judge { receipt, verdict });
        if let Err(fault) = judged
            && fault.penalty() > 0
        {
            self.outbox.push(Output::Penalise { node: from, fault });
        }
    }

    fn message(&mut self, from: NodeId, message: Message) -> Result<Verdict, Fault> {
        match message {
            Message::Announce(signed) => self.header(from, signed),
            Message::Frontier(signed) => self.frontier(signed),
            Message::Evidence(evidence) => self.evidence(evidence),
            Message::Goodbye(signed) => {
                let goodbye = signed.verify(self.run).ok_or(Fault::BadSignature)?;
                let new = self.peers.goodbye(goodbye.body());
                self.wake_all();
                Ok(if new { Verdict::Accept } else { Verdict::Ignore })
            }
            Message::Invite(signed) => self.invite(signed),
            Message::Revocation(signed) => self.revocation(signed),
            Message::Summary(summary) => self.summary(from, &summary),
            Message::Headers(headers) => self.headers(from, headers),
            Message::AskHistory(fragment) => self.history_asked(from, fragment),
            Message::History(history) => self.history(from, &history),
            Message::AskRoster => self.roster_asked(from),
            Message::Roster(records) => self.roster_records(records),
        }
    }

    fn frontier(&mut self, signed: Signed<Frontier>) -> Result<Verdict, Fault> {
        let body = &signed.body;
        if body.entries.len() > FRONTIER_ENTRIES_MAX
            || body.first.index() + body.entries.len() > self.courses.len()
            || body.entries.iter().any(|entry| entry.base > entry.version)
        {
            return Err(Fault::Malformed);
        }
        if body.node == self.me {
            return Ok(Verdict::Ignore);
        }
        let verified = signed.verify(self.run).ok_or(Fault::BadSignature)?;
        let frontier = verified.body();
        if !self.counts(&frontier.node) {
            // It may hold an invitation that we have not seen.
            self.stranger |= frontier.standing == Standing::CaughtUp
                && self.roster.may_come_to_admit(&frontier.node);
            self.compare_rosters(frontier);
            return Ok(Verdict::Ignore);
        }
        if !self.peers.heard(frontier, self.now) {
            return Ok(Verdict::Ignore);
        }
        self.compare(frontier);
        self.try_catch_up();
        if self.should_ask_for_histories() {
            self.hurry_heartbeat();
        }
        Ok(Verdict::Accept)
    }

    fn invite(&mut self, signed: Signed<Invite>) -> Result<Verdict, Fault> {
        let verified = signed.verify(self.run).ok_or(Fault::BadSignature)?;
        self.take_invite(&verified)
    }

    fn take_invite(&mut self, verified: &Verified<Invite>) -> Result<Verdict, Fault> {
        if !self.roster.invite(verified)? {
            return Ok(Verdict::Ignore);
        }
        self.outbox.push(Output::Persist(Record::Invite(verified.signed().clone())));
        Ok(Verdict::Accept)
    }

    fn revocation(&mut self, signed: Signed<Revocation>) -> Result<Verdict, Fault> {
        let verified = signed.verify(self.run).ok_or(Fault::BadSignature)?;
        self.take_revocation(&verified)
    }

    fn take_revocation(&mut self, verified: &Verified<Revocation>) -> Result<Verdict, Fault> {
        if !self.roster.revoke(verified)? {
            return Ok(Verdict::Ignore);
        }
        self.outbox.push(Output::Persist(Record::Revocation(verified.signed().clone())));
        self.exclude(verified.body().node);
        Ok(Verdict::Accept)
    }

    /// Takes invitations, revocations and evidence in bulk.
    pub(super) fn roster_records(
        &mut self,
        records: crate::message::RosterRecords,
    ) -> Result<Verdict, Fault> {
        // All are verified before any is taken: records with a bad one change nothing.
        let invites = verify_all(records.invites, self.run)?;
        let revocations = verify_all(records.revocations, self.run)?;
        for evidence in &records.evidence {
            self.is_news(evidence)?;
        }
        for invite in &invites {
            self.take_invite(invite)?;
        }
        for revocation in &revocations {
            self.take_revocation(revocation)?;
        }
        for evidence in records.evidence {
            if self.is_news(&evidence)? {
                self.accuse(evidence);
            }
        }
        Ok(Verdict::Ignore)
    }

    /// A peer is there: tell it where we stand.
    pub(super) fn peer_up(&mut self, node: NodeId) {
        self.peers.connected(node, true, self.now);
        if !self.leaving {
            for bytes in self.frontiers() {
                self.outbox.push(Output::Send { to: node, bytes });
            }
        }
    }

    /// Once in a while: say where we stand, look at where the others stand.
    pub(super) fn heartbeat(&mut self) {
        let jitter = Span(self.rng.below(self.heartbeat_span().0 / 5 + 1));
        self.heartbeat_at = self.now.after(self.heartbeat_span()).after(jitter);
        if self.leaving {
            return;
        }
        if !self.may_be_quiet(self.courses.len().div_ceil(FRONTIER_ENTRIES_MAX)) {
            self.speak();
        }
        self.try_catch_up();
        self.look_for_divergence();
        self.report_receipts();
        self.wake_all();
    }

    /// Tells everybody where we stand, a page at a time, and somebody what our ledger has.
    fn speak(&mut self) {
        let pages = self.frontiers();
        let page = self.page % pages.len().max(1);
        self.page = page + 1;
        if let Some(bytes) = pages.into_iter().nth(page) {
            self.outbox.push(Output::Publish(bytes));
            self.note_said();
        }
        self.summarise_in_turn();
    }

    /// Brings the next frontier forward: something changed that peers wait for.
    pub(super) fn hurry_heartbeat(&mut self) {
        let soon = self.now.after(Span(self.heartbeat_span().0 / 4));
        self.heartbeat_at = self.heartbeat_at.min(soon);
    }

    /// Does what the operator asked.
    pub(super) fn command(&mut self, command: Command) {
        match command {
            Command::Leave => {
                self.sequence += 1;
                let goodbye = Goodbye {
                    node: self.me,
                    incarnation: self.config.incarnation,
                    sequence: self.sequence,
                };
                let signed = self.config.key.sign(self.run, goodbye);
                self.outbox.push(Output::Publish(Message::Goodbye(signed).encode()));
                self.leaving = true;
            }
            Command::Invite { node, last_round } => {
                let invite = Invite { steward: self.me, node, last_round };
                let signed = self.config.key.sign(self.run, invite);
                if self.invite(signed.clone()) == Ok(Verdict::Accept) {
                    self.outbox.push(Output::Publish(Message::Invite(signed).encode()));
                }
            }
            Command::Revoke(node) => {
                let revocation = Revocation { steward: self.me, node };
                let signed = self.config.key.sign(self.run, revocation);
                if self.revocation(signed.clone()) == Ok(Verdict::Accept) {
                    self.outbox.push(Output::Publish(Message::Revocation(signed).encode()));
                }
            }
        }
    }

    /// A digest of everything that decides whom this node admits.
    pub(super) fn roster_digest(&self) -> Short {
        let equivocators: Vec<NodeId> =
            self.ledger.evidence().map(crate::ledger::Evidence::author).collect();
        let digest = self.roster.digest(equivocators.iter());
        crate::id::ContentId(digest).short()
    }

    pub(super) fn wake_all(&mut self) {
        self.courses.iter_mut().for_each(|course| course.awake = true);
    }

    /// Our frontier, in as many messages as it takes.
    fn frontiers(&mut self) -> Vec<Vec<u8>> {
        let entries: Vec<FrontierEntry> =
            self.courses.iter().map(super::course::Course::frontier_entry).collect();
        let roster = self.roster_digest();
        let step_ms = u32::try_from(self.step.mean().0).unwrap_or(u32::MAX).max(1);
        let step_ms = if self.rests() { STEP_MS_RESTS } else { step_ms };
        let standing = if self.planted(crate::planted::Bug::FrontierUntrue) {
            Standing::CaughtUp
        } else {
            self.standing
        };
        entries
            .chunks(FRONTIER_ENTRIES_MAX)
            .enumerate()
            .map(|(page, entries)| {
                self.sequence += 1;
                let first = u16::try_from(page * FRONTIER_ENTRIES_MAX)
                    .expect("at most FRAGMENTS_MAX fragments");
                let frontier = Frontier {
                    node: self.me,
                    incarnation: self.config.incarnation,
                    sequence: self.sequence,
                    standing,
                    trains: self.config.trains,
                    step_ms,
                    roster,
                    first: FragmentId(first),
                    entries: entries.to_vec(),
                };
                Message::Frontier(self.config.key.sign(self.run, frontier)).encode()
            })
            .collect()
    }
}

fn verify_all<T: Body>(all: Vec<Signed<T>>, run: RunId) -> Result<Vec<Verified<T>>, Fault> {
    all.into_iter().map(|signed| signed.verify(run).ok_or(Fault::BadSignature)).collect()
}

impl super::course::Course {
    /// Where this node stands with the fragment, as it tells others.
    pub(super) fn frontier_entry(&self) -> FrontierEntry {
        let version = self.head.version;
        let mark = version.saturating_sub(FRONTIER_MARK_ROUNDS).max(self.chain.base());
        // While a late contribution is being folded the trail has moved on from the head; then
        // only the base is certain.
        // After a loss peers must keep what we lack until we have it.
        let settled = self.trail_at(version) == Some(self.head.trail)
            && self.lost.is_none_or(|lost| version < lost.round);
        let (version, mark) =
            if settled { (version, mark) } else { (self.chain.base(), self.chain.base()) };
        let trail = |at| self.trail_at(at).unwrap_or(self.chain.base_trail()).short();
        FrontierEntry {
            base: self.chain.base(),
            version,
            base_trail: self.chain.base_trail().short(),
            mark_trail: trail(mark),
            trail: trail(version),
            digest: if settled { self.head.digest } else { self.chain.base_digest() }.short(),
        }
    }
}
