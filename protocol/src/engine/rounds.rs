//! Rounds: opening, answering, closing; captures that become contributions; the fold.

use crate::contribution::{Admitted, Header};
use crate::engine::course::{Capture, Course, Job, Lost, Own, Return};
use crate::engine::{Engine, Output, Record, Report};
use crate::fault::Fault;
use crate::frontier::Standing;
use crate::id::{ContentId, ContributionId, FragmentId, NodeId, RoundId, Version};
use crate::ledger::cut_digest;
use crate::message::Message;
use crate::outer::{Cut, CutMember, cut_weight};
use crate::planted::Bug;
use crate::round::grace::{self, Measured};
use crate::round::{self, RoundStatus, Seen, quorum};
use crate::time::Span;

impl Engine {
    /// The island finished a step.
    pub(super) fn stepped(&mut self, tokens: u64, step_ms: u32) {
        self.step.add(Span(u64::from(step_ms)));
        self.stepped_at = self.now;
        for course in &mut self.courses {
            course.stepped(tokens);
            course.awake = true;
        }
    }

    /// Another island's header for the round we have open: it may be answered now.
    pub(super) fn opened(&mut self, header: &Header) {
        let course = &mut self.courses[header.fragment.index()];
        if header.author != self.me && header.round == course.version + 1 {
            course.awake = true;
            let round = header.round_id();
            if !self.is_open(round) {
                self.report(Report::Opened { round, author: header.author });
            }
        }
    }

    /// Captures a fragment if it is due, or if the open round waits for our answer.
    pub(super) fn try_capture(&mut self, fragment: FragmentId) {
        let rounds = self.config.genesis.rounds;
        let index = fragment.index();
        let course = &self.courses[index];
        let may = self.standing == Standing::CaughtUp
            && self.config.trains
            && !self.leaving
            && course.capture.is_none()
            && course.installing.is_none()
            && self.roster.admits(&self.me, course.version + 1).is_ok();
        if !may || self.contributed(RoundId { fragment, number: course.version + 1 }) {
            return;
        }
        let due = course.tokens.steps >= self.steps_due(course);
        let answers = self.is_open(RoundId { fragment, number: course.version + 1 })
            && course.tokens.steps >= rounds.steps_min
            && !self.planted(Bug::NeverAnswers);
        // Asked last, as it goes through all peers.
        if (due || answers) && course.tokens.steps > 0 && !self.lags(fragment) {
            self.courses[index].capture = Some(Capture::Asked { answer: !due });
            let reissued = self.courses[index].take_returns();
            if !reissued.is_empty() {
                self.adopt(fragment, reissued);
            }
            self.outbox.push(Output::Capture { fragment });
        }
    }

    /// Own steps between two captures of a fragment, or before its first one.
    fn steps_due(&self, course: &Course) -> u32 {
        let rounds = &self.config.genesis.rounds;
        let first = course.own.is_empty() && course.version == 0;
        if first {
            rounds.first_steps(course.fragment, self.courses.len())
        } else {
            rounds.steps.saturating_mul(course.stretch())
        }
    }

    /// Steps that the island takes before the next capture is due; at least one.
    pub fn steps_to_capture(&self) -> u32 {
        let left = |course| self.steps_due(course).saturating_sub(course.tokens.steps);
        self.courses.iter().map(left).min().unwrap_or(0).max(1)
    }

    /// The island captured; the payload is checked like everybody's before we sign for it.
    pub(super) fn captured(
        &mut self,
        fragment: FragmentId,
        payload: ContentId,
        payload_bytes: u32,
        steps_since: u32,
        tokens_since: u64,
    ) {
        let Some(course) = self.courses.get_mut(fragment.index()) else { return };
        let Some(Capture::Asked { answer }) = course.capture else { return };
        let counters = &mut course.tokens;
        let fresh = counters.fresh.saturating_sub(tokens_since);
        let tokens = fresh + counters.reissued;
        let steps = counters.steps.saturating_sub(steps_since);
        counters.fresh -= fresh;
        counters.reissued = 0;
        counters.steps -= steps;
        course.capture = Some(Capture::Checking { payload, payload_bytes, steps, tokens, answer });
        self.check(payload, fragment);
    }

