//! What a run needs, by the formulas of `docs/SCALE.md`.

use atoll_protocol::codec::Codec;
use atoll_protocol::limits::FRONTIER_ENTRIES_MAX;
use atoll_protocol::outer::fold_bytes;
use serde::Serialize;

use super::inputs::{Inputs, bits_per_parameter};

/// What one island of a run needs. Bytes, seconds and bits in a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizing {
    /// How contributions reach everyone.
    pub way: Way,
    /// One island's payloads of all fragments.
    pub payload_bytes: f64,
    /// One island's payload of one fragment.
    pub fragment_payload_bytes: f64,
    /// One round of every fragment.
    pub round: Exchange,
    /// Seconds between rounds of one fragment while the link keeps up.
    pub round_seconds: f64,
    /// The same over the given link: islands train on, rounds come later.
    pub round_seconds_over_link: f64,
    /// Share of the link that rounds take.
    pub link_used: f64,
    /// The link that a utilisation needs.
    pub utilisation: Utilisation,
    /// Memory.
    pub memory: Memory,
    /// Disk.
    pub disk: Spread,
    /// What a new island fetches.
    pub join: Join,
    /// Announcements and frontiers.
    pub gossip: Gossip,
    /// Threads that check, fold, capture and adopt all the time.
    pub threads: f64,
}

/// How contributions reach everyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Everyone pulls every payload and merges it: what is built.
    Everyone,
    /// A few reducers merge each piece and everyone pulls the merged piece: not built.
    Committees,
}

/// What one round of every fragment moves, for one island.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Exchange {
    /// Bytes received.
    pub down_bytes: f64,
    /// Bytes sent, the mean over islands.
    pub up_bytes: f64,
    /// Bytes that an island must send itself if others relay all they can.
    pub up_bytes_least: f64,
    /// What that is in each direction, if every fragment has a round in H steps.
    pub bits_per_second: f64,
}

/// The link that 50, 90 and 99 % need.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Utilisation {
    /// Islands train on and rounds take this share of their schedule.
    pub never_waits: [f64; 3],
    /// Islands stop until a round is exchanged.
    pub waits: [f64; 3],
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// Parameters, gradients and two moments, without activations.
    pub island: f64,
    /// The outer version and pending of the island's account, and the head that it adopts.
    pub account: f64,
    /// States and merges that the folds have at most.
    pub fold: f64,
    /// Payloads of the round that is being merged.
    pub merging: f64,
}

/// A calm swarm, and the most it can come to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Rounds become stable after about three.
    pub calm: f64,
    /// As many rounds as the horizon allows wait for agreement.
    pub most: f64,
}

/// What a new island fetches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Join {
    /// Snapshots of all fragments.
    pub snapshot_bytes: f64,
    /// Contributions to the rounds after them, at the start.
    pub rounds_bytes: f64,
    /// Until it has caught up; none if the link does not even carry the rounds.
    pub seconds: Option<f64>,
}

/// Announcements and frontiers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gossip {
    /// Different messages that arrive, and are verified, in a second.
    pub messages_per_second: f64,
    /// What they take in each direction, copies included.
    pub bits_per_second: f64,
}

impl Sizing {
    /// What `inputs` need if everyone pulls every payload.
    pub fn new(inputs: &Inputs) -> Self {
        Self::with(inputs, Way::Everyone)
    }

    /// What `inputs` need.
    pub fn with(inputs: &Inputs, way: Way) -> Self {
        let (params, islands) = (inputs.params as f64, inputs.islands as f64);
        let fragments = inputs.fragments as f64;
        let cycle = inputs.cycle_seconds();
        let payload = params * inputs.bits() / 8.0;
        let round = exchange(inputs, way, payload);
        let merged = params * MERGED_BITS / 8.0;
        let reducers = REDUCERS.min(islands);
        // What a node keeps of a round, and what a new island must fetch of it.
        let (kept, wanted, contributions) = match way {
            Way::Everyone => (islands * payload, islands * payload, islands),
            Way::Committees => (reducers * payload + merged, merged, reducers),
        };
        let own = inputs.horizon as f64 * payload;
        let standing = STATES_ON_DISK * params + own;
        let unmerged = if way == Way::Committees { MERGED_NANOSECONDS } else { 0.0 };
        let each = CONTRIBUTION_NANOSECONDS * contributions + ISLAND_NANOSECONDS + unmerged;
        let rate = round.bits_per_second;
        Self {
            way,
            payload_bytes: payload,
            fragment_payload_bytes: payload / fragments,
            round,
            round_seconds: cycle,
            round_seconds_over_link: cycle.max(rate * cycle / inputs.link.least()),
            link_used: rate / inputs.link.least(),
            utilisation: Utilisation {
                never_waits: SHARES.map(|share| share * rate),
                waits: SHARES.map(|share| rate * share / (1.0 - share)),
            },
            memory: Memory {
                island: ISLAND_BYTES * params,
                account: ACCOUNT_BYTES * params,
                fold: fold_bytes(inputs.params) as f64,
                merging: contributions * payload / fragments,
            },
            disk: Spread {
                calm: standing + ROUNDS_CALM * kept,
                most: standing + inputs.horizon as f64 * kept,
            },
            join: join(inputs, rate, ROUNDS_CALM * wanted),
            gossip: gossip(inputs),
            threads: params * each * 1e-9 / cycle,
        }
    }

