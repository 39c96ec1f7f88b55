//! What a plan must stay below: limits of the protocol, of the link and of a large host.

use atoll_protocol::limits::{
    FRAGMENT_ELEMENTS_MAX, FRAGMENTS_MAX, FRONTIER_ENTRIES_MAX, MESSAGE_BYTES_MAX,
    PEER_MESSAGES_PER_SECOND, PEERS_MAX, ROUND_AUTHORS_MAX,
};
use serde::Serialize;

use super::inputs::Inputs;
use super::sizing::Sizing;
use super::words;

/// One thing that a plan needs and what there is of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// What.
    pub name: &'static str,
    /// What is needed, in words.
    pub value: String,
    /// The most there is, in words.
    pub most: String,
    /// Whether that is enough.
    pub holds: bool,
}

/// Every bound, in the order in which they should be looked at.
pub fn bounds(inputs: &Inputs, sizing: &Sizing) -> Vec<Bound> {
    let mut bounds = protocol(inputs, sizing).to_vec();
    bounds.extend(time(inputs, sizing));
    bounds.extend(host(sizing));
    bounds
}

/// Limits that a node refuses to pass.
fn protocol(inputs: &Inputs, sizing: &Sizing) -> [Bound; 6] {
    let islands = inputs.islands as f64;
    let parameters = inputs.params.div_ceil(inputs.fragments) as f64;
    let history = HISTORY_BYTES + HISTORY_ENTRY_BYTES + CONTRIBUTION_ID_BYTES * islands;
    [
        count("fragments", inputs.fragments as f64, FRAGMENTS_MAX as f64),
        count("parameters of a fragment", parameters, FRAGMENT_ELEMENTS_MAX as f64),
        count("islands in a round", islands, ROUND_AUTHORS_MAX as f64),
        count("peers a node keeps track of", islands, PEERS_MAX as f64),
        count(
            "messages/s from one peer",
            sizing.gossip.messages_per_second,
            PEER_MESSAGES_PER_SECOND as f64,
        ),
        bound("history of one round", history, MESSAGE_BYTES_MAX as f64, words::bytes),
    ]
}

/// What must be done in time.
fn time(inputs: &Inputs, sizing: &Sizing) -> [Bound; 4] {
    let heartbeat = inputs.heartbeat_ms as f64 / 1e3;
    let pages = inputs.fragments.div_ceil(FRONTIER_ENTRIES_MAX as u64) as f64;
    let horizon = inputs.horizon as f64 * sizing.round_seconds;
    let snapshot = 8.0 * sizing.join.snapshot_bytes / inputs.link.down;
    let patience =
        INSTALL_HEARTBEATS * heartbeat + sizing.join.snapshot_bytes / SNAPSHOT_BYTES_PER_SECOND_MIN;
    let join = sizing.join.seconds.unwrap_or(f64::INFINITY);
    [
        bound(
            "frontiers of all fragments",
            pages * heartbeat,
            sizing.round_seconds,
            words::seconds,
        ),
        bound(
            "rounds over the link",
            sizing.round.bits_per_second,
            inputs.link.least(),
            words::bits_per_second,
        ),
        bound("joining within the horizon", join, horizon, words::seconds),
        bound("snapshots before it gives up", snapshot, patience, words::seconds),
    ]
}

/// What a large host has.
fn host(sizing: &Sizing) -> [Bound; 2] {
    [
        bound("memory of the host", sizing.host_bytes(), HOST_BYTES, words::bytes),
        count("threads that fold", sizing.threads, HOST_THREADS),
    ]
}

fn count(name: &'static str, value: f64, most: f64) -> Bound {
    bound(name, value, most, words::number)
}

fn bound(name: &'static str, value: f64, most: f64, say: impl Fn(f64) -> String) -> Bound {
    let said = if value.is_finite() { say(value) } else { "never".into() };
    Bound { name, value: said, most: say(most), holds: value <= most }
}

/// Bytes that a history keeps free, of an entry, and of each contribution in it: a sender
/// stops before these would not fit. docs/PROTOCOL.md, section 5.7.
const HISTORY_BYTES: f64 = 256.0;
const HISTORY_ENTRY_BYTES: f64 = 64.0;
const CONTRIBUTION_ID_BYTES: f64 = 32.0;
/// Heartbeats after which a snapshot that does not come is given up: docs/PROTOCOL.md, 11.12.
const INSTALL_HEARTBEATS: f64 = 5.0;
/// And the rate below which even one that comes is.
const SNAPSHOT_BYTES_PER_SECOND_MIN: f64 = 128e3;
/// A large host of today.
const HOST_BYTES: f64 = 2e12;
const HOST_THREADS: f64 = 128.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::inputs::Link;

    fn broken(inputs: &Inputs) -> Vec<&'static str> {
        let bounds = bounds(inputs, &Sizing::new(inputs));
        bounds.iter().filter(|bound| !bound.holds).map(|bound| bound.name).collect()
    }

    #[test]
    fn a_small_run_on_a_good_link_holds() {
        let link = Link { up: 1e9, down: 1e9 };
        let inputs = Inputs { params: 100_000_000, link, ..Inputs::default() };
        assert_eq!(broken(&inputs), [""; 0]);
    }

    #[test]
    fn each_bound_breaks_alone_where_it_should() {
        let small = Inputs { params: 1_000_000, fragments: 1, ..Inputs::default() };
        let steps = 10_000;
        let many = |islands| Inputs { islands, steps, ..small };
        assert_eq!(broken(&many(1024)), [""; 0]);
        assert_eq!(broken(&many(1025)), ["islands in a round"]);
        assert!(broken(&many(2049)).contains(&"peers a node keeps track of"));
        assert!(broken(&many(8192)).contains(&"history of one round"));
        assert!(!broken(&many(8000)).contains(&"history of one round"));
        let paged = Inputs { fragments: 1024, steps: 100, step_ms: 1000, ..small };
        assert_eq!(broken(&paged), ["frontiers of all fragments"]);
        let thin = Inputs { link: Link { up: 1e6, down: 1e9 }, ..Inputs::default() };
        assert!(broken(&thin).contains(&"rounds over the link"));
    }
}