    /// Our own payload was checked: sign and announce, or take its content back.
    pub(super) fn own_checked(
        &mut self,
        payload: ContentId,
        fragment: FragmentId,
        outcome: Result<(), Fault>,
    ) {
        let Some(course) = self.courses.get_mut(fragment.index()) else { return };
        let Some(Capture::Checking { payload: ours, payload_bytes, steps, tokens, answer }) =
            course.capture
        else {
            return;
        };
        if ours != payload {
            return;
        }
        course.capture = None;
        let round = RoundId { fragment, number: course.version + 1 };
        let base = course.adopted.min(course.version);
        // One that leaves still signs for what the island gave away: it could not take it back.
        let may = self.standing == Standing::CaughtUp
            && outcome.is_ok()
            && tokens > 0
            && !self.contributed(round)
            && self.courses[fragment.index()].installing.is_none()
            && self.roster.admits(&self.me, round.number).is_ok();
        if !may {
            let course = &mut self.courses[fragment.index()];
            course.returns.push(Return { payload, tokens, own: None });
            return;
        }
        let author = self.me;
        let number = round.number;
        let header =
            Header { author, fragment, round: number, base, tokens, steps, payload, payload_bytes };
        let signed = self.config.key.sign(self.run, header);
        let id = header.id();
        let own = Own { id, signed: signed.clone(), kept: true };
        let course = &mut self.courses[fragment.index()];
        course.last_capture = Some(payload);
        course.signed.insert(number, id);
        course.own.insert(number, own);
        if let Some(verified) = signed.clone().verify(self.run) {
            self.admit(verified);
        }
        self.forget_returned(fragment);
        self.report(Report::Contributed { round, id, tokens, steps, answer });
        self.outbox.push(Output::Publish(Message::Announce(signed).encode()));
    }

    /// Closes the open round if it may close. True if it did.
    pub(super) fn try_close(&mut self, fragment: FragmentId) -> bool {
        let index = fragment.index();
        let round = RoundId { fragment, number: self.courses[index].version + 1 };
        let have = u32::try_from(self.cut(round).len()).unwrap_or(u32::MAX);
        if have == 0 {
            self.courses[index].quorate_at = None;
            self.courses[index].closes_at = None;
            return false;
        }
        let seen = self.seen(round, have);
        if seen.have >= seen.need || self.planted(Bug::GraceIgnored) {
            self.courses[index].quorate_at.get_or_insert(self.now);
        } else {
            // An island that came back raised the quorum: the wait begins anew.
            self.courses[index].quorate_at = None;
        }
        let course = &mut self.courses[index];
        course.closes_at = None;
        match round::status(&seen, self.now) {
            RoundStatus::Waiting { .. } => false,
            RoundStatus::Grace { closes_at, .. } => {
                course.closes_at = Some(closes_at);
                false
            }
            RoundStatus::Closes(reason) => {
                course.version = round.number;
                course.quorate_at = None;
                self.note_stragglers(round, have);
                self.outbox.push(Output::Persist(Record::Closed(round)));
                let need = seen.need;
                self.report(Report::Closed { round, have, need, reason });
                self.retrail(fragment);
                self.courses[index].dirty = true;
                true
            }
        }
    }

    /// Asks the driver to fold the closed rounds.
    pub(super) fn materialise(&mut self, fragment: FragmentId) {
        let course = &self.courses[fragment.index()];
        let (base, version) = (course.chain.base(), course.version);
        let mut excluded = Vec::new();
        let mut cuts = Vec::new();
        for number in base + 1..=version {
            let round = RoundId { fragment, number };
            let members: Vec<CutMember> = self.cut(round).into_iter().map(member).collect();
            if let Some(own) = course.own.get(&number).filter(|own| own.kept)
                && members.iter().all(|member| member.id != own.id)
            {
                excluded.push(own.payload());
            }
            cuts.push(Cut { round: number, members });
        }
        let trail = course.trail_at(version).unwrap_or(course.chain.base_trail());
        let course = &mut self.courses[fragment.index()];
        course.dirty = false;
        course.job = Some(Job::Materialise { version, trail, excluded });
        self.outbox.push(Output::Materialise { fragment, cuts });
    }

