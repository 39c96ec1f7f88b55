//! Which bytes to ask whom for, and when. No sockets: it is told how each attempt ended.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::id::{ContentId, FragmentId, NodeId};
use crate::limits::{
    FETCH_ATTEMPTS_MAX, FETCHES_MAX, FETCHES_PER_PEER_MAX, HOLDERS_MAX, WANTS_MAX,
};
use crate::rng::Rng;
use crate::time::{Span, Time};

/// The fetch policy: several holders for each content, caps on what is in flight, back-off.
#[derive(Debug, Default)]
pub struct Fetcher {
    wants: BTreeMap<ContentId, Want>,
    /// The wants that nobody is being asked for, in the order of their turns.
    idle: BTreeMap<Turn, ContentId>,
    /// Wants so far.
    count: u64,
    in_flight: BTreeMap<NodeId, usize>,
    /// No want is due before this; saves looking at all of them after every input.
    idle_until: Time,
    /// Fragments whose payloads are not asked for.
    held: BTreeSet<FragmentId>,
}

/// Whose turn it is: what is urgent goes first, then what was wanted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    waits: bool,
    number: u64,
}

#[derive(Debug)]
struct Want {
    turn: Turn,
    /// The fragment it is a payload of, if it is one of only one.
    fragment: Option<FragmentId>,
    bytes_max: u64,
    since: Time,
    holders: Vec<NodeId>,
    next_holder: usize,
    attempts: u32,
    due: Time,
    asked: Option<NodeId>,
}

/// How a fetch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FetchOutcome {
    /// The bytes are here, have the right hash and are stored.
    Stored,
    /// The peer does not have them.
    NotFound,
    /// The peer could not be reached, or stopped answering.
    Unreachable,
    /// A part is here, and it has taken long enough for others to have their turn.
    Partly,
    /// The bytes had another hash or length.
    Wrong,
}

/// One request to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The hash.
    pub content: ContentId,
    /// Whom.
    pub from: NodeId,
    /// Stop reading after this many bytes.
    pub bytes_max: u64,
}

/// What an ended attempt means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The bytes are here; how long it took since they were wanted.
    Stored(Span),
    /// Another attempt will follow.
    Retry,
    /// Nobody serves them; they are still wanted, but seldom asked for.
    Withheld,
    /// Nobody waited for this.
    Unknown,
}

impl Fetcher {
    /// Wants `content`, a payload of `fragment`, which `holder` should have: the first one named is its
    /// author.
    pub fn want(
        &mut self,
        content: ContentId,
        fragment: FragmentId,
        bytes_max: u64,
        holder: NodeId,
        now: Time,
    ) {
        self.enqueue(content, Some(fragment), bytes_max, holder, now);
    }

    /// Wants a snapshot, before everything else and beyond the caps: payloads are of no use without
    /// it.
    pub fn want_first(&mut self, content: ContentId, bytes_max: u64, holder: NodeId, now: Time) {
        self.enqueue(content, None, bytes_max, holder, now);
    }

    fn enqueue(
        &mut self,
        content: ContentId,
        fragment: Option<FragmentId>,
        bytes_max: u64,
        holder: NodeId,
        now: Time,
    ) {
        let waits = fragment.is_some();
        if let Some(want) = self.wants.get_mut(&content) {
            if want.fragment != fragment {
                want.fragment = None;
            }
            // A header that says too little must not keep from us what an honest one names.
            want.bytes_max = want.bytes_max.max(bytes_max);
            if !want.holders.contains(&holder) && want.holders.len() < HOLDERS_MAX {
                want.holders.push(holder);
                // A new holder is a new chance: do not sit out the back-off of the others.
                want.due = want.due.min(now);
            }
        } else if !waits || self.wants.len() < WANTS_MAX {
            let turn = Turn { waits, number: self.count };
            self.count += 1;
            self.idle.insert(turn, content);
            let want = Want {
                turn,
                fragment,
                bytes_max,
                since: now,
                holders: vec![holder],
                next_holder: 0,
                attempts: 0,
                due: now,
                asked: None,
            };
            self.wants.insert(content, want);
        }
        self.idle_until = self.idle_until.min(now);
    }

    /// Asks nobody for payloads of these fragments from now on.
    pub fn hold(&mut self, held: BTreeSet<FragmentId>) {
        if !self.held.is_subset(&held) {
            self.idle_until = Time(0);
        }
        self.held = held;
    }

    /// Whether nobody is asked for payloads of a fragment.
    pub fn holds(&self, fragment: FragmentId) -> bool {
        self.held.contains(&fragment)
    }

    /// No longer wants `content`.
    pub fn cancel(&mut self, content: &ContentId) {
        let Some(want) = self.wants.remove(content) else { return };
        self.idle.remove(&want.turn);
        if let Some(asked) = want.asked {
            self.release(asked);
        }
    }

