//! The way of a header into the ledger, and of evidence against its author.

use crate::codec::payload_bytes_max;
use crate::contribution::{Admitted, Header, PayloadProof};
use crate::crypto::{Signed, Verified};
use crate::engine::{Engine, FetchOutcome, Output, Record, Report};
use crate::fault::{Fault, Verdict};
use crate::fetch::Ended;
use crate::frontier::Standing;
use crate::id::{ContentId, FragmentId, NodeId, RoundId};
use crate::ledger::{Evidence, Inserted};
use crate::limits::{EVIDENCE_MAX, REFUSED_MAX, ROUND_AUTHORS_MAX, TOKENS_MAX};
use crate::message::Message;
use crate::planted::Bug;

impl Engine {
    /// Takes a header from `from`, who relays it and so may hold its payload.
    pub(super) fn header(
        &mut self,
        from: NodeId,
        signed: Signed<Header>,
    ) -> Result<Verdict, Fault> {
        let examined = self.examine(signed)?;
        Ok(self.take_header(from, examined))
    }

    /// Finds out whether a header is good, and changes nothing.
    pub(super) fn examine(&self, signed: Signed<Header>) -> Result<Examined, Fault> {
        let header = signed.body;
        if self.knows(&header) {
            return Ok(Examined::Known(header));
        }
        if self.is_equivocator(&header.author) {
            return Ok(Examined::Idle);
        }
        self.check_header(&header)?;
        if !self.planted(Bug::RosterIgnored) {
            self.roster.admits(&header.author, header.round)?;
        }
        if self.refused.contains(&(header.payload, header.fragment)) {
            return Ok(Examined::Idle);
        }
        if self.planted(Bug::SignatureWithoutRun) {
            let mut other = self.run;
            other.0[0] ^= 1;
            if let Some(verified) = signed.clone().verify(other) {
                return Ok(Examined::New(verified));
            }
        }
        signed.verify(self.run).map(Examined::New).ok_or(Fault::BadSignature)
    }

    /// Takes a header that was examined, maybe together with others that came with it.
    pub(super) fn take_header(&mut self, from: NodeId, examined: Examined) -> Verdict {
        let verified = match examined {
            Examined::Idle => return Verdict::Ignore,
            Examined::Known(header) => {
                self.holder(&header, from);
                return Verdict::Ignore;
            }
            Examined::New(verified) => verified,
        };
        let header = *verified.body();
        let key = (header.round_id(), header.author);
        if self.knows(&header) || self.is_equivocator(&header.author) {
            return Verdict::Ignore;
        }
        if let Some(evidence) = self.contradiction(&verified) {
            self.accuse(evidence);
            return Verdict::Ignore;
        }
        let course = &self.courses[header.fragment.index()];
        if header.author == self.me && course.is_foreign(header.round, &header.id()) {
            self.same_key();
        }
        if self.crowded(header.round_id()) {
            return Verdict::Ignore;
        }
        self.opened(&header);
        self.candidates.insert(key, verified);
        self.awaiting.entry(header.payload).or_default().insert(key);
        if self.references.contains_key(&header.payload) {
            // Another contribution brought these bytes already.
            self.check(header.payload, header.fragment);
        } else {
            self.holder(&header, from);
        }
        Verdict::Accept
    }

    /// Takes evidence from anyone.
    pub(super) fn evidence(&mut self, evidence: Evidence) -> Result<Verdict, Fault> {
        if !self.is_news(&evidence)? {
            return Ok(Verdict::Ignore);
        }
        self.accuse(evidence);
        Ok(Verdict::Accept)
    }

    /// Whether evidence is against an author nobody accused yet; a fault if it proves nothing.
    pub(super) fn is_news(&self, evidence: &Evidence) -> Result<bool, Fault> {
        let author = evidence.author();
        // Strangers' quarrels are nobody's business, and would fill the ledger.
        let stranger = self.roster.admits(&author, evidence.round()).is_err();
        if stranger || self.ledger.equivocated(&author) {
            return Ok(false);
        }
        let believed = self.planted(Bug::EvidenceUnverified) && evidence.is_well_formed();
        if believed || evidence.holds(self.run) { Ok(true) } else { Err(Fault::BadEvidence) }
    }