    /// The head is new: tell the island and, soon, the peers.
    pub(super) fn materialised(
        &mut self,
        fragment: FragmentId,
        version: Version,
        digest: ContentId,
    ) {
        let Some(course) = self.courses.get_mut(fragment.index()) else { return };
        let Some(Job::Materialise { version: expected, trail, excluded }) = course.job.clone()
        else {
            return;
        };
        if expected != version {
            return;
        }
        course.job = None;
        course.awake = true;
        course.head.version = version;
        course.head.trail = trail;
        course.head.digest = digest;
        course.excluded = excluded;
        self.report(Report::Materialised { fragment, version, digest });
        self.adopt(fragment, Vec::new());
        self.hurry_heartbeat();
    }

    /// A payload is gone: fetch it again, then do again what failed. Peers that have made its
    /// round stable may have it no more; then they are ahead, and we take their state.
    pub(super) fn failed(&mut self, fragment: FragmentId, missing: ContentId) {
        let Some(course) = self.courses.get_mut(fragment.index()) else { return };
        if !matches!(course.job, Some(Job::Materialise { .. } | Job::Stabilise { .. })) {
            return;
        }
        course.job = None;
        course.dirty = true;
        let base = course.chain.base();
        let newest = self.ledger.newest(fragment).unwrap_or(base);
        let header = (base + 1..=newest)
            .flat_map(|number| self.ledger.round(RoundId { fragment, number }))
            .map(|admitted| *admitted.header())
            .find(|header| header.payload == missing);
        if let Some(header) = header {
            let round = header.round;
            self.courses[fragment.index()].lost = Some(Lost { payload: missing, round });
            let holders: Vec<NodeId> = self.peers.reachable().copied().collect();
            for holder in [header.author].into_iter().chain(holders) {
                if holder != self.me {
                    let bytes = u64::from(header.payload_bytes);
                    self.fetcher.want(missing, fragment, bytes, holder, self.now);
                }
            }
        }
    }

    /// A payload that had been lost is here again.
    pub(super) fn found(&mut self, content: ContentId) {
        for course in &mut self.courses {
            if course.lost.is_some_and(|lost| lost.payload == content) {
                course.lost = None;
                course.awake = true;
            }
        }
    }

    /// Tells the island what its parameters are made of now.
    pub(super) fn adopt(&mut self, fragment: FragmentId, reissued: Vec<ContentId>) {
        let course = &mut self.courses[fragment.index()];
        let pending = course.pending();
        let version = course.head.version;
        self.outbox.push(Output::Adopt { fragment, version, pending, reissued });
    }

    /// The island's parameters hold this version now.
    pub(super) fn adopted(&mut self, fragment: FragmentId, version: Version) {
        if let Some(course) = self.courses.get_mut(fragment.index()) {
            course.adopted = version;
        }
    }

    /// A new contribution holds what had returned before it: those payloads may go.
    fn forget_returned(&mut self, fragment: FragmentId) {
        let course = &mut self.courses[fragment.index()];
        let returned = std::mem::take(&mut course.returning);
        // What returned while the capture was under way still waits.
        if course.returns.iter().any(|it| it.own.is_some()) {
            self.persist_waiting(fragment);
        }
        if returned.is_empty() {
            return;
        }
        let (course, needed) = (&mut self.courses[fragment.index()], &self.references);
        let mut payloads: Vec<ContentId> = returned.iter().map(|it| it.payload).collect();
        payloads.retain(|it| !needed.contains_key(it) && !course.still_needs(it));
        let through = course.chain.base();
        course.forget_signed();
        let own_through = course.own_through();
        self.outbox.push(Output::Prune { fragment, through, own_through, payloads });
    }

    /// A contribution came or went: trails may differ, and so may the head.
    pub(super) fn cut_changed(&mut self, fragment: FragmentId) {
        self.courses[fragment.index()].awake = true;
        if self.retrail(fragment) {
            self.courses[fragment.index()].dirty = true;
        }
    }

    /// Computes the trails of the rounds that are closed but not stable. True if any changed.
    pub(super) fn retrail(&mut self, fragment: FragmentId) -> bool {
        let course = &self.courses[fragment.index()];
        let mut trail = course.chain.base_trail();
        let trails: Vec<_> = (course.chain.base() + 1..=course.version)
            .map(|number| {
                let (ids, weight) = self.cut_ids(RoundId { fragment, number });
                trail = crate::chain::next_trail(trail, cut_digest(&ids), weight);
                trail
            })
            .collect();
        let course = &mut self.courses[fragment.index()];
        let changed = course.trails != trails;
        course.trails = trails;
        changed
    }

