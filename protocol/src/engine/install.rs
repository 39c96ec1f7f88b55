//! When stable histories differ: compare them, take the survivor's snapshot, issue again what
//! it lacks.

use std::collections::BTreeSet;

use crate::chain::{Chain, History, HistoryEntry};
use crate::contribution::{Admitted, Header, PayloadProof};
use crate::crypto::Signed;
use crate::divergence::{self, Choice, Claims};
use crate::engine::course::{Course, Installing, Job};
use crate::engine::pace::Paced;
use crate::engine::reclaim::{Old, Reclaimed};
use crate::engine::{Engine, Output, Record, Report};
use crate::fault::{Fault, Verdict};
use crate::frontier::Standing;
use crate::id::{ContentId, FragmentId, NodeId, RoundId};
use crate::limits::TOKENS_MAX;
use crate::message::Message;
use crate::planted::Bug;
use crate::time::Span;

impl Engine {
    /// Asks for histories where peers hold other stable rounds than we do.
    pub(super) fn look_for_divergence(&mut self) {
        for index in 0..self.courses.len() {
            let fragment = self.courses[index].fragment;
            let ahead = self.ahead_of(fragment);
            if self.is_hopeless(index) {
                self.give_up_install(fragment);
            }
            if ahead.is_empty() {
                let course = &mut self.courses[index];
                course.histories.clear();
                course.asked.clear();
                course.waits_since = None;
                continue;
            }
            let course = &self.courses[index];
            if course.installing.is_some() || !self.is_due_to_ask(course) {
                continue;
            }
            let contradicting = self.contradicting(fragment, &ahead).next();
            if let Some(peer) = contradicting {
                self.report(Report::Diverged { fragment, peer });
            }
            let reachable: Vec<NodeId> = self.peers.reachable().take(ASKED_MAX).copied().collect();
            let heartbeat = self.heartbeat_span();
            let course = &mut self.courses[index];
            course.ask_at = self.now.after(heartbeat);
            let times = |node: &NodeId| course.asked.get(node).copied().unwrap_or(0);
            course.asked = reachable.iter().map(|node| (*node, times(node) + 1)).collect();
            for to in reachable {
                let bytes = Message::AskHistory(fragment).encode();
                self.outbox.push(Output::Send { to, bytes });
            }
        }
    }

    /// Fragments whose payloads are of no use yet: the base of one is on its way, or will be, and most
    /// payloads that a newcomer hears of are in it. To whoever never took part the others' payloads are
    /// of no use either until all bases are here, as long as their rounds are not about to be
    /// forgotten: it is caught up when it is a little behind with all fragments, and not sooner if some
    /// are further.
    pub(super) fn not_wanted_yet(&self) -> BTreeSet<FragmentId> {
        let without: BTreeSet<FragmentId> = self.without_base().collect();
        if without.is_empty() || self.took_part {
            return without;
        }
        let most = self.config.genesis.rounds.horizon / HELD_BACK;
        let waits = |course: &&Course| {
            let fragment = course.fragment;
            without.contains(&fragment)
                || self.attested(fragment).max(self.vouched(fragment))
                    <= course.version.saturating_add(most)
        };
        self.courses.iter().filter(waits).map(|course| course.fragment).collect()
    }

    /// Fragments whose base is on its way to a newcomer, or will be.
    fn without_base(&self) -> impl Iterator<Item = FragmentId> {
        let joins = self.standing == Standing::Joining;
        let begins = |course: &Course| {
            if course.chain.base() > 0 {
                return false;
            }
            let ahead = self.ahead_of(course.fragment);
            let vouched = ahead.iter().any(|node| self.vouching() == Some(*node));
            vouched || ahead.len() >= self.need()
        };
        let courses = self.courses.iter().filter(move |_| joins);
        courses
            .filter(move |course| course.installing.is_some() || begins(course))
            .map(|course| course.fragment)
    }

    /// Whether this is a newcomer that others are ahead of, who were not all asked lately. It lets
    /// a moment pass, so that more of them have spoken, and no longer.
    pub(super) fn should_ask_for_histories(&self) -> bool {
        self.standing == Standing::Joining
            && self.courses.iter().any(|course| {
                course.installing.is_none()
                    && self.is_due_to_ask(course)
                    && !self.ahead_of(course.fragment).is_empty()
            })
    }

