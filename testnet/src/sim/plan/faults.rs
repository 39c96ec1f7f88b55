//! The fault plan of a seed: which kinds happen at all, then when and to whom.

use atoll_protocol::genesis::RosterPolicy;
use atoll_protocol::rng::Rng;
use atoll_protocol::time::Time;

use super::super::{FaultEvent, PartitionKind, Role, Setup};
use crate::check::NodeIndex;

/// Draws the faults of a run that is otherwise set up.
pub(super) fn draw(setup: &Setup, rng: &mut Rng) -> Vec<(Time, FaultEvent)> {
    let mut plan = Plan { setup, rng: rng.fork(), events: Vec::new(), partitions: 0 };
    // Each kind is in or out for the whole run: rare combinations come up that way.
    for kind in 0..10 {
        if plan.rng.ratio(2, 5) {
            plan.add(kind);
        }
    }
    if plan.rng.ratio(1, 6) {
        plan.revoke();
    }
    let heal = setup.heal_at;
    let mut events = plan.events;
    events.retain(|(at, _)| *at < heal);
    events.sort_by_key(|(at, _)| *at);
    events
}

struct Plan<'a> {
    setup: &'a Setup,
    rng: Rng,
    events: Vec<(Time, FaultEvent)>,
    partitions: u32,
}

