//! The links between all nodes: latency, loss, duplication, reordering, partitions, clogs.

use std::collections::BTreeMap;

use atoll_protocol::rng::Rng;
use atoll_protocol::time::Time;

use super::{LinkPlan, PartitionKind};
use crate::check::NodeIndex;

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nobody gets it.
    Lost,
    /// It waits until a clog ends.
    Held,
    /// It arrives then.
    Arrives(Time),
    /// It arrives twice.
    Twice(Time, Time),
}

/// All links.
#[derive(Debug)]
pub(super) struct Links {
    plan: LinkPlan,
    nodes: usize,
    /// By pair: the latency without jitter.
    latency: Vec<u64>,
    /// By pair: the latest arrival so far, to notice what is overtaken.
    latest: Vec<u64>,
    /// By pair: until when fetched content keeps the link busy.
    busy: Vec<u64>,
    neighbours: Vec<Vec<NodeIndex>>,
    partitions: BTreeMap<u32, (Vec<bool>, PartitionKind)>,
    clogged: Vec<bool>,
    extra: Vec<u64>,
    rng: Rng,
    counts: BTreeMap<&'static str, u64>,
}

impl Links {
    /// Links between `nodes` nodes.
    pub(super) fn new(plan: LinkPlan, nodes: usize, mut rng: Rng) -> Self {
        let mut latency = vec![0; nodes * nodes];
        for one in 0..nodes {
            for other in 0..=one {
                let drawn = rng.range(plan.latency_ms_min, plan.latency_ms_max);
                latency[one * nodes + other] = drawn;
                latency[other * nodes + one] = drawn;
            }
        }
        let neighbours = topology(nodes, &mut rng);
        Self {
            plan,
            nodes,
            latency,
            latest: vec![0; nodes * nodes],
            busy: vec![0; nodes * nodes],
            neighbours,
            partitions: BTreeMap::new(),
            clogged: vec![false; nodes],
            extra: vec![0; nodes],
            rng,
            counts: BTreeMap::new(),
        }
    }

    /// Decides what becomes of a message sent now.
    pub(super) fn send(&mut self, now: Time, from: NodeIndex, to: NodeIndex) -> Fate {
        if !self.open(from, to) {
            return Fate::Lost;
        }
        if self.clogged[from] || self.clogged[to] {
            return Fate::Held;
        }
        if self.plan.loss_one_in > 0 && self.rng.ratio(1, self.plan.loss_one_in) {
            self.count("loss");
            return Fate::Lost;
        }
        let arrival = self.arrival(now, from, to);
        if self.plan.duplication_one_in > 0 && self.rng.ratio(1, self.plan.duplication_one_in) {
            self.count("duplication");
            return Fate::Twice(arrival, self.arrival(now, from, to));
        }
        Fate::Arrives(arrival)
    }

    /// When `bytes` of content sent now arrive; none if they never do.
    pub(super) fn carry(
        &mut self,
        now: Time,
        from: NodeIndex,
        to: NodeIndex,
        bytes: usize,
    ) -> Option<Time> {
        if !self.open(from, to) || self.clogged[from] || self.clogged[to] {
            return None;
        }
        // A stream repairs loss by itself, but now and then a connection breaks.
        if self.plan.loss_one_in > 0 && self.rng.ratio(1, self.plan.loss_one_in.saturating_mul(4)) {
            self.count("broken fetch");
            return None;
        }
        let pair = self.pair(from, to);
        let start = self.busy[pair].max(now.0);
        self.busy[pair] = start + (bytes as u64).div_ceil(self.plan.bytes_per_ms.max(1));
        Some(Time(self.busy[pair] + self.delay(from, to)))
    }

    /// How long a fetch of up to `bytes` may take before it is given up.
    pub(super) fn patience(&self, bytes: u64) -> u64 {
        let slowest = self.plan.latency_ms_max + self.plan.jitter_ms;
        PATIENCE_MS + 4 * slowest + 8 * bytes.div_ceil(self.plan.bytes_per_ms.max(1))
    }

    /// Whether anything sent by `from` can reach `to`.
    pub(super) fn open(&self, from: NodeIndex, to: NodeIndex) -> bool {
        self.partitions.values().all(|(side, kind)| match kind {
            PartitionKind::Asymmetric => !side[from] || side[to],
            PartitionKind::Symmetric | PartitionKind::Long => side[from] == side[to],
        })
    }

    /// The nodes that `node` connects to when they run.
    pub(super) fn neighbours(&self, node: NodeIndex) -> &[NodeIndex] {
        &self.neighbours[node]
    }

    /// Begins a partition.
    pub(super) fn partition(&mut self, name: u32, side: &[NodeIndex], kind: PartitionKind) {
        let mut member = vec![false; self.nodes];
        side.iter().for_each(|node| member[*node] = true);
        self.partitions.insert(name, (member, kind));
        self.count(kind.name());
    }

    /// Ends a partition.
    pub(super) fn rejoin(&mut self, name: u32) {
        self.partitions.remove(&name);
    }

    /// Holds back everything to and from a node.
    pub(super) fn clog(&mut self, node: NodeIndex) {
        self.clogged[node] = true;
        self.count("clog");
    }

    /// Lets it move again.
    pub(super) fn unclog(&mut self, node: NodeIndex) {
        self.clogged[node] = false;
    }

    /// Makes all links of a node slower.
    pub(super) fn slow_down(&mut self, node: NodeIndex, extra_ms: u64) {
        self.extra[node] = extra_ms;
        if extra_ms > 0 {
            self.count("latency spike");
        }
    }

    /// Loses one in so many messages.
    pub(super) fn set_loss(&mut self, one_in: u64) {
        self.plan.loss_one_in = one_in;
    }