    /// Takes note of how a fetch ended.
    pub(super) fn fetched(&mut self, content: ContentId, from: NodeId, outcome: FetchOutcome) {
        let ended = self.fetcher.ended(&content, from, outcome, self.now);
        if outcome == FetchOutcome::Wrong && ended != Ended::Unknown {
            self.outbox.push(Output::Penalise { node: from, fault: Fault::WrongContent });
        }
        match ended {
            Ended::Stored(took) => {
                let waiting = self.awaiting.get(&content);
                let fragments: Vec<FragmentId> =
                    waiting.into_iter().flatten().map(|(round, _)| round.fragment).collect();
                if !fragments.is_empty() {
                    self.transfer.add(took);
                }
                fragments.into_iter().for_each(|fragment| self.check(content, fragment));
                self.snapshot_stored(content);
                self.found(content);
            }
            Ended::Withheld => {
                let author = self.awaiting.get(&content).and_then(|keys| keys.first());
                if let Some(author) = author.map(|(_, author)| *author) {
                    self.report(Report::Withheld { payload: content, author });
                }
            }
            Ended::Retry | Ended::Unknown => {}
        }
    }

    /// Takes the result of a check: what waited for it is admitted or refused.
    pub(super) fn checked(
        &mut self,
        payload: ContentId,
        fragment: FragmentId,
        outcome: Result<(), Fault>,
    ) {
        if !self.checking.remove(&(payload, fragment)) {
            return;
        }
        self.own_checked(payload, fragment, outcome);
        let Some(keys) = self.awaiting.get_mut(&payload) else { return };
        let ready: Vec<(RoundId, NodeId)> =
            keys.iter().filter(|(round, _)| round.fragment == fragment).copied().collect();
        ready.iter().for_each(|key| {
            keys.remove(key);
        });
        if keys.is_empty() {
            self.awaiting.remove(&payload);
        }
        for key in ready {
            let Some(header) = self.candidates.remove(&key) else { continue };
            match outcome {
                Ok(()) => self.admit(header),
                Err(fault) => {
                    self.refuse(payload, fragment);
                    self.outbox.push(Output::Penalise { node: key.1, fault });
                }
            }
        }
    }

    /// Puts a contribution whose payload is here and good into the ledger.
    pub(super) fn admit(&mut self, header: Verified<Header>) {
        let Header { fragment, round, author, payload, .. } = *header.body();
        let Some(course) = self.courses.get(fragment.index()) else { return };
        let (base, version) = (course.chain.base(), course.version);
        let proof = PayloadProof::checked(payload);
        let Some(admitted) = Admitted::new(header, proof).filter(|_| round > base) else { return };
        let (id, signed) = (admitted.id(), admitted.signed().clone());
        let tokens = signed.body.tokens;
        match self.ledger.insert(admitted) {
            Inserted::Known => {}
            Inserted::Equivocation(evidence) => self.convict(evidence),
            Inserted::New => {
                *self.references.entry(payload).or_default() += 1;
                // After a restart it would pass for our own, with tokens we never trained. Peers
                // have it, should we need it again.
                if author != self.me || !self.courses[fragment.index()].is_foreign(round, &id) {
                    self.outbox.push(Output::Persist(Record::Contribution(signed)));
                }
                let late = round <= version;
                let round = RoundId { fragment, number: round };
                self.report(Report::Admitted { round, id, author, tokens, late });
                self.cut_changed(fragment);
            }
        }
    }

    /// Asks the driver to check a stored payload for a fragment.
    pub(super) fn check(&mut self, payload: ContentId, fragment: FragmentId) {
        if self.checking.insert((payload, fragment)) {
            self.outbox.push(Output::Check { payload, fragment });
        }
    }

    /// Drops candidates of a fragment that can no longer enter the ledger.
    pub(super) fn drop_candidates(&mut self, drop: impl Fn(&RoundId, &NodeId) -> bool) {
        let old: Vec<(RoundId, NodeId)> =
            self.candidates.keys().filter(|(round, node)| drop(round, node)).copied().collect();
        for key in old {
            let Some(header) = self.candidates.remove(&key) else { continue };
            let payload = header.body().payload;
            if let Some(keys) = self.awaiting.get_mut(&payload) {
                keys.remove(&key);
                if keys.is_empty() {
                    self.awaiting.remove(&payload);
                    self.fetcher.cancel(&payload);
                }
            }
        }
    }

    /// Our key signed something we did not: another node runs with it.
    fn same_key(&mut self) {
        if self.standing != Standing::Muted {
            self.report(Report::SameKey);
            self.mute();
        }
    }

    fn mute(&mut self) {
        self.standing = Standing::Muted;
        self.report(Report::Standing(Standing::Muted));
    }

