//! A new engine, from nothing or from what the disk still holds.

use std::collections::{BTreeMap, BTreeSet};

use crate::chain::Chain;
use crate::contribution::{Admitted, Header, PayloadProof};
use crate::crypto::Signed;
use crate::engine::calm::Said;
use crate::engine::course::{Course, Own};
use crate::engine::outbox::Outbox;
use crate::engine::{Engine, EngineConfig, Record};
use crate::fetch::Fetcher;
use crate::frontier::Standing;
use crate::id::{ContributionId, FragmentId, NodeId};
use crate::ledger::Ledger;
use crate::limits::TOKENS_MAX;
use crate::peers::Peers;
use crate::rng::Rng;
use crate::roster::Roster;
use crate::round::grace::Smoothed;
use crate::time::{Span, Time};

impl Engine {
    /// An engine that goes on from `records`, in the order they were persisted.
    ///
    /// # Panics
    /// If `config.initial` has not one digest for each fragment: the driver's mistake.
    pub fn new(config: EngineConfig, records: Vec<Record>, now: Time) -> Self {
        let map = config.genesis.fragment_map();
        let elements: Vec<usize> =
            map.fragments().iter().map(|fragment| fragment.elements).collect();
        assert_eq!(config.initial.len(), elements.len(), "one initial digest for each fragment");
        let courses = map
            .fragments()
            .iter()
            .zip(&config.initial)
            .map(|(fragment, digest)| Course::new(fragment.id, Chain::new(fragment.id, *digest)))
            .collect();
        let run = config.genesis.run_id();
        let rounds = config.genesis.rounds;
        let mut rng = Rng::new(config.seed);
        let first = Span(rng.below(rounds.heartbeat_ms / 4 + 1));
        let mut engine = Self {
            me: config.key.node(),
            run,
            roster: Roster::new(config.genesis.roster.clone()),
            ledger: Ledger::default(),
            candidates: BTreeMap::new(),
            awaiting: BTreeMap::new(),
            checking: BTreeSet::new(),
            refused: BTreeSet::new(),
            references: BTreeMap::new(),
            peers: Peers::new(elements.len()),
            fetcher: Fetcher::default(),
            elements,
            courses,
            outbox: Outbox::default(),
            rng,
            standing: Standing::Joining,
            leaving: false,
            restored: !records.is_empty(),
            founder: false,
            took_part: false,
            stranger: false,
            started: now,
            now,
            heartbeat_at: now.after(first),
            said: Said::default(),
            sequence: 0,
            page: 0,
            turn: 0,
            step: Smoothed::default(),
            stepped_at: now,
            transfer: Smoothed::default(),
            pace: BTreeMap::new(),
            roster_asked: Time(0),
            receipts: BTreeMap::new(),
            config,
        };
        engine.restore(records);
        engine
    }

    fn restore(&mut self, records: Vec<Record>) {
        let mut contributions = Vec::new();
        let mut returned = Returned::default();
        for record in records {
            returned.note(&record, &self.me);
            match record {
                Record::Contribution(signed) => contributions.push(signed),
                other => self.restore_one(other),
            }
        }
        // Whether a contribution is in the ledger depends on the base, so these come last.
        for signed in contributions {
            self.restore_contribution(signed, &returned);
        }
        self.cross_out(&returned);
        for index in 0..self.courses.len() {
            let fragment = self.courses[index].fragment;
            self.retrail(fragment);
            let resumed = self.config.resumed.get(index).copied();
            let floor = self.config.signed.get(index).copied().unwrap_or(0);
            let course = &mut self.courses[index];
            let settled = &mut course.tokens.settled;
            settled.signed_floor = settled.signed_floor.max(floor);
            course.dirty = course.version > course.head.version;
            // Most were counted when they were given up, but a disk may lose more payloads.
            let orphans = course.orphans.iter().map(Own::tokens).sum();
            course.tokens.settled.orphaned = course.tokens.settled.orphaned.max(orphans);
            course.resume(resumed.as_ref());
            let idle = !course.dirty && course.head.version > 0;
            if idle && self.config.trains {
                // Nothing will be folded, so nothing else would tell the island.
                self.adopt(fragment, Vec::new());
            }
        }
        if self.courses.iter().any(Course::took_part) {
            self.took_part = true;
        }
        if self.ledger.equivocated(&self.me) || self.roster.is_revoked(&self.me) {
            self.standing = Standing::Muted;
        }
    }

    /// Writes down anew what waits, where a crash came before that.
    fn cross_out(&mut self, returned: &Returned) {
        for (fragment, waiting) in &returned.waiting {
            let Some(course) = self.courses.get(fragment.index()) else { continue };
            let now_waiting = course.waiting();
            if waiting.iter().any(|id| !now_waiting.contains(id)) {
                self.persist_waiting(*fragment);
            }
        }
    }

