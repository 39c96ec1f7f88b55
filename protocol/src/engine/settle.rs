//! After every input: let each fragment that is awake go as far as it can.

use crate::chain::HistoryEntry;
use crate::engine::course::{Job, Own};
use crate::engine::{Engine, Output, Record, Report};
use crate::frontier::{FrontierEntry, Standing};
use crate::id::{ContentId, FragmentId, NodeId, RoundId, Version};
use crate::planted::Bug;
use crate::time::Span;

impl Engine {
    /// Closes, folds, settles and captures whatever can be, then asks for what is wanted.
    pub(super) fn settle(&mut self) {
        for index in 0..self.courses.len() {
            if std::mem::take(&mut self.courses[index].awake) {
                self.settle_fragment(self.courses[index].fragment);
            }
        }
        self.pump_fetches();
    }

    fn settle_fragment(&mut self, fragment: FragmentId) {
        let index = fragment.index();
        let installing = self.courses[index].job == Some(Job::Install);
        if !installing {
            while self.try_close(fragment) {}
        }
        if self.is_needless(index) {
            self.give_up_install(fragment);
        }
        if self.courses[index].job.is_none() {
            if self.courses[index].installing.as_ref().is_some_and(|it| it.stored) {
                self.install(fragment);
            } else if self.courses[index].lost.is_some() {
                // Waits for the payload, or for a snapshot.
            } else if self.courses[index].dirty {
                self.materialise(fragment);
            } else {
                self.try_stabilise(fragment);
            }
        }
        self.try_capture(fragment);
    }

    /// Folds the oldest closed round into the base, if nobody disputes it or it is too old.
    fn try_stabilise(&mut self, fragment: FragmentId) {
        let course = &self.courses[fragment.index()];
        let number = course.chain.base() + 1;
        if number > course.head.version {
            return;
        }
        let old = course.version - course.chain.base() > self.config.genesis.rounds.horizon;
        let decides = self.standing != Standing::Joining && self.knows_everyone();
        let agreement =
            if decides { self.agreement(fragment, number) } else { Agreement::Disputed };
        let follows = !decides && self.followed(fragment, number);
        if agreement == Agreement::Disputed && !follows && !old {
            return;
        }
        let forced = agreement != Agreement::Unanimous;
        let (cut, weight) = self.cut_ids(RoundId { fragment, number });
        let entry = HistoryEntry { cut, weight, digest: ContentId([0; 32]) };
        self.courses[fragment.index()].job = Some(Job::Stabilise { entry, forced });
        self.outbox.push(Output::Stabilise { fragment, version: number });
    }

    /// The base moved: the round is history, its payloads may go.
    pub(super) fn stabilised(&mut self, fragment: FragmentId, version: Version, digest: ContentId) {
        let Some(course) = self.courses.get_mut(fragment.index()) else { return };
        let Some(Job::Stabilise { entry, forced }) = course.job.clone() else { return };
        if version != course.chain.base() + 1 {
            return;
        }
        let entry = HistoryEntry { digest, ..entry };
        course.job = None;
        course.awake = true;
        let own = course.own.get(&version);
        let merged = own.filter(|own| entry.cut.contains(&own.id)).map(Own::tokens);
        if let Some(tokens) = merged {
            course.tokens.settled.merged += tokens;
        } else if let Some(own) = course.own.remove(&version) {
            course.reissue(own);
            self.persist_waiting(fragment);
        }
        let course = &mut self.courses[fragment.index()];
        course.recover(&entry.cut);
        course.chain.push(entry.clone());
        // It is the chain's now; those that follow stay, and what they lead to is folded already.
        course.trails.drain(..1.min(course.trails.len()));
        let settled = course.tokens.settled;
        if merged.is_some() {
            self.last_receipt(RoundId { fragment, number: version });
        }
        // The cut may have changed while the driver folded; then what follows is folded again.
        self.cut_changed(fragment);
        self.outbox.push(Output::Persist(Record::Stable { fragment, entry, settled }));
        self.report(Report::Stable { fragment, version, forced });
        self.prune(fragment);
        // Those who follow call it stable once enough have said so.
        self.hurry_heartbeat();
    }

    /// Remembers which own contributions wait to be captured again, or are just being captured: a
    /// crash before that is signed undoes it.
    pub(super) fn persist_waiting(&mut self, fragment: FragmentId) {
        let own = self.courses[fragment.index()].waiting();
        self.outbox.push(Output::Persist(Record::Waiting { fragment, own }));
    }

    /// Forgets what is below the base, except own contributions that may return.
    pub(super) fn prune(&mut self, fragment: FragmentId) {
        let through = self.courses[fragment.index()].chain.base();
        let kept_from = through.saturating_sub(self.config.genesis.rounds.horizon);
        let mut payloads = Vec::new();
        for admitted in self.ledger.prune(fragment, through) {
            let header = admitted.header();
            // A peer may announce the same bytes for another round.
            let awaited = self.awaiting.contains_key(&header.payload);
            if self.release(&header.payload) && !awaited && header.author != self.me {
                payloads.push(header.payload);
            }
        }
        let course = &mut self.courses[fragment.index()];
        for (_, own) in course.own.range_mut(..=kept_from) {
            if std::mem::take(&mut own.kept) {
                payloads.push(own.payload());
            }
        }
        // Two captures may have given the same bytes.
        let needed = &self.references;
        payloads.retain(|payload| !needed.contains_key(payload) && !course.still_needs(payload));
        course.forget_signed();
        let own_through = course.own_through();
        self.receipts.retain(|round, _| round.fragment != fragment || round.number > through);
        self.drop_candidates(|round, _| round.fragment == fragment && round.number <= through);
        self.outbox.push(Output::Prune { fragment, through, own_through, payloads });
    }

