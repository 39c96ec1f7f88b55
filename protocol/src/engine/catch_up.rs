//! Whether this node takes part, and whom it counts.

use std::collections::BTreeSet;

use crate::divergence::support_need;
use crate::engine::{Engine, Report};
use crate::frontier::Standing;
use crate::id::{FragmentId, NodeId, RoundId, Version};
use crate::limits::ROUNDS_AHEAD_MAX;
use crate::peers::Peer;
use crate::time::Span;

impl Engine {
    /// A joining node that has heard enough and lacks nothing takes part from now on.
    pub(super) fn try_catch_up(&mut self) {
        if self.standing != Standing::Joining || self.leaving {
            return;
        }
        let rounds = &self.config.genesis.rounds;
        let alive = Span(rounds.alive_ms);
        let alone = self.peers.within(alive, self.now).next().is_none();
        // One alone waits longer: the swarm may only be out of reach, unless there was none before.
        // Among strangers it waits for their invitations, but not for ever: anybody may pretend.
        let wait = match alone {
            true if self.config.founds && !self.restored => Span(0),
            true if self.stranger => alive.times(STRANGER_SILENCES),
            true => alive,
            false if self.heard_enough() => Span(0),
            // Those who came with it know as little as this node does.
            false if self.vouching().is_some() && self.knowing().next().is_none() => alive,
            false => self.heartbeat_span().times(2),
        };
        let lacks = |course: &super::course::Course| {
            let fragment = course.fragment;
            course.installing.is_some()
                || self.untold(fragment)
                || self.conflicting(fragment) >= self.need()
                || self.beyond(fragment) >= self.need()
                || course.version + LAG_MAX < self.attested(fragment).max(self.vouched(fragment))
        };
        if self.now.since(self.started) < wait || self.courses.iter().any(lacks) {
            return;
        }
        if self.courses.iter().all(|course| course.version == 0) && !self.restored {
            // There is no history yet that somebody out of reach could have a part in.
            self.founder = true;
        }
        self.standing = Standing::CaughtUp;
        self.took_part = true;
        self.report(Report::Standing(Standing::CaughtUp));
        self.hurry_heartbeat();
        self.wake_all();
    }

    /// Whether a node that was here before has heard most of those it merged with, so that it
    /// need not wait for more to speak.
    fn heard_enough(&self) -> bool {
        let with: BTreeSet<&NodeId> =
            self.ledger.authors().filter(|author| **author != self.me).collect();
        let known = self.knowing().filter(|(node, _)| with.contains(node)).count();
        self.restored && known > with.len() / 2 && self.knowing().count() >= self.need()
    }

    /// Whether too few of those who know have said where a fragment stands: frontiers of many
    /// fragments come in parts.
    fn untold(&self, fragment: FragmentId) -> bool {
        let told = self.knowing().filter(|(_, peer)| peer.entry(fragment).is_some()).count();
        told < self.need().min(self.knowing().count())
    }

    /// Speakers that are caught up.
    pub(super) fn knowing(&self) -> impl Iterator<Item = (&NodeId, &Peer)> {
        self.speakers().filter(|(_, peer)| peer.standing == Standing::CaughtUp)
    }

    /// This node must replace its state first: it no longer decides anything.
    pub(super) fn fall_back(&mut self) {
        if self.standing == Standing::CaughtUp {
            self.standing = Standing::Joining;
            self.report(Report::Standing(Standing::Joining));
        }
    }

    /// Islands that count for quorum: alive, training, caught up, admitted.
    pub(super) fn live(&self) -> impl Iterator<Item = (&NodeId, &Peer)> {
        self.knowing().filter(|(_, peer)| peer.trains)
    }

    /// Caught-up peers whose stable history of a fragment we do not have: we are behind, or
    /// they differ, or we lost what it is made of.
    pub(super) fn ahead_of(&self, fragment: FragmentId) -> Vec<NodeId> {
        let course = &self.courses[fragment.index()];
        self.speakers()
            .filter(|(_, peer)| {
                peer.standing == Standing::CaughtUp
                    && peer.entry(fragment).is_some_and(|entry| {
                        entry.base >= course.chain.root()
                            && course
                                .chain
                                .trail_with(course.foldable(), entry.base)
                                .map(|trail| trail.short())
                                != Some(entry.base_trail)
                    })
            })
            .map(|(node, _)| *node)
            .collect()
    }

    /// Peers, caught up or not, whose stable history goes beyond ours: after everyone restarted
    /// nobody is caught up, and those who know most must come first.
    fn beyond(&self, fragment: FragmentId) -> usize {
        let version = self.courses[fragment.index()].version;
        self.speakers()
            .filter_map(|(_, peer)| peer.entry(fragment))
            .filter(|entry| entry.base > version.saturating_add(LAG_MAX))
            .count()
    }