    fn knows(&self, header: &Header) -> bool {
        let key = (header.round_id(), header.author);
        self.candidates.get(&key).is_some_and(|known| known.body() == header)
            || self.ledger.slot(key.0, &header.author).is_some_and(|known| known.header() == header)
    }

    fn is_equivocator(&self, author: &NodeId) -> bool {
        self.ledger.equivocated(author) && !self.planted(Bug::EvidenceIgnored)
    }

    /// What a well-formed header must satisfy, whoever signed it.
    fn check_header(&self, header: &Header) -> Result<(), Fault> {
        let course = self.courses.get(header.fragment.index()).ok_or(Fault::BadHeader)?;
        let elements = self.elements[header.fragment.index()];
        let bytes_max = payload_bytes_max(self.config.genesis.codec, elements);
        let sized = header.payload_bytes > 0 && header.payload_bytes as usize <= bytes_max;
        let trained = (1..=TOKENS_MAX).contains(&header.tokens) && header.steps > 0;
        if !sized || !trained || header.base >= header.round {
            return Err(Fault::BadHeader);
        }
        if header.round <= course.chain.base() || self.is_beyond_reach(header.round_id()) {
            return Err(Fault::OutOfRange);
        }
        Ok(())
    }

    fn contradiction(&self, header: &Verified<Header>) -> Option<Evidence> {
        if self.planted(Bug::EvidenceIgnored) {
            return None;
        }
        let key = (header.body().round_id(), header.body().author);
        let candidate = self.candidates.get(&key).map(Verified::signed);
        let admitted = self.ledger.slot(key.0, &key.1).map(Admitted::signed);
        candidate.or(admitted).and_then(|known| Evidence::between(known, header.signed()))
    }

    pub(super) fn accuse(&mut self, evidence: Evidence) {
        if self.ledger.evidence().count() < EVIDENCE_MAX && self.ledger.accuse(evidence.clone()) {
            self.convict(evidence);
        }
    }

    /// Acts on evidence that is new to the ledger: the author's contributions drop out.
    fn convict(&mut self, evidence: Evidence) {
        let author = evidence.author();
        self.outbox.push(Output::Persist(Record::Evidence(evidence.clone())));
        self.outbox.push(Output::Publish(Message::Evidence(evidence).encode()));
        self.outbox.push(Output::Penalise { node: author, fault: Fault::Equivocation });
        self.report(Report::Equivocated(author));
        self.exclude(author);
    }

    /// Folds again without `author`, who may no longer contribute.
    pub(super) fn exclude(&mut self, author: NodeId) {
        self.drop_candidates(|_, node| *node == author);
        for index in 0..self.courses.len() {
            self.cut_changed(self.courses[index].fragment);
        }
        if author == self.me && self.standing != Standing::Muted {
            self.mute();
        }
    }

    fn holder(&mut self, header: &Header, from: NodeId) {
        if self.candidates.contains_key(&(header.round_id(), header.author))
            && !self.checking.contains(&(header.payload, header.fragment))
        {
            for holder in [header.author, from] {
                if holder != self.me {
                    let bytes = u64::from(header.payload_bytes);
                    self.fetcher.want(header.payload, header.fragment, bytes, holder, self.now);
                }
            }
        }
    }

    /// Whether a payload of a round may be here soon.
    pub(super) fn is_coming(&self, round: RoundId) -> bool {
        self.waiting(round).any(|header| {
            let Header { payload, fragment, .. } = *header.body();
            self.fetcher.may_come(&payload) || self.checking.contains(&(payload, fragment))
        })
    }

    /// Headers of a round whose payloads are not here, or not checked.
    fn waiting(&self, round: RoundId) -> impl Iterator<Item = &Verified<Header>> {
        let first = (round, NodeId([0; 32]));
        let last = (round, NodeId([255; 32]));
        self.candidates.range(first..=last).map(|(_, header)| header)
    }

    /// Whether a round has as many authors as it may have.
    fn crowded(&self, round: RoundId) -> bool {
        self.waiting(round).count() + self.ledger.round(round).count() >= ROUND_AUTHORS_MAX
    }

    fn refuse(&mut self, payload: ContentId, fragment: FragmentId) {
        if self.refused.len() >= REFUSED_MAX {
            self.refused.pop_first();
        }
        self.refused.insert((payload, fragment));
    }
}

/// What was found out about a header before anything was done with it.
pub(super) enum Examined {
    /// Nothing needs to be done.
    Idle,
    /// It is known; its sender may hold the payload.
    Known(Header),
    /// Its author signed it and may contribute.
    New(Verified<Header>),
}