    /// Whether `content` is wanted.
    pub fn wants(&self, content: &ContentId) -> bool {
        self.wants.contains_key(content)
    }

    /// Whether somebody is being asked for `content` right now.
    pub fn is_asked(&self, content: &ContentId) -> bool {
        self.wants.get(content).is_some_and(|want| want.asked.is_some())
    }

    /// Whether `content` is wanted, and not everybody who should have it was asked in vain.
    pub fn may_come(&self, content: &ContentId) -> bool {
        self.wants.get(content).is_some_and(|want| want.attempts as usize <= want.holders.len())
    }

    /// Who should have a content that is wanted.
    pub fn holders(&self, content: &ContentId) -> Vec<NodeId> {
        self.wants.get(content).map_or_else(Vec::new, |want| want.holders.clone())
    }

    /// Number of wants.
    pub fn len(&self) -> usize {
        self.wants.len()
    }

    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.wants.is_empty()
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.values().sum()
    }

    /// Takes note of how an attempt ended.
    pub fn ended(
        &mut self,
        content: &ContentId,
        from: NodeId,
        outcome: FetchOutcome,
        now: Time,
    ) -> Ended {
        if outcome == FetchOutcome::Stored {
            // Whoever it came from, and whoever is being asked: it is here.
            let Some(since) = self.wants.get(content).map(|want| want.since) else {
                return Ended::Unknown;
            };
            self.cancel(content);
            self.idle_until = now;
            return Ended::Stored(now.since(since));
        }
        let Some(want) = self.wants.get_mut(content).filter(|want| want.asked == Some(from)) else {
            return Ended::Unknown;
        };
        want.asked = None;
        self.idle_until = now;
        if matches!(outcome, FetchOutcome::Partly | FetchOutcome::Unreachable) {
            // Last in the queue: whoever sends slowly or not at all must not hold up what others
            // send. A quick no has held up nobody, and what was wanted first is needed first.
            want.turn.number = self.count;
            self.count += 1;
        }
        self.idle.insert(want.turn, *content);
        if outcome == FetchOutcome::Partly {
            want.due = now;
        } else {
            want.attempts += 1;
            want.due = now.after(back_off(want.attempts, want.holders.len()));
        }
        let withheld = outcome != FetchOutcome::Partly && want.attempts == FETCH_ATTEMPTS_MAX;
        self.release(from);
        if withheld { Ended::Withheld } else { Ended::Retry }
    }

    /// The requests to make now. `connected` tells which peers may have anything; it is asked
    /// only if nobody better is known.
    pub fn poll(
        &mut self,
        now: Time,
        connected: impl Fn() -> Vec<NodeId>,
        rng: &mut Rng,
    ) -> Vec<Ask> {
        let mut asks = Vec::new();
        if now < self.idle_until {
            return asks;
        }
        let mut next = Time(u64::MAX);
        let connected = LazyCell::new(connected);
        let mut flying: usize = self.in_flight.values().sum();
        for (turn, content) in &self.idle {
            if turn.waits && flying >= FETCHES_MAX {
                // The next one that ends brings us back here.
                break;
            }
            let Some(want) = self.wants.get_mut(content) else { continue };
            if want.fragment.is_some_and(|fragment| self.held.contains(&fragment)) {
                // The end of the hold brings us back here.
                continue;
            }
            let busy = |node: &NodeId| {
                let count = self.in_flight.get(node).copied().unwrap_or(0);
                turn.waits && count >= FETCHES_PER_PEER_MAX
            };
            if want.due > now {
                next = next.min(want.due);
                continue;
            }
            let Some(from) = choose(want, &connected, rng).filter(|node| !busy(node)) else {
                next = next.min(now.after(BUSY_WAIT));
                continue;
            };
            want.asked = Some(from);
            flying += 1;
            *self.in_flight.entry(from).or_default() += 1;
            asks.push(Ask { content: *content, from, bytes_max: want.bytes_max });
        }
        for ask in &asks {
            self.idle.remove(&self.wants[&ask.content].turn);
        }
        self.idle_until = next;
        asks
    }

    /// When [`Fetcher::poll`] should be called again.
    pub fn next_poll(&self) -> Option<Time> {
        (self.idle_until != Time(u64::MAX) && !self.wants.is_empty()).then_some(self.idle_until)
    }

    fn release(&mut self, node: NodeId) {
        if let Some(count) = self.in_flight.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                self.in_flight.remove(&node);
            }
        }
        self.idle_until = Time(0);
    }
}