    /// Duplicates one in so many messages.
    pub(super) fn set_duplication(&mut self, one_in: u64) {
        self.plan.duplication_one_in = one_in;
    }

    /// Delays messages by up to so much.
    pub(super) fn set_jitter(&mut self, jitter_ms: u64) {
        self.plan.jitter_ms = jitter_ms;
    }

    /// Ends everything that goes wrong.
    pub(super) fn heal(&mut self) {
        self.partitions.clear();
        self.clogged.fill(false);
        self.extra.fill(0);
        self.set_loss(0);
        self.set_duplication(0);
        self.set_jitter(self.plan.jitter_ms.min(self.plan.latency_ms_min));
    }

    /// How often each fault really happened.
    pub(super) fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    fn arrival(&mut self, now: Time, from: NodeIndex, to: NodeIndex) -> Time {
        let at = now.0 + self.delay(from, to);
        let pair = self.pair(from, to);
        if at < self.latest[pair] {
            self.count("reordering");
        } else {
            self.latest[pair] = at;
        }
        Time(at)
    }

    fn delay(&mut self, from: NodeIndex, to: NodeIndex) -> u64 {
        let jitter = self.rng.below(self.plan.jitter_ms + 1);
        self.latency[self.pair(from, to)] + self.extra[from] + self.extra[to] + jitter
    }

    fn pair(&self, from: NodeIndex, to: NodeIndex) -> usize {
        from * self.nodes + to
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }
}

/// Everyone with everyone in a small swarm; a ring with random chords in a large one, which is
/// connected whatever is drawn.
fn topology(nodes: usize, rng: &mut Rng) -> Vec<Vec<NodeIndex>> {
    if nodes <= FULL_MESH_MAX {
        return (0..nodes).map(|one| (0..nodes).filter(|other| *other != one).collect()).collect();
    }
    let mut neighbours = vec![Vec::new(); nodes];
    let mut join = |one: NodeIndex, other: NodeIndex| {
        if one != other && !neighbours[one].contains(&other) {
            neighbours[one].push(other);
            neighbours[other].push(one);
        }
    };
    for one in 0..nodes {
        join(one, (one + 1) % nodes);
        for _ in 0..CHORDS {
            join(one, usize::try_from(rng.below(nodes as u64)).expect("below a usize"));
        }
    }
    neighbours
}

/// Largest swarm in which everyone connects to everyone.
const FULL_MESH_MAX: usize = 16;
/// Random links that each node of a larger swarm adds: with those of others a degree of eight.
const CHORDS: usize = 3;
/// What a fetch may take besides latency and bandwidth.
const PATIENCE_MS: u64 = 1500;

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> LinkPlan {
        LinkPlan {
            latency_ms_min: 10,
            latency_ms_max: 20,
            jitter_ms: 0,
            loss_one_in: 0,
            duplication_one_in: 0,
            bytes_per_ms: 100,
        }
    }

    fn links(plan: LinkPlan) -> Links {
        Links::new(plan, 4, Rng::new(1))
    }

    #[test]
    fn partitions_cut_the_way_they_say() {
        let mut links = links(plan());
        links.partition(1, &[0, 1], PartitionKind::Symmetric);
        assert!(links.open(0, 1) && links.open(2, 3));
        assert!(!links.open(0, 2) && !links.open(2, 0));
        links.rejoin(1);
        links.partition(2, &[0], PartitionKind::Asymmetric);
        assert!(!links.open(0, 3) && links.open(3, 0));
        assert_eq!(links.send(Time(0), 0, 3), Fate::Lost);
        links.heal();
        assert!(
            matches!(links.send(Time(0), 0, 3), Fate::Arrives(at) if (10..=20).contains(&at.0))
        );
    }

    #[test]
    fn a_clog_holds_and_lets_go() {
        let mut links = links(plan());
        links.clog(2);
        assert_eq!(links.send(Time(0), 0, 2), Fate::Held);
        assert_eq!(links.send(Time(0), 2, 1), Fate::Held);
        assert!(matches!(links.send(Time(0), 0, 1), Fate::Arrives(_)));
        links.unclog(2);
        assert!(matches!(links.send(Time(0), 0, 2), Fate::Arrives(_)));
    }

    #[test]
    fn loss_duplication_and_reordering_are_counted_when_they_happen() {
        let mut links =
            links(LinkPlan { loss_one_in: 5, duplication_one_in: 5, jitter_ms: 50, ..plan() });
        let mut lost = 0;
        let mut twice = 0;
        for now in 0..1000 {
            match links.send(Time(now), 0, 1) {
                Fate::Lost => lost += 1,
                Fate::Twice(_, _) => twice += 1,
                Fate::Held | Fate::Arrives(_) => {}
            }
        }
        assert!((100..300).contains(&lost) && (80..300).contains(&twice));
        assert_eq!(links.counts()["loss"], lost);
        assert_eq!(links.counts()["duplication"], twice);
        assert!(links.counts()["reordering"] > 0);
    }

    #[test]
    fn content_waits_for_content_before_it() {
        let mut links = links(plan());
        let first = links.carry(Time(0), 0, 1, 10_000).unwrap();
        let second = links.carry(Time(0), 0, 1, 10_000).unwrap();
        assert_eq!(second.since(first).0, 100);
        assert!(first.0 >= 110);
    }

    #[test]
    fn a_large_swarm_is_sparse_and_whole() {
        let links = Links::new(plan(), 60, Rng::new(3));
        let mut reached = [false; 60];
        let mut open = vec![0];
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut reached[node], true) {
                open.extend(links.neighbours(node));
            }
        }
        assert!(reached.iter().all(|reached| *reached));
        assert!((0..60).all(|node| links.neighbours(node).len() < 24));
    }
}