impl Plan<'_> {
    fn add(&mut self, kind: u32) {
        match kind {
            0 => self.crashes(),
            1 => self.crashes_in_writes(),
            2 => self.partitions(),
            3 => self.long_partition(),
            4 => self.clogs(),
            5 => self.noise(),
            6 => self.spikes(),
            7 => self.leaves(),
            8 => self.clocks(),
            _ => self.speeds(),
        }
    }

    fn crashes(&mut self) {
        for _ in 0..self.rng.range(1, 6) {
            let (node, at) = (self.honest(), self.moment());
            let torn = self.rng.ratio(1, 2);
            self.at(at, FaultEvent::Crash { node, in_write: false, torn });
            self.restore(at, node);
        }
    }

    fn crashes_in_writes(&mut self) {
        for _ in 0..self.rng.range(1, 8) {
            let (node, at) = (self.honest(), self.moment());
            let torn = self.rng.ratio(1, 2);
            self.at(at, FaultEvent::Crash { node, in_write: true, torn });
            self.restore(at, node);
        }
    }

    fn restore(&mut self, crashed: u64, node: NodeIndex) {
        let back = crashed + self.rng.range(50, 15_000);
        self.at(back, FaultEvent::Restore(node));
    }

    fn partitions(&mut self) {
        for _ in 0..self.rng.range(1, 3) {
            let (from, length) = (self.moment(), self.rng.range(500, 20_000));
            let kind = if self.rng.ratio(1, 2) {
                PartitionKind::Symmetric
            } else {
                PartitionKind::Asymmetric
            };
            self.partition(from, length, kind);
        }
    }

    fn long_partition(&mut self) {
        let rounds = self.setup.genesis.rounds;
        let longest = self.setup.heal_at.0 / 2;
        let wanted = rounds.forget_ms.min(longest) + self.rng.range(2_000, 20_000);
        let from = self.rng.range(5_000, longest);
        self.partition(from, wanted, PartitionKind::Long);
    }

    fn partition(&mut self, from: u64, length: u64, kind: PartitionKind) {
        let mut nodes: Vec<NodeIndex> = (0..self.setup.islands.len()).collect();
        self.rng.shuffle(&mut nodes);
        let size = self.rng.range(1, nodes.len() as u64 / 2);
        nodes.truncate(usize::try_from(size).expect("below a usize"));
        self.partitions += 1;
        let name = self.partitions;
        self.at(from, FaultEvent::Partition { name, side: nodes, kind });
        self.at(from + length, FaultEvent::Rejoin(name));
    }

    /// Clogs some nodes one by one and lets them go in another order.
    fn clogs(&mut self) {
        let mut nodes: Vec<NodeIndex> = (0..self.setup.islands.len()).collect();
        self.rng.shuffle(&mut nodes);
        let count = self.rng.range(1, nodes.len() as u64);
        nodes.truncate(usize::try_from(count).expect("below a usize"));
        let mut at = self.moment();
        for node in nodes.clone() {
            self.at(at, FaultEvent::Clog(node));
            at += self.rng.range(10, 1500);
        }
        self.rng.shuffle(&mut nodes);
        for node in nodes {
            at += self.rng.range(10, 1500);
            self.at(at, FaultEvent::Unclog(node));
        }
    }

    fn noise(&mut self) {
        let (from, length) = (self.moment(), self.rng.range(5_000, 30_000));
        let links = self.setup.links;
        let (loss, duplication) = (self.rng.range(3, 20), self.rng.range(3, 20));
        let jitter = self.rng.range(50, 1500);
        self.at(from, FaultEvent::Loss(loss));
        self.at(from, FaultEvent::Duplication(duplication));
        self.at(from, FaultEvent::Reordering(jitter));
        self.at(from + length, FaultEvent::Loss(links.loss_one_in));
        self.at(from + length, FaultEvent::Duplication(links.duplication_one_in));
        self.at(from + length, FaultEvent::Reordering(links.jitter_ms));
    }

    fn spikes(&mut self) {
        for _ in 0..self.rng.range(1, 3) {
            let (node, at) = (self.any(), self.moment());
            let extra_ms = self.rng.range(200, 4_000);
            self.at(at, FaultEvent::LatencySpike { node, extra_ms });
            let over = at + self.rng.range(1_000, 15_000);
            self.at(over, FaultEvent::LatencySpike { node, extra_ms: 0 });
        }
    }

    fn leaves(&mut self) {
        let (node, at) = (self.honest(), self.moment());
        self.at(at, FaultEvent::Leave(node));
        if self.rng.ratio(2, 3) {
            let back = at + self.rng.range(1_000, 20_000);
            self.at(back, FaultEvent::Return(node));
        }
    }

    fn clocks(&mut self) {
        for _ in 0..self.rng.range(1, 4) {
            let (node, at) = (self.honest(), self.moment());
            let permille = u32::try_from(self.rng.range(950, 1050)).expect("near a thousand");
            self.at(at, FaultEvent::Skew { node, permille });
        }
    }

    fn speeds(&mut self) {
        for _ in 0..self.rng.range(1, 4) {
            let (node, at) = (self.honest(), self.moment());
            let step_ms = self.rng.range(40, 1_500);
            let step_ms = u32::try_from(step_ms).expect("a second or so");
            self.at(at, FaultEvent::Slow { node, step_ms });
        }
    }

    fn revoke(&mut self) {
        let excluded = self.any();
        let open = matches!(self.setup.genesis.roster, RosterPolicy::Open);
        if excluded != 0 && !open && self.setup.islands.len() > 4 {
            let at = self.moment();
            self.at(at, FaultEvent::Revoke { steward: 0, node: excluded });
        }
    }

    fn at(&mut self, at: u64, event: FaultEvent) {
        self.events.push((Time(at), event));
    }

    /// A moment before the heal, but not in the very first seconds.
    fn moment(&mut self) -> u64 {
        self.rng.range(2_000, self.setup.heal_at.0 - 2_000)
    }

    fn any(&mut self) -> NodeIndex {
        usize::try_from(self.rng.below(self.setup.islands.len() as u64)).expect("below a usize")
    }

    fn honest(&mut self) -> NodeIndex {
        let islands = self.setup.islands.iter().enumerate();
        let honest: Vec<NodeIndex> = islands
            .filter(|(_, island)| island.role == Role::Honest)
            .map(|(node, _)| node)
            .collect();
        *self.rng.pick(&honest).expect("every swarm has honest nodes")
    }
}