    fn restore_contribution(&mut self, signed: Signed<Header>, returned: &Returned) {
        let Some(verified) = signed.clone().verify(self.run) else { return };
        let header = *verified.body();
        let Some(course) = self.courses.get_mut(header.fragment.index()) else { return };
        let base = course.chain.base();
        let lost = self.config.lost.contains(&header.payload);
        // More tokens than we can have trained: another node signed it with our key.
        if header.author == self.me && header.tokens <= TOKENS_MAX {
            course.last_capture = Some(header.payload);
            course.signed.insert(header.round, header.id());
            let kept = !lost && header.round + self.config.genesis.rounds.horizon > base;
            let own = Own { id: header.id(), signed, kept };
            match course.chain.contains(header.round, &own.id) {
                _ if returned.taken.contains(&own.id) => {}
                Some(true) => drop(course.own.insert(header.round, own)),
                None if header.round > base && !lost => {
                    course.own.insert(header.round, own);
                }
                _ if returned.waits(&header) && !lost => {
                    course.reissue(Own { kept: true, ..own });
                }
                Some(false) => course.orphans.push(own),
                None if header.round > base => course.orphans.push(own),
                None => {}
            }
        }
        // Without its payload it must be fetched again, like any other.
        if header.round > base && !lost {
            let proof = PayloadProof::checked(header.payload);
            if let Some(admitted) = Admitted::new(verified, proof) {
                self.ledger.insert(admitted);
                *self.references.entry(header.payload).or_default() += 1;
            }
        }
    }

    fn restore_one(&mut self, record: Record) {
        match record {
            Record::Contribution(_) | Record::Waiting { .. } => {}
            Record::Closed(round) => {
                if let Some(course) = self.courses.get_mut(round.fragment.index()) {
                    course.version = course.version.max(round.number);
                }
            }
            Record::Stable { fragment, entry, settled } => {
                if let Some(course) = self.courses.get_mut(fragment.index()) {
                    course.chain.push(entry);
                    course.version = course.version.max(course.chain.base());
                    course.tokens.settled = settled;
                }
                self.head_is_base(fragment);
            }
            Record::Installed { history, settled } => {
                let Ok(chain) = Chain::from_history(&history) else { return };
                if let Some(course) = self.courses.get_mut(history.fragment.index()) {
                    course.version = chain.base();
                    course.chain = chain;
                    course.tokens.settled = settled;
                }
                self.head_is_base(history.fragment);
            }
            Record::Evidence(evidence) => {
                self.ledger.accuse(evidence);
            }
            Record::Invite(signed) => {
                let verified = signed.verify(self.run);
                let _ = verified.map(|invite| self.roster.invite(&invite));
            }
            Record::Revocation(signed) => {
                let verified = signed.verify(self.run);
                let _ = verified.map(|revocation| self.roster.revoke(&revocation));
            }
        }
    }

    /// Makes the base the head, as after a restart or a snapshot.
    pub(super) fn head_is_base(&mut self, fragment: FragmentId) {
        if let Some(course) = self.courses.get_mut(fragment.index()) {
            course.head.version = course.chain.base();
            course.head.trail = course.chain.base_trail();
            course.head.digest = course.chain.base_digest();
        }
    }
}

/// What the records say of own contributions that no history held.
#[derive(Default)]
struct Returned {
    /// They wait to be captured again.
    waiting: BTreeMap<FragmentId, Vec<ContributionId>>,
    /// A later contribution took them along: their content and tokens count there.
    taken: BTreeSet<ContributionId>,
}

impl Returned {
    fn note(&mut self, record: &Record, me: &NodeId) {
        match record {
            Record::Contribution(signed) if signed.body.author == *me => {
                self.taken.extend(self.waiting.remove(&signed.body.fragment).unwrap_or_default());
            }
            Record::Waiting { fragment, own } => {
                self.taken.retain(|id| !own.contains(id));
                self.waiting.insert(*fragment, own.clone());
            }
            _ => {}
        }
    }