    /// Caught-up peers whose stable history contradicts ours and was not compared with it yet:
    /// once it was and ours stands, we must speak for it.
    fn conflicting(&self, fragment: FragmentId) -> usize {
        let histories = &self.courses[fragment.index()].histories;
        let ahead = self.ahead_of(fragment);
        self.contradicting(fragment, &ahead).filter(|node| !histories.contains_key(node)).count()
    }

    /// Those `ahead` who are not just further on: they have another history of what we have.
    pub(super) fn contradicting<'a>(
        &'a self,
        fragment: FragmentId,
        ahead: &'a [NodeId],
    ) -> impl Iterator<Item = NodeId> + 'a {
        let version = self.courses[fragment.index()].version;
        let entry = move |node: &NodeId| self.peers.peer(node)?.entry(fragment);
        let has = move |node: &NodeId| entry(node).is_some_and(|entry| entry.base <= version);
        ahead.iter().copied().filter(has)
    }

    /// Whether most nodes have closed the round we have open: a contribution would come late.
    pub(super) fn lags(&self, fragment: FragmentId) -> bool {
        let number = self.courses[fragment.index()].version + 1;
        let closed = self.closed_by(RoundId { fragment, number });
        let takes_part = self.standing == Standing::CaughtUp && self.config.trains;
        closed > 0 && closed > (self.live().count() + usize::from(takes_part)) / 2
    }

    /// How many live peers have closed a round. Mostly nobody may have, and nobody is asked.
    pub(super) fn closed_by(&self, round: RoundId) -> usize {
        if !self.peers.may_have_closed(round) {
            return 0;
        }
        self.live().filter(|(_, peer)| peer.has_closed(round)).count()
    }

    /// The newest round a contribution may be for: a little ahead of what enough nodes closed.
    pub(super) fn round_max(&self, fragment: FragmentId) -> Version {
        let version = self.courses[fragment.index()].version;
        let horizon = self.config.genesis.rounds.horizon;
        let attested = self.attested(fragment).min(version.saturating_add(horizon));
        version.max(attested).saturating_add(ROUNDS_AHEAD_MAX)
    }

    /// Whether a contribution to `round` is of a round too far ahead to be believed. Most are not
    /// ahead at all, and nobody need be asked.
    pub(super) fn is_beyond_reach(&self, round: RoundId) -> bool {
        let version = self.courses[round.fragment.index()].version;
        round.number > version.saturating_add(ROUNDS_AHEAD_MAX)
            && round.number > self.round_max(round.fragment)
    }

    /// Nodes heard of lately, this one included.
    pub(super) fn heard_count(&self) -> usize {
        self.speakers().count() + 1
    }

    /// How many nodes must say a thing for it to be believed.
    pub(super) fn need(&self) -> usize {
        let live = self.heard_count();
        support_need(live, live)
    }

    /// The highest version that enough caught-up peers report.
    pub(super) fn attested(&self, fragment: FragmentId) -> Version {
        let mut versions: Vec<Version> = self
            .knowing()
            .filter_map(|(_, peer)| peer.entry(fragment).map(|entry| entry.version))
            .collect();
        versions.sort_unstable_by(|one, other| other.cmp(one));
        versions.get(self.need() - 1).copied().unwrap_or(0)
    }

    /// The sponsor of a node that never took part: it has nothing of its own yet.
    pub(super) fn vouching(&self) -> Option<NodeId> {
        self.config.sponsor.filter(|_| !self.took_part)
    }

    /// The version that this node's sponsor reports.
    pub(super) fn vouched(&self, fragment: FragmentId) -> Version {
        let sponsor = self.knowing().find(|(node, _)| self.vouching() == Some(**node));
        let entry = sponsor.and_then(|(_, peer)| peer.entry(fragment));
        entry.map_or(0, |entry| entry.version)
    }

    pub(super) fn speakers(&self) -> impl Iterator<Item = (&NodeId, &Peer)> {
        let alive = Span(self.config.genesis.rounds.alive_ms);
        let open = self.oldest_open();
        self.peers.within(alive, self.now).filter(move |(node, _)| self.has_a_say(node, open))
    }

    /// Whether a node's word counts: it may contribute to the rounds that are open.
    pub(super) fn counts(&self, node: &NodeId) -> bool {
        self.has_a_say(node, self.oldest_open())
    }

    /// Whether a node may contribute to a round, as far as we know.
    pub(super) fn has_a_say(&self, node: &NodeId, round: Version) -> bool {
        !self.ledger.equivocated(node) && self.roster.admits(node, round).is_ok()
    }

    fn oldest_open(&self) -> Version {
        self.courses.iter().map(|course| course.version).min().unwrap_or(0) + 1
    }
}

/// Rounds that a node may be behind and still count as caught up.
const LAG_MAX: Version = 2;
/// Silences after which a node that heard only strangers takes part alone.
const STRANGER_SILENCES: u64 = 3;