/// The next to ask: known holders in turn, then anybody. The author of a payload is the first, if
/// there is a connection: who passed an announcement on seldom has the payload by then.
fn choose<F: FnOnce() -> Vec<NodeId>>(
    want: &mut Want,
    connected: &LazyCell<Vec<NodeId>, F>,
    rng: &mut Rng,
) -> Option<NodeId> {
    let turn = want.next_holder;
    want.next_holder += 1;
    let begins_with_author =
        || want.fragment.is_some() && want.holders.first().is_some_and(|it| connected.contains(it));
    // Otherwise, starting anywhere spreads the load.
    if turn == 0 && !begins_with_author() {
        rng.shuffle(&mut want.holders);
    }
    let others = turn % (want.holders.len() + 1) == want.holders.len();
    if others && !connected.is_empty() {
        return rng.pick(connected).copied();
    }
    want.holders.get(turn % want.holders.len().max(1)).copied()
}

/// None while there are holders not yet tried: who passed an announcement on may not have the
/// payload yet, its author has. Then doubling.
fn back_off(attempts: u32, holders: usize) -> Span {
    if (attempts as usize) < holders {
        return Span(0);
    }
    let tried_all = u64::from(attempts) / (holders as u64 + 1);
    Span(BACK_OFF_MIN.0.saturating_mul(1 << tried_all.min(16)).min(BACK_OFF_MAX.0))
}

const BACK_OFF_MIN: Span = Span(200);
const BACK_OFF_MAX: Span = Span(30_000);
const BUSY_WAIT: Span = Span(50);

#[cfg(test)]
mod tests {
    use super::*;

    fn content(n: u8) -> ContentId {
        ContentId([n; 32])
    }

    fn node(n: u8) -> NodeId {
        NodeId([n; 32])
    }

    #[test]
    fn one_peer_is_not_asked_for_everything_at_once() {
        let mut fetcher = Fetcher::default();
        (0..10).for_each(|n| fetcher.want(content(n), FragmentId(0), 100, node(1), Time(0)));
        let asks = fetcher.poll(Time(0), Vec::new, &mut Rng::new(1));
        assert_eq!(asks.len(), FETCHES_PER_PEER_MAX);
        let first = asks[0];
        let ended = fetcher.ended(&first.content, node(1), FetchOutcome::Stored, Time(70));
        assert_eq!(ended, Ended::Stored(Span(70)));
        assert_eq!(fetcher.poll(Time(70), Vec::new, &mut Rng::new(1)).len(), 1);
    }

    #[test]
    fn payloads_of_held_fragments_are_not_asked_for() {
        let mut fetcher = Fetcher::default();
        let poll = |fetcher: &mut Fetcher| -> Vec<ContentId> {
            let asks = fetcher.poll(Time(0), Vec::new, &mut Rng::new(1));
            asks.into_iter().map(|ask| ask.content).collect()
        };
        fetcher.hold([FragmentId(0), FragmentId(1)].into());
        for (number, fragment) in [(1, 0), (2, 1), (3, 2), (4, 0), (4, 2)] {
            fetcher.want(content(number), FragmentId(fragment), 100, node(number), Time(0));
        }
        fetcher.want_first(content(5), 100, node(5), Time(0));
        assert_eq!(poll(&mut fetcher), [5, 3, 4].map(content));
        assert_eq!(fetcher.next_poll(), None);
        fetcher.hold([FragmentId(1)].into());
        assert_eq!(poll(&mut fetcher), [content(1)]);
        fetcher.hold(BTreeSet::new());
        assert_eq!(fetcher.next_poll(), Some(Time(0)));
        assert_eq!(poll(&mut fetcher), [content(2)]);
    }

    #[test]
    fn what_is_urgent_does_not_wait_for_what_is_not() {
        let mut fetcher = Fetcher::default();
        (0..10).for_each(|n| fetcher.want(content(n), FragmentId(0), 100, node(1), Time(0)));
        let asks = fetcher.poll(Time(0), Vec::new, &mut Rng::new(1));
        assert_eq!(
            asks.last().map(|ask| ask.content),
            Some(content(3)),
            "first come, first served"
        );
        fetcher.want_first(content(99), 100, node(1), Time(1));
        let asks = fetcher.poll(Time(1), Vec::new, &mut Rng::new(1));
        assert_eq!(asks.iter().map(|ask| ask.content).collect::<Vec<_>>(), [content(99)]);
        fetcher.cancel(&content(99));
        assert!(fetcher.poll(Time(2), Vec::new, &mut Rng::new(1)).is_empty());
    }

    #[test]
    fn an_author_is_asked_before_who_passed_its_announcement_on() {
        for seed in 0..20 {
            let mut fetcher = Fetcher::default();
            fetcher.want(content(0), FragmentId(0), 100, node(1), Time(0));
            fetcher.want(content(0), FragmentId(0), 100, node(2), Time(0));
            let asks = fetcher.poll(Time(0), || vec![node(2), node(1)], &mut Rng::new(seed));
            assert_eq!(asks[0].from, node(1));
        }
    }