    /// What a round merges now.
    pub(super) fn cut(&self, round: RoundId) -> Vec<&Admitted> {
        if self.planted(Bug::EvidenceIgnored) {
            return self.ledger.round(round).collect();
        }
        self.ledger.cut(round, |author| self.roster.is_revoked(author))
    }

    /// The ids and the weight of what a round merges now.
    pub(super) fn cut_ids(&self, round: RoundId) -> (Vec<ContributionId>, u64) {
        let cut = self.cut(round);
        let tokens: Vec<u64> = cut.iter().map(|admitted| admitted.header().tokens).collect();
        let mut ids: Vec<ContributionId> = cut.iter().map(|admitted| admitted.id()).collect();
        if self.planted(Bug::UnsortedCut) {
            let own = cut.iter().position(|admitted| admitted.header().author == self.me);
            ids.rotate_left(own.unwrap_or(0));
        }
        (ids, cut_weight(&tokens, self.weight_cap()))
    }

    /// Whether a closed round's cut holds a contribution.
    pub(super) fn in_cut(
        &self,
        fragment: FragmentId,
        number: Version,
        id: &ContributionId,
    ) -> bool {
        self.cut(RoundId { fragment, number }).iter().any(|admitted| admitted.id() == *id)
    }

    fn weight_cap(&self) -> u32 {
        if self.planted(Bug::WeightUncapped) {
            u32::MAX
        } else {
            self.config.genesis.merge.weight_cap
        }
    }

    /// Whether another island has contributed to a round, as far as we heard.
    fn is_open(&self, round: RoundId) -> bool {
        let first = (round, NodeId([0; 32]));
        let last = (round, NodeId([255; 32]));
        self.candidates.range(first..=last).any(|((_, author), _)| *author != self.me)
            || self.ledger.round(round).any(|admitted| admitted.header().author != self.me)
    }

    /// Whether our slot in a round is taken, be it by a node that shares our key.
    fn contributed(&self, round: RoundId) -> bool {
        self.courses[round.fragment.index()].may_have_signed(round.number)
            || self.ledger.slot(round, &self.me).is_some()
            || self.candidates.contains_key(&(round, self.me))
    }

    fn seen(&self, round: RoundId, have: u32) -> Seen {
        let rounds = &self.config.genesis.rounds;
        let (mut live, mut missing, mut past) = (0, 0, 0);
        let mut slowest = Span(0);
        // Both are in the order of nodes, so one walk over each is enough.
        let mut contributors = self.ledger.contributors(round).peekable();
        for (node, peer) in self.live() {
            while contributors.next_if(|contributor| *contributor < node).is_some() {}
            if contributors.peek() == Some(&node) {
                live += 1;
            } else if !peer.rests() {
                live += 1;
                missing += 1;
                past += u32::from(peer.has_closed(round));
                slowest = slowest.max(peer.step);
            }
            // Nothing will come of an island that makes no steps: nobody waits for it.
        }
        let follows = self.standing != Standing::CaughtUp;
        let contributed = self.contributed(round);
        if !follows && self.config.trains && (contributed || !self.rests()) {
            live += 1;
            missing += u32::from(!contributed);
            slowest = slowest.max(self.step.mean());
        }
        let closed_by = u32::try_from(self.closed_by(round)).unwrap_or(u32::MAX);
        let mut closed_need = live / 2 + 1;
        if self.planted(Bug::OnePeerCloses) {
            closed_need = 1;
        }
        if self.planted(Bug::QuorumIgnored) {
            (live, past) = (0, 0);
        }
        let measured = Measured { slowest_step: slowest, transfer: self.transfer.mean() };
        Seen {
            have,
            // Who has closed it will not contribute any more; what it did may be on its way.
            need: quorum::need(rounds, live - past),
            missing,
            closed_by,
            closed_need,
            quorate_at: self.courses[round.fragment.index()].quorate_at,
            window: grace::window(rounds, &measured),
            follows,
        }
    }
}

fn member(admitted: &Admitted) -> CutMember {
    let Header { author, tokens, payload, .. } = *admitted.header();
    CutMember { id: admitted.id(), author, tokens, payload }
}