    /// Whether what is being fetched leads to `chain`, which goes on from our base: every round up to
    /// there is known, and payloads are still to come. A newcomer that has its first state would
    /// otherwise take the next one before the payloads that lead to it are here.
    fn is_on_its_way(&self, course: &Course, chain: &Chain) -> bool {
        let (base, last) = (course.chain.base(), chain.base());
        let round = |number| RoundId { fragment: course.fragment, number };
        let comes = |number| self.is_coming(round(number));
        let is_known = |number| comes(number) || self.ledger.round(round(number)).next().is_some();
        base > 0
            && chain.trail_at(base) == Some(course.chain.base_trail())
            && last.saturating_sub(base) <= self.config.genesis.rounds.horizon
            && (course.version + 1..=last).all(is_known)
            && (base + 1..=last).any(comes)
    }

    /// Whether a state is left for a while because it is on its way. What the fetcher holds back does
    /// not count against that.
    fn is_left(&mut self, fragment: FragmentId, chain: &Chain) -> bool {
        let patience = self.heartbeat_span().times(WAY_HEARTBEATS);
        let (now, held) = (self.now, self.fetcher.holds(fragment));
        let course = &self.courses[fragment.index()];
        if !self.is_on_its_way(course, chain) {
            return false;
        }
        let course = &mut self.courses[fragment.index()];
        let since = *course.waits_since.get_or_insert(now);
        if held {
            course.waits_since = Some(now);
        }
        held || now.since(since) < patience
    }

    /// Once in a heartbeat; sooner if there are more to ask than the last time.
    fn is_due_to_ask(&self, course: &Course) -> bool {
        self.now >= course.ask_at
            || self.peers.reachable().take(ASKED_MAX).count() > course.asked.len()
    }

    /// Sends our history, if we are a donor.
    pub(super) fn history_asked(
        &mut self,
        from: NodeId,
        fragment: FragmentId,
    ) -> Result<Verdict, Fault> {
        if fragment.index() >= self.courses.len() {
            return Err(Fault::Malformed);
        }
        let speaks = self.standing == Standing::CaughtUp || self.planted(Bug::DonorNotCaughtUp);
        if speaks && self.may_send(from, Paced::History(fragment)) {
            let history = self.courses[fragment.index()].chain.to_history();
            let bytes = Message::History(history).encode();
            self.outbox.push(Output::Send { to: from, bytes });
        }
        Ok(Verdict::Ignore)
    }

    /// Takes a peer's history and decides whether to follow it.
    pub(super) fn history(&mut self, from: NodeId, history: &History) -> Result<Verdict, Fault> {
        let fragment = history.fragment;
        let index = fragment.index();
        if index >= self.courses.len() {
            return Err(Fault::Malformed);
        }
        let chain = Chain::from_history(history)?;
        if !self.is_plausible(history) {
            return Err(Fault::BadHistory);
        }
        if !self.counts(&from) || self.ahead_of(fragment).is_empty() {
            return Ok(Verdict::Ignore);
        }
        let course = &mut self.courses[index];
        if course.histories.len() >= ASKED_MAX && !course.histories.contains_key(&from) {
            course.histories.pop_first();
        }
        course.histories.insert(from, chain);
        course.asked.entry(from).and_modify(|times| *times = 0);
        self.choose_history(fragment);
        Ok(Verdict::Ignore)
    }

    /// Whether a history begins where this run began and claims no impossible weights.
    fn is_plausible(&self, history: &History) -> bool {
        let initial = self.config.initial[history.fragment.index()];
        let begun = Chain::new(history.fragment, initial);
        let from_the_start = history.root > 0
            || history.root_digest == initial
                && history.root_trail == begun.base_trail()
                && history.root_weight == 0;
        let light = |entry: &HistoryEntry| {
            entry.weight <= TOKENS_MAX.saturating_mul(entry.cut.len() as u64)
        };
        from_the_start && history.entries.iter().all(light)
    }