    /// Memory of the host at most, beside the island's own.
    pub fn host_bytes(&self) -> f64 {
        self.memory.account + self.memory.fold + self.memory.merging
    }

    /// Seconds until an island that stood still for `stopped` seconds has what it missed, over
    /// `link` bits in a second: the rounds, or a snapshot if that is shorter. None if the link
    /// does not even carry the rounds that go on meanwhile.
    pub fn catch_up_seconds(&self, link: f64, stopped: f64) -> Option<f64> {
        let rate = self.round.bits_per_second;
        let spare = (link > rate).then_some(link - rate)?;
        let rounds = rate * stopped / spare;
        let snapshot = 8.0 * (self.join.snapshot_bytes + self.join.rounds_bytes) / spare;
        Some(rounds.min(snapshot))
    }
}

fn exchange(inputs: &Inputs, way: Way, payload: f64) -> Exchange {
    let others = inputs.islands as f64 - 1.0;
    let (bytes, least) = match way {
        // Each copy that somebody receives is sent by somebody: the means are equal.
        Way::Everyone => (others * payload, payload.min(others * payload)),
        Way::Committees if others > 0.0 => {
            let reducers = REDUCERS.min(inputs.islands as f64);
            let merged = inputs.params as f64 * MERGED_BITS / 8.0;
            (reducers * payload + merged, reducers * payload)
        }
        Way::Committees => (0.0, 0.0),
    };
    Exchange {
        down_bytes: bytes,
        up_bytes: bytes,
        up_bytes_least: least,
        bits_per_second: 8.0 * bytes / inputs.cycle_seconds(),
    }
}

fn join(inputs: &Inputs, rate: f64, rounds_bytes: f64) -> Join {
    let snapshot_bytes = SNAPSHOT_BYTES * inputs.params as f64;
    let spare = inputs.link.down - rate;
    let seconds = (spare > 0.0).then(|| 8.0 * (snapshot_bytes + rounds_bytes) / spare);
    Join { snapshot_bytes, rounds_bytes, seconds }
}

fn gossip(inputs: &Inputs) -> Gossip {
    let islands = inputs.islands as f64;
    let heartbeat = inputs.heartbeat_ms as f64 / 1e3;
    let frontiers = islands / heartbeat;
    let announcements = islands * inputs.fragments as f64 / inputs.cycle_seconds();
    let entries = inputs.fragments.min(FRONTIER_ENTRIES_MAX as u64) as f64;
    let frontier_bytes = FRONTIER_BYTES + FRONTIER_ENTRY_BYTES * entries;
    let bytes = frontiers * frontier_bytes + announcements * ANNOUNCEMENT_BYTES;
    Gossip {
        messages_per_second: frontiers + announcements,
        bits_per_second: 8.0 * GOSSIP_COPIES * bytes,
    }
}

/// Reducers of a piece (R): two of three that agree are enough, so one may be gone or lie.
pub(super) const REDUCERS: f64 = 3.0;
/// A merged piece must reach everyone bit for bit (m), so it is not compressed with loss.
pub(super) const MERGED_BITS: f64 = bits_per_parameter(Codec::F32);
/// The shares that utilisation is told for.
pub(super) const SHARES: [f64; 3] = [0.5, 0.9, 0.99];
/// Rounds between base and head in a calm swarm: agreement shows two rounds below the head.
pub(super) const ROUNDS_CALM: f64 = 3.0;
/// Parameters and momentum as 32-bit floats: docs/PROTOCOL.md, section 8.
pub(super) const SNAPSHOT_BYTES: f64 = 8.0;
/// Parameters, gradients, two moments, 32-bit floats.
pub(super) const ISLAND_BYTES: f64 = 16.0;
/// Outer, pending, and the head to adopt.
pub(super) const ACCOUNT_BYTES: f64 = 12.0;
/// Two checkpoints of 12 bytes and two snapshots of 8: the new one is written beside the old.
pub(super) const STATES_ON_DISK: f64 = 40.0;
/// Checking (30.3 ms) and folding (33.0 ms) eight contributions of 4.2 million parameters on one
/// thread: docs/benchmarks.md.
pub(super) const CONTRIBUTION_NANOSECONDS: f64 = 1.88;
/// Capturing (12.5 ms) and adopting (5.1 ms) 4.2 million parameters, from the same table.
pub(super) const ISLAND_NANOSECONDS: f64 = 4.19;
/// Decoding a merged piece: `f32` decodes at 0.21 of a copy of 9.1 GB/s.
pub(super) const MERGED_NANOSECONDS: f64 = 2.1;
/// Bytes of a frontier without entries, of an entry and of an announcement: docs/PROTOCOL.md.
pub(super) const FRONTIER_BYTES: f64 = 143.0;
pub(super) const FRONTIER_ENTRY_BYTES: f64 = 40.0;
pub(super) const ANNOUNCEMENT_BYTES: f64 = 158.0;
/// Neighbours in gossipsub's mesh: each may send a copy before it knows that we have it.
pub(super) const GOSSIP_COPIES: f64 = 6.0;