    #[test]
    fn the_next_holder_is_asked_after_a_failure() {
        let mut fetcher = Fetcher::default();
        fetcher.want(content(0), FragmentId(0), 100, node(1), Time(0));
        fetcher.want(content(0), FragmentId(0), 100, node(2), Time(0));
        let mut rng = Rng::new(3);
        let first = fetcher.poll(Time(0), Vec::new, &mut rng)[0].from;
        let ended = fetcher.ended(&content(0), first, FetchOutcome::NotFound, Time(5));
        assert_eq!(ended, Ended::Retry);
        let second = fetcher.poll(Time(5), Vec::new, &mut rng)[0].from;
        assert_ne!(first, second);
        fetcher.ended(&content(0), second, FetchOutcome::NotFound, Time(9));
        assert!(fetcher.poll(Time(10), Vec::new, &mut rng).is_empty(), "all were asked");
        assert_eq!(fetcher.poll(Time(300), Vec::new, &mut rng).len(), 1);
    }

    #[test]
    fn what_nobody_serves_is_withheld_and_asked_for_seldom() {
        let mut fetcher = Fetcher::default();
        fetcher.want(content(0), FragmentId(0), 100, node(1), Time(0));
        let mut rng = Rng::new(3);
        let (mut now, mut ends) = (Time(0), Vec::new());
        while ends.len() < FETCH_ATTEMPTS_MAX as usize {
            now = fetcher.next_poll().unwrap().max(Time(now.0 + 1));
            for ask in fetcher.poll(now, Vec::new, &mut rng) {
                ends.push(fetcher.ended(&ask.content, ask.from, FetchOutcome::NotFound, now));
            }
        }
        assert_eq!(ends.last(), Some(&Ended::Withheld));
        assert_eq!(ends.iter().filter(|end| **end == Ended::Withheld).count(), 1);
        assert!(now > Time(10_000));
    }

    #[test]
    fn who_sends_slowly_does_not_hold_up_the_others() {
        let (mut fetcher, mut rng) = (Fetcher::default(), Rng::new(3));
        for n in 0..=u8::try_from(FETCHES_MAX).unwrap() {
            fetcher.want(content(n), FragmentId(0), 100, node(n), Time(0));
        }
        let asks = fetcher.poll(Time(0), Vec::new, &mut rng);
        assert_eq!(asks.len(), FETCHES_MAX);
        let slow = asks[0];
        for round in 1..3 * u64::from(FETCH_ATTEMPTS_MAX) {
            let now = Time(1000 * round);
            let ended = fetcher.ended(&slow.content, slow.from, FetchOutcome::Partly, now);
            assert_eq!(ended, Ended::Retry, "a part is no failure");
            let next = fetcher.poll(now, Vec::new, &mut rng);
            if round == 1 {
                assert_eq!(next[0].content, content(u8::try_from(FETCHES_MAX).unwrap()));
                fetcher.cancel(&next[0].content);
                assert_eq!(fetcher.poll(now, Vec::new, &mut rng)[0].content, slow.content);
            } else {
                assert_eq!(next[0].content, slow.content, "it goes on at once");
            }
        }
    }

    #[test]
    fn what_is_here_is_here_whoever_it_came_from() {
        let (mut fetcher, mut rng) = (Fetcher::default(), Rng::new(3));
        fetcher.want(content(0), FragmentId(0), 100, node(1), Time(0));
        assert_eq!(fetcher.poll(Time(0), Vec::new, &mut rng)[0].from, node(1));
        let late = fetcher.ended(&content(0), node(2), FetchOutcome::Unreachable, Time(4));
        assert_eq!((late, fetcher.in_flight()), (Ended::Unknown, 1));
        let ended = fetcher.ended(&content(0), node(2), FetchOutcome::Stored, Time(5));
        assert_eq!((ended, fetcher.in_flight(), fetcher.len()), (Ended::Stored(Span(5)), 0, 0));
        let ended = fetcher.ended(&content(0), node(1), FetchOutcome::Stored, Time(6));
        assert_eq!(ended, Ended::Unknown);
    }

    #[test]
    fn a_header_that_says_too_little_does_not_cut_off_an_honest_one() {
        let (mut fetcher, mut rng) = (Fetcher::default(), Rng::new(3));
        fetcher.want(content(0), FragmentId(0), 7, node(1), Time(0));
        fetcher.want(content(0), FragmentId(0), 100, node(2), Time(0));
        fetcher.want(content(0), FragmentId(0), 7, node(3), Time(0));
        assert_eq!(fetcher.poll(Time(0), Vec::new, &mut rng)[0].bytes_max, 100);
    }

    #[test]
    fn an_answer_nobody_waited_for_is_nothing() {
        let mut fetcher = Fetcher::default();
        let ended = fetcher.ended(&content(0), node(1), FetchOutcome::Stored, Time(0));
        assert_eq!(ended, Ended::Unknown);
    }
}