    fn choose_history(&mut self, fragment: FragmentId) {
        let course = &self.courses[fragment.index()];
        if course.installing.is_some()
            || course.job == Some(Job::Install)
            || self.waits_for_sponsor(course)
        {
            return;
        }
        let mut peers: Vec<(NodeId, &Chain)> =
            course.histories.iter().map(|(node, chain)| (*node, chain)).collect();
        let begun = Chain::new(fragment, self.config.initial[fragment.index()]);
        let (mut own, mut own_trails) = (&course.chain, course.foldable());
        if self.planted(Bug::ForkByArrival) {
            // As if there were nothing to weigh the others' histories against.
            peers.retain(|(_, chain)| {
                own.trail_with(own_trails, chain.base()) != Some(chain.base_trail())
            });
            (own, own_trails) = (&begun, &[]);
        }
        let choice = divergence::choose(&Claims {
            own,
            own_trails,
            peers: &peers,
            live: self.heard_count(),
            donors: self.donors(course),
            sponsor: self.vouching(),
        });
        let Choice::Adopt { chain, donors } = choice else { return };
        if self.is_left(fragment, &chain) {
            return;
        }
        let bytes_max = snapshot_bytes(self.elements[fragment.index()]);
        for donor in donors {
            self.fetcher.want_first(chain.base_digest(), bytes_max, donor, self.now);
        }
        let since = self.now;
        let course = &mut self.courses[fragment.index()];
        course.installing = Some(Installing { chain, stored: false, since });
        self.fall_back();
    }

    /// Whether a newcomer's sponsor is about to say how its history goes. What it calls stable others
    /// will in a moment, and by then nobody has what leads from theirs to it.
    fn waits_for_sponsor(&self, course: &Course) -> bool {
        let Some(sponsor) = self.vouching() else { return false };
        let speaks = || {
            let connected = self.peers.reachable().any(|node| *node == sponsor);
            connected && self.knowing().any(|(node, _)| *node == sponsor)
        };
        course.chain.base() == 0
            && !course.histories.contains_key(&sponsor)
            && self.now.since(self.started) < self.heartbeat_span().times(SPONSOR_HEARTBEATS)
            && speaks()
    }

    /// How many would send their history: speakers that are caught up, but not those that were
    /// asked again and again in vain.
    fn donors(&self, course: &Course) -> usize {
        let silent = |node| course.asked.get(node).is_some_and(|times| *times > ASKED_IN_VAIN_MAX);
        self.knowing().filter(|(node, _)| !silent(*node)).count()
    }

    /// A snapshot may have arrived.
    pub(super) fn snapshot_stored(&mut self, content: ContentId) {
        for course in &mut self.courses {
            if let Some(installing) = &mut course.installing
                && installing.chain.base_digest() == content
            {
                installing.stored = true;
                course.awake = true;
            }
        }
    }

    /// Asks the driver to replace base and head.
    pub(super) fn install(&mut self, fragment: FragmentId) {
        let course = &mut self.courses[fragment.index()];
        let Some(installing) = &course.installing else { return };
        let content = installing.chain.base_digest();
        course.job = Some(Job::Install);
        self.outbox.push(Output::Install { fragment, content });
    }

    /// The snapshot is in place: the history is the survivor's now.
    pub(super) fn installed(&mut self, fragment: FragmentId, content: ContentId, good: bool) {
        let Some(course) = self.courses.get_mut(fragment.index()) else { return };
        if course.job != Some(Job::Install) {
            return;
        }
        course.job = None;
        course.awake = true;
        let Some(Installing { chain, .. }) = course.installing.take() else { return };
        course.histories.clear();
        if !good || chain.base_digest() != content {
            return;
        }
        course.thin = 0;
        let before = std::mem::replace(&mut course.chain, chain);
        let trails = std::mem::take(&mut course.trails);
        let version = std::mem::replace(&mut course.version, 0);
        let old = Old { chain: before, trails, version };
        self.courses[fragment.index()].version = self.courses[fragment.index()].chain.base();
        self.courses[fragment.index()].waits_since = None;
        let waited = self.courses[fragment.index()].waiting();
        let no_reissue = self.planted(Bug::NoReissue);
        let reclaimed = self.courses[fragment.index()].reclaim(&old, no_reissue);
        let Reclaimed { reissued, orphaned, offered } = reclaimed;
        self.offer_again(offered);
        self.head_is_base(fragment);
        let course = &mut self.courses[fragment.index()];
        course.dirty = false;
        course.lost = None;
        course.excluded.clear();
        course.quorate_at = None;
        course.closes_at = None;
        let version = course.version;
        let history = course.chain.to_history();
        let settled = course.tokens.settled;
        // A crash between two records must find whatever either history lacks: what this one holds
        // is crossed out only after it.
        let now_waiting = course.waiting();
        let mut own = now_waiting.clone();
        own.extend(waited.into_iter().filter(|id| !now_waiting.contains(id)));
        let crossed_out = own != now_waiting;
        self.outbox.push(Output::Persist(Record::Waiting { fragment, own }));
        self.outbox.push(Output::Persist(Record::Installed { history, settled }));
        if crossed_out {
            self.persist_waiting(fragment);
        }
        self.report(Report::Installed { fragment, version, reissued, orphaned });
        self.prune(fragment);
        self.adopt(fragment, Vec::new());
        self.try_catch_up();
        self.hurry_heartbeat();
    }