#[cfg(test)]
mod tests {
    use atoll_protocol::codec::encode;
    use atoll_protocol::fragment::FragmentMap;
    use atoll_protocol::id::FragmentId;
    use atoll_protocol::outer::OuterState;
    use atoll_protocol::pool::Inline;

    use super::*;
    use crate::plan::inputs::{Link, tests::bell};
    use crate::{scenario, sim};

    fn with_islands(islands: u64) -> Sizing {
        Sizing::new(&Inputs { islands, ..Inputs::default() })
    }

    #[test]
    fn the_published_size_by_hand() {
        let sizing = with_islands(4);
        assert!((sizing.payload_bytes - 4.98e9).abs() < 1.0);
        assert!((sizing.round.down_bytes - 14.94e9).abs() < 1.0);
        assert!((sizing.round.bits_per_second - 4.98e9).abs() < 1.0);
        assert!((sizing.utilisation.never_waits[0] - 2.49e9).abs() < 1.0);
        assert!((sizing.utilisation.waits[1] - 9.0 * 4.98e9).abs() < 1.0);
        let join = (8.0 * (96e9 + 3.0 * 4.0 * 4.98e9)) / (10e9 - 4.98e9);
        assert!((sizing.join.seconds.unwrap() - join).abs() < 1e-6);
    }

    #[test]
    fn one_island_exchanges_nothing() {
        let sizing = with_islands(1);
        assert_eq!((sizing.round.down_bytes, sizing.round.up_bytes), (0.0, 0.0));
        assert_eq!(sizing.catch_up_seconds(1.0, 60.0), Some(0.0));
        assert!((sizing.round_seconds_over_link - 24.0).abs() < 1e-9);
    }

    #[test]
    fn a_thin_link_makes_rounds_longer_and_joining_impossible() {
        let inputs = Inputs { link: Link { up: 1e9, down: 1e9 }, ..Inputs::default() };
        let sizing = Sizing::new(&inputs);
        assert!((sizing.round_seconds_over_link / (24.0 * 4.98) - 1.0).abs() < 1e-9);
        assert_eq!(sizing.join.seconds, None);
        assert_eq!(sizing.catch_up_seconds(inputs.link.down, 60.0), None);
    }

    #[test]
    fn catching_up_takes_the_shorter_way() {
        let sizing = with_islands(4);
        let short = sizing.catch_up_seconds(2.0 * 4.98e9, 10.0).unwrap();
        assert!((short - 10.0).abs() < 1e-9);
        let (long, longer) =
            (sizing.catch_up_seconds(10e9, 1e6), sizing.catch_up_seconds(10e9, 2e6));
        assert_eq!(long, longer);
        assert_eq!(long, sizing.join.seconds);
    }

    #[test]
    fn committees_cost_the_same_for_any_number_of_islands() {
        let rate = |islands| {
            let inputs = Inputs { islands, ..Inputs::default() };
            Sizing::with(&inputs, Way::Committees).round.bits_per_second
        };
        assert_eq!(rate(16).to_bits(), rate(10_000).to_bits());
        // They pay from twelve islands on.
        assert!(with_islands(11).round.bits_per_second < rate(11));
        assert!(with_islands(12).round.bits_per_second > rate(12));
    }

    #[test]
    fn a_snapshot_is_as_long_as_the_protocol_makes_it() {
        let state = OuterState::new(FragmentId(0), &vec![0.5; 100_000]);
        let ratio = state.bytes().len() as f64 / (SNAPSHOT_BYTES * 100_000.0);
        assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
    }

    /// Bytes of content that the simulated swarm fetches, for each node and round it closes.
    fn fetched_in_a_round(islands: usize) -> f64 {
        let mut setup = scenario::calm(3, islands);
        (setup.heal_at.0, setup.end_at.0) = (10_000, 20_000);
        let outcome = sim::run(setup, Vec::new(), None);
        assert_eq!(outcome.violation, None);
        outcome.content_bytes as f64 / outcome.rounds_closed as f64
    }

    /// Bytes of a payload of the simulator's fragments, the mean. They are so small that the
    /// codec's tables weigh more than in a real run, so it is asked instead of calculated.
    fn simulated_payload() -> f64 {
        let genesis = scenario::calm(3, 3).genesis;
        let map = FragmentMap::new(&genesis.tensors, genesis.fragments);
        let bytes = map.fragments().iter().map(|fragment| {
            let values = bell(fragment.elements);
            encode(genesis.codec, &values, &Inline).unwrap().len() as f64
        });
        bytes.sum::<f64>() / f64::from(genesis.fragments)
    }

    #[test]
    fn a_simulated_island_receives_one_payload_of_each_other() {
        let payload = simulated_payload();
        for islands in [3, 6] {
            let ratio = fetched_in_a_round(islands) / ((islands as f64 - 1.0) * payload);
            assert!((ratio - 1.0).abs() < 0.05, "{islands} islands: {ratio}");
        }
    }
}