    fn waits(&self, header: &Header) -> bool {
        let waiting = self.waiting.get(&header.fragment);
        waiting.is_some_and(|waiting| waiting.contains(&header.id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::HistoryEntry;
    use crate::engine::course::Job;
    use crate::engine::{Output, Settled};
    use crate::genesis::{Genesis, Init, TensorKind, TensorSpec};
    use crate::id::{ContentId, RoundId, RunId, Version};
    use crate::planted::Planted;
    use crate::testkit;

    const FRAGMENT: FragmentId = FragmentId(0);

    fn engine(make: impl Fn(RunId) -> Vec<Record>, lost: &[ContentId]) -> Engine {
        engine_that_signed(make, lost, Vec::new())
    }

    fn engine_that_signed(
        make: impl Fn(RunId) -> Vec<Record>,
        lost: &[ContentId],
        signed: Vec<Version>,
    ) -> Engine {
        let tensor = TensorSpec::new("a", &[4, 4], TensorKind::Matrix, Init::Normal(0.1));
        let genesis = Genesis {
            fragments: 1,
            rounds: testkit::rounds(),
            ..Genesis::custom("restore", vec![tensor])
        };
        let records = make(genesis.run_id());
        let config = EngineConfig {
            genesis,
            initial: vec![ContentId([0; 32])],
            key: testkit::key(1),
            incarnation: 2,
            seed: 0,
            trains: true,
            founds: false,
            sponsor: None,
            resumed: Vec::new(),
            lost: lost.iter().copied().collect(),
            signed,
            planted: Planted::default(),
        };
        Engine::new(config, records, Time(0))
    }

    fn contribution(run: RunId, round: Version, tokens: u64) -> (ContributionId, Record) {
        let payload = payload(round);
        let (author, fragment, base) = (testkit::key(1).node(), FRAGMENT, 0);
        let (steps, payload_bytes) = (1, 1);
        let header =
            Header { author, fragment, round, base, tokens, steps, payload, payload_bytes };
        (header.id(), Record::Contribution(testkit::key(1).sign(run, header)))
    }

    fn payload(round: Version) -> ContentId {
        ContentId([u8::try_from(round).unwrap(); 32])
    }

    fn stable(cut: Vec<ContributionId>) -> Record {
        let entry = HistoryEntry { cut, weight: 1, digest: ContentId([1; 32]) };
        Record::Stable { fragment: FRAGMENT, entry, settled: Settled::default() }
    }

    fn waiting(own: Vec<ContributionId>) -> Record {
        Record::Waiting { fragment: FRAGMENT, own }
    }

    #[test]
    fn what_waits_is_issued_again() {
        let records = |run| {
            let (one, first) = contribution(run, 1, 10);
            vec![first, waiting(vec![one]), stable(Vec::new())]
        };
        let fates = engine(records, &[]).status(FRAGMENT).unwrap().fates;
        assert_eq!((fates.reissued, fates.trained), (10, 10));
    }

    #[test]
    fn what_a_later_contribution_took_along_counts_only_there() {
        // Its payload may be pruned by then, or still be on disk.
        for lost in [&[][..], &[payload(1)]] {
            let records = |run| {
                let (one, first) = contribution(run, 1, 10);
                let (_, second) = contribution(run, 2, 15);
                vec![first, waiting(vec![one]), stable(Vec::new()), second]
            };
            let engine = engine(records, lost);
            let course = &engine.courses[FRAGMENT.index()];
            assert!(course.orphans.is_empty() && !course.own.contains_key(&1));
            assert!(course.may_have_signed(1));
            let fates = engine.status(FRAGMENT).unwrap().fates;
            assert_eq!((fates.pending, fates.orphaned, fates.trained), (15, 0, 15));
        }
    }

    #[test]
    fn what_the_disk_lost_is_orphaned_until_a_round_holds_it() {
        let records = |run| vec![contribution(run, 1, 10).1];
        let mut engine = engine(records, &[payload(1)]);
        let fates = engine.status(FRAGMENT).unwrap().fates;
        assert_eq!((fates.pending, fates.orphaned, fates.trained), (0, 10, 10));
        let (id, _) = contribution(engine.run, 1, 10);
        engine.courses[FRAGMENT.index()].recover(&[id]);
        let fates = engine.status(FRAGMENT).unwrap().fates;
        assert_eq!((fates.merged, fates.orphaned, fates.trained), (10, 0, 10));
    }

    #[test]
    fn what_returned_during_a_capture_still_waits() {
        let records = |run| {
            let (one, first) = contribution(run, 1, 10);
            let (two, second) = contribution(run, 2, 20);
            let (_, third) = contribution(run, 3, 15);
            let both = waiting(vec![one, two]);
            let [begun, ended] = [stable(Vec::new()), stable(Vec::new())];
            vec![first, second, waiting(vec![one]), begun, both, ended, third, waiting(vec![two])]
        };
        let fates = engine(records, &[]).status(FRAGMENT).unwrap().fates;
        assert_eq!((fates.pending, fates.reissued, fates.orphaned), (15, 20, 0));
    }

    #[test]
    fn a_signature_that_no_record_knows_forgets_no_other() {
        // The crash came after round 3 was signed for and before that was recorded.
        let records = |run| {
            let [(_, one), (_, two)] = [1, 2].map(|round| contribution(run, round, 10));
            let closed = |number| Record::Closed(RoundId { fragment: FRAGMENT, number });
            vec![one, closed(1), two, closed(2)]
        };
        let mut engine = engine_that_signed(records, &[], vec![3]);
        let (id, _) = contribution(engine.run, 1, 10);
        let entry = HistoryEntry { cut: vec![id], weight: 1, digest: ContentId([1; 32]) };
        let course = &mut engine.courses[FRAGMENT.index()];
        course.job = Some(Job::Stabilise { entry, forced: false });
        engine.stabilised(FRAGMENT, 1, ContentId([1; 32]));
        let fates = engine.status(FRAGMENT).unwrap().fates;
        assert_eq!((fates.merged, fates.trained), (20, 20));
        let course = &engine.courses[FRAGMENT.index()];
        assert!(course.may_have_signed(3) && !course.may_have_signed(4));
        let outputs = std::iter::from_fn(|| engine.poll_output());
        let pruned: Vec<Version> = outputs
            .filter_map(|output| match output {
                Output::Prune { own_through, .. } => Some(own_through),
                _ => None,
            })
            .collect();
        assert_eq!(pruned, [0], "records of rounds that a history speaks of");
    }
}