    /// Whether this node has been about long enough to have heard of every island it must wait
    /// for. One that came later, or was restarted, may not know of an island that is only out of
    /// reach; until then it follows.
    fn knows_everyone(&self) -> bool {
        self.founder || self.now.since(self.started) >= Span(self.config.genesis.rounds.forget_ms)
    }

    /// Whether enough peers, or our sponsor, call `round` stable, with the history we have.
    fn followed(&self, fragment: FragmentId, round: Version) -> bool {
        let course = &self.courses[fragment.index()];
        let same = |entry: &FrontierEntry| {
            let own = course.trail_at(entry.base).map(|trail| trail.short());
            entry.base >= round && own == Some(entry.base_trail)
        };
        let (mut stable, mut vouched) = (0, false);
        for (node, peer) in self.knowing() {
            if peer.entry(fragment).is_some_and(same) {
                stable += 1;
                vouched |= self.config.sponsor == Some(*node);
            }
        }
        vouched || stable > 0 && stable >= self.need()
    }

    /// Whether every island that may still have a say reports the same cuts up to `round`.
    fn agreement(&self, fragment: FragmentId, round: Version) -> Agreement {
        let course = &self.courses[fragment.index()];
        let window = if self.planted(Bug::StableWithoutAll) {
            Span(self.heartbeat_span().0 * 2)
        } else {
            Span(self.config.genesis.rounds.forget_ms)
        };
        let (mut same, mut contrary) = (1, 0);
        for (node, peer) in self.peers.within(window, self.now) {
            let has_a_say = peer.trains && self.has_a_say(node, round);
            // One that joins has a say too: it may be about to contribute.
            match peer.entry(fragment) {
                _ if !has_a_say => {}
                Some(entry) if agrees(course, entry) >= round => same += 1,
                Some(entry) if contradicts(course, entry) => contrary += 1,
                _ => return Agreement::Disputed,
            }
        }
        // Those who made other rounds stable cannot come round to ours. A few of them must not
        // hold up the many: once we go on they see that their history lost.
        match contrary {
            0 => Agreement::Unanimous,
            _ if same > contrary => Agreement::Most,
            _ => Agreement::Disputed,
        }
    }

    /// Tells how many peers have merged each of our contributions, when that changed.
    pub(super) fn report_receipts(&mut self) {
        let mut changed = Vec::new();
        for course in &self.courses {
            let fragment = course.fragment;
            let seen = self.agreed_versions(fragment);
            let of = u32::try_from(seen.len()).unwrap_or(u32::MAX);
            for (number, own) in course.own.range(course.chain.base() + 1..) {
                if *number > course.version || !self.in_cut(fragment, *number, &own.id) {
                    continue;
                }
                let merged_by = seen.iter().filter(|version| *version >= number).count();
                let merged_by = u32::try_from(merged_by).unwrap_or(u32::MAX);
                changed.push((RoundId { fragment, number: *number }, (merged_by, of)));
            }
        }
        changed.into_iter().for_each(|(round, receipt)| self.report_receipt(round, receipt));
    }

    /// Tells for the last time who has merged our contribution to a round that is stable now: the
    /// peers may have said so before we closed it, and say nothing more of it.
    fn last_receipt(&mut self, round: RoundId) {
        let seen = self.agreed_versions(round.fragment);
        let merged_by = seen.iter().filter(|version| **version >= round.number).count();
        let count = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        self.report_receipt(round, (count(merged_by), count(seen.len())));
    }

    fn report_receipt(&mut self, round: RoundId, receipt: (u32, u32)) {
        if self.receipts.insert(round, receipt) != Some(receipt) {
            let (merged_by, of) = receipt;
            self.report(Report::Receipt { round, merged_by, of });
        }
    }

    /// The newest version at which each live peer has said the same as we.
    fn agreed_versions(&self, fragment: FragmentId) -> Vec<Version> {
        let course = &self.courses[fragment.index()];
        let entries = self.live().filter_map(|(_, peer)| peer.entry(fragment));
        entries.map(|entry| agrees(course, entry)).collect()
    }

    /// Drops one reference to a payload. True if it was the last.
    pub(super) fn release(&mut self, payload: &ContentId) -> bool {
        let Some(count) = self.references.get_mut(payload) else { return true };
        *count -= 1;
        if *count == 0 {
            self.references.remove(payload);
            return true;
        }
        false
    }

    fn pump_fetches(&mut self) {
        self.fetcher.hold(self.not_wanted_yet());
        if self.fetcher.next_poll().is_none_or(|at| at > self.now) {
            return;
        }
        let connected = || self.peers.reachable().copied().collect::<Vec<NodeId>>();
        for ask in self.fetcher.poll(self.now, connected, &mut self.rng) {
            let crate::fetch::Ask { content, from, bytes_max } = ask;
            self.outbox.push(Output::Fetch { content, from, bytes_max });
        }
    }
}

/// What the islands that have a say think of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agreement {
    /// All have the same history.
    Unanimous,
    /// All but a few whose stable history is another.
    Most,
    /// Some may still come to the same history.
    Disputed,
}

/// The newest version up to which a peer's frontier shows the same history as ours.
fn agrees(course: &super::course::Course, entry: &FrontierEntry) -> Version {
    [(entry.version, entry.trail), (entry.mark(), entry.mark_trail), (entry.base, entry.base_trail)]
        .into_iter()
        .find(|(version, trail)| course.trail_at(*version).is_some_and(|own| own.short() == *trail))
        .map_or(0, |(version, _)| version)
}

/// Whether a peer's stable history is another than ours.
fn contradicts(course: &super::course::Course, entry: &FrontierEntry) -> bool {
    course.trail_at(entry.base).is_some_and(|own| own.short() != entry.base_trail)
}