    /// Puts own contributions to rounds that are open again back into the ledger.
    fn offer_again(&mut self, signed: Vec<Signed<Header>>) {
        for signed in signed {
            let payload = signed.body.payload;
            let admitted = signed
                .verify(self.run)
                .and_then(|header| Admitted::new(header, PayloadProof::checked(payload)));
            if let Some(admitted) = admitted {
                self.ledger.insert(admitted);
                *self.references.entry(payload).or_default() += 1;
            }
        }
    }

    /// Whether a snapshot should have come by now. One that is on its way may take as long as
    /// all of them together take over the thinnest link.
    fn is_hopeless(&self, index: usize) -> bool {
        let Some(installing) = self.courses[index].installing.as_ref().filter(|it| !it.stored)
        else {
            return false;
        };
        let patience = self.heartbeat_span().times(INSTALL_HEARTBEATS);
        let bytes: u64 = self.elements.iter().map(|elements| snapshot_bytes(*elements)).sum();
        let most = Span(patience.0.saturating_add(bytes / SNAPSHOT_BYTES_PER_MS_MIN));
        let waited = self.now.since(installing.since);
        let asked = self.fetcher.is_asked(&installing.chain.base_digest());
        waited > if asked { most } else { patience }
    }

    /// Whether our own rounds lead to the state that is being fetched.
    pub(super) fn is_needless(&self, index: usize) -> bool {
        let course = &self.courses[index];
        let leads = |chain: &Chain| {
            course.chain.trail_with(course.foldable(), chain.base()) == Some(chain.base_trail())
        };
        course.job != Some(Job::Install)
            && course.installing.as_ref().is_some_and(|installing| leads(&installing.chain))
    }

    pub(super) fn give_up_install(&mut self, fragment: FragmentId) {
        let course = &mut self.courses[fragment.index()];
        if let Some(installing) = course.installing.take() {
            // They are as old as the attempt: the next one is to be for what donors have then.
            course.histories.clear();
            self.fetcher.cancel(&installing.chain.base_digest());
        }
    }
}

/// Bytes of a fragment's base as a file: parameters and momentum behind a head.
fn snapshot_bytes(elements: usize) -> u64 {
    4 * (8 + 2 * elements as u64)
}

/// Peers that are asked for their history at once.
const ASKED_MAX: usize = 32;
/// Whoever was asked for its history more often than this and sent none will not send one.
const ASKED_IN_VAIN_MAX: u32 = 8;
/// Which part of the horizon a newcomer's fragments may lag behind while others have no base yet.
const HELD_BACK: u32 = 4;
/// Heartbeats that a newcomer's sponsor has to send its history.
const SPONSOR_HEARTBEATS: u64 = 2;
/// Heartbeats for which a state that is on its way is left.
const WAY_HEARTBEATS: u64 = 4;
/// Heartbeats after which a snapshot that nobody is sending is given up.
const INSTALL_HEARTBEATS: u64 = 5;
/// The thinnest link over which a run can be joined: about a megabit a second.
const SNAPSHOT_BYTES_PER_MS_MIN: u64 = 128;
